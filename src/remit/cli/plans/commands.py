"""`remit preview`, `remit approve`, `remit apply` and `remit run`."""

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeVar

import click

from remit.authority.envelope import DEFAULT_LIFE
from remit.cli.common.errors import OperationRefusedError
from remit.cli.common.identity import TOKEN_VARIABLE, recording_refusals, require_clock, resolve_actor, token_option
from remit.cli.common.main_wrapper import STARTED
from remit.cli.common.options import json_option, open_output, output_option, show_json, workspace_option
from remit.cli.common.progress import showing_progress
from remit.cli.common.signals import cancelling, previewing
from remit.cli.common.terminal import find_screen
from remit.cli.plans.allow_options import Allowance, allow_options, repeat_command, require_allowed, require_useful
from remit.cli.plans.approve import (
    approve_as_shown,
    ask_approval,
    idle_actions,
    is_stdin,
    no_terminal_error,
    require_screen,
)
from remit.cli.plans.preview_digest import NamedPreview, digest_options, render_digest_options, require_named_preview
from remit.cli.plans.preview_notes import save_note
from remit.cli.plans.recovered import RecoveryReports
from remit.cli.plans.render import DIFF_LINES, render_outcome, render_preview
from remit.cli.plans.render_for_agent import (
    is_agent,
    preview_for_agent,
    print_agent_result,
    read_proposal_preview,
    render_for_agent,
    require_no_digest,
)
from remit.cli.plans.text import render_status, row
from remit.contracts.base import Contract
from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.contracts.plans.plan import Plan
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.core.errors import Reason, RefusedError
from remit.execution.refusals import about_plan_text
from remit.identity.own_requests import require_own_plans_allowed
from remit.identity.person import AGENT_VARIABLES, person_at_terminal
from remit.parsing import read_bounded
from remit.plans.model.callbacks import LaterRollback
from remit.plans.reports.preview_sentences import describe_deadline
from remit.workspace.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])
MAX_MINUTES: Final = 7 * 24 * 60


class ApplyResult(NamedTuple):
    """The outcome of an apply: whether it is a stored one, the rollback since, and what was recovered first."""

    outcome: PlanOutcome | PlanRefusal
    recovered: RecoveryReports
    stored: bool = False
    later_rollback: LaterRollback | None = None
    refusal: RefusedError | None = None


def diff_options(command: F) -> F:
    """Add `--full` and `--no-diff`. The command gets `max_lines`, the lines shown of each diff; None means all."""

    @functools.wraps(command)
    def collect(*arguments: Any, full: bool, no_diff: bool, **given: Any) -> Any:
        if full and no_diff:
            raise click.UsageError("--full and --no-diff exclude each other.")
        return command(*arguments, max_lines=0 if no_diff else None if full else DIFF_LINES, **given)

    short = click.option(
        "--no-diff", is_flag=True, help="Show no diffs of files, only the list of changes and the SQL."
    )
    long = click.option(
        "--full", is_flag=True, help=f"Show every line of the diffs. The default is {DIFF_LINES} lines a file."
    )
    made: Any = long(short(collect))
    result: F = made
    return result


