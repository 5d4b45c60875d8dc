"""Shares: of what there is only so much of, one caller holds so much at once, and agents together leave some to people.

So no agent can keep a person from the console, and none can keep out another. `Places` are had at once or not at all;
for `Turns` whoever comes waits until it is his. An agent is counted by its name, whatever number of tokens it has.
"""

import asyncio
import threading
from collections import Counter
from typing import Final, NamedTuple

from remit.desk.callers import AgentCaller, Caller
from remit.errors import Reason, Refused

THREADS_OF_AGENTS: Final = 48
THREADS_OF_PEOPLE: Final = 24
THREADS_OF_STRANGERS: Final = 8
THREADS: Final = THREADS_OF_AGENTS + THREADS_OF_PEOPLE + THREADS_OF_STRANGERS
"""That serve requests. Each kind of caller has its own, so that a page comes whatever agents have begun."""


class Share(NamedTuple):
    """`each` is the most of one caller, `all` the most of all callers of its kind."""

    each: int
    all: int


LISTENING_AGENT: Final = 16
LISTENING_PERSON: Final = 32
"""Each tab of a browser listens."""
REQUESTS_AT_ONCE: Final = 64
WAITING_AT_ONCE: Final = 48
"""How many may wait for long work. Whoever comes then is answered at once."""
WAITING_EACH: Final = 6
TURNS_OF_AGENTS: Final = Share(8, THREADS_OF_AGENTS)
TURNS_OF_PEOPLE: Final = Share(12, THREADS_OF_PEOPLE)
TURNS_OF_STRANGERS: Final = Share(THREADS_OF_STRANGERS, THREADS_OF_STRANGERS)


class Places:
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

    def take(self, caller: Caller) -> bool:
        """Whether there was one. Then it is given back with `leave`."""
        name = is_agent, _ = _name(caller)
        share = self._agents if is_agent else self._people
        with self._lock:
            if (
                self._by_kind.total() >= self._total
                or self._by_kind[is_agent] >= share.all
                or self._held[name] >= share.each
            ):
                return False
            self._held[name] += 1
            self._by_kind[is_agent] += 1
        return True

    def leave(self, caller: Caller) -> None:
        name = _name(caller)
        with self._lock:
            self._by_kind[name[0]] -= 1
            self._held[name] -= 1
            if not self._held[name]:
                del self._held[name]

    def require(self, caller: Caller) -> None:
        """The same, refused where there is none."""
        if not self.take(caller):
            raise Refused(
                Reason.RESOURCE_EXHAUSTED,
                f"too many at once: {self.what}",
                where=caller.id,
                next_step="Let one of those under way end first; then try again.",
            )


def listening_places(most: int) -> Places:
    return Places(
        "connections that listen to events",
        most,
        agents=Share(LISTENING_AGENT, _most_of_agents(most)),
        people=Share(LISTENING_PERSON, most),
    )


def request_places(connections: int) -> Places:
    """Of requests under way: each has a connection of its own, which is not taken from it."""
    each = min(REQUESTS_AT_ONCE, _most_of_agents(connections))
    return Places(
        "requests under way",
        connections,
        agents=Share(each, _most_of_agents(connections)),
        people=Share(each, connections),
    )


def waiting_places() -> Places:
    return Places(
        "requests that wait",
        WAITING_AT_ONCE,
        agents=Share(WAITING_EACH, _most_of_agents(WAITING_AT_ONCE)),
        people=Share(WAITING_EACH, WAITING_AT_ONCE),
    )


class Turn:
    """One, until it is given back; once is enough."""

    def __init__(self, queues: "Turns", name: tuple[str, str]) -> None:
        self._queues = queues
        self._name = name
        self._is_held = True

    def end(self) -> None:
        if self._is_held:
            self._is_held = False
            self._queues.end(self._name)


class Turns:
    """Who works now, in the order of coming: first among the requests of one caller, then among its kind.

    For one event loop, and from there only.
    """

    def __init__(
        self,
        agents: Share = TURNS_OF_AGENTS,
        people: Share = TURNS_OF_PEOPLE,
        strangers: Share = TURNS_OF_STRANGERS,
    ) -> None:
        self._shares = {"agent": agents, "person": people, "stranger": strangers}
        self._kinds = {kind: asyncio.Semaphore(share.all) for kind, share in self._shares.items()}
        self._own: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._users = Counter[tuple[str, str]]()

    async def take(self, caller: Caller | None, address: str) -> Turn:
        """Of a stranger, all that is known is the address."""
        if caller is None:
            name = "stranger", address
        else:
            name = "agent" if isinstance(caller, AgentCaller) else "person", caller.id
        own = self._own.setdefault(name, asyncio.Semaphore(self._shares[name[0]].each))
        self._users[name] += 1
        try:
            await own.acquire()
        except BaseException:
            self._forget(name)
            raise
        try:
            await self._kinds[name[0]].acquire()
        except BaseException:
            own.release()
            self._forget(name)
            raise
        return Turn(self, name)

    def end(self, name: tuple[str, str]) -> None:
        self._kinds[name[0]].release()
        self._own[name].release()
        self._forget(name)

    def _forget(self, name: tuple[str, str]) -> None:
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            del self._own[name]

    def __len__(self) -> int:
        """Callers that have a turn, or wait for one."""
        return len(self._own)


def _name(caller: Caller) -> tuple[bool, str]:
    return isinstance(caller, AgentCaller), caller.id


def _most_of_agents(total: int) -> int:
    """A quarter is left to people."""
    return max(1, total - total // 4)
