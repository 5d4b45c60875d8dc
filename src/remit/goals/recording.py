"""Records a decision: its documents, its rows and the projection, in one transaction."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.packets import SimulationMatchPacket
from remit.core.errors import Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import uuid7
from remit.goals.access.policy import AccessAnswer
from remit.goals.composite.layout import WHOLE, planned_steps
from remit.goals.decisions import DecisionRecord, FinalRefusal, GoalDecision
from remit.goals.gates import Evidence
from remit.goals.planner import plan_id_of
from remit.ledger.documents import store_documents
from remit.ledger.goal_queries import Recorded, find_position
from remit.ledger.goal_tables import AccessRow, ConfirmationRow, StepRow, append_agent_row
from remit.ledger.projections import append_step
from remit.ledger.writer import Batch
from remit.store.connection import Connection

ANSWERABLE: Final = frozenset({"CONFIRMATION_REQUESTED", "ACCESS_ALLOWED"})
"""Events after which a new answer is used: an answer to the question, or a refusal before the dispatch has started."""


class TransactionHook(Protocol):
    """A function that runs in the transaction of a decision, before any write. If it raises, nothing is written."""

    def __call__(self, batch: Batch, *, is_first: bool) -> None: ...


def no_op_hook(batch: Batch, *, is_first: bool) -> None:
    """Do nothing. The hook of callers that have nothing to add to a decision."""


def step_row(batch: Batch, tenant_id: str, decision: GoalDecision, event: str) -> StepRow:
    """Build the row of one event of the step, with all references of the decision that led to it."""
    record = decision.record
    return StepRow(
        event_id=uuid7(batch.time_in(tenant_id)),
        correlation_id=record.correlation_id,
        plan_id=plan_id_of(tenant_id, record.correlation_id),
        step_id=record.step_id,
        event=event,
        idempotency_key=record.idempotency_key,
        simulation_id=decision.step.simulation_id if decision.step else None,
        finder_packet_ref=record.finder_packet_ref,
        policy_snapshot_ref=record.policy_snapshot_ref,
        catalog_snapshot_ref=record.catalog_snapshot_ref,
        artifact_fingerprint_bundle_ref=record.artifact_fingerprint_bundle_ref,
        access_decision_ref=record.access_decision_ref,
        confirmation_parse_proof_ref=record.confirmation_parse_proof_ref,
        rollback_plan_ref=record.rollback_plan_ref,
    )


def record_decision(
    batch: Batch,
    tenant_id: str,
    decision: GoalDecision,
    last: Recorded | None,
    sequence: Mapping[str, str] | None = None,
) -> StepRow:
    """Record a decision, and return the row of the decided event.

    Args:
        batch: The transaction.
        tenant_id: The tenant of the goal.
        decision: The decision.
        last: The last event of the step, as the decision knows it.
        sequence: The events that other steps of the goal must have for this step to begin. None for a single step.

    Raises:
        RefusedError: Another caller has advanced the goal since it was read.
    """
    verdict, record = decision.verdict, decision.record
    require_positions(batch, tenant_id, record.correlation_id, {record.step_id: last.seq if last is not None else None})
    before = last.row.event if last is not None else ""
    store_documents(batch, tenant_id, decision.documents)
    reach("goal.documents_kept")
    if sequence is not None and before == "":
        _begin_step(batch, tenant_id, decision, sequence)
    is_confirmed = verdict.parsed is not None and verdict.parsed.verdict == "CONFIRMED"
    if before == "" and decision.step is not None:
        append_step(batch, tenant_id, step_row(batch, tenant_id, decision, "PLANNED"))
    if (
        record.confirmation_parse_proof_ref is not None
        and verdict.parsed is not None
        and before in ANSWERABLE
        and decision.is_answered
    ):
        append_agent_row(batch, tenant_id, _confirmation(tenant_id, decision))
        if is_confirmed and verdict.reason_code != "CONFIRMATION_EXPIRED":
            append_step(batch, tenant_id, step_row(batch, tenant_id, decision, "CONFIRMED"))
    if verdict.access is not None and decision.step is not None:
        append_agent_row(batch, tenant_id, _access(tenant_id, record, verdict.access, decision.step.access_action))
    ending = replace(
        step_row(batch, tenant_id, decision, verdict.event),
        reason_code=verdict.reason_code,
        dispatch_decision_hash=decision.ref,
    )
    append_step(batch, tenant_id, ending)
    reach("goal.decided")
    return ending


def _begin_step(batch: Batch, tenant_id: str, decision: GoalDecision, sequence: Mapping[str, str]) -> None:
    """Begin a step of a goal with several steps: in its place in the sequence, and in no other."""
    plan_id = plan_id_of(tenant_id, decision.record.correlation_id)
    if not sequence:
        row = replace(step_row(batch, tenant_id, decision, "STARTED"), step_id=WHOLE, simulation_id=None)
        append_step(batch, tenant_id, row)
    for step_id, event in sequence.items():
        if find_position(batch.store, tenant_id, plan_id, step_id).event != event:
            raise _moved_error(decision.record.correlation_id)
    reach("goal.step_begun")


def require_in_sequence(connection: Connection, envelope: DispatchEnvelope, evidence: Evidence) -> None:
    """Require that a goal with several steps goes on, and that all steps before this one have succeeded.

    Call it in the transaction of the intent.
    """
    packet = evidence.packet
    if not isinstance(packet, SimulationMatchPacket) or not packet.steps:
        return
    whole = evidence.catalogue.find(packet.candidates[0].simulation_id)
    steps = planned_steps(whole, evidence.catalogue) if whole is not None else ()
    plan_id = plan_id_of(envelope.tenant_id, envelope.correlation_id)
    before = itertools.takewhile(lambda each: each.step_id != envelope.step_id, steps)
    wanted = {WHOLE: "STARTED", **{each.step_id: "SUCCEEDED" for each in before}}
    for step_id, event in wanted.items():
        if find_position(connection, envelope.tenant_id, plan_id, step_id).event != event:
            raise _moved_error(envelope.correlation_id)


def require_positions(
    batch: Batch, tenant_id: str, correlation_id: str, positions: Mapping[str, int | None] | Mapping[str, int]
) -> None:
    """Require that these steps still have the last events that the caller has read."""
    plan_id = plan_id_of(tenant_id, correlation_id)
    for step_id, seq in positions.items():
        if find_position(batch.store, tenant_id, plan_id, step_id).seq != seq:
            raise _moved_error(correlation_id)


def record_ending(batch: Batch, tenant_id: str, row: StepRow, seen: Mapping[str, int]) -> None:
    """Record how a goal with several steps ended, if its steps still have the events that the caller has read."""
    require_positions(batch, tenant_id, row.correlation_id, seen)
    append_step(batch, tenant_id, row)
    reach("goal.ending")


def _moved_error(correlation_id: str) -> RefusedError:
    return RefusedError(
        Reason.TRANSITION_INVALID,
        "another caller has advanced this goal",
        where=f"correlation {correlation_id}",
        next_step="Read its current state, and decide again.",
    )


def _confirmation(tenant_id: str, decision: GoalDecision) -> ConfirmationRow:
    record, parsed = decision.record, decision.verdict.parsed
    if parsed is None or record.confirmation_parse_proof_ref is None:
        raise TypeError("the decision has no answer of the user")
    return ConfirmationRow(
        confirmation_id=record.confirmation_parse_proof_ref,
        correlation_id=record.correlation_id,
        plan_id=plan_id_of(tenant_id, record.correlation_id),
        step_id=record.step_id,
        user_id=record.user_id,
        verdict=parsed.verdict,
        language_tag=record.language_tag,
        confirm_lexicon_version_ref=record.lexicon_ref,
        accepted_token=parsed.token if parsed.verdict == "CONFIRMED" else None,
    )


def record_final_refusal(
    batch: Batch, tenant_id: str, refused: FinalRefusal, allowed: StepRow, access_action: str
) -> None:
    """Record that the final gate refuses an allowed step, with the references and access decision of the refusal."""
    record = refused.record
    store_documents(batch, tenant_id, refused.documents)
    if refused.access is not None:
        append_agent_row(batch, tenant_id, _access(tenant_id, record, refused.access, access_action))
    row = replace(
        allowed,
        event_id=uuid7(batch.time_in(tenant_id)),
        event=record.event,
        reason_code=record.reason_code,
        idempotency_key=record.idempotency_key,
        policy_snapshot_ref=record.policy_snapshot_ref,
        catalog_snapshot_ref=record.catalog_snapshot_ref,
        access_decision_ref=record.access_decision_ref,
        rollback_plan_ref=record.rollback_plan_ref,
        dispatch_decision_hash=refused.ref,
    )
    append_step(batch, tenant_id, row)


def _access(tenant_id: str, record: DecisionRecord, answer: AccessAnswer, access_action: str) -> AccessRow:
    if record.access_decision_ref is None:
        raise TypeError("the decision has no access decision")
    return AccessRow(
        decision_id=record.access_decision_ref,
        correlation_id=record.correlation_id,
        plan_id=plan_id_of(tenant_id, record.correlation_id),
        step_id=record.step_id,
        user_id=record.user_id,
        access_action=access_action,
        verdict=answer.verdict,
        policy_snapshot_ref=record.policy_snapshot_ref,
        reason_code=answer.reason_code,
    )
