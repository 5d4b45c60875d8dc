"""Values of SQL that their place says to be secrets: a column's in an INSERT, one that is called so, a default.

    INSERT INTO users (name, password) VALUES ('ada', '...')
    INSERT INTO users (name, password) SELECT 'ada', '...'
    UPDATE users SET (name, password) = ('ada', '...')
    SELECT '...' AS password
    ALTER TABLE users ALTER COLUMN password SET DEFAULT '...'

Only a literal that stands alone in its place: what is part of an expression stays, and so does all in doubt.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from remit.masking.field_names import kind_of_name


class Token(NamedTuple):
    kind: str
    text: str


REMARKS: Final = frozenset({"remark", "block"})
_LITERALS: Final = frozenset({"string", "escaped", "dollar", "number"})
_NAMES: Final = frozenset({"word", "name"})
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_BEFORE_A_VALUE: Final = frozenset({"(", ",", "select", "all", "distinct"})
_AFTER_A_VALUE: Final = frozenset({",", ")", ";", ":", "from"})
"""A colon begins its type."""
_BETWEEN_ROWS: Final = frozenset({"(", ","})
_BEFORE_ROWS: Final = frozenset({"values", "select", "="})
_AFTER_A_SELECT: Final = frozenset(
    {"except", "from", "group", "having", "intersect", "limit", "on", "order", "returning", "union", "where"}
    | {";", "*", "columns"}
)
_BEFORE_A_COLUMN: Final = frozenset({"(", ",", ";", "add", "alter", "column", "exists"})
_WITHIN_A_COLUMN: Final = 40
"""Tokens, at most, from the name of a column to its default."""


class _At(NamedTuple):
    """A token that is no space and no comment, and its place in the statement."""

    place: int
    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.lower() if self.kind != "name" else ""

    @property
    def is_secret(self) -> bool:
        name = self.text[1:-1] if self.kind == "name" else self.text
        return self.kind in _NAMES and kind_of_name(name) is not None


_END: Final = _At(-1, "mark", ";")


def named_by_place(tokens: Sequence[Token]) -> frozenset[int]:
    """The places, among the tokens, of the literals that are secrets."""
    told = [
        _At(place, token.kind, token.text)
        for place, token in enumerate(tokens)
        if token.kind not in REMARKS and not token.text.isspace()
    ]
    told = [_END, *told, _END, _END]
    return frozenset((*_in_rows(told), *_called(told), *_defaults(told)))


# --- in rows ---------------------------------------------------------------------------------------------------------


def _in_rows(told: Sequence[_At]) -> Iterator[int]:
    done = 0  # rows within rows are not looked into: each token is read once, whatever is opened and not closed
    for at, one in enumerate(told):
        if at < done or one.word not in _BEFORE_ROWS or not (columns := _columns_before(told, at)):
            continue
        if one.word == "select":
            cells = _selected(told, at + 1, columns)
        else:
            first = at + 2 if told[at + 1].word == "row" else at + 1
            cells = _secret_cells(told, first, columns, rows=one.word == "values")
        yield from cells.secret
        done = cells.end


def _columns_before(told: Sequence[_At], at: int) -> list[bool]:
    """Whether each column is a secret, in the list of names that ends here; none, if it is no such list."""
    names: list[bool] = []
    at = _after_list(told, at)
    if told[at].text != ")":
        return []
    while at >= 2 and told[at].text in {")", ","} and told[at - 1].kind in _NAMES:
        names.append(told[at - 1].is_secret)
        at -= 2
    return names[::-1] if told[at].text == "(" and any(names) else []


def _after_list(told: Sequence[_At], at: int) -> int:
    """Back over what may stand between a list of columns and their values: `OVERRIDING USER VALUE`, `AS (`."""
    words = [one.word for one in told[max(at - 4, 0) : at]]
    if words[-3:-2] == ["overriding"]:
        return at - 4
    if words[-1:] == ["("]:
        used = 1 + next((n for n in (2, 1) if words[-1 - n : -1] in (["not", "materialized"], ["materialized"])), 0)
        if words[-1 - used : len(words) - used] == ["as"]:
            return at - 2 - used
    return at - 1


class _Cells(NamedTuple):
    secret: list[int]
    end: int


def _secret_cells(told: Sequence[_At], at: int, columns: Sequence[bool], *, rows: bool) -> _Cells:
    """Of the rows from here on, or of the one that begins here."""
    secret: list[int] = []
    depth = column = 0
    while at < len(told) and (depth > 0 or told[at].text in _BETWEEN_ROWS):
        one = told[at]
        if one.text in _OPENING:
            depth, column = depth + 1, 0 if depth == 0 else column
        elif one.text in _CLOSING:
            depth -= 1
            if depth == 0 and not rows:
                break
        elif one.text == "," and depth == 1:
            column += 1
        elif depth == 1 and column < len(columns) and columns[column] and _is_alone(told, at):
            secret.append(one.place)
        at += 1
    return _Cells(secret, at)


def _selected(told: Sequence[_At], at: int, columns: Sequence[bool]) -> _Cells:
    """Up to a star: how many columns that stands for nobody can tell here."""
    secret: list[int] = []
    depth = column = 0
    while at < len(told) and depth >= 0 and not (depth == 0 and told[at].word in _AFTER_A_SELECT):
        one = told[at]
        if one.text in _OPENING:
            depth += 1
        elif one.text in _CLOSING:
            depth -= 1
        elif one.text == "," and depth == 0:
            column += 1
        elif depth == 0 and column < len(columns) and columns[column] and _is_alone(told, at):
            secret.append(one.place)
        at += 1
    return _Cells(secret, at)


def _is_alone(told: Sequence[_At], at: int) -> bool:
    one, before, after = told[at], told[at - 1], told[at + 1]
    return one.kind in _LITERALS and before.word in _BEFORE_A_VALUE and after.word in _AFTER_A_VALUE


# --- by a name after it, or before its default -----------------------------------------------------------------------


def _called(told: Sequence[_At]) -> Iterator[int]:
    """`'...' AS password`"""
    for before, one, word, name in zip(told, told[1:], told[2:], told[3:], strict=False):
        if one.kind in _LITERALS and before.word in _BEFORE_A_VALUE and word.word == "as" and name.is_secret:
            yield one.place


def _defaults(told: Sequence[_At]) -> Iterator[int]:
    """`password SET DEFAULT '...'`; and `password VARCHAR(20) NOT NULL DEFAULT '...'`, of a new column."""
    for at, one in enumerate(told[:-1]):
        if one.word == "default" and told[at + 1].kind in _LITERALS and _column_of(told, at).is_secret:
            yield told[at + 1].place


def _column_of(told: Sequence[_At], at: int) -> _At:
    """The first name of the part that this stands in."""
    depth = 0
    for place in range(at - 1, max(at - _WITHIN_A_COLUMN, 0), -1):
        one = told[place]
        if depth == 0 and told[place - 1].word in _BEFORE_A_COLUMN and one.word not in _BEFORE_A_COLUMN:
            return one
        depth += 1 if one.text in _CLOSING else -1 if one.text in _OPENING else 0
    return _END
