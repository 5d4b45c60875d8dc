"""Captures images of the rows that statements change, by triggers that are created and dropped in one transaction.

A statement-level trigger sees all rows that one statement changed, with those that foreign keys changed after it. The
old rows are stored before the new ones, each with the text of its key. So for each key the first entry is the row
before, and the last entry is the row now, however often it changed in between.
"""

import os
from collections.abc import Sequence
from typing import Final

from remit.effects.postgres.libpq import PostgresWire, quoted_name, quoted_text
from remit.effects.postgres.session import EXACT, OUR_PATH
from remit.effects.postgres.tables import Table

_EVENTS: Final = {
    "INSERT": "NEW TABLE AS remit_new",
    "UPDATE": "OLD TABLE AS remit_old NEW TABLE AS remit_new",
    "DELETE": "OLD TABLE AS remit_old",
}


class Capture:
    """The triggers of one transaction, installed on construction.

    Their names are random, so no statement writes to the table of captured rows by accident.
    """

    def __init__(self, wire: PostgresWire, tables: Sequence[Table]) -> None:
        self._wire = wire
        self.tables = tuple(tables)
        self._suffix = os.urandom(8).hex()
        self.name = f'pg_temp."remit_rows_{self._suffix}"'
        wire.do(
            f"CREATE TEMPORARY TABLE {self._name('rows')} (seq bigint GENERATED ALWAYS AS IDENTITY, tab integer, "
            "gone boolean, key text[], cells text[]) ON COMMIT DROP"
        )
        (oid,) = wire.one(f"SELECT {quoted_text(self.name)}::regclass::oid")
        self.oid = int(oid or 0)
        for number, table in enumerate(self.tables):
            self._install(number, table)

    def remove(self) -> None:
        """Drop the triggers, right before the commit. The lock for this was acquired before the first statement."""
        for number, table in enumerate(self.tables):
            for event in _EVENTS:
                self._wire.do(f"DROP TRIGGER {self._name(event)} ON {table.quoted}")
            self._wire.do(f"DROP FUNCTION pg_temp.{self._name(f'keep_{number}')}()")

    def is_untouched(self) -> bool:
        """Return whether rows were only added to the table of captured rows."""
        (same,) = self._wire.one(
            f"SELECT pg_stat_get_xact_tuples_updated({self.oid}) = 0 "
            f"AND pg_stat_get_xact_tuples_deleted({self.oid}) = 0"
        )
        return same == "t"

    def _install(self, number: int, table: Table) -> None:
        function = f"pg_temp.{self._name(f'keep_{number}')}"
        settings = "".join(f" SET {name} = {quoted_text(value)}" for name, value in EXACT.items())
        # It runs as the role that created it, also when the owner of a table changes rows through a foreign key.
        self._wire.do(
            f"CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
            f"SET search_path = {OUR_PATH}{settings} AS {quoted_text(self._body(number, table))}"
        )
        for event, transition in _EVENTS.items():
            self._wire.do(
                f"CREATE TRIGGER {self._name(event)} AFTER {event} ON {table.quoted} REFERENCING {transition} "
                f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
            )

    def _body(self, number: int, table: Table) -> str:
        def insert_rows(source: str, *, gone: bool) -> str:
            return (
                f"INSERT INTO {self.name} (tab, gone, key, cells) "
                f"SELECT {number}, {str(gone).lower()}, {cells_of('r', table.key)}, "
                f"{cells_of('r', [column.name for column in table.columns])} FROM {source} r;"
            )

        return (
            "BEGIN "
            f"IF TG_OP <> 'INSERT' THEN {insert_rows('remit_old', gone=True)} END IF; "
            f"IF TG_OP <> 'DELETE' THEN {insert_rows('remit_new', gone=False)} END IF; "
            "RETURN NULL; END"
        )

    def _name(self, what: str) -> str:
        return quoted_name(f"remit_{what.lower()}_{self._suffix}")


def cells_of(row: str, columns: Sequence[str]) -> str:
    """Return the SQL for the columns of a row, as PostgreSQL's own text."""
    return f"ARRAY[{', '.join(text_of(f'{row}.{quoted_name(name)}') for name in columns)}]::text[]"


def text_of(value: str) -> str:
    """Return the SQL for the text that the type itself writes.

    It is not a cast to text, because a user may have defined that cast, and the cast of `char` removes blanks. It does
    not use `IS NULL`, which is also true for a record with only nulls.
    """
    return f"CASE num_nulls({value}) WHEN 0 THEN format('%s', {value}) END"
