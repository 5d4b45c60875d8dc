"""`remit serve`."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from remit.cli.common.bidi import display_name
from remit.cli.common.options import counted, json_option, show_json, workspace_option
from remit.cli.recover import describe_outcome, describe_recovery
from remit.core.errors import Reason, RefusedError
from remit.execution.recovery import Recovered
from remit.identity.models import Invitation
from remit.identity.person import Person, person_at_terminal
from remit.observability.tracing import tracing
from remit.services.base.server_lock import announce_server, require_no_server
from remit.workspace.workspace import Workspace


@click.command()
@click.option("--host", help="The address to listen on, instead of web.host in remit.yaml.")
@click.option("--port", type=click.IntRange(0, 65_535), help="The port, instead of web.port; 0: any that is free.")
@click.option("--open", "opens", is_flag=True, help="Open the login link in the browser of this desktop.")
@click.option("--no-link", is_flag=True, help="Print no login link. Invite people with `remit people invite`.")
@workspace_option
@json_option
def serve(host: str | None, port: int | None, opens: bool, no_link: bool, directory: Path, as_json: bool) -> None:
    """Serve this workspace: HTTP API, console, and MCP over HTTP.

    First it recovers work that a crash interrupted. It listens on loopback, unless remit.yaml or --host names another
    address, and prints a link that logs one person in, once, as admin. SIGTERM or Ctrl-C stops it; running work gets a
    few seconds to end. REMIT_LOG=info writes one JSON line for each request to standard error.
    """
    with Workspace.open(directory) as workspace, contextlib.ExitStack() as stack:
        require_no_server(workspace.state)
        click.echo("Starting ...", err=True)  # the next lines take a moment
        serving = _serving()
        stack.enter_context(tracing(os.environ))
        person = None if no_link else _person()
        settings = serving.WebSettings.of(workspace.config.web, host=host, port=port)
        listener = stack.enter_context(serving.open_listener(settings))
        for warning in serving.warnings_for(settings):
            click.echo(f"Note: {warning}.", err=True)
        settings = settings.listening_at(serving.port_of(listener))
        stack.enter_context(announce_server(workspace.state, settings.url, workspace.clock))
        recovered = workspace.recover()
        _print_recovered(recovered)
        services = stack.enter_context(serving.open_services(workspace, settings))

        def on_listening() -> None:
            link = workspace.people.invite_self(person) if person else None
            _print_address(settings.url, link, recovered, as_json=as_json)
            if opens and link is not None:
                stack.enter_context(_opened(workspace.state.path, f"{settings.url}{link.path}"))

        serving.run(services, settings, listener, on_listening=on_listening)
    if not as_json:
        click.echo("Stopped.", err=True)


def _serving() -> Any:
    """Load the web server. An installation without the extra `web` does not have its packages."""
    try:
        from remit.web import serve as serving  # noqa: PLC0415 - heavy, and optional
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] == "remit":
            raise
        raise RefusedError(
            Reason.CAPABILITY_UNSUPPORTED,
            f"the web server needs a package that is not installed: {problem.name}",
            where="remit serve",
            next_step="Install the extra: pip install 'remit[web]'",
        ) from None
    return serving


def _person() -> Person | None:
    """Return the person who starts the server, or None for an agent, which gets no login link."""
    try:
        return person_at_terminal(os.environ)
    except RefusedError as problem:
        click.echo(f"No login link: {problem.what}.", err=True)
        return None


def _print_recovered(reports: list[Recovered[Any]]) -> None:
    if reports:
        click.echo(f"A crash had left {counted(len(reports), 'request')} unfinished:", err=True)
    for report in reports:
        click.echo(
            f"  {describe_recovery(report)}: {display_name(report.key)}: {display_name(describe_outcome(report))}",
            err=True,
        )


def _print_address(url: str, link: Invitation | None, recovered: list[Recovered[Any]], *, as_json: bool) -> None:
    if as_json:
        login = f"{url}{link.path}" if link else None
        show_json({"url": url, "login": login, "pid": os.getpid(), "recovered": len(recovered)}, indent=None)
    else:
        click.echo(f"Listening on {url}")
        if link is not None:
            click.echo(f"Log in (once, until {link.expires_at:%H:%M} UTC): {url}{link.path}")
        click.echo("Ctrl-C stops the server.")
    sys.stdout.flush()


@contextlib.contextmanager
def _opened(folder: Path, link: str) -> Iterator[None]:
    """Open the link in the browser through a file that only this user can read: all users can see program arguments."""
    import webbrowser  # noqa: PLC0415 - only for this option

    page = folder / "login.html"
    page.unlink(missing_ok=True)
    descriptor = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={link}"><title>Remit</title>')
    try:
        webbrowser.open(page.as_uri())
        yield
    finally:
        page.unlink(missing_ok=True)
