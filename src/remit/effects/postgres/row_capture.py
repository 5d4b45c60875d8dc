"""Images of the rows that statements change: kept by triggers that are made and removed in the same transaction.

A statement-level trigger sees all rows that one statement changed, with those that foreign keys changed after it. The
old rows are kept before the new ones, each by the text of its key, so that the first and the last of one key are what
was there before and what is there now, however often it was changed in between.
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
    """Installed when it is made. Nobody can guess its names, so no statement writes to its table by accident."""

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
        """Just before the transaction is committed. The lock that this needs was taken before the first statement."""
        for number, table in enumerate(self.tables):
            for event in _EVENTS:
                self._wire.do(f"DROP TRIGGER {self._name(event)} ON {table.quoted}")
            self._wire.do(f"DROP FUNCTION pg_temp.{self._name(f'keep_{number}')}()")

    def is_untouched(self) -> bool:
        """Whether rows were only added to our table."""
        (same,) = self._wire.one(
            f"SELECT pg_stat_get_xact_tuples_updated({self.oid}) = 0 "
            f"AND pg_stat_get_xact_tuples_deleted({self.oid}) = 0"
        )
        return same == "t"

    def _install(self, number: int, table: Table) -> None:
        function = f"pg_temp.{self._name(f'keep_{number}')}"
        settings = "".join(f" SET {name} = {quoted_text(value)}" for name, value in EXACT.items())
        # As the role that made it, also when a foreign key makes the owner of a table change rows of it.
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
    """The columns of a row as PostgreSQL's own text."""
    return f"ARRAY[{', '.join(text_of(f'{row}.{quoted_name(name)}') for name in columns)}]::text[]"


def text_of(value: str) -> str:
    """What the type itself writes. A cast to text may be a function of anybody's, and that of `char` cuts blanks off.

    Not `IS NULL`, which a record of nothing but nulls is too.
    """
    return f"CASE num_nulls({value}) WHEN 0 THEN format('%s', {value}) END"
