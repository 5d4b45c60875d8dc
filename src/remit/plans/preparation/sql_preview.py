"""The part of a preview about SQL actions: what it shows, what it cannot show, and how risky they are. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from remit.contracts.base import RiskLevel
from remit.contracts.plans.sql_report import MAX_UNSEEN_TOLD, SqlPreviewed, SqlTold, ToldStatement, UnseenSql
from remit.plans.engines.duckdb import DuckdbAnswer
from remit.plans.model.parameters import show_parameters
from remit.plans.policy.required_approvals import PathFinding

MAX_SHOWN_CHARACTERS: Final = 1 << 20
"""The limit for the rows of a whole preview, and for its texts. Past it, those of further actions are left out."""
_DESTROYING: Final = frozenset({"DELETE", "DROP"})


def describe_text(answer: DuckdbAnswer, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements and their parameters for a preview, and the parts of both that it does not show."""
    shown = show_parameters(parameters)
    unseen = [UnseenSql(where=f"statement {number}", what=what) for number, what in answer.unseen]
    return {"texts": answer.texts, "parameters": shown.parameters, "unseen": (*shown.unseen, *unseen)}


def findings_of_sql(summaries: Mapping[int, SqlPreviewed]) -> Iterator[PathFinding]:
    """Yield a finding for each statement that would run and is not shown in full. A person must approve it by name, as
    for a line of a file that is not shown.
    """
    for one in previewed_sql(summaries):
        path = one.saved_to or one.database or f"connection:{one.connection}"
        for unseen in one.unseen:
            yield PathFinding(path, "not_shown", f"action {one.action_id}, {unseen.where}", unseen.what)


def previewed_sql(summaries: Mapping[int, SqlPreviewed]) -> list[SqlPreviewed]:
    """Return the previews in the order of the steps, with rows and texts up to the limit. They are masked already."""
    rows, texts, shown = _Budget(), _Budget(), []
    for _, one in sorted(summaries.items()):
        left_out: dict[str, tuple[()]] = {}
        if not rows.spend(sum(len(cell or "") for line in one.rows for cell in line)):
            left_out["rows"] = ()
        if not texts.spend(sum(map(len, one.texts)) + sum(len(each.value) for each in one.parameters)):
            left_out |= {"texts": (), "parameters": ()}
        shown.append(_with_unseen(one, one.model_copy(update=left_out) if left_out else one))
    return shown


def _with_unseen(whole: SqlPreviewed, shown: SqlPreviewed) -> SqlPreviewed:
    """Add the statements and parameters that are left out to those that are not shown."""
    counts = {
        "statement": len(whole.statements) + whole.left_out - len(shown.texts),
        "parameter": len(whole.parameters) - len(shown.parameters),
    }
    more = [
        UnseenSql(where=f"{name}s", what=f"{count:,} more {name}{' is' if count == 1 else 's are'} not shown here")
        for name, count in counts.items()
        if count > 0
    ]
    return shown.model_copy(update={"unseen": (*more, *shown.unseen)[:MAX_UNSEEN_TOLD]}) if more else shown


class _Budget:
    def __init__(self) -> None:
        self._left = MAX_SHOWN_CHARACTERS

    def spend(self, size: int) -> bool:
        """Spend the size if the budget has it. Return whether it had."""
        is_enough = size <= self._left
        self._left -= size if is_enough else 0
        return is_enough


def causes_of_sql(summaries: Iterable[SqlTold]) -> Iterator[tuple[RiskLevel, str]]:
    """Yield each cause of a risk of these actions, with its level.

    Statements that destroy data, that cannot be undone, or that are not shown are HIGH. Other changes of a database,
    and rows that replace a file, are MEDIUM.
    """
    for summary in summaries:
        if not summary.changes_database:
            if isinstance(summary, SqlPreviewed) and summary.replaces:
                yield "MEDIUM", "rows replace a file"
            continue
        yield "MEDIUM", "a database is changed"
        if summary.left_out:
            yield "HIGH", "statements are left out"
        if summary.irreversible:
            yield "HIGH", "SQL cannot be undone"
        if any(map(_destroys, summary.statements)):
            yield "HIGH", "SQL destroys data"


def _destroys(one: ToldStatement) -> bool:
    return one.destroys or one.kind in _DESTROYING
