"""The browser for the execution engine: blocking calls from any thread into the event loop that drives Chromium."""

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
from remit.browser.actions import ActionTarget, PerformedAction, element_of, inspect_target, perform_action, read_hash
from remit.browser.amounts import FoundPrice
from remit.browser.chromium.screenshot import Shot
from remit.browser.event_loop import LoopThread
from remit.browser.gate import SESSION_ENDED
from remit.browser.held_requests import PendingOutcome, PendingRequest, RunningAction
from remit.browser.model.requests import GateDecision
from remit.browser.request_preview import Context, build_notes
from remit.browser.screenshots import Pictures
from remit.browser.sessions import DEFAULT_NAME, BrowserSessions, SessionKey, Tab
from remit.contracts.browser.browser import Action
from remit.contracts.browser.errors import NOT_SENT
from remit.contracts.config.browser import Browser
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, as_remit_error
from remit.fs.atomic_write import make_private_directory

TURN_SECONDS: Final = 30.0
"""How long an action waits for the one before it in its session. It does not wait if that one waits for a person."""
POLL_SECONDS: Final = 0.1
START_SECONDS: Final = 60.0
INSPECT_SECONDS: Final = 60.0
PICTURE_SECONDS: Final = 3.0
CLOSE_SECONDS: Final = 30.0
MAX_HELD_AT_ONCE: Final = 128
PICTURES: Final = "screens"


@dataclass(frozen=True)
class BrowserFolders:
    """`folder` is the browser's folder in the state directory. `hidden` are folders that Chromium must not see."""

    folder: Path
    hidden: Sequence[Path]


