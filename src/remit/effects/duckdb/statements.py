"""Analyses the statements of a SQL text before any of them runs, and refuses those that a plan may not use.

Pure. The engine parses the text and returns the kind of each statement; an allow-list has the kinds that may run.
Function names are compared as tokens, so that quotes and comments hide none. Limit: only the database knows the tables
behind a view, a macro or a trigger. `engine` reports the tables that were really read.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import duckdb

from remit.core.errors import Reason, RefusedError
from remit.effects.duckdb.denylist import (
    CHANGES_SEQUENCES,
    FILE_ADVICE,
    PLAIN_ADVICE,
    advice_for,
    find_forbidden,
    is_call,
    names_a_file,
    shows_a_setting,
)
from remit.effects.duckdb.instance import ENGINE
from remit.effects.duckdb.lexer import DuckdbToken, tokens_of
from remit.effects.duckdb.syntax_tree import Tables, read_tables
from remit.effects.duckdb.traits import nondeterministic_calls, pivots, upserts

MAX_STATEMENTS: Final = 500
ONLY_PLAIN_VALUES: Final = (
    "Use a string, a number, true, false or null. For several values, use one parameter for each."
)
MAX_TEXT: Final = 1 << 20

CHANGES_ROWS: Final = frozenset({"INSERT", "UPDATE", "DELETE"})
_ALLOWED: Final = frozenset({"SELECT", *CHANGES_ROWS, "MERGE_INTO", "CREATE", "ALTER", "DROP", "EXPLAIN"})
_OBJECTS: Final = frozenset({"TABLE", "VIEW", "SCHEMA", "SEQUENCE", "TYPE", "INDEX", "MACRO", "FUNCTION"})
_OF_COMMENTS: Final = frozenset({"COLUMN"})
_BEFORE_AN_OBJECT: Final = frozenset(
    {"OR", "REPLACE", "TEMP", "TEMPORARY", "UNIQUE", "RECURSIVE", "ON", "IF", "EXISTS"}
)
_BEFORE_A_NAME: Final = frozenset({"IF", "NOT", "EXISTS"})
_DESTROYING: Final = frozenset({"DELETE", "DROP", "TRUNCATE"})
_RUNS_IT: Final = frozenset({"analyze", "analyse"})

_ADVICE: Final[Mapping[str, str]] = {
    "TRANSACTION": "Leave it out. All statements of a text are already one transaction.",
    "COPY": "Leave it out. To save the rows of a SELECT to a file, name the file in `save_results_to`.",
    "EXPORT": "Leave it out. To save the rows of a SELECT to a file, name the file in `save_results_to`.",
    "PREPARE": "Write the statement itself, with parameters: $name.",
    "EXECUTE": "Write the statement itself, with parameters: $name.",
    "MULTI": "The engine would split it into several statements. Name the values of the columns of PIVOT: ON column IN "
    "(...).",
}
_SHOW_ADVICE: Final = "Leave it out. To list the columns of a table, use DESCRIBE table."


_LINE: Final = re.compile(r"^LINE (\d{1,7}): ", re.MULTILINE)


class DuckdbStatement(NamedTuple):
    """One statement of a text."""

    number: int
    """The number of the statement in the text, counted from 1."""
    kind: str
    text: str
    """The text of the statement, without comments and semicolons after its last word."""
    reads: tuple[str, ...] | None
    """The tables and views as they are named in the text. None if they are not known."""
    writes: tuple[str, ...] | None
    parameters: tuple[str, ...]
    is_read: bool
    """Whether its text changes nothing in the database. A view or a macro may still hide a change."""
    returns_rows: bool
    """Whether it returns rows: a SELECT, or a change with RETURNING."""
    words: str
    """A description for people."""
    destroys: bool = False
    """Whether its text removes rows, columns or whole tables."""
    upserts: bool = False
    """Whether an INSERT may change existing rows instead."""
    pivots: bool = False
    """Whether names of its columns may be values of rows."""
    volatile: tuple[str, ...] = ()
    """The parts that may give another result the next time."""


def analyse(text: str) -> tuple[DuckdbStatement, ...]:
    """Return all statements. Raise RefusedError with the number and the kind of the first one that may not run."""
    _require_readable(text)
    try:
        found = ENGINE.extract_statements(text)
    except duckdb.Error as problem:
        raise _refuse_text(problem) from None
    if not found:
        raise _refusal("the text has no statement", "Write at least one statement.")
    if len(found) > MAX_STATEMENTS:
        raise _refusal(
            f"it has {len(found):,} statements, and at most {MAX_STATEMENTS} may run together", "Split it into several."
        )
    return tuple(_analyse_one(number, one) for number, one in enumerate(found, start=1))


def bind(statements: Sequence[DuckdbStatement], values: Mapping[str, Any], *, shared: bool = False) -> None:
    """Refuse a parameter that is used without a value, that has a value and is not used, or that is not a plain value.

    `shared`: several texts share the parameters, so this one need not use all of them.
    """
    used = {name for one in statements for name in one.parameters}
    for name in sorted(used - values.keys()):
        raise _refusal(f"the parameter {name!r} is used and has no value", "Give it a value in `parameters`.")
    for name in () if shared else sorted(values.keys() - used):
        raise _refusal(f"the parameter {name!r} has a value and is not used", f"Use it as ${name}, or leave it out.")
    for name, value in values.items():
        if not isinstance(value, str | int | float | None):  # a bool is an int
            raise _refusal(f"the value of the parameter {name!r} is a list or an object", ONLY_PLAIN_VALUES)


def require_reading(statements: Sequence[DuckdbStatement]) -> None:
    for one in statements:
        if not one.is_read:
            raise _statement_refusal(
                one.number, one.kind, "it may change the database, but this text may only read", "Leave it out."
            )


def _require_readable(text: str) -> None:
    if "\0" in text:
        raise _refusal("the text has a NUL character, which could hide a statement after it", "Remove the character.")
    if len(text) > MAX_TEXT:
        raise _refusal(f"the text has more than {MAX_TEXT:,} characters", "Split it into several texts.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refusal("the text has half of a character (a lone surrogate)", "Save it as UTF-8.") from None


def _analyse_one(number: int, found: duckdb.Statement) -> DuckdbStatement:
    tokens = _strip_semicolon(tokens_of(found.query))
    kind = _kind_of(found, tokens)
    if kind not in _ALLOWED:
        raise _statement_refusal(
            number, kind, "statements of this kind are not allowed", _ADVICE.get(kind, PLAIN_ADVICE)
        )
    text = _between(found.query, tokens)
    _require_harmless(number, kind, tokens)
    parameters = tuple(sorted(found.named_parameters))
    if kind == "EXPLAIN":
        return _explain(number, text, tokens, parameters)
    tables = _tables(kind, text, tokens)
    if tables is not None and tables.foreign:
        raise _statement_refusal(number, kind, f"it contains a {tables.foreign}", _ADVICE["COPY"])
    is_read = kind == "SELECT" and tables is not None and not tables.writes and not _changes_sequences(tokens)
    reads, writes = (tables.reads, tables.writes) if tables is not None else (None, None)
    if tables is None and kind in ("MERGE_INTO", "INSERT"):
        writes = _table_after_into(tokens)
    returns_rows = kind == "SELECT" or (tables.returns_rows if tables is not None else _returns(tokens))
    merges = kind == "INSERT" and upserts(tokens)
    words = describe(kind, reads, writes, upserts=merges)
    destroys = not is_read and _destroys(kind, tokens)
    return DuckdbStatement(
        number, kind, text, reads, writes, parameters, is_read, returns_rows, words, destroys,
        upserts=merges, pivots=pivots(tokens), volatile=nondeterministic_calls(tokens),
    )  # fmt: skip


def _kind_of(found: duckdb.Statement, tokens: Sequence[DuckdbToken]) -> str:
    try:
        kind = found.type.name
    except ValueError:  # a kind that has no name in Python
        return "UNKNOWN"
    # ADD COLUMN with a constraint: the engine adds the column, and then the constraint, in the same transaction.
    return "ALTER" if kind == "MULTI" and tokens and tokens[0].word == "ALTER" else kind


def _require_harmless(number: int, kind: str, tokens: Sequence[DuckdbToken]) -> None:
    if (forbidden := find_forbidden(tokens)) is not None:
        name, why = forbidden
        raise _statement_refusal(number, kind, f"{name} {why}", advice_for(why))
    if shows_a_setting(tokens):
        raise _statement_refusal(number, kind, "it may show a setting of the engine", _SHOW_ADVICE)
    if names_a_file(tokens):
        raise _statement_refusal(number, kind, "it names a file in the place of a table", FILE_ADVICE)
    if _copies_within(tokens):
        raise _statement_refusal(number, kind, "it contains a COPY", _ADVICE["COPY"])
    if kind == "MERGE_INTO" and _returns(tokens):
        raise _statement_refusal(number, kind, "the rows that a MERGE returns cannot be used", "Leave out RETURNING.")
    if kind in ("CREATE", "ALTER", "DROP") and _object_of(tokens) is None:
        raise _statement_refusal(
            number,
            kind,
            "it is not about a table, view, schema, sequence, type, index or macro",
            PLAIN_ADVICE,
        )


def _explain(number: int, text: str, tokens: Sequence[DuckdbToken], parameters: tuple[str, ...]) -> DuckdbStatement:
    """Apply the same rules to the explained statement. With ANALYZE that statement runs, so it must only read."""
    runs, start = _explained(tokens)
    try:
        inner = _analyse_one(number, ENGINE.extract_statements(_between(text, tokens[start:]))[0])
    except (duckdb.Error, IndexError):
        raise _statement_refusal(
            number, "EXPLAIN", "the statement that it explains cannot be read", "Leave it out."
        ) from None
    if runs and not inner.is_read:
        raise _statement_refusal(
            number, "EXPLAIN", f"with ANALYZE it runs the {inner.kind} that it explains", "Leave out ANALYZE."
        )
    words = f"explains a statement that {inner.words}"
    return DuckdbStatement(
        number, "EXPLAIN", text, inner.reads, (), parameters, inner.is_read, True, words, volatile=inner.volatile
    )


def _explained(tokens: Sequence[DuckdbToken]) -> tuple[bool, int]:
    """Return whether EXPLAIN runs the statement, and where the explained statement begins."""
    if tokens[1].name in _RUNS_IT:
        return True, 2
    if tokens[1].text != "(" or tokens[2].word in ("SELECT", "WITH", "FROM", "VALUES", "("):
        return False, 1
    end = next(at for at, token in enumerate(tokens) if token.text.startswith(")"))
    return any(token.name in _RUNS_IT for token in tokens[:end]), end + 1


def _tables(kind: str, text: str, tokens: Sequence[DuckdbToken]) -> Tables | None:
    if kind == "SELECT":
        return read_tables(text, changes_rows=False)
    if kind in CHANGES_ROWS:
        return read_tables(text, changes_rows=True)
    if kind in ("CREATE", "ALTER", "DROP"):
        return _tables_of_objects(kind, text, tokens)
    return None


def _tables_of_objects(kind: str, text: str, tokens: Sequence[DuckdbToken]) -> Tables | None:
    """Return the object that is made, changed or removed, and the tables that the SELECT of a new one reads."""
    place = _object_of(tokens)
    if place is None:
        return None
    name = _name_from(tokens, place + 1)
    body = _body(tokens, place) if kind == "CREATE" else None
    if body is None:
        return Tables((), name, False, "")
    made_of = read_tables(_between(text, tokens[body:]), changes_rows=False)
    if made_of is None:
        return None
    return Tables(made_of.reads, (*name, *made_of.writes), False, made_of.foreign)


def _object_of(tokens: Sequence[DuckdbToken]) -> int | None:
    """Return the place of the kind of object, such as TABLE. None if a text may not make or remove such an object."""
    known = _OBJECTS | (_OF_COMMENTS if tokens[0].word == "COMMENT" else frozenset())
    if tokens[0].word == "TRUNCATE":
        return 0
    for place, token in enumerate(tokens[1:], start=1):
        if token.word in known:
            return place
        if token.word not in _BEFORE_AN_OBJECT:
            return None
    return None


def _name_from(tokens: Sequence[DuckdbToken], start: int) -> tuple[str, ...]:
    """Return the name that begins there, with its schema if it has one, as a tuple of one name or none."""
    while start < len(tokens) and tokens[start].word in _BEFORE_A_NAME:
        start += 1
    parts: list[str] = []
    for token in tokens[start:]:
        if token.text == ".":
            parts.append(".")
        elif not parts or parts[-1] == ".":
            parts.append(_as_written(token))
        else:
            break
    return ("".join(parts),) if parts else ()


def _as_written(token: DuckdbToken) -> str:
    return token.text[1:-1].replace('""', '"') if token.is_quoted else token.text


def _body(tokens: Sequence[DuckdbToken], start: int) -> int | None:
    """Return where the SELECT of a new table or view begins."""
    if tokens[start].word not in ("TABLE", "VIEW"):
        return None
    depth = 0
    for place, token in enumerate(tokens[start:], start=start):
        depth += token.text.count("(") - token.text.count(")")
        if depth == 0 and token.word == "AS":
            return place + 1
    return None


def _table_after_into(tokens: Sequence[DuckdbToken]) -> tuple[str, ...] | None:
    depth = 0
    for place, token in enumerate(tokens):
        depth += token.text.count("(") - token.text.count(")")
        if depth == 0 and token.word == "INTO":
            return _name_from(tokens, place + 1)
    return None


def _returns(tokens: Sequence[DuckdbToken]) -> bool:
    """Return whether RETURNING is in the statement. It is reserved, so only a quoted name can be the same word."""
    return any(token.word == "RETURNING" for token in tokens)


def _destroys(kind: str, tokens: Sequence[DuckdbToken]) -> bool:
    """Return whether it removes anything. May report a statement with a column of such a name by mistake."""
    replaces = kind == "CREATE" and [token.word for token in tokens[1:3]] == ["OR", "REPLACE"]
    return replaces or any(token.word in _DESTROYING for token in tokens)


def _copies_within(tokens: Sequence[DuckdbToken]) -> bool:
    """Return whether there is a COPY as in WITH x AS (COPY ...), also for statements that have no syntax tree."""
    before = ("AS", "MATERIALIZED")
    return any(
        token.word == "COPY" and place > 1 and tokens[place - 1].text == "(" and tokens[place - 2].word in before
        for place, token in enumerate(tokens[:-1])
        if tokens[place + 1].text not in (",", ")")
    )


def _changes_sequences(tokens: Sequence[DuckdbToken]) -> bool:
    return any(token.name in CHANGES_SEQUENCES and is_call(tokens, place) for place, token in enumerate(tokens))


def _strip_semicolon(tokens: Sequence[DuckdbToken]) -> Sequence[DuckdbToken]:
    end = len(tokens)
    while end and not tokens[end - 1].text.strip("; \t\r\n"):
        end -= 1
    return tokens[:end]


def _between(text: str, tokens: Sequence[DuckdbToken]) -> str:
    last = tokens[-1]
    return text.encode()[tokens[0].start : last.start + len(last.text.encode())].decode()


# --- descriptions ----------------------------------------------------------------------------------------------------

_VERBS: Final = {
    "INSERT": "inserts into",
    "UPDATE": "updates",
    "DELETE": "deletes from",
    "MERGE_INTO": "merges into",
    "CREATE": "creates",
    "ALTER": "alters",
    "DROP": "drops",
    "SELECT": "changes",
}


def describe(kind: str, reads: tuple[str, ...] | None, writes: tuple[str, ...] | None, *, upserts: bool = False) -> str:
    parts = []
    if writes or kind != "SELECT":
        verb = "inserts into or updates" if upserts else _VERBS[kind]
        parts.append(f"{verb} {', '.join(writes) if writes else 'tables that are not known before it runs'}")
    if reads:
        parts.append(f"reads {', '.join(reads)}")
    elif reads is None:
        parts.append("reads tables that are not known before it runs")
    return "; ".join(parts) or "reads no table"


# --- refusals --------------------------------------------------------------------------------------------------------


def _refusal(what: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.SQL_REFUSED, what, where="the SQL text", next_step=next_step)


def _statement_refusal(number: int, kind: str, what: str, next_step: str) -> RefusedError:
    return RefusedError(
        Reason.SQL_REFUSED, f"statement {number} ({kind}): {what}", where="the SQL text", next_step=next_step
    )


def _refuse_text(problem: duckdb.Error) -> RefusedError:
    """Return the refusal for a text that the engine cannot parse.

    The first line of the engine's message quotes one word of the text and is passed on. Then comes a line of the text,
    which may have any content, so only its number is passed on.
    """
    words, _, rest = str(problem).partition("\n")
    line = _LINE.search(rest)
    where = f"line {line[1]}: " if line is not None else ""
    return _refusal(f"the engine cannot read it: {where}{words[:200]}", "Fix the text.")
