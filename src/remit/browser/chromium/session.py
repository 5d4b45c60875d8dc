"""One session: one context of Chromium, one page in it, and the operations of an action on that page.

No state is shared with another session. The page is never trusted. It is read in an isolated world. Dialogs are
dismissed, other windows are closed, and downloads and file choosers are cancelled. Requests are not judged here: each
one has to pass the session's listener.
"""

import asyncio
import contextlib
import json
import secrets
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Browser, BrowserContext, Frame, Page

from remit.browser.chromium.click import find_outline, press
from remit.browser.chromium.documents import Documents, FoundElement, call_in_document, call_on_element
from remit.browser.chromium.element_info import ElementInfo, inspect_element
from remit.browser.chromium.element_refs import References
from remit.browser.chromium.errors import CALL_SECONDS, PlaywrightError, within
from remit.browser.chromium.executable import VIEWPORT
from remit.browser.chromium.page_events import PageEventListener
from remit.browser.chromium.page_info import read_amounts, read_page
from remit.browser.chromium.redaction import Painter
from remit.browser.chromium.responsiveness import (
    WORKER_FACTOR,
    PageTimeouts,
    all_responsive,
    is_worker_responsive,
    unresponsive_error,
)
from remit.browser.chromium.screenshot import Shot, finish, shoot
from remit.browser.chromium.snapshot import take_snapshot
from remit.browser.chromium.types import (
    Box,
    Element,
    ElementDescription,
    ElementNeverFoundError,
    NavigationResult,
    PageAmount,
    PageEndedError,
    PageEvent,
)
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError

REASON_SECONDS: Final = 2.0
CLOSE_SECONDS: Final = 5.0
PING_SECONDS: Final = 1.0
"""How long a page may load before Remit checks whether it still answers."""
_DEFERRED_WORK_SCRIPT: Final = Path(__file__).with_name("put_off.js").read_text("utf-8")


async def new_session(
    browser: Browser, port: int, painter: Painter, timeouts: PageTimeouts | None = None
) -> "PageSession":
    async with within(CALL_SECONDS, "open a session"):
        context = await browser.new_context(
            proxy={"server": f"http://127.0.0.1:{port}", "bypass": "<-loopback>"},
            accept_downloads=False,
            bypass_csp=False,
            ignore_https_errors=False,
            java_script_enabled=True,
            locale="en-US",
            permissions=[],
            service_workers="allow",
            timezone_id="UTC",
            viewport={"width": VIEWPORT[0], "height": VIEWPORT[1]},
        )
        session = PageSession(context, painter, timeouts or PageTimeouts())
        await session.prepare()
    return session


