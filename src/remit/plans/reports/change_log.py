"""`change_log.json`: the changes of each completed action, in the order of execution. Pure."""

import uuid
from typing import Final

from remit.contracts.plans.change_log import Change, ChangeLog, DiffSummary, FileOperation, FileState
from remit.effects.plans.steps import Move, PlanStep, Result, State, ends
from remit.plans.reports.run_data import FinishedRun, later, time_of

_OPERATIONS: Final[dict[Move, FileOperation]] = {
    "create": "CREATE",
    "modify": "MODIFY",
    "delete": "DELETE",
    "rename": "RENAME",
}
_NO_DIFF: Final = DiffSummary(lines_added=0, lines_removed=0, preview="")
_ABSENT: Final = FileState(exists=False, hash=None, size_bytes=None, last_modified=None)


def build_change_log(run: FinishedRun) -> ChangeLog:
    """Build the change log. It is empty for a plan that was undone, because nothing is changed."""
    changes = tuple(_changes(run)) if run.status in {"SUCCESS", "PARTIAL"} and not run.rolled_back else ()
    lines = sum(change.diff_summary.lines_added + change.diff_summary.lines_removed for change in changes)
    return ChangeLog(
        log_id=run.ids.log_id,
        plan_id=run.plan_id,
        execution_report_id=run.ids.report_id,
        created_at=later(run.started_at, run.completed_at),
        changes=changes,
        files_affected_count=len({change.file_path for change in changes}),
        total_lines_changed=lines,
    )


def _changes(run: FinishedRun) -> list[Change]:
    done = {result.number: result for result in run.results if result.state == "done"}
    steps = [step for step in run.steps.steps if step.number in done and not step.unchanged]
    last_on = {path: step.number for step in steps for path in ends(step)}
    modified = {path: time_of(original.mtime_ns) for path, original in run.originals.items()}
    changes: list[Change] = []
    for step in steps:
        result = done[step.number]
        at = result.ended_at or run.completed_at
        before = _state(step.before if step.move != "create" else None, modified.get(step.path, run.started_at))
        landed = step.path if step.new_path is None else step.new_path
        # A rename keeps the time. If a later action changes the file again, the time between is not observed.
        reached = modified.get(step.path, at) if step.move == "rename" else at
        modified[landed] = run.modified.get(landed, reached) if last_on[landed] == step.number else reached
        after = _state(None if step.move == "delete" else step.after, modified[landed])
        changes.append(_change(run, step, result, before, after))
    return changes


def _change(run: FinishedRun, step: PlanStep, result: Result, before: FileState, after: FileState) -> Change:
    paths = run.steps.paths
    return Change(
        change_id=str(uuid.uuid5(uuid.UUID(run.ids.log_id), f"change {step.number}")),
        action_id=step.action_id,
        file_path=paths[step.path],
        new_path=None if step.new_path is None else paths[step.new_path],
        operation=_OPERATIONS[step.move],
        before_state=before,
        after_state=after,
        diff_summary=run.diffs.get(step.number, _NO_DIFF),
        timestamp=result.ended_at or run.completed_at,
    )


def _state(state: State | None, modified: str) -> FileState:
    if state is None:
        return _ABSENT
    return FileState(exists=True, hash=state.sha256, size_bytes=state.size, last_modified=modified)
