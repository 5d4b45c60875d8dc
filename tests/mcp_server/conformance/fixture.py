"""The server that the suite talks to: what the factory builds over a real workspace, with the suite's content added.

The suite cannot send a token. So whoever calls is one agent here, by a token that is verified at each call as always;
what a missing or a wrong token gets is shown in tests/mcp_server.
"""

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.types import Completion, CompletionArgument
from starlette.types import Receive, Scope, Send

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.core.ids import system_clock
from remit.mcp_server.auth import authenticate_token
from remit.mcp_server.http import LOOPBACK_HOSTS, MAX_BODY, session_manager
from remit.mcp_server.server import build_server
from remit.services.services import Services
from remit.workspace.create import initialise
from tests.mcp_server.conformance.fixture_content import add_content
from tests.mcp_server.conformance.fixture_input import add_input
from tests.mcp_server.http_server import serving

LOOPBACK_ORIGINS: Final = tuple(f"http://{host}" for host in LOOPBACK_HOSTS)

# Every word of JSON Schema that must survive on its way to a client.
SCHEMA_2020_12: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADER_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "additionalProperties": False,
}


@contextlib.contextmanager
def serving_fixture(folder: Path) -> Iterator[str]:
    """Its address. `folder` is empty, and the workspace is made in it."""
    root = folder / "project"
    root.mkdir()
    environ = {"REMIT_STATE": str(folder / "state")}
    workspace, _ = initialise(root, environ, system_clock)
    with workspace:
        wish = TokenRequest("conformance", ("plan.propose", "plan.apply"), TokenConstraints(), timedelta(hours=1))
        token = workspace.tokens.issue(wish).text
        desk = Services(workspace)
        try:
            server = build_server(desk, authenticate_token(lambda: workspace.tokens, lambda: token))
            add_fixtures(server)
            manager = session_manager(server, LOOPBACK_HOSTS, LOOPBACK_ORIGINS, MAX_BODY)

            class Open:
                """Without a token."""

                async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
                    await manager.handle_request(scope, receive, send)

            with serving(Open(), manager.run) as address:
                yield address
        finally:
            desk.close()


def add_fixtures(server: MCPServer[Any]) -> None:
    add_content(server)
    add_input(server)
    for name, schema in (("json_schema_2020_12_tool", SCHEMA_2020_12), ("test_header_tool", HEADER_SCHEMA)):
        server._tool_manager._tools[name] = _with_schema(name, schema)  # noqa: SLF001 - the SDK derives schemas only

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(ref: Any, argument: CompletionArgument, context: Any) -> Completion:
        words = [word for word in ("paris", "park", "party") if word.startswith(argument.value)]
        return Completion(values=words, total=len(words), has_more=False)


def _with_schema(name: str, schema: dict[str, Any]) -> Tool:
    return Tool(
        fn=lambda: "ok",
        name=name,
        description="A tool with a schema of the suite.",
        parameters=schema,
        fn_metadata=FuncMetadata(arg_model=ArgModelBase),
        is_async=False,
    )
