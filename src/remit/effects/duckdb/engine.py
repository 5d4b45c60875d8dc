"""Runs all statements of a text in one transaction, on a copy of a database file.

The host replaces the real file by the copy later. A text that only reads may also run on the real file, which is then
opened for reading. Two limits hold for every text. The kernel confines this process to the folders of the database and
the results. Before the first statement, the engine is set to use no other file and to load nothing.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import duckdb

from remit.core.errors import Reason, RefusedError, UsageError
from remit.effects.context import Effect, EffectContext, PathHandle, read_given
from remit.effects.duckdb.denylist import PLAIN_ADVICE
from remit.effects.duckdb.errors import file_error, no_rows_error, out_of_memory_error, statement_error
from remit.effects.duckdb.expected_rows import MAX_EXPECTED_BYTES, parse_expected, require_one_select, require_rows
from remit.effects.duckdb.instance import ENGINE
from remit.effects.duckdb.query_plan import PLANNED, read_query_plan
from remit.effects.duckdb.report import ExecutedStatement, report_statements
from remit.effects.duckdb.rows import FORMATS, Rows, cells_as_json, hold_rows, quoted, save
from remit.effects.duckdb.scan_rows import ScanResult, scan_rows
from remit.effects.duckdb.statements import CHANGES_ROWS, DuckdbStatement, analyse, bind, describe, require_reading
from remit.fs.openat import exists

DATABASE: Final = "database"
RESULTS: Final = "results"
QUERY: Final = "query"
EXPECTED: Final = "expected"
MAX_TEXT_BYTES: Final = 4 << 20
MEMORY_BYTES: Final = 300_000_000

_RESERVED: Final = frozenset({"memory", "system", "temp", "main", "information_schema", "pg_catalog"})
"""Names of the engine's own databases and schemas."""
_EXPLAIN_ALL: Final = "SET explain_output='all'"
"""Needed by `query_plan`, which finds the tables that are read."""


class DuckdbRun:
    """The effect `RUN`. Its output is described in `report_statements`."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        inputs = _parse_inputs(work)
        statements = analyse(inputs.text)
        bind(statements, inputs.parameters, shared=inputs.shared_parameters)
        if inputs.reads_only:
            require_reading(statements)
        if inputs.expected is not None:
            require_one_select(statements)
        return run_statements(work, inputs, statements)

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:  # noqa: ARG002
        """Do nothing: an interrupted run has changed only the copy, which the host removes."""
        return None


class EngineInputs(NamedTuple):
    """The checked inputs of the effect."""

    text: str
    parameters: Mapping[str, Any]
    reads_only: bool
    alias: str
    expect_results: bool
    results: str | None
    """The format of the file of results."""
    memory_bytes: int
    preview_rows: int
    expected: tuple[Sequence[Any], ...] | None = None
    """All rows that the one SELECT must return, in order."""
    results_mode: int = 0o644
    shared_parameters: bool = False
    """The parameters are given for several texts."""


def run_statements(work: EffectContext, inputs: EngineInputs, statements: Sequence[DuckdbStatement]) -> dict[str, Any]:
    """Run the statements on the database of the order. They are analysed and allowed already."""
    database = work.spots[DATABASE]
    changes = not all(one.is_read for one in statements)
    scan = None
    to_save = _statement_to_save(inputs, statements)
    to_parquet = to_save if inputs.results == "parquet" else None
    with _open_database(database, inputs, work.spots.get(RESULTS), writes=changes) as engine:
        done = [_run_one(engine, inputs, one, for_parquet=one is to_parquet) for one in statements]
        last = next((one.rows for one in reversed(done) if one.rows is not None and one.rows.is_read), None)
        if inputs.expect_results and (last is None or last.total == 0):
            raise no_rows_error()
        if inputs.expected is not None and last is not None:
            require_rows(last, inputs.expected)
        if inputs.results is not None and last is not None:
            scan = _save(last, work.spots[RESULTS], inputs)
        engine.execute("COMMIT" if changes else "ROLLBACK")
        if changes:
            engine.execute(f"CHECKPOINT {quoted(alias_of(inputs))}")
    return report_statements(done, last, scan, changed=changes)


@contextmanager
def _open_database(
    database: PathHandle, inputs: EngineInputs, results: PathHandle | None, *, writes: bool
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the database with a started transaction, and with all settings locked.

    Closes the database on success. After a failure the host ends this process and discards the copy.
    """
    engine = ENGINE.cursor()
    alias = quoted(alias_of(inputs))
    try:
        engine.execute(f"SET memory_limit='{inputs.memory_bytes // 1024}KiB'")
        engine.execute(_attaching(database, alias, writes=writes))
        engine.execute(f"USE {alias}")
        engine.execute(_EXPLAIN_ALL)
        if results is not None:
            engine.execute(f"SET allowed_paths=[{_text(results.path)}]")
        engine.execute("SET enable_external_access=false")
        engine.execute("SET lock_configuration=true")
        engine.execute("BEGIN")
        yield engine
        engine.execute("USE memory")
        engine.execute(f"DETACH {alias}")
    except (duckdb.OutOfMemoryException, MemoryError):
        raise out_of_memory_error("opening or closing the database", inputs.memory_bytes) from None
    except duckdb.Error as problem:  # errors of statements are translated in `_translated_errors`
        raise file_error(problem) from None


