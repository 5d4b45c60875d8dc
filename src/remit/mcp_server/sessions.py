"""Sessions of the protocol: each agent has so many, and all together so many; a new one takes the place of the one that
was idle longest.

A client that is started anew opens a session and forgets the one before, so a full house is nothing unusual: refused is
only who has as many requests under way in as many sessions.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller

MAX_SESSIONS_PER_AGENT: Final = 16
MAX_SESSIONS: Final = 500


@dataclass(slots=True)
class McpSession:
    """`caller` is by the token that began it; the SDK lets no other use it."""

    id: str
    caller: AgentCaller
    end_request: Scope
    """The request that ends it."""
    used_at: float
    active_requests: int = 0


class McpSessions:
    """Those that were begun here. For one event loop, and from there only; nothing in it waits."""

    def __init__(
        self,
        per_agent: int = MAX_SESSIONS_PER_AGENT,
        most: int = MAX_SESSIONS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_agent = per_agent
        self._most = most
        self._now = now
        self._open: dict[str, McpSession] = {}
        self._opening = Counter[str]()

    def __len__(self) -> int:
        return len(self._open) + self._opening.total()

    def count_of(self, agent: str) -> int:
        return sum(each.caller.id == agent for each in self._open.values()) + self._opening[agent]

    def reserve(self, agent: str) -> McpSession | None:
        """A place for one more, taken now, until `complete_reservation`. The session that has to end for it, if any."""
        evicted: McpSession | None = None
        if self.count_of(agent) >= self._per_agent:
            evicted = self._find_idle(each for each in self._open.values() if each.caller.id == agent)
        elif len(self) >= self._most:
            evicted = self._find_idle(self._open.values())
        if evicted is not None:
            del self._open[evicted.id]
        self._opening[agent] += 1
        return evicted

    def complete_reservation(self, caller: AgentCaller, session_id: str | None, end_request: Scope) -> None:
        """What became of it; without an id, nothing."""
        self._opening -= Counter((caller.id,))
        if session_id is not None:
            self._open[session_id] = McpSession(session_id, caller, end_request, self._now())

    def by_token(self) -> dict[str, list[McpSession]]:
        """Those that are open, by the text of their token."""
        found: dict[str, list[McpSession]] = {}
        for each in self._open.values():
            found.setdefault(each.caller.text, []).append(each)
        return found

    def forget(self, session: McpSession) -> None:
        self._open.pop(session.id, None)

    def enter(self, session_id: str, token: str) -> McpSession | None:
        """A request in it begins, until `leave`. None if it is none of that token's."""
        found = self._open.get(session_id)
        if found is None or found.caller.token.jti != token:
            return None
        found.active_requests += 1
        return found

    def leave(self, session: McpSession, *, is_over: bool) -> None:
        session.active_requests -= 1
        session.used_at = self._now()
        if is_over:
            self._open.pop(session.id, None)

    def _find_idle(self, among: Iterable[McpSession]) -> McpSession:
        idle = [each for each in among if not each.active_requests]
        if not idle:
            raise RefusedError(
                Reason.RESOURCE_EXHAUSTED,
                "too many sessions are open, and a request is under way in each",
                where="sessions of this protocol",
                next_step="Let one of the requests end, or end a session; then try again.",
            )
        return min(idle, key=lambda each: each.used_at)
