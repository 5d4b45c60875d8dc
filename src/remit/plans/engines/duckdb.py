"""Host side of DuckDB: runs an SQL text in a sandboxed process on a copy of the database, and parses its answer.

The answer is untrusted data. It is checked for form, truncated, masked and made printable. It contains no parameters.
Statement texts, and the rows of a SELECT, are used only in a preview.
"""

import importlib.util
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.contracts.plans.sql_report import (
    MAX_COLUMNS_TOLD,
    MAX_ROWS_SHOWN,
    MAX_SQL_SHOWN,
    MAX_STATEMENTS_TOLD,
    MAX_TABLES_TOLD,
    ToldColumn,
    ToldStatement,
)
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, mask_for_review
from remit.core.text import printable
from remit.effects.plans.handlers import NEW_FILE
from remit.effects.registry import PathUse
from remit.fs.paths import Located
from remit.masking import mask_field
from remit.plans.model.simulation_result import StepFinding, protocol_error, read_findings, read_remarks, show_sql
from remit.sandbox.host import CancelledError, InterruptedTaskError, SandboxHost
from remit.sandbox.memfd import sealed
from remit.sandbox.orders import Build, FolderGrant, Order

EFFECT: Final = "remit.effects.duckdb.engine:RUN"
BUILD: Final = Build(engine=True, open_files=512, packages=("duckdb",))
"""The process opens few files. But the kernel counts descriptors that wait in sockets, of all sandboxes of a user,
against this number when a new process is handed over. With a small number, many sandboxes could not start at once.
"""

_PULSE_SECONDS: Final = 0.5
_LONGEST_NAME: Final = 200
_LONGEST_MESSAGE: Final = 2_000
_LONGEST_CELL: Final = 4_200
_OF_THE_TEXT: Final = "the SQL text"
# DuckDB names a column without a name by its expression, which may contain literals of the text.
_NAME: Final = re.compile(r"[^\W\d]\w*(\(([^\W\d][\w.]*|\*)?\))?")
# Messages of DuckDB may quote a piece of the text: a string, or a long number.
_ENGINE_ERROR: Final = re.compile(r"\b[A-Z][A-Za-z ]{1,40} Error: .*", re.DOTALL)
_UNREADABLE: Final = "the engine cannot read it: "
"""How the effect begins the message about a text that DuckDB cannot parse."""
_QUOTED: Final = re.compile(r"'[^']*'?|\"(?![A-Za-z_]\w{0,62}\")[^\"]*\"|\$(\w*)\$.*?(\$\1\$|$)|\d{5,}", re.DOTALL)


class ContentQuestion(NamedTuple):
    """A request to run an SQL text on a database."""

    text: bytes
    parameters: Mapping[str, Any]
    database: Path | Located
    """A copy in a folder that is granted to the process, or a file of the project that is read in place."""
    alias: str
    reads_only: bool
    expect_results: bool
    results: Path | None
    """A new file in a folder of its own."""
    form: str | None
    seconds: float
    results_mode: int = NEW_FILE
    """The permissions of the results file."""
    expected: bytes | None = None
    """The rows that its one SELECT must return, as JSON. Rows are then not returned."""
    shared_parameters: bool = False
    """The parameters are shared by several texts, so this text need not use all of them."""


class DuckdbAnswer(NamedTuple):
    """The parsed answer of the process."""

    changed: bool
    statements: tuple[ToldStatement, ...]
    left_out: int
    columns: tuple[ToldColumn, ...]
    rows: tuple[tuple[str | None, ...], ...]
    result_rows: int
    texts: tuple[str, ...] = ()
    """The texts of the first statements, or of all if they fit."""
    unseen: tuple[tuple[int, str], ...] = ()
    """Numbers of statements that are not shown in full, with the reason."""
    findings: tuple[StepFinding, ...] = ()
    """Findings in the saved rows that need an approval."""
    remarks: tuple[str, ...] = ()


