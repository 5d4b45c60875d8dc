"""Between the agent core and the SimulationExecutor: the dispatch envelope, and what comes back."""

from remit.contracts.base import Contract, Identifier, JsonObject, Many, ReasonCode


class DispatchEnvelope(Contract):
    """One step, handed over for execution.

    `simulation_id` comes from the Finder's packet. Whether a confirmation or a rollback plan is needed depends on the
    simulation's class, and is decided where that class is known.
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
    """What the SimulationExecutor said. Stored and passed on unchanged."""

    payload: JsonObject
    reason_code: ReasonCode
    audit_refs: Many[Identifier]
    proof_refs: Many[Identifier]
