"""/v1/plans: plans that are proposed, looked at, answered by a person, applied and taken back."""

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
from remit.web.http.problems import refused_answer
from remit.web.http.request import Asked, AskedWithBody, Cursor, Limit, PathId, accepted, answer, location

router = APIRouter(tags=["plans"])
_PLANS = "/v1/plans"
_ONE = f"{_PLANS}/{{proposal_id}}"
_RUNS_ON = frozenset({"RUNNING"})


@router.post(
    f"{_PLANS}/preview",
    **operation(
        "previewPlan",
        "What a plan would do to the files as they are; nothing is stored",
        right=Right.PREVIEW,
        body=Plan,
        answers={200: (PlanPreviewDocument, AgentPlanPreview)},
    ),
)
def preview_plan(call: AskedWithBody) -> Response:
    return answer(call.desk.plans.preview(call.caller, call.raw))


@router.post(
    _PLANS,
    **operation(
        "proposePlan",
        "Propose a plan: it waits for a person's answer",
        right=Right.PROPOSE,
        body=PlanProposal,
        answers={201: ProposalView},
    ),
)
def propose_plan(call: AskedWithBody) -> Response:
    wish = call.parse(PlanProposal)
    view = call.desk.plans.propose(call.caller, to_bytes(wish.plan), note=wish.note, key=call.key)
    return answer(view, 201, {"Location": location(_PLANS, view.proposal_id)})


@router.get(
    _PLANS,
    **operation("listPlans", "Proposed plans, the newest first", right=Right.SEE_OWN, answers={200: ProposalPage}),
)
def list_plans(call: Asked, state: ProposalState | None = None, cursor: Cursor = None, limit: Limit = 50) -> Response:
    states = (state,) if state is not None else ()
    return answer(call.desk.plans.list_proposals(call.caller, states=states, cursor=cursor, limit=limit))


@router.get(
    _ONE,
    **operation("getPlan", "Where a proposed plan stands", right=Right.SEE_OWN, answers={200: ProposalView}),
)
def get_plan(call: Asked, proposal_id: PathId) -> Response:
    return answer(call.desk.plans.get(call.caller, proposal_id))


@router.get(
    f"{_ONE}/preview",
    **operation(
        "lookAtPlan",
        "What it would do, as it was computed and stored; nothing is executed. An approval names its digest",
        right=Right.LOOK,
        answers={200: (ProposalPreview, AgentProposalPreview)},
    ),
)
def look_at_plan(call: Asked, proposal_id: PathId) -> Response:
    return answer(call.desk.plans.read_preview(call.caller, proposal_id))


@router.post(
    f"{_ONE}/preview",
    **operation(
        "computePlanPreview",
        "Compute its preview again and store it; this runs its SQL and pipelines, and is recorded",
        right=Right.PROPOSE,
        body=Nothing,
        answers={200: ProposalPreview},
    ),
)
def compute_plan_preview(call: AskedWithBody, proposal_id: PathId) -> Response:
    call.parse(Nothing)
    return answer(call.desk.plans.compute_preview(call.caller, proposal_id))


@router.post(
    f"{_ONE}/decision",
    **operation(
        "decidePlan",
        "A person's yes or no; the first one counts",
        right=Right.DECIDE,
        body=PlanDecision,
        answers={200: ProposalView},
    ),
)
def decide_plan(call: AskedWithBody, proposal_id: PathId) -> Response:
    said = call.parse(PlanDecision)
    view = call.desk.plans.decide(
        call.caller,
        proposal_id,
        approved=said.approved,
        preview_digest=said.preview_digest,
        allow=said.allow,
        reason=said.reason,
        even_if_it_fails=said.even_if_it_fails,
    )
    return answer(view)


@router.post(
    f"{_ONE}/apply",
    **operation(
        "applyPlan",
        "Carry out what was approved, once",
        right=Right.APPLY,
        body=Nothing,
        answers={200: ProposalView, 202: ProposalView},
    ),
)
def apply_plan(call: AskedWithBody, proposal_id: PathId) -> Response:
    call.parse(Nothing)
    with call.waiting() as wait:
        view = call.desk.plans.apply(call.caller, proposal_id, wait)
    return accepted(view, location(_PLANS, view.proposal_id)) if view.state in _RUNS_ON else answer(view)


@router.post(
    f"{_ONE}/cancel",
    **operation(
        "cancelPlan",
        "Withdraw a proposal, void an approval that was not used, or stop what runs",
        right=Right.CANCEL,
        body=Withdrawal,
        answers={200: ProposalView},
    ),
)
def cancel_plan(call: AskedWithBody, proposal_id: PathId) -> Response:
    said = call.parse(Withdrawal)
    return answer(call.desk.plans.cancel(call.caller, proposal_id, reason=said.reason))


@router.get(
    f"{_ONE}/undo",
    **operation(
        "lookAtUndo",
        "What taking it back would meet now; nothing is touched",
        right=Right.SEE_OWN,
        answers={200: (UndoLook, AgentUndoLook)},
    ),
)
def look_at_undo(call: Asked, proposal_id: PathId) -> Response:
    return answer(call.desk.plans.preview_undo(call.caller, proposal_id))


@router.post(
    f"{_ONE}/undo",
    **operation(
        "undoPlan",
        "Take back what a plan did",
        right=Right.UNDO,
        body=PlanUndo,
        answers={200: (UndoAnswer, AgentUndoAnswer)},
    ),
)
def undo_plan(call: AskedWithBody, proposal_id: PathId) -> Response:
    wish = call.parse(PlanUndo)
    found = call.desk.plans.undo(
        call.caller, proposal_id, force=wish.force, drift_digest=wish.drift_digest, checkpoints=wish.checkpoints
    )
    if found.refused is not None:
        return refused_answer(call.request, found.refused, found)
    return answer(found)


@router.get(
    f"{_ONE}/report",
    **operation(
        "reportOfPlan",
        "Report, change log and rollbacks of its run",
        right=Right.SEE_OWN,
        answers={200: (RunDocuments, AgentRunDocuments)},
    ),
)
def report_of_plan(call: Asked, proposal_id: PathId) -> Response:
    return answer(call.desk.plans.read_report(call.caller, proposal_id))
