"""`remit mcp`."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from remit.cli.common.options import workspace_option
from remit.core.errors import Reason, RefusedError
from remit.observability.tracing import tracing

if TYPE_CHECKING:
    from remit.services.services import Services

DEFAULT_PORT: Final = 7342
TOKEN_VARIABLE: Final = "REMIT_TOKEN"  # noqa: S105 - the name of a variable


@click.command()
@click.option(
    "--stdio/--http",
    "over_stdio",
    default=True,
    help="Serve over standard input and output (the default), or over HTTP on this machine, at /mcp.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"For --stdio: the file with the agent's token, read at each call. Default: the variable {TOKEN_VARIABLE}.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True, help="For --http: the port."
)
@workspace_option
def mcp(over_stdio: bool, token_file: Path | None, port: int, directory: Path) -> None:
    """Serve MCP clients: tools for plans, tasks, browser and goals.

    With --stdio, an MCP client starts this command and acts for one agent, with the capability token of that agent.
    With --http, it listens on this machine only. `remit serve` has the same tools at /mcp, and also the console.

    No tool can approve anything. A person approves in the console or with `remit approvals`.
    """
    _require_installed()
    if not over_stdio:
        if token_file is not None:
            raise click.UsageError("--token-file is for --stdio only. Over HTTP, each request has its own token.")
        _serve(directory, lambda services: _serve_http(services, port))
        return
    token = _token(token_file)
    _serve(directory, lambda services: _serve_stdio(services, token))


def _serve(directory: Path, serve: Callable[["Services"], None]) -> None:
    from remit.services.base.server_lock import find_console_url  # noqa: PLC0415 - as above
    from remit.services.services import Services  # noqa: PLC0415 - loads every operation; `remit mcp --help` must stay quick
    from remit.workspace.workspace import Workspace  # noqa: PLC0415 - as above

    with tracing(os.environ), Workspace.open(directory) as workspace:
        services = Services(workspace, console_url=lambda: find_console_url(workspace))
        try:
            services.start_recovery()
            serve(services)
        finally:
            services.close()


def _serve_stdio(services: "Services", token: Callable[[], str]) -> None:
    from remit.mcp_server.stdio import serve_stdio  # noqa: PLC0415 - a second to load

    serve_stdio(services, token, elicitation=services.workspace.config.web.mcp.elicitation)


def _serve_http(services: "Services", port: int) -> None:
    from remit.web.mcp_standalone import serve_mcp  # noqa: PLC0415 - a second to load

    def announce(address: str) -> None:
        click.echo(f"Serving MCP at {address}. Ctrl-C stops it.", err=True)

    serve_mcp(services, port, announce)


def _token(file: Path | None) -> Callable[[], str]:
    """Return a function that reads the token. Removes it from the environment, so no child process gets it."""
    text = os.environ.pop(TOKEN_VARIABLE, "").strip()
    if file is not None:
        from remit.mcp_server.auth import token_from_file  # noqa: PLC0415 - a second to load

        return token_from_file(file)
    if not text:
        raise RefusedError(
            Reason.AUTHORITY_MALFORMED,
            "no capability token was given; an MCP client acts for an agent",
            where=f"--token-file, or the variable {TOKEN_VARIABLE}",
            next_step="A person issues a token: remit token issue --sub AGENT --cap plan.propose -o FILE",
        )
    return lambda: text


def _require_installed() -> None:
    for name in ("mcp", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise RefusedError(
                Reason.CAPABILITY_UNSUPPORTED,
                "the MCP server is not installed",
                where=f"the package {name}",
                next_step="Install it with: pip install 'remit[mcp]'",
            )
