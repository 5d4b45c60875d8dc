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
from remit.browser.chromium.types import PageEvent, PageEventKind
from remit.browser.model.navigation import NEW_WINDOW

MAX_EVENTS: Final = 100

_MAX_NAVIGATIONS: Final = 500
_NOT_IN_REQUEST: Final = re.compile(r"^https?://(?:[^/?#]*@)?|#.*$", re.DOTALL)
"""Of a page's address, what its request does not have, or has otherwise: the browser may ask for http by https."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class PageEventListener:
    """Listens to a session's context and to the one page in it, from the beginning to the end."""

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._page: Page | None = None
        self._is_changing_page = False
        self._navigations: deque[tuple[str, str]] = deque(maxlen=_MAX_NAVIGATIONS)
        self._navigating: set[str] = set()
        self._popups_reported = 0
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._stopped.set()
        self.main_id = ""
        """The page's own frame."""
        self.is_dead = False
        self.changing_requests = 0
        self.requested_pages: deque[str] = deque(maxlen=MAX_EVENTS)
        self.events: deque[PageEvent] = deque(maxlen=MAX_EVENTS)
        context.on("page", self._on_popup)

    @contextlib.contextmanager
    def changing_page(self) -> Iterator[None]:
        """A window that opens meanwhile is the session's own next page."""
        self._is_changing_page = True
        try:
            yield
        finally:
            self._is_changing_page = False

    def set_page(self, page: Page) -> None:
        """From now on this is the session's page. Whatever else is open goes."""
        self._page = page
        self._navigating.clear()
        self._arrived.set()
        self._stopped.set()
        self.is_dead = False
        page.on("request", self._on_request)
        page.on("websocket", self._on_websocket)
        page.on("dialog", self._on_dialog)
        page.on("download", self._on_download)
        page.on("filechooser", self._on_file_chooser)
        page.on("crash", lambda _: self._on_page_end(page, "crash"))
        page.on("close", lambda _: self._on_page_end(page, "closed"))
        for other in self._context.pages:
            if other is not page:
                self.schedule(other.close())

    @property
    def listeners(self) -> Mapping[str, Callable[[dict[str, Any]], None]]:
        """For every CDP session of the page."""
        arrivals = ("frameNavigated", "frameDetached", "navigatedWithinDocument")
        return {
            "Page.frameRequestedNavigation": self._on_navigation,
            "Page.windowOpen": self._on_window_open,
            "Page.frameStartedLoading": self._on_loading_started,
            **{f"Page.{name}": self._on_arrival for name in arrivals},
            "Page.frameStoppedLoading": self._on_loading_stopped,
        }

    @property
    def is_navigating(self) -> bool:
        """Whether a document of the page has asked to go elsewhere and has not got there."""
        return bool(self._navigating)

    async def wait_for_arrival(self) -> None:
        while self._navigating:
            self._arrived.clear()
            await self._arrived.wait()

    async def wait_until_loaded(self) -> None:
        """Until the page is loaded, or has given that up: one that was to go elsewhere, and may not, has no `load`."""
        await self._stopped.wait()

    def find_reason(self, url: str) -> str | None:
        address = _NOT_IN_REQUEST.sub("", url)
        return next((reason for where, reason in reversed(self._navigations) if where == address), None)

    def schedule(self, work: Awaitable[Any]) -> None:
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

    def _on_navigation(self, event: dict[str, Any]) -> None:
        url = str(event.get("url", ""))
        self._navigations.append((_NOT_IN_REQUEST.sub("", url), str(event.get("reason", ""))))
        # Only an address on the web is one that a page arrives at: a mail program, or a script, is none.
        if event.get("disposition", "currentTab") == "currentTab" and url.startswith(("http:", "https:")):
            self._navigating.add(str(event.get("frameId")))

    def _on_window_open(self, event: dict[str, Any]) -> None:
        # Noted here: the window itself may be heard of when the action that opened it is over.
        self._note("popup", str(event.get("url", "")))
        self._popups_reported += 1
        self._navigations.append((_NOT_IN_REQUEST.sub("", str(event.get("url", ""))), NEW_WINDOW))

    def _on_loading_started(self, event: dict[str, Any]) -> None:
        if event.get("frameId") == self.main_id:
            self._stopped.clear()

    def on_load(self) -> None:
        """Of the page itself, not of a frame in it."""
        self._stopped.set()

    def _on_loading_stopped(self, event: dict[str, Any]) -> None:
        self._on_arrival(event)
        if event.get("frameId") == self.main_id:
            self._stopped.set()

    def _on_arrival(self, event: dict[str, Any]) -> None:
        self._navigating.discard(str(event.get("frameId") or event.get("frame", {}).get("id")))
        self._arrived.set()

    def _on_request(self, request: Request) -> None:
        is_navigation = request.is_navigation_request()
        self.changing_requests += request.method not in _SAFE_METHODS or is_navigation
        with contextlib.suppress(PlaywrightError):  # a frame that is not known yet is not the page's own
            if is_navigation and self._page is not None and request.frame == self._page.main_frame:
                self.requested_pages.append(request.url)

    def _on_websocket(self, _: WebSocket) -> None:
        self.changing_requests += 1

    # --- what a page tries -------------------------------------------------------------------------------------------

    def _note(self, kind: PageEventKind, what: str) -> None:
        self.events.append(PageEvent(kind, what[:500]))

    def _on_dialog(self, dialog: Dialog) -> None:
        kinds: dict[str, PageEventKind] = {"alert": "alert", "confirm": "confirm", "beforeunload": "beforeunload"}
        self._note(kinds.get(dialog.type, "prompt"), dialog.message)
        # Leaving a page is what was asked for; everything else a page asks is answered no.
        self.schedule(dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss())

    def _on_popup(self, page: Page) -> None:
        if page is not self._page and not self._is_changing_page:
            if self._popups_reported:
                self._popups_reported -= 1
            else:  # by a worker
                self._note("popup", page.url)
            page.on("dialog", self._on_dialog)
            page.on("download", self._on_download)
            self.schedule(page.close())

    def _on_download(self, download: Download) -> None:
        self._note("download", download.url)
        self.schedule(download.cancel())

    def _on_file_chooser(self, chooser: FileChooser) -> None:
        # To listen is enough: no chooser is opened then, and this one never gets a file.
        self._note("file_chooser", chooser.page.url)

    def _on_page_end(self, page: Page, kind: PageEventKind) -> None:
        if not self.is_dead and page is self._page:
            self.is_dead = True
            self._stopped.set()
            self._note(kind, page.url)
