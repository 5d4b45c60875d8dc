"""`remit preview`, `remit approve`, `remit apply` and `remit run`: a plan from its diff to its report."""

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import click

from remit.cli.plan_summary import flag_for, needed, quoted, render_outcome, render_preview, render_problem
from remit.cli.progress import showing_progress
from remit.cli.shown import json_option, output_option, show_json, workspace_option, written_output
from remit.contracts.base import Contract
from remit.contracts.envelope import Envelope
from remit.contracts.outcome import PlanOutcome, PlanRefusal
from remit.contracts.plan import Plan
from remit.contracts.plan_preview import PlanPreviewDocument
from remit.errors import EnvironmentFailed, Reason, Refused
from remit.untrusted import read_bounded
from remit.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])
Allowed = dict[str, Any]
"""Names, by the kind of the approval; handed on as arguments of `Workspace.approve`."""

KINDS: Final = {
    "protected": ("PATH", "A protected file that the plan may touch."),
    "executable": ("PATH", "A file that may become executable, or hold a program."),
    "content": ("PATH", "A file whose content may hold what was found in it."),
    "irreversible": ("ACTION", "An action that cannot be undone."),
}
MAX_MINUTES: Final = 7 * 24 * 60


class NobodyToAsk(Refused):
    """Only a person can go on from here."""

    exit_code = 3


def allow_options(command: F) -> F:
    """The `--allow-...` options, handed over together as `allowed`. Each may be repeated."""

    @functools.wraps(command)
    def collect(*arguments: Any, **given: Any) -> Any:
        allowed: Allowed = {kind: given.pop(f"allow_{kind}") for kind in KINDS}
        return command(*arguments, allowed=allowed, **given)

    made: Any = collect
    for kind, (metavar, text) in reversed(KINDS.items()):
        made = click.option(flag_for(kind), f"allow_{kind}", multiple=True, metavar=metavar, help=text)(made)
    result: F = made
    return result


@click.command()
@click.argument("plan", type=click.File("rb"))
@workspace_option
@json_option
@click.pass_context
def preview(ctx: click.Context, plan: IO[bytes], directory: Path, as_json: bool) -> None:
    """Show exactly what a plan would change; change nothing.

    PLAN is a JSON file, or - for standard input. The diff is made by the code that would apply it. Exit code 0 when the
    plan could be applied, perhaps with the approvals that are listed; 1 when it would fail; 2 when it is refused.
    """
    raw = _read(plan, Plan)
    with Workspace.open(directory) as workspace:
        document = workspace.preview(raw).document
    if as_json:
        show_json(document.tree())
    else:
        _say(render_preview(document))
    ctx.exit(1 if document.status == "WOULD_FAIL" else 0)


@click.command()
@click.argument("plan", type=click.File("rb"))
@output_option
@click.option(
    "--minutes",
    type=click.IntRange(1, MAX_MINUTES),
    default=60,
    show_default=True,
    help="How long the approval lives.",
)
@allow_options
@workspace_option
@json_option
def approve(
    plan: IO[bytes], output: Path | None, minutes: int, allowed: Allowed, directory: Path, as_json: bool
) -> None:
    """Sign an envelope: approve a plan for the files as they are now.

    PLAN is a JSON file, or - for standard input. The envelope holds for these very bytes of the plan, the settings and
    the files; whatever changes voids it. It is used once.
    """
    raw = _read(plan, Plan)
    # The output first: an approval that is signed and recorded, and then cannot be handed over, has gone astray.
    with written_output(output, spare=(plan.name,)) as out:
        with Workspace.open(directory) as workspace:
            envelope = workspace.approve(raw, **allowed, life=timedelta(minutes=minutes))
        if output is not None:
            out.write(envelope.canonical() + b"\n")
    if output is None or as_json:
        show_json(envelope.tree())
    else:
        click.echo(
            f"Envelope {envelope.envelope_id} for plan {envelope.plan.plan_id} until {envelope.expires_at}, in {output}"
        )


@click.command()
@click.argument("envelope", type=click.File("rb"))
@workspace_option
@json_option
@click.pass_context
def apply(ctx: click.Context, envelope: IO[bytes], directory: Path, as_json: bool) -> None:
    """Carry out an approved plan, once, and report it.

    ENVELOPE is what `remit approve` signed (- for standard input). Exit code 0 when everything was done, now or before;
    1 when it ran and ended otherwise: what is left is said; 2 when it was refused and nothing was touched. Ctrl-C takes
    everything back.
    """
    raw = read_bounded(envelope, Envelope.bounds, source=envelope.name)
    with Workspace.open(directory) as workspace:
        outcome, stored = carry_out(workspace, raw, quiet=as_json)
    ctx.exit(tell(outcome, as_json=as_json, stored=stored))


