"""Who decides about every request of one session: what only reads may pass, what changes something waits for a person.

Asked by the proxy, so whatever a page does, by whatever means, comes by here. All of it runs in the browser's event
loop; the waiting itself is somebody else's, given as `hold`.
"""

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from remit.browser.amounts import Found
from remit.browser.masked import mask_url
from remit.browser.navigations import NEW_WINDOW
from remit.browser.requests import Answer, Ending, OutgoingRequest
from remit.contracts.browser import Action
from remit.errors import RemitError
from remit.masking import mask_text
from remit.policy.domains import matches, parse_target

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_NAVIGATIONS: Final = 20
"""Of one action, redirects included. A page that goes on and on is stopped."""
MOST_HELD: Final = 16
"""Questions of one session at a time: people who are asked about everything stop reading."""
MOST_NOTED: Final = 50


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A request that was not sent, masked."""

    method: str
    url: str
    why: str


@dataclass(eq=False)
class Running:
    """An action at work in a session, and what it has caused so far."""

    action: Action
    digest: str
    """Of the action as it was asked for, unmasked."""
    submits: bool = False
    """Whether the action submits a form: then every navigation that it causes is held."""
    form_place: str = ""
    """Where that form leads, without its fields: whoever asks for that place while it is submitted submits it."""
    picture: str | None = None
    """Of the page, with the action's element outlined. Taken before: a page that waits to go answers nothing."""
    on_page: tuple[Found, ...] = ()
    """What the form says that it costs."""
    navigations: int = 0
    held: list["Held"] = field(default_factory=list)
    turned_away: list[TurnedAway] = field(default_factory=list)
    finished: bool = False

    def navigates_to(self, url: str) -> bool:
        """Whether this is the very address that the agent asked to go to."""
        return self.action.type == "navigate" and url == parse_target(self.action.target).url.partition("#")[0]

    @property
    def may_have_sent(self) -> bool:
        """Whether a request that changes something may have left. Then the action is never tried again."""
        return any(held.may_have_been_sent for held in self.held)


@dataclass(eq=False)
class Held:
    """One request that waits for a person."""

    request: OutgoingRequest
    cause: Running
    by_itself: bool
    answer: "asyncio.Future[Answer]"
    done: "asyncio.Future[Fate]"
    ending: "concurrent.futures.Future[Ending]" = field(default_factory=concurrent.futures.Future)
    approval_id: str | None = None
    expires: str | None = None
    given_up: bool = False
    """The browser does not want it any more."""
    on_given_up: Callable[[], None] = lambda: None
    released: bool = False
    """Whether it was decided that it be sent. From here on it may have been."""

    def release(self) -> None:
        """Let it be sent. From any thread; what was given up meanwhile is not sent, and says so itself."""
        self.released = True
        self.answer.get_loop().call_soon_threadsafe(self._answer_send)

    def _answer_send(self) -> None:
        if not self.answer.done():
            self.answer.set_result(Answer.SEND)

    @property
    def may_have_been_sent(self) -> bool:
        if not self.released:
            return False
        return not self.ending.done() or self.ending.result().sent


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a held request."""

    status: int | None = None
    problem: RemitError | None = None


def place_of(url: str) -> str:
    return url.partition("#")[0].partition("?")[0]


Hold = Callable[[Held], Awaitable[None]]
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
        self._held: dict[str, Held] = {}
        self.closed = False
        self.seen = 0
        """How many requests that may change something, or lead elsewhere, have come by, whatever became of them."""
        self.running: Running | None = None
        """The action at work, or the last one: what the page does later is asked for in its name."""

    # --- what an action asks of it -----------------------------------------------------------------------------------

    def begin(self, running: Running) -> None:
        self.running = running
        self._stirred.clear()

    @property
    def waiting(self) -> tuple[Held, ...]:
        return tuple(self._held.values())

    @property
    def is_quiet(self) -> bool:
        """Whether every request that was sent has been answered, or never will be."""
        return not self._under_way

    async def stirred(self, seconds: float) -> bool:
        """Whether any request came within that time, since the action began or since this was last asked."""
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
            if running.navigations > MOST_NAVIGATIONS:
                return self._turn_away(request, f"more than {MOST_NAVIGATIONS} navigations in one action")
        changes = await self._changes_something(request, running)
        if changes is None:
            return self._turn_away(request, "it is for a window of its own, which is not opened")
        if not changes:
            self._under_way.add(request.request_id)
            return Answer.SEND
        return await self._ask(request, running)

    def ended(self, request: OutgoingRequest, ending: Ending) -> None:
        self._under_way.discard(request.request_id)
        held = self._held.get(request.request_id)
        if held is not None and not held.ending.done():
            held.ending.set_result(ending)

    def refused(self, method: str, url: str, why: str) -> None:
        self.seen += 1
        self._note(method, url, why)

    # --- how it decides ----------------------------------------------------------------------------------------------

    async def _changes_something(self, request: OutgoingRequest, running: Running) -> bool | None:
        """None: nobody will see the answer, and nobody can tell whether it submits something."""
        if request.kind != "request" or request.method not in READING:
            return True
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

    async def _ask(self, request: OutgoingRequest, running: Running) -> Answer:
        if len(self._held) >= MOST_HELD:
            return self._turn_away(request, f"{MOST_HELD} requests of this session wait for a person already")
        loop = asyncio.get_running_loop()
        held = Held(request, running, running.finished, loop.create_future(), loop.create_future())
        self._held[request.request_id] = held
        running.held.append(held)
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

    def _turn_away(self, request: OutgoingRequest, why: str) -> Answer:
        self._note(request.method, request.url, why)
        return Answer.DROP

    def _note(self, method: str, url: str, why: str) -> None:
        if self.running is not None and len(self.running.turned_away) < MOST_NOTED:
            self.running.turned_away.append(TurnedAway(method[:20], mask_url(url), mask_text(why)[:500]))

    def _dead(self) -> str:
        if self.closed:
            return "the session has ended"
        why = self._why_dead()
        if why:
            self.closed = True
            self._on_dead()
        return why
