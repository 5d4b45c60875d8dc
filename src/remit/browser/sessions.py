"""Sessions: one context of Chromium for each agent, token and name. Its only connection is a listener of its own."""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Final, NamedTuple

from remit.authority.capability_token import Token
from remit.browser.chromium.process import Chromium
from remit.browser.chromium.renderer_load import BusyThreads, read_renderers
from remit.browser.chromium.session import PageSession
from remit.browser.gate import SessionGate
from remit.browser.held_requests import PendingRequest
from remit.browser.proxy.server import BrowserProxy, ProxyListener
from remit.browser.typed_secrets import TypedSecrets
from remit.contracts.config.browser import Browser
from remit.core.errors import Reason, RefusedError, RemitError

MAX_SESSIONS_PER_TOKEN: Final = 8
MAX_SESSIONS: Final = 24
"""Open sessions of all tokens together. Chromium has a few more listeners than that."""
DEFAULT_NAME: Final = "default"


SAMPLES: Final = 5
"""How often the processes of pages are sampled in the time that a page has to answer."""
MAX_PAUSE_SECONDS: Final = 2.0
IDLE_FACTOR: Final = 10
"""How many times longer than a page a process may be busy without a pause if no page can be asked about it."""


class SessionKey(NamedTuple):
    """The owner and the name of a session. Another token of the same agent cannot use it."""

    agent_id: str
    token_jti: str
    name: str


