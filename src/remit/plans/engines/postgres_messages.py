"""Messages of the sandboxed process that uses a PostgreSQL server: orders to it, and parsing of its answers."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.core.canonical import digest, digest_bytes
from remit.core.errors import Reason, RefusedError, render_line
from remit.effects.registry import PathUse
from remit.plans.engines.database_files import WorkFolder
from remit.plans.engines.duckdb import DuckdbAnswer, read_answer
from remit.plans.model.simulation_result import error_of, protocol_error
from remit.sandbox.orders import FolderGrant, Order
from remit.sandbox.results import reason_of

_MOST_TABLES: Final = 10_000
_MOST_NOTES: Final = 500
_LONGEST: Final = 2_000
_XID: Final = re.compile(r"[0-9]{0,20}")
_DATABASE: Final = re.compile(r"[0-9]{1,24}/[0-9]{1,10}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class TableChange(NamedTuple):
    """Changed rows of one table, as the server counted them, including cascades and triggers."""

    table: str
    inserted: int
    updated: int
    deleted: int


class ActionResult(NamedTuple):
    """The result of one action."""

    number: int
    answer: DuckdbAnswer | None
    """None if it failed."""
    tables: tuple[TableChange, ...]
    irreversible: str
    """The reason why it cannot be rolled back. Empty if it can, or if it changes nothing."""
    problem: Mapping[str, str] | None
    notes: tuple[str, ...] = ()
    """What is not known about an action that was explained and not run."""


class Definitions(NamedTuple):
    """What an approval of texts that were explained is bound to, besides these texts."""

    database: str
    role: str
    tables: str
    """The digest of the definitions of the tables. Empty if nothing can be changed."""


class Transaction(NamedTuple):
    """The identity of a transaction, for recovery to ask the server about."""

    xid: str
    """Empty if it has none, because it can change nothing."""
    backend: int
    database: str
    """The system identifier of the server, and the number of the database."""


class DriftedRows(NamedTuple):
    """Rows that have changed since the plan ran."""

    table: str
    rows: int
    """0 if the table itself was replaced."""
    what: str


def read_action(frame: Mapping[str, Any]) -> ActionResult:
    try:
        problem, answer = frame["problem"], frame["answer"]
        return ActionResult(
            _count(frame["number"]),
            None if answer is None else read_answer(answer),
            read_tables(frame["tables"]),
            render_line(_text(frame["irreversible"])[:_LONGEST]),
            None if problem is None else _problem(problem),
            tuple(map(read_reason, frame.get("notes", ())[:_MOST_NOTES])),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise protocol_error("its answer about an action cannot be read") from None


def read_tables(rows: Any) -> tuple[TableChange, ...]:
    if not isinstance(rows, list) or len(rows) > _MOST_TABLES:
        raise protocol_error("its answer about tables cannot be read")
    try:
        return tuple(TableChange(_name(name), *map(_count, counts)) for name, *counts in rows)
    except (TypeError, ValueError):
        raise protocol_error("its answer about tables cannot be read") from None


def read_transaction(output: Mapping[str, Any]) -> Transaction:
    try:
        transaction = output["transaction"]
        return Transaction(
            _like(_XID, transaction["xid"]),
            _count(transaction["backend"]),
            _like(_DATABASE, transaction["database"]),
        )
    except (KeyError, TypeError, ValueError):
        raise protocol_error("its answer about its transaction cannot be read") from None


def read_definitions(output: Mapping[str, Any], transaction: Transaction) -> Definitions:
    try:
        tables = _text(output["definitions"])
        return Definitions(transaction.database, _text(output.get("role")), tables and _like(_DIGEST, tables))
    except (TypeError, ValueError):
        raise protocol_error("its answer about the definitions of tables cannot be read") from None


def read_reason(text: Any) -> str:
    try:
        return render_line(_text(text)[:_LONGEST])
    except TypeError:
        raise protocol_error("its answer about what it did not run cannot be read") from None


def read_waited(output: Mapping[str, Any]) -> float:
    """Return the seconds that it waited for locks of other sessions."""
    try:
        return _count(output["lock_waited"]) / 1_000
    except (KeyError, ValueError):
        raise protocol_error("its answer about locks cannot be read") from None


def read_drifts(output: Mapping[str, Any] | None) -> tuple[DriftedRows, ...]:
    try:
        return tuple(
            DriftedRows(_name(one["table"]), _count(one["rows"]), render_line(_text(one["what"])[:_LONGEST]))
            for one in (output or {})["drifts"][:_MOST_TABLES]
        )
    except (KeyError, TypeError, ValueError):
        raise protocol_error("its answer about changed rows cannot be read") from None


def bound_of(output: Mapping[str, Any], transaction: Transaction, actions: Sequence[ActionResult]) -> str:
    """Return the digest of the rows before and of the change counts. New rows are excluded, as they may hold the
    time.
    """
    before = output.get("before")
    if not isinstance(before, dict) or not all(_DIGEST.fullmatch(str(one)) for one in before.values()):
        raise protocol_error("its answer about the rows before cannot be read")
    bound = {
        "database": transaction.database,
        "role": _text(output.get("role")),
        "before": {str(table): str(one) for table, one in before.items()},
        "actions": [
            [one.number, sorted([*table] for table in one.tables), bool(one.irreversible), one.problem is not None]
            for one in actions
        ],
    }
    return digest(bound)


def bound_of_texts(
    computed: str, server: str, texts: Sequence["SqlText"], definitions: Definitions | None = None
) -> str:
    """Return the digest for an approval of texts that were not run: how they were shown, where they run, the texts
    with their parameters, and the definitions of their tables if these are known.
    """
    shown = [[one.name, digest_bytes(one.text), dict(one.parameters), one.expect_results] for one in texts]
    bound = [computed, server, shown, None if definitions is None else list(definitions)]
    return digest_bytes(json.dumps(bound, sort_keys=True).encode())


def _problem(problem: Mapping[str, Any]) -> dict[str, str]:
    details = {name: _text(problem.get(name, ""))[:_LONGEST] for name in ("what", "where", "next_step")}
    try:
        return error_of({**details, "reason": reason_of(problem.get("reason")).value})
    except RefusedError:
        raise protocol_error("its answer about a failure cannot be read") from None


def _name(value: Any) -> str:
    return render_line(_text(value)[:200])[:400]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _like(pattern: re.Pattern[str], value: Any) -> str:
    if not pattern.fullmatch(_text(value)):
        raise ValueError("not of this shape")
    return str(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError("no count")
    return value


EFFECT: Final = "remit.effects.postgres.engine:RUN"
_GRACE_SECONDS: Final = 2.0
"""The server stops a statement first and reports it. After this time the host kills the process."""


class SqlText(NamedTuple):
    """One SQL text. An action with several files has several texts with the same number."""

    number: int
    name: str
    """The name used in messages."""
    text: bytes
    parameters: Mapping[str, Any]
    expect_results: bool
    results: Path | None
    """A new file in a folder of its own."""
    form: str | None


class PostgresRequest(NamedTuple):
    """One call of the effect."""

    mode: str
    inputs: dict[str, Any]
    seconds: float
    given: Mapping[str, int] = {}
    texts: bytes | None = None
    places: Mapping[str, FolderGrant] = {}
    images: Path | None = None

    def order(self, task_id: str) -> Order:
        return Order(
            effect=EFFECT,
            call="run",
            task_id=task_id,
            capability_id="SQL_EXECUTE",
            inputs={**self.inputs, "mode": self.mode, "seconds": self.seconds},
            reversible=True,
            part_name="",
            places=self.places,
            network=True,
            seconds=self.seconds + _GRACE_SECONDS,
        )


def texts_call(
    mode: str, texts: Sequence[SqlText], *, reads_only: bool, seconds: float, folder: WorkFolder
) -> PostgresRequest:
    images = folder.folder("images") / secrets.token_hex(8)
    places = {"images": _place(images)}
    entries = []
    for place, text in enumerate(texts):
        spot = None if text.results is None else f"results {place}"
        if text.results is not None and spot is not None:
            places[spot] = _place(text.results)
        entries.append({**text._asdict(), "text": _decoded(text), "results": spot, "parameters": dict(text.parameters)})
    return PostgresRequest(mode, {"reads_only": reads_only}, seconds, {}, json.dumps(entries).encode(), places, images)


def _place(path: Path) -> FolderGrant:
    return FolderGrant(str(path.parents[1]), (path.parent.name,), path.name, PathUse.MAKE)


def _decoded(text: SqlText) -> str:
    try:
        return text.text.decode()
    except UnicodeDecodeError:
        raise RefusedError(
            Reason.SQL_REFUSED, "the SQL text is not UTF-8", where=text.name, next_step="Save it as UTF-8."
        ) from None
