"""A workspace with services, agents, an approver, and the official client, for tests that are not async."""

import contextlib
import itertools
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ReadResourceResult, TextContent

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.identity.callers import AgentCaller, PersonCaller
from remit.identity.person import Person
from remit.plans.proposals.previews import PreviewNotStoredError
from remit.services.services import Services
from tests.goals.goal_office import Office
from tests.plans.project import plan_of, replace

PLAIN: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""The tests use no TLS, and loading the certificate authorities takes longer than a test."""
CONSOLE: Final = "https://remit.example"
OPERATOR: Final = PersonCaller(Person("os:oto"), "operator")
APPROVER: Final = PersonCaller(Person("os:bob"), "approver")
MIA: Final = PersonCaller(Person("os:mia"), "viewer", "mia", "acme")
CAPS: Final = ("plan.propose", "plan.execute_preview", "plan.apply", "plan.undo", "task.run", "goal.ask")
FOR_MIA: Final = TokenConstraints(user="mia", tenant="acme")


class Desked:
    """One workspace with everything that an agent can request. Each test uses its own files."""

    def __init__(self, folder: Path) -> None:
        self.office = Office(folder)
        self.workspace = self.office.workspace
        self.desk = Services(self.workspace, console_url=CONSOLE)
        self._numbers = itertools.count(1)
        self.agent = self.token("bot")

    def close(self) -> None:
        self.desk.close()
        self.office.close()

    def token(self, agent: str, *caps: str, life: timedelta = timedelta(hours=1)) -> str:
        held = caps or CAPS
        whose = FOR_MIA if "goal.ask" in held else TokenConstraints()
        return self.workspace.tokens.issue(TokenRequest(agent, held, whose, life)).text

    def caller(self, text: str) -> AgentCaller:
        return AgentCaller.by(self.workspace.tokens, text)

    def revoke(self, text: str) -> None:
        self.workspace.tokens.revoke(self.caller(text).token.jti, actor="os:ann")

    def plan(self) -> tuple[dict[str, Any], Path]:
        """Return a plan that changes a new file, and that file."""
        path = self.office.root / f"file{next(self._numbers)}.txt"
        path.write_text("one\ntwo\nthree\n")
        plan: dict[str, Any] = json.loads(plan_of(replace("a", path.name), plan_id=f"plan-{path.stem}"))
        return plan, path

    def yes(self, proposal_id: str) -> None:
        """A person reads the preview and approves it, without the MCP server."""
        try:
            shown = self.desk.plans.read_preview(APPROVER, proposal_id)
        except PreviewNotStoredError:  # another process computes it, or has ended
            shown = self.desk.plans.compute_preview(OPERATOR, proposal_id)
        self.desk.plans.decide(APPROVER, proposal_id, approved=True, preview_digest=shown.preview_digest)


class Talk:
    """A connected client for tests that are not async."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self.client = client

    def call(self, name: str, *, progress: Callable[..., Any] | None = None, **arguments: Any) -> CallToolResult:
        async def call() -> CallToolResult:
            return await self.client.call_tool(name, arguments, progress_callback=progress)

        return self._portal.call(call)

    def ok(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, and return its structured answer."""
        result = self.call(name, **arguments)
        assert not result.is_error, words_of(result)
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    def refused(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must refuse, and return the refusal."""
        result = self.call(name, **arguments)
        assert result.is_error, words_of(result)
        assert isinstance(result.structured_content, dict)
        assert {"code", "what", "where", "next_step"} <= result.structured_content.keys()
        return result.structured_content

    def read(self, uri: str) -> ReadResourceResult:
        async def read() -> ReadResourceResult:
            return await self.client.read_resource(uri)

        return self._portal.call(read)

    def run(self, work: Callable[[Client], Any]) -> Any:
        async def call() -> Any:
            return await work(self.client)

        return self._portal.call(call)


@contextlib.contextmanager
def talking(client: Client) -> Iterator[Talk]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client) as connected:
        yield Talk(portal, connected)


def over_http(address: str, token: str | None, mode: str = "auto", **more: Any) -> Client:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return Client(_transport(address, headers), mode=mode, **more)


def _transport(address: str, headers: dict[str, str]) -> AbstractAsyncContextManager[Any]:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, verify=PLAIN) as http,
            streamable_http_client(address, http_client=http) as streams,
        ):
            yield streams

    return connect()


def over_stdio(desked: Desked, *options: str, token: str | None, mode: str = "auto", **more: Any) -> Client:
    environ = {**desked.office.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if token is not None:
        environ["REMIT_TOKEN"] = token
    arguments = ["-m", "remit", "mcp", "-C", str(desked.office.root), *options]
    return Client(
        stdio_client(StdioServerParameters(command=sys.executable, args=arguments, env=environ)), mode=mode, **more
    )


def words_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
