"""/v1/plans: plans, from proposal, preview and decision to apply and rollback."""

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.plans.agent_views import (
    AgentPlanPreview,
    AgentProposalPreview,
    AgentRunDocuments,
    AgentUndoAnswer,
    AgentUndoLook,
)
from remit.contracts.plans.plan import Plan
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.services.plan_details import ProposalDetails
from remit.contracts.services.plans import (
    ProposalPage,
    ProposalPreview,
    ProposalState,
    ProposalView,
    RunDocuments,
    UndoAnswer,
    UndoLook,
)
from remit.services.base.permissions import Right
from remit.web.api.request_models import Nothing, PlanDecision, PlanProposal, PlanUndo, Withdrawal, to_bytes
from remit.web.http.openapi import operation
from remit.web.http.problems import refused_response
from remit.web.http.request import (
    BodyRequestDep,
    Cursor,
    Limit,
    PathId,
    RequestDep,
    accepted_response,
    json_response,
    location,
)

router = APIRouter(tags=["plans"])
_PLANS = "/v1/plans"
_ONE = f"{_PLANS}/{{proposal_id}}"
_RUNS_ON = frozenset({"RUNNING"})


@router.post(
    f"{_PLANS}/preview",
    **operation(
        "previewPlan",
        "Preview a plan against the current files; nothing is stored",
        right=Right.PREVIEW,
        body=Plan,
        answers={200: (PlanPreviewDocument, AgentPlanPreview)},
    ),
)
def preview_plan(call: BodyRequestDep) -> Response:
    return json_response(call.services.plans.preview(call.caller, call.raw))


@router.post(
    _PLANS,
    **operation(
        "proposePlan",
        "Propose a plan, which a person then approves or denies",
        right=Right.PROPOSE,
        body=PlanProposal,
        answers={201: ProposalView},
    ),
)
def propose_plan(call: BodyRequestDep) -> Response:
    body = call.parse(PlanProposal)
    view = call.services.plans.propose(call.caller, to_bytes(body.plan), note=body.note, key=call.key)
    return json_response(view, 201, {"Location": location(_PLANS, view.proposal_id)})


@router.get(
    _PLANS,
    **operation("listPlans", "List proposed plans, the newest first", right=Right.SEE_OWN, answers={200: ProposalPage}),
)
def list_plans(
    call: RequestDep, state: ProposalState | None = None, cursor: Cursor = None, limit: Limit = 50
) -> Response:
    states = (state,) if state is not None else ()
    return json_response(call.services.plans.list_proposals(call.caller, states=states, cursor=cursor, limit=limit))


@router.get(
    _ONE,
    **operation("getPlan", "Get the state of a proposed plan", right=Right.SEE_OWN, answers={200: ProposalDetails}),
)
def get_plan(call: RequestDep, proposal_id: PathId) -> Response:
    plans = call.services.plans
    view = plans.get(call.caller, proposal_id)
    return json_response(ProposalDetails(**dict(view), plan_text=plans.read_text(call.caller, proposal_id)))


@router.get(
    f"{_ONE}/preview",
    **operation(
        "lookAtPlan",
        "Get the stored preview of a proposed plan; an approval names its digest",
        right=Right.LOOK,
        answers={200: (ProposalPreview, AgentProposalPreview)},
    ),
)
def get_plan_preview(call: RequestDep, proposal_id: PathId) -> Response:
    return json_response(call.services.plans.read_preview(call.caller, proposal_id))


@router.post(
    f"{_ONE}/preview",
    **operation(
        "computePlanPreview",
        "Compute and store the preview again; this runs the SQL and pipelines of the plan, and is recorded",
        right=Right.COMPUTE,
        only_people=True,
        body=Nothing,
        answers={200: ProposalPreview},
    ),
)
def compute_plan_preview(call: BodyRequestDep, proposal_id: PathId) -> Response:
    call.parse(Nothing)
    return json_response(call.services.plans.compute_preview(call.caller, proposal_id))


@router.post(
    f"{_ONE}/decision",
    **operation(
        "decidePlan",
        "Approve or deny a plan, as a person; the first decision is final",
        right=Right.DECIDE,
        body=PlanDecision,
        answers={200: ProposalView},
    ),
)
def decide_plan(call: BodyRequestDep, proposal_id: PathId) -> Response:
    decision = call.parse(PlanDecision)
    view = call.services.plans.decide(
        call.caller,
        proposal_id,
        approved=decision.approved,
        preview_digest=decision.preview_digest,
        allow=decision.allow,
        reason=decision.reason,
        even_if_it_fails=decision.even_if_it_fails,
    )
    return json_response(view)


@router.post(
    f"{_ONE}/apply",
    **operation(
        "applyPlan",
        "Apply an approved plan, once",
        right=Right.APPLY,
        body=Nothing,
        answers={200: ProposalView, 202: ProposalView},
    ),
)
def apply_plan(call: BodyRequestDep, proposal_id: PathId) -> Response:
    call.parse(Nothing)
    with call.waiting() as wait:
        view = call.services.plans.apply(call.caller, proposal_id, wait)
    return (
        accepted_response(view, location(_PLANS, view.proposal_id)) if view.state in _RUNS_ON else json_response(view)
    )


@router.post(
    f"{_ONE}/cancel",
    **operation(
        "cancelPlan",
        "Withdraw a proposal, cancel an unused approval, or stop a running plan",
        right=Right.CANCEL,
        body=Withdrawal,
        answers={200: ProposalView},
    ),
)
def cancel_plan(call: BodyRequestDep, proposal_id: PathId) -> Response:
    withdrawal = call.parse(Withdrawal)
    return json_response(call.services.plans.cancel(call.caller, proposal_id, reason=withdrawal.reason))


@router.get(
    f"{_ONE}/undo",
    **operation(
        "lookAtUndo",
        "Preview the rollback of a plan; nothing is changed",
        right=Right.SEE_OWN,
        answers={200: (UndoLook, AgentUndoLook)},
    ),
)
def get_undo_preview(call: RequestDep, proposal_id: PathId) -> Response:
    return json_response(call.services.plans.preview_undo(call.caller, proposal_id))


@router.post(
    f"{_ONE}/undo",
    **operation(
        "undoPlan",
        "Roll back a plan",
        right=Right.UNDO,
        body=PlanUndo,
        answers={200: (UndoAnswer, AgentUndoAnswer)},
    ),
)
def undo_plan(call: BodyRequestDep, proposal_id: PathId) -> Response:
    body = call.parse(PlanUndo)
    found = call.services.plans.undo(
        call.caller, proposal_id, force=body.force, drift_digest=body.drift_digest, checkpoints=body.checkpoints
    )
    if found.refused is not None:
        return refused_response(call.request, found.refused, found)
    return json_response(found)


@router.get(
    f"{_ONE}/report",
    **operation(
        "reportOfPlan",
        "Get the report, change log and rollbacks of the plan's run",
        right=Right.SEE_OWN,
        answers={200: (RunDocuments, AgentRunDocuments)},
    ),
)
def report_of_plan(call: RequestDep, proposal_id: PathId) -> Response:
    return json_response(call.services.plans.read_report(call.caller, proposal_id))
