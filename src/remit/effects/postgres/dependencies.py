"""Finds the functions, tables and sequences that a statement reaches, before any part of it runs.

The server parses the statement and stores its parse tree, as the body of a function that is never called and is removed
immediately. From this tree, the search follows everything that the server would run by itself: operators, casts, views,
rules, triggers, defaults, checks, index expressions, statistics, row policies, domains, operator classes, foreign keys
and partitions. Such a function is not possible for a statement that is not a query, on a standby, or for a role without
TEMP. Then the search uses names: each name in the text stands for every object with this name. A cast or an operator
that may be missing in the text stands for all that users have created. So the search may find too much, but never too
little.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.effects.postgres import catalog_queries as catalog
from remit.effects.postgres.errors import THE_TEXT
from remit.effects.postgres.function_allowlist import (
    FIRST_OF_USERS,
    MAKES_JSON,
    ServerFunction,
    advice,
    is_of_users,
    why_refused,
)
from remit.effects.postgres.lexer import PostgresToken, tokens_of
from remit.effects.postgres.libpq import PostgresWire, ServerError
from remit.effects.postgres.parse_tree import Tree, UnknownTreeError, parse_tree
from remit.effects.postgres.session import PostgresSession
from remit.effects.postgres.statements import PostgresStatement, explained

_LOOKING: Final = "remit_looking"
_PROBE: Final = 'pg_temp."remit_probe"'
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE"})
_MOST_ARGUMENTS: Final = 100
_ATOMIC_SINCE: Final = 140_000
_NO_PROBE: Final = frozenset({"0A000", "25006", "42501", "54023", "42P13"})
"""The SQLSTATEs of the server if no function can be created, or none for this statement."""
_OPERATOR: Final = frozenset("+-*/<>=~!@#%^&|`?")
_AFTER: Final = frozenset({"UPDATE", "INTO", "FROM", "ONLY", "TABLE"})
_UNSPELLED: Final = frozenset(
    {"BETWEEN", "CASE", "DISTINCT", "EXCEPT", "GREATEST", "GROUP", "ILIKE", "IN", "INSERT", "INTERSECT", "LEAST"}
    | {"LIKE", "MERGE", "NATURAL", "NULLIF", "ORDER", "OVER", "PARTITION", "SELECT", "SIMILAR", "UNION", "USING"}
    | {"WITHIN"}
)
"""Words that make the server look up operators whose names are not in the text."""
_MOST_ROUNDS: Final = 60
_AFTER_A_QUERY: Final = (
    ["WITH", "NO", "DATA"],
    ["WITH", "DATA"],
    ["WITH", "LOCAL", "CHECK", "OPTION"],
    ["WITH", "CASCADED", "CHECK", "OPTION"],
    ["WITH", "CHECK", "OPTION"],
)
_NAMED: Final = 3
_LONGEST_NAME: Final = 63
"""In bytes. The server shortens a longer name."""


class ReachedObjects(NamedTuple):
    """The tables and sequences that a statement reaches, by their numbers."""

    writes: frozenset[int] = frozenset()
    """Tables whose rows it may change or lock, directly or through foreign keys."""
    parents: frozenset[int] = frozenset()
    """Tables whose rows it locks against deletion, because a foreign key refers to them."""
    reads: frozenset[int] = frozenset()
    sequences: frozenset[int] = frozenset()
    """The sequences that it takes numbers from."""
    alters: frozenset[int] = frozenset()
    """Tables whose structure it changes, or that it empties."""
    functions: frozenset[int] = frozenset()
    """Functions that users of the database wrote."""
    lasting: str = ""
    """Why a rollback may not undo all that it does: a sequence, or a function of a user. Empty if it undoes all."""
    is_plannable: bool = True
    """Whether the server can plan it without calling a function of a user."""


class Reach:
    """Finds what statements reach, and refuses statements that reach a function that is not allowed.

    `allowed`: functions that a person has named for this connection. `calls_nothing`: true in a preview. The search
    then calls no function of a user, so it knows less about the few statements whose parsing would call one.
    """

    def __init__(self, session: PostgresSession, allowed: Sequence[str], *, calls_nothing: bool) -> None:
        self._session = session
        self._wire = session.wire
        self._allowed = tuple(allowed)
        self._calls_nothing = calls_nothing
        self._can_probe = session.wire.version >= _ATOMIC_SINCE

    def inspect(self, one: PostgresStatement) -> ReachedObjects:
        """Return what the statement reaches. The database stays unchanged.

        Raises:
            RefusedError: The statement reaches a function that is not allowed. The message names it.
        """
        self._wire.do(f"SAVEPOINT {_LOOKING}")
        try:
            return self._inspect(one)
        finally:
            self._wire.do(f"ROLLBACK TO SAVEPOINT {_LOOKING}")
            self._wire.do(f"RELEASE SAVEPOINT {_LOOKING}")

    def _inspect(self, one: PostgresStatement) -> ReachedObjects:
        first = _Walk(self._session, one, self._allowed)
        first.start_from_types(list(tokens_of(one.text)))
        is_quiet = first.finish().is_plannable or not self._calls_nothing
        walk = _Walk(self._session, one, self._allowed)
        if one.changes_structure:
            self._require_no_events(walk, None)
        query = _query_of(one)
        tree, sequences = self._probe(walk, query) if query and is_quiet else (None, frozenset())
        if tree is None or one.changes_structure:
            walk.start_from_names(list(tokens_of(one.text)), is_probed=tree is not None)
        if tree is not None:
            walk.start_from_tree(tree, sequences)
        reached = walk.finish()
        if reached.sequences and self._calls_refused("ALTER SEQUENCE"):
            raise walk.refused(
                "it takes numbers from a sequence, and event triggers of the database would run when an apply copies "
                "the sequence",
                "Write the numbers in the statement, or name the functions of the event triggers in `functions`.",
            )
        return reached if is_quiet else reached._replace(is_plannable=False)

    def _probe(self, walk: "_Walk", query: str) -> tuple[Tree | None, frozenset[int]]:
        """Return the parse tree of the query, and the sequences that its constants name.

        The tree is None if no function could be created from the query.
        """
        if not self._can_probe or self._is_watched("CREATE FUNCTION"):
            return None, frozenset()
        self._session.use_statement_settings()
        with self._session.lock_wait.counted():  # parsing a text locks the tables that it names
            types = self._wire.prepared_types(query)
        self._session.apply_settings()
        found = self._wire.do(catalog.TYPE_NAMES, array(types))
        names = {int(oid or 0): name or "" for oid, name in found}
        has_many = len(types) > _MOST_ARGUMENTS
        if has_many:
            query = _with_nulls(query, [names[oid] for oid in types])
        arguments = "" if has_many else ", ".join(names[oid] for oid in types)
        self._session.use_statement_settings()
        self._wire.do(f"SAVEPOINT {_LOOKING}_probe")
        try:
            with self._session.lock_wait.counted():
                self._wire.do(
                    f"CREATE FUNCTION {_PROBE}({arguments}) RETURNS pg_catalog.void LANGUAGE sql "
                    f"BEGIN ATOMIC {query}\n; END"
                )
        except ServerError as problem:
            self._wire.do(f"ROLLBACK TO SAVEPOINT {_LOOKING}_probe")
            self._session.apply_settings()
            if problem.state in _NO_PROBE:
                return None, frozenset()
            if has_many:
                raise walk.refused(
                    f"it has {len(types)} parameters, and a statement with more than {_MOST_ARGUMENTS} cannot be "
                    "checked before it runs",
                    f"Use at most {_MOST_ARGUMENTS} parameters, or split it into several.",
                ) from None
            raise
        self._session.apply_settings()
        oid, text = self._wire.one(
            "SELECT oid, prosqlbody::text FROM pg_proc WHERE pronamespace = pg_my_temp_schema() "
            "AND proname = 'remit_probe'"
        )
        sequences = self._wire.do(
            "SELECT c.oid FROM pg_depend d JOIN pg_class c ON c.oid = d.refobjid WHERE d.classid = 'pg_proc'::regclass "
            "AND d.objid = $1::oid AND d.refclassid = 'pg_class'::regclass AND c.relkind = 'S'",
            oid,
        )
        self._wire.do(f"ROLLBACK TO SAVEPOINT {_LOOKING}_probe")
        self._session.apply_settings()
        try:
            return parse_tree(text or ""), frozenset(int(row[0] or 0) for row in sequences)
        except UnknownTreeError:
            return None, frozenset()

    def _is_watched(self, tag: str | None) -> bool:
        """Return whether Remit must not send this command, because of an event trigger."""
        return bool(self._wire.do(catalog.EVENTS, tag)) if self._calls_nothing else self._calls_refused(tag)

    def _calls_refused(self, tag: str | None) -> bool:
        """Return whether an event trigger for this command calls a function that is not allowed."""
        oids = [int(row[1] or 0) for row in self._wire.do(catalog.EVENTS, tag)]
        return any(why_refused(one, self._allowed) for one in functions_of(self._wire, oids))

    def _require_no_events(self, walk: "_Walk", tag: str | None) -> None:
        for name, oid in self._wire.do(catalog.EVENTS, tag):
            walk.add_function(int(oid or 0), f"the event trigger {name}")


def reached_by_rows(session: PostgresSession, tables: Iterable[int]) -> ReachedObjects:
    """Return what a change of rows in these tables reaches, through foreign keys and partitions."""
    writes, parents, new = set(tables), set(), set(tables)
    while new:
        found = session.wire.do(catalog.WRITE, array(new))
        parents |= {int(oid or 0) for kind, oid, *_ in found if kind == "parent"}
        new = {int(oid or 0) for kind, oid, *_ in found if kind == "write"} - writes
        writes |= new
    return ReachedObjects(writes=frozenset(writes), parents=frozenset(parents - writes))


class _Walk:
    """The search from one statement to all objects that it reaches."""

    def __init__(self, session: PostgresSession, one: PostgresStatement, allowed: Sequence[str]) -> None:
        self._wire = session.wire
        self._has_more = session.wire.version >= _ATOMIC_SINCE
        self._one = one
        words = {token.word for token in tokens_of(one.text)} if one.called == "TRUNCATE" else set()
        self._empties_more = "CASCADE" in words
        self._allowed = allowed
        self._functions: dict[int, str] = {}
        self._types: dict[int, str] = {}
        self._unknown: dict[int, str] = {}
        self._reads: set[int] = set()
        self._writes: set[int] = set()
        self._parents: set[int] = set()
        self._sequences: set[int] = set()
        self._defaults: dict[int, frozenset[int]] = {}
        """By table: the columns that need no default."""
        self._alters: set[int] = set()
        self._makes_json = False
        self._visited: dict[str, set[int]] = {}
        self._places = {"function": self._functions, "type": self._types, "operator": self._unknown}
        self._tables = {"read": self._reads, "write": self._writes, "parent": self._parents}

    def refused(self, what: str, next_step: str) -> RefusedError:
        message = f"statement {self._one.number} ({self._one.called}): {what}"
        return RefusedError(Reason.SQL_REFUSED, message, where=THE_TEXT, next_step=next_step)

    def start_from_tree(self, tree: Tree, sequences: frozenset[int]) -> None:
        if tree.nextval_of_unknown:
            raise self.refused(
                "nextval is called for a sequence that the text does not name as a constant",
                "Write the name of the sequence itself: nextval('orders_id_seq').",
            )
        self._sequences |= sequences if tree.nextval else set()
        self._add_tree(tree, "", allows_nextval=True)
        self._writes |= tree.targets | tree.locked
        if tree.inserts:
            self._add_defaults({oid: tree.inserted.get(oid, frozenset()) for oid in tree.targets})
        self._require_no_system_table(tree.targets)

    def start_from_types(self, tokens: Sequence[PostgresToken]) -> None:
        """Add the types that a constant of the text could have.

        The server evaluates constants while it parses the text. For an array or a row of a domain it runs the checks of
        the domain, so they are inspected first.
        """
        names = {name for token in tokens for name in _spellings(token)}
        for (oid,) in self._wire.do(catalog.FIRST_TYPES, names_array(names)):
            self._types.setdefault(int(oid or 0), "")
        self._add_functions(catalog.CLASSES_OF_BUILT_IN)

    def start_from_names(self, tokens: Sequence[PostgresToken], *, is_probed: bool) -> None:
        """Start the search from the names in the text. `is_probed`: the parse tree also covers the expressions."""
        names = {name for token in tokens for name in _spellings(token)}
        called = {
            name
            for place, token in enumerate(tokens)
            for name in _spellings(token)
            if (place + 1 < len(tokens) and tokens[place + 1].text == "(") or (place and tokens[place - 1].text == ".")
        }
        words = [token.word for token in tokens]
        if words[0] in ("DROP", "COMMENT"):
            self._alters = self._altered_relations(tokens)
            return
        makes_only = words[:2] == ["CREATE", "TABLE"] and "AS" not in words
        if "nextval" in called and not makes_only:
            raise self.refused(
                "nextval cannot be checked in a statement of this kind",
                "Make the column GENERATED BY DEFAULT AS IDENTITY, or take the numbers in an INSERT.",
            )
        for kind, oid in self._wire.do(catalog.BY_NAME, names_array(names), names_array(called - {"nextval"})):
            self._add(kind or "", int(oid or 0), "", "")
        if not is_probed:
            self._add_unspelled(tokens)
        self._alters = self._altered_relations(tokens)
        for kind, oid in self._wire.do(catalog.OF_TYPES, names_array(names)) if words[0] == "ALTER" else ():
            self._writes.add(int(oid or 0))
            self._alters |= {int(oid or 0)} if kind == "alter" else set()
        if not self._one.is_read:
            self._write_to_names(tokens, set(words))

    def _add_unspelled(self, tokens: Sequence[PostgresToken]) -> None:
        """Add casts, operators and operator classes of users that the text may use without their names.

        Words such as BETWEEN and ORDER BY may use one.
        """
        words = {token.word for token in tokens}
        is_any = tokens[0].word in _QUERIES or tokens[0].text == "(" or bool(_UNSPELLED & words)
        runs = _operator_runs(tokens)
        self._add_functions(catalog.CASTS)
        for name, oid in self._wire.do(catalog.OPERATORS):
            if is_any or any((name or "") in run for run in runs):
                self.add_function(int(oid or 0), f"the operator {name}")
        if is_any:
            self._add_functions(catalog.CLASSES)

    def _add_functions(self, query: str) -> None:
        for oid, via in self._wire.do(query):
            self.add_function(int(oid or 0), via or "")

    def _write_to_names(self, tokens: Sequence[PostgresToken], words: set[str]) -> None:
        relations = set(self._reads)
        self._writes |= {oid for oid in relations if oid >= FIRST_OF_USERS}
        if self._one.changes_structure:
            return
        self._require_no_system_table(self._names_after_keyword(tokens, relations))
        if {"INSERT", "MERGE", "DEFAULT"} & words:
            self._add_defaults({oid: frozenset() for oid in self._writes})

    def add_function(self, oid: int, via: str) -> None:
        self._functions.setdefault(oid, via)

    def finish(self) -> ReachedObjects:
        for _ in range(_MOST_ROUNDS):
            if not self._step():
                break
        else:
            raise self.refused("it reaches too many tables and views to check", "Split it into several statements.")
        of_users = [one for one in self._require_functions() if is_of_users(one)]
        if self._one.changes_structure:
            emptied = self._writes if self._one.called == "TRUNCATE" else set()
            alters = self._alters | emptied
            reached = ReachedObjects(reads=frozenset(self._reads - alters), alters=frozenset(alters))
        else:
            reached = ReachedObjects(
                frozenset(self._writes),
                frozenset(self._parents - self._writes),
                frozenset(self._reads - self._writes - self._parents),
                frozenset(self._sequences),
            )
        return reached._replace(
            functions=frozenset(one.oid for one in of_users),
            lasting=self._why_lasting(of_users),
            is_plannable=all(one.is_trigger for one in of_users),
        )

    def _why_lasting(self, of_users: Sequence[ServerFunction]) -> str:
        """Return why a rollback may not undo all that the statement does. Empty if it undoes all."""
        statement = f"statement {self._one.number} ({self._one.called})"
        if self._sequences:
            names = [name or "" for _, name in self._wire.do(catalog.NAMES, array(self._sequences))]
            return f"{statement} takes numbers from the sequence {', '.join(names[:_NAMED])}, which a rollback keeps"
        if not of_users:
            return ""
        one = min(of_users)
        via = self._functions.get(one.oid, "")
        return (
            f"{statement} calls {one.signature}{f' by {via}' if via else ''}, "
            "and a rollback may not undo all that this function does"
        )

    # --- step by step -------------------------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Look up all new objects once. Return whether there were any."""
        unknown = self._new("unknown", self._unknown)
        for kind, oid, found in self._wire.do(catalog.OBJECTS, array(unknown)) if unknown else ():
            self._add(kind or "", int(found or 0), "", self._unknown[int(oid or 0)])
        types = self._new("types", self._types)
        reads = self._new("reads", self._reads | self._writes | self._parents)
        writes = self._new("writes", self._writes)
        inserted = self._new("inserted", self._defaults)
        queries = [(catalog.TYPES, types), (catalog.READ, reads), (catalog.WRITE, writes)]
        queries += [(catalog.TYPES_SINCE_14, types), (catalog.READ_SINCE_14, reads)] if self._has_more else []
        for query, oids in queries:
            for kind, oid, text, via in self._wire.do(query, array(oids)) if oids else ():
                self._add(kind or "", int(oid or 0), text or "", via or "")
        self._write_below_views({*writes, *inserted})
        if self._empties_more and writes:
            self._writes |= {int(row[0] or 0) for row in self._wire.do(catalog.REFERRING, array(writes))}
        return bool(unknown or types or reads or writes or inserted)

    def _write_below_views(self, oids: set[int]) -> None:
        """Mark the tables below a view that is written to, because a change of a view changes the rows of these tables.

        This is a separate step, because the search may have found the view earlier, as one that is read.
        """
        for view, text in self._wire.do(catalog.VIEWS, array(oids)) if oids else ():
            below = self._parse(text or "").relations
            if int(view or 0) in self._writes:
                self._writes |= below
            if int(view or 0) in self._defaults:
                self._add_defaults(dict.fromkeys(below, frozenset()))

    def _add(self, kind: str, oid: int, text: str, via: str) -> None:
        if kind in self._places:
            self._places[kind].setdefault(oid, via)
        elif kind in self._tables:
            self._tables[kind].add(oid)
        elif kind == "default":
            self._add_defaults({oid: frozenset()})
        else:
            self._add_stored_tree(self._parse(text), via)

    def _add_stored_tree(self, tree: Tree, via: str) -> None:
        """Add the objects in the tree of a view, a rule, a check or a similar object."""
        self._add_tree(tree, via)
        written = tree.targets | tree.locked
        self._writes |= written
        if tree.inserts:
            self._add_defaults(dict.fromkeys(written, frozenset()))

    def _add_tree(self, tree: Tree, via: str, *, allows_nextval: bool = False) -> None:
        for oid in tree.built_in:
            self.add_function(oid, via)
        for oid in tree.of_users - tree.relations:
            self._unknown.setdefault(oid, via)
        self._reads |= tree.relations
        self._makes_json |= tree.makes_json
        if tree.nextval and not allows_nextval:
            raise self.refused(f"{via} takes numbers from a sequence, which a preview cannot check", "Leave it out.")

    def _add_defaults(self, tables: Mapping[int, frozenset[int]]) -> None:
        """Add the defaults of tables. `tables`: the columns of each table that need no default.

        A column needs no default only if every INSERT gives it a value.
        """
        both = {oid: columns & self._defaults.get(oid, columns) for oid, columns in tables.items()}
        new = {oid: columns for oid, columns in both.items() if self._defaults.get(oid) != columns}
        self._defaults.update(new)
        for table, column, text, via, sequences in self._wire.do(catalog.DEFAULTS, array(new)) if new else ():
            if int(column or 0) in new[int(table or 0)]:
                continue
            found = {int(oid) for oid in (sequences or "").split()}
            if text is None:  # an identity
                self._sequences |= found
                continue
            tree = self._parse(text)
            if tree.nextval_of_unknown or (tree.nextval and not found):
                raise self.refused(f"{via} takes numbers from an unknown sequence", "Write the value in the statement.")
            self._sequences |= found if tree.nextval else set()
            self._add_tree(tree, via or "", allows_nextval=True)

    def _parse(self, text: str) -> Tree:
        try:
            return parse_tree(text)
        except UnknownTreeError:
            raise self.refused(
                "this version of PostgreSQL stores views and tables in a form that this version of Remit cannot read",
                "Use a newer version of Remit.",
            ) from None

    def _new(self, what: str, oids: Iterable[int]) -> list[int]:
        visited = self._visited.setdefault(what, set())
        new = [oid for oid in oids if oid not in visited]
        visited.update(new)
        return new

    def _require_functions(self) -> list[ServerFunction]:
        """Return all functions that it calls. Refuse one that is not allowed."""
        found = functions_of(self._wire, self._functions)
        if self._makes_json or any(one.oid < FIRST_OF_USERS and one.name in MAKES_JSON for one in found):
            casts = [int(row[0] or 0) for row in self._wire.do(catalog.JSON_CASTS)]
            for oid in casts:
                self.add_function(oid, "a cast to json")
            found += functions_of(self._wire, casts)
        for one in sorted(found):
            if why := why_refused(one, self._allowed):
                name = one.name if one.oid < FIRST_OF_USERS else one.signature
                via = self._functions.get(one.oid, "")
                reached = f", which {via} calls," if via else ""
                known = functions_of(self._wire, self._user_functions()) if one.oid >= FIRST_OF_USERS else []
                raise self.refused(f"{name}{reached} {why}", advice(one, self._allowed, known))
        return found

    def _user_functions(self) -> list[int]:
        """Return all functions of users. They are needed only if an entry of the config may be misspelled."""
        if not self._allowed:
            return []
        return [int(row[0] or 0) for row in self._wire.do(catalog.ALL_OF_USERS)]

    def _require_no_system_table(self, oids: Iterable[int]) -> None:
        for (name,) in self._wire.do(catalog.SYSTEM, array(oids)):
            raise self.refused(
                f"{name} belongs to the server's own catalog, and a plan changes only tables of users", "Leave it out."
            )

    def _altered_relations(self, tokens: Sequence[PostgresToken]) -> set[int]:
        """Return the tables that a statement about the structure names, or whose index it names.

        Tables with this name in other schemas are included. At worst, another table is locked too.
        """
        if not self._one.changes_structure or (tokens[0].word == "CREATE" and not _makes_an_index(tokens)):
            return set()
        names = {name.rpartition(".")[2] for name in self._one.named}
        if _makes_an_index(tokens):
            start = next((at for at, token in enumerate(tokens) if token.word == "ON"), len(tokens))
            names = {token.name for token in tokens[start + 1 : start + 5] if token.name}
        found = self._wire.do(catalog.ALTERED, names_array(names))
        return {int(row[0] or 0) for row in found}

    def _names_after_keyword(self, tokens: Sequence[PostgresToken], relations: set[int]) -> set[int]:
        """Return the relations whose names follow a keyword such as UPDATE or INTO, which names the changed table."""
        names = set()
        for place, token in enumerate(tokens):
            if token.word in _AFTER:
                names |= {each.name for each in tokens[place + 1 : place + 4] if each.name}
        found = self._wire.do(
            "SELECT oid FROM pg_class WHERE oid = ANY ($1::oid[]) AND relname = ANY ($2::name[])",
            array(relations),
            names_array(names),
        )
        return {int(row[0] or 0) for row in found}


