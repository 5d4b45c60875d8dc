"""The service for capability tokens: issue, revoke and list."""

import json
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.capabilities import is_browser
from remit.contracts.browser.token_rules import READ
from remit.contracts.services.admin import TokenIssued, TokenView, TokenWish
from remit.contracts.services.common import Page
from remit.core.errors import Reason, RefusedError
from remit.core.ids import parse_time, render_time
from remit.identity.callers import AgentCaller, Caller
from remit.services.base.context import ServiceContext
from remit.services.base.ownership import require_name
from remit.services.base.permissions import Right, require
from remit.store.tokens import TokenRow

MAX_LISTED: Final = 200


class TokenService:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def issue(self, caller: Caller, request: bytes | TokenWish) -> TokenIssued:
        """Sign a token and record it. Its text is returned now, and not stored."""
        require(caller, Right.ISSUE_TOKEN)
        wish = request if isinstance(request, TokenWish) else TokenWish.parse(request, source="token wish")
        require_usable(wish)
        begins = parse_time(wish.not_before) if wish.not_before is not None else None
        life = timedelta(seconds=wish.life_seconds)
        token_request = TokenRequest(wish.sub, tuple(wish.caps), wish.constraints, life, begins)
        issued = self._context.workspace.tokens.issue(token_request, actor=caller.actor)
        return TokenIssued(
            jti=issued.claims.jti,
            sub=issued.claims.sub,
            kid=issued.kid,
            expires_at=render_time(datetime.fromtimestamp(issued.claims.exp, UTC)),
            token=issued.text,
        )

    def revoke(self, caller: Caller, jti: str, reason: str | None = None) -> str:
        """Revoke a token by its whole id. It is not valid any more, and its open approval requests are void."""
        require(caller, Right.REVOKE_TOKEN)
        require_name("token", jti)
        return self._context.workspace.tokens.revoke(jti, actor=caller.actor, reason=reason)

    def list_tokens(self, caller: Caller, cursor: str | None = None, limit: int = 50) -> Page[TokenView]:
        """List the tokens that this workspace issued, the newest first. An agent sees its own tokens only."""
        require(caller, Right.SEE_OWN)
        rows = self._context.workspace.tokens.listed()
        if isinstance(caller, AgentCaller):
            rows = [row for row in rows if row.sub == caller.token.agent_id]
        begin = _page_start(rows, cursor)
        end = begin + max(1, min(limit, MAX_LISTED))
        now = render_time(self._context.workspace.clock())
        more = rows[end - 1].jti if end < len(rows) else None
        return Page[TokenView](items=tuple(_view(row, now) for row in rows[begin:end]), next=more)


def require_usable(wish: TokenWish) -> None:
    """Refuse a token that could never be used, so that the admin learns it now and not at the first use."""
    limits = wish.constraints
    if "goal.ask" in wish.caps and limits.user is None:
        raise _unusable_error(
            "a token with the capability goal.ask needs a user, because its agent can only ask for that user",
            "constraints.user",
            "Give the fields user and tenant.",
        )
    if "browser.purchase" in wish.caps and limits.max_purchase is None:
        raise _unusable_error(
            "a token that allows purchases needs a limit; without one it allows no purchase",
            "constraints.max_purchase",
            'Give the most that one purchase may cost, such as {"value": 50, "currency": "EUR"}.',
        )
    if READ in wish.caps and not limits.paths and not limits.connections:
        raise _unusable_error(
            "a token with the capability plan.read needs paths or connections; without both it reads nothing",
            "constraints.paths",
            'Name files by globs, such as {"paths": ["docs/**"]}, or connections of remit.yaml.',
        )
    if any(map(is_browser, wish.caps)) and not limits.domains:
        raise _unusable_error(
            "a token for the browser needs domains; without domains it allows no host",
            "constraints.domains",
            "Give the names of hosts, such as shop.example.",
        )


def _unusable_error(what: str, where: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.MALFORMED, what, where=where, next_step=next_step)


def _page_start(rows: list[TokenRow], cursor: str | None) -> int:
    if cursor is None:
        return 0
    found = next((at for at, row in enumerate(rows) if row.jti == cursor), None)
    if found is None:
        raise _unusable_error(
            "this cursor is not a position in the list", "cursor", "Send `next` of the previous page unchanged."
        )
    return found + 1


def _view(row: TokenRow, now: str) -> TokenView:
    return TokenView(
        jti=row.jti,
        sub=row.sub,
        kid=row.kid,
        caps=tuple(json.loads(row.caps)),
        constraints=json.loads(row.constraints),
        issued_at=row.issued_at,
        not_before=row.not_before,
        expires_at=row.expires_at,
        state=_state(row, now),
        revoked_at=row.revoked_at,
        revoked_why=row.revoked_why,
        uses=row.uses,
    )


def _state(row: TokenRow, now: str) -> Literal["active", "not_yet", "expired", "revoked"]:
    if row.revoked_at:
        return "revoked"
    if row.expires_at <= now:
        return "expired"
    return "not_yet" if row.not_before > now else "active"
