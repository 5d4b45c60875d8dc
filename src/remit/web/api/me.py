"""/v1/me: who the caller is, and what the caller may do."""

from typing import Literal

from fastapi import APIRouter
from starlette.responses import Response

from remit.contracts.base import Contract, Identifier, Many, ShortText, Timestamp
from remit.core.ids import render_time
from remit.identity.callers import AgentCaller
from remit.services.base.permissions import Right, has_right
from remit.web.http.openapi import operation
from remit.web.http.request import RequestDep, json_response


class Me(Contract):
    """The caller. `rights` lists what the caller may do. `csrf` belongs to the session; other sites cannot read it."""

    kind: Literal["agent", "person"]
    id: Identifier
    name: ShortText | None = None
    role: ShortText | None = None
    user: Identifier | None = None
    tenant: Identifier | None = None
    capabilities: Many[ShortText] = ()
    token: Identifier | None = None
    expires_at: Timestamp | None = None
    csrf: ShortText | None = None
    rights: Many[ShortText]


router = APIRouter()


@router.get("/v1/me", **operation("me", "Get who you are and what you may do", answers={200: Me}))
def me(call: RequestDep) -> Response:
    caller = call.caller
    rights = tuple(right.value for right in Right if has_right(caller, right))
    if isinstance(caller, AgentCaller):
        token = caller.token
        return json_response(
            Me(
                kind="agent",
                id=caller.id,
                user=token.constraints.user,
                tenant=token.constraints.tenant,
                capabilities=tuple(sorted(token.caps)),
                token=token.jti,
                expires_at=render_time(token.expires_at),
                rights=rights,
            )
        )
    return json_response(
        Me(
            kind="person",
            id=caller.id,
            name=caller.person.name,
            role=caller.role,
            user=caller.user,
            tenant=caller.tenant,
            csrf=call.request.state.csrf,
            rights=rights,
        )
    )
