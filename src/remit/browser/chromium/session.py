"""One session: one context of Chromium, one page in it, and what an action may do there.

Nothing is shared with another session. The page is never believed: it is looked at in a world of our own, dialogs are
answered no, other windows are closed, downloads and file choosers come to nothing. Requests are not judged here: each
of them has to pass the session's listener.
"""

import asyncio
import contextlib
from collections import deque
from typing import Any, Final

from playwright.async_api import Browser, BrowserContext, CDPSession, Frame, Page

from remit.browser.chromium.describing import Looked, look_at
from remit.browser.chromium.failures import CALL_SECONDS, PlaywrightError, within
from remit.browser.chromium.frames import Documents, Found, ask, call
from remit.browser.chromium.noticing import Noticing
from remit.browser.chromium.painting import Painter
from remit.browser.chromium.picture import Shot, finish, shoot
from remit.browser.chromium.pressing import outline_of, press
from remit.browser.chromium.program import VIEWPORT
from remit.browser.chromium.reading import read_amounts, read_page
from remit.browser.chromium.snapshot import take_snapshot
from remit.browser.chromium.words import Box, Described, Element, Landed, NeverFound, Noted, SeenAmount
from remit.errors import EnvironmentFailed, Reason, Refused

REASON_SECONDS: Final = 2.0
CLOSE_SECONDS: Final = 5.0


async def new_session(browser: Browser, port: int, painter: Painter) -> "Session":
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
        page = await context.new_page()
        cdp = await context.new_cdp_session(page)
        session = Session(context, page, cdp, painter)
        await session.prepare()
    return session


