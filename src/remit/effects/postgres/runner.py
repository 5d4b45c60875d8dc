"""Runs the statements of a plan in one transaction, and describes what each one changed, by the server's counters.

This module commits nothing. An action that fails is rolled back to its start, and its problem is stored or raised.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError, RemitError
from remit.effects.context import EffectContext, PathHandle
from remit.effects.postgres.constraints import check_constraints, require_clean_session
from remit.effects.postgres.dependencies import Reach, ReachedObjects
from remit.effects.postgres.errors import THE_TEXT, is_busy, lock_held_error, no_rows_error, statement_error
from remit.effects.postgres.lexer import tokens_of
from remit.effects.postgres.libpq import ServerError, StatementResult, quoted_name
from remit.effects.postgres.request import RequestedAction, RequestedText
from remit.effects.postgres.row_counts import Changed, Counts, RowCounts, between, count
from remit.effects.postgres.rows import RowWriter, ShownRows, described
from remit.effects.postgres.session import PostgresSession
from remit.effects.postgres.statements import CHANGES_ROWS, PostgresStatement, analyse, bind, require_reading, values_of
from remit.effects.postgres.table_locks import held_table, reached_by_structure

PREVIEW_ROWS: Final = 20
MAX_TEXTS: Final = 500
MAX_TEXT: Final = 80_000
"""The maximum characters of each text. More than is shown, so that masking sees a secret at the end in full."""
MAX_FRAME: Final = 900 << 10
"""The maximum size of the parts that can be long. Texts are omitted first."""
_ACTION: Final = "remit_action"
_COUNTING: Final = "remit_counting"
_MOST_COUNTED: Final = 1_000_000
"""The maximum number of rows that are counted before a table is emptied, because counting more takes too long."""
_MOST_REASONS: Final = 5
_SCANNED: Final = frozenset({"SELECT", *CHANGES_ROWS})
_TYPES: Final = "SELECT oid, format_type(oid, NULL) FROM pg_type WHERE oid = ANY ($1::oid[])"


class Did(NamedTuple):
    """The result of one action."""

    number: int
    statements: tuple[dict[str, Any], ...]
    shown: ShownRows | None
    types: Mapping[int, str]
    tables: Mapping[int, RowCounts]
    structure: tuple[str, ...]
    """Descriptions of the statements that changed the structure of the database."""
    unseen: tuple[str, ...]
    """Descriptions of changes that the server has no counters for."""
    texts: tuple[str, ...] = ()
    """The texts of the first statements, to show to people. They are not stored."""
    problem: Mapping[str, str] | None = None


class NotExecutedError(Exception):
    """A preview does not run a statement, because a rollback may not undo all that it does. The text says why."""


class StatementRunner:
    """Runs statements. In a preview, it runs only those that a rollback undoes completely.

    It remembers between two passes which objects a statement reaches and which tables it reads.
    """

    def __init__(
        self,
        session: PostgresSession,
        work: EffectContext,
        reach: Reach,
        *,
        reads_only: bool,
        is_preview: bool,
        seconds: float,
    ) -> None:
        self._session = session
        self._wire = session.wire
        self._work = work
        self._reach = reach
        self._reached: dict[tuple[int, int], ReachedObjects | RefusedError] = {}
        self._reads_only = reads_only
        self._is_preview = is_preview
        self._seconds = seconds
        self._reads: dict[tuple[int, int], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._ours: frozenset[int] = frozenset()
        self._counts = Counts({}, 0)
        self.may_write = False
        self.blocked: list[ReachedObjects] = []
        """The objects that statements reach whose lock was not free at once."""
        self.blocking_table = ""
        """The table that another session had locked last, if it is known."""

    def forget(self) -> None:
        """Forget all facts about the statements before a retry, as other sessions may have changed the database."""
        self._reached.clear()
        self._reads.clear()
        self.blocking_table = ""

    def find_reached(self, actions: Sequence[RequestedAction]) -> list[ReachedObjects]:
        """Return what the statements reach, as far as that is known before the first one runs.

        Only the results of read-only texts are remembered, because such texts create no table that a later statement
        could use.
        """
        found = []
        self.may_write = False
        for action in actions:
            for text in action.texts:
                try:
                    statements = parse_text(text, reads_only=self._reads_only)
                except RefusedError:
                    continue  # the run reports this error in its order
                for one in statements:
                    self.may_write |= not (one.is_read or one.kind == "EXPLAIN")
                    try:
                        reached = self._reach.inspect(one)
                    except (ServerError, RefusedError) as problem:
                        if is_busy(problem):
                            raise self._busy_error(one) from None
                        if self._reads_only and isinstance(problem, RefusedError):
                            self._reached[id(text), one.number] = problem
                        continue
                    self._require_undone(reached)
                    found.append(reached)
                    if self._reads_only:
                        self._reached[id(text), one.number] = reached
        return found

    def run(
        self, actions: Sequence[RequestedAction], *, continue_on_error: bool, ours: frozenset[int] = frozenset()
    ) -> list[Did]:
        """Run all actions. With `continue_on_error`, also after a failure. `ours`: Remit's own tables, not counted."""
        self._ours = ours
        self._counts = count(self._wire, ours)
        did = []
        for action in actions:
            self._wire.do(f"SAVEPOINT {_ACTION}")
            try:
                did.append(self._run_action(action))
                self._wire.do(f"RELEASE SAVEPOINT {_ACTION}")
            except RemitError as problem:
                if (
                    not continue_on_error
                    or is_busy(problem)
                    or self._session.is_past_hold_limit
                    or not self._roll_back_action()
                ):
                    raise
                did.append(Did(action.number, (), None, {}, {}, (), (), problem=problem.as_json()))
        return self._with_deferred_changes(did)

    def _roll_back_action(self) -> bool:
        try:
            self._wire.do(f"ROLLBACK TO SAVEPOINT {_ACTION}")
            self._session.apply_settings()
            self._counts = count(self._wire, self._ours)
        except ServerError:
            return False  # the connection is lost
        return True

    def _with_deferred_changes(self, did: Sequence[Did]) -> list[Did]:
        """Run deferred triggers. Add their changes to the last action, because the responsible action is unknown."""
        before = self._counts
        self._counts = check_constraints(self._session, before, self._ours, self._seconds)
        changed = between(before, self._counts)
        last = max((place for place, one in enumerate(did) if one.statements), default=-1)
        if last < 0 or not (changed.tables or changed.structure):
            return list(did)
        one = did[last]
        tables = {oid: one.tables.get(oid, RowCounts()) + change for oid, change in changed.tables.items()}
        described = dict(one.statements[-1])
        described["writes"] = list(dict.fromkeys((*described["writes"], *map(self._name, changed.tables))))
        described["destroys"] = described["destroys"] or changed.deletes
        described["words"] += f"; deferred triggers change {', '.join(map(self._name, changed.tables)) or 'more'}"
        structure = ("the change of the structure of the database by deferred triggers",) if changed.structure else ()
        late = one._replace(
            statements=(*one.statements[:-1], described),
            tables={**one.tables, **tables},
            structure=(*one.structure, *structure),
        )
        return [*did[:last], late, *did[last + 1 :]]

    def _run_action(self, action: RequestedAction) -> Did:
        statements_run: list[dict[str, Any]] = []
        tables: dict[int, RowCounts] = {}
        structure: dict[str, None] = {}
        unseen: dict[str, None] = {}
        texts: list[str] = []
        shown: ShownRows | None = None
        for text in action.texts:
            with named(text):
                statements = parse_text(text, reads_only=self._reads_only)
                last: ShownRows | None = None
                for one in statements:
                    described, rows, changed = self._run_one(text, one, (id(text), one.number), len(statements_run) + 1)
                    statements_run.append(described)
                    last = rows if one.is_read and rows is not None else last
                    for oid, change in changed.tables.items():
                        tables[oid] = tables.get(oid, RowCounts()) + change
                    texts += [one.written[:MAX_TEXT]] if len(texts) < MAX_TEXTS else []
                    if one.changes_structure or changed.structure:
                        structure[describe_structure(one)] = None
                    if unseen_change := _unseen(one, described, changed):
                        unseen[unseen_change] = None
                if text.expect_results and (last is None or last.total == 0):
                    raise no_rows_error()
                shown = last or shown
        types = self._type_names(shown)
        return Did(
            action.number, tuple(statements_run), shown, types, tables, tuple(structure), tuple(unseen), tuple(texts)
        )

    def _run_one(
        self, text: RequestedText, one: PostgresStatement, key: tuple[int, int], number: int
    ) -> tuple[dict[str, Any], ShownRows | None, Changed]:
        values = values_of(one, text.parameters)
        saves = text.results is not None and one.is_read and one.kind == "SELECT"
        rows = RowWriter(PREVIEW_ROWS, self._spot(text) if saves else None, text.form)
        try:
            self._require_allowed(one, key)
            self._session.use_statement_settings()
            self._wire.prepare(one.text)
            if key not in self._reads:
                self._reads[key] = self._planned(one, values)
            emptied_rows = self._rows_of(one.empties) if one.empties else None
            self._session.use_statement_settings()  # with the time that is left after planning
            self._wire.prepare(one.text)
            ran = self._wire.run_prepared(values, rows.add)
            self._require_same_transaction(one)
            self._session.apply_settings()
            require_clean_session(self._session, f"statement {one.number} ({one.kind})")
            after = count(self._wire, self._ours)
        except ServerError as problem:
            if is_busy(problem) and self._roll_back_action():
                raise self._busy_error(one, self._reached.get(key)) from None
            raise statement_error(one.number, one.called, problem, self._seconds) from None
        changed = between(self._counts, after)
        self._counts = after
        shown = rows.end(ran.columns)
        has_rows = bool(ran.columns)
        return (
            self._describe_statement(one, key, number, ran, changed, emptied_rows),
            shown if has_rows else None,
            changed,
        )

    def _busy_error(self, one: PostgresStatement, reached: ReachedObjects | RefusedError | None = None) -> RemitError:
        """Return the error for a lock of another session. Store the needed objects, so a retry locks them first."""
        self._session.apply_settings()
        names = {token.name for token in tokens_of(one.text) if token.name}
        table = held_table(self._wire, names)
        self.blocking_table = table
        if one.changes_structure:
            self.blocked.append(reached_by_structure(self._wire, one.text))
        elif isinstance(reached, ReachedObjects):
            self.blocked.append(reached)
        return lock_held_error(
            table or f"an object that statement {one.number} ({one.called}) needs", self._session.lock_wait.seconds
        )

    def _require_allowed(self, one: PostgresStatement, key: tuple[int, int]) -> None:
        """Refuse a statement that reaches a forbidden object. Call this before planning, which runs functions too."""
        is_new = key not in self._reached
        if is_new:
            self._reached[key] = self._reach.inspect(one)
        reached = self._reached[key]
        if isinstance(reached, RefusedError):
            raise reached
        self._require_undone(reached)
        if is_new:  # changes of the catalog by Remit do not belong to the statement
            self._counts = count(self._wire, self._ours)

    def _require_undone(self, reached: ReachedObjects) -> None:
        if self._is_preview and reached.lasting:
            raise NotExecutedError(reached.lasting)

    def _rows_of(self, tables: Sequence[Sequence[str]]) -> int | None:
        """Count the rows of tables before they are emptied. None if there are too many, or if they cannot be read."""
        self._wire.do(f"SAVEPOINT {_COUNTING}")
        try:
            total = 0
            for parts in tables:
                name = ".".join(map(quoted_name, parts))
                (found,) = self._wire.one(
                    f"SELECT pg_catalog.count(*) FROM (SELECT FROM {name} LIMIT {_MOST_COUNTED + 1}) t"
                )
                total += int(found or 0)
        except ServerError as problem:
            self._wire.do(f"ROLLBACK TO SAVEPOINT {_COUNTING}")
            if is_busy(problem):
                raise
            return None
        finally:
            self._wire.do(f"RELEASE SAVEPOINT {_COUNTING}")
        return total if total <= _MOST_COUNTED else None

    def _require_same_transaction(self, one: PostgresStatement) -> None:
        if not self._wire.in_transaction:
            raise RefusedError(
                Reason.SQL_REFUSED,
                f"statement {one.number} ({one.kind}): it ended the transaction of the plan",
                where=THE_TEXT,
                next_step="Leave it out. All statements of a plan on one connection are one transaction.",
            )

    def _spot(self, text: RequestedText) -> PathHandle:
        return self._work.spots[text.results or ""]

    def _planned(
        self, one: PostgresStatement, values: Sequence[bytes | None]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the tables that the server's query plan reads, also through views, and those that it writes to."""
        if one.kind not in _SCANNED or one.changes_structure:
            return (), ()
        found = self._wire.do_with(f"EXPLAIN (VERBOSE, FORMAT JSON) {one.text}", values)
        reads: dict[str, None] = {}
        writes: dict[str, None] = {}
        for node in plan_nodes(json.loads(found[0][0] or "[]")):
            if "Relation Name" in node:
                name = f"{node.get('Schema', '')}.{node['Relation Name']}"
                (writes if node.get("Node Type") == "ModifyTable" else reads)[name] = None
        return tuple(name for name in reads if name not in writes), tuple(writes)

    def _describe_statement(
        self,
        one: PostgresStatement,
        key: tuple[int, int],
        number: int,
        ran: StatementResult,
        changed: Changed,
        emptied_rows: int | None,
    ) -> dict[str, Any]:
        reads, planned = self._reads[key]
        counted = [self._name(oid) for oid in changed.tables]
        known = {name.rpartition(".")[2] for name in (*planned, *counted)}
        named = [name for name in one.named if one.changes_structure and name.rpartition(".")[2] not in known]
        writes = tuple(dict.fromkeys((*planned, *counted, *named)))
        counts: dict[str, int | None]
        if one.is_read or one.kind == "EXPLAIN":
            counts = {"rows_read": ran.rows}
        else:
            counts = {"rows_changed": emptied_rows}
            if one.kind in CHANGES_ROWS and not one.changes_structure:
                counts = {"rows_changed": _changed_rows(ran.tag)}
        return {
            "number": number,
            "kind": one.called,
            **counts,
            "reads": list(reads),
            "writes": list(writes) if one.kind != "EXPLAIN" else [],
            "destroys": one.destroys or changed.deletes,
            "words": describe(one, reads, writes),
        }

    def _name(self, oid: int) -> str:
        found = self._wire.do(
            "SELECT n.nspname, c.relname FROM pg_class c, pg_namespace n WHERE c.oid = $1 AND n.oid = c.relnamespace",
            oid,
        )
        return ".".join(part or "" for part in found[0]) if found else f"table {oid}"

    def _type_names(self, shown: ShownRows | None) -> dict[int, str]:
        if shown is None:
            return {}
        oids = "{" + ",".join({str(column.type_oid) for column in shown.columns}) + "}"
        return {int(oid or 0): name or "" for oid, name in self._wire.do(_TYPES, oids)}


def parse_text(text: RequestedText, *, reads_only: bool) -> tuple[PostgresStatement, ...]:
    """Return the statements of a text. Refuses a text that is not allowed, or that does not fit its parameters."""
    statements = analyse(text.text)
    bind(statements, text.parameters)
    if reads_only:
        require_reading(statements)
    if text.results is not None and not any(one.is_read and one.kind == "SELECT" for one in statements):
        raise RefusedError(
            Reason.SQL_REFUSED,
            "its rows are to be saved, but it has no SELECT that returns rows",
            where=THE_TEXT,
            next_step="End it with a SELECT, or leave out `save_results_to`.",
        )
    return statements


# --- descriptions ----------------------------------------------------------------------------------------------------

_VERBS: Final = {
    "INSERT": "inserts into",
    "UPDATE": "updates",
    "DELETE": "deletes from",
    "TRUNCATE": "empties",
    "MERGE_INTO": "merges into",
    "CREATE": "creates",
    "ALTER": "alters",
    "DROP": "drops",
    "SELECT": "changes",
}


def describe(one: PostgresStatement, reads: Sequence[str], writes: Sequence[str]) -> str:
    if one.kind == "EXPLAIN":
        return "explains a statement"
    parts = []
    if writes or not one.is_read:
        what = one.about or ", ".join(writes) or ", ".join(one.named) or "nothing that the server counts"
        parts.append(f"{_VERBS[one.called]} {what}")
    if reads:
        parts.append(f"reads {', '.join(reads)}")
    return "; ".join(parts) or "reads no table"


def render_answer(did: Did) -> dict[str, Any]:
    """Return the rows and statements of one action, for the host."""
    shown = did.shown
    rows = shown.preview if shown is not None else []
    return {
        "statements": list(did.statements),
        "texts": truncate_texts(did.texts, MAX_FRAME - len(json.dumps([did.statements, rows]))),
        "rows": rows,
        "result_rows": shown.total if shown is not None else 0,
        "schema": described(shown.columns, dict(did.types)) if shown is not None else [],
        "changed": bool(did.tables or did.structure or did.unseen),
    }


def truncate_texts(texts: Sequence[str], remaining: int) -> list[str]:
    """Return the first texts that fit into one message."""
    selected: list[str] = []
    for text in texts:
        remaining -= len(json.dumps(text))
        if remaining < 0:
            break
        selected.append(text)
    return selected


def summarise(reasons: Sequence[str]) -> str:
    """Return the first reasons as a text, with the number of the others."""
    more = f", and {len(reasons) - _MOST_REASONS:,} more" if len(reasons) > _MOST_REASONS else ""
    return ", ".join(reasons[:_MOST_REASONS]) + more


def _unseen(one: PostgresStatement, described: Mapping[str, Any], changed: Changed) -> str:
    counted = sum(sum(change) for change in changed.tables.values())
    if (described.get("rows_changed") or 0) > counted and not one.changes_structure:
        return f"{one.kind} changed rows for which the server has no counters, such as those of a foreign table"
    return ""


def describe_structure(one: PostgresStatement) -> str:
    """Describe the change of the structure, such as `TRUNCATE of orders`."""
    if not one.changes_structure:
        return f"the change of the structure of the database by {one.kind}"
    first = one.text.split(maxsplit=1)[0].upper()
    return f"{first} of {one.about or ', '.join(one.named) or 'an unknown object'}"


def _changed_rows(tag: str) -> int | None:
    last = tag.rpartition(" ")[2]
    return int(last) if last.isdecimal() else None


def plan_nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for inner in tree.values():
            yield from plan_nodes(inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from plan_nodes(inner)


@contextmanager
def named(text: RequestedText) -> Iterator[None]:
    """Add the name of the file to a problem of its text."""
    try:
        yield
    except RemitError as problem:
        if not text.name or problem.where != THE_TEXT:
            raise
        raise problem.with_changes(where=text.name) from None