class Engine:
    """Runs SQL texts one after the other, for one request. The sandbox is requested when the first one runs."""

    def __init__(
        self, host: Callable[[], SandboxHost], task_id: str, memory_bytes: int, is_cancelled: Callable[[], bool]
    ) -> None:
        self._host = host
        self._task_id = task_id
        self._memory_bytes = memory_bytes
        self._is_cancelled = is_cancelled

    def run(self, question: ContentQuestion, meanwhile: Callable[[], None] = lambda: None) -> DuckdbAnswer:
        """Run one text. Raises the error that the process reports, with `where` in its own words, or how it ended.

        `meanwhile` is called regularly, to report progress.
        """
        require_duckdb()
        throttle = _Throttle(meanwhile)

        def is_cancelled() -> bool:
            throttle.call_if_due()
            return self._is_cancelled()

        with ExitStack() as stack:
            given = {"query": stack.enter_context(sealed("query", question.text))}
            if question.expected is not None:
                given["expected"] = stack.enter_context(sealed("expected", question.expected))
            try:
                finished = self._host().run(self._order(question), given=given, is_cancelled=is_cancelled)
            except CancelledError:
                raise
            except InterruptedTaskError as cut:
                raise _interrupted_error(cut, question.seconds) from None
            except RemitError as problem:
                # A text that cannot be parsed has no values yet.
                is_bound = bool(question.parameters) and not problem.what.startswith(_UNREADABLE)
                what = without_text(problem.what, has_values=is_bound)
                raise problem.with_changes(what=what) from None
        return read_answer(finished.output)

    def require_not_cancelled(self) -> None:
        """Raise CANCELLED if the request was cancelled."""
        if self._is_cancelled():
            raise EnvironmentFailureError(Reason.CANCELLED, "the request was cancelled before anything was changed")

    def _order(self, question: ContentQuestion) -> Order:
        places = {"database": _place(question.database, PathUse.READ if question.reads_only else PathUse.MAKE)}
        if question.results is not None:
            places["results"] = _place(question.results, PathUse.MAKE)
        return Order(
            effect=EFFECT,
            call="run",
            task_id=self._task_id,
            capability_id="SQL_EXECUTE",
            inputs={
                "mode": "read" if question.reads_only else "write",
                "parameters": dict(question.parameters),
                "shared_parameters": question.shared_parameters,
                "alias": question.alias,
                "expect_results": question.expect_results,
                "results": None if question.form is None else {"format": question.form, "mode": question.results_mode},
                "memory_bytes": self._memory_bytes,
                "preview_rows": MAX_ROWS_SHOWN if question.expected is None else 0,
            },
            reversible=True,
            part_name="",
            places=places,
            seconds=question.seconds,
        )


