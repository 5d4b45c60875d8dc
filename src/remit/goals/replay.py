"""Replay: makes a decision again from its stored documents. If the result differs, the decision must not be used."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from remit.contracts.goals.packets import FINDER_PACKET
from remit.core.errors import Reason, RefusedError, RemitError
from remit.crypto.signing import Keyring
from remit.goals.composite.layout import WHOLE, Outputs, rolled_back_id
from remit.goals.composite.replay_moves import find_move_problems, step_names
from remit.goals.decisions import DecisionRecord
from remit.goals.gates import ApprovalWindow, ConfirmationReply, Evidence, GateVerdict, decide
from remit.goals.history import History, load_decision, read_history, require_recorded
from remit.goals.planner import build_envelope, build_step, idempotency_key
from remit.goals.rules import PastRules, lexicon_name
from remit.ledger.documents import DocumentStore
from remit.ledger.goal_queries import Recorded
from remit.store.connection import Connection

REPLAY_CODE: Final = "REPLAY_INVARIANT_FAILED"


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """One recorded decision of a goal, and whether the replay has the same result."""

    event_id: str
    at: str
    event: str
    reason_code: str
    dispatched: bool
    decision_ref: str
    agrees: bool
    why: str = ""
    """The difference, in words. Empty if the replay agrees."""
    because: str = ""
    """The stored reason of the decision, in words."""
    step_id: str | None = None
    """The step of a goal with several steps, or `goal` for the begin and the end of the whole. None for a single."""
    step: str | None = None
    """The name of this step."""


def load_evidence(documents: DocumentStore, past: PastRules, tenant_id: str, record: DecisionRecord) -> Evidence:
    """Load all inputs of the decision. Each document is checked against its name, which is its digest."""
    packet = FINDER_PACKET.from_tree(documents.tree(record.finder_packet_ref), source="a stored packet")
    approval: Any = record.approval
    return Evidence(
        tenant_id=tenant_id,
        user_id=record.user_id,
        correlation_id=record.correlation_id,
        language_tag=record.language_tag,
        packet=packet,
        catalogue=past.catalogue(documents, record.catalog_snapshot_ref),
        policy=past.policy(documents, record.policy_snapshot_ref),
        lexicon=past.lexicon(documents, record.lexicon_ref),
        planned=record.planned,
        answered=load_reply(documents, record.confirmation_parse_proof_ref),
        approval=approval,
        approval_window=_approval_window(record),
        final=record.final,
        step_id=record.step_id,
        outputs=load_outputs(documents, record.step_inputs_ref),
        covered_by=record.confirmation_parse_proof_ref if rolled_back_id(record.step_id) is not None else None,
        gates_version=record.gates_version,
    )


def _approval_window(record: DecisionRecord) -> ApprovalWindow | None:
    asked_at, decided_at = record.approval_asked_at, record.approval_decided_at
    return ApprovalWindow(asked_at, record.approval_answered_at, decided_at) if asked_at and decided_at else None


class RecreatedDecision(NamedTuple):
    """A decision that the replay has confirmed, and its evidence."""

    record: DecisionRecord
    evidence: Evidence


def replay_decision(connection: Connection, past: PastRules, tenant_id: str, ref: str) -> RecreatedDecision:
    """Make a stored decision again, and return it with its evidence.

    Raises:
        RefusedError: The result differs from the record (reason `REPLAY_FAILED`), or a document is missing.
    """
    record = load_decision(connection, tenant_id, ref)
    documents = DocumentStore(connection, tenant_id)
    documents.fetch(_refs(record))
    evidence = load_evidence(documents, past, tenant_id, record)
    verdict = decide(evidence)
    if difference := _difference(evidence, verdict, record):
        raise RefusedError(
            Reason.REPLAY_FAILED,
            f"the replay of the decision differs from the record: {difference}",
            where=f"decision {ref}",
            next_step="Keep the database as it is and run `remit ledger verify`.",
        )
    return RecreatedDecision(record, evidence)


def replay_goal(
    connection: Connection, keyring: Callable[[], Keyring], past: PastRules, tenant_id: str, correlation_id: str
) -> Iterator[ReplayedDecision]:
    """Replay every decision about a goal, in order. A decision that cannot be replayed is reported with the reason."""
    history: History = read_history(connection, keyring, tenant_id, correlation_id)
    problems: Mapping[int, str] = {}
    names: Mapping[str, str] = {}
    if history.has_several_steps and history.decision_ref is not None:
        documents = DocumentStore(connection, tenant_id)
        record = load_decision(connection, tenant_id, history.decision_ref)
        problems = find_move_problems(documents, past, record, history.steps)
        names = step_names(documents, past, record)
    for recorded in history.steps:
        if recorded.row.dispatch_decision_hash is not None:
            replayed = _replayed(connection, keyring, past, tenant_id, recorded)
        elif recorded.row.step_id == WHOLE or recorded.seq in problems:
            replayed = _replayed_move(connection, keyring, tenant_id, recorded)
        else:
            continue
        why = replayed.why or problems.get(recorded.seq, "")
        step_id = recorded.row.step_id if history.has_several_steps else None
        yield replace(replayed, agrees=not why, why=why, step_id=step_id, step=names.get(step_id or ""))


def _replayed(
    connection: Connection, keyring: Callable[[], Keyring], past: PastRules, tenant_id: str, recorded: Recorded
) -> ReplayedDecision:
    row, why, because = recorded.row, "", ""
    ref = row.dispatch_decision_hash or ""
    try:
        require_recorded(connection, keyring, tenant_id, recorded)
        record = replay_decision(connection, past, tenant_id, ref).record
        why, because = _row_differs(recorded, record), record.why or ""
    except RemitError as problem:
        why = str(problem)
    dispatched = row.event in {"ACCESS_ALLOWED", "DISPATCHED", "RETRIED", "SUCCEEDED", "FAILED"}
    code = row.reason_code or ""
    return ReplayedDecision(row.event_id, recorded.created_at, row.event, code, dispatched, ref, not why, why, because)


def _replayed_move(
    connection: Connection, keyring: Callable[[], Keyring], tenant_id: str, recorded: Recorded
) -> ReplayedDecision:
    """Return a row that no decision of the gates made: the begin or the end of a goal with several steps."""
    row, why = recorded.row, ""
    try:
        require_recorded(connection, keyring, tenant_id, recorded)
    except RemitError as problem:
        why = str(problem)
    code, ref = row.reason_code or "", row.finder_packet_ref or ""
    return ReplayedDecision(row.event_id, recorded.created_at, row.event, code, False, ref, not why, why)


def _row_differs(recorded: Recorded, record: DecisionRecord) -> str:
    """Compare the references in the row with those in the decision. The row repeats them only for searches."""
    names = (
        "correlation_id",
        "step_id",
        "idempotency_key",
        "finder_packet_ref",
        "policy_snapshot_ref",
        "catalog_snapshot_ref",
        "artifact_fingerprint_bundle_ref",
        "access_decision_ref",
        "confirmation_parse_proof_ref",
        "rollback_plan_ref",
    )
    other = [name for name in names if getattr(recorded.row, name) != getattr(record, name)]
    return f"the row and the decision differ in: {', '.join(other)}" if other else ""


def _difference(evidence: Evidence, verdict: GateVerdict, record: DecisionRecord) -> str:
    if (verdict.event, verdict.reason_code) != (record.event, record.reason_code):
        return f"{verdict.event} ({verdict.reason_code}) instead of {record.event} ({record.reason_code})"
    if verdict.target is None:
        return ""
    step = build_step(evidence, verdict.target)
    if idempotency_key(evidence.correlation_id, step) != record.idempotency_key:
        return "another idempotency key"
    if step.rollback_plan_ref != record.rollback_plan_ref:
        return "another rollback plan"
    if verdict.dispatches:
        proof = record.confirmation_parse_proof_ref if step.confirmation_required else None
        bundle = record.artifact_fingerprint_bundle_ref or ""
        envelope = build_envelope(evidence, verdict.target, step, proof_ref=proof, artifacts_ref=bundle)
        if envelope.digest() != record.envelope_ref:
            return "another dispatch envelope"
    return ""


def _refs(record: DecisionRecord) -> tuple[str | None, ...]:
    """Return the references of all documents that a valid decision needs."""
    return (
        record.finder_packet_ref,
        record.catalog_snapshot_ref,
        record.policy_snapshot_ref,
        lexicon_name(record.lexicon_ref),
        record.confirmation_parse_proof_ref,
        record.goal_ref,
        record.plan_ref,
        record.artifact_fingerprint_bundle_ref,
        record.access_decision_ref,
        record.envelope_ref,
        record.step_inputs_ref,
        record.preview_ref,
    )


def load_outputs(documents: DocumentStore, ref: str | None) -> Outputs:
    """Load the outputs of earlier steps that a decision used. Empty if it used none."""
    return {} if ref is None else documents.tree(ref)["outputs"]


def load_reply(documents: DocumentStore, ref: str | None) -> ConfirmationReply | None:
    """Load the user's answer that a decision used, or None if it used none."""
    if ref is None:
        return None
    proof = documents.tree(ref)
    return ConfirmationReply(
        str(proof["answer"]), str(proof["asked_at"]), str(proof["answered_at"]), int(proof["number"])
    )
