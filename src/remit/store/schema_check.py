"""The check that the tables are those that the migrations make: columns, types, keys, checks, indexes, row security.

Each part has a name and a definition, as the database's catalogue gives it. For SQLite the expected ones are read from
an empty database in memory, right after the migrations. For PostgreSQL they are in a file beside this module, taken
from a fresh schema. `remit.ledger.verify.triggers` compares the triggers. Limit: the catalogue is trusted. A person who
can forge it on a PostgreSQL server controls the server.
"""

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Final

from remit.store.connection import Connection, Dialect
from remit.store.migrations_runner import CREATE_HISTORY, shipped_migrations

Shape = dict[str, str]
SHIPPED_POSTGRESQL: Final = "shape.postgresql.json"

_SQLITE: Final = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE type <> 'trigger'"

_TABLE: Final = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)")
_OURS: Final = (
    "c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = current_schema()) AND c.relname = ANY(?)"
)
# One row for each part: its name and its definition.
_POSTGRESQL: Final = (
    f"""SELECT 'table ' || c.relname, concat_ws(' ', c.relkind, c.relpersistence,
      CASE WHEN c.relrowsecurity OR c.relforcerowsecurity THEN 'row security' END,
      CASE WHEN EXISTS (SELECT 1 FROM pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent)) THEN 'inherits' END)
    FROM pg_class c WHERE {_OURS}""",
    f"""SELECT 'column ' || c.relname || '.' || a.attname, concat_ws(' ', format_type(a.atttypid, a.atttypmod),
      CASE WHEN a.attnotnull THEN 'not null' END, (SELECT collname FROM pg_collation o WHERE o.oid = a.attcollation),
      nullif(a.attidentity::text, ''), nullif(a.attgenerated::text, ''), pg_get_expr(d.adbin, d.adrelid))
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE {_OURS}""",
    # Not the kinds n and t. Newer servers list `not null` here too, and a trigger is a guard.
    f"""SELECT 'constraint ' || c.relname || '.' || k.conname, concat_ws(' ', pg_get_constraintdef(k.oid),
      CASE WHEN NOT k.convalidated THEN 'not valid' END)
    FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype NOT IN ('n', 't') WHERE {_OURS}""",
    f"""SELECT 'index ' || c.relname || '.' || x.relname,
      concat_ws(' ', replace(pg_get_indexdef(i.indexrelid), quote_ident(current_schema()) || '.', ''),
      CASE WHEN NOT (i.indisvalid AND i.indisready AND i.indislive) THEN 'unusable' END)
    FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid JOIN pg_class x ON x.oid = i.indexrelid WHERE {_OURS}""",
    f"""SELECT 'policy ' || c.relname || '.' || p.polname, 'a policy' FROM pg_class c
      JOIN pg_policy p ON p.polrelid = c.oid WHERE {_OURS}""",
)


def schema_changes(connection: Connection) -> Iterator[str]:
    """Report the differences from the shipped tables, part by part."""
    shipped, present = shipped_shape(connection.dialect), present_shape(connection)
    for name in sorted({*shipped, *present}):
        if name not in present:
            yield f"{name} is missing"
        elif name not in shipped:
            yield f"{name} was not made by Remit"
        elif _comparable(shipped[name], connection.dialect) != _comparable(present[name], connection.dialect):
            yield f"{name} was changed"


def present_shape(connection: Connection) -> Shape:
    if connection.dialect == "sqlite":
        return _by_name(connection.rows(_SQLITE))
    found: Shape = {}
    for query in _POSTGRESQL:
        found.update(connection.rows(query, (sorted(tables("postgresql")),)))
    return found


@cache
def shipped_shape(dialect: Dialect) -> Shape:
    if dialect == "sqlite":
        with contextlib.closing(sqlite3.connect(":memory:")) as scratch:
            for statement in _statements(dialect):
                scratch.execute(statement)
            return _by_name(scratch.execute(_SQLITE))
    text = resources.files("remit.store").joinpath(SHIPPED_POSTGRESQL).read_text("utf-8")
    shape: Shape = json.loads(text)
    return shape


@cache
def tables(dialect: Dialect) -> frozenset[str]:
    """Return the names of all tables that Remit makes, including the table of migrations."""
    return frozenset(match[1] for one in _statements(dialect) if (match := _TABLE.search(one)))


def _statements(dialect: Dialect) -> list[str]:
    return [CREATE_HISTORY, *(one for migration in shipped_migrations(dialect) for one in migration.statements)]


def _by_name(rows: Iterator[tuple[str, str, str, str | None]]) -> Shape:
    """Index every object in the file.

    The file is Remit's alone, and an extra view or table could replace a real one.
    """
    return {
        f"{kind} {name}" if kind in {"table", "view"} else f"{kind} {table}.{name}": definition or ""
        for kind, name, table, definition in rows
        if not name.startswith("sqlite_stat")  # made by ANALYZE
    }


def _comparable(definition: str, dialect: Dialect) -> str:
    """Prepare a definition for comparing. PostgreSQL's number of blanks and brackets depends on its version."""
    return definition if dialect == "sqlite" else re.sub(r"[\s()]+", "", definition)
