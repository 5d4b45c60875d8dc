"""`remit browse`.

With -o, it copies the picture of a `screenshot`, because an agent must not read the state directory.
"""

import contextlib
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

import click

from remit.browser_daemon.client import ActionReply, HostClient, PendingApproval
from remit.browser_daemon.socket_path import DaemonFolder
from remit.cli.common.identity import TOKEN_VARIABLE, read_token, token_option
from remit.cli.common.options import counted, json_option, show_json, workspace_option
from remit.contracts.browser.browser import Action, ActionResult
from remit.contracts.browser.errors import MAX_RETRIES, NOT_SENT
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.fs.atomic_write import PRIVATE_FILE
from remit.identity.person import person_at_terminal
from remit.parsing import read_bounded
from remit.store.claims import ClaimCompleted, ClaimKey, read_claim
from remit.workspace.workspace import Workspace


def require_new_file(path: Path, action: Action, workspace: Workspace) -> None:
    """Check the path before the action starts. An existing file is only allowed if this action has ended before."""
    if action.type != "screenshot":
        raise _refusal_error(
            Reason.ARGUMENT_INVALID, f"only a screenshot has a picture, and this action is a {action.type}", path
        )
    folder = path.absolute().parent
    if not folder.is_dir():
        raise _refusal_error(
            Reason.ARGUMENT_INVALID,
            "the folder of the output does not exist",
            folder,
            f"Make the folder: mkdir -p '{folder}'",
        )
    if os.path.lexists(path):
        with workspace.store.reading() as connection:
            claimed = read_claim(connection, ClaimKey(DEFAULT_TENANT, "browser", action.action_id))
        if not isinstance(claimed, ClaimCompleted):
            raise _exists_error(path)


def write_picture(path: Path, output: Mapping[str, Any]) -> None:
    """Write the picture of the action. Never overwrites a file, but accepts one that is the same picture."""
    screenshot = output["screenshot"]
    try:
        picture = Path(screenshot["path"]).read_bytes()
    except FileNotFoundError:
        advice = (
            "Take a new one with another action id. The setting browser.picture_days says how long pictures are kept."
        )
        raise _refusal_error(Reason.FILE_MISSING, "the picture was deleted", path, advice) from None
    if sha256(picture).hexdigest() != screenshot["sha256"]:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "the picture has changed since it was taken",
            where=screenshot["path"],
            next_step="Take a new one.",
        )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    except FileExistsError:
        if not _has_content(path, picture):
            raise _exists_error(path) from None
        return
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(picture)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _has_content(path: Path, picture: bytes) -> bool:
    """Return whether the file is this picture. A link or a pipe cannot be ours."""
    return path.is_file() and not path.is_symlink() and path.read_bytes() == picture


def _exists_error(path: Path) -> RefusedError:
    return _refusal_error(Reason.FILE_CONFLICT, "the file exists already, and is not overwritten", path)


def _refusal_error(
    reason: Reason, what: str, where: Path, next_step: str = "Name another file, or leave out -o."
) -> RefusedError:
    return RefusedError(reason, what, where=str(where), next_step=next_step)


WAITING: Final = 3


