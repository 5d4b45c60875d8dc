"""/v1/runs: runs of plans, from proposals and from the command line, by the id of the envelope."""

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.plans.agent_views import AgentRunDocuments
from remit.contracts.services.plans import RunDocuments, RunPage, RunView
from remit.services.base.permissions import Right
from remit.web.http.openapi import operation
from remit.web.http.request import Cursor, Limit, PathId, RequestDep, json_response

router = APIRouter(tags=["runs"])
_ONE = "/v1/runs/{envelope_id}"


@router.get(
    "/v1/runs",
    **operation("listRuns", "List runs of plans, the newest first", right=Right.SEE, answers={200: RunPage}),
)
def list_runs(call: RequestDep, cursor: Cursor = None, limit: Limit = 50) -> Response:
    return json_response(call.services.plans.list_runs(call.caller, cursor=cursor, limit=limit))


@router.get(_ONE, **operation("getRun", "Get one run", right=Right.SEE_OWN, answers={200: RunView}))
def get_run(call: RequestDep, envelope_id: PathId) -> Response:
    return json_response(call.services.plans.read_run(call.caller, envelope_id))


@router.get(
    f"{_ONE}/report",
    **operation(
        "reportOfRun",
        "Get the report, change log and rollbacks of a run",
        right=Right.SEE_OWN,
        answers={200: (RunDocuments, AgentRunDocuments)},
    ),
)
def report_of_run(call: RequestDep, envelope_id: PathId) -> Response:
    return json_response(call.services.plans.read_report(call.caller, envelope_id))