class PageSession:
    """The page of one session. All methods raise RefusedError(ELEMENT_MISSING) for an element that is missing,
    ambiguous, out of sight or covered. They raise EnvironmentFailureError if the page or the browser died or did not
    answer in time.
    """

    def __init__(self, context: BrowserContext, painter: Painter, timeouts: PageTimeouts) -> None:
        self._context = context
        self._painter = painter
        self._signal = f"remit-{secrets.token_hex(16)}"
        self._events = PageEventListener(context)
        self._is_closed = False
        self._bypasses_workers = False
        """Whether pages are loaded without service workers of their sites, because one may have blocked a page."""
        self._page: Page
        self._documents: Documents
        self.timeouts = timeouts
        self.title = ""
        """The title at the last read of the whole page."""
        self.has_pressed = False
        """Whether the page may have received a part of the running action. Then the action is never repeated."""
        self.has_deferred_work = False
        """Whether the page had deferred work because of the action when it last came to rest."""
        self.may_stay_silent: Callable[[], bool] = lambda: False
        """Whether the page may be silent for a reason: a person is asked, or a server has not answered yet."""
        self.ended_because = ""
        """Why Remit has ended the page, until the session navigates to another one."""

    async def prepare(self) -> None:
        most = int(self.timeouts.late * 1_000)
        await self._context.add_init_script(f"({_DEFERRED_WORK_SCRIPT})({json.dumps(self._signal)}, {most});")
        await self._open_page(References())

    async def _open_page(self, references: References) -> None:
        """Open a blank page in place of the old one, if any. Cookies stay, because the context holds them."""
        with self._events.changing_page():
            self._page = await self._context.new_page()
        cdp = await self._context.new_cdp_session(self._page)
        self._events.set_page(self._page)
        self._documents = Documents(self._context, self._page, cdp, self._events.listeners, references)
        self._page.on("frameattached", self._watch_frame)
        self._page.on("framenavigated", self._watch_frame)
        await self._documents.prepare(self._documents.main)
        self._documents.main.on("Page.loadEventFired", lambda _: self._events.on_load())
        if self._bypasses_workers:
            await self._bypass_workers()
        self._events.main_id = (await self._documents.top()).frame_id
        self.title = ""

    @property
    def url(self) -> str:
        return self._page.url

    @property
    def events(self) -> deque[PageEvent]:
        """The newest noted events."""
        return self._events.events

    @property
    def changing_requests(self) -> int:
        """The number of requests of the page that may change something or navigate, as far as Chromium reports them."""
        return self._events.changing_requests

    @property
    def requested_pages(self) -> deque[str]:
        """The latest addresses to which the page itself navigated, and not a frame in it, with redirects."""
        return self._events.requested_pages

    @property
    def is_navigating(self) -> bool:
        """Whether the page is navigating. Chromium answers no call to the page until it has arrived."""
        return self._events.is_navigating

    # --- actions -----------------------------------------------------------------------------------------------------

    async def navigate(self, url: str, timeout: float) -> NavigationResult:  # noqa: ASYNC109 - each caller has its own
        """Open a page on the web. Other addresses are refused. Returns when it is loaded, or when the time is over."""
        if not url.lower().startswith(("http://", "https://")):
            raise RefusedError(
                Reason.CONSTRAINT_VIOLATED,
                "only http and https addresses can be opened",
                where=url,
                next_step="Give the address of a page on the web.",
            )
        await self._revive()
        self.ended_because = ""
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout
        try:
            async with within(timeout, "open the page"):
                response = await self._page.goto(url, wait_until="commit", timeout=0)
        except EnvironmentFailureError as problem:
            await self._stop_loading()
            if problem.reason is Reason.TIMED_OUT and not self.may_stay_silent():
                self._bypasses_workers = True
                await self._bypass_workers()
            raise
        loaded = await self._load(ends)
        self._require_web()
        if response is None:
            return NavigationResult(self._page.url, None, loaded)
        unreachable = ""
        if response.headers.get("x-remit") == "failed":  # from the proxy, which removes it from answers of servers
            async with within(CALL_SECONDS, "read the notice"):
                unreachable = (await response.text()).strip().removeprefix("Remit: ")[:500] or "no answer"
        return NavigationResult(self._page.url, response.status, loaded, unreachable)

    async def describe(self, element: Element) -> ElementDescription:
        return (await self._inspect(element)).description

    async def click(self, element: Element) -> None:
        info = await self._inspect(element, with_role=False)
        await press(self._page, self._documents, info.found, element, info.point, self._note_press)

    async def type(self, element: Element, text: str) -> None:
        """Set the value of a field to the text. For a <select> it is the value or the label of an option."""
        info = await self._inspect(element, with_role=False)
        found = info.found
        async with within(CALL_SECONDS, f"type into {element}"):
            self.has_pressed = info.input_method != "never"
            if info.input_method == "insert":
                done = await call_on_element(found, "select")
                if done and text:
                    await found.document.cdp.send("Input.insertText", {"text": text})
                elif done:
                    await self._page.keyboard.press("Delete")
            else:
                done = info.input_method != "never" and await call_on_element(
                    found, info.input_method, {"text": text, "name": self._signal}
                )
        if info.input_method == "never":
            raise ElementNeverFoundError(
                Reason.ELEMENT_MISSING,
                f"{element} does not accept text",
                next_step="Name a text field or a list that can be changed.",
            )
        if not done and info.input_method == "choose":  # it fails before it changes anything
            self.has_pressed = False
            raise RefusedError(
                Reason.ELEMENT_MISSING,
                f"{element} did not accept the value",
                next_step="Give the value or the label of one option of the list that is not disabled.",
            )
        if not done:
            raise EnvironmentFailureError(
                Reason.EFFECT_FAILED,
                f"{element} did not accept the text, or changed it",
                next_step="Remit does not type it again. Take a snapshot and give a text that the field accepts.",
            )

    async def submit(self, element: Element) -> None:
        """Submit the form: by a press on the element if that submits it, else as the Enter key would."""
        info = await self._inspect(element, with_role=False)
        if info.description.form is None:
            raise ElementNeverFoundError(
                Reason.ELEMENT_MISSING, f"{element} belongs to no form", next_step="Name a form, or a field of one."
            )
        if info.description.submits:
            await press(self._page, self._documents, info.found, element, info.point, self._note_press)
            return
        async with within(CALL_SECONDS, f"submit {element}"):
            self.has_pressed = True
            await call_on_element(info.found, "submit")

    async def wait_for_rest(self, timeout: float) -> bool:  # noqa: ASYNC109 - each caller has its own
        """Wait after a step that may have caused a navigation, until the page is loaded or the time is over. Returns
        whether it is loaded.

        This does not wait for deferred work of scripts; `has_deferred_work` says whether there is some. If the page is
        too busy to answer that in time, the last answer stays.
        """
        ends = asyncio.get_running_loop().time() + timeout
        with contextlib.suppress(EnvironmentFailureError):
            async with within(timeout, "load the page"):
                # A form is sent a moment after its button was pressed, so the page first finishes its current work. If
                # it navigates, this call is answered only after the arrival.
                with contextlib.suppress(RefusedError):
                    self.has_deferred_work = await self._has_deferred_work()
                await self._documents.drain_events()
                await self._events.wait_for_arrival()
            return await self._wait_for_load(max(ends - asyncio.get_running_loop().time(), 0.1))
        return False

    async def _has_deferred_work(self) -> bool:
        """Whether any document of the page has deferred work."""
        answer = await call_in_document(await self._documents.top(), "rest", self._signal)
        if answer.get("value") is True:
            return True
        for document in await self._documents.inner():
            with contextlib.suppress(RefusedError):  # that document has ended
                if (await call_in_document(document, "rest", self._signal)).get("value") is True:
                    return True
        return False

    def _note_press(self) -> None:
        self.has_pressed = True

    async def _load(self, ends: float) -> bool:
        """Wait until the page is loaded. Returns whether it is. A page that does not answer is not waited for."""
        loop = asyncio.get_running_loop()
        while not await self._wait_for_load(min(PING_SECONDS, max(ends - loop.time(), 0.1))):
            await self.require_responsive()
            if loop.time() >= ends:
                return False
        return True

    async def _wait_for_load(self, seconds: float) -> bool:
        with contextlib.suppress(EnvironmentFailureError):
            async with within(seconds, "load the page"):
                await self._events.wait_until_loaded()
            return True
        return False

    # --- reading -----------------------------------------------------------------------------------------------------

    async def screenshot(self, element: Element | None = None, outline: Box | None = None) -> bytes:
        self._require_web()
        part = None
        if element is not None:
            found = await self._find(element)
            async with within(CALL_SECONDS, f"find the place of {element}"):
                part = await find_outline(self._documents, found)
        return await self.finish(await self._shoot(part, outline))

    async def shoot(self, outline: Box | None) -> Shot:
        """Take the picture without the painting, for which the page is not needed."""
        self._require_web()
        return await self._shoot(None, outline)

    async def finish(self, shot: Shot) -> bytes:
        async with within(CALL_SECONDS, "paint on a picture"):
            return await finish(self._painter, shot)

    async def _shoot(self, part: Box | None, outline: Box | None) -> Shot:
        async with within(CALL_SECONDS, "take a picture"):
            return await shoot(self._documents, part, outline)

    async def snapshot(self, element: Element | None = None) -> dict[str, Any]:
        self._require_web()
        part = None if element is None else await self._find(element)
        async with within(CALL_SECONDS, "read the page"):
            return await take_snapshot(self._documents, part)

    async def content_hash(self) -> str:
        """Return the hash of the whole page; see `read_page`. This also updates `title`."""
        self._require_alive()
        async with within(CALL_SECONDS, "read the page"):
            read = await read_page(self._documents)
        self.title = read.title
        return read.content_hash

    async def amounts(self, element: Element | None = None) -> list[PageAmount]:
        """Read the prices in the form of the element, if there is one, and then those of the whole page."""
        self._require_web()
        async with within(CALL_SECONDS, "read the page"):
            return await read_amounts(self._documents, element)

    async def navigation_reason(self, url: str) -> str | None:
        """Return why the page last navigated there: formSubmissionGet, anchorClick, scriptInitiated and so on.

        None if the page did not ask for it, as after a redirect, or if it is in a frame of another site that has just
        begun. The request may arrive before its reason. So a call to the browser first waits for earlier events on the
        same connection.
        """
        with contextlib.suppress(EnvironmentFailureError):
            async with within(REASON_SECONDS, "read the reason of a navigation"):
                await self._documents.drain_events()
        return self._events.find_reason(url)

    # --- a page that does not answer ---------------------------------------------------------------------------------

    async def is_responsive(self, *, workers: bool = False) -> bool:
        """Whether every process that shows a part of the page answers within the session's time limit.

        A page that is navigating cannot be asked, because Chromium holds back calls until it has arrived. Then
        `may_stay_silent` says whether it may still wait for its server. `workers` also asks its workers, which may take
        longer.
        """
        page = self._page
        if self._is_replaced(page) or self.may_stay_silent():
            return True
        checks = [all_responsive(self._documents.sessions, self.timeouts.page)]
        if workers:
            checks += [is_worker_responsive(worker, self.timeouts.page * WORKER_FACTOR) for worker in page.workers]
        answers = await asyncio.gather(*checks)
        return all(answers) or self._is_replaced(page) or self.may_stay_silent()

    def _is_replaced(self, page: Page) -> bool:
        """Whether the page has died, is being ended, or was replaced by another one."""
        return page is not self._page or self._events.is_dead

    async def require_responsive(self) -> None:
        """End the page and raise PageEndedError if it does not answer."""
        if not await self.is_responsive():
            raise await self.end_unresponsive()

    async def end_unresponsive(self) -> PageEndedError:
        """End a page that did not answer. Returns the error for it."""
        problem = unresponsive_error(self.timeouts)
        await self.end_page(problem.what)
        return problem

    async def end_page(self, why: str) -> None:
        """End the page's processes and its workers, however busy they are. The session then has a blank page."""
        old, references = self._page, self._documents.references
        self.ended_because = why
        self._events.is_dead = True
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await old.close()
        async with within(CALL_SECONDS, "open another page"):
            await self._open_page(references)

    async def _revive(self) -> None:
        """Open a new page if the process of the old one has died, so that the session can go on."""
        if self._events.is_dead and not self._is_closed:
            await self.end_page("its process had ended")
        self._require_alive()

    async def close(self) -> None:
        """Close the session, even if its page is stuck."""
        self._is_closed = True
        self._events.is_dead = True
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._context.close()
        self._events.end()

    # --- internal ----------------------------------------------------------------------------------------------------

    async def _inspect(self, element: Element, *, with_role: bool = True) -> ElementInfo:
        found = await self._find(element)
        async with within(CALL_SECONDS, f"look at {element}"):
            return await inspect_element(self._documents, found, element, with_role=with_role)

    async def _find(self, element: Element) -> FoundElement:
        self._require_web()
        return await self._documents.find(element)

    def _require_alive(self) -> None:
        if self._events.is_dead:
            raise PageEndedError(
                Reason.EFFECT_FAILED, "the session's page has died or was closed", next_step="Navigate again."
            )

    def _require_web(self) -> None:
        """Refuse if the page is at an address without a host. A script can navigate there, and no rule applies to
        it.
        """
        self._require_alive()
        if not self._page.url.startswith(("http://", "https://")):
            raise RefusedError(
                Reason.CONSTRAINT_VIOLATED, "the session is not at a page on the web", next_step="Navigate to a page."
            )

    async def _stop_loading(self) -> None:
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(1):
                await self._documents.main.send("Page.stopLoading")

    async def _bypass_workers(self) -> None:
        """End the session's service workers and load pages without them from now on. A stuck worker would block each
        page of its site and keep a processor busy.
        """
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._documents.main.send("Network.enable")
                await self._documents.main.send("Network.setBypassServiceWorker", {"bypass": True})
                await self._documents.main.send("ServiceWorker.enable")
                await self._documents.main.send("ServiceWorker.stopAllWorkers")

    def _watch_frame(self, frame: Frame) -> None:
        if frame is self._page.main_frame:
            self.title = ""
        else:
            self._events.schedule(self._documents.attach(frame))
