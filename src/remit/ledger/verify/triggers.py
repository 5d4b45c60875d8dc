"""Checks that the triggers that make the tables append-only are present, unchanged, enabled, and the only ones.

On SQLite the text of a trigger is compared with the shipped one. PostgreSQL keeps a parsed form. There the table, the
events, the level and the function are compared, and the function's source, language and search path.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from remit.store.connection import Connection
from remit.store.migrations_runner import shipped_migrations

_TRIGGER: Final = re.compile(
    r"CREATE TRIGGER (?P<name>\w+) BEFORE (?P<events>\w+(?: OR \w+)*) ON (?P<table>\w+)"
    r"(?:\s+FOR EACH (?P<level>ROW|STATEMENT) EXECUTE FUNCTION (?P<function>\w+)\(\))?"
)
_FUNCTION: Final = re.compile(r"CREATE FUNCTION (?P<name>\w+)\(\).*? AS \$\$(?P<source>.*)\$\$", re.DOTALL)
_TABLE: Final = re.compile(r"CREATE TABLE (\w+)")

# PostgreSQL's bits in pg_trigger.tgtype.
_ROW, _BEFORE = 1, 2
_EVENT_BITS: Final = {"INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}

_PRESENT_SQLITE: Final = "SELECT tbl_name, name, sql FROM sqlite_master WHERE type = 'trigger'"
_PRESENT_POSTGRESQL: Final = """SELECT c.relname, t.tgname, t.tgtype, t.tgenabled, t.tgqual IS NULL, p.proname,
    p.prosrc, p.proconfig = ARRAY['search_path=' || quote_ident(n.nspname) || ', pg_temp'] AND l.lanname = 'plpgsql'
    AND p.pronamespace = n.oid
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_language l ON l.oid = p.prolang
  WHERE n.nspname = current_schema() AND NOT t.tgisinternal"""
_RULES_POSTGRESQL: Final = "SELECT tablename, rulename FROM pg_rules WHERE schemaname = current_schema()"


@dataclass(frozen=True, slots=True)
class _Guards:
    """Trigger definitions by (table, name), in a comparable form."""

    shipped: dict[tuple[str, str], object]
    present: dict[tuple[str, str], object]
    tables: frozenset[str]


def missing_guards(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield (table, trigger) for each trigger that was dropped, changed or disabled."""
    guards = _read(connection)
    yield from (place for place, shape in guards.shipped.items() if guards.present.get(place) != shape)


def foreign_triggers(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield (table, trigger) for each foreign trigger on our tables. It could drop or copy what is written."""
    guards = _read(connection)
    yield from (place for place in guards.present if place not in guards.shipped and place[0] in guards.tables)


def _read(connection: Connection) -> _Guards:
    statements = [one for migration in shipped_migrations(connection.dialect) for one in migration.statements]
    tables = frozenset(match[1] for one in statements if (match := _TABLE.search(one)))
    if connection.dialect == "sqlite":
        return _Guards(_shipped_sqlite(statements), _present_sqlite(connection), tables)
    return _Guards(_shipped_postgresql(statements), _present_postgresql(connection), tables)


def _shipped_sqlite(statements: list[str]) -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {}
    for statement in statements:
        if match := _TRIGGER.search(statement):
            found[match["table"], match["name"]] = statement[match.start() :].strip()
    return found


def _present_sqlite(connection: Connection) -> dict[tuple[str, str], object]:
    return {(table, name): text for table, name, text in connection.rows(_PRESENT_SQLITE)}


def _shipped_postgresql(statements: list[str]) -> dict[tuple[str, str], object]:
    sources = {match["name"]: match["source"] for one in statements if (match := _FUNCTION.search(one))}
    found: dict[tuple[str, str], object] = {}
    for statement in statements:
        if match := _TRIGGER.search(statement):
            bits = _BEFORE | (_ROW if match["level"] == "ROW" else 0)
            for event in match["events"].split(" OR "):
                bits |= _EVENT_BITS[event]
            function = match["function"]
            found[match["table"], match["name"]] = (bits, True, True, function, sources[function], True)
    return found


def _present_postgresql(connection: Connection) -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {}
    for table, name, bits, enabled, always, function, source, sound in connection.rows(_PRESENT_POSTGRESQL):
        found[table, name] = (bits, enabled in {"O", "A"}, always, function, source, sound)
    for table, rule in connection.rows(_RULES_POSTGRESQL):
        found[table, rule] = "a rewrite rule"
    return found
