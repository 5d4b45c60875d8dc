"""Which executor implements which capability: a plain dict, filled in code, never by scanning for plug-ins.

A capability is a declaration. The host reads it to close the inputs, open the folders and make the checkpoint; the code
that acts, named by `effect`, is loaded in the sandboxed process only.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from remit.contracts.base import Contract
from remit.core.errors import Reason, UsageError


class PathUse(StrEnum):
    """What an effect does with a path of its inputs, and so what the kernel lets it do in that path's folder."""

    READ = "read"
    """The file exists and stays."""
    TAKE = "take"
    """The file exists and is moved away or removed."""
    MAKE = "make"
    """Nothing is there, and a file will be."""
    WORK = "work"
    """The folder itself: everything below it is read, made, changed and removed. For copies that a program works on."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing an executor can do."""

    capability_id: str
    executor_id: str
    effect: str
    """`package.module:name` of an `effects.work.Effect`."""
    inputs: type[Contract]
    output: type[Contract]
    paths: Mapping[str, PathUse] = field(default_factory=dict)
    """The inputs that are paths. The effect reaches the folders of these, and no other file."""
    snapshot: str | None = None
    """The input whose file is kept, whole, before the effect: no snapshot, no effect."""
    restores: str | None = None
    """The input that names a snapshot. The effect is given its bytes, and may set owner, mode and attributes."""
    must_be_reversible: bool = False
    network: bool = False
    """Whether the effect may use the network. Declared here or denied."""


class Registry:
    """Adding an executor is registering its capabilities here; nothing else changes."""

    def __init__(self, capabilities: Iterable[Capability] = ()) -> None:
        self._by_id: dict[str, Capability] = {}
        for capability in capabilities:
            self.register(capability)

    def register(self, capability: Capability) -> None:
        if capability.capability_id in self._by_id:
            raise UsageError(Reason.MISUSE, f"the capability {capability.capability_id} is registered already")
        self._by_id[capability.capability_id] = capability

    def get(self, capability_id: str) -> Capability | None:
        return self._by_id.get(capability_id)

    def effects(self) -> tuple[str, ...]:
        """Every effect that a sandboxed process may be asked for."""
        return tuple(dict.fromkeys(capability.effect for capability in self._by_id.values()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)