@click.command()
@click.argument("plan", type=click.File("rb"), required=False)
@click.option(
    "--proposal",
    metavar="ID",
    help="Show the stored preview of this proposal instead. Nothing is computed. A person may shorten the ID.",
)
@click.option(
    "--token",
    metavar="FILE",
    help="For --proposal: the file with the capability token, or the token itself. Default: the variable"
    f" {TOKEN_VARIABLE}. With PLAN, only the variable is used.",
)
@diff_options
@click.option(
    "--digest-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the preview's digest to this file, for `remit approve --digest`.",
)
@workspace_option
@json_option
@click.pass_context
def preview(  # noqa: PLR0913, PLR0917 - one for each option
    ctx: click.Context,
    plan: IO[bytes] | None,
    proposal: str | None,
    token: str | None,
    max_lines: int | None,
    digest_file: Path | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Show exactly what a plan would change, and change nothing.

    PLAN is a JSON file, or - for standard input. The same code computes the diff here and applies it later. The digest
    below the diff is for `remit approve --digest`, which approves exactly this preview.

    With a capability token (--token, or the variable REMIT_TOKEN) an agent sees the text that it sent itself. With
    --proposal and the capability plan.read it sees the stored preview, if the token names every file and connection of
    the plan, from about 5 seconds after it proposed the plan with such a token. The ledger records each preview that an
    agent asks for.

    The exit code is 0 if the plan could be applied, perhaps with the approvals that the output lists, 1 if it would
    fail, and 2 if it is refused.
    """
    if (plan is None) == (proposal is None) or (proposal is not None and digest_file is not None):
        raise click.UsageError("Give PLAN or --proposal ID. --digest-file needs PLAN.")
    if plan is None:
        ctx.exit(_show_proposal(proposal or "", token, directory, max_lines, as_json=as_json))
    if token is not None:
        raise click.UsageError("--token needs --proposal. For a PLAN, set the variable REMIT_TOKEN.")
    raw = _read(plan, Plan)
    if any(os.environ.get(variable) for variable in AGENT_VARIABLES):
        with (
            Workspace.open(directory) as workspace,
            recording_refusals(workspace, "preview", about_plan_text(raw)),
        ):
            require_no_digest(digest_file)
            shown = preview_for_agent(workspace, raw)
        show_json(shown.tree()) if as_json else _print_lines(render_for_agent(shown))
        return
    with ExitStack() as stack:
        out = stack.enter_context(open_output(digest_file, reserved=(plan.name,))) if digest_file else None
        with Workspace.open(directory) as workspace:
            document = preview_for_person(workspace, raw, quiet=as_json)
            save_note(workspace, document)
        if out is not None:
            out.write(f"{document.preview_digest}\n".encode())
    if as_json:
        show_json(document.tree())
    else:
        _print_lines(render_preview(document, max_lines=max_lines, idle=idle_actions(raw, document)))
        _print_lines(render_digest_options(document, max_lines))
        if deadline := describe_deadline(document):
            click.echo(row("time", deadline))
    ctx.exit(1 if document.status == "WOULD_FAIL" else 0)


def _show_proposal(
    proposal_id: str, token: str | None, directory: Path, max_lines: int | None, *, as_json: bool
) -> int:
    """Show the stored preview of a proposal, to its agent or to a person. Nothing is computed."""
    with Workspace.open(directory) as workspace:
        shown = read_proposal_preview(workspace, proposal_id, token)
    if as_json:
        show_json(shown.tree())
    elif isinstance(shown.document, PlanPreviewDocument):
        _print_lines(render_preview(shown.document, max_lines=max_lines))
    else:
        _print_lines(render_for_agent(shown.document))
    return 1 if shown.document.status == "WOULD_FAIL" else 0


@click.command()
@click.argument("plan", type=click.File("rb"))
@output_option
@click.option(
    "--minutes",
    type=click.IntRange(1, MAX_MINUTES),
    default=60,
    show_default=True,
    help="How many minutes the approval is valid.",
)
@digest_options
@diff_options
@allow_options
@workspace_option
@json_option
@click.pass_context
def approve(  # noqa: PLR0913, PLR0917 - one for each option
    ctx: click.Context,
    plan: IO[bytes],
    output: Path | None,
    minutes: int,
    named: NamedPreview | None,
    max_lines: int | None,
    allowed: Allowance,
    directory: Path,
    as_json: bool,
) -> None:
    """Approve a plan for the files as they are now.

    PLAN is a JSON file, or - for standard input. In a terminal, the command shows the preview, asks you, and signs
    exactly that preview. Without a terminal, --digest names the preview that you read. `remit preview` prints it.

    The signed envelope is valid for these bytes of the plan, the settings and the files. If one of them changes, it is
    not valid any more. It can be used once.

    A plan in which an action would fail needs --even-if-it-fails. A plan that would stop at that action cannot be
    approved.

    The exit code is 0 if the envelope was signed, 2 if the plan was refused or you did not approve it, and 3 if there
    is no terminal and no --digest. With 2 and 3 nothing is signed.
    """
    screen = None if named is not None else require_screen(plan, as_json=as_json)
    raw = _read(plan, Plan)
    # The output is opened first. An approval that is signed and recorded but cannot be written would be lost.
    with open_output(output, reserved=(plan.name,)) as out:
        with (
            Workspace.open(directory) as workspace,
            recording_refusals(workspace, "approve", about_plan_text(raw)),
        ):
            require_own_plans_allowed(workspace.config)
            require_clock(workspace, timedelta(minutes=minutes))
            document = preview_for_person(workspace, raw, quiet=as_json)
            if named is not None:
                require_named_preview(workspace, document, named, max_lines)
            shown = "\n".join(
                render_preview(document, allowed.names, max_lines=max_lines, idle=idle_actions(raw, document))
            )
            if screen is not None:
                screen.show(shown)
            require_useful(document, allowed, shown=screen is not None)
            require_allowed(document, allowed)
            if screen is not None and not ask_approval(
                screen, "Approve this plan?", plan, raw, document, allowed, max_lines
            ):
                click.echo("Not approved; nothing was signed.", err=True)
                ctx.exit(2)
            envelope = approve_as_shown(workspace, raw, document, allowed, life=timedelta(minutes=minutes))
        if output is not None:
            out.write(envelope.canonical() + b"\n")
    if output is None or as_json:
        show_json(envelope.tree())
    else:
        click.echo(
            f"Envelope {envelope.envelope_id} for plan {envelope.plan.plan_id} until {envelope.expires_at}, in {output}"
        )


@click.command()
@click.argument("envelope", type=click.File("rb"), required=False)
@click.option("--proposal", metavar="ID", help="The id of an approved proposal, instead of ENVELOPE.")
@token_option
@workspace_option
@json_option
@click.pass_context
def apply(
    ctx: click.Context,
    envelope: IO[bytes] | None,
    proposal: str | None,
    token: str | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Apply an approved plan once, and report the outcome.

    ENVELOPE is the file that `remit approve` wrote, or - for standard input. With --proposal, it is the envelope that
    was signed when that proposal was approved. People and the agent that proposed the plan can use it. The agent passes
    its token.

    The exit code is 0 if everything was done, now or before, 1 if the plan ran and did not succeed, 2 if it was refused
    and nothing was changed, and 3 if the proposal is pending. After 1, the output says what has changed.

    Ctrl-C and SIGTERM cancel the plan and undo its changes. A second one stops at once; then run `remit recover`.
    """
    if (envelope is None) == (proposal is None) or (token is not None and proposal is None):
        raise click.UsageError("Give ENVELOPE or --proposal ID. --token needs --proposal.")
    raw = _read(envelope, Envelope) if envelope is not None else b""
    with Workspace.open(directory) as workspace:
        if proposal is not None:
            from remit.cli.plans.propose import read_proposal_envelope  # noqa: PLC0415 - loads the services, only for this
            from remit.services.plans.refusal_records import about_proposal  # noqa: PLC0415 - as above

            with recording_refusals(workspace, "apply", about_proposal(workspace, proposal), token):
                raw = read_proposal_envelope(workspace, proposal, token)
        to_agent = token is not None or is_agent(workspace)
        result = apply_envelope(workspace, raw, quiet=as_json or to_agent, actor=resolve_actor(workspace, token))
    if proposal is not None:
        result = _advise_on_proposal(result, proposal)
    if to_agent:
        ctx.exit(print_agent_result(result, as_json=as_json))
    ctx.exit(print_result(result, as_json=as_json, waited=time.monotonic() - STARTED))


@click.command()
@click.argument("plan", type=click.File("rb"))
@click.option("--yes", is_flag=True, help="Do not ask for the approval. Use it only if you have read the preview.")
@diff_options
@allow_options
@workspace_option
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    plan: IO[bytes],
    yes: bool,
    max_lines: int | None,
    allowed: Allowance,
    directory: Path,
    as_json: bool,
) -> None:
    """Preview, approve and apply a plan in one command.

    PLAN is a JSON file, or - for standard input. The command shows the preview and asks you before it applies the plan.

    The exit codes are those of `remit apply`. The exit code is also 2 if you do not approve, and 3 if there is no
    terminal and no --yes.
    """
    raw = _read(plan, Plan)
    screen = None if yes or is_stdin(plan) else find_screen(as_json=as_json)
    with Workspace.open(directory) as workspace, ExitStack() as asking:
        asking.enter_context(recording_refusals(workspace, "run", about_plan_text(raw)))
        require_own_plans_allowed(workspace.config)
        require_clock(workspace, DEFAULT_LIFE)
        document = preview_for_person(workspace, raw, quiet=as_json)
        if not as_json:
            shown = "\n".join(
                render_preview(document, allowed.names, max_lines=max_lines, idle=idle_actions(raw, document))
            )
            click.echo(shown) if screen is None else screen.show_and_print(shown)
        require_useful(document, allowed, shown=not as_json)
        require_allowed(document, allowed)
        if not yes and screen is None:
            raise no_terminal_error(document)
        if screen is not None and not ask_approval(screen, "Apply this plan?", plan, raw, document, allowed, max_lines):
            click.echo("Not applied; nothing was done.", err=True)
            ctx.exit(2)
        answered = STARTED if yes else time.monotonic()  # without the time that the person took to answer
        envelope = approve_as_shown(workspace, raw, document, allowed)
        asking.close()  # the engine records its refusals itself
        result = apply_envelope(workspace, envelope, quiet=as_json, actor=resolve_actor(workspace))
    waited = time.monotonic() - answered
    ctx.exit(print_result(result, as_json=as_json, diffs=False, retry_command=repeat_command(), waited=waited))


