"""Which tables a statement reads and writes, by the engine's own parser, which gives a SELECT as a tree.

A statement that changes rows may stand in a SELECT as a common table expression, so it is put into one to be looked at.
What the engine does not give as a tree (MERGE, most of CREATE) is not understood, and nobody guesses.
"""

import json
from typing import Any, Final, NamedTuple

from remit.effects.duckdb.instance import ENGINE

_RECURSIVE: Final = "RECURSIVE_CTE_NODE"
_READING: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", _RECURSIVE, "CTE_NODE"})
_WRITING: Final = frozenset({"INSERT_QUERY_NODE", "UPDATE_QUERY_NODE", "DELETE_QUERY_NODE"})
_TABLE: Final = "BASE_TABLE"
MAX_LOOKED_AT: Final = 64 << 10
"""Characters. A tree is a hundred times as large as a list of values."""


class Tables(NamedTuple):
    """What a statement touches, as it is written: a view is not resolved, and a name may stand for several."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    returns_rows: bool
    """Of a statement that changes rows: whether it says which."""
    foreign: str
    """What is in it that is neither reading nor one of the three that change rows, such as COPY."""


class _Found:
    """Collected on the way through a tree."""

    def __init__(self) -> None:
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.returns_rows = False
        self.foreign = ""

    def visit(self, node: dict[str, Any], kind: str, named: frozenset[str]) -> None:
        """`named` are the common table expressions that can be meant here."""
        if kind in _WRITING:
            self.writes[_target(node)] = None
            self.returns_rows = self.returns_rows or bool(node.get("returning_list"))
        elif kind == _TABLE:
            path = node["qualified_name"]["path"]
            if len(path) > 1 or path[0].lower() not in named:
                self.reads[_name(node)] = None
        elif kind.endswith("_NODE") and kind not in _READING:
            self.foreign = kind.removesuffix("_NODE").removesuffix("_QUERY")


def read_tables(text: str, *, changes_rows: bool) -> Tables | None:
    """One statement, SELECT or (`changes_rows`) INSERT, UPDATE, DELETE. None where there is no tree of it."""
    if len(text) > MAX_LOOKED_AT:
        return None
    # On lines of its own: the text may end in a comment.
    tree = _parse(f"WITH remit_looks_at AS (\n{text}\n) SELECT 1" if changes_rows else text)
    if tree is None:
        return None
    found = _Found()
    left: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while left:  # not by recursion: a text may be nested deeper than Python likes
        one, named = left.pop()
        if isinstance(one, list):
            left.extend((each, named) for each in reversed(one))
        if not isinstance(one, dict):
            continue
        kind = one.get("type")
        if isinstance(kind, str):
            found.visit(one, kind, named)
        left.extend(reversed(_within(one, named)))
    return Tables(tuple(found.reads), tuple(found.writes), found.returns_rows, found.foreign)


def _parse(text: str) -> dict[str, Any] | None:
    row = ENGINE.cursor().execute("SELECT json_serialize_sql(?)", [text]).fetchone()
    try:
        tree: dict[str, Any] = json.loads(row[0]) if row is not None else {"error": True}
    except RecursionError:
        return None
    return None if tree["error"] or len(tree["statements"]) != 1 else tree


def _within(node: dict[str, Any], named: frozenset[str]) -> list[tuple[Any, frozenset[str]]]:
    """What is in it, with the names that can be meant there: an expression knows those before it, itself only if it
    is recursive, and the rest of the statement knows all.
    """
    inner: list[tuple[Any, frozenset[str]]] = []
    for entry in (node.get("cte_map") or {}).get("map", ()):
        name, value = str(entry["key"]).lower(), entry["value"]
        recursive = {name} if (value.get("query_node") or {}).get("type") == _RECURSIVE else set()
        inner.append((value, named | recursive))
        named |= {name}
    # The table that is written to is not one that is read.
    kind = node.get("type")  # of some parts, such as a sample, it is no word
    left_out = ("cte_map", "table") if isinstance(kind, str) and kind in _WRITING else ("cte_map",)
    return [*inner, *((value, named) for key, value in node.items() if key not in left_out)]


def _target(node: dict[str, Any]) -> str:
    table = node.get("table")
    return _name(table) if isinstance(table, dict) else _name(node)


def _name(node: dict[str, Any]) -> str:
    return ".".join(node["qualified_name"]["path"])
