"""/v1/inbox: approval requests and confirmations, their details, and the decisions of people."""

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
    str | None,
    Query(min_length=1, max_length=200, description="The tenant of the goal. Needed for goals and confirmations."),
]
Questions = Page[Question]


@router.get(
    "/v1/inbox",
    **operation(
        "listInbox",
        "List pending approval requests and confirmations, the newest first",
        right=Right.SEE,
        answers={200: Questions},
    ),
)
def list_inbox(call: RequestDep) -> Response:
    return json_response(Questions(items=tuple(call.services.inbox.list_open(call.caller)[:1_000])))


@router.get(
    "/v1/inbox/closed",
    **operation(
        "listClosed",
        "List recently closed requests, with their outcome; void ones too",
        right=Right.SEE,
        answers={200: Questions},
    ),
)
def list_closed(call: RequestDep) -> Response:
    return json_response(Questions(items=tuple(call.services.inbox.list_recent(call.caller))))


@router.get(
    _ONE,
    **operation(
        "showQuestion",
        "Get everything that a person must see before a decision",
        right=Right.SEE,
        answers={200: QuestionView},
    ),
)
def show_question(call: RequestDep, kind: QuestionKind, question_id: PathId, tenant: Tenant = None) -> Response:
    return json_response(call.services.inbox.show(call.caller, kind, question_id, tenant=tenant))


@router.post(
    f"{_ONE}/decision",
    **operation(
        "answerQuestion",
        "Record the decision of a person; agents cannot decide",
        right=Right.CONFIRM,
        body=Decision,
        answers={200: Question},
    ),
)
def answer_question(call: BodyRequestDep, kind: QuestionKind, question_id: PathId, tenant: Tenant = None) -> Response:
    """To approve or deny a request, plan or goal needs the right to decide. Only the user of a goal can confirm it."""
    return json_response(
        call.services.inbox.decide(call.caller, kind, question_id, call.parse(Decision), tenant=tenant)
    )


@router.get(
    "/v1/inbox/request/{question_id}/picture",
    **operation(
        "showPicture",
        "Get a screenshot of the page that a held request comes from",
        right=Right.SEE,
        answers={200: PNG},
    ),
)
def show_picture(call: RequestDep, question_id: PathId) -> Response:
    return Response(call.services.inbox.read_picture(call.caller, question_id), 200, media_type=PNG)