@dataclass(eq=False)
class Tab:
    """One open session: its page, and the gate that all of its requests have to pass."""

    key: SessionKey
    token: Token
    page: PageSession
    gate: SessionGate
    serving: ProxyListener
    listener: socket
    port: int
    chromium: Chromium
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held by the action that runs in the session."""
    approval_id: str | None = None
    """The approval request that the running action made before its effect, for example to type a password."""
    is_closed: bool = False
    used_at: float = field(default_factory=time.monotonic)

    @property
    def secrets(self) -> TypedSecrets:
        return self.gate.secrets

    @property
    def pending_approval_id(self) -> str | None:
        """The approval request that the running action waits for."""
        held = self.gate.awaited_request
        return self.approval_id if held is None else held.approval_id

    @property
    def is_idle(self) -> bool:
        """Whether no action runs in the session and none of its requests waits for a person."""
        return not self.turn.locked() and not self.gate.waiting


class BrowserSessions:
    """The sessions of one Chromium. All methods belong to one event loop. The first session starts Chromium, and so
    does the next one after Chromium died.
    """

    def __init__(
        self,
        config: Browser,
        folder: Path,
        hidden: Sequence[Path],
        why_invalid: Callable[[Token], str],
        hold: Callable[[Tab, PendingRequest], Awaitable[None]],
        on_closed: Callable[[Tab], None],
        *,
        unsafe: bool = False,
    ) -> None:
        self._config = config
        self._folder = folder
        self._hidden = hidden
        self._why_invalid = why_invalid
        self._hold = hold
        self._on_closed = on_closed
        self._unsafe = unsafe
        self._egress = BrowserProxy(config)
        self._chromium: Chromium | None = None
        self._tabs: dict[SessionKey, Tab] = {}
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def tabs(self) -> tuple[Tab, ...]:
        return tuple(self._tabs.values())

    @property
    def confined(self) -> bool:
        return self._chromium is None or self._chromium.confined

    async def find(self, key: SessionKey) -> Tab:
        tab = self._tabs.get(key)
        if tab is None or tab.is_closed:
            raise RefusedError(
                Reason.STATE_MISSING,
                "no page is open in this session",
                where=f"session {key.name}",
                next_step="Navigate first. A session ends with its token, or when the browser was idle for too long.",
            )
        tab.used_at = time.monotonic()
        return tab

    async def open(self, key: SessionKey, token: Token) -> Tab:
        """Return the session of that key. Opens it if there is none."""
        async with self._opening:
            tab = self._tabs.get(key)
            if tab is not None and not tab.is_closed:
                tab.used_at = time.monotonic()
                return tab
            if sum(other.token_jti == key.token_jti for other in self._tabs) >= MAX_SESSIONS_PER_TOKEN:
                raise RefusedError(
                    Reason.CONSTRAINT_VIOLATED,
                    f"this token already has {MAX_SESSIONS_PER_TOKEN} open sessions",
                    where="session",
                    next_step="Use one of them.",
                )
            await self._evict_idle_session()
            return await self._open(key, token)

    async def _evict_idle_session(self) -> None:
        """Close the session that was idle for the longest time if there are too many."""
        while len(self._tabs) >= MAX_SESSIONS:
            idle = [tab for tab in self._tabs.values() if tab.is_idle]
            if not idle:
                return  # opening the next one will fail with the reason
            await self.close(min(idle, key=lambda tab: tab.used_at).key)

    async def _open(self, key: SessionKey, token: Token) -> Tab:
        chromium = await self._get_chromium()
        port, listener = chromium.acquire_listener()
        opened: list[Tab] = []

        async def hold(held: PendingRequest) -> None:
            await self._hold(opened[0], held)

        async def why_navigation(url: str) -> str | None:
            return await opened[0].page.navigation_reason(url)

        gate = SessionGate(
            token.constraints.domains or (),
            lambda: self._why_invalid(token),
            hold,
            why_navigation,
            lambda: self._schedule_close(key),
        )
        try:
            serving = await self._egress.serve(listener, gate)
        except BaseException:
            listener.close()
            chromium.release_listener(port)
            raise
        try:
            page = await chromium.open_session(port)
        except BaseException:
            await serving.close()
            listener.close()
            chromium.release_listener(port)
            raise
        page.may_stay_silent = lambda: bool(gate.waiting) or (page.is_navigating and not gate.is_quiet)
        tab = Tab(key, token, page, gate, serving, listener, port, chromium)
        opened.append(tab)
        self._tabs[key] = tab
        return tab

    async def close(self, key: SessionKey) -> None:
        """Close the session. Its held requests are cancelled, and nothing more is sent."""
        tab = self._tabs.pop(key, None)
        if tab is None or tab.is_closed:
            return
        tab.is_closed = tab.gate.closed = True
        self._on_closed(tab)
        await tab.serving.close()
        tab.listener.close()
        await tab.page.close()
        if not tab.chromium.closed.is_set():
            with contextlib.suppress(Exception):  # Chromium may have died just now
                tab.chromium.release_listener(tab.port)

    async def close_for_token(self, token_jti: str) -> None:
        for key in [key for key in self._tabs if key.token_jti == token_jti]:
            await self.close(key)

    async def close_all(self) -> None:
        for key in list(self._tabs):
            await self.close(key)
        chromium, self._chromium = self._chromium, None
        if chromium is not None:
            await chromium.close()
        for task in self._tasks:
            task.cancel()

    async def _get_chromium(self) -> Chromium:
        if self._chromium is None or self._chromium.closed.is_set():
            self._chromium = await Chromium.launch(
                self._config, run_folder=self._folder, hidden=self._hidden, spki=self._egress.spki, unsafe=self._unsafe
            )
            self._schedule(self._watch_chromium(self._chromium))
            self._schedule(self._watch_pages(self._chromium))
        return self._chromium

    async def _watch_chromium(self, chromium: Chromium) -> None:
        """Close the sessions at once when their Chromium has died. Their held requests become void."""
        await chromium.closed.wait()
        for key in [key for key, tab in self._tabs.items() if tab.chromium is chromium]:
            await self.close(key)
        if self._chromium is chromium:
            self._chromium = None
            await chromium.close()

    async def _watch_pages(self, chromium: Chromium) -> None:
        """End pages that keep a processor busy while no action runs, and pages that use too much memory at any time."""
        patience = float(self._config.page_seconds)
        pause = min(patience / SAMPLES, MAX_PAUSE_SECONDS)
        long, busy, busy_idle = math.ceil(patience / pause), BusyThreads(), BusyThreads()
        checks: set[asyncio.Task[None]] = set()
        while not await chromium.ended_within(pause):
            tabs = [tab for tab in self._tabs.values() if tab.chromium is chromium]
            if not tabs:
                continue
            renderers = await asyncio.to_thread(read_renderers, chromium.pid)
            for each in renderers:
                if each.resident_bytes > self._config.page_bytes:
                    chromium.kill_page(each.pid)
            busy.note(renderers)
            if busy.processes(long) and not checks:
                checks |= {asyncio.ensure_future(_end_if_stuck(tab)) for tab in tabs if tab.is_idle}
                for task in tuple(checks):
                    task.add_done_callback(checks.discard)
            # A process without a page, such as a worker that several pages share, has no session that could be asked.
            if any(not tab.is_idle for tab in tabs):
                busy_idle.clear()
            busy_idle.note(renderers)
            for pid in busy_idle.processes(long * IDLE_FACTOR):
                chromium.kill_page(pid)
        for task in tuple(checks):
            task.cancel()

    def _schedule_close(self, key: SessionKey) -> None:
        self._schedule(self.close(key))

    def _schedule(self, work: "Awaitable[None]") -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _end_if_stuck(tab: Tab) -> None:
    """End the page of an idle session if the page or one of its workers does not answer."""
    with contextlib.suppress(RemitError):
        if await tab.page.is_responsive(workers=True) or not tab.is_idle or not tab.turn.acquire(blocking=False):
            return
        try:
            if not tab.is_closed:
                why = f"it did not answer for {tab.page.timeouts.page:g} seconds or more and was ended"
                await tab.page.end_page(why)
        finally:
            tab.turn.release()
