"""Who decides about every request of one session: what only reads may pass, what changes something waits for a person.

Asked by the proxy, so whatever a page does, by whatever means, comes by here. All of it runs in the browser's event
loop; the waiting itself is somebody else's, given as `hold`.
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
"""Of one action, redirects included. A page that goes on and on is stopped."""
MAX_HELD: Final = 16
"""Questions of one session at a time: people who are asked about everything stop reading."""
MAX_NOTED: Final = 50
FOLLOWED: Final = frozenset({301, 302, 303})
"""Answers after which a browser goes on by GET, whatever it had sent. 307 and 308 have it repeat the request."""
SESSION_ENDED: Final = "its browser session has ended"
READ_ONLY_ACTIONS: Final = frozenset({"navigate", "snapshot", "screenshot"})
"""Actions that only read: they cause nothing that changes something."""


Hold = Callable[[PendingRequest], Awaitable[None]]
"""Has the request travel the road: resolves `decision`, and `done` when all is over. Never raises."""


class SessionGate:
    """Of one session, whose token allows `domains`. `why_invalid` says why it is no longer valid, or nothing."""

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
        """Where servers have sent the browser on to since the action began, and from where."""
        self._to_follow: set[str] = set()
        """Where the answer to an approved request of this action led: reading that is a part of the answer."""
        self._following: set[str] = set()
        """Requests that were let go for that reason: they may be led on in their turn."""
        self._unawaited: deque[PendingRequest] = deque(maxlen=MAX_NOTED)
        self.secrets = TypedSecrets()
        self.closed = False
        self.observed_requests = 0
        """How many requests that may change something, or lead elsewhere, have come by, whatever became of them."""
        self.navigations = 0
        self.running: RunningAction | None = None
        """The action at work, or the last one."""
        self.last_acting: RunningAction | None = None
        """The last action that did something in the page that is shown: what the page asks for later is its, unless
        another action is at work.
        """
        self._left_action: RunningAction | None = None
        """The last action that did something in a page which the agent has led the session away from. A page sends
        things as it goes, and its workers outlive it.
        """
        self._left_page = ""
        self._page_addresses: set[str] = set()
        """Addresses that the session was led to since then. What names one of them as its page is that page's own."""

    # --- what an action asks of it -----------------------------------------------------------------------------------

    def begin(self, running: RunningAction, page: str = "") -> None:
        """`page` is the address of the page that is shown."""
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
        """Whether every request that was sent has been answered, or never will be."""
        return not self._in_flight

    @property
    def awaited_request(self) -> PendingRequest | None:
        """What the action at work waits for a person to answer."""
        return next((held for held in self.waiting if held.waits_for_person and held.is_awaited), None)

    def unreported_requests(self) -> list[PendingRequest]:
        """What no action waits for, of which the agent was not told yet, or not how it stands now."""
        unreported = [held for held in self._unawaited if held.reported_state != held.state]
        for held in [held for held in self._unawaited if held.done.done() and held not in unreported]:
            self._unawaited.remove(held)
        return unreported

    def abandonment_reason(self, held: PendingRequest) -> str:
        """In words for the record of its question."""
        if self.closed:
            return SESSION_ENDED
        if self.navigations > held.navigations:
            return "the page it came from is gone"
        return "the page gave the request up"

    async def wait_for_activity(self, seconds: float) -> bool:
        """Whether any request came or ended within that time, since the action began or since this was last asked."""
        try:
            async with asyncio.timeout(seconds):
                await self._activity.wait()
        except TimeoutError:
            return False
        self._activity.clear()
        return True

    # --- what the proxy asks -----------------------------------------------------------------------------------------

    def check_destination(self, scheme: str, host: str, port: int) -> str | None:  # noqa: ARG002 - the domains name hosts
        if problem := self._check_token():
            return problem
        bracketed = host if ":" not in host else f"[{host}]"
        return None if matches(bracketed, self._domains) else "the token does not allow this host"

    async def judge(self, request: OutgoingRequest) -> GateDecision:
        if problem := self._check_token():
            return self._turn_away(request, problem)
        running = self.running
        if running is None:  # nothing was asked of this session yet, so nothing has a reason to be sent
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
                why = "names another method, and going to an address is only to read it"
                return self._turn_away(request, f"its parameter {spelled_name(parameter[:60])} {why}")
        changes = await self._changes_something(request, running)
        if changes is None:
            return self._turn_away(request, "it is for a window of its own, which is not opened")
        if not changes:
            self._in_flight.add(request.request_id)
            return GateDecision.READ
        return await self._hold_for_approval(request, running)

    def note_end(self, request: OutgoingRequest, ending: Ending) -> None:
        self._in_flight.discard(request.request_id)
        self._activity.set()
        if ending.status is None and request.request_id in self._following:
            self._to_follow.add(request.url)  # the browser, or we, may ask again: there was no answer yet
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
        except ValueError:  # a server may write anything there
            return
        self._redirects[target] = request.url
        is_of_this_action = held is not None and held.released and held.cause is self.running
        if self.running is not None and (is_of_this_action or request.request_id in self._following):
            self.running.redirected_to.add(target)
            if ending.status in FOLLOWED:
                self._to_follow.add(target)

    # --- how it decides ----------------------------------------------------------------------------------------------

    async def _changes_something(self, request: OutgoingRequest, running: RunningAction) -> bool | None:
        """None: nobody will see the answer, and nobody can tell whether it submits something."""
        if request.kind != "request" or request.method not in SAFE_METHODS or find_override_header(request.headers):
            return True
        if find_override_parameter(request.url):
            return True
        if request.method == "GET" and request.url in self._to_follow:
            # Only the server that got the approved request could name this address; and it counts once.
            self._to_follow.discard(request.url)
            self._following.add(request.request_id)
            return False
        is_submitting = running.submits and not running.finished
        if is_submitting and running.form_address and without_query(request.url) == running.form_address:
            return True  # also if a script or a worker sends it in the form's stead
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
            return self._turn_away(request, "it was sent before, and nobody knows what the server made of it")
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
            # Shielded: if the browser gives it up, the road is told so and comes to its own end.
            return await asyncio.shield(held.decision)
        except asyncio.CancelledError:
            held.is_abandoned = True
            if not held.ending.done():
                held.ending.set_result(Ending(None, sent=False, problem="the browser gave the request up"))
            held.on_abandoned()
            raise

    def _find_cause(self, request: OutgoingRequest, running: RunningAction) -> RunningAction:
        """The action at work, if it does something in the page; else the last one that did. In a page that the agent
        went to after that, only what names this page as its own is not that one's.
        """
        if running.action.type not in READ_ONLY_ACTIONS:
            return running
        if self.last_acting is not None:
            return self.last_acting
        return running if self._left_action is None or self._is_from_current_page(request) else self._left_action

    def _is_from_current_page(self, request: OutgoingRequest) -> bool:
        """By the page that the browser names. Of a worker it names another address, and of some requests none."""
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