@click.command()
@click.argument("plan", type=click.File("rb"))
@click.option("--yes", is_flag=True, help="Do not ask: you have seen what it does.")
@allow_options
@workspace_option
@json_option
@click.pass_context
def run(ctx: click.Context, plan: IO[bytes], yes: bool, allowed: Allowed, directory: Path, as_json: bool) -> None:
    """Preview, ask, approve and apply a plan in one go.

    PLAN is a JSON file, or - for standard input. Exit codes as those of `remit apply`; 2 also for a no, and 3 when
    there is nobody to ask: no terminal, and no --yes.
    """
    raw = _read(plan, Plan)
    with Workspace.open(directory) as workspace:
        document = workspace.preview(raw).document
        if not as_json:
            _say(render_preview(document))
        _require_allowed(document, allowed)
        if not yes and not _ask(plan, document, as_json=as_json):
            click.echo("Not applied; nothing was done.", err=True)
            ctx.exit(2)
        envelope = workspace.approve(raw, **allowed)
        _require_as_shown(workspace, document, envelope)
        outcome, stored = carry_out(workspace, envelope.canonical(), quiet=as_json)
    ctx.exit(tell(outcome, as_json=as_json, stored=stored, diffs=False))


def carry_out(workspace: Workspace, envelope: bytes, *, quiet: bool) -> tuple[PlanOutcome | PlanRefusal, bool]:
    """The outcome, and whether it is one from before. The first Ctrl-C cancels, a second one interrupts."""
    stored: list[bool] = []
    with showing_progress(quiet=quiet) as report, cancelling() as is_cancelled:
        try:
            outcome = workspace.apply(
                envelope,
                on_stored=lambda: stored.append(True),
                on_status=lambda update: report(update.phase, update.done, update.total, ""),
                is_cancelled=is_cancelled,
            )
        except KeyboardInterrupt:
            raise EnvironmentFailed(
                Reason.CANCELLED,
                "stopped before the end was recorded",
                next_step="Have it taken back, or finished, and recorded: remit recover",
            ) from None
    return outcome, bool(stored)


def tell(outcome: PlanOutcome | PlanRefusal, *, as_json: bool, stored: bool, diffs: bool = True) -> int:
    """Print how it ended, and return the exit code."""
    if isinstance(outcome, PlanRefusal):
        if as_json:
            show_json({"errors": [error.tree() for error in outcome.errors]})
        else:
            for error in outcome.errors:
                click.echo(f"{click.style('refused', fg='red', bold=True)}: {render_problem(error)}", err=True)
            click.echo("  Nothing was touched.", err=True)
        return 2
    if stored and not as_json:
        click.echo("Already done before; nothing was done now. The stored outcome:", err=True)
    if as_json:
        errors = [error.tree() for error in outcome.errors]
        show_json({"status": outcome.status.tree(), "report": outcome.report.tree(), "errors": errors})
    else:
        _say(render_outcome(outcome, diffs=diffs, is_last=not stored))
    return 0 if outcome.status.status == "SUCCESS" else 1


@contextlib.contextmanager
def cancelling() -> Iterator[Callable[[], bool]]:
    """What it yields says whether somebody pressed Ctrl-C. From the second time on it interrupts, as ever."""
    asked = threading.Event()

    def on_interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        asked.set()
        # Not by way of a stream: the signal may have come while one was being written to.
        os.write(2, b"\nCancelling; everything will be taken back.\n")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _require_allowed(document: PlanPreviewDocument, allowed: Allowed) -> None:
    """Said before anybody is asked: a yes to the diff is not a yes to what needs an approval of its own."""
    missing = [
        f"{flag_for(kind)} {quoted(name)}"
        for kind, names in needed(document).items()
        for name in names
        if name not in allowed[kind]
    ]
    if missing:
        raise Refused(
            Reason.PROTECTED,
            "the plan needs approvals that were not given; nothing was done",
            where=f"plan {document.plan_id}",
            next_step=f"If that is what you want, add: {' '.join(missing)}",
        )


def _ask(plan: IO[bytes], document: PlanPreviewDocument, *, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty() or plan.name in {"-", "<stdin>"}:
        raise NobodyToAsk(
            Reason.MISUSE,
            "a person must see this plan and say yes, and there is nobody to ask here; nothing was done",
            where=f"plan {document.plan_id}",
            next_step="Run it in a terminal, or look at `remit preview` and give --yes",
        )
    try:
        return click.confirm("Apply this plan?", default=False, err=True)
    except click.Abort:  # Ctrl-C or the end of input is no yes
        return False


def _require_as_shown(workspace: Workspace, document: PlanPreviewDocument, envelope: Envelope) -> None:
    """The yes was to what was shown. What was signed since must be the same."""
    signed = (envelope.plan_digest, envelope.config_digest, envelope.inputs)
    if signed != (document.plan_digest, document.config_digest, document.inputs):
        workspace.cancel(envelope.envelope_id)
        raise Refused(
            Reason.BINDING_MISMATCH,
            "a file that the plan names, or the configuration, changed while you were looking; nothing was done",
            where=f"plan {document.plan_id}",
            next_step="Run it again, and look at the new diff.",
        )


def _say(lines: Iterator[str]) -> None:
    for line in lines:
        click.echo(line)


def _read(stream: IO[bytes], contract: type[Contract]) -> bytes:
    """The bytes of a document that can be parsed. Parsed here as well, so that a refusal names the file."""
    raw = read_bounded(stream, contract.bounds, source=stream.name)
    contract.parse(raw, source=stream.name)
    return raw
