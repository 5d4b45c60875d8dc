"""/v1/tokens: capability tokens. An admin issues and revokes them."""

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.base import Contract, Identifier
from remit.contracts.services.admin import TokenIssued, TokenView, TokenWish
from remit.contracts.services.common import Page
from remit.services.base.permissions import Right
from remit.web.api.request_models import Withdrawal
from remit.web.http.openapi import operation
from remit.web.http.request import BodyRequestDep, Cursor, Limit, PathId, RequestDep, json_response

router = APIRouter(tags=["tokens"])
Tokens = Page[TokenView]


class TokenRevoked(Contract):
    jti: Identifier


@router.get(
    "/v1/tokens",
    **operation(
        "listTokens",
        "List the tokens that this workspace issued, the newest first",
        right=Right.SEE_OWN,
        answers={200: Tokens},
    ),
)
def list_tokens(call: RequestDep, cursor: Cursor = None, limit: Limit = 50) -> Response:
    return json_response(call.services.tokens.list_tokens(call.caller, cursor, limit))


@router.post(
    "/v1/tokens",
    **operation(
        "issueToken",
        "Issue a token; only this response contains its text",
        right=Right.ISSUE_TOKEN,
        body=TokenWish,
        answers={201: TokenIssued},
    ),
)
def issue_token(call: BodyRequestDep) -> Response:
    body = call.parse(TokenWish)
    return call.run_once(
        Right.ISSUE_TOKEN, lambda: json_response(call.services.tokens.issue(call.caller, body), 201), is_secret=True
    )


@router.post(
    "/v1/tokens/{jti}/revoke",
    **operation(
        "revokeToken",
        "Revoke a token; the pending requests of its agent become void",
        right=Right.REVOKE_TOKEN,
        body=Withdrawal,
        answers={200: TokenRevoked},
    ),
)
def revoke_token(call: BodyRequestDep, jti: PathId) -> Response:
    withdrawal = call.parse(Withdrawal)
    return json_response(TokenRevoked(jti=call.services.tokens.revoke(call.caller, jti, withdrawal.reason)))
