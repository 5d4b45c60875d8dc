"""What an action does in a session: looked at first, then done, then waited for until it has come to its end."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from remit.browser.chromium.types import Element, ElementDescription, PageEndedError
from remit.browser.domains import parse_target
from remit.browser.held_requests import PendingRequest, RunningAction, TurnedAway, wait_for_approval_ids
from remit.browser.model.masking import cut, host_of, mask_url
from remit.browser.policy import require_host
from remit.browser.typed_secrets import TypedSecrets
from remit.contracts.browser.browser import Action, TokenConstraints
from remit.contracts.browser.output import MAX_SECONDS_AFTER
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError

if TYPE_CHECKING:
    from remit.browser.sessions import Tab  # which loads the browser's driver

T = TypeVar("T")

NAVIGATE_SECONDS: Final = 30.0
LOAD_SECONDS: Final = 10.0
SUBMIT_SECONDS: Final = 5.0
"""How long a form that was submitted may take to send something."""
POLL_SECONDS: Final = 0.1
PING_SECONDS: Final = 1.0
"""How long a look, or an act, may take before the page is asked whether it is still there; and between two times."""
RESTLESS_SECONDS: Final = 2.0
"""How long an action waits for a page that goes on asking for things."""
APPROVAL_ID_SECONDS: Final = 5.0
"""How long it may take until a request that is held is a question with an id. It wants a picture, and a commit."""
MAX_HELD_REPORTED: Final = 20

ON_ELEMENTS: Final = frozenset({"click", "type", "submit", "purchase"})
SUBMITTING: Final = frozenset({"submit", "purchase"})


@dataclass(frozen=True)
class ActionTarget:
    """What an action is about to meet."""

    url: str
    """Of the page, unmasked."""
    content_hash: str | None
    description: ElementDescription | None = None

    @property
    def submits(self) -> bool:
        return self.description is not None and self.description.submits


@dataclass(frozen=True)
class PerformedAction:
    """What came of it, masked."""

    output: dict[str, Any]
    content_hash: str | None
    picture: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Expected:
    """How many requests the page had made, and how many had come by, before the action; and whether one must come."""

    changing_requests: int
    observed_requests: int
    submits: bool

    def has_arrived(self, tab: "Tab") -> bool:
        return (
            tab.page.changing_requests - self.changing_requests <= tab.gate.observed_requests - self.observed_requests
        )


def element_of(action: Action) -> Element | None:
    return None if action.selector is None and action.ref is None else Element(action.selector, action.ref)


async def inspect_target(tab: "Tab", action: Action) -> ActionTarget:
    """The page is the one the action names, and the element is there, once, in sight and free. Changes nothing."""
    if action.type == "navigate":
        with contextlib.suppress(PageEndedError):  # it is left behind
            return ActionTarget(tab.page.url, await _run_watched(tab, _read_final_hash(tab)))
        return ActionTarget(tab.page.url, None)
    require_page(tab)
    return await _run_watched(tab, _inspect_element(tab, action))


async def _inspect_element(tab: "Tab", action: Action) -> ActionTarget:
    require_same_page(tab.page.url, action.target, tab.secrets)
    element = element_of(action)
    description = await tab.page.describe(element) if element is not None and action.type in ON_ELEMENTS else None
    return ActionTarget(tab.page.url, await read_hash(tab), description)


async def _require_answer(tab: "Tab", work: Coroutine[Any, Any, T]) -> T:
    """What comes of it. If the page took too long: whether it answers at all. PageEnded, and it is ended, if not."""
    try:
        return await work
    except EnvironmentFailureError as problem:
        if problem.reason is Reason.TIMED_OUT and not isinstance(problem, PageEndedError) and not tab.is_closed:
            await tab.page.require_responsive()
        raise


async def _run_watched(tab: "Tab", work: Coroutine[Any, Any, T]) -> T:
    """The same, and the page is asked while the work goes on: one that is stuck has its `page_seconds` and no more.

    Not for navigating, which asks by itself: while the session is led elsewhere there may be no page to ask.
    """
    running, answering = asyncio.ensure_future(_require_answer(tab, work)), None
    try:
        await asyncio.wait({running}, timeout=PING_SECONDS)
        while not running.done():
            answering = asyncio.ensure_future(tab.page.is_responsive())
            await asyncio.wait({running, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and not answering.result():
                await _cancel(running)  # before its page goes: what it would say of that is not the reason
                raise await tab.page.end_unresponsive()
            await asyncio.wait({running}, timeout=PING_SECONDS)
        return running.result()
    finally:
        await _cancel(running, answering)


async def _cancel(*works: "asyncio.Future[Any] | None") -> None:
    left = [work for work in works if work is not None and not work.done()]
    for work in left:
        work.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def require_page(tab: "Tab") -> None:
    """Not one that Remit had to end."""
    if tab.page.ended_because:
        raise RefusedError(
            Reason.PAGE_CHANGED,
            f"the page of this session is gone: {tab.page.ended_because}",
            where=f"session {tab.key.name}",
            next_step="Navigate again, in this session: its cookies are still there.",
        )


def require_same_page(page_url: str, target: str, secrets: TypedSecrets) -> None:
    """Origin and path. A page that went elsewhere meanwhile is not the one that somebody meant."""
    expected = parse_target(target)
    try:
        found = parse_target(page_url.partition("#")[0].partition("?")[0])
    except RefusedError:
        found = None
    if found is None or (found.origin, found.path) != (expected.origin, expected.path):
        raise RefusedError(
            Reason.PAGE_CHANGED,
            f"the session is at another page than the action names: {secrets.mask_url(page_url)}",
            where=mask_url(target),
            next_step="If that is the page that is meant, give its address as the target; else navigate first.",
        )


def require_unchanged(before: ActionTarget, now: ActionTarget, secrets: TypedSecrets) -> None:
    """What a person said yes to is still what is there."""
    if before.url != now.url or _identity(before.description) != _identity(now.description):
        raise RefusedError(
            Reason.PAGE_CHANGED,
            "the page changed under the approval, so nothing was done",
            where=secrets.mask_url(now.url),
            next_step="Look at the page again, and ask again.",
        )


def _identity(description: ElementDescription | None) -> tuple[Any, ...] | None:
    if description is None:
        return None
    return (
        description.tag,
        description.type,
        description.role,
        description.name,
        description.form,
        description.frame_url,
    )


async def perform_action(
    tab: "Tab", action: Action, target: ActionTarget, running: RunningAction, constraints: TokenConstraints
) -> PerformedAction:
    """Do it, and wait for what it caused: requests that are held, pages that load. Raises what went wrong."""
    tab.page.requested_pages.clear()
    tab.page.has_pressed = tab.page.has_deferred_work = False
    running.begin()
    try:
        work = _perform_and_report(tab, action, target, running, constraints)
        return await (_require_answer if action.type == "navigate" else _run_watched)(tab, work)
    finally:
        running.is_pressed |= tab.page.has_pressed
        running.end(asyncio.get_running_loop().time())


async def _perform_and_report(
    tab: "Tab", action: Action, target: ActionTarget, running: RunningAction, constraints: TokenConstraints
) -> PerformedAction:
    before = tuple(tab.page.events)  # only the newest are kept, so a count would not tell which are new
    output: dict[str, Any] = {}
    picture: bytes | None = None
    _note_typed_values(tab, action, target)
    if action.type == "navigate":
        output["status"] = await _navigate(tab, action, running, constraints)
    elif action.type == "screenshot":
        picture = await tab.page.screenshot(element_of(action))
    elif action.type == "snapshot":
        output["snapshot"] = tab.secrets.mask_tree(await tab.page.snapshot(element_of(action)))
    else:
        expected = Expected(tab.page.changing_requests, tab.gate.observed_requests, submits=action.type in SUBMITTING)
        problem = await _perform(tab, action)
        await _await_consequences(tab, running, expected)
        if problem is not None:
            raise problem
        _require_success(tab, action, target, running, constraints)
    new = [event for event in tab.page.events if not any(event is old for old in before)]
    events = [{"kind": event.kind, "what": cut(tab.secrets.text(event.what), 200)} for event in new]
    reported = [*running.held, *(held for held in tab.gate.unreported_requests() if held.cause is not running)]
    # Also for those that it does not wait for: so that they can be named.
    await wait_for_approval_ids(reported, APPROVAL_ID_SECONDS)
    content_hash = await _read_final_hash(tab)  # and with it the title
    output |= {
        "url": tab.secrets.mask_url(tab.page.url),
        "title": cut(tab.secrets.text(tab.page.title), 500),
        "held": [report_held(held) for held in reported[:MAX_HELD_REPORTED]],
        "turned_away": [render_turned_away(each) for each in running.turned_away[:MAX_HELD_REPORTED]],
        "noted": events[:MAX_HELD_REPORTED],
        "confined": tab.chromium.confined,
    }
    return PerformedAction(output, content_hash, picture)


def _note_typed_values(tab: "Tab", action: Action, target: ActionTarget) -> None:
    """What is about to be typed, after a person approved it where one is asked; and addresses, which hide nothing."""
    description = target.description
    if action.type == "navigate":
        tab.secrets.note_shown_text(action.target)
    elif action.type == "type" and description is not None:
        if description.secret_kind is None:
            tab.secrets.note_shown_text(action.value or "")
        else:
            tab.secrets.add(
                action.value or "",
                description.secret_kind,
                is_password=description.is_password,
                names=description.words,
                page=target.url,
            )


async def _perform(tab: "Tab", action: Action) -> RemitError | None:
    """The action itself, once. What went wrong after the page may have received it is returned: there may be
    consequences to wait for. What went wrong before is raised.
    """
    element = element_of(action) or Element()
    performers: dict[str, Callable[[], Awaitable[None]]] = {
        "click": lambda: tab.page.click(element),
        "type": lambda: tab.page.type(element, action.value or ""),
        "submit": lambda: tab.page.submit(element),
        "purchase": lambda: tab.page.submit(element),
    }
    try:
        await performers[action.type]()
    except RemitError as problem:
        if not tab.page.has_pressed:
            raise
        if problem.reason is not Reason.ELEMENT_MISSING:
            return problem
        return EnvironmentFailureError(  # that it is missing would say that the page received nothing
            Reason.EFFECT_FAILED,
            f"the page may have received the {action.type}, and then: {problem.what}",
            next_step="It is not repeated. Take a snapshot to see what the page made of it.",
        )
    return None


async def _await_consequences(tab: "Tab", running: RunningAction, expected: Expected) -> None:
    """Until nothing that it caused is held, and the page has come to rest and has put nothing off because of it.

    A restless page is not waited for. A page that does not answer is ended, and that is told as PageEnded. When this
    returns, what comes later is late: `running.ended_at` is set in the same step in which that was decided.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        # When the page rests, what it did at once is known, and only that it arrives here may take a moment more.
        checked_at = loop.time()
        rests = await tab.page.wait_for_rest(POLL_SECONDS)
        pending = [held.done for held in running.held if not held.done.done()]
        if pending:
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            started = loop.time()
            continue
        is_waiting = expected.submits and not running.held and not running.turned_away
        is_over = (
            rests
            and not is_waiting
            and tab.gate.is_quiet
            and expected.has_arrived(tab)
            and not tab.page.has_deferred_work
        )
        patience = SUBMIT_SECONDS if is_waiting else LOAD_SECONDS if running.navigations else RESTLESS_SECONDS
        if tab.page.has_deferred_work:
            patience = max(patience, tab.page.timeouts.late)
        # If it is closed, what it would rest from is gone.
        if tab.is_closed or is_over or loop.time() > started + patience:
            running.end(loop.time())
            if not rests and not tab.is_closed:
                await tab.page.require_responsive()
            return
        if rests or loop.time() < checked_at + POLL_SECONDS:  # else it was waited for as long already
            await tab.gate.wait_for_activity(POLL_SECONDS)


