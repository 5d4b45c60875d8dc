"""The work of an action in a session: inspect its target, perform it, and wait until its consequences have ended."""

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
"""How long an inspection or an action may take before Remit asks the page whether it still answers. Remit asks again
after each such interval.
"""
RESTLESS_SECONDS: Final = 2.0
"""How long an action waits for a page that keeps sending requests."""
APPROVAL_ID_SECONDS: Final = 5.0
"""How long it may take until a held request has an approval request with an id. That needs a picture and a commit."""
MAX_HELD_REPORTED: Final = 20

ON_ELEMENTS: Final = frozenset({"click", "type", "submit", "purchase"})
SUBMITTING: Final = frozenset({"submit", "purchase"})


@dataclass(frozen=True)
class ActionTarget:
    """The page and the element that an action is about to act on."""

    url: str
    """The address of the page, unmasked."""
    content_hash: str | None
    description: ElementDescription | None = None

    @property
    def submits(self) -> bool:
        return self.description is not None and self.description.submits


@dataclass(frozen=True)
class PerformedAction:
    """The outcome of a performed action, masked."""

    output: dict[str, Any]
    content_hash: str | None
    picture: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Expected:
    """The state before the action: how many requests the page had made, how many of them the gate had seen, and whether
    the action must cause one.
    """

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
    """Return the page and the element that the action names. Changes nothing.

    Refuses if the page is another one, or if the element is missing, ambiguous, out of sight or covered.
    """
    if action.type == "navigate":
        with contextlib.suppress(PageEndedError):  # the action leaves this page anyway
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
    """Return the result of the work. If the work timed out, check that the page still answers. A page that does not
    answer is ended, and PageEndedError is raised.
    """
    try:
        return await work
    except EnvironmentFailureError as problem:
        if problem.reason is Reason.TIMED_OUT and not isinstance(problem, PageEndedError) and not tab.is_closed:
            await tab.page.require_responsive()
        raise


