"""The page of tokens: what agents may do and until when; issue and revoke."""

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.contracts.browser.capabilities import BROWSER_CAPABILITIES, SERVICE_CAPABILITIES
from remit.contracts.services.admin import TokenIssued, TokenWish
from remit.core.errors import Reason, RefusedError, RemitError
from remit.services.base.tenants import tenant_of_user
from remit.web.console.confirm import revoke as ask_to_revoke
from remit.web.console.confirm_page import is_confirmed, render_confirmation
from remit.web.console.forms import Filled, FormFields
from remit.web.console.pages import ConsoleRoute, get_services, page, redirect_to, require_viewer
from remit.web.console.templating import address
from remit.web.http.problems import status_of

router: Final = APIRouter(route_class=ConsoleRoute, include_in_schema=False)
EACH_PAGE: Final = 50
LIVES: Final = {"3600": "an hour", "28800": "8 hours", "86400": "a day", "604800": "a week", "2592000": "30 days"}
"""Lifetimes by seconds, as the form sends them."""


@router.get("/tokens")
def tokens(request: Request) -> Response:
    require_viewer(request)
    return _render_tokens(request)


@router.post("/tokens/issue")
def issue(request: Request, form: Filled) -> Response:
    viewer = require_viewer(request)
    try:
        issued = get_services(request).tokens.issue(viewer.caller, _parse_token_request(request, form))
    except RefusedError as problem:
        return _render_tokens(request, problem, filled=form)
    return _render_tokens(request, issued=issued)


@router.post("/tokens/revoke")
def revoke(request: Request, form: Filled) -> Response:
    viewer = require_viewer(request)
    if not is_confirmed(form):
        return render_confirmation(request, form, ask_to_revoke(form.one("jti")), "/tokens")
    try:
        get_services(request).tokens.revoke(viewer.caller, form.one("jti"), form.given("reason"))
    except RefusedError as problem:
        return _render_tokens(request, problem)
    return redirect_to("/tokens?said=revoked")


def _render_tokens(
    request: Request,
    problem: RemitError | None = None,
    issued: TokenIssued | None = None,
    filled: FormFields | None = None,
) -> Response:
    """Render the page. The text of a token is shown once, on the response to the form, and is not stored."""
    viewer = request.state.viewer
    found = get_services(request).tokens.list_tokens(
        viewer.caller, request.query_params.get("cursor") or None, EACH_PAGE
    )
    return page(
        request,
        "tokens.html",
        status_of(problem) if problem else 200,
        here="/tokens",
        tokens=found.items,
        revoked_keys={key.kid for key in get_services(request).workspace.tokens.keys if key.revoked_at},
        older=address("/tokens", cursor=found.next) if found.next else None,
        browser_caps=BROWSER_CAPABILITIES,
        door_caps=SERVICE_CAPABILITIES,
        lives=LIVES,
        issued=issued,
        filled=filled or FormFields({}),
        ticked=filled.many("caps") if filled else (),
        problem=problem,
    )


def _parse_token_request(request: Request, form: FormFields) -> TokenWish:
    if form.one("life") not in LIVES:
        raise _unclear("a token cannot be valid for that long", "life")
    constraints: dict[str, Any] = {}
    if form.lines("domains"):
        constraints["domains"] = list(form.lines("domains"))
    user, tenant = form.given("user"), form.given("tenant")
    if user or tenant:
        constraints |= {"user": user, "tenant": tenant_of_user(get_services(request).workspace, user, tenant)}
    if form.one("amount"):
        constraints["max_purchase"] = {"value": _number(form.one("amount")), "currency": form.one("currency").upper()}
    if globs := [line.strip() for line in form.one("paths").splitlines() if line.strip()]:  # a name may have a blank
        constraints["paths"] = globs
    if form.lines("connections"):
        constraints["connections"] = list(form.lines("connections"))
    if form.one("max_actions"):
        constraints["max_actions"] = int(_number(form.one("max_actions")))
    caps = [*form.many("caps"), *(f"call.{name.removeprefix('call.')}" for name in form.lines("calls"))]
    token_request = {
        "sub": form.one("sub"),
        "caps": caps,
        "constraints": constraints,
        "life_seconds": int(form.one("life")),
    }
    return TokenWish.from_tree(token_request, source="the form")


def _number(text: str) -> float:
    whole, _, part = text.partition(".")
    # `isdigit` alone accepts superscripts too, which `float` refuses.
    if not (text.isascii() and whole.isdigit() and len(text) <= 16 and (not part or part.isdigit())):
        raise _unclear("this is not a number", "amount")
    return float(text)


def _unclear(what: str, where: str) -> RefusedError:
    return RefusedError(Reason.MALFORMED, what, where=where, next_step="Correct the field and send the form again.")
