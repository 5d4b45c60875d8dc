"""The contracts by name, as in `remit schema NAME`, and their shipped JSON Schemas. Imports no model."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from remit.core.errors import Reason, UsageError

# The module and name of each top-level contract, as text, so that reading a schema loads no model.
CONTRACTS: Final[Mapping[str, str]] = {
    "task-manifest": "tasks.task:TaskManifest",
    "lease-token": "tasks.task:LeaseToken",
    "execution-result": "tasks.result:ExecutionResult",
    "plan": "plans.plan:Plan",
    "system-config": "config.config:SystemConfig",
    "envelope": "plans.envelope:Envelope",
    "execution-report": "plans.report:ExecutionReport",
    "change-log": "plans.change_log:ChangeLog",
    "rollback-manifest": "plans.rollback:RollbackManifest",
    "error-response": "plans.error_response:ErrorResponse",
    "completion-status": "plans.status:CompletionStatus",
    "status-update": "plans.status:StatusUpdate",
    "plan-preview": "plans.preview:PlanPreviewDocument",
    "plan-outcome": "plans.outcome:PlanOutcome",
    "plan-refusal": "plans.outcome:PlanRefusal",
    "rollback-order": "plans.rollback:RollbackOrder",
    "rollback-outcome": "plans.outcome:RollbackOutcome",
    "browser-action": "browser.browser:Action",
    "token-claims": "browser.browser:TokenClaims",
    "http-preview": "browser.browser:HTTPPreview",
    "approval-request": "browser.browser:ApprovalRequest",
    "approval": "browser.browser:Approval",
    "approval-decision": "browser.browser:ApprovalDecision",
    "action-result": "browser.browser:ActionResult",
    "action-output": "browser.output:ActionOutput",
    "audit-record": "browser.browser:AuditRecord",
    "executor-error": "browser.errors:EXECUTOR_ERROR",
    "call-preview": "calls.call:CallPreview",
    "call-result": "calls.call:CallResult",
    "call-answer": "calls.call:CallAnswer",
    "catalogue-file": "goals.simulation:CatalogueFile",
    "finder-packet": "goals.packets:FINDER_PACKET",
    "agent-goal-request": "goals.goal:AgentGoalRequest",
    "agent-execution-plan": "goals.goal:AgentExecutionPlan",
    "agent-step": "goals.goal:AgentStep",
    "agent-execution-outcome": "goals.goal:AgentExecutionOutcome",
    "dispatch-envelope": "goals.dispatch:DispatchEnvelope",
    "simulation-outcome": "goals.dispatch:SimulationOutcome",
    "slo-waivers": "goals.slo:SloWaivers",
    "ledger-entry": "ledger:LedgerEntry",
    "ledger-head": "ledger:LedgerHead",
    "bundle-header": "ledger:BundleHeader",
    "bundle-trailer": "ledger:BundleTrailer",
}

FOLDER: Final = files("remit.contracts") / "schema_files"

# The names by title. The constant of a union is in capitals: FINDER_PACKET for FinderPacket.
_BY_TITLE: Final = {where.partition(":")[2].replace("_", "").lower(): name for name, where in CONTRACTS.items()}


def schema_name(title: str) -> str:
    """Return the name of the contract with this title, or an empty string. Some internal records have no schema."""
    return _BY_TITLE.get(title.lower(), "")


def load_schema(name: str) -> dict[str, Any]:
    """Return the shipped schema of one contract."""
    if name not in CONTRACTS:
        raise UsageError(
            Reason.MISUSE, f"there is no contract named {name!r}", next_step=f"Use one of {', '.join(CONTRACTS)}."
        )
    schema: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_bytes())
    return schema
