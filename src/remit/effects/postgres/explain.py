"""Describes the statements of a plan without running one: by the server's query plans, its catalog, and their text.

The statements are checked exactly as if they were to run. Then the server plans each query, in a read-only transaction
that is rolled back. A savepoint around each statement releases the locks that planning takes, so this process never
holds the locks of two statements. Planning a statement can call functions of the database. So a statement that reaches
a function of a user, other than a trigger, is not planned either: it is described from its text and the catalog.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from remit.core.errors import RemitError
from remit.effects.postgres.definitions import digest_definitions
from remit.effects.postgres.dependencies import Reach, ReachedObjects, array
from remit.effects.postgres.errors import is_busy, lock_held_error, statement_error
from remit.effects.postgres.lexer import tokens_of
from remit.effects.postgres.libpq import ServerError
from remit.effects.postgres.request import RequestedAction, RequestedText
from remit.effects.postgres.row_counts import is_counting
from remit.effects.postgres.runner import (
    MAX_FRAME,
    MAX_TEXT,
    MAX_TEXTS,
    describe,
    describe_structure,
    named,
    parse_text,
    plan_nodes,
    summarise,
    truncate_texts,
)
from remit.effects.postgres.session import PostgresSession
from remit.effects.postgres.statements import PostgresStatement, values_of
from remit.effects.postgres.table_locks import held_table, until_free
from remit.effects.postgres.tables import read_facts, why_nothing_can_be_captured
from remit.effects.postgres.transaction import NOT_COUNTED, STRUCTURE_TOO

_ONE: Final = "remit_explaining"
_SYNTAX: Final = frozenset({"42501", "42601"})
"""The SQLSTATEs of class 42 that no earlier statement of a plan can cure: a missing right, and the syntax."""
_UNKNOWN_CHANGE: Final = "what it changes is known only when it runs"
_EARLIER: Final = "it depends on an earlier statement of the plan, which changes the structure of the database"
_CASCADES: Final = """
WITH RECURSIVE changed(oid, how) AS (
  SELECT t.oid, t.how FROM unnest($1::oid[], $2::text[]) AS t(oid, how)
  UNION
  SELECT c.conrelid, CASE WHEN f.how = 'd' AND c.confdeltype = 'c' THEN 'd' ELSE 'u' END
  FROM changed f JOIN pg_constraint c ON c.contype = 'f' AND c.confrelid = f.oid
  WHERE CASE f.how WHEN 'd' THEN c.confdeltype WHEN 'u' THEN c.confupdtype ELSE 'a' END IN ('c', 'n', 'd')
)
SELECT DISTINCT oid FROM changed
"""
"""The tables that a change of rows reaches through foreign keys. `how`: i, u or d, for the most that it does."""
_SIZES: Final = """
SELECT sum(c.reltuples)::bigint FROM pg_class c WHERE c.oid = ANY ($1::oid[]) AND c.reltuples >= 0
"""


class ExplainedAction(NamedTuple):
    """One action, as the server would carry it out."""

    number: int
    statements: tuple[dict[str, Any], ...]
    texts: tuple[str, ...]
    notes: tuple[str, ...]
    """What the preview does not know, and why."""
    irreversible: str
    changes: bool
    problem: RemitError | None = None


class Explained(NamedTuple):
    """All actions of a plan, and the digest of the definitions of their tables."""

    actions: tuple[ExplainedAction, ...]
    definitions: str


class _Query(NamedTuple):
    """What the server plans for one statement."""

    reads: tuple[str, ...]
    writes: tuple[tuple[str, str], ...]
    """Schema and name of each table."""
    hows: tuple[str, ...]
    """For each of them: i, u or d."""
    rows: int


class _Checked(NamedTuple):
    """One statement after the check of what it reaches. `reached` is None if it depends on an earlier statement."""

    text: RequestedText
    statement: PostgresStatement
    reached: ReachedObjects | None


class StatementExplainer:
    """Explains statements. `reach` must call nothing, as in each preview."""

    def __init__(self, session: PostgresSession, reach: Reach, *, reads_only: bool, seconds: float) -> None:
        self._session = session
        self._wire = session.wire
        self._reach = reach
        self._reads_only = reads_only
        self._seconds = seconds

    def explain(self, actions: Sequence[RequestedAction]) -> Explained:
        """Explain all actions, also after one that would fail. Everything is rolled back.

        Raises:
            EnvironmentFailureError: DATABASE_BUSY. Other sessions held locks for longer than the maximum wait.
        """
        explained = until_free(self._session, lambda: self._attempt(actions))
        self._wire.do("ROLLBACK")
        return explained

    def digest(self, actions: Sequence[RequestedAction]) -> str:
        """Return the digest of the definitions as `explain` would, in the open transaction."""
        checked, _ = self._check(actions)
        return self._digest(checked)

    def _attempt(self, actions: Sequence[RequestedAction]) -> Explained:
        if self._wire.in_transaction:
            self._wire.do("ROLLBACK")
        self._begin_checking()
        checked, problems = self._check(actions)
        digest = "" if self._reads_only else self._digest(checked)
        self._wire.do("ROLLBACK")
        self._session.begin(reads_only=True)
        self._session.apply_settings()
        has_structure = any(one.statement.changes_structure for found in checked.values() for one in found)
        general = self._why_nothing_is_restored(has_structure=has_structure)
        explained, is_after_structure = [], False
        for action in actions:
            found, problem = checked[action.number], problems.get(action.number)
            if problem is None:
                one, problem = self._explain_action(action, found, general, is_after_structure=is_after_structure)
                explained += [one] if one is not None else []
            if problem is not None:
                explained.append(ExplainedAction(action.number, (), (), (), "", changes=False, problem=problem))
            is_after_structure |= any(each.statement.changes_structure for each in found)
        return Explained(tuple(explained), digest)

    def _begin_checking(self) -> None:
        """Begin a transaction that may create the function whose parse tree is read. It is rolled back."""
        try:
            self._session.begin(reads_only=False)
        except ServerError:  # a standby
            self._session.begin(reads_only=True)
        self._session.apply_settings()

    # --- the check ----------------------------------------------------------------------------------------------------

    def _check(self, actions: Sequence[RequestedAction]) -> tuple[dict[int, list[_Checked]], dict[int, RemitError]]:
        """Return what each statement reaches, and the problems of actions that would fail."""
        checked: dict[int, list[_Checked]] = {}
        problems: dict[int, RemitError] = {}
        is_after_structure = False
        for action in actions:
            checked[action.number] = []
            try:
                for one in self._check_action(action, is_after_structure=is_after_structure):
                    checked[action.number].append(one)
                    is_after_structure |= one.statement.changes_structure
            except RemitError as problem:
                if is_busy(problem):
                    raise
                problems[action.number] = problem
        return checked, problems

    def _check_action(self, action: RequestedAction, *, is_after_structure: bool) -> Iterator[_Checked]:
        for text in action.texts:
            with named(text):
                for one in parse_text(text, reads_only=self._reads_only):
                    try:
                        reached: ReachedObjects | None = self._reach.inspect(one)
                    except ServerError as problem:
                        if not (is_after_structure and _may_be_cured(problem)):
                            raise self._error_of(one, problem) from None
                        reached = None
                    yield _Checked(text, one, reached)
                    is_after_structure |= one.changes_structure

    def _digest(self, checked: Mapping[int, Sequence[_Checked]]) -> str:
        self._session.apply_settings()
        reached = [one.reached for found in checked.values() for one in found if one.reached is not None]
        return digest_definitions(self._wire, reached)

    # --- the description ----------------------------------------------------------------------------------------------

    def _explain_action(
        self, action: RequestedAction, checked: Sequence[_Checked], general: str, *, is_after_structure: bool
    ) -> tuple[ExplainedAction | None, RemitError | None]:
        statements: list[dict[str, Any]] = []
        notes: list[str] = []
        reasons: dict[str, None] = {}
        for number, each in enumerate(checked, start=1):
            try:
                with named(each.text):
                    described, note, why = self._explain_one(number, each, is_after_structure=is_after_structure)
            except RemitError as problem:
                if is_busy(problem):
                    raise
                return None, problem
            is_after_structure |= each.statement.changes_structure
            statements.append(described)
            notes += [note] if note else []
            reasons.update(dict.fromkeys(why))
        changes = any(_may_change(each) for each in checked)
        if general and changes and not (general == STRUCTURE_TOO and reasons):
            reasons.setdefault(general)
        why_irreversible = "" if self._reads_only else summarise(list(reasons))
        texts = tuple(each.statement.written[:MAX_TEXT] for each in checked[:MAX_TEXTS])
        if any(text.expect_results for text in action.texts):
            notes.append("that the last SELECT returns rows (`expect_results`) is checked when the plan is applied")
        return (
            ExplainedAction(action.number, tuple(statements), texts, tuple(notes), why_irreversible, changes=changes),
            None,
        )

    def _explain_one(
        self, number: int, checked: _Checked, *, is_after_structure: bool
    ) -> tuple[dict[str, Any], str, list[str]]:
        """Return the description of a statement, a note on what is not known, and why it cannot be rolled back."""
        one, reached = checked.statement, checked.reached
        query, note = None, ""
        if reached is not None:
            _require_table(one, reached, is_after_structure=is_after_structure)
        if reached is not None and reached.is_plannable:
            try:
                query = self._plan(one, values_of(one, checked.text.parameters))
            except ServerError as problem:
                if not (is_after_structure and _may_be_cured(problem)):
                    raise self._error_of(one, problem) from None
                note = _EARLIER
        elif reached is None:
            note = _EARLIER
        else:
            note = reached.lasting.partition(") ")[2] or "planning it would call a function of the database"
        is_reshaping = one.changes_structure
        if is_reshaping:
            note = ""  # no statement of this kind is planned
        described = self._describe(number, checked, query)
        why = self._why_irreversible(checked, query)
        return described, f"statement {number} ({one.called}) is described from its text: {note}" if note else "", why

    def _plan(self, one: PostgresStatement, values: Sequence[bytes | None]) -> _Query | None:
        """Let the server plan the statement. None if it is no query. For these only the syntax is checked."""
        with self._alone():
            self._session.use_statement_settings()
            self._wire.prepare(one.text)
            if one.changes_structure or one.kind == "EXPLAIN":
                return None
            found = self._wire.do_with(f"EXPLAIN (VERBOSE, FORMAT JSON) {one.text}", values)
            return _read_plans(json.loads(found[0][0] or "[]"))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Roll the block back, so that its locks are released."""
        self._wire.do(f"SAVEPOINT {_ONE}")
        try:
            yield
        finally:
            self._wire.do(f"ROLLBACK TO SAVEPOINT {_ONE}")
            self._wire.do(f"RELEASE SAVEPOINT {_ONE}")
            self._session.apply_settings()

    def _describe(self, number: int, checked: _Checked, query: _Query | None) -> dict[str, Any]:
        one, reached = checked.statement, checked.reached
        reads: list[str] | None
        writes: list[str] | None
        rows: int | None = None
        if query is not None:
            writes = [f"{schema}.{name}" for schema, name in query.writes]
            reads = [name for name in query.reads if name not in writes]
            rows = query.rows
        elif reached is None:
            reads, writes = None, list(one.named) or (None if not one.is_read else [])
        else:
            writes = list(one.named) or self._names(reached.writes | reached.alters)
            reads = [name for name in self._names(reached.reads) if name not in writes]
            rows = self._size_of(reached) if one.destroys and one.changes_structure else None
        if one.kind == "EXPLAIN":
            writes, rows = [], None
        return {
            "number": number,
            "kind": one.called,
            "estimated_rows": rows,
            "reads": reads,
            "writes": writes,
            "destroys": one.destroys,
            "words": describe(one, reads or (), writes or ())
            if query is not None or not one.is_read
            else "reads tables, and was not planned",
        }

    def _why_irreversible(self, checked: _Checked, query: _Query | None) -> list[str]:
        """Return why the changes of a statement cannot be rolled back. Empty if the tables allow it."""
        one, reached = checked.statement, checked.reached
        if not _may_change(checked):
            return []
        if one.changes_structure:
            return [f"{describe_structure(one)} cannot be rolled back"]
        if query is None or reached is None:
            return [_UNKNOWN_CHANGE]
        oids = {int(row[0] or 0): how for row, how in self._targets(query)}
        found = self._wire.do(_CASCADES, array(oids), "{" + ",".join(oids.values()) + "}")
        facts = read_facts(self._wire, sorted(int(row[0] or 0) for row in found))
        return [one.not_captured for one in facts.values() if one.not_captured]

    def _targets(self, query: _Query) -> Iterator[tuple[tuple[str | None, ...], str]]:
        for (schema, name), how in zip(query.writes, query.hows, strict=True):
            for row in self._wire.do(
                "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE n.nspname = $1 AND c.relname = $2",
                schema,
                name,
            ):
                yield row, how

    def _why_nothing_is_restored(self, *, has_structure: bool) -> str:
        if not is_counting(self._wire):
            return NOT_COUNTED
        return STRUCTURE_TOO if has_structure else why_nothing_can_be_captured(self._wire)

    def _size_of(self, reached: ReachedObjects) -> int | None:
        (rows,) = self._wire.one(_SIZES, array(reached.alters))
        return None if rows is None else int(rows)

    def _names(self, oids: frozenset[int]) -> list[str]:
        found = self._wire.do(
            "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.oid = ANY ($1::oid[]) AND c.oid >= 16384 ORDER BY 1",
            array(oids),
        )
        return [name or "" for (name,) in found]

    def _error_of(self, one: PostgresStatement, problem: ServerError) -> RemitError:
        if not is_busy(problem):
            return statement_error(one.number, one.called, problem, self._seconds)
        self._session.apply_settings()
        table = held_table(self._wire, {token.name for token in tokens_of(one.text) if token.name})
        what = table or f"an object that statement {one.number} ({one.called}) needs"
        return lock_held_error(what, self._session.lock_wait.seconds)


