"""`agent_execution_current`: the current state of each step, derived from `agent_execution_ledger`.

A step changes its state only as the table below allows. The database itself refuses a projection row without its
ledger entry (see the migrations), so no transition can be made without a record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from remit.core.errors import Reason, RefusedError
from remit.ledger.entry import Entry
from remit.ledger.goal_tables import StepRow, append_agent_row
from remit.ledger.writer import Batch, Ledger
from remit.store.connection import Connection

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "": frozenset({"PLANNED", "CLARIFIED", "REFUSED", "ESCALATED", "STARTED"}),
    "PLANNED": frozenset(
        {"CONFIRMATION_REQUESTED", "CONFIRMED", "ACCESS_ALLOWED", "APPROVAL_REQUESTED", "REFUSED", "UNDO_ALLOWED"}
    ),
    # Also itself: after an unclear answer the user is asked again.
    "CONFIRMATION_REQUESTED": frozenset({"CONFIRMATION_REQUESTED", "CONFIRMED", "REFUSED"}),
    "CONFIRMED": frozenset({"ACCESS_ALLOWED", "APPROVAL_REQUESTED", "REFUSED", "UNDO_ALLOWED"}),
    "APPROVAL_REQUESTED": frozenset({"ACCESS_ALLOWED", "REFUSED", "UNDO_ALLOWED"}),
    "ACCESS_ALLOWED": frozenset({"DISPATCHED", "REFUSED"}),
    "DISPATCHED": frozenset({"SUCCEEDED", "FAILED"}),
    "SUCCEEDED": frozenset({"ROLLED_BACK"}),
    "FAILED": frozenset({"RETRIED", "REFUSED", "ROLLED_BACK"}),  # REFUSED: the gates refuse a later attempt
    "RETRIED": frozenset({"SUCCEEDED", "FAILED"}),
    # The state of a whole goal with several steps.
    "STARTED": frozenset({"COMPLETED", "ABORTED_ROLLED_BACK", "ABORTED_PARTIAL", "REFUSED"}),
    "COMPLETED": frozenset({"ROLLED_BACK", "ABORTED_PARTIAL"}),
    "ABORTED_ROLLED_BACK": frozenset(),
    "ABORTED_PARTIAL": frozenset({"ROLLED_BACK", "ABORTED_PARTIAL"}),
    # The user wants a whole goal to be rolled back.
    "UNDO_ALLOWED": frozenset(),
    "CLARIFIED": frozenset(),
    "REFUSED": frozenset(),
    "ESCALATED": frozenset(),
    "ROLLED_BACK": frozenset(),
}

_FOLDED: Final = """SELECT tenant_id, plan_id, step_id, correlation_id, event, idempotency_key, reason_code, entry_seq,
  created_at
  FROM agent_execution_ledger {where} ORDER BY tenant_id, plan_id, step_id, entry_seq"""
_CURRENT: Final = """SELECT tenant_id, plan_id, step_id, correlation_id, event, idempotency_key, reason_code, entry_seq,
  updated_at
  FROM agent_execution_current {where} ORDER BY tenant_id, plan_id, step_id"""
_UPSERT: Final = """INSERT INTO agent_execution_current
  (tenant_id, plan_id, step_id, correlation_id, event, idempotency_key, reason_code, entry_seq, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (tenant_id, plan_id, step_id) DO UPDATE SET correlation_id = excluded.correlation_id,
  event = excluded.event, idempotency_key = excluded.idempotency_key, reason_code = excluded.reason_code,
  entry_seq = excluded.entry_seq, updated_at = excluded.updated_at"""


@dataclass(frozen=True, slots=True)
class Current:
    """One row of the projection, in column order."""

    tenant_id: str
    plan_id: str
    step_id: str
    correlation_id: str
    event: str
    idempotency_key: str
    reason_code: str | None
    entry_seq: int
    updated_at: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.tenant_id, self.plan_id, self.step_id

    @property
    def name(self) -> str:
        return f"step {self.step_id} of plan {self.plan_id}"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    rows: int
    drift: tuple[str, ...]


def append_step(batch: Batch, tenant_id: str, row: StepRow) -> Entry:
    """Record a step's event and update its projection in one transaction. Refuses an event out of order."""
    found = batch.store.one(
        "SELECT event FROM agent_execution_current WHERE tenant_id = ? AND plan_id = ? AND step_id = ?",
        (tenant_id, row.plan_id, row.step_id),
    )
    before = found[0] if found else ""
    if row.event not in TRANSITIONS.get(before, frozenset()):
        allowed = ", ".join(sorted(TRANSITIONS.get(before, frozenset()))) or "nothing, since the step has ended"
        raise RefusedError(
            Reason.TRANSITION_INVALID,
            f"a step that is {before or 'new'} cannot become {row.event}",
            where=f"plan {row.plan_id}, step {row.step_id}",
            next_step=f"Allowed next: {allowed}.",
        )
    entry = append_agent_row(batch, tenant_id, row)
    current = Current(
        tenant_id,
        row.plan_id,
        row.step_id,
        row.correlation_id,
        row.event,
        row.idempotency_key,
        row.reason_code,
        entry.seq,
        entry.created_at,
    )
    batch.store.execute(_UPSERT, _row(current))
    return entry


def projection_drift(connection: Connection, tenant_id: str | None = None) -> Iterator[tuple[str, int, str]]:
    """Yield (tenant, entry, what) for each step whose projection differs from the ledger, and each illegal history."""
    where, parameters = ("WHERE tenant_id = ?", (tenant_id,)) if tenant_id is not None else ("", ())
    ledger = _fold(Current(*row) for row in connection.stream(_FOLDED.format(where=where), parameters))
    current = (Current(*row) for row in connection.stream(_CURRENT.format(where=where), parameters))
    held = next(current, None)
    for due, illegal in ledger:
        while held is not None and held.key < due.key:
            yield held.tenant_id, held.entry_seq, f"{held.name} has no event in the ledger"
            held = next(current, None)
        if illegal:
            yield due.tenant_id, due.entry_seq, f"{due.name} {illegal}"
        if held is None or held.key != due.key:
            yield due.tenant_id, due.entry_seq, f"{due.name} is missing from the projection"
            continue
        if held != due:
            what = f"{due.name} is stored as {held.event}, and the ledger says {due.event}"
            yield due.tenant_id, due.entry_seq, what
        held = next(current, None)
    while held is not None:
        yield held.tenant_id, held.entry_seq, f"{held.name} has no event in the ledger"
        held = next(current, None)


def rebuild(ledger: Ledger) -> Rebuilt:
    """Delete the projection and derive it again, in one transaction. Return what had differed."""

    def work(batch: Batch) -> Rebuilt:
        drift = tuple(what for _, _, what in projection_drift(batch.store))
        batch.store.execute("DELETE FROM agent_execution_current")
        count = 0
        folded = _fold(Current(*row) for row in batch.store.stream(_FOLDED.format(where="")))
        for due, _ in folded:
            batch.store.execute(_UPSERT, _row(due))
            count += 1
        return Rebuilt(count, drift)

    return ledger.transact(work)


def _fold(events: Iterator[Current]) -> Iterator[tuple[Current, str]]:
    """Yield the last event of each step, and what was illegal in its history. Keeps one step in memory."""
    last: Current | None = None
    illegal = ""
    for event in events:
        if last is not None and event.key != last.key:
            yield last, illegal
            last, illegal = None, ""
        before = last.event if last else ""
        if event.event not in TRANSITIONS.get(before, frozenset()):
            illegal = illegal or f"went from {before or 'nothing'} to {event.event}, which no rule allows"
        last = event
    if last is not None:
        yield last, illegal


def _row(current: Current) -> tuple[str | int | None, ...]:
    return (
        current.tenant_id,
        current.plan_id,
        current.step_id,
        current.correlation_id,
        current.event,
        current.idempotency_key,
        current.reason_code,
        current.entry_seq,
        current.updated_at,
    )
