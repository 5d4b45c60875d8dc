"""Goals: what was asked for and where it stands, in the goal door's own words; and asking, for whoever is a user."""

from typing import Final, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.contracts.desk import GoalAnswer
from remit.errors import Refused, RemitError
from remit.web.console.forms import Filled
from remit.web.console.pages import ConsoleRoute, Viewer, desk_of, go, page, viewer_of
from remit.web.console.templating import address
from remit.web.problems import status_of

router: Final = APIRouter(route_class=ConsoleRoute, include_in_schema=False)
ASK_WAIT: Final = 5.0
"""Seconds: most goals ask back, or are done, by then; the page of one that runs follows it."""
EACH_TENANT: Final = 50
LANGUAGES: Final = {"en": "English", "de": "Deutsch", "es": "Español", "fr": "Français"}


class Line(NamedTuple):
    tenant: str
    correlation: str
    event: str
    at: str

    @property
    def path(self) -> str:
        return goal_path(self.tenant, self.correlation)


def goal_path(tenant: str, correlation: str, **more: str) -> str:
    return address("/goals/one", tenant=tenant, id=correlation, **more)


@router.get("/goals")
def goals(request: Request) -> Response:
    return _show(request, viewer_of(request))


@router.get("/goals/one")
def goal(request: Request, tenant: str = "", id: str = "") -> Response:  # noqa: A002 - as in the address
    viewer = viewer_of(request)
    found = desk_of(request).goals.get(viewer.caller, tenant, id)
    return page(request, "goal.html", here="/goals", goal=found, is_mine=_is_mine(viewer, found))


@router.post("/goals/ask")
def ask(request: Request, form: Filled) -> Response:
    viewer = viewer_of(request)
    try:
        found = desk_of(request).goals.ask(
            viewer.caller,
            form.one("utterance"),
            form.one("language") or "en",
            reply_to=form.given("reply_to"),
            wait=ASK_WAIT,
        )
    except Refused as problem:
        return _show(request, viewer, problem, form.one("utterance"))
    return go(goal_path(found.tenant_id, found.correlation_id))


@router.post("/goals/go-on")
def go_on(request: Request, form: Filled) -> Response:
    """With what somebody else has approved meanwhile. It says no yes for anybody."""
    viewer = viewer_of(request)
    found = desk_of(request).goals.go_on(viewer.caller, form.one("id"), ASK_WAIT)
    return go(goal_path(found.tenant_id, found.correlation_id))


def _show(request: Request, viewer: Viewer, problem: RemitError | None = None, words: str = "") -> Response:
    desk = desk_of(request)
    lines = [
        Line(tenant, each.correlation_id, each.event, each.at)
        for tenant in desk.goals.tenants(viewer.caller)
        for each in desk.goals.listed(viewer.caller, tenant, EACH_TENANT)
    ]
    return page(
        request,
        "goals.html",
        status_of(problem) if problem else 200,
        here="/goals",
        lines=sorted(lines, key=lambda each: each.at, reverse=True)[:EACH_TENANT],
        languages=LANGUAGES,
        words=words,
        problem=problem,
    )


def _is_mine(viewer: Viewer, found: GoalAnswer) -> bool:
    caller = viewer.caller
    return (caller.user, caller.tenant) == (found.user_id, found.tenant_id) and viewer.may("ask")
