"""Sessions of the protocol, with a limit for each agent and for all agents.

A client that restarts opens a new session and forgets the old one, so the limit is often reached. A new session then
replaces the one that was idle longest. A new session is refused only if every session has a running request.
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
    """One open session. `caller` has the token that opened it, and the SDK accepts no other token."""

    id: str
    caller: AgentCaller
    end_request: Scope
    """The request that ends it."""
    used_at: float
    active_requests: int = 0


class McpSessions:
    """The open sessions of one server. Use it from one event loop only. No method waits."""

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
        """Reserve a place for a session until `complete_reservation`. Return the session that must end, if any."""
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
        """Store the session that was opened. Without an id, none was opened, and the reservation ends."""
        self._opening -= Counter((caller.id,))
        if session_id is not None:
            self._open[session_id] = McpSession(session_id, caller, end_request, self._now())

    def by_token(self) -> dict[str, list[McpSession]]:
        """Return the open sessions by the text of their token."""
        found: dict[str, list[McpSession]] = {}
        for each in self._open.values():
            found.setdefault(each.caller.text, []).append(each)
        return found

    def forget(self, session: McpSession) -> None:
        self._open.pop(session.id, None)

    def enter(self, session_id: str, token: str) -> McpSession | None:
        """Start a request of the session, until `leave`. Return None if the token has no such session."""
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
                "too many sessions are open, and each has a running request",
                where="MCP sessions",
                next_step="Wait until a request ends, or end a session. Then try again.",
            )
        return min(idle, key=lambda each: each.used_at)
