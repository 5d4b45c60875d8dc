"""Row images: each changed row before and after the plan, in a temporary table and in a file.

The file remains after the transaction. Its first line is JSON about the file itself. Each further line is one row: the
place of its table in the first line, the row before, and the row after. A row is a list of PostgreSQL's own text, or
null. The use of memory does not grow with the file.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason
from remit.effects.postgres.libpq import PostgresWire, quoted_name
from remit.effects.postgres.row_capture import Capture, cells_of, text_of
from remit.effects.postgres.session import SessionIdentity
from remit.effects.postgres.tables import Column, Table, parse_table

FORMAT: Final = "remit-row-images/2"
_BATCH: Final = 512 << 10
_PIECE: Final = 1 << 18
_MODULUS: Final = 1 << 256
_LONGEST_LINE: Final = 1 << 30


class WrittenImages(NamedTuple):
    """The number of rows in the file, and digests of the rows before."""

    rows: int
    before: tuple[str, ...]
    """For each table, a digest of the rows before. It does not depend on their order."""


class Header(NamedTuple):
    database: str
    tables: tuple[Table, ...]


class Images:
    """A temporary table with the net effect on each row: `old` and `new`, one of which may be null."""

    def __init__(self, wire: PostgresWire, tables: Sequence[Table]) -> None:
        self.wire = wire
        self.tables = tuple(tables)
        suffix = os.urandom(8).hex()
        self.name = f'pg_temp."remit_images_{suffix}"'
        wire.do(
            f'CREATE TEMPORARY TABLE "remit_images_{suffix}" '
            "(place bigint, tab integer, key text[], old text[], new text[]) ON COMMIT DROP"
        )
        (oid,) = wire.one("SELECT $1::regclass::oid", self.name)
        self.oid = int(oid or 0)

    def copy_from(self, capture: Capture) -> None:
        self.wire.do(
            f"INSERT INTO {self.name} SELECT f.seq, tab, key, CASE WHEN f.gone THEN f.cells END, "
            "CASE WHEN NOT l.gone THEN l.cells END "
            f"FROM (SELECT DISTINCT ON (tab, key) * FROM {capture.name} ORDER BY tab, key, seq) f "
            f"JOIN (SELECT DISTINCT ON (tab, key) * FROM {capture.name} ORDER BY tab, key, seq DESC) l "
            "USING (tab, key) "
            "WHERE (CASE WHEN f.gone THEN f.cells END) IS DISTINCT FROM (CASE WHEN NOT l.gone THEN l.cells END)"
        )
        self.wire.do(f"ANALYZE {self.name}")

    def load(self, descriptor: int) -> None:
        """Load the rows from a file. Its first line is skipped."""
        lines = lines_of(descriptor)
        next(lines)
        place, batch, size = 0, [], 0
        for line in lines:
            batch.append(line)
            size += len(line)
            if size > _BATCH:
                place = self._insert(batch, place)
                batch, size = [], 0
        self._insert(batch, place)
        keys = " ".join(
            f"WHEN {number} THEN {_key_of('coalesce(new, old)', table)}" for number, table in enumerate(self.tables)
        )
        if self.tables:
            self.wire.do(f"UPDATE {self.name} SET key = CASE tab {keys} END")
        self.wire.do(f"ANALYZE {self.name}")

    def _insert(self, batch: Sequence[bytes], place: int) -> int:
        if batch:
            array = b"[" + b",".join(batch) + b"]"
            self.wire.do(
                f"INSERT INTO {self.name} (place, tab, old, new) SELECT {place} + line.place, "
                "(line.value ->> 't')::integer, "
                f"{_texts('o')}, {_texts('n')} "
                "FROM json_array_elements($1::json) WITH ORDINALITY line(value, place)",
                array.decode(),
            )
        return place + len(batch)

    def write(self, descriptor: int, identity: SessionIdentity) -> WrittenImages:
        """Write the rows to a new file."""
        sums, count = [0] * len(self.tables), 0
        header = {
            "format": FORMAT,
            "database": identity.database,
            "role": identity.role,
            "tables": [table.as_json() for table in self.tables],
        }
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(header).encode() + b"\n")
            for tab, old, new in self.wire.stream(
                f"SELECT tab, to_json(old), to_json(new) FROM {self.name} ORDER BY place"
            ):
                number = int(tab or b"0")
                file.write(b'{"t":%d,"o":%s,"n":%s}\n' % (number, old or b"null", new or b"null"))
                count += 1
                if old is not None:
                    digest = hashlib.sha256(bytes(old)).digest()
                    sums[number] = (sums[number] + int.from_bytes(digest, "big")) % _MODULUS
        return WrittenImages(count, tuple(f"{total:064x}" for total in sums))

    # --- comparison with the current rows -----------------------------------------------------------------------------

    def differing(self, number: int, side: str) -> int:
        """Return the number of rows of this table that now differ from `side`, which is `old` or `new`."""
        table = self.tables[number]
        (count,) = self.wire.one(
            f"SELECT count(*) FROM {self.joined(table)} WHERE i.tab = {number} "
            f"AND {current_rows(table)} IS DISTINCT FROM i.{side}"
        )
        return int(count or 0)

    def joined(self, table: Table) -> str:
        return f"{self.name} i LEFT JOIN ONLY {table.quoted} t ON {same_key(table)}"


def current_rows(table: Table) -> str:
    """Return SQL for the current row as a list of text. It is null if there is no such row."""
    return f"CASE WHEN t.ctid IS NOT NULL THEN {cells_of('t', [column.name for column in table.columns])} END"


def same_key(table: Table) -> str:
    """Return SQL that compares keys as values if an index helps, and always as text, because 1.0 is not 1.00."""
    by_name = {column.name: column for column in table.columns}
    parts = []
    for place, name in enumerate(table.key, start=1):
        column = by_name[name]
        if column.is_builtin:
            parts.append(f"t.{quoted_name(name)} = (i.key[{place}])::{column.type}")
        parts.append(f"{text_of(f't.{quoted_name(name)}')} = i.key[{place}]")
    return " AND ".join(parts)


def cell(side: str, table: Table, column: Column) -> str:
    """Return SQL for the value of a column, in its type, from a list of text."""
    return f"(i.{side}[{table.columns.index(column) + 1}])::{column.type}"


def read_header(descriptor: int) -> Header:
    try:
        fields: dict[str, Any] = json.loads(next(lines_of(descriptor)))
        _require_ours(fields["format"])
        return Header(str(fields["database"]), tuple(parse_table(table) for table in fields["tables"]))
    except (StopIteration, ValueError, KeyError, TypeError):
        raise EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            "the file of row images cannot be read",
            next_step="It is damaged, or another version of Remit wrote it. Use that version, or a backup of the file.",
        ) from None


def _require_ours(form: object) -> None:
    if form != FORMAT:
        raise ValueError("the format is unknown")


def lines_of(descriptor: int) -> Iterator[bytes]:
    at, rest = 0, b""
    while piece := os.pread(descriptor, _PIECE, at):
        at += len(piece)
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > _LONGEST_LINE:
            return
    if rest:
        yield rest


def _key_of(side: str, table: Table) -> str:
    names = [column.name for column in table.columns]
    return f"ARRAY[{', '.join(f'({side})[{names.index(name) + 1}]' for name in table.key)}]::text[]"


def _texts(member: str) -> str:
    value = f"line.value -> '{member}'"
    return (
        f"CASE WHEN json_typeof({value}) = 'array' THEN ARRAY(SELECT c.value FROM "
        f"json_array_elements_text({value}) WITH ORDINALITY c(value, place) ORDER BY c.place) END"
    )
