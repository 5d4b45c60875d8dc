"""/v1/tokens: capability tokens, issued and revoked by an admin."""

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.base import Contract, Identifier
from remit.contracts.services.admin import TokenIssued, TokenView, TokenWish
from remit.contracts.services.common import Page
from remit.services.base.permissions import Right
from remit.web.api.request_models import Withdrawal
from remit.web.http.openapi import operation
from remit.web.http.request import Asked, AskedWithBody, Cursor, Limit, PathId, answer

router = APIRouter(tags=["tokens"])
Tokens = Page[TokenView]


class TokenRevoked(Contract):
    jti: Identifier


@router.get(
    "/v1/tokens",
    **operation(
        "listTokens", "Tokens that were issued here, the newest first", right=Right.SEE_OWN, answers={200: Tokens}
    ),
)
def list_tokens(call: Asked, cursor: Cursor = None, limit: Limit = 50) -> Response:
    return answer(call.desk.tokens.list_tokens(call.caller, cursor, limit))


@router.post(
    "/v1/tokens",
    **operation(
        "issueToken",
        "Have a token issued; its text is told once",
        right=Right.ISSUE_TOKEN,
        body=TokenWish,
        answers={201: TokenIssued},
    ),
)
def issue_token(call: AskedWithBody) -> Response:
    wish = call.parse(TokenWish)
    return call.once(Right.ISSUE_TOKEN, lambda: answer(call.desk.tokens.issue(call.caller, wish), 201), is_secret=True)


@router.post(
    "/v1/tokens/{jti}/revoke",
    **operation(
        "revokeToken",
        "From now on it counts nowhere, and what waits on its behalf is void",
        right=Right.REVOKE_TOKEN,
        body=Withdrawal,
        answers={200: TokenRevoked},
    ),
)
def revoke_token(call: AskedWithBody, jti: PathId) -> Response:
    said = call.parse(Withdrawal)
    return answer(TokenRevoked(jti=call.desk.tokens.revoke(call.caller, jti, said.reason)))
