"""What happens in a session without being asked for: dialogs, windows, downloads, navigations, deaths.

Each is answered in the safest way and noted. How much is noted is bounded: a page can do this all day.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from playwright.async_api import BrowserContext, Dialog, Download, FileChooser, Page, Request, WebSocket

from remit.browser.chromium.errors import PlaywrightError
from remit.browser.chromium.types import Happened, Noted
from remit.browser.model.navigation import NEW_WINDOW

MOST_NOTED: Final = 100

_MOST_NAVIGATIONS: Final = 500
_NOT_IN_REQUEST: Final = re.compile(r"^https?://(?:[^/?#]*@)?|#.*$", re.DOTALL)
"""Of a page's address, what its request does not have, or has otherwise: the browser may ask for http by https."""
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Noticing:
    """Listens to a session's context and to the one page in it, from the beginning to the end."""

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._page: Page | None = None
        self._is_moving = False
        self._navigations: deque[tuple[str, str]] = deque(maxlen=_MOST_NAVIGATIONS)
        self._on_the_way: set[str] = set()
        self._windows_noted = 0
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._stopped.set()
        self.main_id = ""
        """The page's own frame."""
        self.is_dead = False
        self.sent_out = 0
        self.pages_asked: deque[str] = deque(maxlen=MOST_NOTED)
        self.events: deque[Noted] = deque(maxlen=MOST_NOTED)
        context.on("page", self._close_popup)

    @contextlib.contextmanager
    def moving(self) -> Iterator[None]:
        """A window that opens meanwhile is the session's own next page."""
        self._is_moving = True
        try:
            yield
        finally:
            self._is_moving = False

    def move_to(self, page: Page) -> None:
        """From now on this is the session's page. Whatever else is open goes."""
        self._page = page
        self._on_the_way.clear()
        self._arrived.set()
        self._stopped.set()
        self.is_dead = False
        page.on("request", self._noted_request)
        page.on("websocket", self._noted_socket)
        page.on("dialog", self._answer)
        page.on("download", self._cancel)
        page.on("filechooser", self._leave_unanswered)
        page.on("crash", lambda _: self._died(page, "crash"))
        page.on("close", lambda _: self._died(page, "closed"))
        for other in self._context.pages:
            if other is not page:
                self.later(other.close())

    @property
    def listeners(self) -> Mapping[str, Callable[[dict[str, Any]], None]]:
        """For every CDP session of the page."""
        arrivals = ("frameNavigated", "frameDetached", "navigatedWithinDocument")
        return {
            "Page.frameRequestedNavigation": self._noted_navigation,
            "Page.windowOpen": self._noted_window,
            "Page.frameStartedLoading": self._noted_start,
            **{f"Page.{name}": self._noted_arrival for name in arrivals},
            "Page.frameStoppedLoading": self._noted_stop,
        }

    @property
    def is_on_the_way(self) -> bool:
        """Whether a document of the page has asked to go elsewhere and has not got there."""
        return bool(self._on_the_way)

    async def arrive(self) -> None:
        while self._on_the_way:
            self._arrived.clear()
            await self._arrived.wait()

    async def stop_loading(self) -> None:
        """Until the page is loaded, or has given that up: one that was to go elsewhere, and may not, has no `load`."""
        await self._stopped.wait()

    def why(self, url: str) -> str | None:
        wanted = _NOT_IN_REQUEST.sub("", url)
        return next((reason for where, reason in reversed(self._navigations) if where == wanted), None)

    def later(self, work: Awaitable[Any]) -> None:
        """Work that an event asks for. That it fails because the page is gone is no news."""

        async def quietly() -> None:
            with contextlib.suppress(PlaywrightError):
                await work

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    # --- navigations and requests ------------------------------------------------------------------------------------

    def _noted_navigation(self, event: dict[str, Any]) -> None:
        url = str(event.get("url", ""))
        self._navigations.append((_NOT_IN_REQUEST.sub("", url), str(event.get("reason", ""))))
        # Only an address on the web is one that a page arrives at: a mail program, or a script, is none.
        if event.get("disposition", "currentTab") == "currentTab" and url.startswith(("http:", "https:")):
            self._on_the_way.add(str(event.get("frameId")))

    def _noted_window(self, event: dict[str, Any]) -> None:
        # Noted here: the window itself may be heard of when the action that opened it is over.
        self._note("popup", str(event.get("url", "")))
        self._windows_noted += 1
        self._navigations.append((_NOT_IN_REQUEST.sub("", str(event.get("url", ""))), NEW_WINDOW))

    def _noted_start(self, event: dict[str, Any]) -> None:
        if event.get("frameId") == self.main_id:
            self._stopped.clear()

    def noted_load(self) -> None:
        """Of the page itself, not of a frame in it."""
        self._stopped.set()

    def _noted_stop(self, event: dict[str, Any]) -> None:
        self._noted_arrival(event)
        if event.get("frameId") == self.main_id:
            self._stopped.set()

    def _noted_arrival(self, event: dict[str, Any]) -> None:
        self._on_the_way.discard(str(event.get("frameId") or event.get("frame", {}).get("id")))
        self._arrived.set()

    def _noted_request(self, request: Request) -> None:
        leads_on = request.is_navigation_request()
        self.sent_out += request.method not in _READING or leads_on
        with contextlib.suppress(PlaywrightError):  # a frame that is not known yet is not the page's own
            if leads_on and self._page is not None and request.frame == self._page.main_frame:
                self.pages_asked.append(request.url)

    def _noted_socket(self, _: WebSocket) -> None:
        self.sent_out += 1

    # --- what a page tries -------------------------------------------------------------------------------------------

    def _note(self, kind: Happened, what: str) -> None:
        self.events.append(Noted(kind, what[:500]))

    def _answer(self, dialog: Dialog) -> None:
        kinds: dict[str, Happened] = {"alert": "alert", "confirm": "confirm", "beforeunload": "beforeunload"}
        self._note(kinds.get(dialog.type, "prompt"), dialog.message)
        # Leaving a page is what was asked for; everything else a page asks is answered no.
        self.later(dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss())

    def _close_popup(self, page: Page) -> None:
        if page is not self._page and not self._is_moving:
            if self._windows_noted:
                self._windows_noted -= 1
            else:  # by a worker
                self._note("popup", page.url)
            page.on("dialog", self._answer)
            page.on("download", self._cancel)
            self.later(page.close())

    def _cancel(self, download: Download) -> None:
        self._note("download", download.url)
        self.later(download.cancel())

    def _leave_unanswered(self, chooser: FileChooser) -> None:
        # To listen is enough: no chooser is opened then, and this one never gets a file.
        self._note("file_chooser", chooser.page.url)

    def _died(self, page: Page, kind: Happened) -> None:
        if not self.is_dead and page is self._page:
            self.is_dead = True
            self._stopped.set()
            self._note(kind, page.url)
