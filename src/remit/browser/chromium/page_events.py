"""The events of a session: dialogs, windows, downloads, navigations, and ended pages.

Each one is answered in the safest way and noted. The number of notes is limited, because a page can repeat this without
end.
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
"""The parts of a page's address that its request lacks or changes: the browser may request http as https."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class PageEventListener:
    """Listens to the events of a session's context and of its one page, from the beginning to the end."""

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
        """Within this `with`, a window that opens is the session's next page and is not closed."""
        self._is_changing_page = True
        try:
            yield
        finally:
            self._is_changing_page = False

    def set_page(self, page: Page) -> None:
        """Make this the session's page, and close all others."""
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
        """The event handlers for each CDP session of the page."""
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
        """Whether a document of the page has begun a navigation that has not ended."""
        return bool(self._navigating)

    async def wait_for_arrival(self) -> None:
        while self._navigating:
            self._arrived.clear()
            await self._arrived.wait()

    async def wait_until_loaded(self) -> None:
        """Wait until the page is loaded or has stopped loading. A refused navigation has no `load` event."""
        await self._stopped.wait()

    def find_reason(self, url: str) -> str | None:
        address = _NOT_IN_REQUEST.sub("", url)
        return next((reason for where, reason in reversed(self._navigations) if where == address), None)

    def schedule(self, work: Awaitable[Any]) -> None:
        """Run work for an event. Errors are ignored, because the page may have ended."""

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
        # A page arrives only at an address on the web, and not at a mail program or a script.
        if event.get("disposition", "currentTab") == "currentTab" and url.startswith(("http:", "https:")):
            self._navigating.add(str(event.get("frameId")))

    def _on_window_open(self, event: dict[str, Any]) -> None:
        # Noted here, because the event of the window itself may come after the action that opened it.
        self._note("popup", str(event.get("url", "")))
        self._popups_reported += 1
        self._navigations.append((_NOT_IN_REQUEST.sub("", str(event.get("url", ""))), NEW_WINDOW))

    def _on_loading_started(self, event: dict[str, Any]) -> None:
        if event.get("frameId") == self.main_id:
            self._stopped.clear()

    def on_load(self) -> None:
        """The page itself was loaded, and not a frame in it."""
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
        with contextlib.suppress(PlaywrightError):  # a frame that is not known yet is not the main frame
            if is_navigation and self._page is not None and request.frame == self._page.main_frame:
                self.requested_pages.append(request.url)

    def _on_websocket(self, _: WebSocket) -> None:
        self.changing_requests += 1

    # --- attempts of a page ------------------------------------------------------------------------------------------

    def _note(self, kind: PageEventKind, what: str) -> None:
        self.events.append(PageEvent(kind, what[:500]))

    def _on_dialog(self, dialog: Dialog) -> None:
        kinds: dict[str, PageEventKind] = {"alert": "alert", "confirm": "confirm", "beforeunload": "beforeunload"}
        self._note(kinds.get(dialog.type, "prompt"), dialog.message)
        # The action wants to leave the page. All other dialogs are dismissed.
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
        # Listening is enough: then no chooser opens, and this one never gets a file.
        self._note("file_chooser", chooser.page.url)

    def _on_page_end(self, page: Page, kind: PageEventKind) -> None:
        if not self.is_dead and page is self._page:
            self.is_dead = True
            self._stopped.set()
            self._note(kind, page.url)
