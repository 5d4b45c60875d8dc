"""What the server has understood of a statement or an expression: its parse tree, as the catalog prints it. Pure.

The server keeps such trees of views, defaults, checks and the like. Strings and names in them are escaped, so what
looks like a field is one. A number that could be an object of a user's is taken for one: at worst something is looked
at that the tree is not about.
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
"""The number that stands for column 1 in a set of columns; below it are columns of the server's own."""
_RIGHT_TO_INSERT: Final = 1
_ROW_EXCLUSIVE: Final = 3
_ROW_SHARE: Final = 2
_INSERT, _MERGE = "3", "5"


class UnknownTreeError(Exception):
    """The tree is not of the form that is known: a newer server."""


class Tree(NamedTuple):
    """The objects that a tree names, by their numbers."""

    built_in: frozenset[int]
    """Functions of the server."""
    of_users: frozenset[int]
    """Functions, operators, types and tables; which of them, the catalog tells."""
    relations: frozenset[int]
    targets: frozenset[int]
    """Relations that it writes to."""
    locked: frozenset[int]
    """Relations whose rows it locks, by FOR UPDATE and the like."""
    inserts: bool
    """Whether defaults of columns may be asked for."""
    inserted: dict[int, frozenset[int]]
    """By relation: the columns that an INSERT gives itself."""
    nextval: int
    """How often a sequence is asked for a number."""
    nextval_of_unknown: bool
    """Whether one of them is not named by a constant."""
    makes_json: bool
    """Whether it makes JSON of values by itself: JSON_OBJECT and the like, from PostgreSQL 16 on."""


def parse_tree(text: str) -> Tree:
    """UnknownTreeError if it cannot be read."""
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
    """Of two INSERTs into one relation, only the columns that both give."""
    found: dict[int, frozenset[int]] = {}
    for oid, rights, columns in _INSERTED.findall(text):
        if int(rights) & _RIGHT_TO_INSERT:
            inserted = frozenset(int(number) - _FIRST_COLUMN + 1 for number in columns.split())
            found[int(oid)] = found.get(int(oid), inserted) & inserted
    return found
