"""The fair shares of the web server: its numbers and its quotas (see `remit.services.base.fair_share`)."""

from typing import Final

from remit.identity.callers import AgentCaller, Caller
from remit.services.base.fair_share import FairShareQueue, FairShareQuota, Share, Turn

AGENT_THREADS: Final = 48
PERSON_THREADS: Final = 24
ANONYMOUS_THREADS: Final = 8
THREADS: Final = AGENT_THREADS + PERSON_THREADS + ANONYMOUS_THREADS
"""The threads that serve requests. Each kind of caller has its own, so agents cannot block the pages of people."""

LISTENING_AGENT: Final = 16
LISTENING_PERSON: Final = 32
"""Event streams of one person. Each tab of a browser opens one."""
REQUESTS_AT_ONCE: Final = 64
BODY_BYTES: Final = 128 << 20
BODY_BYTES_EACH: Final = 32 << 20
WAITING_AT_ONCE: Final = 48
"""The limit of requests that wait for long work. Requests beyond it are answered at once."""
WAITING_EACH: Final = 6
AGENT_TURNS: Final = Share(8, AGENT_THREADS)
PERSON_TURNS: Final = Share(12, PERSON_THREADS)
ANONYMOUS_TURNS: Final = Share(ANONYMOUS_THREADS, ANONYMOUS_THREADS)


def build_listener_quota(most: int) -> FairShareQuota:
    return FairShareQuota(
        "open event streams",
        most,
        agents=Share(LISTENING_AGENT, _most_of_agents(most)),
        people=Share(LISTENING_PERSON, most),
    )


def build_request_quota(connections: int) -> FairShareQuota:
    """Return the quota of running requests. A running request keeps its connection."""
    each = min(REQUESTS_AT_ONCE, _most_of_agents(connections))
    return FairShareQuota(
        "running requests",
        connections,
        agents=Share(each, _most_of_agents(connections)),
        people=Share(each, connections),
    )


def build_body_quota(body_bytes: int) -> FairShareQuota:
    """Return the quota of the bytes of bodies. A body counts until its request is answered."""
    total = max(BODY_BYTES, 2 * body_bytes)
    each = max(BODY_BYTES_EACH, body_bytes)
    return FairShareQuota(
        "bytes of running requests",
        total,
        agents=Share(each, _most_of_agents(total)),
        people=Share(each, total),
    )


def build_waiting_quota() -> FairShareQuota:
    return FairShareQuota(
        "waiting requests",
        WAITING_AT_ONCE,
        agents=Share(WAITING_EACH, _most_of_agents(WAITING_AT_ONCE)),
        people=Share(WAITING_EACH, WAITING_AT_ONCE),
    )


class WorkQueue(FairShareQueue):
    """The queue for the threads. Agents, people and unauthenticated requests each have their own threads."""

    def __init__(self) -> None:
        super().__init__(agent=AGENT_TURNS, person=PERSON_TURNS, stranger=ANONYMOUS_TURNS)

    async def of(self, caller: Caller | None, address: str) -> Turn:
        """Wait for a turn. An unauthenticated request is identified by its address."""
        if caller is None:
            return await self.acquire("stranger", address)
        return await self.acquire("agent" if isinstance(caller, AgentCaller) else "person", caller.id)


def _most_of_agents(total: int) -> int:
    """Return the share of all agents. A quarter of the total is left to people."""
    return max(1, total - total // 4)
