"""The documents of one page, with frames of other sites, and an isolated world of Remit in each of them.

All calls go over CDP into the isolated world. The page's scripts have other globals and other prototypes, so they can
neither see nor change Remit's calls. A document is identified by its loader. An element is identified by the number
from its renderer, which it keeps as long as it exists, and which no other element of that document gets.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from playwright.async_api import BrowserContext, CDPSession, Frame, Page

from remit.browser.chromium.element_refs import References
from remit.browser.chromium.errors import CALL_SECONDS, PlaywrightError, within
from remit.browser.chromium.types import Element, ElementNeverFoundError
from remit.core.errors import Reason, RefusedError

MOST_FRAMES: Final = 60

_WORLD: Final = "remit"
_CODE: Final = Path(__file__).with_name("page.js").read_text("utf-8")
_GONE: Final = (
    "Cannot find context",
    "No node with given id",
    "Could not find node",
    "No frame",
    "not found",
    "Inspected",
)


@dataclass(frozen=True)
class FrameDocument:
    """One document in one frame, with the CDP session of the process that shows it."""

    cdp: CDPSession
    frame_id: str
    loader_id: str
    url: str
    parent_id: str | None
    worlds: list["asyncio.Future[dict[str, Any]]"] = field(default_factory=list, compare=False)
    """Remit's world in the document, once it was requested. A world ends with its document, and its number is not
    reused.
    """


class FoundElement(NamedTuple):
    """An element, with a handle in Remit's world of its document."""

    document: FrameDocument
    handle: str


class Documents:
    """The documents of one page. The session of a frame in another process is opened when the frame is first seen."""

    def __init__(
        self,
        context: BrowserContext,
        page: Page,
        main: CDPSession,
        listeners: Mapping[str, Callable[[Any], None]],
        references: References,
    ) -> None:
        self._listeners = listeners
        self._context = context
        self._page = page
        self.main = main
        self._frame_sessions: dict[Frame, CDPSession] = {}
        self._top: FrameDocument | None = None
        self.references = references

    @property
    def sessions(self) -> list[CDPSession]:
        """The session of every known process that shows a part of the page."""
        return [self.main, *self._frame_sessions.values()]

    async def attach(self, frame: Frame) -> CDPSession | None:
        """Return the session of a frame that has a process of its own, or None if it shares its parent's process."""
        try:
            session = await self._context.new_cdp_session(frame)
        except PlaywrightError:
            self._frame_sessions.pop(frame, None)
            return None
        self._frame_sessions[frame] = session
        await self.prepare(session)
        return session

    async def prepare(self, session: CDPSession) -> None:
        for name, listener in self._listeners.items():
            session.on(name, listener)
        if session is self.main:
            session.on("Page.frameNavigated", self._on_navigated)
        await session.send("Page.enable")

    def _on_navigated(self, event: dict[str, Any]) -> None:
        if "parentId" not in event["frame"]:
            self._top = _parse_frame(self.main, event["frame"])
            _create_world(self._top)  # early, because there is time while the page loads, and none right after

    async def all(self) -> list[FrameDocument]:
        """Return all documents: the page's own first, then the others, outer before inner."""
        trees = await asyncio.gather(
            *(self._read_tree(session) for session in [self.main, *await self._attach_frames()])
        )
        self._top = trees[0][0]
        return [document for tree in trees for document in tree][:MOST_FRAMES]

    async def inner(self) -> list[FrameDocument]:
        """Return all documents except the page's own. A page without frames, as most pages are, gets no call."""
        return (await self.all())[1:] if len(self._page.frames) > 1 else []

    async def top(self) -> FrameDocument:
        """Return the page's own document. It is cached while it exists, which saves two calls for each inspection."""
        if self._top is None:
            self._top = (await self._read_tree(self.main))[0]
        return self._top

    async def call_top(self, method: str, argument: Any = None, *, by_value: bool = True) -> dict[str, Any]:
        """Call a function in the page's own document. Also works if the document changed and its event is still to
        come.
        """
        is_remembered = self._top is not None
        try:
            return await call_in_document(await self.top(), method, argument, by_value=by_value)
        except RefusedError:
            if not is_remembered:
                raise
        self._top = None
        return await call_in_document(await self.top(), method, argument, by_value=by_value)

    async def drain_events(self) -> None:
        """Wait until all earlier events of Chromium have arrived.

        The call goes to Chromium's own process, because a call to a page's process is held back during a navigation.
        """
        pings = (session.send("Target.getTargetInfo") for session in self.sessions)
        await asyncio.gather(*pings, return_exceptions=True)  # a session that has ended has no more events

    async def _attach_frames(self) -> list[CDPSession]:
        frames = [frame for frame in self._page.frames[1:MOST_FRAMES] if not frame.is_detached()]
        for frame in [known for known in self._frame_sessions if known not in frames]:
            del self._frame_sessions[frame]
        missing = [frame for frame in frames if frame not in self._frame_sessions]
        await asyncio.gather(*(self.attach(frame) for frame in missing))
        return [self._frame_sessions[frame] for frame in frames if frame in self._frame_sessions]

    async def _read_tree(self, session: CDPSession) -> list[FrameDocument]:
        try:
            answer = await session.send("Page.getFrameTree")
        except PlaywrightError:
            if session is self.main:
                raise
            self._frame_sessions = {
                frame: frame_session
                for frame, frame_session in self._frame_sessions.items()
                if frame_session is not session
            }
            return []  # the frame was removed meanwhile
        found = _flatten_tree(session, answer["frameTree"])
        # A document that is known already keeps its world.
        return [self._top if session is self.main and each == self._top else each for each in found]

    # --- one element -------------------------------------------------------------------------------------------------

    async def find(self, element: Element) -> FoundElement:
        """Find exactly one element. Refuses if there is none, if there are several, or if the selector is not CSS."""
        async with within(CALL_SECONDS, f"look for {element}"):
            if element.ref is not None:
                return await self._find_by_reference(element.ref)
            return await self._find_by_selector(element.selector or "")

    async def _find_by_selector(self, selector: str) -> FoundElement:
        answer = await self.call_top("find", selector, by_value=False)
        if answer.get("subtype") == "node":
            return FoundElement(await self.top(), answer["objectId"])
        count = answer.get("value", 0)
        if count == -1:
            raise ElementNeverFoundError(
                Reason.ELEMENT_MISSING,
                f"{selector!r} is not a CSS selector",
                next_step="Use a selector that `document.querySelector` accepts, or a ref from a snapshot.",
            )
        if count > 1:
            raise ElementNeverFoundError(
                Reason.ELEMENT_MISSING,
                f"{count} elements of the page match {selector!r}",
                next_step="Use a selector of exactly one element, or take a snapshot and use a ref from it.",
            )
        raise RefusedError(
            Reason.ELEMENT_MISSING,
            f"no element of the page matches {selector!r}",
            next_step="Take a snapshot to see the elements. Elements in frames and shadow roots need a ref.",
        )

    async def _find_by_reference(self, ref: str) -> FoundElement:
        reference = self.references.find(ref)
        if reference is not None:
            for document in await self.all():
                if (document.frame_id, document.loader_id) == (reference.frame_id, reference.loader_id):
                    found = await self.resolve(document, reference.node_id)
                    if found is not None and await call_on_element(found, "isThere"):
                        return found
        problem = "is not from a snapshot of this session" if reference is None else "names an element that is gone"
        raise ElementNeverFoundError(
            Reason.ELEMENT_MISSING,
            f"{ref!r} {problem}",
            next_step="Take a snapshot of the page, without a ref, and use a ref from it.",
        )

    async def resolve(self, document: FrameDocument, node_id: int) -> FoundElement | None:
        world = await _get_world(document)
        try:
            answer = await document.cdp.send(
                "DOM.resolveNode", {"backendNodeId": node_id, "executionContextId": world, "objectGroup": _WORLD}
            )
        except PlaywrightError as problem:
            if _is_closed_error(problem):
                return None
            raise
        return FoundElement(document, answer["object"]["objectId"])

    async def owner(self, document: FrameDocument, documents: list[FrameDocument]) -> FoundElement | None:
        """Return the <iframe> that shows this document, in the document around it. None for the page itself."""
        around = next((other for other in documents if other.frame_id == document.parent_id), None)
        if around is None:
            return None
        answer = await around.cdp.send("DOM.getFrameOwner", {"frameId": document.frame_id})
        return await self.resolve(around, answer["backendNodeId"])


