"""/v1/browser: one action at a time with the agent's own token. An action that changes something needs an approval."""

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.browser.browser import Action
from remit.contracts.services.common import BrowseAnswer, BrowserStatus
from remit.services.base.permissions import Right
from remit.web.http.openapi import operation
from remit.web.http.request import BodyRequestDep, PathId, RequestDep, accepted_response, json_response, location

router = APIRouter(tags=["browser"])
_ACTIONS = "/v1/browser/actions"
_ONE = f"{_ACTIONS}/{{action_id}}"
PNG = "image/png"


@router.post(
    _ACTIONS,
    **operation(
        "browse",
        "Run one browser action",
        right=Right.BROWSE,
        body=Action,
        answers={200: BrowseAnswer, 202: BrowseAnswer},
    ),
)
def browse(call: BodyRequestDep) -> Response:
    """The id of the action makes it happen once. A refusal is also 200, with `refused` and the result."""
    call.require_same_body()
    with call.waiting() as wait:
        return _to_response(call.services.browser.act(call.caller, call.raw, wait))


@router.get(
    _ONE,
    **operation(
        "getAction",
        "Get the state or result of an action",
        right=Right.SEE_OWN,
        answers={200: BrowseAnswer, 202: BrowseAnswer},
    ),
)
def get_action(call: RequestDep, action_id: PathId) -> Response:
    with call.waiting() as wait:
        return _to_response(call.services.browser.get(call.caller, action_id, wait))


@router.get(
    f"{_ONE}/picture",
    **operation("pictureOfAction", "Get the screenshot of an action", right=Right.SEE_OWN, answers={200: PNG}),
)
def picture_of_action(call: RequestDep, action_id: PathId) -> Response:
    return Response(call.services.browser.read_picture(call.caller, action_id), 200, media_type=PNG)


@router.get(
    "/v1/browser/sessions",
    **operation(
        "browserStatus",
        "Get whether the browser runs, and its sessions",
        right=Right.SEE_OWN,
        answers={200: BrowserStatus},
    ),
)
def browser_status(call: RequestDep) -> Response:
    return json_response(call.services.browser.status(call.caller))


def _to_response(found: BrowseAnswer) -> Response:
    if found.state == "done":
        return json_response(found)
    return accepted_response(found, location(_ACTIONS, found.action_id))
