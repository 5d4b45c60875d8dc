"""What the ledger says of one goal so far: its events, the last of them covered by a signature."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from remit.core.errors import EnvironmentFailureError, Reason
from remit.core.ttl_cache import TTLCache
from remit.crypto.signing import Keyring
from remit.goals.decisions import DecisionRecord
from remit.goals.gates import ApprovalWindow
from remit.ledger.documents import DocumentStore, tree_of
from remit.ledger.goal_queries import Recorded, first_entry, step_events
from remit.ledger.goal_tables import row_values
from remit.ledger.proof import require_covered
from remit.store.connection import Connection

APPROVAL: Final = "agent.approval"
"""A person's answer to a goal that needs the approval of somebody else."""
_NO_ANSWER: Final = (None, None)
_DECISIONS: Final[TTLCache[str, DecisionRecord]] = TTLCache(256, 600)


@dataclass(frozen=True, slots=True)
class History:
    steps: tuple[Recorded, ...] = ()
    approval: Literal["APPROVED", "DENIED"] | None = None
    answered_at: str | None = None
    """When that answer was given."""

    @property
    def last(self) -> Recorded | None:
        return self.steps[-1] if self.steps else None

    @property
    def event(self) -> str:
        return self.steps[-1].row.event if self.steps else ""

    def newest(self, event: str) -> Recorded | None:
        return next((one for one in reversed(self.steps) if one.row.event == event), None)

    @property
    def allowed_by(self) -> str:
        """The decision that let it go."""
        allowed = self.newest("ACCESS_ALLOWED")
        return (allowed.row.dispatch_decision_hash if allowed is not None else None) or ""

    def approval_window(self, at: str) -> ApprovalWindow | None:
        """For somebody else's approval, if it was ever asked for."""
        is_requested = self.newest("APPROVAL_REQUESTED")
        return ApprovalWindow(is_requested.created_at, self.answered_at, at) if is_requested is not None else None

    @property
    def decision_ref(self) -> str | None:
        """Of the last decision: rows that only lead up to one carry none."""
        hashes = (one.row.dispatch_decision_hash for one in reversed(self.steps))
        return next((each for each in hashes if each), None)


def read_history(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str
) -> History:
    """The last event is held against its signed entry; those before it, by whoever replays or verifies."""
    steps = tuple(step_events(connection, tenant_id, correlation_id))
    if not steps:
        return History()
    require_recorded(connection, keyring, tenant_id, steps[-1])
    events = {one.row.event for one in steps}
    is_requested = "APPROVAL_REQUESTED" in events  # nobody answers what was not asked
    approval = _approval(connection, keyring, tenant_id, correlation_id) if is_requested else _NO_ANSWER
    return History(steps, *approval)


def load_decision(connection: Connection, tenant_id: str, ref: str) -> DecisionRecord:
    return decision_of(DocumentStore(connection, tenant_id), ref)


def decision_of(documents: DocumentStore, ref: str) -> DecisionRecord:
    body = documents.body(ref)  # always, as for snapshots
    return _DECISIONS.get(ref, lambda: DecisionRecord.from_tree(tree_of(ref, body), source="a stored decision"))


def require_recorded(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, recorded: Recorded
) -> None:
    """The row is the one that its signed entry speaks of."""
    entry = require_covered(connection, keyring, tenant_id, recorded.seq)
    payload: Any = json.loads(entry.payload) if entry.kind == "agent.step" else {}
    if payload != row_values(recorded.row) or entry.created_at != recorded.created_at:
        raise EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            "a row about this goal is not the one that the ledger recorded; nothing was touched",
            where=f"tenant {tenant_id}, entry {recorded.seq}",
            next_step="Keep the database as it is and run `remit ledger verify`.",
        )


def _approval(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str
) -> tuple[Literal["APPROVED", "DENIED"] | None, str | None]:
    """The first answer counts."""
    seq = first_entry(connection, tenant_id, correlation_id, APPROVAL)
    if seq is None:
        return _NO_ANSWER
    entry = require_covered(connection, keyring, tenant_id, seq)
    return "APPROVED" if json.loads(entry.payload).get("approved") is True else "DENIED", entry.created_at
