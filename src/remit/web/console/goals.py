"""The goal pages: the requests of users and their status, and the form with which a user asks."""

from typing import Final, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.contracts.services.common import GoalAnswer, Question
from remit.core.errors import RefusedError, RemitError
from remit.services.goals.service import GoalApproval
from remit.web.console.confirm import undo_goal as ask_to_take_back
from remit.web.console.confirm import undo_steps as ask_to_take_steps_back
from remit.web.console.confirm_page import is_confirmed, render_confirmation
from remit.web.console.forms import Filled
from remit.web.console.goal_steps import show_steps
from remit.web.console.languages import Languages, find_answers, languages_for
from remit.web.console.pages import ConsoleRoute, Viewer, get_services, get_time, page, redirect_to, require_viewer
from remit.web.console.templating import address, seconds_until
from remit.web.http.problems import status_of

router: Final = APIRouter(route_class=ConsoleRoute, include_in_schema=False)
ASK_WAIT: Final = 5.0
"""Seconds. Most goals are done or have a question by then. The page of a running goal follows it."""
MOST_LISTED: Final = 20
MOST_WORDS: Final = 200


_NEXT: Final = {
    "confirmation": "Only {user} can answer, in the console or where the request was made.",
    "approval": "Another person has to approve it, in the inbox.",
    "clarification": "{user} answers by asking again.",
}
_NEXT_MINE: Final = {
    "confirmation": "Nothing is done before you have answered.",
    "approval": "Another person has to approve it, in the inbox. Then continue it here.",
    "clarification": "Your answer continues the goal.",
}


_NEXT_STEP_MINE: Final = {
    "confirmation": "This step is not started before you have answered. Your answer counts for this step only.",
    "approval": "Another person has to approve this step, in the inbox. Then continue the goal here.",
}


_APPROVED: Final = "Nothing is done yet. {user} has to continue the goal, here or where the request was made."
_APPROVED_MINE: Final = "Nothing is done yet. Press Continue."
_DENIED: Final = "Nothing was done, and no step is left."
_STEP_DENIED: Final = "This step is not done. {user} continues the goal, or Remit does it later, and the goal ends."
_ASK_AGAIN: Final = "The user can ask again."
_STEP_OVER: Final = "Remit ends the goal, and rolls back the steps that were done, unless its simulation keeps them."


class GoalLine(NamedTuple):
    tenant: str
    correlation: str
    event: str
    at: str
    utterance: str
    state: str

    @property
    def path(self) -> str:
        return goal_path(self.tenant, self.correlation)


def goal_path(tenant: str, correlation: str, **more: str) -> str:
    return address("/goals/one", tenant=tenant, id=correlation, **more)


def list_next_steps(goal: GoalAnswer, decided: GoalApproval | None, *, is_mine: bool) -> tuple[str, ...]:
    """Return what a person does next. The next steps of the services are written for programs."""
    if goal.state == "running":
        return ("This page shows when the goal has ended.",)
    if decided is not None:
        name = "approved" if decided.approved else "denied"
        reason = f": {decided.reason}" if decided.reason else "."
        denied = _STEP_DENIED if goal.steps is not None else _DENIED
        step = (_APPROVED_MINE if is_mine else _APPROVED) if decided.approved else denied
        return (f"{decided.by} {name} it{reason}", step.format(user=goal.user_id))
    mine = _NEXT_MINE | _NEXT_STEP_MINE if goal.steps is not None else _NEXT_MINE
    steps = (mine if is_mine else _NEXT).get(goal.waiting_for or "")
    return (steps.format(user=goal.user_id),) if steps else goal.next


@router.get("/goals")
def goals(request: Request) -> Response:
    return _render_goals(request, require_viewer(request))


@router.get("/goals/one")
def goal(request: Request, tenant: str = "", id: str = "") -> Response:  # noqa: A002 - as in the address
    viewer = require_viewer(request)
    goals = get_services(request).goals
    found = goals.get(viewer.caller, tenant, id)
    utterance = goals.read_utterance(viewer.caller, tenant, id)
    is_mine, is_over = _is_mine(viewer, found), _is_over(request, found)
    decided = goals.read_approval(viewer.caller, tenant, id) if found.waiting_for == "approval" else None
    return page(
        request,
        "goal.html",
        here="/goals",
        goal=found,
        utterance=utterance,
        is_mine=is_mine,
        is_over=is_over,
        decided=decided,
        next_steps=_steps_after(found) if is_over else list_next_steps(found, decided, is_mine=is_mine),
        steps=show_steps(found),
        asked=_read_question(request, viewer, found) if is_mine and not is_over else None,
        answers=find_answers(goals.read_language(viewer.caller, tenant, id)),
    )


