"""Checks of an approval, when it is given and when it is used.

When it is given, the plan must be worth approving, and every allowance must be needed. When it is used, the files and
rows must be as they were when the plan was approved.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from remit.contracts.plans.envelope import Approvals, ApprovedInput, Envelope
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.plans.sql_report import SqlTold
from remit.core.errors import Reason, RefusedError
from remit.fs.paths import plain_spelling
from remit.plans.preparation.remote_sql import connection_of_bound, is_bound_server
from remit.plans.preview.document import PlanPreview

_MOST_TABLES: Final = 20
_RESTORE_FILE: Final = (
    "Restore it to its approved state and apply again. Or preview the plan again with `remit preview` and approve it"
    " again."
)
_RESTORE_ROWS: Final = (
    "The approval stays valid: apply again when these rows are as they were. Or preview the plan again with `remit"
    " preview` and approve it again."
)

TableCounts = Mapping[str, tuple[int, int, int]]
"""For each table, the numbers of inserted, updated and deleted rows."""


class OutdatedPreviewError(RefusedError):
    """The plan would now have another effect than the preview that the approver saw."""

    def __init__(self, preview: PlanPreview) -> None:
        super().__init__(
            Reason.HASH_MISMATCH,
            "a file that the plan names, a row that it would change, or the configuration changed since the preview;"
            " nothing was approved",
            where=f"plan {preview.plan.plan_id}",
            next_step="Compute the preview again, and decide by the new preview.",
        )
        self.preview = preview


def is_worth_approving(preview: PlanPreview, *, even_if_it_fails: bool) -> bool:
    """Return whether nothing would fail; or, with `even_if_it_fails`, whether the other actions would be done.

    A rule that does not hold undoes all actions, so such a plan is never worth approving.
    """
    fails = bool(preview.problems)
    return not fails or (even_if_it_fails and not preview.doomed and preview.prepared.broken_rule is None)


def require_applicable(preview: PlanPreview, *, even_if_it_fails: bool) -> None:
    """Refuse a plan of which an action would fail.

    With `even_if_it_fails`, refuse it only if the plan would stop at its first error, or if a rule would not hold.
    """
    if is_worth_approving(preview, even_if_it_fails=even_if_it_fails):
        return
    problem = preview.problems[0]
    next_step = problem["next_step"]
    if not preview.doomed and preview.prepared.broken_rule is None:
        next_step = "Fix the plan, or approve it even if it fails: even_if_it_fails=True"
    raise RefusedError(
        Reason(problem["reason"]),
        f"the plan would fail: {problem['what']}",
        where=problem["where"],
        next_step=next_step,
    )


def reject_unused_allowances(preview: PlanPreview, approvals: Approvals) -> None:
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
    envelope: Envelope, preview: PlanPreview, describe_folder: Callable[[str], str] = lambda _: ""
) -> None:
    """Refuse the approval if a file is new or differs from the approved one. A missing file only fails its action.

    `describe_folder` says how a changed folder differs. It returns an empty text for a path that is no folder.
    """
    for path, found in differences(envelope, preview.inputs):
        how = describe_folder(path) or found
        is_server = is_bound_server(path)
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            f"{how}; {_describe_present_rows(preview)}" if is_server else how,
            where=path,
            next_step=_RESTORE_ROWS if is_server else _RESTORE_FILE,
        )


def find_change_since_preview(document: PlanPreviewDocument, now: PlanPreview) -> tuple[str, str]:
    """Return where the first difference between a stored preview and the present one is, and what differs.

    Both are empty if only an input is missing now.
    """
    if document.config_digest != now.config_digest:
        return "remit.yaml", "the configuration changed since the preview"
    for path, how in input_differences(document.inputs, now.inputs, "the preview was computed"):
        if not is_bound_server(path):
            return path, how
        then = _sum_tables(document.sql)
        tables = _describe_tables(then, _tables_of(now))
        text = "rows that the plan would change were changed since the preview"
        return f"connection {connection_of_bound(path)}", f"{text}: {tables}" if tables else text
    return "", ""


def _describe_present_rows(preview: PlanPreview) -> str:
    """Say what the plan would do on its server now: an action that would fail, or the changed rows of each table."""
    actions = preview.remote.actions if preview.remote is not None else ()
    for action in actions:
        if action.problem is not None:
            return f"action {action.action_id} would fail now: {action.problem['what']}"
    tables = _tables_of(preview)
    named = [f"{table} ({_render_counts(counts)})" for table, counts in tables.items()][:_MOST_TABLES]
    return f"it would now change {', '.join(named)}" if named else "it would now change no row"


def _tables_of(preview: PlanPreview) -> TableCounts:
    actions = preview.remote.actions if preview.remote is not None else ()
    return _sum_tables(action.told for action in actions if action.told is not None)


def _sum_tables(reports: Iterable[SqlTold]) -> TableCounts:
    found: dict[str, tuple[int, int, int]] = {}
    for report in reports:
        for one in report.tables:
            inserted, updated, deleted = found.get(one.table, (0, 0, 0))
            found[one.table] = (inserted + one.inserted, updated + one.updated, deleted + one.deleted)
    return found


def _describe_tables(then: TableCounts, now: TableCounts) -> str:
    """Name the tables whose counts differ. If none do, the values differ, so all tables are named."""
    tables = list(dict.fromkeys((*then, *now)))
    differing = [table for table in tables if then.get(table) != now.get(table)]
    if not differing:
        return " or ".join(tables[:_MOST_TABLES])
    return ", ".join(
        f"{table} ({_render_counts(then.get(table))} in the preview, {_render_counts(now.get(table))} now)"
        for table in differing[:_MOST_TABLES]
    )


def _render_counts(counts: tuple[int, int, int] | None) -> str:
    named = zip(counts or (), ("inserted", "updated", "deleted"), strict=False)
    return ", ".join(f"{number:,} {word}" for number, word in named if number) or "no row"


def differences(envelope: Envelope, inputs: Iterable[ApprovedInput]) -> Iterator[tuple[str, str]]:
    """Yield each path that differs from the approved state, and how it differs. A run is refused for the first one."""
    return input_differences(envelope.inputs, inputs, "the plan was approved")


def input_differences(
    before: Iterable[ApprovedInput], now: Iterable[ApprovedInput], when: str
) -> Iterator[tuple[str, str]]:
    """Yield each path of `now` that differs from `before`, and how it differs. `when` names the time of `before`."""
    known = {item.path: item for item in before}
    for item in sorted(now, key=lambda item: is_bound_server(item.path)):  # files first: they help more than a digest
        if how := _how_it_differs(known.get(item.path), item, when):
            yield item.path, how


def _how_it_differs(approved: ApprovedInput | None, found: ApprovedInput, when: str) -> str:
    """Return the difference as text, or an empty text."""
    if is_bound_server(found.path) and (approved is None or approved.input_digest != found.input_digest):
        return "the rows that this plan would change are not those that were approved"
    if approved is None:
        return f"this file did not exist when {when}"
    if approved.input_digest != found.input_digest:
        return f"this file was changed since {when}"
    if approved.mode != found.mode:
        then = f"they were {approved.mode}" if approved.mode else "they were not recorded"
        return f"the permissions of this file are {found.mode}; when {when}, {then}"
    return ""
