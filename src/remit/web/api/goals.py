"""/v1/goals: requests of users in their own words."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from remit.contracts.services.common import GoalAnswer, Page
from remit.contracts.services.ledger import GoalLine, ReplayAnswer, TraceAnswer
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.identity.callers import AgentCaller
from remit.services.base.permissions import Right, require
from remit.web.api.request_models import GoalAsk, GoalReply, Nothing
from remit.web.http.idempotency import derive_id
from remit.web.http.openapi import operation
from remit.web.http.request import (
    APIRequest,
    BodyRequestDep,
    Limit,
    PathId,
    RequestDep,
    accepted_response,
    json_response,
    location,
)

router = APIRouter(tags=["goals"])
_GOALS = "/v1/goals"
_ONE = f"{_GOALS}/{{tenant}}/{{correlation_id}}"
Goals = Page[GoalLine]
Tenant = Annotated[str, Query(min_length=1, max_length=200, description="The tenant of the goals.")]


@router.post(
    _GOALS,
    **operation(
        "askForGoal",
        "Request an action in plain language",
        right=Right.ASK,
        body=GoalAsk,
        answers={200: GoalAnswer, 202: GoalAnswer},
    ),
)
def ask_for_goal(call: BodyRequestDep) -> Response:
    """Without `correlation_id`, the id comes from the header Idempotency-Key, so that a repeat is the same goal."""
    body = call.parse(GoalAsk)
    call.require_same_body()
    correlation_id = body.correlation_id or (derive_id(call.caller.id, call.key) if call.key else None)
    with call.waiting() as wait:
        return _to_response(
            call.services.goals.ask(call.caller, body.utterance, body.language, correlation_id, body.reply_to, wait)
        )


@router.get(
    _GOALS,
    **operation(
        "listGoals", "List the goals of a tenant, the last changed first", right=Right.SEE, answers={200: Goals}
    ),
)
def list_goals(call: RequestDep, tenant: Tenant, limit: Limit = 50) -> Response:
    return json_response(Goals(items=tuple(call.services.goals.list_goals(call.caller, tenant, limit))))


@router.get(
    _ONE,
    **operation(
        "getGoal", "Get the state or outcome of a goal", right=Right.SEE_OWN, answers={200: GoalAnswer, 202: GoalAnswer}
    ),
)
def get_goal(call: RequestDep, tenant: PathId, correlation_id: PathId) -> Response:
    with call.waiting() as wait:
        return _to_response(call.services.goals.get(call.caller, tenant, correlation_id, wait))


@router.post(
    f"{_ONE}/answer",
    **operation(
        "answerGoal",
        "Confirm or decline a goal, in the user's own words",
        right=Right.CONFIRM,
        body=GoalReply,
        answers={200: GoalAnswer, 202: GoalAnswer},
    ),
)
def answer_goal(call: BodyRequestDep, tenant: PathId, correlation_id: PathId) -> Response:
    reply = call.parse(GoalReply)
    _require_own(call, Right.CONFIRM, tenant, correlation_id)
    with call.waiting() as wait:
        return _to_response(call.services.goals.answer(call.caller, correlation_id, reply.answer, wait, reply.step))


@router.post(
    f"{_ONE}/continue",
    **operation(
        "continueGoal",
        "Continue a goal that another person has approved",
        right=Right.ASK,
        body=Nothing,
        answers={200: GoalAnswer, 202: GoalAnswer},
    ),
)
def continue_goal(call: BodyRequestDep, tenant: PathId, correlation_id: PathId) -> Response:
    call.parse(Nothing)
    _require_own(call, Right.ASK, tenant, correlation_id)
    with call.waiting() as wait:
        return _to_response(call.services.goals.resume(call.caller, correlation_id, wait))


@router.post(
    f"{_ONE}/undo",
    **operation(
        "undoGoal",
        "Undo a goal with a new goal, or a goal with several steps by its own rollbacks",
        right=Right.ASK,
        body=Nothing,
        answers={200: GoalAnswer, 202: GoalAnswer},
    ),
)
def undo_goal(call: BodyRequestDep, tenant: PathId, correlation_id: PathId) -> Response:
    call.parse(Nothing)
    _require_own(call, Right.ASK, tenant, correlation_id)
    with call.waiting() as wait:
        return _to_response(call.services.goals.undo(call.caller, correlation_id, wait))


@router.get(
    f"{_ONE}/trace",
    **operation(
        "traceGoal",
        "Get all ledger entries about a goal, as a tree",
        right=Right.SEE,
        answers={200: TraceAnswer},
    ),
)
def trace_goal(call: RequestDep, tenant: PathId, correlation_id: PathId) -> Response:
    return json_response(call.services.ledger.trace(call.caller, tenant, correlation_id))


@router.get(
    f"{_ONE}/replay",
    **operation(
        "replayGoal",
        "Make every decision about a goal again, from the stored data",
        right=Right.SEE,
        answers={200: ReplayAnswer},
    ),
)
def replay_goal(call: RequestDep, tenant: PathId, correlation_id: PathId) -> Response:
    return json_response(call.services.goals.replay(call.caller, tenant, correlation_id))


def _to_response(found: GoalAnswer) -> Response:
    if found.state == "running":
        folder = location(_GOALS, found.tenant_id)
        return accepted_response(found, location(folder, found.correlation_id) if folder else "")
    return json_response(found)


def _require_own(call: APIRequest, right: Right, tenant: str, correlation_id: str) -> None:
    """Refuse an address with another tenant. The services use the caller's own tenant."""
    caller = call.caller
    require(caller, right)
    own = caller.token.constraints.tenant or DEFAULT_TENANT if isinstance(caller, AgentCaller) else caller.tenant
    if own is not None and own != tenant:
        raise RefusedError(
            Reason.STATE_MISSING,
            "you have no such goal",
            where=f"goal {correlation_id} of {tenant}",
            next_step="Use the tenant in the response to your request.",
        )