class BrowserDriver:
    """One Chromium and its sessions. `run_held_request` requests the approval of a held request and sends it; it is
    called in a thread.
    """

    def __init__(
        self,
        config: Browser,
        folders: BrowserFolders,
        why_invalid: Callable[[Token], str],
        run_held_request: Callable[[Tab, PendingRequest, Context, str | None], PendingOutcome],
        void_approval: Callable[[str, str], None],
        *,
        unsafe: bool = False,
    ) -> None:
        self._folders = folders
        self._run_held_request = run_held_request
        self._void_approval = void_approval
        self._held_pool = ThreadPoolExecutor(MAX_HELD_AT_ONCE, thread_name_prefix="remit-held")
        # A pool of its own: all threads of the other may wait for work that is done here.
        self._background = ThreadPoolExecutor(2, thread_name_prefix="remit-void")
        self._thread = LoopThread()
        make_private_directory(folders.folder)
        self._pictures = Pictures(
            folders.folder / PICTURES, most_days=config.picture_days, most_bytes=config.picture_bytes
        )
        self._prune_later()

        async def open_sessions() -> BrowserSessions:
            folder = folders.folder / "run"
            return BrowserSessions(
                config, folder, folders.hidden, why_invalid, self._process_held, self._void_open_approval, unsafe=unsafe
            )

        self._sessions = self._thread.run(open_sessions())

    # --- calls of an action -----------------------------------------------------------------------------------------

    def acquire_tab(self, token: Token, action: Action) -> Tab:
        """Return the action's session, reserved for this caller until it releases `turn`. A navigation opens a missing
        session.
        """
        key = SessionKey(token.agent_id, token.jti, action.session or DEFAULT_NAME)
        opening = self._sessions.open(key, token) if action.type == "navigate" else self._sessions.find(key)
        tab = self._thread.run(opening, START_SECONDS)
        deadline = time.monotonic() + TURN_SECONDS
        while not tab.turn.acquire(timeout=POLL_SECONDS):
            approval_id = tab.pending_approval_id
            if approval_id is not None or time.monotonic() > deadline:
                raise _session_busy_error(key.name, approval_id)
        if tab.is_closed:
            tab.turn.release()
            raise RefusedError(
                Reason.STATE_MISSING, "the session has ended", where=f"session {key.name}", next_step="Navigate first."
            )
        return tab

    def inspect(self, tab: Tab, action: Action) -> ActionTarget:
        with tab.secrets.masked_errors(action.selector):
            return self._thread.run(inspect_target(tab, action), INSPECT_SECONDS + 2 * tab.page.timeouts.page)

    def begin_action(self, tab: Tab, target: ActionTarget, running: RunningAction) -> None:
        """Attribute the session's requests to this action from now on. The picture and the prices that an approver will
        see are taken now.
        """
        if running.submits:
            running.picture = self._begin_picture(tab, target)
        if running.action.type == "purchase":
            with contextlib.suppress(RemitError):
                amounts = self._thread.run(tab.page.amounts(element_of(running.action)), INSPECT_SECONDS)
                running.on_page = tuple(
                    FoundPrice("form", each.value, each.currency) for each in amounts if each.in_form
                )
        self._thread.loop.call_soon_threadsafe(tab.gate.begin, running, target.url)

    def perform(self, tab: Tab, target: ActionTarget, running: RunningAction, token: Token) -> PerformedAction:
        """Perform the action and wait for its end, including the time that an approver takes."""
        with tab.secrets.masked_errors(running.action.selector):
            return self._thread.run(perform_action(tab, running.action, target, running, token.constraints))

    def read_hash(self, tab: Tab) -> str | None:
        with contextlib.suppress(RemitError):
            return self._thread.run(read_hash(tab), INSPECT_SECONDS)
        return None

    def take_picture(self, tab: Tab, target: ActionTarget) -> str | None:
        """Take a picture of the page with the element outlined, for the approval request. None if that fails."""
        box = target.description.outline if target.description is not None else None
        with contextlib.suppress(RemitError):
            return self.save_picture(self._thread.run(tab.page.screenshot(outline=box), INSPECT_SECONDS), durably=False)
        return None

    def _begin_picture(self, tab: Tab, target: ActionTarget) -> "concurrent.futures.Future[str | None] | None":
        """Take the same picture now and finish it while the page goes on, for an approval request that may follow."""
        box = target.description.outline if target.description is not None else None

        async def finish(shot: Shot) -> str | None:
            with contextlib.suppress(RemitError):
                return self.save_picture(await tab.page.finish(shot), durably=False)
            return None

        with contextlib.suppress(RemitError):
            shot = self._thread.run(tab.page.shoot(outline=box), INSPECT_SECONDS)
            return asyncio.run_coroutine_threadsafe(finish(shot), self._thread.loop)
        return None

    def save_picture(self, picture: bytes, *, durably: bool = True) -> str:
        """Save a picture and return its path. The picture of an approval request need not survive a crash, because that
        approval request does not either.
        """
        path = self._pictures.save(picture, durably=durably)
        if self._pictures.is_pruning_due:
            self._prune_later()
        return path

    def _prune_later(self) -> None:
        with contextlib.suppress(RuntimeError):  # the driver is closing
            self._background.submit(self._pictures.prune, time.time())

    # --- sessions and held requests ----------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether any request waits for a person."""
        return any(tab.gate.waiting for tab in self._sessions.tabs)

    @property
    def sessions(self) -> int:
        return len(self._sessions.tabs)

    def waits_for_person(self, token_jti: str) -> bool:
        """Whether an action under this token waits for an approver's answer."""
        return any(tab.pending_approval_id is not None for tab in self._sessions.tabs if tab.key.token_jti == token_jti)

    def end_sessions_of(self, token_jti: str) -> None:
        """End the sessions of one token, as `end_sessions` does for all."""
        self._thread.run(self._sessions.close_for_token(token_jti), CLOSE_SECONDS)

    def end_sessions(self) -> None:
        """End all sessions. Nothing more is sent. Pending approval requests become void, and their actions end."""
        self._thread.run(self._sessions.close_all(), CLOSE_SECONDS)

    def close(self) -> None:
        """End everything. No process and no thread is left."""
        try:
            self.end_sessions()
        finally:
            self._background.shutdown()
            self._held_pool.shutdown()
            self._thread.close()

    async def _process_held(self, tab: Tab, held: PendingRequest) -> None:
        """Process one held request: observe the page for the approver, run the operation, set the outcome. Never
        raises.
        """
        loop = self._thread.loop
        outcome: PendingOutcome | None = None

        def void_abandoned() -> None:
            if held.approval_id is not None:
                loop.run_in_executor(
                    self._background, self._void_approval, held.approval_id, tab.gate.abandonment_reason(held)
                )

        held.on_abandoned = void_abandoned
        try:
            context, picture = await self._observe_page(tab, held)
            outcome = await loop.run_in_executor(self._held_pool, self._run_held_request, tab, held, context, picture)
        except Exception as problem:  # noqa: BLE001 - after any error, a request without an approval is not sent
            outcome = PendingOutcome(problem=as_remit_error(problem))
        finally:
            if not held.decision.done():
                held.decision.set_result(GateDecision.DROP)
            if not held.done.done():
                held.done.set_result(PendingOutcome(problem=_session_ended_error()) if outcome is None else outcome)
            held.approval_ended.set()
            if held.approval_id is not None and not held.released:
                with contextlib.suppress(RuntimeError):  # the driver is closing; all its approval requests become void
                    # An approval may be unusable: the disk is full, or the token is no longer valid.
                    loop.run_in_executor(
                        self._background, self._void_approval, held.approval_id, "the request was not sent"
                    )

    def _void_open_approval(self, tab: Tab) -> None:
        """Void the approval request that an action put before its effect, when the session has ended."""
        if tab.approval_id is not None:
            self._thread.loop.run_in_executor(self._background, self._void_approval, tab.approval_id, SESSION_ENDED)

    async def _observe_page(self, tab: Tab, held: PendingRequest) -> tuple[Context, str | None]:
        """Return what the page shows while the request waits, with a picture. If the page does not answer, the approver
        is asked without one.
        """
        cause = held.cause
        picture: str | None = None
        if cause.picture is not None and held.is_awaited:
            picture = await asyncio.wrap_future(cause.picture)
        if picture is None and not held.request.is_navigation:
            with contextlib.suppress(RemitError, TimeoutError):
                async with asyncio.timeout(PICTURE_SECONDS):
                    picture = self.save_picture(await tab.page.screenshot(), durably=False)
        context = Context(cause.action, tab.page.url, held.by_itself, tab.secrets, cause.on_page)
        return replace(context, redirected_from=held.redirected_from, notes=build_notes(held)), picture


def _session_busy_error(session: str, approval_id: str | None) -> RefusedError:
    if approval_id is None:
        return RefusedError(
            Reason.IN_PROGRESS,
            "another action is running in this session",
            where=f"session {session}",
            next_step='Wait for it, or name another "session" in the action.',
        )
    return RefusedError(
        Reason.IN_PROGRESS,
        f"an action of this session waits for an approver to answer approval request {approval_id}",
        where=f"session {session}",
        next_step=(
            f"Have it answered (remit approvals show {approval_id}), wait for that action (remit browse --wait), or"
            ' name another "session" in the action.'
        ),
    )


def _session_ended_error() -> EnvironmentFailureError:
    return EnvironmentFailureError(Reason.CANCELLED, f"{NOT_SENT}: the session ended while the request was waiting")
