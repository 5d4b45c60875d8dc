"""How the server is shared out: the numbers, and what is counted by them (`remit.services.base.fair_share`)."""

from typing import Final

from remit.identity.callers import AgentCaller, Caller
from remit.services.base.fair_share import FairShareQueue, FairShareQuota, Share, Turn

AGENT_THREADS: Final = 48
PERSON_THREADS: Final = 24
ANONYMOUS_THREADS: Final = 8
THREADS: Final = AGENT_THREADS + PERSON_THREADS + ANONYMOUS_THREADS
"""That serve requests. Each kind of caller has its own, so that a page comes whatever agents have begun."""

LISTENING_AGENT: Final = 16
LISTENING_PERSON: Final = 32
"""Each tab of a browser listens."""
REQUESTS_AT_ONCE: Final = 64
BODY_BYTES: Final = 128 << 20
BODY_BYTES_EACH: Final = 32 << 20
WAITING_AT_ONCE: Final = 48
"""How many may wait for long work. Whoever comes then is answered at once."""
WAITING_EACH: Final = 6
AGENT_TURNS: Final = Share(8, AGENT_THREADS)
PERSON_TURNS: Final = Share(12, PERSON_THREADS)
ANONYMOUS_TURNS: Final = Share(ANONYMOUS_THREADS, ANONYMOUS_THREADS)


def build_listener_quota(most: int) -> FairShareQuota:
    return FairShareQuota(
        "connections that listen to events",
        most,
        agents=Share(LISTENING_AGENT, _most_of_agents(most)),
        people=Share(LISTENING_PERSON, most),
    )


def build_request_quota(connections: int) -> FairShareQuota:
    """Of requests under way: each has a connection of its own, which is not taken from it."""
    each = min(REQUESTS_AT_ONCE, _most_of_agents(connections))
    return FairShareQuota(
        "requests under way",
        connections,
        agents=Share(each, _most_of_agents(connections)),
        people=Share(each, connections),
    )


def build_body_quota(body_bytes: int) -> FairShareQuota:
    """Bytes of bodies that are held, each until its request was answered."""
    total = max(BODY_BYTES, 2 * body_bytes)
    each = max(BODY_BYTES_EACH, body_bytes)
    return FairShareQuota(
        "bytes of requests under way",
        total,
        agents=Share(each, _most_of_agents(total)),
        people=Share(each, total),
    )


def build_waiting_quota() -> FairShareQuota:
    return FairShareQuota(
        "requests that wait",
        WAITING_AT_ONCE,
        agents=Share(WAITING_EACH, _most_of_agents(WAITING_AT_ONCE)),
        people=Share(WAITING_EACH, WAITING_AT_ONCE),
    )


class WorkQueue(FairShareQueue):
    """Turns of requests to work: agents, people and strangers each have threads of their own."""

    def __init__(self) -> None:
        super().__init__(agent=AGENT_TURNS, person=PERSON_TURNS, stranger=ANONYMOUS_TURNS)

    async def of(self, caller: Caller | None, address: str) -> Turn:
        """Of a stranger, all that is known is the address."""
        if caller is None:
            return await self.acquire("stranger", address)
        return await self.acquire("agent" if isinstance(caller, AgentCaller) else "person", caller.id)


def _most_of_agents(total: int) -> int:
    """A quarter is left to people."""
    return max(1, total - total // 4)
