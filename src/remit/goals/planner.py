"""Builds a plan from a match packet, and the dispatch envelope of a step from the plan. Pure.

A correlation has exactly one plan, because the id of the plan is derived from it. The plan has one step, or the steps
of a composite simulation in the order in which they run.
"""

from typing import Any, Final

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.goal import KEY_RECIPE, AgentExecutionPlan, AgentStep
from remit.contracts.goals.packets import SimulationMatchPacket
from remit.core.canonical import digest
from remit.goals.binding.fields import fingerprint
from remit.goals.catalogue.catalogue import Catalogue, CatalogueEntry
from remit.goals.composite.layout import PlannedStep, StepTarget, planned_steps, rolled_back_id
from remit.goals.confirmation.parser import Lexicon
from remit.goals.gates import Evidence, needs_confirmation, rollback_ref
from remit.version import __version__

COMPOSITE: Final = "composite"
"""The entry of the fingerprint bundle that names the composite of a step, by its id and digest."""


def plan_id_of(tenant_id: str, correlation_id: str) -> str:
    return f"plan-{digest([tenant_id, correlation_id]).removeprefix('sha256:')[:40]}"


def idempotency_key(correlation_id: str, step: AgentStep) -> str:
    """Return the key, made from exactly the five parts of the recipe, in their order."""
    parts = {"correlation_id": correlation_id, **step.tree()}
    return digest([parts[name] for name in KEY_RECIPE])


def artifacts(target: StepTarget, catalogue: Catalogue, lexicon: Lexicon, finder_version: str) -> dict[str, Any]:
    """Return the fingerprint bundle: the digest or version of everything that the step is made from."""
    entry, whole = target.entry, target.whole
    return {
        "simulation_id": entry.simulation.id,
        "simulation_version": entry.simulation.version,
        "simulation_digest": entry.digest,
        "rollback": rollback_ref(entry.simulation, catalogue),
        "lexicon": lexicon.ref,
        "finder_version": finder_version,
        "remit_version": __version__,
        **({COMPOSITE: {"simulation_id": whole.simulation.id, "digest": whole.digest}} if whole is not None else {}),
    }


def planned_digest(artifacts_tree: dict[str, Any]) -> str:
    """Return the digest of the packet's simulation from a fingerprint bundle."""
    composite = artifacts_tree.get(COMPOSITE)
    return str(composite["digest"] if composite is not None else artifacts_tree["simulation_digest"])


def build_step(evidence: Evidence, target: StepTarget) -> AgentStep:
    return _step(evidence, target.step, target.entry, tuple(sorted(target.fields)), fingerprint(target.fields))


def _step(
    evidence: Evidence, planned: PlannedStep, entry: CatalogueEntry, fields: tuple[str, ...], fields_fingerprint: str
) -> AgentStep:
    simulation = entry.simulation
    return AgentStep(
        step_id=planned.step_id,
        simulation_id=simulation.id,
        required_fields=fields,
        required_fields_fingerprint=fields_fingerprint,
        policy_snapshot_version=evidence.policy.ref,
        confirmation_required=needs_confirmation(simulation),
        access_action=simulation.access_action,
        idempotency_key_recipe=KEY_RECIPE,
        retry_policy=planned.retry,
        rollback_plan_ref=rollback_ref(simulation, evidence.catalogue),
    )


def _all_steps(evidence: Evidence, target: StepTarget, step: AgentStep) -> tuple[AgentStep, ...]:
    """Return the steps of the plan. The values of another step can be unknown yet, so its mapping stands for them."""
    if target.whole is None:
        return (step,)
    steps = []
    for planned in planned_steps(target.whole, evidence.catalogue):
        entry = evidence.catalogue.find(planned.simulation_id)
        if planned.step_id == step.step_id:
            steps.append(step)
        elif entry is not None and planned.definition is not None:
            mapping = dict(planned.definition.fields)
            steps.append(_step(evidence, planned, entry, tuple(sorted(mapping)), digest({"mapping": mapping})))
    return tuple(steps)


def build_plan(
    evidence: Evidence, target: StepTarget, step: AgentStep, packet_ref: str, created_at: str
) -> AgentExecutionPlan:
    steps = _all_steps(evidence, target, step)
    return AgentExecutionPlan(
        plan_id=plan_id_of(evidence.tenant_id, evidence.correlation_id),
        finder_packet_ref=packet_ref,
        ordered_steps=steps,
        required_confirmations=tuple(each.step_id for each in steps if each.confirmation_required),
        risk_level=(target.whole or target.entry).simulation.risk,
        access_actions_required=tuple(dict.fromkeys(each.access_action for each in steps)),
        policy_snapshot_ref=evidence.policy.ref,
        created_at=created_at,
    )


def build_envelope(
    evidence: Evidence, target: StepTarget, step: AgentStep, *, proof_ref: str | None, artifacts_ref: str
) -> DispatchEnvelope:
    """Build the envelope. The id of the simulation comes from the packet, and from no other place."""
    return DispatchEnvelope(
        correlation_id=evidence.correlation_id,
        tenant_id=evidence.tenant_id,
        user_id=evidence.user_id,
        step_id=step.step_id,
        simulation_id=_simulation_id(evidence, target),
        required_fields=dict(target.fields),
        confirmation_proof_ref=proof_ref,
        access_action=step.access_action,
        idempotency_key=idempotency_key(evidence.correlation_id, step),
        policy_snapshot_ref=evidence.policy.ref,
        artifact_fingerprint_bundle_ref=artifacts_ref,
        rollback_plan_ref=step.rollback_plan_ref,
        undoes_step=rolled_back_id(step.step_id),
    )


def _simulation_id(evidence: Evidence, target: StepTarget) -> str:
    packet = evidence.packet
    if not isinstance(packet, SimulationMatchPacket):
        raise TypeError("a plan can only be made from a match packet")
    if target.whole is None:
        return packet.candidates[0].simulation_id
    return next(each.simulation for each in packet.steps if each.step == target.step.name)
