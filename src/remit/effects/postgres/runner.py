"""The statements of a plan, run one after the other in one transaction; what each did, as the server counts it.

Nothing is committed here. An action that fails is rolled back to where it began, and its problem is kept or raised.
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
from remit.effects.postgres.table_locks import copies, held_table, reached_by_structure

PREVIEW_ROWS: Final = 20
MAX_TEXTS: Final = 500
MAX_TEXT: Final = 80_000
"""Characters of each: more than is shown in the end, so that a secret at the cut is seen whole when it is masked."""
MAX_FRAME: Final = 900 << 10
"""Of what can be long. Texts are left out first."""
_ACTION: Final = "remit_action"
_COUNTING: Final = "remit_counting"
_MOST_COUNTED: Final = 1_000_000
"""More rows than that are not counted before a table is emptied: it would take its time."""
_MOST_REASONS: Final = 5
_SCANNED: Final = frozenset({"SELECT", *CHANGES_ROWS})
_TYPES: Final = "SELECT oid, format_type(oid, NULL) FROM pg_type WHERE oid = ANY ($1::oid[])"


class Did(NamedTuple):
    """What one action did."""

    number: int
    statements: tuple[dict[str, Any], ...]
    shown: ShownRows | None
    types: Mapping[int, str]
    tables: Mapping[int, RowCounts]
    structure: tuple[str, ...]
    """The statements that changed the structure of the database, in words."""
    unseen: tuple[str, ...]
    """What was changed that is not counted, in words."""
    texts: tuple[str, ...] = ()
    """Of the first statements: for people who look, and kept nowhere."""
    problem: Mapping[str, str] | None = None


class StatementRunner:
    """Remembers, from one pass to the next, what a statement reaches and which tables it reads."""

    def __init__(
        self, session: PostgresSession, work: EffectContext, reach: Reach, *, reads_only: bool, seconds: float
    ) -> None:
        self._session = session
        self._wire = session.wire
        self._work = work
        self._reach = reach
        self._reached: dict[tuple[int, int], ReachedObjects | RefusedError] = {}
        self._copied: frozenset[int] | None = None
        self._reads_only = reads_only
        self._seconds = seconds
        self._reads: dict[tuple[int, int], tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._ours: frozenset[int] = frozenset()
        self._counts = Counts({}, 0)
        self.may_write = False
        self.blocked: list[ReachedObjects] = []
        """What statements reach that could not have a lock at once."""
        self.blocking_table = ""
        """The table that another session kept the last of them from, if it is known."""

    def forget(self) -> None:
        """Before all is tried again: others may have changed the database."""
        self._reached.clear()
        self._reads.clear()
        self._copied = None
        self.blocking_table = ""

    def find_reached(self, actions: Sequence[RequestedAction]) -> list[ReachedObjects]:
        """What the statements reach, as far as that can be known before the first one runs. Nothing is remembered but
        for a text that is to read only: it makes no table that another statement could be about.
        """
        found = []
        self.may_write = False
        for action in actions:
            for text in action.texts:
                try:
                    statements = self._parse_text(text)
                except RefusedError:
                    continue  # it is told when it is its turn
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
                    found.append(reached)
                    if self._reads_only:
                        self._reached[id(text), one.number] = reached
        return found

    def copy_sequences(self, copied: frozenset[int]) -> None:
        """In a preview: numbers are taken from copies. `copied`: sequences of which there is one already."""
        self._copied = copied

    def run(
        self, actions: Sequence[RequestedAction], *, continue_on_error: bool, ours: frozenset[int] = frozenset()
    ) -> list[Did]:
        """All of them; with `continue_on_error`, also after a failure. `ours` are tables that are not the plan's."""
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
            return False  # the connection is gone, and with it everything
        return True

    def _with_deferred_changes(self, did: Sequence[Did]) -> list[Did]:
        """With what was put off to the end, which is told of the last action: nobody knows whose it was."""
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
        described["words"] += f"; triggers at the end change {', '.join(map(self._name, changed.tables)) or 'more'}"
        structure = ("what triggers did to the structure of the database at the end",) if changed.structure else ()
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
            with _named(text):
                statements = self._parse_text(text)
                last: ShownRows | None = None
                for one in statements:
                    described, rows, changed = self._run_one(text, one, (id(text), one.number), len(statements_run) + 1)
                    statements_run.append(described)
                    last = rows if one.is_read and rows is not None else last
                    for oid, change in changed.tables.items():
                        tables[oid] = tables.get(oid, RowCounts()) + change
                    texts += [one.written[:MAX_TEXT]] if len(texts) < MAX_TEXTS else []
                    if one.changes_structure or changed.structure:
                        structure[_structure(one)] = None
                    if unseen_change := _unseen(one, described, changed):
                        unseen[unseen_change] = None
                if text.expect_results and (last is None or last.total == 0):
                    raise no_rows_error()
                shown = last or shown
        types = self._type_names(shown)
        return Did(
            action.number, tuple(statements_run), shown, types, tables, tuple(structure), tuple(unseen), tuple(texts)
        )

    def _parse_text(self, text: RequestedText) -> tuple[PostgresStatement, ...]:
        statements = analyse(text.text)
        bind(statements, text.parameters)
        if self._reads_only:
            require_reading(statements)
        if text.results is not None and not any(one.is_read and one.kind == "SELECT" for one in statements):
            raise RefusedError(
                Reason.SQL_REFUSED,
                "its rows are to be saved, and no SELECT gives any",
                where=THE_TEXT,
                next_step="End it with a SELECT, or leave out `save_results_to`.",
            )
        return statements

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
            self._session.use_statement_settings()  # with the time that is left now
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
        """Another session has a lock that it needs. What it needs is remembered, so that it can be had first."""
        self._session.apply_settings()
        names = {token.name for token in tokens_of(one.text) if token.name}
        table = held_table(self._wire, names)
        self.blocking_table = table
        if one.changes_structure:
            self.blocked.append(reached_by_structure(self._wire, one.text))
        elif isinstance(reached, ReachedObjects):
            self.blocked.append(reached)
        return lock_held_error(
            table or f"what statement {one.number} ({one.called}) needs", self._session.lock_wait.seconds
        )

    def _require_allowed(self, one: PostgresStatement, key: tuple[int, int]) -> None:
        """Refused if it reaches what it may not. Before anything of it is planned: planning runs functions too."""
        is_new = key not in self._reached
        if is_new:
            self._reached[key] = self._reach.inspect(one)
        reached = self._reached[key]
        if isinstance(reached, RefusedError):
            raise reached
        missing = frozenset() if self._copied is None else reached.sequences - self._copied
        for step in copies(self._wire, missing) if missing else ():
            self._wire.do(step.text)
        if is_new or missing:  # what we did to the catalog is not the statement's
            self._counts = count(self._wire, self._ours)

    def _rows_of(self, tables: Sequence[Sequence[str]]) -> int | None:
        """How many rows are there, of tables that are about to be emptied; None if they are many, or cannot be read."""
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
                next_step="Leave it out: all statements of a plan on one connection are one transaction.",
            )

    def _spot(self, text: RequestedText) -> PathHandle:
        return self._work.spots[text.results or ""]

    def _planned(
        self, one: PostgresStatement, values: Sequence[bytes | None]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tables that the server's own plan reads, also behind a view, and those that it writes to."""
        if one.kind not in _SCANNED or one.changes_structure:
            return (), ()
        found = self._wire.do_with(f"EXPLAIN (VERBOSE, FORMAT JSON) {one.text}", values)
        reads: dict[str, None] = {}
        writes: dict[str, None] = {}
        for node in _nodes(json.loads(found[0][0] or "[]")):
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


# --- in words --------------------------------------------------------------------------------------------------------

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
        what = one.about or ", ".join(writes) or ", ".join(one.named) or "nothing that is counted"
        parts.append(f"{_VERBS[one.called]} {what}")
    if reads:
        parts.append(f"reads {', '.join(reads)}")
    return "; ".join(parts) or "reads no table"


def render_answer(did: Did) -> dict[str, Any]:
    """What the host is told of one action's rows and statements."""
    shown = did.shown
    rows = shown.preview if shown is not None else []
    return {
        "statements": list(did.statements),
        "texts": _truncate_texts(did.texts, MAX_FRAME - len(json.dumps([did.statements, rows]))),
        "rows": rows,
        "result_rows": shown.total if shown is not None else 0,
        "schema": described(shown.columns, dict(did.types)) if shown is not None else [],
        "changed": bool(did.tables or did.structure or did.unseen),
    }


def _truncate_texts(texts: Sequence[str], remaining: int) -> list[str]:
    """As many as there is room for in one message."""
    selected: list[str] = []
    for text in texts:
        remaining -= len(json.dumps(text))
        if remaining < 0:
            break
        selected.append(text)
    return selected


def summarise(reasons: Sequence[str]) -> str:
    """The first ones, and how many more there are."""
    more = f", and {len(reasons) - _MOST_REASONS:,} more" if len(reasons) > _MOST_REASONS else ""
    return ", ".join(reasons[:_MOST_REASONS]) + more


def _unseen(one: PostgresStatement, described: Mapping[str, Any], changed: Changed) -> str:
    counted = sum(sum(change) for change in changed.tables.values())
    if (described.get("rows_changed") or 0) > counted and not one.changes_structure:
        return f"{one.kind} changed rows that the server does not count, such as those of a foreign table"
    return ""


def _structure(one: PostgresStatement) -> str:
    """What it did, as `TRUNCATE of orders`."""
    if not one.changes_structure:
        return f"what {one.kind} did to the structure of the database"
    first = one.text.split(maxsplit=1)[0].upper()
    return f"{first} of {one.about or ', '.join(one.named) or 'what is not known'}"


def _changed_rows(tag: str) -> int | None:
    last = tag.rpartition(" ")[2]
    return int(last) if last.isdecimal() else None


def _nodes(tree: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for inner in tree.values():
            yield from _nodes(inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from _nodes(inner)


@contextmanager
def _named(text: RequestedText) -> Iterator[None]:
    """A problem of the text is told with the name of its file."""
    try:
        yield
    except RemitError as problem:
        if not text.name or problem.where != THE_TEXT:
            raise
        raise problem.with_changes(where=text.name) from None