def render_explained(one: ExplainedAction) -> dict[str, Any]:
    """Return the description of one action, for the host."""
    answer = {
        "statements": list(one.statements),
        "texts": truncate_texts(one.texts, MAX_FRAME - len(json.dumps(one.statements))),
        "rows": [],
        "result_rows": 0,
        "schema": [],
        "changed": one.changes,
    }
    return {
        "number": one.number,
        "answer": None if one.problem is not None else answer,
        "tables": [],
        "irreversible": one.irreversible,
        "problem": None if one.problem is None else one.problem.as_json(),
        "notes": list(one.notes),
    }


def _may_change(checked: _Checked) -> bool:
    one, reached = checked.statement, checked.reached
    if one.kind == "EXPLAIN":
        return False
    return not one.is_read or reached is None or bool(reached.functions)


def _require_table(one: PostgresStatement, reached: ReachedObjects, *, is_after_structure: bool) -> None:
    """Refuse a statement that alters, drops or empties a table that does not exist. The server plans none of these."""
    words = [token.word for token in tokens_of(one.text)][:3]
    names_a_table = words[:2] in (["ALTER", "TABLE"], ["DROP", "TABLE"]) or words[0] == "TRUNCATE"
    if names_a_table and "IF" not in words and not reached.alters and not is_after_structure:
        raise statement_error(one.number, one.called, ServerError({"state": "42P01"}), 0)


