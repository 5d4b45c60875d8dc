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
from remit.browser.held_requests import PendingRequest, RunningAction, TurnedAway, place_of
from remit.browser.model.navigation import NEW_WINDOW
from remit.browser.model.requests import Answer, Ending, OutgoingRequest
from remit.browser.override_headers import names_another, parameter_names_another
from remit.browser.typed_secrets import TypedSecrets
from remit.core.text import spelled_name
from remit.masking import mask_text

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_NAVIGATIONS: Final = 20
"""Of one action, redirects included. A page that goes on and on is stopped."""
MOST_HELD: Final = 16
"""Questions of one session at a time: people who are asked about everything stop reading."""
MOST_NOTED: Final = 50
FOLLOWED: Final = frozenset({301, 302, 303})
"""Answers after which a browser goes on by GET, whatever it had sent. 307 and 308 have it repeat the request."""
SESSION_ENDED: Final = "its browser session has ended"
LOOKING: Final = frozenset({"navigate", "snapshot", "screenshot"})
"""Actions that only read: they cause nothing that changes something."""


Hold = Callable[[PendingRequest], Awaitable[None]]
"""Has the request travel the road: resolves `answer`, and `done` when all is over. Never raises."""


class SessionGate:
    """Of one session, whose token allows `domains`. `why_dead` says why that token is no longer good, or nothing."""

    def __init__(
        self,
        domains: tuple[str, ...],
        why_dead: Callable[[], str],
        hold: Hold,
        why_navigation: Callable[[str], Awaitable[str | None]],
        on_dead: Callable[[], None],
    ) -> None:
        self._domains = domains
        self._why_dead = why_dead
        self._hold = hold
        self._why_navigation = why_navigation
        self._on_dead = on_dead
        self._under_way: set[str] = set()
        self._stirred = asyncio.Event()
        self._held: dict[str, PendingRequest] = {}
        self._redirects: dict[str, str] = {}
        """Where servers have sent the browser on to since the action began, and from where."""
        self._to_follow: set[str] = set()
        """Where the answer to an approved request of this action led: reading that is a part of the answer."""
        self._following: set[str] = set()
        """Requests that were let go for that reason: they may be led on in their turn."""
        self._own: deque[PendingRequest] = deque(maxlen=MOST_NOTED)
        self.secrets = TypedSecrets()
        self.closed = False
        self.seen = 0
        """How many requests that may change something, or lead elsewhere, have come by, whatever became of them."""
        self.navigations = 0
        self.running: RunningAction | None = None
        """The action at work, or the last one."""
        self.acted: RunningAction | None = None
        """The last action that did something in the page that is shown: what the page asks for later is its, unless
        another action is at work.
        """
        self._left: RunningAction | None = None
        """The last action that did something in a page which the agent has led the session away from. A page sends
        things as it goes, and its workers outlive it.
        """
        self._left_page = ""
        self._led_here: set[str] = set()
        """Addresses that the session was led to since then. What names one of them as its page is that page's own."""

    # --- what an action asks of it -----------------------------------------------------------------------------------

    def begin(self, running: RunningAction, page: str = "") -> None:
        """`page` is the address of the page that is shown."""
        self.running = running
        if running.action.type not in LOOKING:
            self.acted = running
        elif running.action.type == "navigate":
            self._left, self.acted = self.acted or self._left, None
            self._left_page = page.partition("#")[0]
            self._led_here = {parse_target(running.action.target).url.partition("#")[0]}
        for noted in (self._redirects, self._to_follow, self._following):
            noted.clear()
        self._stirred.clear()

    @property
    def waiting(self) -> tuple[PendingRequest, ...]:
        return tuple(self._held.values())

    @property
    def is_quiet(self) -> bool:
        """Whether every request that was sent has been answered, or never will be."""
        return not self._under_way

    @property
    def keeps_waiting(self) -> PendingRequest | None:
        """What the action at work waits for a person to answer."""
        return next((held for held in self.waiting if held.waits_for_person and held.is_awaited), None)

    def own_news(self) -> list[PendingRequest]:
        """What no action waits for, of which the agent was not told yet, or not how it stands now."""
        news = [held for held in self._own if held.told != held.state]
        for held in [held for held in self._own if held.done.done() and held not in news]:
            self._own.remove(held)
        return news

    def why_given_up(self, held: PendingRequest) -> str:
        """In words for the record of its question."""
        if self.closed:
            return SESSION_ENDED
        if self.navigations > held.navigations:
            return "the page it came from is gone"
        return "the page gave the request up"

    async def stirred(self, seconds: float) -> bool:
        """Whether any request came or ended within that time, since the action began or since this was last asked."""
        try:
            async with asyncio.timeout(seconds):
                await self._stirred.wait()
        except TimeoutError:
            return False
        self._stirred.clear()
        return True

    # --- what the proxy asks -----------------------------------------------------------------------------------------

    def refuse_place(self, scheme: str, host: str, port: int) -> str | None:  # noqa: ARG002 - the domains name hosts
        if dead := self._dead():
            return dead
        shown = host if ":" not in host else f"[{host}]"
        return None if matches(shown, self._domains) else "the token does not allow this host"

    async def judge(self, request: OutgoingRequest) -> Answer:
        if dead := self._dead():
            return self._turn_away(request, dead)
        running = self.running
        if running is None:  # nothing was asked of this session yet, so nothing has a reason to be sent
            return self._turn_away(request, "no action has begun")
        self._stirred.set()
        self.seen += request.is_navigation or request.kind == "websocket" or request.method not in READING
        if request.is_navigation:
            running.navigations += 1
            self.navigations += 1
            if len(self._led_here) < MOST_NOTED:
                self._led_here.add(request.url)
            if running.navigations > MOST_NAVIGATIONS:
                return self._turn_away(request, f"more than {MOST_NAVIGATIONS} navigations in one action")
            parameter = parameter_names_another(request.url)
            if parameter and request.method in READING and running.action.type in LOOKING:
                why = "names another method, and going to an address is only to read it"
                return self._turn_away(request, f"its parameter {spelled_name(parameter[:60])} {why}")
        changes = await self._changes_something(request, running)
        if changes is None:
            return self._turn_away(request, "it is for a window of its own, which is not opened")
        if not changes:
            self._under_way.add(request.request_id)
            return Answer.READ
        return await self._ask(request, running)

    def ended(self, request: OutgoingRequest, ending: Ending) -> None:
        self._under_way.discard(request.request_id)
        self._stirred.set()
        if ending.status is None and request.request_id in self._following:
            self._to_follow.add(request.url)  # the browser, or we, may ask again: there was no answer yet
        held = self._held.get(request.request_id)
        self._note_where_it_leads(request, held, ending)
        if held is not None and not held.ending.done():
            held.ending.set_result(ending)

    def refused(self, method: str, url: str, why: str) -> None:
        self.seen += 1
        self._note(method, url, why)

    def _note_where_it_leads(self, request: OutgoingRequest, held: PendingRequest | None, ending: Ending) -> None:
        if not ending.location or len(self._redirects) >= MOST_NOTED:
            return
        try:
            leads_to = urljoin(request.url, ending.location).partition("#")[0]
        except ValueError:  # a server may write anything there
            return
        self._redirects[leads_to] = request.url
        is_of_this_action = held is not None and held.released and held.cause is self.running
        if self.running is not None and (is_of_this_action or request.request_id in self._following):
            self.running.led_to.add(leads_to)
            if ending.status in FOLLOWED:
                self._to_follow.add(leads_to)

    # --- how it decides ----------------------------------------------------------------------------------------------

    async def _changes_something(self, request: OutgoingRequest, running: RunningAction) -> bool | None:
        """None: nobody will see the answer, and nobody can tell whether it submits something."""
        if request.kind != "request" or request.method not in READING or names_another(request.headers):
            return True
        if parameter_names_another(request.url):
            return True
        if request.method == "GET" and request.url in self._to_follow:
            # Only the server that got the approved request could name this address; and it counts once.
            self._to_follow.discard(request.url)
            self._following.add(request.request_id)
            return False
        is_submitting = running.submits and not running.finished
        if is_submitting and running.form_place and place_of(request.url) == running.form_place:
            return True  # also if a script or a worker sends it in the form's stead
        if not request.is_navigation or request.method == "OPTIONS":
            return False
        if is_submitting:
            return True
        if running.navigates_to(request.url):
            return False
        why = await self._why_navigation(request.url) or ""
        return None if why == NEW_WINDOW else why.startswith("formSubmission")

    async def _ask(self, request: OutgoingRequest, running: RunningAction) -> Answer:
        cause = self._cause(request, running)
        if any(held.is_repeated_by(request) for held in cause.held):
            return self._turn_away(request, "it was sent before, and nobody knows what the server made of it")
        if len(self._held) >= MOST_HELD:
            return self._turn_away(request, f"{MOST_HELD} requests of this session wait for a person already")
        loop = asyncio.get_running_loop()
        by_itself = cause.action.type in LOOKING
        held = PendingRequest(request, cause, by_itself, loop.create_future(), loop.create_future())
        if not by_itself and cause.ended_at is not None:
            held.seconds_after = max(loop.time() - cause.ended_at, 0.0)
        held.navigations, held.secrets = self.navigations, self.secrets
        held.page_left = cause is self._left and cause is not self.acted
        held.redirected_from = self._redirects.pop(request.url, "")
        self._held[request.request_id] = held
        cause.held.append(held)
        if not held.is_awaited:
            self._own.append(held)
        waiting = asyncio.ensure_future(self._hold(held))
        waiting.add_done_callback(lambda _: self._held.pop(request.request_id, None))
        try:
            # Shielded: if the browser gives it up, the road is told so and comes to its own end.
            return await asyncio.shield(held.answer)
        except asyncio.CancelledError:
            held.given_up = True
            if not held.ending.done():
                held.ending.set_result(Ending(None, sent=False, problem="the browser gave the request up"))
            held.on_given_up()
            raise

    def _cause(self, request: OutgoingRequest, running: RunningAction) -> RunningAction:
        """The action at work, if it does something in the page; else the last one that did. In a page that the agent
        went to after that, only what names this page as its own is not that one's.
        """
        if running.action.type not in LOOKING:
            return running
        if self.acted is not None:
            return self.acted
        return running if self._left is None or self._is_of_shown_page(request) else self._left

    def _is_of_shown_page(self, request: OutgoingRequest) -> bool:
        """By the page that the browser names. Of a worker it names another address, and of some requests none."""
        page = next((value for name, value in request.headers if name.lower() == "referer"), "")
        return page in self._led_here and page != self._left_page

    def _turn_away(self, request: OutgoingRequest, why: str) -> Answer:
        self._note(request.method, request.url, why)
        return Answer.DROP

    def _note(self, method: str, url: str, why: str) -> None:
        if self.running is not None and len(self.running.turned_away) < MOST_NOTED:
            url, why = self.secrets.url(url), mask_text(why)[:500]
            self.running.turned_away.append(TurnedAway(method[:20], url, why))

    def _dead(self) -> str:
        if self.closed:
            return "the session has ended"
        why = self._why_dead()
        if why:
            self.closed = True
            self._on_dead()
        return why
