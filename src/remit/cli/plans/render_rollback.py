"""The outcome of a rollback as text for people."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import click

from remit.cli.common.bidi import display_name
from remit.cli.plans.render import MAX_LISTED
from remit.cli.plans.render_sql import NAMED_TABLES
from remit.cli.plans.text import quoted, render_problem, render_status, row
from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.plans.rollback import Checkpoint, RowsCheckpoint
from remit.core.text import counted
from remit.plans.storage.manifest import OWNER_NOTE, UNTOUCHED_NOTE
from remit.services.base.run_list import KnownRun, shorten_run_id

_AS_BEFORE: Final = re.compile(rf"\d+ of \d+ files {re.escape(UNTOUCHED_NOTE)}[^.]*\.")
_OTHER_OWNER: Final = re.compile(rf"\d+ restored files {re.escape(OWNER_NOTE)}.*")


AnyCheckpoint = Checkpoint | RowsCheckpoint


def advise_on_later_run(run: KnownRun) -> str:
    return (
        f"Plan {display_name(run.plan_id)} changed it since. To roll back that plan first:"
        f" remit rollback {shorten_run_id(run.envelope_id)}"
    )


def render_rollback(outcome: RollbackOutcome, already_restored: Collection[str] = ()) -> Iterator[str]:
    """Render the restored and the kept files by name.

    `already_restored` has the checkpoints of files that were as before and so were not touched.
    """
    checkpoints: dict[str, AnyCheckpoint] = {each.checkpoint_id: each for each in outcome.manifest.checkpoints}
    if (rows_checkpoint := outcome.manifest.rows) is not None:
        checkpoints[rows_checkpoint.checkpoint_id] = rows_checkpoint
    touched = [name for name in outcome.restored if name not in already_restored]
    untouched = [name for name in outcome.restored if name in already_restored]
    were = "was" if len(untouched) == 1 else "were"
    also = f", {len(untouched):,} of them {were} not touched" if untouched else ""
    restored = counted(len(outcome.restored), "checkpoint")
    plan = f"plan {display_name(outcome.manifest.plan_id)}, envelope {display_name(outcome.envelope_id)}"
    yield f"{render_status(outcome.status)}  {plan}: {restored} as before the plan{also}"
    rows = [(_action_label(checkpoints.get(name)), _path(checkpoints, name)) for name in touched]
    rows += [("as before", f"{_path(checkpoints, name)}: not touched") for name in untouched]
    yield from (row(*cells) for cells in rows[:MAX_LISTED])
    if len(rows) > MAX_LISTED:
        yield row("", f"and {len(rows) - MAX_LISTED:,} more")
    for kept in outcome.kept:
        yield row("kept", f"{_path(checkpoints, kept.checkpoint_id)}: {display_name(kept.reason)}")
    for problem in outcome.errors:
        yield row(click.style("failed", fg="red"), render_problem(problem), width=len("failed"))
    if not untouched:
        for sentence in _AS_BEFORE.findall(outcome.manifest.notes)[-1:]:
            yield row("note", display_name(sentence))
    for sentence in _OTHER_OWNER.findall(outcome.manifest.notes)[-1:]:
        yield row("note", display_name(sentence))
    yield from _render_unrestored(outcome)


def _render_unrestored(outcome: RollbackOutcome) -> Iterator[str]:
    kept_ids = {each.checkpoint_id for each in outcome.kept}
    rows = outcome.manifest.rows
    listed: list[AnyCheckpoint] = [*outcome.manifest.checkpoints]
    left = [each for each in (listed if rows is None else [*listed, rows]) if each.restored_at is None]
    stays = [each for each in left if each.checkpoint_id in kept_ids]
    if stays:
        yield row("not restored", f"{counted(len(stays), 'checkpoint')}, see `kept` above: {_names(stays)}")
    if open_ones := [each for each in left if each.checkpoint_id not in kept_ids]:
        again = f"remit rollback {quoted(outcome.envelope_id)}"
        yield row("not restored", f"{counted(len(open_ones), 'checkpoint')}: {_names(open_ones)}")
        yield row("next", f"To roll back the rest: {again}")


def _names(checkpoints: Sequence[AnyCheckpoint]) -> str:
    more = f" and {len(checkpoints) - MAX_LISTED:,} more" if len(checkpoints) > MAX_LISTED else ""
    return ", ".join(display_name(_describe(each)) for each in checkpoints[:MAX_LISTED]) + more


def _action_label(checkpoint: AnyCheckpoint | None) -> str:
    return (
        "removed" if isinstance(checkpoint, Checkpoint) and checkpoint.operation_to_reverse == "CREATE" else "restored"
    )


def _path(checkpoints: Mapping[str, AnyCheckpoint], name: str) -> str:
    return display_name(_describe(checkpoints[name])) if name in checkpoints else name


def _describe(checkpoint: AnyCheckpoint) -> str:
    if isinstance(checkpoint, Checkpoint):
        return checkpoint.file_path
    tables = ", ".join(one.table for one in checkpoint.tables[:NAMED_TABLES])
    more = ", ..." if len(checkpoint.tables) > NAMED_TABLES else ""
    return f"rows of {tables or 'tables'}{more} on {checkpoint.server}"
