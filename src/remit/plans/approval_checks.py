"""Checks of an approval, when it is given and when it is used.

When it is given, the plan must be worth approving, and every allowance must be needed. When it is used, the files and
rows must be as they were when the plan was approved.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from remit.contracts.plans.envelope import Approvals, ApprovedInput, Envelope
from remit.contracts.plans.sql_report import SqlTold
from remit.core.errors import Reason, RefusedError
from remit.fs.paths import plain_spelling
from remit.plans.engines.database_files import require_none_busy
from remit.plans.model.remote_part import OTHER_TABLES, RESTORE_ROWS, render_counts
from remit.plans.preparation.remote_sql import is_bound_server
from remit.plans.preview.inputs import RESTORE_FILE, input_differences
from remit.plans.preview.planned_effect import PlannedEffect

_MOST_TABLES: Final = 20
_AGAIN: Final = "Preview the plan again, with `remit preview`, and approve it again."

TableCounts = Mapping[str, tuple[int, int, int]]
"""For each table, the numbers of inserted, updated and deleted rows."""


class OutdatedPreviewError(RefusedError):
    """An input of the plan is not as it was when the preview that the approver saw was computed."""

    def __init__(self, plan_id: str, path: str = "", how: str = "") -> None:
        what = how or "the plan would now have another effect than the preview that was named"
        super().__init__(
            Reason.HASH_MISMATCH,
            f"{what}; nothing was approved",
            where=f"plan {plan_id}" + (f", {path}" if path else ""),
            next_step="Compute the preview again, and decide by the new preview.",
        )
        self.path = path
        self.how = how


def is_worth_approving(preview: PlannedEffect, *, even_if_it_fails: bool) -> bool:
    """Return whether nothing would fail; or, with `even_if_it_fails`, whether the other actions would be done.

    A rule that does not hold undoes all actions, so such a plan is never worth approving.
    """
    fails = bool(preview.problems)
    return not fails or (even_if_it_fails and not preview.doomed and preview.broken_rule is None)


def require_applicable(preview: PlannedEffect, *, even_if_it_fails: bool) -> None:
    """Refuse a plan of which an action would fail.

    With `even_if_it_fails`, refuse it only if the plan would stop at its first error, or if a rule would not hold.
    While a database is in use, the effect on it is not known, so it cannot be approved.
    """
    busy = (one.problem for one in preview.all_actions if one.problem is not None)
    require_none_busy(busy, "Then preview the plan again, and approve it.")
    if is_worth_approving(preview, even_if_it_fails=even_if_it_fails):
        return
    problem = preview.problems[0]
    next_step = problem["next_step"]
    if not preview.doomed and preview.broken_rule is None:
        next_step = "Fix the plan, or approve it even if it fails: even_if_it_fails=True"
    raise RefusedError(
        Reason(problem["reason"]),
        f"the plan would fail: {problem['what']}",
        where=problem["where"],
        next_step=next_step,
    )


def reject_unused_allowances(preview: PlannedEffect, approvals: Approvals) -> None:
    """Refuse an allowance that the plan does not need. It is most likely a typing error."""
    known = {
        "protected": set(preview.needs.protected),
        "executable": {found.path for found in preview.findings if found.rule == "executable"},
        "content": {found.path for found in preview.findings if found.rule != "executable"},
        "irreversible": set(preview.needs.irreversible),
    }
    for kind, names in approvals.tree().items():
        for name in names:
            spelled = name if kind == "irreversible" else plain_spelling(name)
            if spelled not in known[kind]:
                raise RefusedError(
                    Reason.ARGUMENT_INVALID,
                    f"the plan needs no approval of this kind ({kind}) for this name",
                    where=name,
                    next_step="Leave it out. The preview lists what the plan needs.",
                )


def require_same_inputs(
    envelope: Envelope, preview: PlannedEffect, describe_folder: Callable[[str], str] = lambda _: ""
) -> None:
    """Refuse the approval if a file is new or differs from the approved one. A missing file only fails its action.

    `describe_folder` says how a changed folder differs. It returns an empty text for a path that is no folder.
    """
    was_run = preview.remote is None or preview.remote.computed == "execute"
    for path, found in differences(envelope, preview.inputs):
        how = describe_folder(path) or found
        is_server = is_bound_server(path)
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            f"{how}; {_describe_present_rows(preview)}"
            if is_server and was_run
            else OTHER_TABLES
            if is_server
            else how,
            where=path,
            next_step=RESTORE_FILE if not is_server else RESTORE_ROWS if was_run else _AGAIN,
        )


def _describe_present_rows(preview: PlannedEffect) -> str:
    """Say what the plan would do on its server now: an action that would fail, or the changed rows of each table."""
    actions = preview.remote.actions if preview.remote is not None else ()
    for action in actions:
        if action.problem is not None:
            return f"action {action.action_id} would fail now: {action.problem['what']}"
    tables = _tables_of(preview)
    named = [f"{table} ({render_counts(counts)})" for table, counts in tables.items()][:_MOST_TABLES]
    return f"it would now change {', '.join(named)}" if named else "it would now change no row"


def _tables_of(preview: PlannedEffect) -> TableCounts:
    actions = preview.remote.actions if preview.remote is not None else ()
    return _sum_tables(action.told for action in actions if action.told is not None)


def _sum_tables(reports: Iterable[SqlTold]) -> TableCounts:
    found: dict[str, tuple[int, int, int]] = {}
    for report in reports:
        for one in report.tables:
            inserted, updated, deleted = found.get(one.table, (0, 0, 0))
            found[one.table] = (inserted + one.inserted, updated + one.updated, deleted + one.deleted)
    return found


def differences(envelope: Envelope, inputs: Iterable[ApprovedInput]) -> Iterator[tuple[str, str]]:
    """Yield each path that differs from the approved state, and how it differs. A run is refused for the first one."""
    return input_differences(envelope.inputs, inputs, "the plan was approved")