@click.command()
@click.argument("action", type=click.File("rb"), required=False)
@token_option
@click.option("--wait", is_flag=True, help="Wait for the person who must decide.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A new file for the picture of a screenshot. Only its owner can read it.",
)
@click.option("--stop", is_flag=True, help="For people: stop the browser in the background, with all its sessions.")
@workspace_option
@json_option
@click.pass_context
def browse(  # noqa: PLR0913, PLR0917 - one for each option
    ctx: click.Context,
    action: IO[bytes] | None,
    token: str | None,
    wait: bool,
    output: Path | None,
    stop: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """Run one browser action under a capability token.

    ACTION is a JSON file, or - for standard input. The browser runs in the background, so that sessions last from one
    command to the next. A request that changes something is held until a person approves it (`remit approvals`).

    The exit code is 0 if the action succeeded, 1 if it failed or its outcome is unknown, 2 if a rule or a person
    refused it and nothing was sent, and 3 while it waits for a person or its approved request is being sent. After 3,
    the same command again, or with --wait, gives the result.
    """
    with Workspace.open(directory) as workspace:
        client = HostClient(workspace.root, DaemonFolder.of(workspace.state), _environment())
        if stop:
            _stop(client, workspace, as_json=as_json)
            return
        if action is None:
            raise click.UsageError("Name the file with the action, or --stop.", ctx)
        raw = read_bounded(action, Action.bounds, source=action.name)
        parsed = Action.parse(raw, source=action.name)  # also here, so that a refusal names the file
        if output is not None:
            require_new_file(output, parsed, workspace)
    caller = _Caller(waits=wait, prints=not as_json)
    try:
        reply = client.browse(raw, read_token(token), on_waiting=caller.wait, on_retry=caller.on_retry)
    except KeyboardInterrupt:
        if not caller.questions:
            raise
        reply = None  # the action continues, and its approval request stays pending
    if reply is None:
        _print_waiting(caller.questions[-1], as_json=as_json)
        ctx.exit(WAITING)
    if output is not None and reply.result.output is not None:
        write_picture(output, reply.result.output)
    _show(reply, as_json=as_json)
    ctx.exit(exit_code(reply.result, refused=reply.refused))


class _Caller:
    """Receives the events of an action while it runs."""

    def __init__(self, *, waits: bool, prints: bool) -> None:
        self._waits = waits
        self._prints = prints
        self.questions: list[PendingApproval] = []

    def wait(self, question: PendingApproval) -> bool:
        self.questions.append(question)
        if self._prints and (self._waits or not question.is_open):
            _print_notice(question)
        return self._waits

    def on_retry(self, number: int) -> None:
        if self._prints:
            click.echo(
                f"The element is missing, or the server does not respond. Trying again ({number} of {MAX_RETRIES})",
                err=True,
            )


def exit_code(result: ActionResult, *, refused: bool) -> int:
    """Return the exit code. 2 guarantees that nothing was sent. `refused`: the action ended before it started.

    After a KERNEL_ERROR of a started action the effect is unknown, unless its reason says that nothing was sent.
    """
    if result.error is None:
        return 0
    is_certain = refused or result.error.code != "KERNEL_ERROR" or (result.reason or "").startswith(f"{NOT_SENT}: ")
    return 2 if is_certain and not result.sent else 1


def _environment() -> dict[str, str]:
    """Return the environment for a new host, without the token: that is for this action, not for a lasting process."""
    return {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}


def _show(reply: ActionReply, *, as_json: bool) -> None:
    if reply.stored and not as_json:
        click.echo("This action has ended before; nothing was done now. The stored result:", err=True)
    show_json(reply.result.tree())
    for held in () if as_json else _list_held_requests(reply.result):
        click.echo(f"A request of the page waits for a person: remit approvals show {held}", err=True)


def _list_held_requests(result: ActionResult) -> list[str]:
    document: Any = (result.output or {}).get("held", [])
    return [held["approval_id"] for held in document if held["state"] == "waiting" and held["approval_id"]]


def _print_notice(question: PendingApproval) -> None:
    click.echo(f"{_describe_state(question)}: remit approvals show {question.approval_id}", err=True)
    click.echo(f"  {question.what}", err=True)


def _describe_state(question: PendingApproval) -> str:
    if question.is_open:
        return "waiting for a person"
    return "approved, being sent" if question.state in {"APPROVED", "USED"} else f"decided: {question.state.lower()}"


def _print_waiting(question: PendingApproval, *, as_json: bool) -> None:
    if as_json:
        document = {**question._asdict(), "state": _describe_state(question)}
        show_json({"waiting": document})
        return
    if question.is_open:
        click.echo(f"Waiting for a person, until {question.expires[:19]}Z: {question.what}")
        click.echo(f"  decide:  remit approvals show {question.approval_id}")
        click.echo(f"  stop:    remit approvals deny {question.approval_id}; until then it can still be approved")
    else:
        click.echo(f"{_describe_state(question).capitalize()}, but not finished yet: {question.what}")
    click.echo("  result:  the same command again, or with --wait")


def _stop(client: HostClient, workspace: Workspace, *, as_json: bool) -> None:
    """Stop the browser. Only for people, because all agents share it and their actions would end."""
    person_at_terminal(workspace.environ)
    try:
        waiting = [each.approval_id for each in workspace.approvals.listed("PENDING")]
    except RemitError:  # such as a ledger that must be migrated first: the browser can be stopped nevertheless
        waiting = []
    sessions = client.stop()
    closed = [workspace.approvals.show(each).state for each in waiting].count("VOID")
    if as_json:
        show_json({"stopped": sessions is not None, "sessions": sessions or 0, "questions_closed": closed})
    elif sessions is None:
        click.echo("No browser was running.")
    else:
        ended = f"The browser was stopped, with {counted(sessions, 'session')}"
        click.echo(
            f"{ended}; {counted(closed, 'approval request')} closed without a decision." if closed else f"{ended}."
        )
