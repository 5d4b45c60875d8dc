"""Builds a plan of one step from a match packet, and the dispatch envelope from the plan. Pure.

A correlation has exactly one plan, because the id of the plan is derived from it. A plan may have several steps in a
later version, each with its own id. At present it always has one.
"""

from typing import Any, Final

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.goal import KEY_RECIPE, AgentExecutionPlan, AgentStep, StepRetryPolicy
from remit.contracts.goals.packets import SimulationMatchPacket
from remit.core.canonical import digest
from remit.goals.binding.fields import fingerprint
from remit.goals.catalogue.catalogue import Catalogue, CatalogueEntry
from remit.goals.confirmation.parser import Lexicon
from remit.goals.gates import Evidence, needs_confirmation, rollback_ref
from remit.version import __version__

FIRST_STEP: Final = "step-1"
_ONCE: Final = StepRetryPolicy(max_attempts=1)
"""One attempt. A caller may repeat a dispatch any number of times; its effect happens once."""


def plan_id_of(tenant_id: str, correlation_id: str) -> str:
    return f"plan-{digest([tenant_id, correlation_id]).removeprefix('sha256:')[:40]}"


def idempotency_key(correlation_id: str, step: AgentStep) -> str:
    """Return the key, made from exactly the five parts of the recipe, in their order."""
    parts = {"correlation_id": correlation_id, **step.tree()}
    return digest([parts[name] for name in KEY_RECIPE])


def artifacts(entry: CatalogueEntry, catalogue: Catalogue, lexicon: Lexicon, finder_version: str) -> dict[str, Any]:
    """Return the fingerprint bundle: the digest or version of everything that the step is made from."""
    return {
        "simulation_id": entry.simulation.id,
        "simulation_version": entry.simulation.version,
        "simulation_digest": entry.digest,
        "rollback": rollback_ref(entry.simulation, catalogue),
        "lexicon": lexicon.ref,
        "finder_version": finder_version,
        "remit_version": __version__,
    }


def build_step(evidence: Evidence, entry: CatalogueEntry) -> AgentStep:
    simulation = entry.simulation
    fields = _fields(evidence)
    return AgentStep(
        step_id=FIRST_STEP,
        simulation_id=simulation.id,
        required_fields=tuple(sorted(fields)),
        required_fields_fingerprint=fingerprint(fields),
        policy_snapshot_version=evidence.policy.ref,
        confirmation_required=needs_confirmation(simulation),
        access_action=simulation.access_action,
        idempotency_key_recipe=KEY_RECIPE,
        retry_policy=_ONCE,
        rollback_plan_ref=rollback_ref(simulation, evidence.catalogue),
    )


def build_plan(evidence: Evidence, step: AgentStep, packet_ref: str, risk: Any, created_at: str) -> AgentExecutionPlan:
    return AgentExecutionPlan(
        plan_id=plan_id_of(evidence.tenant_id, evidence.correlation_id),
        finder_packet_ref=packet_ref,
        ordered_steps=(step,),
        required_confirmations=(step.step_id,) if step.confirmation_required else (),
        risk_level=risk,
        access_actions_required=(step.access_action,),
        policy_snapshot_ref=evidence.policy.ref,
        created_at=created_at,
    )


def build_envelope(
    evidence: Evidence, step: AgentStep, *, proof_ref: str | None, artifacts_ref: str
) -> DispatchEnvelope:
    """Build the envelope. The id of the simulation comes from the packet, and from no other place."""
    return DispatchEnvelope(
        correlation_id=evidence.correlation_id,
        tenant_id=evidence.tenant_id,
        user_id=evidence.user_id,
        step_id=step.step_id,
        simulation_id=_packet(evidence).candidates[0].simulation_id,
        required_fields=_fields(evidence),
        confirmation_proof_ref=proof_ref,
        access_action=step.access_action,
        idempotency_key=idempotency_key(evidence.correlation_id, step),
        policy_snapshot_ref=evidence.policy.ref,
        artifact_fingerprint_bundle_ref=artifacts_ref,
        rollback_plan_ref=step.rollback_plan_ref,
    )


def _packet(evidence: Evidence) -> SimulationMatchPacket:
    if not isinstance(evidence.packet, SimulationMatchPacket):
        raise TypeError("a plan can only be made from a match packet")
    return evidence.packet


def _fields(evidence: Evidence) -> dict[str, Any]:
    return dict(_packet(evidence).fields)