def _attaching(database: PathHandle, alias: str, *, writes: bool) -> str:
    """Return the ATTACH statement. In a database opened for reading, also a hidden macro or view can change nothing."""
    if not writes and not exists(database.folder, database.name):
        return f"ATTACH ':memory:' AS {alias}"  # a missing file, which is only read, is an empty database
    return f"ATTACH {_text(database.path)} AS {alias} (TYPE duckdb{'' if writes else ', READ_ONLY'})"


def alias_of(inputs: EngineInputs) -> str:
    """Return the name of the database in the statements, as the engine would choose it for a file of that name."""
    return f"{inputs.alias}_db" if inputs.alias.lower() in _RESERVED else inputs.alias


def _run_one(
    engine: duckdb.DuckDBPyConnection, inputs: EngineInputs, one: DuckdbStatement, *, for_parquet: bool
) -> ExecutedStatement:
    values = {name: inputs.parameters[name] for name in one.parameters}
    with _translated_errors(inputs, one, has_read=False):
        reads = _tables_read(engine, one, values) if _has_plan(one) else None
    with _translated_errors(inputs, one, has_read=_reads_rows(one)):
        rows = None
        if one.returns_rows:
            rows = hold_rows(engine, one, values, inputs.preview_rows, for_parquet=for_parquet)
        changed = None if rows is not None else _count(engine, one, values)
    known = _known_tables(one, reads)
    counted = _counted(one, rows, changed)
    columns = rows.columns if rows is not None else []
    description = {
        "number": one.number,
        "kind": one.kind,
        **counted,
        "columns": columns,
        "reads": list(known) if known is not None else None,
        "writes": list(one.writes) if one.writes is not None else None,
        "destroys": one.destroys,
        "upserts": one.upserts,
        "words": describe(one.kind, known, one.writes, upserts=one.upserts) if one.kind != "EXPLAIN" else one.words,
    }
    return ExecutedStatement(one, description, rows)


def _tables_read(engine: duckdb.DuckDBPyConnection, one: DuckdbStatement, values: Mapping[str, Any]) -> tuple[str, ...]:
    planned = read_query_plan(engine, one.text, values)
    if planned.forbidden is not None:
        name, why = planned.forbidden
        raise RefusedError(
            Reason.SQL_REFUSED,
            f"statement {one.number} ({one.kind}): {name} {why}; a view or a macro of the database calls it",
            where="the SQL text",
            next_step=PLAIN_ADVICE,
        )
    return planned.tables


@contextmanager
def _translated_errors(inputs: EngineInputs, one: DuckdbStatement, *, has_read: bool) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, MemoryError, RuntimeError, ValueError) as problem:
        raise statement_error(one.number, one.kind, problem, inputs.memory_bytes, has_read=has_read) from None


def _reads_rows(one: DuckdbStatement) -> bool:
    """Return whether the statement may scan rows. ALTER TYPE with USING does."""
    text = one.text.upper()
    return _has_plan(one) or "USING" in text or "ANALY" in text


def _has_plan(one: DuckdbStatement) -> bool:
    """Return whether the engine has a query plan for it: also for CREATE TABLE AS, and not for TRUNCATE."""
    if one.text[:8].upper() == "TRUNCATE":
        return False
    return one.kind in PLANNED and (one.kind != "CREATE" or one.reads != ())


def _count(engine: duckdb.DuckDBPyConnection, one: DuckdbStatement, values: Mapping[str, Any]) -> int | None:
    row = engine.execute(one.text, dict(values)).fetchone()
    return int(row[0]) if row is not None and one.kind in (*CHANGES_ROWS, "MERGE_INTO", "CREATE") else None


