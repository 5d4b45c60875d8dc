"""The remote part of a plan that a preview did not run: explained by its server, or only read as text.

Nothing is known about rows then. Each field that would need them says so, and actions count as irreversible unless the
tables are known to allow a rollback.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from remit.contracts.plans.sql_report import MAX_NOTES_TOLD, Computed
from remit.core.errors import Reason, RefusedError
from remit.effects.postgres.statements import PostgresStatement, analyse, bind, require_reading
from remit.plans.engines.duckdb import read_answer
from remit.plans.engines.postgres import ActionResult, SqlText

COMPUTED: Final[Mapping[str, Computed]] = {"execute": "executed", "explain": "explained", "off": "not_computed"}
"""How a report names the way in which a remote part was computed."""
_EXPLAINED: Final = (
    "the server planned the statements and ran none of them: numbers of rows are the planner's estimates, and rows are "
    "not shown"
)
_NOT_COMPUTED: Final = (
    "the server was not contacted (`preview: off` of the connection): only the text is known, and nothing about tables "
    "and rows"
)
_UNKNOWN: Final = (
    "the server was not contacted (`preview: off` of the connection), so it is unknown whether its changes can be "
    "rolled back"
)
_EXPECTS: Final = "that the last SELECT returns rows (`expect_results`) is checked when the plan is applied"
_INSTEAD: Final = "`preview: execute` runs only statements that a rollback undoes completely, and here "


def notes_of(computed: str, why: str, notes: Iterable[str]) -> tuple[str, ...]:
    """Return what a preview does not know. `why`: the reason why the server ran nothing although it was allowed to."""
    match computed:
        case "execute":
            return ()
        case "explain":
            reason = [f"{_INSTEAD}{why}"] if why else []
            return (_EXPLAINED, *reason, *notes)[:MAX_NOTES_TOLD]
    return (_NOT_COMPUTED, *notes)[:MAX_NOTES_TOLD]


def read_texts(texts: Sequence[SqlText], *, reads_only: bool) -> tuple[ActionResult, ...]:
    """Return what the texts alone show of each action. They are checked as if they were to run. Pure."""
    return tuple(
        _read_action(number, list(group), reads_only=reads_only)
        for number, group in groupby(texts, key=lambda text: text.number)
    )


def _read_action(number: int, texts: Sequence[SqlText], *, reads_only: bool) -> ActionResult:
    statements: list[PostgresStatement] = []
    for text in texts:
        try:
            statements += _statements(text, reads_only=reads_only)
        except RefusedError as problem:
            return ActionResult(number, None, (), "", problem.with_changes(where=text.name).as_json())
    changes = any(_may_change(one) for one in statements)
    answer = read_answer(
        {
            "statements": [_describe(place, one) for place, one in enumerate(statements, start=1)],
            "texts": [one.written for one in statements],
            "rows": [],
            "result_rows": 0,
            "schema": [],
            "changed": changes,
        }
    )
    notes = (_EXPECTS,) if any(text.expect_results for text in texts) else ()
    return ActionResult(number, answer, (), _UNKNOWN if changes else "", None, notes)


def _statements(text: SqlText, *, reads_only: bool) -> Iterator[PostgresStatement]:
    try:
        decoded = text.text.decode()
    except UnicodeDecodeError:
        raise RefusedError(
            Reason.SQL_REFUSED, "the SQL text is not UTF-8", where=text.name, next_step="Save it as UTF-8."
        ) from None
    statements = analyse(decoded)
    bind(statements, text.parameters)
    if reads_only:
        require_reading(statements)
    yield from statements


def _may_change(one: PostgresStatement) -> bool:
    return not one.is_read and one.kind != "EXPLAIN"


def _describe(number: int, one: PostgresStatement) -> dict[str, Any]:
    names = ", ".join(one.named)
    return {
        "number": number,
        "kind": one.called,
        "reads": None,
        "writes": [] if not _may_change(one) else list(one.named) or None,
        "destroys": one.destroys,
        "words": f"{one.called.replace('_', ' ')}{f' of {names}' if names else ''}, by its text",
    }