def _advise_on_proposal(result: ApplyResult, proposal: str) -> ApplyResult:
    """Return the result with a next step for a proposed plan, which is not previewed and approved by a plan file."""
    from remit.services.plans.next_steps import advise_on_proposal  # noqa: PLC0415 - loads the services, only for this

    if result.refusal is None or not isinstance(result.outcome, PlanRefusal):
        return result
    return result._replace(refusal=advise_on_proposal(result.refusal, proposal, result.outcome.envelope_id))


def preview_for_person(workspace: Workspace, plan: bytes, *, quiet: bool) -> PlanPreviewDocument:
    """Compute the preview. Only for people. Progress is shown if it takes a while."""
    person_at_terminal(workspace.environ)
    with previewing(), showing_progress(quiet=quiet) as report:
        return workspace.preview(
            plan,
            on_status=lambda update: report(update.phase, update.done, update.total, update.what),
            actor=resolve_actor(workspace),
        ).document


def apply_envelope(
    workspace: Workspace, envelope: bytes | Envelope, *, quiet: bool, actor: str | None = None
) -> ApplyResult:
    """Apply an envelope. The first Ctrl-C or SIGTERM cancels the plan; a second one interrupts the process."""
    stored: list[bool] = []
    later_rollback: list[LaterRollback] = []
    refusals: list[RefusedError] = []
    recovered = RecoveryReports(quiet=quiet)
    with showing_progress(quiet=quiet) as report, cancelling() as is_cancelled:
        outcome = workspace.apply(
            envelope,
            on_refusal=refusals.append,
            on_stored=lambda: stored.append(True),
            on_taken_back=later_rollback.append,
            on_settled=recovered,
            on_status=lambda update: report(update.phase, update.done, update.total, update.what),
            is_cancelled=is_cancelled,
            actor=actor,
        )
    return ApplyResult(outcome, recovered, bool(stored), next(iter(later_rollback), None), next(iter(refusals), None))