def _counted(one: DuckdbStatement, rows: Rows | None, changed: int | None) -> dict[str, int | None]:
    if one.is_read or one.kind == "EXPLAIN":
        return {"rows_read": rows.total if rows is not None else 0}
    if one.kind == "SELECT":  # the number of its rows is not the number that a statement within it changed
        return {"rows_changed": None}
    return {"rows_changed": rows.total if rows is not None else changed}


def _known_tables(one: DuckdbStatement, planned: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the tables that are read. The query plan also has those behind a view; CREATE VIEW has no query plan."""
    if planned is None or (not planned and one.kind == "CREATE"):
        return one.reads
    return planned


def _save(rows: Rows, spot: PathHandle, inputs: EngineInputs) -> ScanResult:
    form = inputs.results or ""
    try:
        save(rows, spot.path, form)
        return scan_rows(rows, spot, form, inputs.results_mode)
    except (duckdb.OutOfMemoryException, MemoryError):
        raise out_of_memory_error("saving the rows", inputs.memory_bytes) from None
    except duckdb.Error as problem:
        raise file_error(problem, where="the file of the results") from None


# --- inputs ----------------------------------------------------------------------------------------------------------


def _parse_inputs(work: EffectContext) -> EngineInputs:
    inputs = work.inputs
    mode, results = inputs.get("mode", "write"), inputs.get("results")
    if mode not in ("read", "write"):
        raise UsageError(Reason.MISUSE, "the mode must be `read` or `write`", where="mode")
    if results is not None and results.get("format") not in FORMATS:
        raise UsageError(Reason.MISUSE, f"the format of results must be one of {', '.join(FORMATS)}", where="results")
    if (results is None) != (RESULTS not in work.spots):
        raise UsageError(Reason.MISUSE, "results need both a file and a format", where="results")
    return EngineInputs(
        text=_text_of(work),
        parameters=inputs.get("parameters") or {},
        reads_only=mode == "read",
        alias=inputs["alias"],
        expect_results=bool(inputs.get("expect_results", False)),
        results=results["format"] if results is not None else None,
        memory_bytes=int(inputs.get("memory_bytes") or MEMORY_BYTES),
        preview_rows=int(inputs.get("preview_rows", 20)),
        expected=parse_expected(read_given(work, EXPECTED, MAX_EXPECTED_BYTES)) if EXPECTED in work.given else None,
        results_mode=int((results or {}).get("mode", 0o644)),
        shared_parameters=bool(inputs.get("shared_parameters", False)),
    )


def _text_of(work: EffectContext) -> str:
    """Return the SQL text: a small one from the inputs, a larger one from its descriptor."""
    if isinstance(text := work.inputs.get("text"), str):
        return text
    try:
        return read_given(work, QUERY, MAX_TEXT_BYTES).decode()
    except UnicodeDecodeError:
        raise RefusedError(
            Reason.SQL_REFUSED, "it is not valid UTF-8", where="the SQL text", next_step="Save it as UTF-8."
        ) from None


def _statement_to_save(inputs: EngineInputs, statements: Sequence[DuckdbStatement]) -> DuckdbStatement | None:
    """Return the statement whose rows are saved to a file. Refuse a text that has none."""
    if inputs.results is None:
        return None
    last = next((one for one in reversed(statements) if one.is_read or one.kind == "EXPLAIN"), None)
    if last is None or last.kind != "SELECT":
        raise RefusedError(
            Reason.SQL_REFUSED,
            "its rows should be saved, but it has no SELECT",
            where="the SQL text",
            next_step="End it with a SELECT, or leave out `save_results_to`.",
        )
    return last


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _rehearse() -> None:
    """Use the engine once before children are forked. A first use takes longer, and may load more of its code."""
    text = "INSERT INTO rehearsed SELECT 1; SELECT a FROM rehearsed"
    engine = ENGINE.cursor()
    for line in (_EXPLAIN_ALL, "BEGIN", "CREATE TEMP TABLE rehearsed (a INTEGER)"):
        engine.execute(line)
    for one in analyse(text):
        read_query_plan(engine, one.text, {})
        if one.is_read:
            rows = hold_rows(engine, one, {}, 1)
            cells_as_json(rows, 0, 1)
            save(rows, os.devnull, "csv")
        else:
            engine.execute(one.text).fetchone()
    engine.execute("ROLLBACK")
    engine.close()


_rehearse()

RUN: Final[Effect] = DuckdbRun()