def _may_be_cured(problem: ServerError) -> bool:
    """Return whether an earlier statement of the plan may be what is missing, such as a table that it creates."""
    return problem.state.startswith(("42", "3F")) and problem.state not in _SYNTAX


_HOWS: Final = {"Insert": "i", "Update": "u", "Delete": "d", "Merge": "d"}


def _read_plans(tree: Any) -> _Query:
    """Return the tables and the estimate of a plan. A rule makes several plans of one statement."""
    reads: dict[str, None] = {}
    writes: dict[tuple[str, str], str] = {}
    rows = 0.0
    nodes = list(plan_nodes(tree))
    for node in nodes:
        if node.get("Node Type") != "ModifyTable":
            if "Relation Name" in node and "Node Type" in node:
                reads[f"{node.get('Schema', '')}.{node['Relation Name']}"] = None
            continue
        how = _HOWS.get(str(node.get("Operation")), "d")
        how = "u" if node.get("Conflict Resolution") == "UPDATE" else how
        for target in (node, *(each for each in node.get("Target Tables", ()) if isinstance(each, dict))):
            if "Relation Name" in target:
                writes[str(target.get("Schema", "")), str(target["Relation Name"])] = how
        rows += sum(
            float(child.get("Plan Rows", 0))
            for child in node.get("Plans", ())
            if child.get("Parent Relationship") in ("Outer", "Member")
        )
    if not writes:
        rows = sum(float(one.get("Plan", {}).get("Plan Rows", 0)) for one in tree if isinstance(one, dict))
    return _Query(tuple(reads), tuple(writes), tuple(writes.values()), int(rows))