def functions_of(wire: PostgresWire, oids: Iterable[int]) -> list[ServerFunction]:
    found = wire.do(catalog.FUNCTIONS, array(oids))
    return [_function(int(row[0] or 0), row[6] == "t", *(cell or "" for cell in row[1:6])) for row in found]


def _function(oid: int, is_trigger: bool, *texts: str) -> ServerFunction:  # noqa: FBT001 - a row of the catalog
    name, schema, signature, volatility, extension = texts
    return ServerFunction(oid, name, schema, signature, volatility, extension, is_trigger)


def array(oids: Iterable[int]) -> str:
    return "{" + ",".join(map(str, oids)) + "}"


def names_array(names: Iterable[str]) -> str:
    cut = (name.encode()[:_LONGEST_NAME].decode(errors="ignore") for name in names)
    escaped = (name.replace("\\", "\\\\").replace('"', '\\"') for name in cut)
    return "{" + ",".join(f'"{name}"' for name in escaped) + "}"


def _query_of(one: PostgresStatement) -> str:
    """Return the part of the statement that is a query which the server can store. Empty if there is none."""
    text = explained(one.text) if one.kind == "EXPLAIN" else one.text
    if one.changes_structure:
        text = _query_of_new(text)
    first = next((token for token in tokens_of(text) if token.text != "("), None)
    return text if first is not None and first.word in _QUERIES else ""