async def _read_final_hash(tab: "Tab") -> str | None:
    """A page that cannot be read in time is no failure of the action; one that answers nothing is."""
    if not tab.page.url.startswith(("http://", "https://")):
        return None
    try:
        return await tab.page.content_hash()
    except PageEndedError:
        raise
    except EnvironmentFailureError as problem:
        if problem.reason is Reason.TIMED_OUT and not tab.is_closed:
            await tab.page.require_responsive()
    except RemitError:
        pass
    return None


def _require_success(
    tab: "Tab", action: Action, target: ActionTarget, running: RunningAction, constraints: TokenConstraints
) -> None:
    """An action whose request was denied, or whose result is not known, did not succeed; nor did one that was
    to lead to a place where the page may not go, by the answer to what was sent too, and left it where it was.
    """
    problems = [held.done.result().problem for held in running.held if held.done.done()]
    first = next((problem for problem in problems if problem is not None), None)
    if first is not None:
        raise first
    _require_not_turned_away(tab, running, constraints)
    if running.held:
        return
    if running.turned_away and (target.submits or action.type in SUBMITTING):
        raise _build_refusal(running.turned_away[0], constraints)
    if action.type in SUBMITTING:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "nothing was sent",
            where=mask_url(action.target),
            next_step="The form may be incomplete, or its page did something else: take a snapshot.",
        )


