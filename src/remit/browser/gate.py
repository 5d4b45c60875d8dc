"""The decision about each request of one session: a reading request passes, a changing request waits for a person.

The proxy asks the gate, so every request that a page sends by any means is judged here. All of it runs in the browser's
event loop. The waiting itself is done by the function that is given as `hold`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urljoin

from remit.browser.domains import matches, parse_target
from remit.browser.held_requests import PendingRequest, RunningAction, TurnedAway, without_query
from remit.browser.model.navigation import NEW_WINDOW
from remit.browser.model.requests import Ending, GateDecision, OutgoingRequest
from remit.browser.override_headers import find_override_header, find_override_parameter
from remit.browser.typed_secrets import TypedSecrets
from remit.core.text import spelled_name
from remit.masking import mask_text

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MAX_NAVIGATIONS: Final = 20
"""The navigations that one action may cause, redirects included, so that a page cannot navigate without end."""
MAX_HELD: Final = 16
"""The held requests of one session at a time. Approvers who are asked about everything stop reading."""
MAX_NOTED: Final = 50
FOLLOWED: Final = frozenset({301, 302, 303})
"""The redirect statuses after which a browser sends a GET, whatever it sent before. After 307 and 308 it repeats the
request.
"""
SESSION_ENDED: Final = "its browser session has ended"
READ_ONLY_ACTIONS: Final = frozenset({"navigate", "snapshot", "screenshot"})
"""The actions that only read, and cause no change."""


Hold = Callable[[PendingRequest], Awaitable[None]]
"""Runs the operation of the held request. Resolves `decision`, and `done` at the end. Never raises."""


class SessionGate:
    """The gate of one session. Its token allows `domains`. `why_invalid` returns why the token is no longer valid, or
    an empty text.
    """

    def __init__(
        self,
        domains: tuple[str, ...],
        why_invalid: Callable[[], str],
        hold: Hold,
        why_navigation: Callable[[str], Awaitable[str | None]],
        on_invalid: Callable[[], None],
    ) -> None:
        self._domains = domains
        self._why_invalid = why_invalid
        self._hold = hold
        self._why_navigation = why_navigation
        self._on_invalid = on_invalid
        self._in_flight: set[str] = set()
        self._activity = asyncio.Event()
        self._held: dict[str, PendingRequest] = {}
        self._redirects: dict[str, str] = {}
        """Redirects since the action began: the target of each, and the address that redirected to it."""
        self._to_follow: set[str] = set()
        """Targets of redirects after approved requests of this action. Reading them is a part of the answer."""
        self._following: set[str] = set()
        """Requests that passed for that reason. They may be redirected in turn."""
        self._unawaited: deque[PendingRequest] = deque(maxlen=MAX_NOTED)
        self.secrets = TypedSecrets()
        self.closed = False
        self.observed_requests = 0
        """The number of requests so far that may change something or navigate, with any outcome."""
        self.navigations = 0
        self.running: RunningAction | None = None
        """The running action, or the last one."""
        self.last_acting: RunningAction | None = None
        """The last action that did something in the shown page. Later requests of the page are attributed to it, unless
        another action is running.
        """
        self._left_action: RunningAction | None = None
        """The last action that did something in a page from which the agent has navigated away. A page sends requests
        while it closes, and its workers outlive it.
        """
        self._left_page = ""
        self._page_addresses: set[str] = set()
        """Addresses that the session has opened since then. A request that names one of them as its page is not
        attributed to the action before.
        """

    # --- calls of an action ------------------------------------------------------------------------------------------

    def begin(self, running: RunningAction, page: str = "") -> None:
        """Attribute requests to this action from now on. `page` is the address of the shown page."""
        self.running = running
        if running.action.type not in READ_ONLY_ACTIONS:
            self.last_acting = running
        elif running.action.type == "navigate":
            self._left_action, self.last_acting = self.last_acting or self._left_action, None
            self._left_page = page.partition("#")[0]
            self._page_addresses = {parse_target(running.action.target).url.partition("#")[0]}
        for noted in (self._redirects, self._to_follow, self._following):
            noted.clear()
        self._activity.clear()

    @property
    def waiting(self) -> tuple[PendingRequest, ...]:
        return tuple(self._held.values())

    @property
    def is_quiet(self) -> bool:
        """Whether no request is in flight: each was answered, or will not be."""
        return not self._in_flight

    @property
    def awaited_request(self) -> PendingRequest | None:
        """The request whose approval the running action waits for."""
        return next((held for held in self.waiting if held.waits_for_person and held.is_awaited), None)

    def unreported_requests(self) -> list[PendingRequest]:
        """The requests that no action waits for, and whose current state the agent has not received yet."""
        unreported = [held for held in self._unawaited if held.reported_state != held.state]
        for held in [held for held in self._unawaited if held.done.done() and held not in unreported]:
            self._unawaited.remove(held)
        return unreported

    def abandonment_reason(self, held: PendingRequest) -> str:
        """The reason in the record of the approval request."""
        if self.closed:
            return SESSION_ENDED
        if self.navigations > held.navigations:
            return "the page that sent it was left"
        return "the page gave the request up"

    async def wait_for_activity(self, seconds: float) -> bool:
        """Whether a request came or ended within that time, since the action began or since the last call."""
        try:
            async with asyncio.timeout(seconds):
                await self._activity.wait()
        except TimeoutError:
            return False
        self._activity.clear()
        return True

    # --- calls of the proxy ------------------------------------------------------------------------------------------

    def check_destination(self, scheme: str, host: str, port: int) -> str | None:  # noqa: ARG002 - the domains name hosts
        if problem := self._check_token():
            return problem
        bracketed = host if ":" not in host else f"[{host}]"
        return None if matches(bracketed, self._domains) else "the token does not allow this host"

    async def judge(self, request: OutgoingRequest) -> GateDecision:
        if problem := self._check_token():
            return self._turn_away(request, problem)
        running = self.running
        if running is None:  # the session has no action yet, so no request has a reason
            return self._turn_away(request, "no action has begun")
        self._activity.set()
        self.observed_requests += (
            request.is_navigation or request.kind == "websocket" or request.method not in SAFE_METHODS
        )
        if request.is_navigation:
            running.navigations += 1
            self.navigations += 1
            if len(self._page_addresses) < MAX_NOTED:
                self._page_addresses.add(request.url)
            if running.navigations > MAX_NAVIGATIONS:
                return self._turn_away(request, f"more than {MAX_NAVIGATIONS} navigations in one action")
            parameter = find_override_parameter(request.url)
            if parameter and request.method in SAFE_METHODS and running.action.type in READ_ONLY_ACTIONS:
                why = "names another method, but a navigation may only read"
                return self._turn_away(request, f"its parameter {spelled_name(parameter[:60])} {why}")
        changes = await self._changes_something(request, running)
        if changes is None:
            return self._turn_away(request, "it is for a new window, which Remit does not open")
        if not changes:
            self._in_flight.add(request.request_id)
            return GateDecision.READ
        return await self._hold_for_approval(request, running)

    def note_end(self, request: OutgoingRequest, ending: Ending) -> None:
        self._in_flight.discard(request.request_id)
        self._activity.set()
        if ending.status is None and request.request_id in self._following:
            self._to_follow.add(request.url)  # without an answer the browser or Remit may send it again
        held = self._held.get(request.request_id)
        self._note_redirect(request, held, ending)
        if held is not None and not held.ending.done():
            held.ending.set_result(ending)

    def note_refused(self, method: str, url: str, why: str) -> None:
        self.observed_requests += 1
        self._note(method, url, why)

    def _note_redirect(self, request: OutgoingRequest, held: PendingRequest | None, ending: Ending) -> None:
        if not ending.location or len(self._redirects) >= MAX_NOTED:
            return
        try:
            target = urljoin(request.url, ending.location).partition("#")[0]
        except ValueError:  # a server may send any text there
            return
        self._redirects[target] = request.url
        is_of_this_action = held is not None and held.released and held.cause is self.running
        if self.running is not None and (is_of_this_action or request.request_id in self._following):
            self.running.redirected_to.add(target)
            if ending.status in FOLLOWED:
                self._to_follow.add(target)

    # --- decisions ---------------------------------------------------------------------------------------------------

    async def _changes_something(self, request: OutgoingRequest, running: RunningAction) -> bool | None:
        """Whether the request changes something. None for a new window: Remit opens none, so nothing shows the answer,
        and it cannot be known whether the request submits a form.
        """
        if request.kind != "request" or request.method not in SAFE_METHODS or find_override_header(request.headers):
            return True
        if find_override_parameter(request.url):
            return True
        if request.method == "GET" and request.url in self._to_follow:
            # Only the server that received the approved request could name this address. It is valid once.
            self._to_follow.discard(request.url)
            self._following.add(request.request_id)
            return False
        is_submitting = running.submits and not running.finished
        if is_submitting and running.form_address and without_query(request.url) == running.form_address:
            return True  # also if a script or a worker sends it instead of the form
        if not request.is_navigation or request.method == "OPTIONS":
            return False
        if is_submitting:
            return True
        if running.navigates_to(request.url):
            return False
        why = await self._why_navigation(request.url) or ""
        return None if why == NEW_WINDOW else why.startswith("formSubmission")

    async def _hold_for_approval(self, request: OutgoingRequest, running: RunningAction) -> GateDecision:
        cause = self._find_cause(request, running)
        if any(held.is_repeated_by(request) for held in cause.held):
            return self._turn_away(request, "it was sent before, and the server's response is unknown")
        if len(self._held) >= MAX_HELD:
            return self._turn_away(request, f"{MAX_HELD} requests of this session wait for a person already")
        loop = asyncio.get_running_loop()
        by_itself = cause.action.type in READ_ONLY_ACTIONS
        held = PendingRequest(request, cause, by_itself, loop.create_future(), loop.create_future())
        if not by_itself and cause.ended_at is not None:
            held.seconds_after = max(loop.time() - cause.ended_at, 0.0)
        held.navigations, held.secrets = self.navigations, self.secrets
        held.page_left = cause is self._left_action and cause is not self.last_acting
        held.redirected_from = self._redirects.pop(request.url, "")
        self._held[request.request_id] = held
        cause.held.append(held)
        if not held.is_awaited:
            self._unawaited.append(held)
        waiting = asyncio.ensure_future(self._hold(held))
        waiting.add_done_callback(lambda _: self._held.pop(request.request_id, None))
        try:
            # Shielded: if the browser gives the request up, the operation learns that and ends by itself.
            return await asyncio.shield(held.decision)
        except asyncio.CancelledError:
            held.is_abandoned = True
            if not held.ending.done():
                held.ending.set_result(Ending(None, sent=False, problem="the browser gave the request up"))
            held.on_abandoned()
            raise

    def _find_cause(self, request: OutgoingRequest, running: RunningAction) -> RunningAction:
        """Return the running action if it does something in the page, else the last one that did. If the agent has
        navigated since then, a request is not attributed to that one only if it names the new page as its page.
        """
        if running.action.type not in READ_ONLY_ACTIONS:
            return running
        if self.last_acting is not None:
            return self.last_acting
        return running if self._left_action is None or self._is_from_current_page(request) else self._left_action

    def _is_from_current_page(self, request: OutgoingRequest) -> bool:
        """Whether the browser names the current page as its source. For a worker it names another address, and for some
        requests none.
        """
        page = next((value for name, value in request.headers if name.lower() == "referer"), "")
        return page in self._page_addresses and page != self._left_page

    def _turn_away(self, request: OutgoingRequest, why: str) -> GateDecision:
        self._note(request.method, request.url, why)
        return GateDecision.DROP

    def _note(self, method: str, url: str, why: str) -> None:
        if self.running is not None and len(self.running.turned_away) < MAX_NOTED:
            url, why = self.secrets.mask_url(url), mask_text(why)[:500]
            self.running.turned_away.append(TurnedAway(method[:20], url, why))

    def _check_token(self) -> str:
        if self.closed:
            return "the session has ended"
        why = self._why_invalid()
        if why:
            self.closed = True
            self._on_invalid()
        return why