@router.post("/goals/ask")
def ask(request: Request, form: Filled) -> Response:
    viewer, reply_to = require_viewer(request), form.given("reply_to")
    goals, tenant = get_services(request).goals, viewer.caller.tenant
    try:
        tag = goals.read_language(viewer.caller, tenant, reply_to) if reply_to and tenant else form.one("language")
        found = goals.ask(
            viewer.caller,
            form.one("utterance"),
            tag or "en",
            reply_to=reply_to,
            wait=ASK_WAIT,
        )
    except RefusedError as problem:
        return _render_goals(request, viewer, problem, form.one("utterance"), form.one("language"))
    return redirect_to(goal_path(found.tenant_id, found.correlation_id))


@router.post("/goals/go-on")
def continue_goal(request: Request, form: Filled) -> Response:
    """Continue a goal that another person has approved. This approves and confirms nothing itself."""
    viewer = require_viewer(request)
    found = get_services(request).goals.resume(viewer.caller, form.one("id"), ASK_WAIT)
    return redirect_to(goal_path(found.tenant_id, found.correlation_id))


@router.post("/goals/undo")
def undo(request: Request, form: Filled) -> Response:
    """Roll back by a new goal, or, if the goal has several steps, by their rollbacks. Both ask the user first."""
    viewer, tenant, name = require_viewer(request), form.one("tenant"), form.one("id")
    if not is_confirmed(form):
        goals = get_services(request).goals
        utterance = goals.read_utterance(viewer.caller, tenant, name)[:MOST_WORDS] or name
        has_steps = goals.get(viewer.caller, tenant, name).steps is not None
        asked = ask_to_take_steps_back(utterance) if has_steps else ask_to_take_back(utterance)
        return render_confirmation(request, form, asked, goal_path(tenant, name))
    found = get_services(request).goals.undo(viewer.caller, name, ASK_WAIT)
    return redirect_to(goal_path(found.tenant_id, found.correlation_id))


def _render_goals(
    request: Request, viewer: Viewer, problem: RemitError | None = None, utterance: str = "", language: str = ""
) -> Response:
    goals, caller = get_services(request).goals, viewer.caller
    newest = [line for tenant in goals.list_tenants(caller) for line in goals.list_goals(caller, tenant, MOST_LISTED)]
    newest.sort(key=lambda each: each.at, reverse=True)
    lines = [
        GoalLine(
            each.tenant_id,
            each.correlation_id,
            each.event,
            each.at,
            goals.read_utterance(caller, each.tenant_id, each.correlation_id)[:MOST_WORDS],
            each.state,
        )
        for each in newest[:MOST_LISTED]
    ]
    return page(
        request,
        "goals.html",
        status_of(problem) if problem else 200,
        here="/goals",
        lines=lines,
        languages=_languages(request, viewer, language),
        utterance=utterance,
        problem=problem,
    )


def _languages(request: Request, viewer: Viewer, language: str) -> Languages | None:
    """Return the languages of the form, or None for a viewer who cannot ask."""
    caller = viewer.caller
    if caller.tenant is None or not viewer.has_right("ask"):
        return None
    tags = get_services(request).catalogue.list_languages(caller, caller.tenant)
    return languages_for(tags, request.headers.get("accept-language", ""), language)


def _steps_after(found: GoalAnswer) -> tuple[str, ...]:
    """Return what follows a question that got no answer in time."""
    return (_STEP_OVER,) if found.steps is not None else (_ASK_AGAIN,)


def _read_question(request: Request, viewer: Viewer, found: GoalAnswer) -> Question | None:
    """Return the question that the viewer has to answer as the user of this goal, as the inbox shows it."""
    waits = found.waiting
    if waits is None or waits.kind != "confirmation":
        return None
    try:
        return get_services(request).inbox.show(viewer.caller, waits.kind, waits.id, tenant=waits.tenant).question
    except RefusedError:  # another window has answered meanwhile
        return None


def _is_over(request: Request, found: GoalAnswer) -> bool:
    """Whether the time for the answer is over. Nothing continues such a goal."""
    waits = found.waiting
    return waits is not None and waits.expires is not None and seconds_until(waits.expires, get_time(request)) <= 0


def _is_mine(viewer: Viewer, found: GoalAnswer) -> bool:
    caller = viewer.caller
    return (caller.user, caller.tenant) == (found.user_id, found.tenant_id) and viewer.has_right("ask")
