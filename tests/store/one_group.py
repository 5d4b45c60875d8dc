"""Several callers brought together in one group, so that what a group does can be tested and not only hoped for."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch
from tests.support.store_fixtures import World


def event(tenant_id: str = "acme", **payload: Any) -> NewEntry:
    return NewEntry(tenant_id, "test.event", "corr", payload)


class Gate:
    """Holds the leader inside its transaction until everybody else is waiting, so that they make one group."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.thread = threading.Thread(target=lambda: world.ledger.transact(self._hold))

    def _hold(self, batch: Batch) -> None:
        batch.append(event("gate"))
        self.entered.set()
        self.opened.wait(20)

    def __enter__(self) -> Self:
        self.thread.start()
        assert self.entered.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.set()
        self.thread.join()


def run_as_one_group(world: World, works: Sequence[Callable[[Batch], Any]]) -> list[Any]:
    """Results in order, or the exceptions that were raised."""
    before = world.ledger.transactions

    def call(work: Callable[[Batch], Any]) -> Any:
        try:
            return world.ledger.transact(work)
        except BaseException as problem:  # noqa: BLE001 - it is the result
            return problem

    with ThreadPoolExecutor(len(works)) as pool:
        with Gate(world):
            futures = [pool.submit(call, work) for work in works]
            while len(world.ledger._group._waiting) < len(works):  # noqa: SLF001 - nobody else knows who waits
                time.sleep(0.002)
        results = [future.result() for future in futures]
    assert world.ledger.transactions <= before + 2, "the gate's transaction, and one for all others"
    return results
