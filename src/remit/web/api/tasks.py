"""/v1/tasks and /v1/leases: tasks that run under a lease."""

from datetime import timedelta

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.services.common import TaskAnswer
from remit.contracts.tasks.task import LeaseToken
from remit.services.base.permissions import Right
from remit.web.api.request_models import LeaseWish, TaskRun, to_bytes
from remit.web.http.openapi import operation
from remit.web.http.problems import refused_response
from remit.web.http.request import BodyRequestDep, PathId, RequestDep, accepted_response, json_response, location

router = APIRouter(tags=["tasks"])
_TASKS = "/v1/tasks"


@router.post(
    _TASKS,
    **operation(
        "runTask",
        "Run one leased task, once",
        right=Right.RUN_TASK,
        body=TaskRun,
        answers={200: TaskAnswer, 202: TaskAnswer},
    ),
)
async def run_task(call: BodyRequestDep) -> Response:
    """The id of the task makes it happen once. The same request again returns the stored result."""
    # This runs in the event loop, because only the job blocks. Another thread would cost as much as the guard.
    body = call.parse(TaskRun)
    call.require_same_body()
    with call.waiting() as wait:
        begun = call.services.tasks.start(call.caller, to_bytes(body.manifest), to_bytes(body.lease))
        await begun.job.wait_async(wait)
    found = begun.answer()
    if found.refused is not None:
        return refused_response(call.request, found.refused, found)
    return _to_response(found)


@router.get(
    f"{_TASKS}/{{task_id}}",
    **operation(
        "getTask", "Get the state or result of a task", right=Right.SEE_OWN, answers={200: TaskAnswer, 202: TaskAnswer}
    ),
)
def get_task(call: RequestDep, task_id: PathId) -> Response:
    with call.waiting() as wait:
        return _to_response(call.services.tasks.get(call.caller, task_id, wait))


@router.post(
    "/v1/leases",
    **operation(
        "issueLease", "Issue a signed lease for one task", right=Right.LEASE, body=LeaseWish, answers={201: LeaseToken}
    ),
)
def issue_lease(call: BodyRequestDep) -> Response:
    body = call.parse(LeaseWish)
    manifest, life = to_bytes(body.manifest), timedelta(seconds=body.seconds)
    return call.run_once(
        Right.LEASE, lambda: json_response(call.services.tasks.lease(call.caller, manifest, life), 201)
    )


def _to_response(found: TaskAnswer) -> Response:
    if found.state == "running":
        return accepted_response(found, location(_TASKS, found.task_id))
    return json_response(found)
