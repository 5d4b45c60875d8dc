"""Orders of the host to a sandboxed process, and their quotas. These are plain values: no model is sent to a child."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from remit.effects.registry import PathUse
from remit.sandbox.framing import MAX_GIVEN

MOST_THREADS: Final = 256
"""The most threads of a program. Each needs kernel memory that no quota includes."""
_OWN_FILES: Final = 32
"""Descriptors for standard streams, the lock, the channel, and the files that an effect opens itself."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The resources that one sandboxed process may use. The host kills a process that exceeds one of them."""

    memory_bytes: int
    read_bytes: int
    write_bytes: int
    seconds: float
    threads: int | None = None
    """The most threads at a time. None if they need not be counted, because the process cannot start one."""


@dataclass(frozen=True, slots=True)
class Build:
    """The kind of work that the children of one zygote can do. The default is for tasks."""

    exchanges: bool = False
    """Whether two files of a folder may be exchanged (RENAME_EXCHANGE). Needs no more rights than making a file."""
    engine: bool = False
    """Whether a database engine runs in the children. It opens files by name, within its folders, and locks them."""
    program: bool = False
    """Whether programs of a project run in the children, within one folder, with the modules of Remit's own Python."""
    network: bool = False
    """Whether an order may have one connection, which is made before the confinement. No other can follow."""
    open_files: int = 64
    packages: tuple[str, ...] = ()
    """The top-level packages that the effects import besides Remit and the standard library."""
    announces: bool = False
    """Whether fault points are reported to a supervisor, for tests."""

    @property
    def max_descriptors(self) -> int:
        """The most descriptors that an order may have. Most of `open_files` is for folders."""
        return min(MAX_GIVEN, (self.open_files - _OWN_FILES) // 4)


@dataclass(frozen=True, slots=True)
class FolderGrant:
    """A path of the inputs, split by the host into an allowed directory, the folders below it, and a name."""

    base: str
    parents: tuple[str, ...]
    name: str
    use: PathUse


@dataclass(frozen=True, slots=True)
class Order:
    """One call of an effect: `run`, or `settle` after an interrupted one."""

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
    """The time limit of the whole order, in place of the host's quota."""
    paces: tuple[float, ...] = ()
    """The time limit in seconds of each step, by its number. If it is empty, the child may report no steps."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources that a process had used when it ended, as measured by the host."""

    seconds: float
    memory_bytes: int
    read_bytes: int
    write_bytes: int
    threads: int = 1
