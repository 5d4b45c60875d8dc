"""Finds the tables that a statement reads, from the engine's query plan before optimisation.

The engine makes the plan in the database. So it resolves views and macros, and knows the objects that earlier
statements made. A forbidden function is found also behind a view of the database.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import duckdb

from remit.effects.duckdb.denylist import why_forbidden

PLANNED: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE"})

_FIRST: Final = "logical_plan"
_PART: Final = re.compile(r'"(?:[^"]|"")*"|[^."]+')


class Planned(NamedTuple):
    tables: tuple[str, ...]
    """The tables in the order of the query plan, each once."""
    forbidden: tuple[str, str] | None
    """The name of the first forbidden function, and the reason."""


def read_query_plan(engine: duckdb.DuckDBPyConnection, text: str, values: Mapping[str, Any]) -> Planned:
    """Read the query plan of a statement. The connection must be set to show all plans (`explain_output`)."""
    shown = engine.execute(f"EXPLAIN (FORMAT json) {text}", dict(values)).fetchall()
    plan: Any = next((json.loads(message) for key, message in shown if key == _FIRST), [])
    nodes = list(_nodes(plan))
    tables = [table for one in nodes if isinstance(table := one.get("extra_info", {}).get("Table"), str)]
    names = [str(one.get("name", "")).strip().lower() for one in nodes]
    forbidden = next(((name, why) for name in names if (why := why_forbidden(name, is_of_a_plan=True))), None)
    return Planned(tuple(dict.fromkeys(map(_name, tables))), forbidden)


def _nodes(plan: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all nodes of the plan. A node that is a table function has the name of the function."""
    left = [plan]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left.extend(reversed(one))
            continue
        yield one
        left.append(one.get("children", []))


def _name(table: str) -> str:
    """Return the name of a table without the database, and without the default schema."""
    parts = [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in _PART.findall(table)]
    if len(parts) == 3:
        parts = ["temp", *parts[2:]] if parts[0] == "temp" else parts[1:]
    return ".".join(parts[1:] if parts[0] == "main" else parts)
