"""An action at work, and the requests of it that wait for a person: what each is, and how far it has come."""

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from remit.browser.amounts import FoundPrice
from remit.browser.domains import parse_target
from remit.browser.model.requests import Ending, GateDecision, OutgoingRequest
from remit.browser.typed_secrets import TypedSecrets
from remit.contracts.browser.browser import Action
from remit.core.errors import RemitError


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A request that was not sent, masked."""

    method: str
    url: str
    why: str


@dataclass(eq=False)
class RunningAction:
    """An action at work in a session, and what it has caused so far."""

    action: Action
    digest: str
    """Of the action as it was asked for, unmasked."""
    what: str = ""
    """The action in a few words, masked: `click on the button 'Pay'`."""
    submits: bool = False
    """Whether the action submits a form: then every navigation that it causes is held."""
    form_address: str = ""
    """Where that form leads, without its fields: whoever asks for that place while it is submitted submits it."""
    picture: "concurrent.futures.Future[str | None] | None" = None
    """Where that of the page is, once it is done. Taken before: a page that waits to go answers nothing."""
    on_page: tuple[FoundPrice, ...] = ()
    """What the form says that it costs."""
    navigations: int = 0
    held: list["PendingRequest"] = field(default_factory=list)
    turned_away: list[TurnedAway] = field(default_factory=list)
    redirected_to: set[str] = field(default_factory=set)
    """Where the answers to its approved requests sent the browser on to."""
    is_pressed: bool = False
    """Whether the page may have received what the action does. Then the action is never tried again."""
    ended_at: float | None = None
    """When it stopped waiting for what it causes, on the clock of the event loop. What comes after that is late."""
    finished: bool = False

    def begin(self) -> None:
        """It is done, or done once more: what the page asks for from now on is waited for."""
        self.ended_at = None

    def end(self, now: float) -> None:
        """What the page asks for from now on is late."""
        self.ended_at = now if self.ended_at is None else self.ended_at

    def navigates_to(self, url: str) -> bool:
        """Whether this is the very address that the agent asked to go to."""
        return self.action.type == "navigate" and url == parse_target(self.action.target).url.partition("#")[0]

    @property
    def may_have_sent(self) -> bool:
        """Whether a request that changes something may have left. Then the action is never tried again."""
        return self.sent > 0

    @property
    def sent(self) -> int:
        return sum(held.may_have_been_sent for held in self.held)


@dataclass(eq=False)
class PendingRequest:
    """One request that waits for a person."""

    request: OutgoingRequest
    cause: RunningAction
    by_itself: bool
    """The page asked for it, and nothing that the agent did in the page went before: so no action waits for it."""
    decision: "asyncio.Future[GateDecision]"
    done: "asyncio.Future[PendingOutcome]"
    ending: "concurrent.futures.Future[Ending]" = field(default_factory=concurrent.futures.Future)
    approval_id: str | None = None
    approval_ended: asyncio.Event = field(default_factory=asyncio.Event)
    """The question has an id, or there will be none."""
    navigations: int = 0
    """How many the session had made when this began to wait."""
    seconds_after: float | None = None
    """Of a late one: how long after the end of its action it came. Its action does not wait for it."""
    page_left: bool = False
    """The agent has led the session elsewhere since the action that this counts with."""
    redirected_from: str = ""
    """The address whose server sent the browser on to this one."""
    approved_by: str | None = None
    approval_reason: str | None = None
    """What the person who approved it gave as a reason."""
    is_abandoned: bool = False
    """The browser does not want it any more."""
    on_abandoned: Callable[[], None] = lambda: None
    secrets: TypedSecrets = field(default_factory=TypedSecrets)
    """Of its session."""
    reported_state: str = ""
    """Its state when the agent was last told of it."""
    released: bool = False
    """Whether it was decided that it be sent. From here on it may have been."""

    @property
    def is_awaited(self) -> bool:
        """Whether an action is at work that ends only when this has ended."""
        return not self.by_itself and self.seconds_after is None

    def set_approval(self, approval_id: str) -> None:
        """A person is asked. From any thread."""
        self.approval_id = approval_id
        self.decision.get_loop().call_soon_threadsafe(self.approval_ended.set)

    @property
    def state(self) -> str:
        """In a word, as the agent is told: it waits, was answered by the server, or why it was not sent."""
        if not self.done.done():
            return "waiting"
        problem = self.done.result().problem
        return "answered" if problem is None else problem.reason.value

    @property
    def waits_for_person(self) -> bool:
        return self.approval_id is not None and not self.released and not self.is_abandoned

    def release(self) -> None:
        """Let it be sent. From any thread; what was given up meanwhile is not sent, and says so itself."""
        self.released = True
        self.decision.get_loop().call_soon_threadsafe(self._decide_send)

    def _decide_send(self) -> None:
        if not self.decision.done():
            self.decision.set_result(GateDecision.SEND)

    def is_repeated_by(self, request: OutgoingRequest) -> bool:
        """Whether this was sent and got no answer, and is asked for once more: by a browser that tries again."""
        if self.request.kind == "message" or not self.may_have_been_sent:  # messages get no answers
            return False
        return self.ending.done() and self.ending.result().status is None and self.request.digest == request.digest

    @property
    def may_have_been_sent(self) -> bool:
        if not self.released:
            return False
        return not self.ending.done() or self.ending.result().sent


@dataclass(frozen=True, slots=True)
class PendingOutcome:
    """What became of a held request."""

    status: int | None = None
    problem: RemitError | None = None


async def wait_for_approval_ids(all_held: Sequence[PendingRequest], seconds: float) -> None:
    """Until each has come so far that its question has an id, or needs none any more."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for held in all_held:
                await held.approval_ended.wait()


def without_query(url: str) -> str:
    return url.partition("#")[0].partition("?")[0]
