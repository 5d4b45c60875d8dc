"""/v1/tasks and /v1/leases: leased tasks, run and looked at by their id."""

from datetime import timedelta

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.services.common import TaskAnswer
from remit.contracts.tasks.task import LeaseToken
from remit.services.base.permissions import Right
from remit.web.api.request_models import LeaseWish, TaskRun, to_bytes
from remit.web.http.openapi import operation
from remit.web.http.problems import refused_answer
from remit.web.http.request import Asked, AskedWithBody, PathId, accepted, answer, location

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
async def run_task(call: AskedWithBody) -> Response:
    """The task's own id makes it happen once: the same request again gives the stored result."""
    # In the loop itself, since all that blocks is the job: the way through one more thread costs as much as the guard.
    wish = call.parse(TaskRun)
    call.require_same_body()
    with call.waiting() as wait:
        begun = call.desk.tasks.start(call.caller, to_bytes(wish.manifest), to_bytes(wish.lease))
        await begun.job.wait_async(wait)
    found = begun.answer()
    if found.refused is not None:
        return refused_answer(call.request, found.refused, found)
    return _told(found)


@router.get(
    f"{_TASKS}/{{task_id}}",
    **operation("getTask", "What became of a task", right=Right.SEE_OWN, answers={200: TaskAnswer, 202: TaskAnswer}),
)
def get_task(call: Asked, task_id: PathId) -> Response:
    with call.waiting() as wait:
        return _told(call.desk.tasks.get(call.caller, task_id, wait))


@router.post(
    "/v1/leases",
    **operation(
        "issueLease", "Have a lease for one task signed", right=Right.LEASE, body=LeaseWish, answers={201: LeaseToken}
    ),
)
def issue_lease(call: AskedWithBody) -> Response:
    wish = call.parse(LeaseWish)
    manifest, life = to_bytes(wish.manifest), timedelta(seconds=wish.seconds)
    return call.once(Right.LEASE, lambda: answer(call.desk.tasks.lease(call.caller, manifest, life), 201))


def _told(found: TaskAnswer) -> Response:
    if found.state == "running":
        return accepted(found, location(_TASKS, found.task_id))
    return answer(found)
