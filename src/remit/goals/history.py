"""The history of one goal from the ledger: its events. The last of them is verified against its signed entry."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from remit.contracts.goals.goal import AgentGoalRequest
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ttl_cache import TTLCache
from remit.crypto.signing import Keyring
from remit.goals.composite.layout import WHOLE, is_undo, rolled_back_id
from remit.goals.decisions import DecisionRecord, GoalDocuments
from remit.goals.gates import ApprovalWindow
from remit.ledger.documents import DocumentStore, tree_of
from remit.ledger.goal_queries import Recorded, entries_of_kind, step_events
from remit.ledger.goal_tables import row_values
from remit.ledger.proof import require_covered
from remit.store.connection import Connection

APPROVAL: Final = "agent.approval"
"""The kind of the entry with which a person approves or denies a goal of another user."""
PREVIEW: Final = "agent.preview"
"""The kind of the entry with the preview of an action, which a person sees before the confirmation."""
WAITING: Final = frozenset({"CONFIRMATION_REQUESTED", "APPROVAL_REQUESTED"})
"""Events of a step that waits for a person."""
_NO_ANSWER: Final = (None, None, "", "")
_DECISIONS: Final[TTLCache[str, DecisionRecord]] = TTLCache(256, 600)


@dataclass(frozen=True, slots=True)
class History:
    """The events of one goal, or of one step of it, and the answer of the approver to its last request."""

    steps: tuple[Recorded, ...] = ()
    approval: Literal["APPROVED", "DENIED"] | None = None
    answered_at: str | None = None
    """The time of the approver's answer."""
    answered_by: str = ""
    """The approver: id, and name if there is one. Empty without an answer."""
    answer_reason: str = ""
    """The reason that the approver gave, masked. Empty if there is none."""

    @property
    def last(self) -> Recorded | None:
        return self.steps[-1] if self.steps else None

    @property
    def event(self) -> str:
        return self.steps[-1].row.event if self.steps else ""

    @property
    def whole(self) -> Recorded | None:
        """The last event of the whole goal. None for a goal with a single step."""
        return next((one for one in reversed(self.steps) if one.row.step_id == WHOLE), None)

    @property
    def state(self) -> str:
        """The last event of the goal. With several steps, that of the whole goal, or the one that waits for a person.

        The last event of a step says nothing about a goal with several: it is STARTED until the whole goal has ended.
        """
        whole = self.whole
        if whole is None or self.event in WAITING:
            return self.event
        is_undone = any(one.row.event == "UNDO_ALLOWED" and one.seq > whole.seq for one in self.steps)
        return "STARTED" if is_undone else whole.row.event

    @property
    def can_undo_steps(self) -> bool:
        """Whether a goal with several steps has ended, and steps of it can be rolled back."""
        if self.state not in {"COMPLETED", "ABORTED_PARTIAL"}:
            return False
        newest = {one.row.step_id: one.row.event for one in self.steps if one.row.step_id != WHOLE}
        own = {name for name in newest if not is_undo(name) and rolled_back_id(name) is None}
        has_failed = any(newest[name] in {"FAILED", "REFUSED"} for name in newest if rolled_back_id(name) is not None)
        return not has_failed and any(newest[name] == "SUCCEEDED" for name in own)

    @property
    def attempts(self) -> int:
        """How often a step was dispatched."""
        return sum(one.row.event in {"DISPATCHED", "RETRIED"} for one in self.steps)

    @property
    def has_several_steps(self) -> bool:
        return any(one.row.step_id == WHOLE for one in self.steps)

    def of(self, step_id: str) -> "History":
        """Return the history of one step. An answer to the request of another step does not belong to it."""
        steps = tuple(one for one in self.steps if one.row.step_id == step_id)
        asked = self.newest("APPROVAL_REQUESTED")
        return replace(self, steps=steps) if asked is not None and asked in steps else History(steps)

    def newest(self, event: str) -> Recorded | None:
        return next((one for one in reversed(self.steps) if one.row.event == event), None)

    @property
    def allowed_by(self) -> str:
        """The reference of the decision that allowed the dispatch. Empty if there is none."""
        allowed = self.newest("ACCESS_ALLOWED")
        return (allowed.row.dispatch_decision_hash if allowed is not None else None) or ""

    def approval_window(self, at: str) -> ApprovalWindow | None:
        """Return the times of another person's approval, or None if it was never requested."""
        is_requested = self.newest("APPROVAL_REQUESTED")
        return ApprovalWindow(is_requested.created_at, self.answered_at, at) if is_requested is not None else None

    @property
    def decision_ref(self) -> str | None:
        """The reference of the last decision. Rows that only prepare a decision have no reference."""
        hashes = (one.row.dispatch_decision_hash for one in reversed(self.steps))
        return next((each for each in hashes if each), None)


