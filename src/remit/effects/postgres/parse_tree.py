"""Reads the server's parse tree of a statement or an expression, as the catalog prints it. Pure.

The server stores such trees for views, defaults, checks and similar objects. It escapes strings and names in them, so a
text cannot look like a field. Each number that could be an object of a user is treated as one. At worst, the search
then inspects an object that the tree does not use.
"""

import re
from typing import Final, NamedTuple

from remit.effects.postgres.function_allowlist import FIRST_OF_USERS, NEXTVAL

_CALLED: Final = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid|tsmhandler|hashfuncid|negfuncid) (\d+)")
_RELATION: Final = re.compile(r":rtekind 0 :relid (\d+) (?::inh \w+ )?:relkind (\S+) :rellockmode (\d+)")
_PLAIN: Final = re.compile(r":rtekind 0 ")
_INSERTED: Final = re.compile(r":relid (\d+) [^{}]*?:requiredPerms (\d+) [^{}]*?:insertedCols \(b([ \d]*)\)")
_NO_OBJECT: Final = re.compile(
    r":(?:location|stmt_location|stmt_len|name_location|args_location|\w*typmod|constlen|resno|varno|rtindex) -?\d+"
)
_VALUE: Final = re.compile(r":constvalue \d+ \[[ \d-]*\]")
_NUMBER: Final = re.compile(r"(?<![\w.\\-])\d{5,10}(?![\w.\\])")
_COMMAND: Final = re.compile(r":commandType (\d)")
_NEXTVAL: Final = re.compile(rf":funcid {NEXTVAL} ")
_NEXTVAL_OF_ONE: Final = re.compile(rf":funcid {NEXTVAL} [^{{}}]*:args \(\{{CONST :consttype 2205 ")
_FIRST_COLUMN: Final = 8
"""The number of column 1 in a set of columns. Lower numbers are system columns."""
_RIGHT_TO_INSERT: Final = 1
_ROW_EXCLUSIVE: Final = 3
_ROW_SHARE: Final = 2
_INSERT, _MERGE = "3", "5"


class UnknownTreeError(Exception):
    """The tree has an unknown form, as of a newer server."""


class Tree(NamedTuple):
    """The objects that a tree names, by their numbers, and some of its properties."""

    built_in: frozenset[int]
    """Functions of the server."""
    of_users: frozenset[int]
    """Functions, operators, types and tables of users. The catalog shows the kind of each one."""
    relations: frozenset[int]
    targets: frozenset[int]
    """Relations that it writes to."""
    locked: frozenset[int]
    """Relations whose rows it locks, by FOR UPDATE and the like."""
    inserts: bool
    """Whether it may use defaults of columns."""
    inserted: dict[int, frozenset[int]]
    """By relation: the columns that an INSERT gives a value."""
    nextval: int
    """The number of calls of nextval."""
    nextval_of_unknown: bool
    """Whether one of these calls does not name its sequence by a constant."""
    makes_json: bool
    """Whether it converts values to JSON by a construct such as JSON_OBJECT, which PostgreSQL has since version 16."""


def parse_tree(text: str) -> Tree:
    """Parse a tree. Raises `UnknownTreeError` if it has an unknown form."""
    relations = [(int(oid), int(mode)) for oid, _, mode in _RELATION.findall(text)]
    if len(relations) != len(_PLAIN.findall(text)):
        raise UnknownTreeError
    bare = _NO_OBJECT.sub("", _VALUE.sub("", text))
    numbers = frozenset(int(number) for number in _NUMBER.findall(bare))
    called = frozenset(int(number) for number in _CALLED.findall(text))
    sets_default = "{SETTODEFAULT " in text
    commands = set(_COMMAND.findall(text))
    is_sure = not sets_default and ":override 1" not in text and _MERGE not in commands
    nextval = len(_NEXTVAL.findall(text))
    return Tree(
        built_in=frozenset(oid for oid in called if 0 < oid < FIRST_OF_USERS),
        of_users=frozenset(oid for oid in numbers | called if FIRST_OF_USERS <= oid < 1 << 32),
        relations=frozenset(oid for oid, _ in relations),
        targets=frozenset(oid for oid, mode in relations if mode == _ROW_EXCLUSIVE),
        locked=frozenset(oid for oid, mode in relations if mode == _ROW_SHARE),
        inserts=sets_default or bool({_INSERT, _MERGE} & commands),
        inserted=_inserted_columns(text) if is_sure else {},
        nextval=nextval,
        nextval_of_unknown=len(_NEXTVAL_OF_ONE.findall(text)) != nextval,
        makes_json="{JSONCONSTRUCTOREXPR " in text or "{JSONEXPR " in text,
    )


def _inserted_columns(text: str) -> dict[int, frozenset[int]]:
    """Return the inserted columns by relation. Of two INSERTs into a relation, only columns of both are included."""
    found: dict[int, frozenset[int]] = {}
    for oid, rights, columns in _INSERTED.findall(text):
        if int(rights) & _RIGHT_TO_INSERT:
            inserted = frozenset(int(number) - _FIRST_COLUMN + 1 for number in columns.split())
            found[int(oid)] = found.get(int(oid), inserted) & inserted
    return found
