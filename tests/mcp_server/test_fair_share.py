"""No agent takes all sessions or threads: its oldest idle session ends, and its calls wait for each other."""

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx2
import pytest

from remit.contracts.services.common import TaskAnswer
from remit.core.errors import RefusedError
from remit.mcp_server.auth import verify_caller
from remit.mcp_server.http import LOOPBACK_HOSTS, mcp_app
from remit.mcp_server.server import THREADS_EACH
from remit.mcp_server.sessions import MAX_SESSIONS_PER_AGENT, McpSessions
from tests.mcp_server.http_server import serving
from tests.mcp_server.mcp_office import PLAIN, Desked

VERSION: Final = "2025-11-25"
HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
CLIENT: Final = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
NUMBERS: Final = itertools.count(1)


class Agent:
    def __init__(self, client: httpx2.Client, address: str, token: str) -> None:
        self._client = client
        self._address = address
        self._token = token

    def ask(self, session: str | None, method: str, params: Any, verb: str = "POST") -> httpx2.Response:
        headers = {**HEADERS, "Authorization": f"Bearer {self._token}"}
        if session is not None:
            headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": VERSION}
        body = json.dumps({"jsonrpc": "2.0", "id": next(NUMBERS), "method": method, "params": params}).encode()
        return self._client.request(verb, self._address, headers=headers, content=body if verb == "POST" else None)

    def open(self) -> str:
        answer = self.ask(None, "initialize", CLIENT)
        assert answer.status_code == 200, answer.text
        return answer.headers["mcp-session-id"]

    def lives(self, session: str) -> bool:
        return self.ask(session, "tools/list", {}).status_code == 200

    def call(self, session: str, tool: str, **arguments: Any) -> httpx2.Response:
        return self.ask(session, "tools/call", {"name": tool, "arguments": arguments})


@pytest.fixture(scope="module")
def client() -> Any:
    with httpx2.Client(verify=PLAIN, timeout=60, limits=httpx2.Limits(max_connections=40)) as made:
        yield made


def test_an_agent_that_opens_many_sessions_ends_its_own_oldest_and_no_other(
    desked: Desked, address: str, client: httpx2.Client
) -> None:
    other = Agent(client, address, desked.token("patient"))
    his = other.open()
    tokens = [Agent(client, address, desked.token("hasty")) for _ in range(2)]  # two tokens are one agent
    opened = [(tokens[at % 2], tokens[at % 2].open()) for at in range(MAX_SESSIONS_PER_AGENT)]
    assert opened[0][0].lives(opened[0][1])  # so now the second is the oldest
    last = tokens[0], tokens[0].open()
    assert [agent.lives(session) for agent, session in (*opened, last)] == [True, False] + [True] * (
        MAX_SESSIONS_PER_AGENT - 1
    )
    assert other.lives(his)
    assert tokens[0].ask(last[1], "", None, "DELETE").status_code == 200
    tokens[0].open()  # the place of the one that ended, so no other has to
    assert opened[0][0].lives(opened[0][1])


def test_sessions_with_requests_under_way_stay_and_places_are_taken_at_once(desked: Desked) -> None:
    now = [0.0]
    sessions = McpSessions(per_agent=2, most=3, now=lambda: now[0])
    a, b = (verify_caller(desked.desk.workspace.tokens, desked.token(name)) for name in "ab")
    for name in ("one", "two"):
        now[0] += 1
        assert sessions.reserve(a.id) is None
        sessions.complete_reservation(a, name, {})
    assert sessions.enter("one", b.token.jti) is None
    one, two = sessions.enter("one", a.token.jti), sessions.enter("two", a.token.jti)
    assert one is not None
    assert two is not None
    with pytest.raises(RefusedError, match="each has a running request"):
        sessions.reserve(a.id)
    assert sessions.reserve(b.id) is None
    with pytest.raises(RefusedError):  # all places are taken, although that one is only being opened
        sessions.reserve("c")
    sessions.complete_reservation(b, None, {})  # nothing came of it
    sessions.leave(two, is_over=False)
    shed = sessions.reserve(a.id)
    assert shed is two
    sessions.complete_reservation(a, "three", {})
    sessions.leave(one, is_over=True)
    assert (len(sessions), sessions.count_of(a.id)) == (1, 1)


def test_the_sessions_of_a_revoked_token_end_and_so_does_what_listens_in_them(
    desked: Desked, client: httpx2.Client
) -> None:
    app = mcp_app(desked.desk, allowed_hosts=LOOPBACK_HOSTS)
    app.watch_seconds = 0.02
    with serving(app, app.running) as address:
        text, others = desked.token("revoked"), Agent(client, address, desked.token("kept"))
        agent, kept = Agent(client, address, text), others.open()
        session = agent.open()
        headers = {"Authorization": f"Bearer {text}", "Accept": "text/event-stream", "Mcp-Session-Id": session}
        with client.stream("GET", address, headers=headers) as listening:
            assert listening.status_code == 200
            desked.desk.workspace.tokens.revoke(desked.desk.workspace.tokens.verify(text).jti, actor="os:test")
            assert list(listening.iter_bytes()) == []  # it ended
        assert len(app.sessions) == 1
        assert others.lives(kept)


def test_one_agents_slow_calls_leave_threads_to_others(
    desked: Desked, address: str, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    came, go = threading.Semaphore(0), threading.Event()

    def get(caller: Any, task_id: str, wait: float = 0.0) -> TaskAnswer:
        came.release()
        assert task_id == "quick" or go.wait(60)
        return TaskAnswer(state="running", task_id=task_id)

    monkeypatch.setattr(desked.desk.tasks, "get", get)
    slow, other = (Agent(client, address, desked.token(name)) for name in ("slow", "quick"))
    session, his = slow.open(), other.open()
    with ThreadPoolExecutor(20) as callers:
        asked = [callers.submit(slow.call, session, "task_status", task_id="slow") for _ in range(20)]
        try:
            for _ in range(THREADS_EACH):
                assert came.acquire(timeout=20)
            assert "quick" in other.call(his, "task_status", task_id="quick").text
            assert came.acquire(timeout=20)
            assert not came.acquire(blocking=False)
        finally:
            go.set()
        assert {each.result(60).status_code for each in asked} == {200}
