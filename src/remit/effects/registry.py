"""Which executor implements which capability: a plain dict, filled in code, never by scanning for plug-ins."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from remit.contracts.base import Contract
from remit.contracts.task import TaskManifest
from remit.errors import Misuse, Reason


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing an executor can do. `run` is called with a manifest whose inputs were closed by its contract."""

    capability_id: str
    executor_id: str
    run: Callable[[TaskManifest], Contract]


class Registry:
    """Adding an executor is registering its capabilities here; nothing else changes."""

    def __init__(self, capabilities: Iterable[Capability] = ()) -> None:
        self._by_id: dict[str, Capability] = {}
        for capability in capabilities:
            self.register(capability)

    def register(self, capability: Capability) -> None:
        if capability.capability_id in self._by_id:
            raise Misuse(Reason.MISUSE, f"the capability {capability.capability_id} is registered already")
        self._by_id[capability.capability_id] = capability

    def get(self, capability_id: str) -> Capability | None:
        return self._by_id.get(capability_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)
