"""The registry of capabilities and their executors: a plain dict, filled in code, never by scanning for plug-ins.

A capability is a declaration. The host reads it to validate the inputs, open the folders and make the checkpoint. The
code that acts, named by `effect`, is loaded in the sandboxed process only.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from remit.contracts.base import Contract
from remit.core.errors import Reason, UsageError


class PathUse(StrEnum):
    """The use that an effect makes of an input path. The Linux kernel allows it no more in that path's folder."""

    READ = "read"
    """The file exists and stays."""
    TAKE = "take"
    """The file exists and is moved away or removed."""
    MAKE = "make"
    """The path does not exist, and the effect creates a file there."""
    WORK = "work"
    """The path is a folder. The effect reads, makes, changes and removes everything below it: copies for a program."""


@dataclass(frozen=True, slots=True)
class Capability:
    """The declaration of one action of an executor."""

    capability_id: str
    """The id that a task names, such as `FILE_MOVE`."""
    executor_id: str
    """The id of the executor. It is a part of every signed result."""
    effect: str
    """`package.module:name` of an object with the methods of `Effect`."""
    inputs: type[Contract]
    """The model of the inputs of a task."""
    output: type[Contract]
    """The model of the dictionary that `Effect.run` returns."""
    paths: Mapping[str, PathUse] = field(default_factory=dict)
    """The inputs that are paths. The effect reaches the folders of these, and no other file."""
    snapshot: str | None = None
    """The input whose file is kept, whole, before the effect. Without a snapshot the effect does not run."""
    restores: str | None = None
    """The input that names a snapshot. The effect receives its bytes, and may set owner, mode and attributes."""
    must_be_reversible: bool = False
    """Whether a task that does not ask to be reversible is refused."""
    network: bool = False
    """Whether the effect may use the network."""


class Registry:
    """The capabilities by id. To add an executor, register its capabilities here. Nothing else changes."""

    def __init__(self, capabilities: Iterable[Capability] = ()) -> None:
        self._by_id: dict[str, Capability] = {}
        for capability in capabilities:
            self.register(capability)

    def register(self, capability: Capability) -> None:
        """Add a capability. Do this before the first task.

        Args:
            capability: The declaration.

        Raises:
            UsageError: A capability with this id is registered already.
        """
        if capability.capability_id in self._by_id:
            raise UsageError(Reason.MISUSE, f"the capability {capability.capability_id} is already registered")
        self._by_id[capability.capability_id] = capability

    def get(self, capability_id: str) -> Capability | None:
        return self._by_id.get(capability_id)

    def effects(self) -> tuple[str, ...]:
        """Return every effect that an order may name to a sandboxed process."""
        return tuple(dict.fromkeys(capability.effect for capability in self._by_id.values()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)
