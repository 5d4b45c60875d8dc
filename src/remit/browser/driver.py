"""The browser as the road sees it: plain calls that wait, from any thread, into the one event loop that drives it."""

import asyncio
import concurrent.futures
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from remit.authority.capability_token import Token
from remit.browser.actions import ActionTarget, ReportedAction, act, element_of, hash_of, look
from remit.browser.amounts import FoundPrice
from remit.browser.chromium.screenshot import Shot
from remit.browser.event_loop import LoopThread
from remit.browser.gate import SESSION_ENDED
from remit.browser.held_requests import PendingOutcome, PendingRequest, RunningAction
from remit.browser.model.requests import Answer
from remit.browser.notices import notes_on
from remit.browser.request_preview import Context
from remit.browser.screenshots import Pictures
from remit.browser.sessions import DEFAULT_NAME, BrowserSessions, SessionKey, Tab
from remit.contracts.browser.browser import Action
from remit.contracts.browser.errors import NOT_SENT
from remit.contracts.config.browser import Browser
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, as_remit_error
from remit.fs.atomic_write import make_private_directory

TURN_SECONDS: Final = 30.0
"""How long an action waits for the one before it in its session. For one that waits for a person, not at all."""
GLANCE_SECONDS: Final = 0.1
START_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 60.0
PICTURE_SECONDS: Final = 3.0
CLOSE_SECONDS: Final = 30.0
MOST_AT_ONCE: Final = 128
PICTURES: Final = "screens"


@dataclass(frozen=True)
class WorldPlace:
    """`folder` is the browser's own in the state directory; `hidden` are folders that Chromium must not see."""

    folder: Path
    hidden: Sequence[Path]


