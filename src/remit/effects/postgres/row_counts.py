"""The number of changed rows by table, as the server itself counts them. Cascades and triggers are included.

A rollback to a savepoint does not reset the server's counters, so only their differences have a meaning. Limits: there
are no counters for sequences and foreign tables. A role sees the names of tables that it may not read.
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
    """The numbers of changed rows of one table."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: object) -> "RowCounts":
        if not isinstance(other, RowCounts):
            return NotImplemented
        return RowCounts(*(mine + others for mine, others in zip(self, other, strict=True)))


class Counts(NamedTuple):
    """The server's counters at one moment."""

    tables: Mapping[int, RowCounts]
    catalog: int
    """Changed rows of the server's catalog, which change when a table is created, altered, emptied or dropped."""


class Changed(NamedTuple):
    """The changes between two moments."""

    tables: dict[int, RowCounts]
    structure: bool

    @property
    def deletes(self) -> bool:
        return any(change.deleted for change in self.tables.values())


def count(wire: PostgresWire, without: frozenset[int] = frozenset()) -> Counts:
    """Read the counters. Call it after `PostgresSession.apply_settings`. `without`: Remit's own temporary tables."""
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
    """Return the difference of two counts. A table that was dropped meanwhile is a change of the structure."""
    tables = {}
    for oid, now in after.tables.items():
        then = before.tables.get(oid, RowCounts())
        if now != then:
            tables[oid] = RowCounts(*(new - old for new, old in zip(now, then, strict=True)))
    return Changed(tables, before.catalog != after.catalog)
