"""Records that an agent called a plan command for people, or one that its token does not permit.

The table of permissions refuses such a command before the command starts.
"""

import logging
from typing import Any, Final

from remit.cli.common.identity import name_caller
from remit.contracts.plans.envelope import Envelope
from remit.contracts.plans.plan import Plan
from remit.core.errors import RefusedError, RemitError
from remit.execution.refusals import FindSubject, PlanRequest, Subject, about_plan_text
from remit.parsing import read_bounded
from remit.services.plans.refusal_records import about_proposal
from remit.workspace.workspace import Workspace

RECORDED: Final[dict[str, PlanRequest]] = {
    "approve": "approve",
    "run": "run",
    "apply": "apply",
    "approvals compute": "compute",
    "approvals approve": "approve",
    "approvals deny": "deny",
}
_LOG: Final = logging.getLogger("remit.refusals")


def record_refused_command(path: str, parameters: dict[str, Any], problem: RefusedError) -> None:
    """Record the refusal of this command, as far as this user of the operating system can write to the ledger."""
    operation = RECORDED.get(path)
    if operation is None:
        return
    try:
        name = str(parameters.get("approval_id") or parameters.get("proposal") or "")
        about = None if name else _subject_of(parameters)
        with Workspace.open(parameters["directory"]) as workspace:
            token = parameters.get("token")
            workspace.refusals.record(
                operation, lambda: name_caller(workspace, token), about or about_proposal(workspace, name), problem
            )
    except (RemitError, OSError) as failure:
        told = {"operation": operation, "reason": problem.reason.value, "why": str(failure)}
        _LOG.error("a refusal could not be recorded", extra=told)


def _subject_of(parameters: dict[str, Any]) -> FindSubject:
    if (plan := parameters.get("plan")) is not None:
        return about_plan_text(read_bounded(plan, Plan.bounds, source=plan.name))
    stream = parameters.get("envelope")
    raw = b"" if stream is None else read_bounded(stream, Envelope.bounds, source=stream.name)

    def find_envelope() -> Subject | None:
        try:
            envelope = Envelope.parse(raw)
        except RefusedError:
            return None
        plan = {"plan_id": envelope.plan.plan_id, "plan_digest": envelope.plan_digest}
        return Subject(envelope.envelope_id, plan)

    return find_envelope