def print_result(
    result: ApplyResult, *, as_json: bool, diffs: bool = True, retry_command: str = "", waited: float | None = None
) -> int:
    """Print the outcome and return the exit code. Raise a refusal, so that it is shown like any other.

    `retry_command` is the command for another attempt, if the caller has no envelope file.
    """
    outcome, stored = result.outcome, result.stored
    if isinstance(outcome, PlanRefusal):
        return _print_refusal(outcome, result, retry_command, as_json=as_json)
    if as_json:
        _show_outcome(outcome, result)
    else:
        if stored:
            click.echo(_describe_stored(outcome), err=True)
        if result.later_rollback is not None:
            click.echo(_render_later_rollback(result.later_rollback), err=True)
        is_in_force = result.later_rollback is None or not result.later_rollback.whole
        shown_wait = None if stored else waited
        _print_lines(
            render_outcome(outcome, diffs=diffs, is_last=not stored, is_in_force=is_in_force, waited=shown_wait)
        )
    return 0 if outcome.status.status == "SUCCESS" else 1


def _describe_stored(outcome: PlanOutcome) -> str:
    ran = "Already applied" if outcome.status.status in {"SUCCESS", "PARTIAL"} else "This plan has run before"
    return f"{ran}; nothing was changed. The stored outcome:"


def _show_outcome(outcome: PlanOutcome, result: ApplyResult) -> None:
    errors = [error.tree() for error in outcome.errors]
    later = result.later_rollback._asdict() if result.later_rollback is not None else None
    document = {"status": outcome.status.tree(), "report": outcome.report.tree(), "errors": errors}
    show_json({**document, "stored": result.stored, "taken_back": later, "settled": result.recovered.tree()})


def _render_later_rollback(later: LaterRollback) -> str:
    part = "All of it" if later.whole else "Part of it"
    return f"{part} was rolled back since, at {later.at}, by {later.order_id}."


def _print_refusal(refused: PlanRefusal, result: ApplyResult, retry_command: str, *, as_json: bool) -> int:
    errors = [error.tree() for error in refused.errors]
    problem = result.refusal or RefusedError(Reason.INTERNAL, refused.errors[0].message)
    recovered = result.recovered.tree()
    if refused.status != "CANCELLED":
        raise OperationRefusedError(problem, errors, recovered)
    if as_json:
        document = {"status": "CANCELLED", "envelope_id": refused.envelope_id, "errors": errors}
        show_json({**document, "settled": recovered})
    else:
        click.echo(f"{render_status('CANCELLED')}  {problem.where}: {problem.what}")
        click.echo(row("next", f"To run the plan after all: {retry_command}" if retry_command else problem.next_step))
    return 1


def _print_lines(lines: Iterator[str]) -> None:
    click.echo("\n".join(lines))


def _read(stream: IO[bytes], contract: type[Contract]) -> bytes:
    """Read a document, and parse it so that an error names the file."""
    raw = read_bounded(stream, contract.bounds, source=stream.name)
    contract.parse(raw, source=stream.name)
    return raw
