"""Shares: of what there is only so much of, one caller holds so much at once, and agents together leave some to people.

So no agent can keep a person from the console, and none can keep out another. `FairShareQuota` are had at once or not
at all; for `FairShareQueue` whoever comes waits until it is his. An agent is counted by its name, whatever number of
tokens it has.
"""

import asyncio
import threading
from collections import Counter
from typing import NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller, Caller


class Share(NamedTuple):
    """`each` is the most of one caller, `all` the most of all callers of its kind."""

    each: int
    all: int


class FairShareQuota:
    """So many, counted in the moment of taking. Safe to use from any thread."""

    def __init__(self, what: str, total: int, *, agents: Share, people: Share) -> None:
        self.what = what
        self._total = total
        self._agents = agents
        self._people = people
        self._held = Counter[tuple[bool, str]]()
        self._by_kind = Counter[bool]()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._by_kind.total()

    def acquire(self, caller: Caller, number: int = 1) -> bool:
        """Whether there were so many. Then they are given back with `release`."""
        name = is_agent, _ = _share_key(caller)
        share = self._agents if is_agent else self._people
        with self._lock:
            if (
                self._by_kind.total() + number > self._total
                or self._by_kind[is_agent] + number > share.all
                or self._held[name] + number > share.each
            ):
                return False
            self._held[name] += number
            self._by_kind[is_agent] += number
        return True

    def release(self, caller: Caller, number: int = 1) -> None:
        name = _share_key(caller)
        with self._lock:
            self._by_kind[name[0]] -= number
            self._held[name] -= number
            if not self._held[name]:
                del self._held[name]

    def require(self, caller: Caller) -> None:
        """One of them, refused where there is none."""
        if not self.acquire(caller):
            raise self.refusal_error(caller)

    def refusal_error(self, caller: Caller) -> RefusedError:
        return RefusedError(
            Reason.RESOURCE_EXHAUSTED,
            f"too many at once: {self.what}",
            where=caller.id,
            next_step="Let some of what is under way end first; then try again.",
        )


class Turn:
    """One, until it is given back; once is enough."""

    def __init__(self, queues: "FairShareQueue", name: tuple[str, str]) -> None:
        self._queues = queues
        self._share_key = name
        self._is_active = True

    def release(self) -> None:
        if self._is_active:
            self._is_active = False
            self._queues.release(self._share_key)


class FairShareQueue:
    """Who works now, in the order of coming: first among the requests of one caller, then among its kind.

    For one event loop, and from there only.
    """

    def __init__(self, **shares: Share) -> None:
        """The share of each kind of caller, by its name."""
        self._shares = shares
        self._kinds = {kind: asyncio.Semaphore(share.all) for kind, share in shares.items()}
        self._by_caller: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._users = Counter[tuple[str, str]]()

    async def acquire(self, kind: str, caller_id: str) -> Turn:
        name = kind, caller_id
        semaphore = self._by_caller.setdefault(name, asyncio.Semaphore(self._shares[name[0]].each))
        self._users[name] += 1
        try:
            await semaphore.acquire()
        except BaseException:
            self._forget(name)
            raise
        try:
            await self._kinds[name[0]].acquire()
        except BaseException:
            semaphore.release()
            self._forget(name)
            raise
        return Turn(self, name)

    def release(self, name: tuple[str, str]) -> None:
        self._kinds[name[0]].release()
        self._by_caller[name].release()
        self._forget(name)

    def _forget(self, name: tuple[str, str]) -> None:
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            del self._by_caller[name]

    def __len__(self) -> int:
        """Callers that have a turn, or wait for one."""
        return len(self._by_caller)


def _share_key(caller: Caller) -> tuple[bool, str]:
    return isinstance(caller, AgentCaller), caller.id
