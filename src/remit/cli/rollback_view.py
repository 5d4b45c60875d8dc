"""What people read of a rollback; and the look around before it, without which nobody could tell what it touched."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import click

from remit.checkpoint.drift import judge, paths_of, see, select
from remit.checkpoint.manifest import AS_BEFORE, OTHER_OWNER
from remit.cli.plan_summary import LISTED
from remit.cli.plan_words import quoted, render_problem, render_status, row
from remit.cli.run_list import KnownRun, list_runs, open_past_runs, project_root, short_name
from remit.cli.sql_view import NAMED_TABLES
from remit.cli.table import counted
from remit.contracts.change_log import Change
from remit.contracts.outcome import RollbackOutcome
from remit.contracts.rollback_manifest import Checkpoint, RowsCheckpoint
from remit.doors.rollback_look import Taken
from remit.effects.plan_steps import State
from remit.errors import RemitError
from remit.printable import printable
from remit.store.claims import Done
from remit.workspace import Workspace

_AS_BEFORE: Final = re.compile(rf"\d+ of \d+ files {re.escape(AS_BEFORE)}")
_OTHER_OWNER: Final = re.compile(rf"\d+ restored files {re.escape(OTHER_OWNER)}.*")


AnyCheckpoint = Checkpoint | RowsCheckpoint


class Standing(NamedTuple):
    """The files of a run shortly before it is taken back. To tell about, not to decide by: the door looks itself."""

    taken: Taken | None = None
    as_before: frozenset[str] = frozenset()
    """Checkpoints whose file was as before already."""
    drifted: Mapping[str, State | None] = {}
    """Paths that somebody changed since."""

    @property
    def is_empty(self) -> bool:
        """The run is known, and changed nothing."""
        return self.taken is not None and not self.taken.manifest.checkpoints and self.taken.manifest.rows is None


def look_around(workspace: Workspace, name: str, chosen: Collection[str]) -> Standing:
    """Knows nothing of a run that has to be recovered first, or that is refused: the door says why."""
    runs = open_past_runs(workspace)
    try:
        taken = runs.taken(runs.find(name))
        files = [one for one in select(taken.manifest, chosen) if one.file_kind == "file"]
        states = see(project_root(workspace), paths_of(files))
    except RemitError:
        return Standing()
    looks = {one.checkpoint_id: judge(one, states) for one in files}
    as_before = frozenset(checkpoint_id for checkpoint_id, look in looks.items() if look == "before")
    drifted = paths_of(one for one in files if looks[one.checkpoint_id] == "drifted")
    return Standing(taken, as_before, {path: states[path] for path in drifted})


def later_run(workspace: Workspace, standing: Standing) -> KnownRun | None:
    """The newest plan of ours that left one of the drifted files as it stands now."""
    if standing.taken is None:
        return None
    runs, envelope_id = open_past_runs(workspace), standing.taken.outcome.status.envelope_id
    for run in list_runs(workspace):
        if run.what == "plan" and run.envelope_id == envelope_id:
            return None
        found = runs.claim(run.envelope_id) if run.what == "plan" and run.can_be_undone else None
        if isinstance(found, Done) and any(
            _left_by(change, standing.drifted) for change in runs.outcome_of(found).change_log.changes
        ):
            return run
    return None


def _left_by(change: Change, drifted: Mapping[str, State | None]) -> bool:
    path = change.new_path or change.file_path
    state = drifted.get(path)
    return path in drifted and change.after_state.file_hash == (state.sha256 if state else None)


def advise_on_later_run(run: KnownRun) -> str:
    return (
        f"Plan {printable(run.plan_id)} changed it since. To take that back first:"
        f" remit rollback {short_name(run.envelope_id)}"
    )


def render_rollback(outcome: RollbackOutcome, as_before: Collection[str] = ()) -> Iterator[str]:
    """What was restored and what was kept, by name; `as_before`: checkpoints of files that were not touched."""
    known: dict[str, AnyCheckpoint] = {each.checkpoint_id: each for each in outcome.manifest.checkpoints}
    if (elsewhere := outcome.manifest.rows) is not None:
        known[elsewhere.checkpoint_id] = elsewhere
    touched = [name for name in outcome.restored if name not in as_before]
    untouched = [name for name in outcome.restored if name in as_before]
    also = f", {len(untouched):,} as before already" if untouched else ""
    restored = counted(len(touched), "checkpoint")
    plan = f"plan {printable(outcome.manifest.plan_id)}, envelope {printable(outcome.envelope_id)}"
    yield f"{render_status(outcome.status)}  {plan}: {restored} restored{also}"
    rows = [(_word(known.get(name)), _path(known, name)) for name in touched]
    rows += [("as before", f"{_path(known, name)}: not touched") for name in untouched]
    yield from (row(*cells) for cells in rows[:LISTED])
    if len(rows) > LISTED:
        yield row("", f"and {len(rows) - LISTED:,} more")
    for kept in outcome.kept:
        yield row("kept", f"{_path(known, kept.checkpoint_id)}: {printable(kept.reason)}")
    for problem in outcome.errors:
        yield row(click.style("failed", fg="red"), render_problem(problem), width=len("failed"))
    if not untouched:
        for sentence in _AS_BEFORE.findall(outcome.manifest.notes)[-1:]:
            yield row("note", printable(sentence))
    for sentence in _OTHER_OWNER.findall(outcome.manifest.notes)[-1:]:
        yield row("note", printable(sentence))
    yield from _left(outcome)


def _left(outcome: RollbackOutcome) -> Iterator[str]:
    kept = {each.checkpoint_id for each in outcome.kept}
    rows = outcome.manifest.rows
    listed: list[AnyCheckpoint] = [*outcome.manifest.checkpoints]
    left = [each for each in (listed if rows is None else [*listed, rows]) if each.restored_at is None]
    stays = [each for each in left if each.checkpoint_id in kept]
    if stays:
        yield row("left", f"{counted(len(stays), 'checkpoint')} not restored, for the reason above: {_names(stays)}")
    if open_ones := [each for each in left if each.checkpoint_id not in kept]:
        again = f"remit rollback {quoted(outcome.envelope_id)}"
        yield row("left", f"{counted(len(open_ones), 'checkpoint')} not restored: {_names(open_ones)}")
        yield row("next", f"To take back the rest: {again}")


def _names(checkpoints: Sequence[AnyCheckpoint]) -> str:
    more = f" and {len(checkpoints) - LISTED:,} more" if len(checkpoints) > LISTED else ""
    return ", ".join(printable(_called(each)) for each in checkpoints[:LISTED]) + more


def _word(checkpoint: AnyCheckpoint | None) -> str:
    return (
        "removed" if isinstance(checkpoint, Checkpoint) and checkpoint.operation_to_reverse == "CREATE" else "restored"
    )


def _path(known: Mapping[str, AnyCheckpoint], name: str) -> str:
    return printable(_called(known[name])) if name in known else name


def _called(checkpoint: AnyCheckpoint) -> str:
    if isinstance(checkpoint, Checkpoint):
        return checkpoint.file_path
    tables = ", ".join(one.table for one in checkpoint.tables[:NAMED_TABLES])
    more = ", ..." if len(checkpoint.tables) > NAMED_TABLES else ""
    return f"rows of {tables or 'tables'}{more} on {checkpoint.server}"
