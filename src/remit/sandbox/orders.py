"""What the host asks of one sandboxed process, and how much that may use. Plain values: no model crosses over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from remit.effects.registry import PathUse


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one sandboxed process may use. Past any of them it is killed."""

    memory_bytes: int
    read_bytes: int
    write_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Place:
    """A path of the inputs, as the host took it apart: an allowed directory, the folders below it, a name."""

    base: str
    parents: tuple[str, ...]
    name: str
    use: PathUse


@dataclass(frozen=True, slots=True)
class Order:
    """One call of an effect: `run`, or `settle` after one that was cut short."""

    effect: str
    call: Literal["run", "finish", "undo"]
    task_id: str
    capability_id: str
    inputs: Mapping[str, Any]
    reversible: bool
    part_name: str
    places: Mapping[str, Place] = field(default_factory=dict)
    before: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    checkpoint: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Mapping[str, Any], ...] = ()
    network: bool = False
    restores: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process had used when it ended, as far as the host saw."""

    seconds: float
    memory_bytes: int
    read_bytes: int
    write_bytes: int
