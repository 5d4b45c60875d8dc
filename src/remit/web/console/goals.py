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
MOST_LISTED: Final = 20
MOST_WORDS: Final = 200
LANGUAGES: Final = {"en": "English", "de": "Deutsch", "es": "Español", "fr": "Français"}


class Line(NamedTuple):
    tenant: str
    correlation: str
    event: str
    at: str
    words: str

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
    goals = desk_of(request).goals
    found = goals.get(viewer.caller, tenant, id)
    words = goals.words(viewer.caller, tenant, id)
    return page(request, "goal.html", here="/goals", goal=found, words=words, is_mine=_is_mine(viewer, found))


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
    asked, caller = desk_of(request).goals, viewer.caller
    newest = [line for tenant in asked.tenants(caller) for line in asked.listed(caller, tenant, MOST_LISTED)]
    newest.sort(key=lambda each: each.at, reverse=True)
    lines = [
        Line(
            each.tenant_id,
            each.correlation_id,
            each.event,
            each.at,
            asked.words(caller, each.tenant_id, each.correlation_id)[:MOST_WORDS],
        )
        for each in newest[:MOST_LISTED]
    ]
    return page(
        request,
        "goals.html",
        status_of(problem) if problem else 200,
        here="/goals",
        lines=lines,
        languages=LANGUAGES,
        words=words,
        problem=problem,
    )


def _is_mine(viewer: Viewer, found: GoalAnswer) -> bool:
    caller = viewer.caller
    return (caller.user, caller.tenant) == (found.user_id, found.tenant_id) and viewer.may("ask")