def read_history(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str
) -> History:
    """Read the history. Only its last event is compared with its signed entry, and that of the whole goal.

    Replay checks the rest.
    """
    steps = tuple(step_events(connection, tenant_id, correlation_id))
    if not steps:
        return History()
    require_recorded(connection, keyring, tenant_id, steps[-1])
    whole = History(steps).whole
    if whole is not None and whole is not steps[-1]:
        require_recorded(connection, keyring, tenant_id, whole)
    events = {one.row.event for one in steps}
    is_requested = "APPROVAL_REQUESTED" in events  # without a request there is no answer to read
    if not is_requested:
        return History(steps)
    asked = next(one for one in reversed(steps) if one.row.event == "APPROVAL_REQUESTED")
    return History(steps, *read_approval(connection, keyring, tenant_id, asked))


def find_preview(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, correlation_id: str, step_id: str
) -> str | None:
    """Return the document with the preview of a step. None if none was computed. The first one is valid."""
    for seq, unverified in entries_of_kind(connection, tenant_id, correlation_id, PREVIEW):
        if unverified.get("step_id") == step_id:
            payload = json.loads(require_covered(connection, keyring, tenant_id, seq).payload)
            return str(payload["preview_ref"])
    return None


def load_decision(connection: Connection, tenant_id: str, ref: str) -> DecisionRecord:
    return decision_of(DocumentStore(connection, tenant_id), ref)


def decision_of(documents: DocumentStore, ref: str) -> DecisionRecord:
    body = documents.body(ref)  # read each time, so that a missing document is noticed in spite of the cache
    return _DECISIONS.get(ref, lambda: DecisionRecord.from_tree(tree_of(ref, body), source="a stored decision"))


def require_same_goal(
    connection: Connection, goal: AgentGoalRequest, documents: GoalDocuments, history: History
) -> None:
    """Refuse a correlation id that has another user, text or packet."""
    if history.last is None:
        return
    record = load_decision(connection, goal.tenant_id, history.decision_ref or "")
    if record.goal_ref != documents.goal.ref:
        raise RefusedError(
            Reason.GOAL_CONFLICT,
            "this correlation id belongs to another goal",
            where=f"correlation {goal.correlation_id}",
            next_step="Use a new correlation id for another goal. For the same goal, send the same request again.",
        )


def require_recorded(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, recorded: Recorded
) -> None:
    """Refuse a row that differs from its signed entry."""
    entry = require_covered(connection, keyring, tenant_id, recorded.seq)
    payload: Any = json.loads(entry.payload) if entry.kind == "agent.step" else {}
    if payload != row_values(recorded.row) or entry.created_at != recorded.created_at:
        raise EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            "a row about this goal differs from its ledger entry; nothing was changed",
            where=f"tenant {tenant_id}, entry {recorded.seq}",
            next_step="Keep the database as it is and run `remit ledger verify`.",
        )


def read_approval(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, asked: Recorded
) -> tuple[Literal["APPROVED", "DENIED"] | None, str | None, str, str]:
    """Return the first answer to a request: the answer, its time, the approver and the reason.

    Later answers have no effect. The request of another step has answers of its own.
    """
    for seq, unverified in entries_of_kind(connection, tenant_id, asked.row.correlation_id, APPROVAL):
        if unverified.get("decision") == asked.row.dispatch_decision_hash:
            entry = require_covered(connection, keyring, tenant_id, seq)
            payload = json.loads(entry.payload)
            answer: Literal["APPROVED", "DENIED"] = "APPROVED" if payload.get("approved") is True else "DENIED"
            return answer, entry.created_at, entry.actor or "", str(payload.get("reason") or "")
    return _NO_ANSWER
