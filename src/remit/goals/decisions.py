"""A decision as a document: the references of its inputs, and its result. Its digest is the decision's hash.

The references lead to everything that `decide` needs. So anyone who can read the ledger can make the decision again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from pydantic import JsonValue

from remit.contracts.base import ExtendedContract
from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.error_codes import AgentCode
from remit.contracts.goals.goal import AgentGoalRequest, AgentStep
from remit.contracts.goals.packets import ClarifyPacket
from remit.goals.access.policy import AccessAnswer, AccessPolicy
from remit.goals.binding.fields import fingerprint
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.composite.layout import Outputs
from remit.goals.confirmation.parser import Lexicon
from remit.goals.gates import NO_WORDS, ConfirmationReply, Evidence, GateVerdict, build_access_question
from remit.goals.planner import artifacts, build_envelope, build_plan, build_step, idempotency_key
from remit.ledger.documents import StoredDocument
from remit.masking import mask_text

MAX_WHY: Final = 1_000


class DecisionRecord(ExtendedContract):
    """The stored references of one decision. A reference is null if the gates stopped before it."""

    added_later: ClassVar[frozenset[str]] = frozenset({"preview_ref", "step_inputs_ref"})

    goal_ref: str
    correlation_id: str
    step_id: str
    user_id: str
    language_tag: str
    finder_packet_ref: str
    policy_snapshot_ref: str
    catalog_snapshot_ref: str
    lexicon_ref: str
    planned: str | None
    plan_ref: str | None
    artifact_fingerprint_bundle_ref: str | None
    confirmation_parse_proof_ref: str | None
    access_decision_ref: str | None
    approval: str | None
    final: bool
    idempotency_key: str
    rollback_plan_ref: str | None
    envelope_ref: str | None
    event: str
    reason_code: str
    approval_asked_at: str | None = None
    approval_answered_at: str | None = None
    approval_decided_at: str | None = None
    why: str | None = None
    """The reason in words, masked, for people. A replay does not compare it. Older decisions have none."""
    step_inputs_ref: str | None = None
    """The document with the outputs of earlier steps. Null for a goal with a single step."""
    preview_ref: str | None = None
    """The document with the preview that the user could see before the confirmation. Null if there was none."""
    gates_version: int = 1
    """The version of the rules of the gates. Older decisions have none, and were made by the first version."""


@dataclass(frozen=True, slots=True)
class GoalDecision:
    """A verdict with all documents that are stored about it."""

    verdict: GateVerdict
    record: DecisionRecord
    ref: str
    documents: tuple[StoredDocument, ...]
    step: AgentStep | None
    envelope: DispatchEnvelope | None
    is_answered: bool = True
    """Whether its confirmation, if there is one, has words of the user. A question that expires has none."""

    @property
    def reason_code(self) -> AgentCode:
        return self.verdict.reason_code


def goal_document(goal: AgentGoalRequest, packet_ref: str) -> StoredDocument:
    """Return the document that identifies a goal: the same for each repetition and after each answer.

    It is masked, and masking it again changes nothing. A caller who continues a goal has only this form of its text.
    The counter of questions is left out if it is zero or follows from the packet, as in the documents of older goals.
    """
    follows = isinstance(goal.sim_finder_packet, ClarifyPacket) or goal.attempt_counter == 0
    return StoredDocument(
        "goal",
        {
            **({} if follows else {"attempt_counter": goal.attempt_counter}),
            "correlation_id": goal.correlation_id,
            "tenant_id": goal.tenant_id,
            "user_id": goal.user_id,
            "thread_id": goal.thread_id,
            "utterance": mask_text(goal.raw_user_utterance),
            "language_tag": goal.language_tag,
            "normalized_intent": mask_text(goal.normalized_intent),
            "finder_packet_ref": packet_ref,
            "idempotency_key": goal.idempotency_key,
        },
    )


def stored_attempts(goal: Mapping[str, Any], packet: Mapping[str, Any]) -> int:
    """Return the counter of questions of a stored goal, from its document and that of its packet."""
    asked = int(packet["attempt"]) - 1 if packet.get("packet_type") == "clarify" else 0
    return int(goal.get("attempt_counter", asked))


class GoalDocuments(NamedTuple):
    """The stored packet and the stored goal. They never change while the goal exists."""

    packet: StoredDocument
    goal: StoredDocument


def build_goal_documents(goal: AgentGoalRequest) -> GoalDocuments:
    packet = StoredDocument("packet", goal.sim_finder_packet.tree())
    return GoalDocuments(packet, goal_document(goal, packet.ref))


def proof_document(evidence: Evidence, verdict: GateVerdict, answered: ConfirmationReply) -> StoredDocument:
    """Return the document about an answer and how it was read. An accepted answer is stored exactly, others masked."""
    parsed = verdict.parsed
    return StoredDocument(
        "confirmation",
        {
            "correlation_id": evidence.correlation_id,
            "step_id": evidence.step_id,
            "user_id": evidence.user_id,
            "language_tag": evidence.language_tag,
            "language": parsed.language if parsed else "",
            "accepted_token": parsed.token if parsed and parsed.verdict == "CONFIRMED" else None,
            "verdict": parsed.verdict if parsed else "AMBIGUOUS",
            "confirm_lexicon_version_ref": evidence.lexicon.ref,
            "answer": mask_text(answered.text),
            "asked_at": answered.asked_at,
            "answered_at": answered.answered_at,
            "number": answered.number,
        },
    )


def access_document(evidence: Evidence, verdict: GateVerdict, at: str) -> StoredDocument | None:
    target = verdict.target
    if verdict.access is None or target is None:
        return None
    question = build_access_question(evidence, target.simulation, target.fields)
    return StoredDocument(
        "access",
        {
            "correlation_id": evidence.correlation_id,
            "step_id": evidence.step_id,
            "tenant_id": question.tenant_id,
            "user_id": question.user_id,
            "access_action": question.access_action,
            "simulation_id": question.simulation_id,
            "fields_fingerprint": fingerprint(question.fields),
            "policy_snapshot_ref": evidence.policy.ref,
            "verdict": verdict.access.verdict,
            "reason_code": verdict.access.reason_code,
            "policies": list(verdict.access.policies),
            "decided_at": at,
        },
    )


def snapshot_documents(catalogue: Catalogue, policy: AccessPolicy, lexicon: Lexicon) -> tuple[StoredDocument, ...]:
    return (
        StoredDocument("catalogue", catalogue.document()),
        StoredDocument("policy", policy.document()),
        StoredDocument("lexicon", lexicon.document()),
    )


def build_decision(
    goal: AgentGoalRequest,
    goal_documents: GoalDocuments,
    evidence: Evidence,
    verdict: GateVerdict,
    supporting_documents: tuple[StoredDocument, ...],
    at: str,
    preview_ref: str | None = None,
) -> GoalDecision:
    """Build all documents that a verdict leaves in the ledger.

    `supporting_documents` are the snapshots of the evidence, which are made once, and the Finder's proof of its packet.
    `preview_ref` is the preview that the user could see. Its effect is the only one that may be dispatched.
    """
    packet, goal_stored = goal_documents
    documents = [*supporting_documents, packet, goal_stored]
    proof = inputs = None
    if evidence.answered is not None and evidence.covered_by is None:
        proof = proof_document(evidence, verdict, evidence.answered)
    if evidence.outputs:
        inputs = StoredDocument("step_inputs", {"step_id": evidence.step_id, "outputs": _plain(evidence.outputs)})
    proof_ref = proof.ref if proof is not None else evidence.covered_by
    access = access_document(evidence, verdict, at)
    documents += [one for one in (proof, inputs, access) if one is not None]
    step = bundle = plan = envelope = None
    target = verdict.target
    if target is not None:
        step = build_step(evidence, target)
        artifacts_tree = artifacts(target, evidence.catalogue, evidence.lexicon, evidence.packet.finder_version)
        bundle = StoredDocument("artifacts", artifacts_tree)
        plan = StoredDocument("plan", build_plan(evidence, target, step, packet.ref, at).tree())
        documents += [bundle, plan]
    if verdict.dispatches and target is not None and step is not None and bundle is not None:
        proven = proof_ref if step.confirmation_required else None
        envelope = build_envelope(evidence, target, step, proof_ref=proven, artifacts_ref=bundle.ref)
        documents.append(StoredDocument("envelope", envelope.tree()))
    window = evidence.approval_window
    record = DecisionRecord(
        goal_ref=goal_stored.ref,
        correlation_id=evidence.correlation_id,
        step_id=evidence.step_id,
        user_id=evidence.user_id,
        language_tag=evidence.language_tag,
        finder_packet_ref=packet.ref,
        policy_snapshot_ref=evidence.policy.ref,
        catalog_snapshot_ref=evidence.catalogue.ref,
        lexicon_ref=evidence.lexicon.ref,
        planned=evidence.planned,
        plan_ref=plan.ref if plan else None,
        artifact_fingerprint_bundle_ref=bundle.ref if bundle else None,
        confirmation_parse_proof_ref=proof_ref,
        access_decision_ref=access.ref if access else None,
        approval=evidence.approval,
        final=evidence.final,
        idempotency_key=idempotency_key(evidence.correlation_id, step) if step else goal.idempotency_key,
        rollback_plan_ref=step.rollback_plan_ref if step else None,
        envelope_ref=envelope.digest() if envelope else None,
        event=verdict.event,
        reason_code=verdict.reason_code,
        approval_asked_at=window.asked_at if window else None,
        approval_answered_at=window.answered_at if window else None,
        approval_decided_at=window.decided_at if window else None,
        why=_why(verdict),
        step_inputs_ref=inputs.ref if inputs else None,
        preview_ref=preview_ref,
        gates_version=evidence.gates_version,
    )
    stored = StoredDocument("decision", record.tree())
    answered = evidence.answered is not None and evidence.answered.text != NO_WORDS
    return GoalDecision(verdict, record, stored.ref, (*documents, stored), step, envelope, answered)


@dataclass(frozen=True, slots=True)
class FinalRefusal:
    """A refusal of the final gate by the current rules. It is a decision of its own and can be replayed."""

    record: DecisionRecord
    ref: str
    documents: tuple[StoredDocument, ...]
    access: AccessAnswer | None


def final_gate_refusal(
    record: DecisionRecord, evidence: Evidence, verdict: GateVerdict, snapshots: tuple[StoredDocument, ...], at: str
) -> FinalRefusal:
    """Build the refusal of the final gate. `record` is the earlier decision that allowed the step."""
    step = build_step(evidence, verdict.target) if verdict.target is not None else None
    access = access_document(evidence, verdict, at)
    made = record.model_copy(
        update={
            "policy_snapshot_ref": evidence.policy.ref,
            "catalog_snapshot_ref": evidence.catalogue.ref,
            "planned": evidence.planned,
            "final": evidence.final,
            "access_decision_ref": access.ref if access is not None else None,
            "idempotency_key": idempotency_key(evidence.correlation_id, step) if step else record.idempotency_key,
            "rollback_plan_ref": step.rollback_plan_ref if step else None,
            "envelope_ref": None,
            "event": verdict.event,
            "reason_code": verdict.reason_code,
            "why": _why(verdict),
        }
    )
    stored = StoredDocument("decision", made.tree())
    documents = [*snapshots, stored] if access is None else [*snapshots, access, stored]
    return FinalRefusal(made, stored.ref, tuple(documents), verdict.access)


def _plain(outputs: Outputs) -> dict[str, dict[str, JsonValue]]:
    return {name: dict(values) for name, values in outputs.items()}


def _why(verdict: GateVerdict) -> str | None:
    return mask_text(verdict.why)[:MAX_WHY] or None
