"""Analyses a text of SQL, statement by statement, before any of it runs.

Pure. An allow-list of the first words decides which statements may run. All others are refused, and the message names
their kind. Each statement is sent alone, and the server refuses a second one after it. Limit: functions, views and
triggers of the database can do more than the words show. The server counts which tables really changed; see
`row_counts`.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.effects.postgres.denylist import INSTEAD, MOVES_A_SEQUENCE, calls, find_forbidden
from remit.effects.postgres.lexer import PostgresToken, split, tokens_of

MAX_STATEMENTS: Final = 500
MAX_TEXT: Final = 1 << 20
MAX_PARAMETERS: Final = 1_000

CHANGES_ROWS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE_INTO"})
_READS: Final = frozenset({"SELECT", "VALUES", "TABLE"})
_WRITES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_STRUCTURE: Final = frozenset({"CREATE", "ALTER", "DROP"})
_OBJECTS: Final = frozenset({"TABLE", "INDEX", "VIEW", "SEQUENCE", "TYPE", "SCHEMA"})
_BEFORE_AN_OBJECT: Final = frozenset(
    {"OR", "REPLACE", "TEMP", "TEMPORARY", "LOCAL", "GLOBAL", "UNLOGGED", "UNIQUE", "RECURSIVE", "MATERIALIZED"}
)
_OF_COMMENTS: Final = _OBJECTS | {"COLUMN", "CONSTRAINT"}
_BEFORE_A_NAME: Final = frozenset({"IF", "NOT", "EXISTS", "ONLY", "CONCURRENTLY", "TABLE", "INTO", "FROM"})
_DESTROYING: Final = frozenset({"DELETE", "DROP", "TRUNCATE"})
_OF_SEVERAL: Final = frozenset({"DROP", "TRUNCATE"})
"""Statements that can name several objects."""
_BESIDE_THE_EMPTIED: Final = frozenset({"RESTART", "CONTINUE", "IDENTITY", "RESTRICT"})
_BESIDE_A_SCHEMA: Final = frozenset({"CREATE", "GRANT"})
_RUNS_IT: Final = frozenset({"ANALYZE", "ANALYSE"})

_TRANSACTION: Final = "Leave it out. All statements of a plan on one connection are already one transaction."
_TO_A_FILE: Final = "Leave it out. To save the rows of a SELECT to a file, name that file in `save_results_to`."
_ITSELF: Final = "Write the statement itself, with parameters: $name."
_PLAIN_ADVICE: Final = "Leave it out. A text may only read and change the tables of its database."
_ONLY_PLAIN_VALUES: Final = (
    "Use a string, a number, true, false or null. For several values, use one parameter for each."
)
_ADVICE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE"), _TRANSACTION),
    **dict.fromkeys(("PREPARE", "EXECUTE", "DEALLOCATE", "DECLARE", "FETCH", "MOVE", "CLOSE", "CALL", "DO"), _ITSELF),
    "COPY": _TO_A_FILE,
}
_NOT_FOR_PLANS: Final = frozenset(
    {"ANALYSE", "ANALYZE", "CHECKPOINT", "CLUSTER", "DISCARD", "GRANT", "IMPORT", "LISTEN", "LOAD", "LOCK", "NOTIFY"}
    | {"REASSIGN", "REFRESH", "REINDEX", "RESET", "REVOKE", "SECURITY", "SET", "SHOW", "UNLISTEN", "VACUUM"}
)
_KNOWN: Final = (
    "Start it with one of SELECT, INSERT, UPDATE, DELETE, MERGE, TRUNCATE, CREATE, ALTER, DROP, COMMENT, EXPLAIN, "
    "VALUES, TABLE or WITH."
)


class PostgresStatement(NamedTuple):
    """One statement of a text."""

    number: int
    """The number in the text, from 1."""
    kind: str
    text: str
    """The text that is sent: from the first to the last word, with $1, $2 ... for the parameters."""
    parameters: tuple[str, ...]
    """The names of the parameters, in the order of their numbers."""
    named: tuple[str, ...]
    """The tables or other objects that it changes, if its words name them."""
    is_read: bool
    """Whether it changes nothing according to its own words."""
    changes_structure: bool
    """Whether it creates, alters, drops or empties tables or other objects. Row images cannot restore these."""
    destroys: bool = False
    """Whether its words delete rows, columns or whole tables."""
    written: str = ""
    """The original text, with the names of its parameters."""
    empties: tuple[tuple[str, ...], ...] = ()
    """The tables that TRUNCATE names, each with its schema if it has one. Empty if it may empty other tables too."""
    about: str = ""
    """A description of the object if it has no name, such as `an index on orders`."""

    @property
    def called(self) -> str:
        """The name of the statement for people. A TRUNCATE has the kind DELETE, but is shown as TRUNCATE."""
        return "TRUNCATE" if self.text[:8].upper() == "TRUNCATE" else self.kind


def analyse(text: str) -> tuple[PostgresStatement, ...]:
    """Return all statements of a text.

    Raises:
        RefusedError: A statement is not allowed. The message has the number and the kind of the first one.
    """
    _require_readable(text)
    found = list(split(text))
    if not found:
        raise _refusal("the text has no statement", "Write at least one statement.")
    if len(found) > MAX_STATEMENTS:
        raise _refusal(
            f"the text has {len(found):,} statements, and {MAX_STATEMENTS} are the maximum",
            "Split it into several texts.",
        )
    return tuple(_analyse_one(number, text, tokens) for number, tokens in enumerate(found, start=1))


def bind(statements: Sequence[PostgresStatement], values: Mapping[str, Any]) -> None:
    """Check that each used parameter has a value, each value is used, and each one is a plain value.

    Raises:
        RefusedError: One of these conditions is not met.
    """
    used = {name for one in statements for name in one.parameters}
    for name in sorted(used - values.keys()):
        raise _refusal(f"the parameter {name!r} is used and has no value", "Add a value for it to `parameters`.")
    for name in sorted(values.keys() - used):
        raise _refusal(f"the parameter {name!r} has a value and is not used", f"Use it as ${name}, or leave it out.")
    for name, value in values.items():
        if not isinstance(value, str | int | float | None):  # a bool is an int
            raise _refusal(f"the value of the parameter {name!r} is a list or an object", _ONLY_PLAIN_VALUES)
        if isinstance(value, str) and "\0" in value:
            raise _refusal(
                f"the value of the parameter {name!r} has a NUL character",
                "Remove the character. The server cannot store it.",
            )


def values_of(one: PostgresStatement, values: Mapping[str, Any]) -> list[bytes | None]:
    """Return the values as they are sent, separate from the text. The server determines the type of each one."""
    return [_as_text(values[name]) for name in one.parameters]


def require_reading(statements: Sequence[PostgresStatement]) -> None:
    for one in statements:
        if not one.is_read:
            raise _statement_refusal(
                one.number, one.kind, "it may change the database, but this text may only read", "Leave it out."
            )


def _as_text(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return value.encode() if isinstance(value, str) else repr(value).encode()


def _require_readable(text: str) -> None:
    if "\0" in text:
        raise _refusal("the text has a NUL character, which could hide a statement after it", "Remove the character.")
    if len(text) > MAX_TEXT:
        raise _refusal(f"the text has more than {MAX_TEXT:,} characters", "Split it into several texts.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refusal("the text has half of a character (a lone surrogate)", "Save it as UTF-8.") from None


def _analyse_one(number: int, text: str, tokens: Sequence[PostgresToken]) -> PostgresStatement:
    kind = _kind_of(number, tokens)
    if (forbidden := find_forbidden(tokens)) is not None:
        name, why = forbidden
        raise _statement_refusal(number, kind, f"{name} {why}", INSTEAD.get(name, _PLAIN_ADVICE))
    sent, parameters = _numbered(number, kind, text, tokens)
    empties = tokens[0].word == "TRUNCATE"
    is_read = kind in ("SELECT", "EXPLAIN") and not _writes_within(tokens) and not calls(tokens, MOVES_A_SEQUENCE)
    return PostgresStatement(
        number=number,
        kind=kind,
        text=sent,
        parameters=parameters,
        named=_named(kind, tokens),
        is_read=is_read,
        changes_structure=kind in _STRUCTURE or empties,
        destroys=not is_read and _destroys(tokens),
        written=text[tokens[0].start : tokens[-1].end],
        empties=_emptied(tokens) if empties else (),
        about=_about(kind, tokens),
    )


# --- the kind of a statement -----------------------------------------------------------------------------------------


def _kind_of(number: int, tokens: Sequence[PostgresToken]) -> str:
    """Return SELECT, INSERT, UPDATE, DELETE, MERGE_INTO, CREATE, ALTER, DROP or EXPLAIN. Refuse any other kind."""
    first = next((token for token in tokens if token.text != "("), tokens[0])
    match first.word:
        case "SELECT" | "VALUES" | "TABLE":
            return "CREATE" if _makes_a_table(tokens) else "SELECT"
        case "WITH":
            return _kind_after_with(number, tokens)
        case _ if first is not tokens[0]:
            pass
        case "INSERT" | "UPDATE" | "DELETE":
            return first.word
        case "MERGE":
            return "MERGE_INTO"
        case "TRUNCATE":
            return "DELETE"
        case "CREATE" | "ALTER" | "DROP":
            return _kind_of_structure(number, first.word, tokens)
        case "COMMENT":
            _require_object(number, "COMMENT", tokens[1:], _OF_COMMENTS)
            return "ALTER"
        case "EXPLAIN":
            return _explain(number, tokens)
    raise _not_run(number, _printable_kind(first))


def _not_run(number: int, kind: str) -> RefusedError:
    if kind not in _ADVICE and kind not in _NOT_FOR_PLANS:
        return _statement_refusal(number, kind, "this kind of statement is unknown", _KNOWN)
    return _statement_refusal(number, kind, "statements of this kind are not allowed", _ADVICE.get(kind, _PLAIN_ADVICE))


def _printable_kind(token: PostgresToken) -> str:
    return token.word[:20] if token.word.isalpha() and token.word.isascii() else "UNKNOWN"


def _kind_after_with(number: int, tokens: Sequence[PostgresToken]) -> str:
    depth = 0
    for place, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and place and token.word in _READS:
            return "CREATE" if _makes_a_table(tokens) else "SELECT"
        if depth == 0 and place and token.word in _WRITES:
            return "MERGE_INTO" if token.word == "MERGE" else token.word
    if depth == 0 and any(token.word in _READS for token in tokens):  # WITH ... (SELECT ...)
        return "SELECT"
    raise _statement_refusal(
        number, "WITH", "it does not end with a statement", "Add a SELECT, INSERT, UPDATE, DELETE or MERGE."
    )


def _kind_of_structure(number: int, kind: str, tokens: Sequence[PostgresToken]) -> str:
    _require_object(number, kind, tokens, _OBJECTS)
    words = [token.word for token in tokens]
    if "CONCURRENTLY" in words[:6]:
        raise _statement_refusal(number, kind, "CONCURRENTLY cannot be undone if it fails", "Leave it out.")
    if "SCHEMA" in words[:2] and _BESIDE_A_SCHEMA & set(words[2:]):
        raise _statement_refusal(
            number, kind, "it creates more than a schema", "Write each part as a separate statement."
        )
    if "EXECUTE" in words:
        raise _statement_refusal(number, kind, "it runs a statement that is not in the text", _ITSELF)
    return kind


def _require_object(number: int, kind: str, tokens: Sequence[PostgresToken], known: frozenset[str]) -> None:
    """Refuse a statement about another kind of object than `known`, such as VIEW in CREATE OR REPLACE VIEW."""
    for token in tokens[1:]:
        if token.word in known:
            return
        if token.word not in _BEFORE_AN_OBJECT:
            what = f"it is about a {token.word[:20]}" if token.word else "it does not name a kind of object"
            raise _statement_refusal(
                number,
                kind,
                f"{what}, and a plan may change only tables, indexes, views, sequences, types and schemas",
                _PLAIN_ADVICE,
            )
    raise _statement_refusal(number, kind, "it does not name a kind of object", _PLAIN_ADVICE)


def explained(text: str) -> str:
    """Return the statement that an EXPLAIN explains. `analyse` has accepted the EXPLAIN before."""
    tokens = list(tokens_of(text))
    return text[tokens[_explained_from(tokens)].start :]


def _explained_from(tokens: Sequence[PostgresToken]) -> int:
    start = 1
    if len(tokens) > 2 and tokens[1].text == "(" and tokens[2].text != "(" and tokens[2].word not in (*_READS, "WITH"):
        return 1 + next((at for at, token in enumerate(tokens) if token.text == ")"), len(tokens))
    while start < len(tokens) and tokens[start].word in (*_RUNS_IT, "VERBOSE"):
        start += 1
    return start


def _explain(number: int, tokens: Sequence[PostgresToken]) -> str:
    """Check an EXPLAIN. Its statement must follow the same rules, although it does not run."""
    start = _explained_from(tokens)
    if any(token.name.upper() in _RUNS_IT for token in tokens[1:start]):
        raise _statement_refusal(
            number, "EXPLAIN", "with ANALYZE it runs the explained statement", "Leave out ANALYZE."
        )
    if start >= len(tokens):
        raise _statement_refusal(number, "EXPLAIN", "it has no statement to explain", "Leave it out.")
    if tokens[start].word == "EXPLAIN":
        raise _statement_refusal(number, "EXPLAIN", "it explains another EXPLAIN", "Leave it out.")
    _kind_of(number, tokens[start:])
    return "EXPLAIN"


def _makes_a_table(tokens: Sequence[PostgresToken]) -> bool:
    """Return whether a SELECT ... INTO creates a table."""
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.word == "INTO":
            return True
    return False


def _writes_within(tokens: Sequence[PostgresToken]) -> bool:
    """Return whether a part in parentheses writes, as in WITH x AS (DELETE ...). FOR UPDATE does not write."""
    return any(
        token.word in _WRITES and place > 1 and tokens[place - 1].text == "(" for place, token in enumerate(tokens)
    )


def _destroys(tokens: Sequence[PostgresToken]) -> bool:
    """Return whether a word deletes data. A column with such a name is reported too, to be safe."""
    return any(token.word in _DESTROYING for token in tokens)


# --- names and parameters --------------------------------------------------------------------------------------------


def _named(kind: str, tokens: Sequence[PostgresToken]) -> tuple[str, ...]:
    if kind in ("SELECT", "EXPLAIN") or tokens[0].word == "WITH":
        return ()
    if tokens[0].word == "SELECT":
        start = next(at for at, token in enumerate(tokens) if token.word == "INTO") + 1
    elif kind in _STRUCTURE:
        start = next((at + 1 for at, token in enumerate(tokens) if at and token.word in _OF_COMMENTS), len(tokens))
    else:
        start = 1
    if tokens[0].word in _OF_SEVERAL:
        return tuple(_plain_name(parts) for parts in _names_from(tokens, start)[0])
    if _is_nameless_index(tokens):
        start = next(at for at, token in enumerate(tokens) if token.word == "ON") + 1
    return tuple(_plain_name(parts) for parts in _names_from(tokens, start)[0][:1])


def _names_from(tokens: Sequence[PostgresToken], start: int) -> tuple[list[list[PostgresToken]], int]:
    """Return the comma-separated names from `start`, each with its schema if it has one, and the place after them."""
    names: list[list[PostgresToken]] = []
    while True:
        while start < len(tokens) and tokens[start].word in _BEFORE_A_NAME:
            start += 1
        parts: list[PostgresToken] = []
        while start < len(tokens):
            token = tokens[start]
            if token.text != "." and not (token.name and (not parts or parts[-1].text == ".")):
                break
            parts.append(token)
            start += 1
        if parts:
            names.append(parts)
        if not parts or start >= len(tokens) or tokens[start].text != ",":
            return names, start
        start += 1


def _plain_name(parts: Sequence[PostgresToken]) -> str:
    return "".join(part.name or part.text for part in parts)


def _emptied(tokens: Sequence[PostgresToken]) -> tuple[tuple[str, ...], ...]:
    """Return the tables that TRUNCATE names. Empty if it may empty further tables because of CASCADE."""
    names, end = _names_from(tokens, 1)
    if any(token.word not in _BESIDE_THE_EMPTIED for token in tokens[end:]):
        return ()
    return tuple(tuple(part.name for part in parts if part.name) for parts in names)


def _is_nameless_index(tokens: Sequence[PostgresToken]) -> bool:
    """Return whether the server chooses the name of the index, as in CREATE INDEX ON orders (id)."""
    words = [token.word for token in tokens[:4]]
    return tokens[0].word == "CREATE" and ("INDEX", "ON") in pairwise(words)


def _about(kind: str, tokens: Sequence[PostgresToken]) -> str:
    return f"an index on {', '.join(_named(kind, tokens))}" if _is_nameless_index(tokens) else ""


def _numbered(number: int, kind: str, text: str, tokens: Sequence[PostgresToken]) -> tuple[str, tuple[str, ...]]:
    """Return the text with $1, $2 ... for the named parameters, and their names."""
    names: dict[str, int] = {}
    pieces: list[str] = []
    at = tokens[0].start
    for token in tokens:
        if token.kind != "parameter":
            continue
        place = names.setdefault(token.text[1:], len(names) + 1)
        pieces.append(f"{text[at : token.start]}${place}")
        at = token.end
    if len(names) > MAX_PARAMETERS:
        raise _statement_refusal(number, kind, f"it has more than {MAX_PARAMETERS} parameters", "Use fewer parameters.")
    return "".join((*pieces, text[at : tokens[-1].end])), tuple(names)


# --- refusals --------------------------------------------------------------------------------------------------------


def _refusal(what: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.SQL_REFUSED, what, where="the SQL text", next_step=next_step)


def _statement_refusal(number: int, kind: str, what: str, next_step: str) -> RefusedError:
    return RefusedError(
        Reason.SQL_REFUSED, f"statement {number} ({kind}): {what}", where="the SQL text", next_step=next_step
    )
