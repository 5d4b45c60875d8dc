"""`remit task`."""

from datetime import timedelta
from pathlib import Path
from typing import IO

import click

from remit.cli.common.identity import find_agent, require_clock, resolve_actor
from remit.cli.common.options import counting, json_option, open_output, output_option, show_json, workspace_option
from remit.contracts.base import Contract
from remit.contracts.tasks.result import ExecutionResult
from remit.contracts.tasks.task import LeaseToken, TaskManifest
from remit.core.errors import Reason, RefusedError
from remit.core.text import printable
from remit.execution.engine import Preview
from remit.parsing import read_bounded
from remit.workspace.workspace import Workspace


@click.group()
def task() -> None:
    """Sign a lease for one task, run the task, and undo it."""


@task.command()
@click.argument("manifest", type=click.File("rb"))
@output_option
@click.option(
    "--minutes", type=click.IntRange(1, 60), default=5, show_default=True, help="How many minutes the lease is valid."
)
@workspace_option
@json_option
def lease(manifest: IO[bytes], output: Path | None, minutes: int, directory: Path, as_json: bool) -> None:
    """Sign a lease for one task, as the kernel does.

    MANIFEST is a JSON file, or - for standard input. A lease that a person signs for a protected file lets an agent use
    that file in this task. A warning names the file.
    """
    from remit.services.agent_tasks import protected_paths  # noqa: PLC0415 - as below

    raw = _read(manifest, TaskManifest)
    # The output is opened first. A lease that is signed and recorded but cannot be written would be lost.
    with open_output(output, reserved=(manifest.name,)) as out:
        with Workspace.open(directory) as workspace:
            require_clock(workspace, timedelta(minutes=minutes))
            protected = protected_paths(workspace, TaskManifest.parse(raw))
            token = workspace.tasks.issue_lease(raw, timedelta(minutes=minutes), actor=resolve_actor(workspace))
        if output is not None:
            out.write(token.canonical() + b"\n")
    for path in protected:
        click.echo(
            f"warning: {printable(path)} is protected; with this lease, an agent can run {token.capability_id} on it",
            err=True,
        )
    if output is None or as_json:
        show_json(token.tree())
    else:
        click.echo(f"Lease {token.lease_id} for task {token.task_id} until {token.expires_at}, in {output}")


@task.command()
@click.argument("manifest", type=click.File("rb"))
@click.option("--lease", "lease_file", type=click.File("rb"), required=True, help="The lease for this manifest.")
@click.option("--dry-run", is_flag=True, help="Check everything, but do not claim or run the task.")
@workspace_option
@json_option
@click.pass_context
def run(
    ctx: click.Context, manifest: IO[bytes], lease_file: IO[bytes], dry_run: bool, directory: Path, as_json: bool
) -> None:
    """Run a task under its lease, and print the signed result.

    MANIFEST is a JSON file, or - for standard input.

    The exit code is 0 if the task succeeded, now or before, 1 if it ran and failed, and 2 if it was refused and nothing
    ran.
    """
    raw = _read(manifest, TaskManifest)
    token = read_bounded(lease_file, LeaseToken.bounds, source=lease_file.name)
    refusals: list[RefusedError] = []
    outcome: ExecutionResult | Preview
    with Workspace.open(directory) as workspace:
        agent = find_agent(workspace)
        if agent is not None:
            ctx.exit(_run_for_agent(workspace, raw, token, dry_run=dry_run))
        if dry_run:
            outcome = workspace.preview_task(raw, token, on_refusal=refusals.append)
        else:
            with counting("bytes done") as progress:
                outcome = workspace.execute_task(
                    raw, token, on_refusal=refusals.append, on_stored=_print_stored, on_progress=progress
                )
    if isinstance(outcome, Preview):
        if as_json:
            show_json({"preview": outcome.summary, "digest": outcome.digest})
        else:
            click.echo(f"Would run: {outcome.summary}")
        return
    if dry_run and not as_json:
        click.echo("Already done. The stored result:", err=True)
    show_json({"already_done": True, "result": outcome.tree()} if dry_run and as_json else outcome.tree())
    if outcome.error is not None:
        ctx.exit(2 if refusals else 1)


def _run_for_agent(workspace: Workspace, raw: bytes, lease: bytes, *, dry_run: bool) -> int:
    """Run the task by the rules for agents: no protected file without a person's lease, and no digest of content."""
    from remit.services.agent_tasks import require_not_protected, result_for_agent  # noqa: PLC0415 - only for agents

    require_not_protected(workspace, TaskManifest.parse(raw), lease)
    if dry_run:
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            "a dry run shows the sizes of files, so it is for people only",
            where="--dry-run",
            next_step="Run the task without --dry-run.",
        )
    refusals: list[RefusedError] = []
    outcome = workspace.execute_task(raw, lease, on_refusal=refusals.append, on_stored=_print_stored)
    show_json(result_for_agent(workspace, outcome).tree())
    return 0 if outcome.error is None else 2 if refusals else 1


@task.command()
@click.argument("result", type=click.File("rb"))
@workspace_option
@json_option
@click.pass_context
def restore(ctx: click.Context, result: IO[bytes], directory: Path, as_json: bool) -> None:  # noqa: ARG001 - the result is JSON either way
    """Undo a task.

    RESULT is the signed result that `remit task run` printed, or - for standard input. A moved file is moved to its old
    path, a deleted file is restored from its snapshot, and a reversible copy is removed if it has not changed. This is
    a separate task with a lease and ledger entries. A second restore returns the result of the first.

    The exit codes are those of `remit task run`.
    """
    raw = _read(result, ExecutionResult)
    refusals: list[RefusedError] = []
    with Workspace.open(directory) as workspace, counting("bytes done") as progress:
        outcome = workspace.restore_task(raw, on_refusal=refusals.append, on_stored=_print_stored, on_progress=progress)
    show_json(outcome.tree())
    if outcome.error is not None:
        ctx.exit(2 if refusals else 1)


def _print_stored() -> None:
    """Print a note on standard error, because the result itself is the same, byte for byte."""
    click.echo("Already done before; nothing was done now. The stored result:", err=True)


def _read(stream: IO[bytes], contract: type[Contract]) -> bytes:
    """Read a document, and parse it so that an error names the file."""
    raw = read_bounded(stream, contract.bounds, source=stream.name)
    contract.parse(raw, source=stream.name)
    return raw