async def _navigate(tab: "Tab", action: Action, running: RunningAction, constraints: TokenConstraints) -> int | None:
    """The server's status. Where the way was barred, on a redirect too, the page is still the one that it was."""
    try:
        landed = await tab.page.navigate(action.target, NAVIGATE_SECONDS)
    except EnvironmentFailureError:
        _require_not_turned_away(tab, running, constraints)
        raise
    require_host(constraints, host_of(landed.url))
    if landed.unreachable:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            f"the page did not load: {landed.unreachable}",
            where=mask_url(action.target),
            next_step="Check the address, and that the server is there.",
        )
    return landed.status


def _require_not_turned_away(tab: "Tab", running: RunningAction, constraints: TokenConstraints) -> None:
    """Of the page itself: that it may not have a picture from elsewhere is no reason to fail."""
    requested = {tab.secrets.mask_url(url) for url in (*tab.page.requested_pages, *running.redirected_to)}
    stopped = next((each for each in running.turned_away if each.url in requested), None)
    if stopped is not None:
        raise _build_refusal(stopped, constraints)


def _build_refusal(turned_away: TurnedAway, constraints: TokenConstraints) -> RefusedError:
    """The token does not name the host; or this machine does not let anybody go there, or not that often."""
    try:
        require_host(constraints, host_of(turned_away.url))
    except RefusedError as problem:
        return problem
    return RefusedError(
        Reason.CONSTRAINT_VIOLATED,
        turned_away.why,
        next_step=f"Nothing was sent to {turned_away.url}; the page is where it was.",
    )


def report_held(held: PendingRequest) -> dict[str, Any]:
    """What became of a request that was held, as far as that is known; the agent is told again only of a change."""
    held.reported_state = held.state
    return {
        "request_id": held.request.request_id,
        "method": held.request.method or None,
        "url": held.secrets.mask_url(held.request.url),
        "approval_id": held.approval_id,
        "by_itself": held.by_itself,
        "action_id": held.cause.action.action_id,
        "seconds_after": None if held.seconds_after is None else min(round(held.seconds_after, 1), MAX_SECONDS_AFTER),
        "approved_by": held.approved_by,
        "reason": held.approval_reason,
        "state": held.reported_state,
        "status": held.done.result().status if held.done.done() else None,
    }


def render_turned_away(turned_away: TurnedAway) -> dict[str, str]:
    return {"method": turned_away.method, "url": turned_away.url, "why": turned_away.why}


async def read_hash(tab: "Tab") -> str | None:
    """Null where there is no page yet, or one that does not answer: that is for the action itself to say."""
    if not tab.page.url.startswith(("http://", "https://")):
        return None
    with contextlib.suppress(RemitError):
        return await tab.page.content_hash()
    return None
