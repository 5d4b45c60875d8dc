"""How many rows of which tables were changed, as the server itself counts them: cascades and triggers included.

The counters go on over a savepoint that was rolled back, so only their differences mean something. Limits: sequences
and foreign tables are not counted; a role sees the names of tables that it may not read.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from remit.effects.postgres.libpq import Wire

_COUNTS: Final = """
SELECT c.oid, c.relnamespace = 'pg_catalog'::regnamespace, i, u, d
FROM pg_class c,
  LATERAL (SELECT pg_stat_get_xact_tuples_inserted(c.oid) i, pg_stat_get_xact_tuples_updated(c.oid) u,
    pg_stat_get_xact_tuples_deleted(c.oid) d) s
WHERE c.relkind IN ('r', 'm') AND (i <> 0 OR u <> 0 OR d <> 0)
"""
_IS_COUNTING: Final = "SELECT current_setting('track_counts')"


class Change(NamedTuple):
    """Rows of one table."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __add__(self, other: object) -> "Change":
        if not isinstance(other, Change):
            return NotImplemented
        return Change(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Counts(NamedTuple):
    """At one moment."""

    tables: Mapping[int, Change]
    catalog: int
    """Rows of the server's own tables: they change when a table is made, altered, emptied or removed."""


class Changed(NamedTuple):
    """Between two moments."""

    tables: dict[int, Change]
    structure: bool

    @property
    def deletes(self) -> bool:
        return any(change.deleted for change in self.tables.values())


def count(wire: Wire, without: frozenset[int] = frozenset()) -> Counts:
    """With the catalog's names in force (`Session.ours`). `without`: tables of our own."""
    tables: dict[int, Change] = {}
    catalog = 0
    for oid, is_catalog, *numbers in wire.do(_COUNTS):
        change = Change(*(int(number or 0) for number in numbers))
        if is_catalog == "t":
            catalog += sum(change)
        elif int(oid or 0) not in without:
            tables[int(oid or 0)] = change
    return Counts(tables, catalog)


def is_counting(wire: Wire) -> bool:
    return wire.one(_IS_COUNTING) == ("on",)


def between(before: Counts, after: Counts) -> Changed:
    """A table that was removed meanwhile is a change of the structure, not of its rows."""
    tables = {}
    for oid, now in after.tables.items():
        then = before.tables.get(oid, Change())
        if now != then:
            tables[oid] = Change(*(new - old for new, old in zip(now, then, strict=True)))
    return Changed(tables, before.catalog != after.catalog)
