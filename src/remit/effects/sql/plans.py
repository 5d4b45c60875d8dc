"""Which tables a statement really reads: the engine's plan for it, made in the database, before anything is optimised.

Views and macros are resolved there, and what earlier statements made is known.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import duckdb

PLANNED: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE_INTO", "CREATE"})

_FIRST: Final = "logical_plan"
_PART: Final = re.compile(r'"(?:[^"]|"")*"|[^."]+')


def tables_read(engine: duckdb.DuckDBPyConnection, text: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """In the order of the plan, each once. The connection must show all plans (`explain_output`)."""
    shown = engine.execute(f"EXPLAIN (FORMAT json) {text}", dict(values)).fetchall()
    plan: Any = next((json.loads(told) for key, told in shown if key == _FIRST), [])
    return tuple(dict.fromkeys(_name(table) for table in _tables(plan)))


def _tables(plan: Any) -> Iterator[str]:
    left = [plan]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left.extend(reversed(one))
            continue
        table = one.get("extra_info", {}).get("Table")
        if isinstance(table, str):
            yield table
        left.append(one.get("children", []))


def _name(table: str) -> str:
    """Without the database, and without the schema that is meant if none is named."""
    parts = [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in _PART.findall(table)]
    if len(parts) == 3:
        parts = ["temp", *parts[2:]] if parts[0] == "temp" else parts[1:]
    return ".".join(parts[1:] if parts[0] == "main" else parts)
