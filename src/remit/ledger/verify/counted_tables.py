"""Compares the table of counted entries with the counting entries of the chain.

A count that no entry states yet is only in the table, so it cannot be compared with anything.
"""

import json
from typing import Final, NamedTuple

from remit.ledger.counted_entries import COUNTED_SUFFIX
from remit.ledger.entry import Entry
from remit.ledger.findings import RecordFault, VerificationReport
from remit.ledger.verify.browser_tables import read_payload
from remit.store.connection import Connection
from remit.store.counted_entries import CountedRow

_ROWS: Final = f"""SELECT {", ".join(f"c.{name}" for name in CountedRow._fields)}, e.seq, e.actor
  FROM counted_entries c LEFT JOIN ledger_entries e ON e.tenant_id = c.tenant_id AND e.seq = c.entry_seq
  WHERE c.tenant_id = ?"""
Key = tuple[str, str, str]


class _Stated(NamedTuple):
    """The last counting entry of one caller and operation."""

    seq: int
    opened_at: object
    total: object


class CountedRowsCheck:
    """Remembers the last counting entry of each caller and operation, and then compares it with the table."""

    def __init__(self, connection: Connection, tenant_id: str, verdict: VerificationReport) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._verdict = verdict
        self._stated: dict[Key, _Stated] = {}

    def pass_entry(self, entry: Entry) -> None:
        if entry.kind.endswith(COUNTED_SUFFIX):
            payload = read_payload(entry.payload)
            key = (entry.kind, entry.actor or "", str(payload.get("operation")))
            self._stated[key] = _Stated(entry.seq, payload.get("from"), payload.get("count"))

    def finish(self) -> None:
        for found in self._connection.stream(_ROWS, (self._tenant_id,)):
            row, seq, actor = CountedRow(*found[:-2]), found[-2], found[-1]
            stated = self._stated.pop((row.kind, row.actor, row.operation), None)
            if seq is None or (actor or "") != row.actor or not _fits(row, stated):
                what = f"the counted entries of {row.actor or 'unknown callers'} for {row.operation!r} differ from the"
                self._report(RecordFault.ROW_EDITED, row.entry_seq, f"{what} entry that states them")
        for (kind, actor, operation), stated in self._stated.items():
            what = f"the row of {kind} for {actor or 'unknown callers'} and {operation!r} is missing"
            self._report(RecordFault.ROW_MISSING, stated.seq, what)

    def _report(self, fault: RecordFault, seq: int, what: str) -> None:
        self._verdict.report(fault, self._tenant_id, seq, what)


def _fits(row: CountedRow, stated: _Stated | None) -> bool:
    """Whether the row continues the last counting entry: of this window, or of an earlier one."""
    try:
        reasons = json.loads(row.reasons)
        is_sound = row.counted >= row.stated >= 0 and sum(reasons.values()) == row.counted
        if row.stated == 0:
            return bool(
                is_sound and (stated is None or (stated.seq < row.entry_seq and stated.opened_at != row.opened_at))
            )
        return bool(
            is_sound
            and stated is not None
            and (stated.opened_at, stated.total) == (row.opened_at, row.stated)
            and stated.seq <= row.entry_seq
        )
    except (TypeError, ValueError, AttributeError):  # the columns' types can be altered
        return False