class _Throttle:
    """Calls a function at most twice a second."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._next = time.monotonic() + _PULSE_SECONDS

    def call_if_due(self) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + _PULSE_SECONDS
            self._call()


def require_duckdb() -> None:
    """Require the optional package. It is not imported here, because this process has the keys."""
    if importlib.util.find_spec("duckdb") is None:
        raise RefusedError(
            Reason.CAPABILITY_UNSUPPORTED,
            "DuckDB is not installed, and a plan that runs SQL needs it",
            next_step="Install it with: pip install 'remit[sql]'",
        )


def without_text(message: str, *, has_values: bool = False) -> str:
    """Remove quotes of the SQL text from an engine message. If values were bound to the text, keep only the error
    kind.
    """

    def listed(found: re.Match[str]) -> str:
        if has_values or "ENUM(" in found[0]:  # members of an ENUM may come from rows, with nested quotes
            return found[0].partition(":")[0]
        return _QUOTED.sub("...", found[0])

    return _ENGINE_ERROR.sub(listed, message)


def is_of_the_text(where: str) -> bool:
    """Whether `where` of an error refers to the SQL text itself."""
    return where in {"", _OF_THE_TEXT}


def _place(path: Path | Located, use: PathUse) -> FolderGrant:
    if isinstance(path, Located):
        return FolderGrant(*path, use=use)
    return FolderGrant(str(path.parents[1]), (path.parent.name,), path.name, use)


def _interrupted_error(cut: InterruptedTaskError, seconds: float) -> RemitError:
    if cut.reason is Reason.TIMED_OUT:
        return EnvironmentFailureError(
            Reason.TIMED_OUT,
            f"the SQL took longer than {seconds:g} seconds",
            next_step="Simplify it, or raise its limit: `timeout_seconds` of the action, or timeouts.sql.",
        )
    return cut


# --- parse the answer ------------------------------------------------------------------------------------------------


def read_answer(output: Mapping[str, Any] | None) -> DuckdbAnswer:
    try:
        return _read(output or {})
    except (KeyError, TypeError, ValueError, AttributeError):
        raise protocol_error("its answer about the SQL cannot be read") from None
    except RefusedError:  # raised by a contract
        raise protocol_error("its answer about the SQL breaks its contract") from None


def _read(output: Mapping[str, Any]) -> DuckdbAnswer:
    statements = [_statement(one) for one in _list(output["statements"])]
    listed = limit_statements(statements)
    columns = [(str(column["name"]), str(column["type"])) for column in _list(output["schema"])[:MAX_COLUMNS_TOLD]]
    changed, of_rows = output["changed"], _list(output.get("names_from_rows", []))
    if not isinstance(changed, bool):
        raise TypeError("no flag")
    texts, unseen = _select_texts(_list(output.get("texts", []))[:MAX_STATEMENTS_TOLD])
    return DuckdbAnswer(
        changed=changed,
        statements=listed,
        left_out=len(statements) - len(listed),
        columns=tuple(
            _column(number, "" if number in of_rows else name, kind)
            for number, (name, kind) in enumerate(columns, start=1)
        ),
        rows=tuple(
            tuple(_cell(name, cell) for (name, _), cell in zip(columns, _list(row), strict=False))
            for row in _list(output["rows"])[:MAX_ROWS_SHOWN]
        ),
        result_rows=int(output["result_rows"]),
        texts=tuple(texts),
        unseen=tuple(unseen),
        findings=read_findings(_list(output.get("findings", []))),
        remarks=read_remarks(_list(output.get("remarks", []))),
    )


def limit_statements(statements: Sequence[ToldStatement]) -> tuple[ToldStatement, ...]:
    """Return as many statements as reports may list. Statements that only read may be omitted, others may not."""
    if len(statements) <= MAX_STATEMENTS_TOLD:
        return tuple(statements)
    reading = [one.number for one in statements if one.rows_read is not None]
    most_reading = MAX_STATEMENTS_TOLD - (len(statements) - len(reading))
    if most_reading < 0:
        raise EnvironmentFailureError(
            Reason.SQL_REFUSED,
            f"more than {MAX_STATEMENTS_TOLD} statements of the SQL change data, which is too many to be shown",
            where=_OF_THE_TEXT,
            next_step="Split it into several actions.",
        )
    left_out = frozenset(reading[most_reading:])
    return tuple(one for one in statements if one.number not in left_out)


def _select_texts(texts: Sequence[Any]) -> tuple[list[str], list[tuple[int, str]]]:
    """Return as many whole texts as fit, and the number of a last text whose end is not shown."""
    remaining, shown = MAX_SQL_SHOWN, list[str]()
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise TypeError("no text")
        one = show_sql(text, remaining)
        shown.append(one.text)
        remaining -= len(one.text)
        if one.is_cut or remaining <= 0:
            return shown, [(number, "its end is not shown here: it is too long")] if one.is_cut else []
    return shown, []


def _statement(one: Mapping[str, Any]) -> ToldStatement:
    return ToldStatement.from_tree(
        {
            "number": one["number"],
            "kind": "UPSERT" if one.get("upserts") else one["kind"],
            "words": mask_for_review(str(one["words"])[:_LONGEST_MESSAGE]),
            "reads": _names(one["reads"]),
            "writes": _names(one["writes"]),
            "rows_read": one.get("rows_read"),
            "rows_changed": one.get("rows_changed"),
            "estimated_rows": one.get("estimated_rows"),
            "destroys": bool(one.get("destroys", False)),
        }
    )


def _names(names: Any) -> list[str] | None:
    return None if names is None else [_name(str(name)) for name in _list(names)[:MAX_TABLES_TOLD]]


def _name(name: str) -> str:
    return mask_for_review(name[:_LONGEST_NAME])[: 2 * _LONGEST_NAME]


def _column(number: int, name: str, kind: str) -> ToldColumn:
    listed = name if _NAME.fullmatch(name) and len(name) <= _LONGEST_NAME else f"column {number}"
    return ToldColumn(name=_name(listed), type=_name(kind))


def _cell(name: str, cell: Any) -> str | None:
    """Mask a cell by its content and by the name of its column, because a password may look like any other word."""
    return None if cell is None else printable(mask_field(name, str(cell)[:_LONGEST_CELL]))


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


# --- summary ---------------------------------------------------------------------------------------------------------

_ROWS: Final = {
    "INSERT": "inserted into",
    "UPSERT": "inserted or updated in",
    "UPDATE": "updated in",
    "DELETE": "deleted from",
    "TRUNCATE": "lost by TRUNCATE of",
    "MERGE_INTO": "merged into",
}
_OBJECTS: Final = {"CREATE": "created", "ALTER": "altered", "DROP": "dropped"}
_MOST_PARTS: Final = 6
_MOST_NAMES: Final = 3


def summarize_answer(answer: DuckdbAnswer, saved_to: str | None) -> str:
    """Summarize counts and table names: `2 statements: 3 rows updated in orders; 1 row deleted from drafts`."""
    total = len(answer.statements) + answer.left_out
    parts = [text for one in answer.statements if (text := _part(one))]
    if saved_to is not None:
        parts.append(f"{_counted(answer.result_rows, 'row')} saved to {saved_to}")
    shown = parts if len(parts) <= _MOST_PARTS else [*parts[: _MOST_PARTS - 2], "...", parts[-1]]
    return f"{_counted(total, 'statement')}: {'; '.join(shown)}"


def _part(one: ToldStatement) -> str:
    names = ", ".join((one.writes or ())[:_MOST_NAMES]) + (", ..." if len(one.writes or ()) > _MOST_NAMES else "")
    if one.kind in _OBJECTS:
        made = f"{names or 'something'} {_OBJECTS[one.kind]}"
        return f"{made} with {_counted(one.rows_changed, 'row')}" if one.rows_changed else made
    if one.kind == "EXPLAIN":
        return "a statement explained"
    if one.kind == "SELECT" and one.rows_read is one.rows_changed is None and one.writes == ():  # it was not run
        return f"rows read from {', '.join((one.reads or ())[:_MOST_NAMES]) or 'no table'}"
    if one.rows_read is not None:
        read = ", ".join((one.reads or ())[:_MOST_NAMES])
        return f"{_counted(one.rows_read, 'row')} read" + (f" from {read}" if read else "")
    count = "rows" if one.rows_changed is None else _counted(one.rows_changed, "row")
    return f"{count} {_ROWS.get(one.kind, 'changed in')} {names or 'the database'}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
