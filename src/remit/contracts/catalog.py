"""The contracts by name, as in `remit schema NAME`, and their shipped JSON Schemas. Imports no model."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from remit.errors import Misuse, Reason

# Where each top-level contract lives, in text: reading one schema loads no model.
CONTRACTS: Final[Mapping[str, str]] = {
    "task-manifest": "task:TaskManifest",
    "lease-token": "task:LeaseToken",
    "execution-result": "result:ExecutionResult",
    "plan": "plan:Plan",
    "system-config": "config:SystemConfig",
    "envelope": "envelope:Envelope",
    "execution-report": "report:ExecutionReport",
    "change-log": "change_log:ChangeLog",
    "rollback-manifest": "rollback_manifest:RollbackManifest",
    "error-response": "error_response:ErrorResponse",
    "completion-status": "status:CompletionStatus",
    "status-update": "status:StatusUpdate",
    "plan-preview": "plan_preview:PlanPreviewDocument",
    "plan-outcome": "outcome:PlanOutcome",
    "plan-refusal": "outcome:PlanRefusal",
    "rollback-order": "rollback_order:RollbackOrder",
    "rollback-outcome": "outcome:RollbackOutcome",
    "browser-action": "browser:Action",
    "token-claims": "browser:TokenClaims",
    "http-preview": "browser:HTTPPreview",
    "approval-request": "browser:ApprovalRequest",
    "approval": "browser:Approval",
    "approval-decision": "browser:ApprovalDecision",
    "action-result": "browser:ActionResult",
    "action-output": "browser_output:ActionOutput",
    "audit-record": "browser:AuditRecord",
    "executor-error": "browser_errors:EXECUTOR_ERROR",
    "call-preview": "call:CallPreview",
    "call-result": "call:CallResult",
    "call-answer": "call:CallAnswer",
    "catalogue-file": "simulation:CatalogueFile",
    "finder-packet": "packets:FINDER_PACKET",
    "agent-goal-request": "goal:AgentGoalRequest",
    "agent-execution-plan": "goal:AgentExecutionPlan",
    "agent-step": "goal:AgentStep",
    "agent-execution-outcome": "goal:AgentExecutionOutcome",
    "dispatch-envelope": "dispatch:DispatchEnvelope",
    "simulation-outcome": "dispatch:SimulationOutcome",
    "slo-waivers": "slo:SloWaivers",
    "ledger-entry": "ledger:LedgerEntry",
    "ledger-head": "ledger:LedgerHead",
    "bundle-header": "ledger:BundleHeader",
    "bundle-trailer": "ledger:BundleTrailer",
}

FOLDER: Final = files("remit.contracts") / "schema_files"

# A contract by its title; a union's constant is spelt in capitals, FINDER_PACKET for FinderPacket.
_BY_TITLE: Final = {where.partition(":")[2].replace("_", "").lower(): name for name, where in CONTRACTS.items()}


def schema_name(title: str) -> str:
    """The name of the contract with this title, or an empty string: some records inside Remit have no schema."""
    return _BY_TITLE.get(title.lower(), "")


def load_schema(name: str) -> dict[str, Any]:
    """The shipped schema of one contract."""
    if name not in CONTRACTS:
        raise Misuse(
            Reason.MISUSE, f"there is no contract named {name!r}", next_step=f"Use one of {', '.join(CONTRACTS)}."
        )
    schema: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_bytes())
    return schema
