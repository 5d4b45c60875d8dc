"""Finds the tables that a statement reads and writes, from the syntax tree of the engine's own parser.

The parser returns trees of SELECT only. A statement that changes rows may be a common table expression of a SELECT, so
it is parsed as one. For other statements (MERGE, most of CREATE) there is no tree, and the tables are unknown.
"""

import json
from typing import Any, Final, NamedTuple

from remit.effects.duckdb.instance import ENGINE

_RECURSIVE: Final = "RECURSIVE_CTE_NODE"
_READING: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", _RECURSIVE, "CTE_NODE"})
_WRITING: Final = frozenset({"INSERT_QUERY_NODE", "UPDATE_QUERY_NODE", "DELETE_QUERY_NODE"})
_TABLE: Final = "BASE_TABLE"
MAX_LOOKED_AT: Final = 64 << 10
"""The limit of a text, in characters. The tree of a list of values is a hundred times as large as the list."""


class Tables(NamedTuple):
    """The tables of a statement as they are written. Views are not resolved, and a name may fit several tables."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    returns_rows: bool
    """Whether a statement that changes rows has RETURNING."""
    foreign: str
    """A part that is neither a read nor an INSERT, UPDATE or DELETE, such as COPY."""


class _Found:
    """The tables found so far in a tree."""

    def __init__(self) -> None:
        self.reads: dict[str, None] = {}
        self.writes: dict[str, None] = {}
        self.returns_rows = False
        self.foreign = ""

    def visit(self, node: dict[str, Any], kind: str, named: frozenset[str]) -> None:
        """Add one node. `named` are the common table expressions that are visible here."""
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
    """Read one statement: a SELECT or, with `changes_rows`, an INSERT, UPDATE or DELETE. None if it has no tree."""
    if len(text) > MAX_LOOKED_AT:
        return None
    # The text has lines of its own, because it may end in a comment.
    tree = _parse(f"WITH remit_looks_at AS (\n{text}\n) SELECT 1" if changes_rows else text)
    if tree is None:
        return None
    found = _Found()
    left: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while left:  # without recursion, because a text may be nested deeper than Python allows
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
    """Return the parts of a node, each with the common table expressions that are visible there.

    An expression sees those before it, and itself only if it is recursive. The rest of the statement sees all.
    """
    inner: list[tuple[Any, frozenset[str]]] = []
    for entry in (node.get("cte_map") or {}).get("map", ()):
        name, value = str(entry["key"]).lower(), entry["value"]
        recursive = {name} if (value.get("query_node") or {}).get("type") == _RECURSIVE else set()
        inner.append((value, named | recursive))
        named |= {name}
    # The table that is written is left out: it is not read.
    kind = node.get("type")  # for some parts, such as a sample, it is not a string
    left_out = ("cte_map", "table") if isinstance(kind, str) and kind in _WRITING else ("cte_map",)
    return [*inner, *((value, named) for key, value in node.items() if key not in left_out)]


def _target(node: dict[str, Any]) -> str:
    table = node.get("table")
    return _name(table) if isinstance(table, dict) else _name(node)


def _name(node: dict[str, Any]) -> str:
    return ".".join(node["qualified_name"]["path"])