def _query_of_new(text: str) -> str:
    """Return the query of CREATE TABLE ... AS or CREATE VIEW ... AS. Empty for any other statement."""
    tokens = list(tokens_of(text))
    depth, start = 0, 0
    for place, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.word == "AS":
            start = place + 1
            break
    before = {token.word for token in tokens[:start]}
    if tokens[0].word != "CREATE" or not {"TABLE", "VIEW"} & before or start >= len(tokens):
        return ""
    end = len(tokens)
    for ending in _AFTER_A_QUERY:
        if [token.word for token in tokens[-len(ending) :]] == ending:
            end -= len(ending)
            break
    return text[tokens[start].start : tokens[end - 1].end]


def _with_nulls(query: str, types: Sequence[str]) -> str:
    """Replace each parameter by NULL of the same type, because a function can have only a limited number of arguments.

    The called functions depend only on the types.
    """
    pieces: list[str] = []
    at = 0
    for token in tokens_of(query):
        if token.kind == "parameter":
            pieces += [query[at : token.start], f"(NULL::{types[int(token.text[1:]) - 1]})"]
            at = token.end
    return "".join((*pieces, query[at:]))


def _spellings(token: PostgresToken) -> set[str]:
    """Return the names that the server may look up. It converts only ASCII letters to lower case."""
    if token.kind != "word":
        return {token.name} if token.name else set()
    return {token.name, "".join(one.lower() if one.isascii() else one for one in token.text)}


def _makes_an_index(tokens: Sequence[PostgresToken]) -> bool:
    return tokens[0].word == "CREATE" and "INDEX" in [token.word for token in tokens[:3]]


def _operator_runs(tokens: Sequence[PostgresToken]) -> list[str]:
    """Return the groups of adjacent operator characters."""
    runs: list[str] = []
    end = -1
    for token in tokens:
        if token.kind != "mark" or token.text not in _OPERATOR:
            continue
        if token.start == end:
            runs[-1] += token.text
        else:
            runs.append(token.text)
        end = token.end
    return runs
