"""A running action and its requests that wait for a person, with the state of each."""

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
    """An action that runs in a session, and its consequences so far."""

    action: Action
    digest: str
    """The digest of the action as the agent sent it, unmasked."""
    what: str = ""
    """The action in a few words, masked: `click on the button 'Pay'`."""
    submits: bool = False
    """Whether the action submits a form. Then every navigation that it causes is held."""
    form_address: str = ""
    """The address of that form, without its fields. Each request for it during the action is taken as the submission.
    """
    picture: "concurrent.futures.Future[str | None] | None" = None
    """The path of the picture of the page, once it is finished. It is taken before the action, because a page that
    waits to navigate does not answer.
    """
    on_page: tuple[FoundPrice, ...] = ()
    """The prices in the form."""
    navigations: int = 0
    held: list["PendingRequest"] = field(default_factory=list)
    turned_away: list[TurnedAway] = field(default_factory=list)
    redirected_to: set[str] = field(default_factory=set)
    """The targets of redirects in the answers to its approved requests."""
    is_pressed: bool = False
    """Whether the page may have received the action. Then the action is never tried again."""
    ended_at: float | None = None
    """When the action stopped waiting for its consequences, on the clock of the event loop. Later requests are late."""
    finished: bool = False

    def begin(self) -> None:
        """Begin a try. The action waits for the requests that the page sends from now on."""
        self.ended_at = None

    def end(self, now: float) -> None:
        """End the wait. Requests that the page sends from now on are late."""
        self.ended_at = now if self.ended_at is None else self.ended_at

    def navigates_to(self, url: str) -> bool:
        """Whether this is exactly the address to which the action navigates."""
        return self.action.type == "navigate" and url == parse_target(self.action.target).url.partition("#")[0]

    @property
    def may_have_sent(self) -> bool:
        """Whether a request that changes something may have been sent. Then the action is never tried again."""
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
    """The page sent it, and no action of the agent in the page came before. So no action waits for it."""
    decision: "asyncio.Future[GateDecision]"
    done: "asyncio.Future[PendingOutcome]"
    ending: "concurrent.futures.Future[Ending]" = field(default_factory=concurrent.futures.Future)
    approval_id: str | None = None
    approval_ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the approval request has an id, or when it is certain that there will be none."""
    navigations: int = 0
    """The number of navigations of the session when this began to wait."""
    seconds_after: float | None = None
    """For a late request: how long after the end of its action it came. Its action does not wait for it."""
    page_left: bool = False
    """The agent has navigated to another page since the action to which this is attributed."""
    redirected_from: str = ""
    """The address whose server redirected the browser to this one."""
    approved_by: str | None = None
    approval_reason: str | None = None
    """The reason that the approver gave."""
    is_abandoned: bool = False
    """The browser has given the request up."""
    on_abandoned: Callable[[], None] = lambda: None
    secrets: TypedSecrets = field(default_factory=TypedSecrets)
    """The typed secrets of its session."""
    reported_state: str = ""
    """The state that the agent received last."""
    released: bool = False
    """Whether the decision was to send it. From then on it may have been sent."""

    @property
    def is_awaited(self) -> bool:
        """Whether an action waits for the end of this request."""
        return not self.by_itself and self.seconds_after is None

    def set_approval(self, approval_id: str) -> None:
        """Note the id of the approval request. May be called from any thread."""
        self.approval_id = approval_id
        self.decision.get_loop().call_soon_threadsafe(self.approval_ended.set)

    @property
    def state(self) -> str:
        """The state as one word for the agent: it waits, the server answered it, or the reason why it was not sent."""
        if not self.done.done():
            return "waiting"
        problem = self.done.result().problem
        return "answered" if problem is None else problem.reason.value

    @property
    def waits_for_person(self) -> bool:
        return self.approval_id is not None and not self.released and not self.is_abandoned

    def release(self) -> None:
        """Let the request be sent. May be called from any thread. If the browser has given the request up, it is not
        sent, and `ending` says so.
        """
        self.released = True
        self.decision.get_loop().call_soon_threadsafe(self._decide_send)

    def _decide_send(self) -> None:
        if not self.decision.done():
            self.decision.set_result(GateDecision.SEND)

    def is_repeated_by(self, request: OutgoingRequest) -> bool:
        """Whether this was sent without an answer and the browser now tries to send the same again."""
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
    """The outcome of a held request."""

    status: int | None = None
    problem: RemitError | None = None


async def wait_for_approval_ids(all_held: Sequence[PendingRequest], seconds: float) -> None:
    """Wait until each approval request has an id or will not get one, but no longer than that many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for held in all_held:
                await held.approval_ended.wait()


def without_query(url: str) -> str:
    return url.partition("#")[0].partition("?")[0]
