"""The facts about a table, and whether images of its rows can be captured, or the reason why not."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.effects.postgres.libpq import PostgresWire, quoted_name

_FACTS: Final = """
SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, pg_has_role(c.relowner, 'USAGE'),
  c.relrowsecurity, EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal),
  EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid AND c.relkind = 'r'),
  c.relispartition OR EXISTS (SELECT FROM pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent)),
  (SELECT json_agg(a.attname ORDER BY k.place) FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, place),
    pg_attribute a WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid AND a.attnum = k.number),
  (SELECT json_agg(json_build_array(a.attname, format_type(a.atttypid, a.atttypmod), a.attidentity, a.attgenerated,
      t.typnamespace = 'pg_catalog'::regnamespace) ORDER BY a.attnum)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'),
  (SELECT min(format_type(a.atttypid, a.atttypmod)) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    JOIN pg_cast k ON k.casttarget = CASE WHEN t.typbasetype = 0 THEN t.oid ELSE t.typbasetype END
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    AND k.castsource = 'text'::regtype AND k.castmethod = 'f' AND k.oid >= 16384)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY ($1::oid[])
"""
"""The last column is a type that a user's function converts from text. Such a conversion may not restore the value."""
_BY_NAME: Final = """
SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
"""
_REFERENCES: Final = """
SELECT conrelid, confrelid FROM pg_constraint
WHERE contype = 'f' AND conrelid = ANY ($1::oid[]) AND confrelid = ANY ($1::oid[]) AND conrelid <> confrelid
"""
_CAN_CAPTURE: Final = """
SELECT has_database_privilege(current_database(), 'TEMP'),
  EXISTS (SELECT FROM pg_language l WHERE l.lanname = 'plpgsql' AND has_language_privilege(l.oid, 'USAGE')),
  EXISTS (SELECT FROM pg_event_trigger WHERE evtenabled <> 'D' AND evtevent IN ('ddl_command_start',
    'ddl_command_end', 'sql_drop') AND (evttags IS NULL OR evttags && ARRAY['CREATE TABLE', 'CREATE FUNCTION',
    'CREATE TRIGGER', 'DROP TRIGGER', 'DROP FUNCTION']))
"""


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: str
    """The type as it is written in SQL, with its schema if it is not in the catalog."""
    identity: str
    """'a': the server always creates the value. 'd': it does so if none is given. Otherwise empty."""
    generated: str
    """'s': computed from other columns, and stored. Otherwise empty."""
    is_builtin: bool
    """Whether its type is built in, so that a built-in operator can compare its values."""


class Table(NamedTuple):
    """The properties of a table that images of its rows need."""

    oid: int
    schema: str
    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def shown(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        return f"{quoted_name(self.schema)}.{quoted_name(self.name)}"

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "columns": [column._asdict() for column in self.columns]}

    def is_like(self, other: "Table") -> bool:
        return (self.schema, self.name, self.key, self.columns) == (
            other.schema,
            other.name,
            other.key,
            other.columns,
        )


class TableFacts(NamedTuple):
    table: Table
    not_captured: str
    """The reason why images of its rows cannot be captured. Empty if they can."""


def parse_table(fields: Mapping[str, Any]) -> Table:
    """Parse a table of the header of an image file. Raises KeyError, TypeError or ValueError if it is malformed."""
    columns = tuple(
        Column(str(one["name"]), str(one["type"]), str(one["identity"]), str(one["generated"]), bool(one["is_builtin"]))
        for one in fields["columns"]
    )
    return Table(
        int(fields["oid"]), str(fields["schema"]), str(fields["name"]), tuple(map(str, fields["key"])), columns
    )


def read_facts(wire: PostgresWire, oids: Iterable[int]) -> dict[int, TableFacts]:
    found = wire.do(_FACTS, _array(oids))
    return {int(row[0] or 0): _facts(row) for row in found}


def find(wire: PostgresWire, schema: str, name: str) -> TableFacts | None:
    found = wire.do(_BY_NAME, schema, name)
    return read_facts(wire, [int(found[0][0] or 0)]).get(int(found[0][0] or 0)) if found else None


def why_nothing_can_be_captured(wire: PostgresWire) -> str:
    may_have_temp, has_language, is_watched = wire.one(_CAN_CAPTURE)
    if is_watched == "t":
        return "the database has event triggers, which would run when Remit captures rows"
    if may_have_temp != "t":
        return "the role may not create temporary tables, which are needed to capture rows"
    return "" if has_language == "t" else "the role may not use PL/pgSQL, which is needed to capture rows"


def parents_first(wire: PostgresWire, tables: Sequence[Table]) -> list[int]:
    """Return the places in `tables`, with referenced tables first. Tables in a circle keep their order."""
    place = {table.oid: number for number, table in enumerate(tables)}
    parents: dict[int, set[int]] = {number: set() for number in place.values()}
    for child, parent in wire.do(_REFERENCES, _array(place)):
        parents[place[int(child or 0)]].add(place[int(parent or 0)])
    ordered: list[int] = []
    while len(ordered) < len(tables):
        left = [number for number in parents if number not in ordered]
        free = [number for number in left if not parents[number] - set(ordered)]
        ordered.append((free or left)[0])
    return ordered


def _facts(row: Sequence[str | None]) -> TableFacts:
    oid, schema, name, kind, persistence, owns, security, triggers, rules, inherits, key, columns, cast = row
    table = Table(
        int(oid or 0),
        schema or "",
        name or "",
        tuple(json.loads(key)) if key is not None else (),
        tuple(Column(*column) for column in json.loads(columns or "[]")),
    )
    reasons = (
        (kind != "r", "is not an ordinary table"),
        (persistence == "t", "is a temporary table"),
        (inherits == "t", "is a partition, or inherits from another table"),
        (not table.key, "has no primary key"),
        (triggers == "t", "has triggers of its own"),
        (rules == "t", "has rules"),
        (security == "t", "has row security"),
        (owns != "t", "does not belong to the role"),
        (cast is not None, f"has a column of type {cast}, which a function of the database converts from text"),
    )
    why = next((text for holds, text in reasons if holds), "")
    return TableFacts(table, f"{table.shown} {why}" if why else "")


def _array(oids: Iterable[int]) -> str:
    return "{" + ",".join(map(str, oids)) + "}"
