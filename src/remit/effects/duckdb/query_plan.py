"""Which tables a statement really reads: the engine's plan for it, made in the database, before anything is optimised.

Views and macros are resolved there, and what earlier statements made is known: so a function that no text may call is
found behind a view of the database, too.
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
    """In the order of the plan, each once."""
    forbidden: tuple[str, str] | None
    """The first function that no statement may call, by name, and why."""


def read_query_plan(engine: duckdb.DuckDBPyConnection, text: str, values: Mapping[str, Any]) -> Planned:
    """The connection must show all plans (`explain_output`)."""
    shown = engine.execute(f"EXPLAIN (FORMAT json) {text}", dict(values)).fetchall()
    plan: Any = next((json.loads(message) for key, message in shown if key == _FIRST), [])
    nodes = list(_nodes(plan))
    tables = [table for one in nodes if isinstance(table := one.get("extra_info", {}).get("Table"), str)]
    names = [str(one.get("name", "")).strip().lower() for one in nodes]
    forbidden = next(((name, why) for name in names if (why := why_forbidden(name, is_of_a_plan=True))), None)
    return Planned(tuple(dict.fromkeys(map(_name, tables))), forbidden)


def _nodes(plan: Any) -> Iterator[Mapping[str, Any]]:
    """A function that gives rows is one by its name."""
    left = [plan]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left.extend(reversed(one))
            continue
        yield one
        left.append(one.get("children", []))


def _name(table: str) -> str:
    """Without the database, and without the schema that is meant if none is named."""
    parts = [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in _PART.findall(table)]
    if len(parts) == 3:
        parts = ["temp", *parts[2:]] if parts[0] == "temp" else parts[1:]
    return ".".join(parts[1:] if parts[0] == "main" else parts)