class Session:
    """All methods raise Refused(ELEMENT_MISSING) for an element that is not there once, in sight and free, and
    EnvironmentFailed where the page or the browser does not answer in time, or died.
    """

    def __init__(self, context: BrowserContext, page: Page, cdp: CDPSession, painter: Painter) -> None:
        self._context = context
        self._page = page
        self._painter = painter
        self._noticing = Noticing(context, page)
        self._documents = Documents(context, page, cdp, self._noticing.listeners)
        self.title = ""
        """As of the last look at the whole page."""
        page.on("frameattached", self._watch_frame)
        page.on("framenavigated", self._watch_frame)

    async def prepare(self) -> None:
        await self._documents.prepare(self._documents.main)
        self._documents.main.on("Page.loadEventFired", lambda _: self._noticing.noted_load())
        self._noticing.main_id = (await self._documents.top()).frame_id

    @property
    def url(self) -> str:
        return self._page.url

    @property
    def events(self) -> deque[Noted]:
        """The last things that were noted."""
        return self._noticing.events

    @property
    def sent_out(self) -> int:
        """How many requests that may change something, or lead elsewhere, the page has made, as far as it tells."""
        return self._noticing.sent_out

    @property
    def pages_asked(self) -> deque[str]:
        """Where the page itself, not a frame in it, was last to go, redirects included."""
        return self._noticing.pages_asked

    @property
    def is_on_the_way(self) -> bool:
        """While it is, Chromium lets nobody look at the page: what is asked of it waits until it has arrived."""
        return self._noticing.is_on_the_way

    # --- what an action does -----------------------------------------------------------------------------------------

    async def navigate(self, url: str, timeout: float) -> Landed:  # noqa: ASYNC109 - each caller has its own
        """To a page on the web; nothing else is one. Returns when it is loaded, or the time is over."""
        if not url.lower().startswith(("http://", "https://")):
            raise Refused(
                Reason.CONSTRAINT_VIOLATED,
                "only http and https addresses can be opened",
                where=url,
                next_step="Give the address of a page on the web.",
            )
        self._require_alive()
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout
        try:
            async with within(timeout, "open the page"):
                response = await self._page.goto(url, wait_until="commit", timeout=0)
        except EnvironmentFailed:
            await self._stop_loading()
            raise
        loaded = await self._wait_for_load(max(ends - loop.time(), 0.1))
        self._require_web()
        if response is None:
            return Landed(self._page.url, None, loaded)
        unreachable = ""
        if response.headers.get("x-remit") == "failed":  # set by the way out, which takes it from what servers say
            async with within(CALL_SECONDS, "read the notice"):
                unreachable = (await response.text()).strip().removeprefix("Remit: ")[:500] or "no answer"
        return Landed(self._page.url, response.status, loaded, unreachable)

    async def describe(self, element: Element) -> Described:
        return (await self._look(element)).described

    async def click(self, element: Element) -> None:
        looked = await self._look(element, spoken=False)
        await press(self._page, self._documents, looked.found, element, looked.place)

    async def type(self, element: Element, text: str) -> None:
        """The text becomes what the field holds. Of a <select> it is the value or the label of an option."""
        looked = await self._look(element, spoken=False)
        found = looked.found
        async with within(CALL_SECONDS, f"type into {element}"):
            if looked.typing == "insert":
                done = await call(found, "select")
                if done and text:
                    await found.document.cdp.send("Input.insertText", {"text": text})
                elif done:
                    await self._page.keyboard.press("Delete")
            else:
                done = looked.typing != "never" and await call(found, looked.typing, text)
        if looked.typing == "never":
            raise NeverFound(
                Reason.ELEMENT_MISSING,
                f"{element} takes no text",
                next_step="Name a text field that can be changed, or a list.",
            )
        if not done:
            raise Refused(
                Reason.ELEMENT_MISSING,
                f"{element} did not take it",
                next_step="Give a text that the field accepts, or the value or label of one option of a list.",
            )

    async def submit(self, element: Element) -> None:
        """By a press on it, if it submits a form by that; else the form it belongs to, as the Enter key would."""
        looked = await self._look(element, spoken=False)
        if looked.described.form is None:
            raise NeverFound(
                Reason.ELEMENT_MISSING, f"{element} belongs to no form", next_step="Name a form, or a field of one."
            )
        if looked.described.submits:
            await press(self._page, self._documents, looked.found, element, looked.place)
            return
        async with within(CALL_SECONDS, f"submit {element}"):
            await call(looked.found, "submit")

    async def settle(self, timeout: float) -> bool:  # noqa: ASYNC109 - each caller has its own
        """After what may have led elsewhere: until that page is loaded, or the time is over. Whether it is.

        Limit: what a script does later, by a timer or when an answer comes, is not waited for.
        """
        ends = asyncio.get_running_loop().time() + timeout
        with contextlib.suppress(EnvironmentFailed):
            async with within(timeout, "load the page"):
                # A form is sent a moment after its button was pressed: let the page do what it has before it. If it
                # does go elsewhere, this has no answer until it is there.
                with contextlib.suppress(Refused):
                    await ask(await self._documents.top(), "rest")
                await self._documents.hear_out()
                await self._noticing.arrive()
            return await self._wait_for_load(max(ends - asyncio.get_running_loop().time(), 0.1))
        return False

    async def _wait_for_load(self, seconds: float) -> bool:
        with contextlib.suppress(EnvironmentFailed):
            async with within(seconds, "load the page"):
                await self._noticing.stop_loading()
            return True
        return False

    # --- what is looked at -------------------------------------------------------------------------------------------

    async def screenshot(self, element: Element | None = None, outline: Box | None = None) -> bytes:
        self._require_web()
        part = None
        if element is not None:
            found = await self._find(element)
            async with within(CALL_SECONDS, f"find the place of {element}"):
                part = await outline_of(self._documents, found)
        return await self.finish(await self._shoot(part, outline))

    async def shoot(self, outline: Box | None) -> Shot:
        """Only that part of it for which the page must be there."""
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
        """Of the whole page; see `read_page`. What its title is becomes known with it."""
        self._require_alive()
        async with within(CALL_SECONDS, "read the page"):
            read = await read_page(self._documents)
        self.title = read.title
        return read.content_hash

    async def amounts(self, element: Element | None = None) -> list[SeenAmount]:
        """Shown in the form of the element, if there is one, and then those of the whole page."""
        self._require_web()
        async with within(CALL_SECONDS, "read the page"):
            return await read_amounts(self._documents, element)

    async def why_navigation(self, url: str) -> str | None:
        """Why the page last asked to go there: formSubmissionGet, anchorClick, scriptInitiated and so on.

        None: it did not ask, as after a redirect; or it is in a frame of another site that had only just begun. The
        request may be here before its reason: the browser is asked for a sign of life first, on the same line.
        """
        with contextlib.suppress(EnvironmentFailed):
            async with within(REASON_SECONDS, "hear why"):
                await self._documents.hear_out()
        return self._noticing.why(url)

    async def close(self) -> None:
        """Also if its page is stuck."""
        self._noticing.is_dead = True
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._context.close()
        self._noticing.end()

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _look(self, element: Element, *, spoken: bool = True) -> Looked:
        found = await self._find(element)
        async with within(CALL_SECONDS, f"look at {element}"):
            return await look_at(self._documents, found, element, spoken=spoken)

    async def _find(self, element: Element) -> Found:
        self._require_web()
        return await self._documents.find(element)

    def _require_alive(self) -> None:
        if self._noticing.is_dead:
            raise EnvironmentFailed(
                Reason.EFFECT_FAILED, "the session's page has died or was closed", next_step="Begin a new session."
            )

    def _require_web(self) -> None:
        """A script may lead the page to an address that has no host, and so no rules: nothing is done there."""
        self._require_alive()
        if not self._page.url.startswith(("http://", "https://")):
            raise Refused(
                Reason.CONSTRAINT_VIOLATED, "the session is not at a page on the web", next_step="Navigate to one."
            )

    async def _stop_loading(self) -> None:
        with contextlib.suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(1):
                await self._documents.main.send("Page.stopLoading")

    def _watch_frame(self, frame: Frame) -> None:
        if frame is self._page.main_frame:
            self.title = ""
        else:
            self._noticing.later(self._documents.attach(frame))