async def call_in_document(
    document: FrameDocument, method: str, argument: Any = None, *, by_value: bool = True
) -> dict[str, Any]:
    """Call one function of `page.js` about a document. Returns the answer of CDP."""
    return await _call_function(
        document,
        {"executionContextId": await _get_world(document)},
        method,
        argument,
        by_value=by_value,
    )


async def call_on_element(found: FoundElement, method: str, argument: Any = None) -> Any:
    """Call one function of `page.js` about an element. Returns its result by value."""
    return (await _call_function(found.document, {"objectId": found.handle}, method, argument, by_value=True)).get(
        "value"
    )


async def _call_function(
    document: FrameDocument, on: dict[str, Any], method: str, argument: Any, *, by_value: bool
) -> dict[str, Any]:
    try:
        answer = await document.cdp.send(
            "Runtime.callFunctionOn",
            {
                **on,
                "functionDeclaration": _CODE,
                "arguments": [{"value": method}, {"value": argument}],
                "returnByValue": by_value,
                "awaitPromise": True,
                "objectGroup": _WORLD,
                "silent": True,
            },
        )
    except PlaywrightError as problem:
        if _is_closed_error(problem):
            raise _changed_error() from problem
        raise
    if "exceptionDetails" in answer:
        # Remit's code failed. A page cannot cause that, but its document may end while the code runs.
        raise _changed_error()
    result: dict[str, Any] = answer["result"]
    return result


async def _get_world(document: FrameDocument) -> int:
    if not document.worlds:
        _create_world(document)
    try:
        number: int = (await asyncio.shield(document.worlds[0]))["executionContextId"]
    except PlaywrightError as problem:
        document.worlds.clear()
        if _is_closed_error(problem):
            raise _changed_error() from problem
        raise
    return number


def _create_world(document: FrameDocument) -> None:
    creation = document.cdp.send("Page.createIsolatedWorld", {"frameId": document.frame_id, "worldName": _WORLD})
    document.worlds.append(asyncio.ensure_future(creation))
    document.worlds[0].add_done_callback(lambda done: done.cancelled() or done.exception())  # may never be awaited


def _flatten_tree(session: CDPSession, tree: dict[str, Any]) -> list[FrameDocument]:
    outer = _parse_frame(session, tree["frame"])
    return [outer, *(inner for child in tree.get("childFrames", []) for inner in _flatten_tree(session, child))]


def _parse_frame(session: CDPSession, frame: dict[str, Any]) -> FrameDocument:
    url = frame.get("url", "") + frame.get("urlFragment", "")
    return FrameDocument(session, frame["id"], frame["loaderId"], url, frame.get("parentId"))


def _is_closed_error(problem: PlaywrightError) -> bool:
    return any(message in problem.message for message in _GONE)


def _changed_error() -> RefusedError:
    return RefusedError(
        Reason.ELEMENT_MISSING,
        "the page changed while Remit read it",
        next_step="Take a new snapshot.",
    )
