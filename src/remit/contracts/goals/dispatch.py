"""The dispatch envelope from the agent core to the SimulationExecutor, and the outcome that comes back."""

from remit.contracts.base import Contract, Identifier, JsonObject, Many, ReasonCode


class DispatchEnvelope(Contract):
    """One step, to be executed.

    `simulation_id` comes from the Finder's packet. This model does not check whether a confirmation or a rollback plan
    is needed: that depends on the impact of the simulation, which the gates know.
    """

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


class SimulationOutcome(Contract):
    """The result from the SimulationExecutor. It is stored and passed on unchanged."""

    payload: JsonObject
    reason_code: ReasonCode
    audit_refs: Many[Identifier]
    proof_refs: Many[Identifier]
