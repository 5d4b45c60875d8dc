"""What the host asks of one sandboxed process, and how much that may use. Plain values: no model crosses over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from remit.effects.registry import PathUse
from remit.sandbox.framing import MAX_GIVEN

MOST_THREADS: Final = 256
"""Of a program. Each takes memory of the kernel's that is in nobody's count."""
_OWN_FILES: Final = 32
"""Standard streams, the lock, the channel, and what an effect opens for itself."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one sandboxed process may use. Past any of them it is killed."""

    memory_bytes: int
    read_bytes: int
    write_bytes: int
    seconds: float
    threads: int | None = None
    """At a time. None where there is no need to count: nobody can start one."""


@dataclass(frozen=True, slots=True)
class Build:
    """What the children of one zygote are made for. The default is for tasks."""

    exchanges: bool = False
    """Whether two files of a folder may change places (RENAME_EXCHANGE). Needs no right that making one does not."""
    engine: bool = False
    """Whether a database engine runs in them: it opens files by name, within their folders, and locks them."""
    program: bool = False
    """Whether programs of a project run in them: within one folder, with the modules that Remit's own Python has."""
    network: bool = False
    """Whether an order may have one connection, which is made before its walls close. Afterwards no other can be."""
    open_files: int = 64
    packages: tuple[str, ...] = ()
    """What the effects import beside Remit and the standard library, by the names of the topmost packages."""
    announces: bool = False
    """Fault points are shown to a supervisor: for tests."""

    @property
    def max_descriptors(self) -> int:
        """Descriptors that an order may bring along. Most of the room is for folders, and a little for the rest."""
        return min(MAX_GIVEN, (self.open_files - _OWN_FILES) // 4)


@dataclass(frozen=True, slots=True)
class FolderGrant:
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
    places: Mapping[str, FolderGrant] = field(default_factory=dict)
    before: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    checkpoint: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Mapping[str, Any], ...] = ()
    network: bool = False
    """Whether the effect's `connect` is called. The children must be built for it."""
    restores: bool = False
    seconds: float | None = None
    """For the whole order, instead of the host's quota."""
    paces: tuple[float, ...] = ()
    """Seconds for each step, by its number. Empty: there are no steps, and the child can speak of none."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process had used when it ended, as far as the host saw."""

    seconds: float
    memory_bytes: int
    read_bytes: int
    write_bytes: int
    threads: int = 1
