"""The dispatch envelope from the agent core to the SimulationExecutor, and the outcome that comes back."""

from typing import ClassVar

from pydantic import Field

from remit.contracts.base import Contract, ExtendedContract, Identifier, JsonObject, Many, ReasonCode


class DispatchEnvelope(ExtendedContract):
    """One step, to be executed.

    `simulation_id` comes from the Finder's packet. This model does not check whether a confirmation or a rollback plan
    is needed: that depends on the impact of the simulation, which the gates know.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"undoes_step"})

    correlation_id: Identifier
    tenant_id: Identifier
    user_id: Identifier
    step_id: Identifier
    simulation_id: Identifier
    required_fields: JsonObject
    confirmation_proof_ref: Identifier | None = None
    access_action: Identifier
    idempotency_key: Identifier
    policy_snapshot_ref: Identifier
    artifact_fingerprint_bundle_ref: Identifier
    rollback_plan_ref: Identifier | None = None
    undoes_step: Identifier | None = Field(
        default=None, description="For a rollback of a goal with several steps: the step that it rolls back."
    )


class SimulationOutcome(Contract):
    """The result from the SimulationExecutor. It is stored and passed on unchanged."""

    payload: JsonObject
    reason_code: ReasonCode
    audit_refs: Many[Identifier]
    proof_refs: Many[Identifier]
