"""The page of people: who can log in and with which role; invite and remove."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.core.errors import Reason, RefusedError, RemitError
from remit.identity.models import ROLES, Invitation, Listed, Role
from remit.web.console.confirm import remove as ask_to_remove
from remit.web.console.confirm_page import is_confirmed, render_confirmation
from remit.web.console.forms import Filled
from remit.web.console.pages import ConsoleRoute, Viewer, get_services, page, redirect_to, require_viewer
from remit.web.http.problems import status_of

router: Final = APIRouter(route_class=ConsoleRoute, include_in_schema=False)
LIVES: Final = {"15": "15 minutes", "60": "an hour", "1440": "a day", "10080": "a week"}
"""Lifetimes of a link by minutes, as the form sends them."""


@router.get("/people")
def people(request: Request) -> Response:
    return _render_people(request, require_viewer(request))


@router.post("/people/invite")
def invite(request: Request, form: Filled) -> Response:
    viewer = require_viewer(request)
    try:
        invited = get_services(request).people.invite(
            viewer.caller,
            form.one("name"),
            _role(form.one("role")),
            user=form.given("user"),
            tenant=form.given("tenant"),
            life=timedelta(minutes=_minutes(form.one("life"))),
        )
    except RefusedError as problem:
        return _render_people(request, viewer, problem)
    return _render_people(request, viewer, invited=invited)


@router.post("/people/remove")
def remove(request: Request, form: Filled) -> Response:
    viewer = require_viewer(request)
    if not is_confirmed(form):
        name, listed = form.one("name"), get_services(request).people.list_people(viewer.caller)
        asking = ask_to_remove(name, name == viewer.caller.id, name == _only_admin(listed))
        return render_confirmation(request, form, asking, "/people")
    try:
        get_services(request).people.remove(viewer.caller, form.one("name"))
    except RefusedError as problem:
        return _render_people(request, viewer, problem)
    return redirect_to("/people?said=removed")


def _render_people(
    request: Request, viewer: Viewer, problem: RemitError | None = None, invited: Invitation | None = None
) -> Response:
    """Render the page. A link is shown once, on the response to the form, and is not stored."""
    listed = get_services(request).people.list_people(viewer.caller)
    url = request.app.state.settings.url + invited.path if invited is not None else ""
    return page(
        request,
        "people.html",
        status_of(problem) if problem else 200,
        here="/people",
        people=listed,
        only_admin=_only_admin(listed),
        roles=ROLES,
        lives=LIVES,
        invited=invited,
        url=url,
        me=viewer.caller.id,
        problem=problem,
    )


def _only_admin(listed: Sequence[Listed]) -> str:
    """Return the id of the only admin. Empty if there are several or none."""
    admins = [each.id for each in listed if each.role == "admin"]
    return admins[0] if len(admins) == 1 else ""


def _role(text: str) -> Role:
    for role in ROLES:
        if role == text:
            return role
    raise RefusedError(
        Reason.MALFORMED, "there is no such role", where="role", next_step=f"Choose one of: {', '.join(ROLES)}."
    )


def _minutes(text: str) -> int:
    if text not in LIVES:
        raise RefusedError(
            Reason.MALFORMED, "a link cannot be valid for that long", where="life", next_step="Choose one of the list."
        )
    return int(text)
