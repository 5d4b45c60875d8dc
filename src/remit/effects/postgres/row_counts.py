"""How many rows of which tables were changed, as the server itself counts them: cascades and triggers included.

The counters go on over a savepoint that was rolled back, so only their differences mean something. Limits: sequences
and foreign tables are not counted; a role sees the names of tables that it may not read.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from remit.effects.postgres.libpq import PostgresWire

_COUNTS: Final = """
SELECT c.oid, c.relnamespace = 'pg_catalog'::regnamespace, i, u, d
FROM pg_class c,
  LATERAL (SELECT pg_stat_get_xact_tuples_inserted(c.oid) i, pg_stat_get_xact_tuples_updated(c.oid) u,
    pg_stat_get_xact_tuples_deleted(c.oid) d) s
WHERE c.relkind IN ('r', 'm') AND (i <> 0 OR u <> 0 OR d <> 0)
"""
_IS_COUNTING: Final = "SELECT current_setting('track_counts')"


class RowCounts(NamedTuple):
    """Rows of one table."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: object) -> "RowCounts":
        if not isinstance(other, RowCounts):
            return NotImplemented
        return RowCounts(*(mine + others for mine, others in zip(self, other, strict=True)))


class Counts(NamedTuple):
    """At one moment."""

    tables: Mapping[int, RowCounts]
    catalog: int
    """Rows of the server's own tables: they change when a table is made, altered, emptied or removed."""


class Changed(NamedTuple):
    """Between two moments."""

    tables: dict[int, RowCounts]
    structure: bool

    @property
    def deletes(self) -> bool:
        return any(change.deleted for change in self.tables.values())


def count(wire: PostgresWire, without: frozenset[int] = frozenset()) -> Counts:
    """With the catalog's names in force (`Session.ours`). `without`: tables of our own."""
    tables: dict[int, RowCounts] = {}
    catalog = 0
    for oid, is_catalog, *numbers in wire.do(_COUNTS):
        change = RowCounts(*(int(number or 0) for number in numbers))
        if is_catalog == "t":
            catalog += sum(change)
        elif int(oid or 0) not in without:
            tables[int(oid or 0)] = change
    return Counts(tables, catalog)


def is_counting(wire: PostgresWire) -> bool:
    return wire.one(_IS_COUNTING) == ("on",)


def between(before: Counts, after: Counts) -> Changed:
    """A table that was removed meanwhile is a change of the structure, not of its rows."""
    tables = {}
    for oid, now in after.tables.items():
        then = before.tables.get(oid, RowCounts())
        if now != then:
            tables[oid] = RowCounts(*(new - old for new, old in zip(now, then, strict=True)))
    return Changed(tables, before.catalog != after.catalog)