class BrowserDriver:
    """One Chromium and its sessions. `travel` takes a held request down the road, in a thread, and tells its fate."""

    def __init__(
        self,
        config: Browser,
        place: WorldPlace,
        why_dead: Callable[[Token], str],
        travel: Callable[[Tab, PendingRequest, Context, str | None], PendingOutcome],
        void: Callable[[str, str], None],
        *,
        unsafe: bool = False,
    ) -> None:
        self._place = place
        self._travel = travel
        self._void = void
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="remit-held")
        # Of its own: the others may all be waiting for what this one has to say.
        self._voiding = ThreadPoolExecutor(2, thread_name_prefix="remit-void")
        self._thread = LoopThread()
        make_private_directory(place.folder)
        self._pictures = Pictures(
            place.folder / PICTURES, most_days=config.picture_days, most_bytes=config.picture_bytes
        )
        self._prune_later()

        async def made() -> BrowserSessions:
            folder = place.folder / "run"
            return BrowserSessions(config, folder, place.hidden, why_dead, self._hold, self._void_asked, unsafe=unsafe)

        self._sessions = self._thread.run(made())

    # --- what an action asks for -------------------------------------------------------------------------------------

    def enter(self, token: Token, action: Action) -> Tab:
        """The action's session, opened if need be to navigate. It is this caller's until its turn is released."""
        key = SessionKey(token.agent_id, token.jti, action.session or DEFAULT_NAME)
        opening = self._sessions.open(key, token) if action.type == "navigate" else self._sessions.find(key)
        tab = self._thread.run(opening, START_SECONDS)
        deadline = time.monotonic() + TURN_SECONDS
        while not tab.turn.acquire(timeout=GLANCE_SECONDS):
            question = tab.open_question
            if question is not None or time.monotonic() > deadline:
                raise _taken(key.name, question)
        if tab.is_closed:
            tab.turn.release()
            raise RefusedError(
                Reason.STATE_MISSING, "the session has ended", where=f"session {key.name}", next_step="Navigate first."
            )
        return tab

    def look(self, tab: Tab, action: Action) -> ActionTarget:
        with tab.secrets.kept_out_of_errors(action.selector):
            return self._thread.run(look(tab, action), LOOK_SECONDS + 2 * tab.page.patience.page)

    def begin(self, tab: Tab, looked: ActionTarget, running: RunningAction) -> None:
        """From here on what the session sends is this action's. What a person will be shown is looked at now."""
        if running.submits:
            running.picture = self._picture_later(tab, looked)
        if running.action.type == "purchase":
            with contextlib.suppress(RemitError):
                seen = self._thread.run(tab.page.amounts(element_of(running.action)), LOOK_SECONDS)
                running.on_page = tuple(FoundPrice("form", each.value, each.currency) for each in seen if each.in_form)
        self._thread.loop.call_soon_threadsafe(tab.gate.begin, running, looked.url)

    def act(self, tab: Tab, looked: ActionTarget, running: RunningAction, token: Token) -> ReportedAction:
        """Done, and waited for: as long as a person may take to answer."""
        with tab.secrets.kept_out_of_errors(running.action.selector):
            return self._thread.run(act(tab, running.action, looked, running, token.constraints))

    def hash_of(self, tab: Tab) -> str | None:
        with contextlib.suppress(RemitError):
            return self._thread.run(hash_of(tab), LOOK_SECONDS)
        return None

    def picture_of(self, tab: Tab, looked: ActionTarget) -> str | None:
        """A picture of the page with the element outlined, kept beside the question; None if none is to be had."""
        box = looked.described.outline if looked.described is not None else None
        with contextlib.suppress(RemitError):
            return self.keep(self._thread.run(tab.page.screenshot(outline=box), LOOK_SECONDS), durably=False)
        return None

    def _picture_later(self, tab: Tab, looked: ActionTarget) -> "concurrent.futures.Future[str | None] | None":
        """The same, taken now. What is left to do to it is done while the page goes on, for the question to come."""
        box = looked.described.outline if looked.described is not None else None

        async def finish(shot: Shot) -> str | None:
            with contextlib.suppress(RemitError):
                return self.keep(await tab.page.finish(shot), durably=False)
            return None

        with contextlib.suppress(RemitError):
            shot = self._thread.run(tab.page.shoot(outline=box), LOOK_SECONDS)
            return asyncio.run_coroutine_threadsafe(finish(shot), self._thread.loop)
        return None

    def keep(self, picture: bytes, *, durably: bool = True) -> str:
        """Where it is. A question's picture need not outlive a crash: the question does not."""
        path = self._pictures.keep(picture, durably=durably)
        if self._pictures.is_pruning_due:
            self._prune_later()
        return path

    def _prune_later(self) -> None:
        with contextlib.suppress(RuntimeError):  # everything is being ended
            self._voiding.submit(self._pictures.prune, time.time())

    # --- what goes on besides ----------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether anything waits for a person."""
        return any(tab.gate.waiting for tab in self._sessions.tabs)

    @property
    def sessions(self) -> int:
        return len(self._sessions.tabs)

    def waits_for_person(self, token_jti: str) -> bool:
        """Whether an action under this token can go on only once somebody has answered."""
        return any(tab.open_question is not None for tab in self._sessions.tabs if tab.key.token_jti == token_jti)

    def end_sessions_of(self, token_jti: str) -> None:
        """The same as for all, for the sessions of one token."""
        self._thread.run(self._sessions.close_of(token_jti), CLOSE_SECONDS)

    def end_sessions(self) -> None:
        """Nothing more is sent; what waited is void, and the actions that waited for it come to their end."""
        self._thread.run(self._sessions.close_all(), CLOSE_SECONDS)

    def close(self) -> None:
        """No process and no thread is left."""
        try:
            self.end_sessions()
        finally:
            self._voiding.shutdown()
            self._pool.shutdown()
            self._thread.close()

    async def _hold(self, tab: Tab, held: PendingRequest) -> None:
        """One held request: seen as the person will see it, taken down the road, and its fate told. Never raises."""
        loop = self._thread.loop
        fate: PendingOutcome | None = None

        def given_up() -> None:
            if held.approval_id is not None:
                loop.run_in_executor(self._voiding, self._void, held.approval_id, tab.gate.why_given_up(held))

        held.on_given_up = given_up
        try:
            context, picture = await self._seen(tab, held)
            fate = await loop.run_in_executor(self._pool, self._travel, tab, held, context, picture)
        except Exception as problem:  # noqa: BLE001 - whatever it was: what nobody allowed is not sent
            fate = PendingOutcome(problem=as_remit_error(problem))
        finally:
            if not held.answer.done():
                held.answer.set_result(Answer.DROP)
            if not held.done.done():
                held.done.set_result(PendingOutcome(problem=_ended()) if fate is None else fate)
            held.was_put.set()
            if held.approval_id is not None and not held.released:
                with contextlib.suppress(RuntimeError):  # this world is being closed, and with it all its questions
                    # A yes may have come to nothing, for want of disk or of a token that counts.
                    loop.run_in_executor(self._voiding, self._void, held.approval_id, "the request was not sent")

    def _void_asked(self, tab: Tab) -> None:
        """A session that ended takes along what its action asked before it did anything."""
        if tab.asking is not None:
            self._thread.loop.run_in_executor(self._voiding, self._void, tab.asking, SESSION_ENDED)

    async def _seen(self, tab: Tab, held: PendingRequest) -> tuple[Context, str | None]:
        """What the page shows while the request waits. A page that does not answer is no reason not to ask."""
        cause = held.cause
        picture: str | None = None
        if cause.picture is not None and held.is_awaited:
            picture = await asyncio.wrap_future(cause.picture)
        if picture is None and not held.request.is_navigation:
            with contextlib.suppress(RemitError, TimeoutError):
                async with asyncio.timeout(PICTURE_SECONDS):
                    picture = self.keep(await tab.page.screenshot(), durably=False)
        context = Context(cause.action, tab.page.url, held.by_itself, tab.secrets, cause.on_page)
        return replace(context, redirected_from=held.redirected_from, notes=notes_on(held)), picture


def _taken(session: str, question: str | None) -> RefusedError:
    if question is None:
        return RefusedError(
            Reason.IN_PROGRESS,
            "another action is at work in this session",
            where=f"session {session}",
            next_step='Wait for it; or act in another session meanwhile: "session" in the action.',
        )
    return RefusedError(
        Reason.IN_PROGRESS,
        f"an action of this session waits for a person to answer question {question}",
        where=f"session {session}",
        next_step=(
            f"Have it answered (remit approvals show {question}), or wait for that action (remit browse --wait); or"
            ' act in another session meanwhile: "session" in the action.'
        ),
    )


def _ended() -> EnvironmentFailureError:
    return EnvironmentFailureError(Reason.CANCELLED, f"{NOT_SENT}: the session ended while the request was waiting")
