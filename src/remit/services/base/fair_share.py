"""Fair shares of limited resources: one caller holds only a part of them, and all agents together leave some to people.

So an agent can block neither a person nor another agent. A `FairShareQuota` grants units at once or not at all. In a
`FairShareQueue`, callers wait for their turn. An agent is identified by its name, however many tokens it has.
"""

import asyncio
import threading
from collections import Counter
from typing import NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller, Caller


class Share(NamedTuple):
    """The limits of one kind of caller. `each` is the limit of one caller, `all` of all callers of the kind."""

    each: int
    all: int


class FairShareQuota:
    """A number of units that callers acquire without waiting. Safe to use from any thread."""

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
        """Acquire units, and return whether enough were free. The caller returns them with `release`."""
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
        """Acquire one unit, or refuse the request if none is free."""
        if not self.acquire(caller):
            raise self.refusal_error(caller)

    def refusal_error(self, caller: Caller) -> RefusedError:
        return RefusedError(
            Reason.RESOURCE_EXHAUSTED,
            f"too many at once: {self.what}",
            where=caller.id,
            next_step="Wait until some of them have ended, then try again.",
        )


class Turn:
    """The turn of one caller. Only the first `release` has an effect."""

    def __init__(self, queues: "FairShareQueue", name: tuple[str, str]) -> None:
        self._queues = queues
        self._share_key = name
        self._is_active = True

    def release(self) -> None:
        if self._is_active:
            self._is_active = False
            self._queues.release(self._share_key)


class FairShareQueue:
    """A queue for turns, in order of arrival: first among the requests of one caller, then among its kind.

    It belongs to one event loop and must be used only there.
    """

    def __init__(self, **shares: Share) -> None:
        """`shares` has the limits of each kind of caller, by the name of the kind."""
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
        """The number of callers that have a turn or wait for one."""
        return len(self._by_caller)


def _share_key(caller: Caller) -> tuple[bool, str]:
    return isinstance(caller, AgentCaller), caller.id