async def _run_watched(tab: "Tab", work: Coroutine[Any, Any, T]) -> T:
    """Do the same, and check during the work that the page answers. A stuck page gets its `page_seconds` and no more.

    This is not for navigating, which checks the page itself. During a navigation there may be no page to check.
    """
    running, answering = asyncio.ensure_future(_require_answer(tab, work)), None
    try:
        await asyncio.wait({running}, timeout=PING_SECONDS)
        while not running.done():
            answering = asyncio.ensure_future(tab.page.is_responsive())
            await asyncio.wait({running, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and not answering.result():
                await _cancel(running)  # before its page ends: an error about that would hide the reason
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
    """Refuse if Remit had to end the page."""
    if tab.page.ended_because:
        raise RefusedError(
            Reason.PAGE_CHANGED,
            f"the page of this session has ended: {tab.page.ended_because}",
            where=f"session {tab.key.name}",
            next_step="Navigate again, in this session: its cookies are still there.",
        )


def require_same_page(page_url: str, target: str, secrets: TypedSecrets) -> None:
    """Refuse if origin or path differ from the target. A page that has moved on is not the one that the caller
    meant.
    """
    expected = parse_target(target)
    try:
        found = parse_target(page_url.partition("#")[0].partition("?")[0])
    except RefusedError:
        found = None
    if found is None or (found.origin, found.path) != (expected.origin, expected.path):
        raise RefusedError(
            Reason.PAGE_CHANGED,
            f"the session shows another page than the action names: {secrets.mask_url(page_url)}",
            where=mask_url(target),
            next_step="If you mean that page, give its address as the target. Otherwise navigate first.",
        )


def require_unchanged(before: ActionTarget, now: ActionTarget, secrets: TypedSecrets) -> None:
    """Refuse if the page or the element is no longer the one that a person approved."""
    if before.url != now.url or _identity(before.description) != _identity(now.description):
        raise RefusedError(
            Reason.PAGE_CHANGED,
            "the page changed after the approval, so nothing was done",
            where=secrets.mask_url(now.url),
            next_step="Look at the page again and ask for the action again.",
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
    """Perform the action and wait for its consequences: held requests and loading pages. Raises the first error."""
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
    before = tuple(tab.page.events)  # only the newest are kept, so a count would not show which are new
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
    # Also for requests that the action does not wait for, so that the result can name them.
    await wait_for_approval_ids(reported, APPROVAL_ID_SECONDS)
    content_hash = await _read_final_hash(tab)  # this also reads the title
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
    """Note the text that is about to be typed, after the approval where one is needed. Addresses are noted as shown."""
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
    """Perform the action itself, once. An error before the page can have received the action is raised. A later error
    is returned, because there may be consequences to wait for.
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
        return EnvironmentFailureError(  # "missing" would mean that the page received nothing
            Reason.EFFECT_FAILED,
            f"the page may have received the {action.type} before this error: {problem.what}",
            next_step="Remit does not repeat the action. Take a snapshot to see the state of the page.",
        )
    return None


async def _await_consequences(tab: "Tab", running: RunningAction, expected: Expected) -> None:
    """Wait until no request that the action caused is held, the page is at rest, and it has deferred no work.

    The wait for a page that does not come to rest is limited. A page that does not answer is ended, and PageEndedError
    is raised. Requests that come after this returns are late: `running.ended_at` is set in the same step of the event
    loop in which that is decided.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    while True:
        # When the page rests, everything that it did at once is known. Its arrival here may take a moment more.
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
        # A closed session has no page that could come to rest.
        if tab.is_closed or is_over or loop.time() > started + patience:
            running.end(loop.time())
            if not rests and not tab.is_closed:
                await tab.page.require_responsive()
            return
        if rests or loop.time() < checked_at + POLL_SECONDS:  # otherwise that time has passed already
            await tab.gate.wait_for_activity(POLL_SECONDS)


async def _read_final_hash(tab: "Tab") -> str | None:
    """Return the hash of the page's content, or None if it cannot be read in time, which does not fail the action.

    PageEndedError is raised if the page does not answer at all.
    """
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
    """Raise unless the action succeeded.

    It failed if one of its requests was denied, or has an unknown result. It also failed if the page may not open the
    address to which it leads, directly or through the server's answer, and the page stayed where it was.
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
            next_step="The form may be incomplete, or the page did something else. Take a snapshot to see.",
        )


async def _navigate(tab: "Tab", action: Action, running: RunningAction, constraints: TokenConstraints) -> int | None:
    """Navigate and return the server's status. If a host is not allowed, on a redirect too, the page is unchanged."""
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
            next_step="Check the address, and that the server is running.",
        )
    return landed.status


def _require_not_turned_away(tab: "Tab", running: RunningAction, constraints: TokenConstraints) -> None:
    """Refuse if a request for the page itself was turned away. A picture that may not be loaded is no reason to
    fail.
    """
    requested = {tab.secrets.mask_url(url) for url in (*tab.page.requested_pages, *running.redirected_to)}
    stopped = next((each for each in running.turned_away if each.url in requested), None)
    if stopped is not None:
        raise _build_refusal(stopped, constraints)


def _build_refusal(turned_away: TurnedAway, constraints: TokenConstraints) -> RefusedError:
    """The error for a request that was turned away: the token does not name the host, or the settings of this machine
    do not allow that address, or not that often.
    """
    try:
        require_host(constraints, host_of(turned_away.url))
    except RefusedError as problem:
        return problem
    return RefusedError(
        Reason.CONSTRAINT_VIOLATED,
        turned_away.why,
        next_step=f"Nothing was sent to {turned_away.url}. The page is unchanged.",
    )


def report_held(held: PendingRequest) -> dict[str, Any]:
    """Return the state of a held request for the result. The agent receives it again only after a change."""
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
    """Return the hash of the page's content. None if there is no page yet, or if it cannot be read; the action itself
    reports that.
    """
    if not tab.page.url.startswith(("http://", "https://")):
        return None
    with contextlib.suppress(RemitError):
        return await tab.page.content_hash()
    return None
