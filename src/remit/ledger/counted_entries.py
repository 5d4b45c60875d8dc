"""Entries whose number is bounded: the first ones of a caller are written one by one, the others are counted.

A caller can repeat some requests as often as it likes, such as a plan that is refused. The ledger must show that, and
must not grow with it. So for each caller and operation there is a window of time:

- The first `MAX_SINGLES` entries of a window are written as they are. So is the first one for each further reason: a
  flood does not hide another kind of refusal.
- All others are counted in the table `counted_entries`, each in a durable transaction before its caller goes on.
- A counting entry states the count when it is 1, 10, 100 and so on. When the window has ended, the next entry of any
  caller, a server within a minute, or `remit recover` states the last count. The counts of one window (`from`) include
  each other: the last one is valid.
- A window that follows directly on one with counted entries has no single entries, except for further reasons. So a
  flood that goes on adds a few entries in each window.

A kill loses at most the one that was being recorded. Until an entry states it, a count is in the table only, which is
not signed: an attacker who can write to the database could change a count between two entries. Verification compares
the table with the counting entries (`remit.ledger.verify.counted_tables`).
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from remit.core.canonical import canonical_bytes
from remit.core.faultpoints import reach
from remit.core.ids import DEFAULT_TENANT, parse_time, render_time
from remit.ledger.entry import Entry, NewEntry
from remit.ledger.writer import Batch, Ledger
from remit.store.counted_entries import CountedRow, read_counted, unstated, write_counted

MAX_SINGLES: Final = 20
"""Entries of one caller and operation that are written one by one in a window."""
WINDOW: Final = timedelta(minutes=10)
GROWTH: Final = 10
"""The next counting entry of a window is written when the count is this many times as high."""
COUNTED_SUFFIX: Final = ".counted"
COUNTED_REFUSALS: Final = "refusals.counted"
"""The kind of the entries that count refusals: of the engine, and of `remit.execution.refusals`."""
NO_CALLER: Final = "unknown"
"""The correlation id of a counting entry about callers without a name."""


def append_counted(batch: Batch, single: NewEntry, *, kind: str, operation: str, reason: str) -> Entry | None:
    """Append the entry, or count it. Returns the entry, or None if it was counted without one.

    Args:
        batch: The transaction.
        single: The entry, with the caller as its actor. Its payload is masked.
        kind: The kind of the counting entry. It ends with `.counted`.
        operation: What the caller asked for: one of a fixed set of names, never a text of the caller.
        reason: What distinguishes entries within the operation: also one of a fixed set.
    """
    actor = str(single.actor or "")
    now = batch.time_in(single.tenant_id)
    row = read_counted(batch.store, single.tenant_id, kind, actor, operation)
    if row is None:
        row = _open(
            CountedRow(single.tenant_id, kind, actor, operation, "", "", 0, 0, 0, "{}", None, None, None, 0), now
        )
    elif not _is_open(row, now):
        row = _open(_state(batch, row, ended=True) if row.counted > row.stated else row, now)
    reasons = _reasons(row)
    entry: Entry | None = None
    if row.singles_left > 0 or reason not in reasons:
        entry = batch.append(single)
        reasons.setdefault(reason, 0)
        row = row._replace(singles_left=max(0, row.singles_left - 1), reasons=_as_text(reasons), entry_seq=entry.seq)
    else:
        row = row._replace(
            counted=row.counted + 1,
            reasons=_as_text({**reasons, reason: reasons[reason] + 1}),
            first_about=row.first_about or single.correlation_id,
            last_about=single.correlation_id,
            last_at=render_time(now),
        )
        if row.counted >= max(1, GROWTH * row.stated):
            row = _state(batch, row, ended=False)
    write_counted(batch.store, row)
    reach("counted.row_written")
    if entry is not None:  # the ledger grows by this entry anyway
        state_ended(batch, single.tenant_id)
    return entry


def state_ended(batch: Batch, tenant_id: str) -> int:
    """Append a counting entry for each window that has ended and has a count that no entry states. Returns how many."""
    now = batch.time_in(tenant_id)
    ended = [row for row in unstated(batch.store, tenant_id) if not _is_open(row, now)]
    for row in ended:
        write_counted(batch.store, _state(batch, row, ended=True))
    return len(ended)


class CountedEntries:
    """Records entries of one counting kind in transactions of their own."""

    def __init__(self, ledger: Callable[[], Ledger], kind: str, tenant_id: str = DEFAULT_TENANT) -> None:
        self._ledger = ledger
        self._kind = kind
        self._tenant_id = tenant_id

    def record(self, single: NewEntry, *, operation: str, reason: str) -> Entry | None:
        """Append the entry, or count it. It is durable when this returns."""
        recorded = self._ledger().transact(
            lambda batch: append_counted(batch, single, kind=self._kind, operation=operation, reason=reason)
        )
        reach("counted.recorded")
        return recorded

    def state_ended(self) -> int:
        """Write the counting entries of windows that have ended. Writes nothing if there are none."""
        with self._ledger().store.reading_pooled() as connection:
            if not unstated(connection, self._tenant_id):
                return 0
        return self._ledger().transact(lambda batch: state_ended(batch, self._tenant_id))


def _is_open(row: CountedRow, now: datetime) -> bool:
    # False too if the window lies in the future: a person accepted an earlier clock since.
    return row.opened_at <= render_time(now) < row.ends_at


def _open(row: CountedRow, now: datetime) -> CountedRow:
    """Return the row with a new window. The window has single entries unless it follows directly on a flood."""
    is_going_on = row.counted > 0 and row.opened_at <= render_time(now) < render_time(parse_time(row.ends_at) + WINDOW)
    return row._replace(
        opened_at=render_time(now),
        ends_at=render_time(now + WINDOW),
        singles_left=0 if is_going_on else MAX_SINGLES,
        counted=0,
        stated=0,
        reasons=_as_text(dict.fromkeys(_reasons(row), 0)) if is_going_on else "{}",
        first_about=None,
        last_about=None,
        last_at=None,
    )


def _state(batch: Batch, row: CountedRow, *, ended: bool) -> CountedRow:
    """Append the entry that states the count of this window, and return the row with it."""
    payload: dict[str, Any] = {
        "caller": row.actor or None,
        "operation": row.operation,
        "from": row.opened_at,
        "until": row.last_at,
        "count": row.counted,
        "reasons": {name: count for name, count in _reasons(row).items() if count},
        "first": row.first_about,
        "last": row.last_about,
        "window_ended": ended,
    }
    counting = NewEntry(row.tenant_id, row.kind, row.actor or NO_CALLER, payload, actor=row.actor or None)
    return row._replace(stated=row.counted, entry_seq=batch.append(counting).seq)


def _reasons(row: CountedRow) -> dict[str, int]:
    found: dict[str, int] = json.loads(row.reasons)
    return found


def _as_text(reasons: dict[str, int]) -> str:
    return canonical_bytes(reasons).decode()
