"""/v1/inbox: what waits for a person, what he should see of it, and his answer."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from remit.contracts.services.common import Decision, Page, Question, QuestionKind, QuestionView
from remit.services.base.permissions import Right
from remit.web.http.openapi import operation
from remit.web.http.request import BodyRequestDep, PathId, RequestDep, json_response

router = APIRouter(tags=["inbox"])
_ONE = "/v1/inbox/{kind}/{question_id}"
PNG = "image/png"
Tenant = Annotated[
    str | None, Query(min_length=1, max_length=200, description="Whose goal it is; for goals and confirmations.")
]
Questions = Page[Question]


@router.get(
    "/v1/inbox",
    **operation("listInbox", "What waits for a person, the newest first", right=Right.SEE, answers={200: Questions}),
)
def list_inbox(call: RequestDep) -> Response:
    return json_response(Questions(items=tuple(call.services.inbox.list_open(call.caller)[:1_000])))


@router.get(
    "/v1/inbox/closed",
    **operation(
        "listClosed", "What was closed lately, and how: also what is void", right=Right.SEE, answers={200: Questions}
    ),
)
def list_closed(call: RequestDep) -> Response:
    return json_response(Questions(items=tuple(call.services.inbox.list_recent(call.caller))))


@router.get(
    _ONE,
    **operation(
        "showQuestion", "All that a person should see before he answers", right=Right.SEE, answers={200: QuestionView}
    ),
)
def show_question(call: RequestDep, kind: QuestionKind, question_id: PathId, tenant: Tenant = None) -> Response:
    return json_response(call.services.inbox.show(call.caller, kind, question_id, tenant=tenant))


@router.post(
    f"{_ONE}/decision",
    **operation(
        "answerQuestion",
        "A person's answer; no agent can give one",
        right=Right.CONFIRM,
        body=Decision,
        answers={200: Question},
    ),
)
def answer_question(call: BodyRequestDep, kind: QuestionKind, question_id: PathId, tenant: Tenant = None) -> Response:
    """Yes or no to a request, a plan or a goal needs the right to decide; a confirmation is its user's own."""
    return json_response(
        call.services.inbox.decide(call.caller, kind, question_id, call.parse(Decision), tenant=tenant)
    )


@router.get(
    "/v1/inbox/request/{question_id}/picture",
    **operation("showPicture", "The page from which a held request comes", right=Right.SEE, answers={200: PNG}),
)
def show_picture(call: RequestDep, question_id: PathId) -> Response:
    return Response(call.services.inbox.read_picture(call.caller, question_id), 200, media_type=PNG)
