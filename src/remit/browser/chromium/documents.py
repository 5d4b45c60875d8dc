"""The documents of one page, frames of other sites included, and a world of our own in each of them.

Everything is asked over CDP in an isolated world: the page's scripts have other globals and other prototypes than we,
so they can neither see nor change what we call. A document is known by its loader; an element by the number that its
renderer gave it, which it keeps while it lives and which no other element of that document gets.
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
    """One document in one frame, and the session of the process that shows it."""

    cdp: CDPSession
    frame_id: str
    loader_id: str
    url: str
    parent_id: str | None
    worlds: list["asyncio.Future[dict[str, Any]]"] = field(default_factory=list, compare=False)
    """Our world in it, once it was asked for. A world ends with its document, and its number is not used again."""


class FoundElement(NamedTuple):
    """An element, held by a handle in our world of its document."""

    document: FrameDocument
    handle: str


class Documents:
    """Of one page. Sessions of frames in processes of their own are opened when they are first seen."""

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
        """Of every process that shows a part of the page, as far as it is known."""
        return [self.main, *self._frame_sessions.values()]

    async def attach(self, frame: Frame) -> CDPSession | None:
        """The session of a frame that has a process of its own; None of one that shares its parent's."""
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
            _create_world(self._top)  # ahead of need: while it loads there is time, right after it there is none

    async def all(self) -> list[FrameDocument]:
        """The page's own first; then the rest, outer ones before inner ones."""
        trees = await asyncio.gather(
            *(self._read_tree(session) for session in [self.main, *await self._attach_frames()])
        )
        self._top = trees[0][0]
        return [document for tree in trees for document in tree][:MOST_FRAMES]

    async def inner(self) -> list[FrameDocument]:
        """All but the page's own. A page without frames, as most are, is not asked."""
        return (await self.all())[1:] if len(self._page.frames) > 1 else []

    async def top(self) -> FrameDocument:
        """The page's own. Remembered until it goes: two questions less for each look at it."""
        if self._top is None:
            self._top = (await self._read_tree(self.main))[0]
        return self._top

    async def call_top(self, method: str, argument: Any = None, *, by_value: bool = True) -> dict[str, Any]:
        """The page's own document, also if it went and we have not heard of that yet."""
        is_remembered = self._top is not None
        try:
            return await call_in_document(await self.top(), method, argument, by_value=by_value)
        except RefusedError:
            if not is_remembered:
                raise
        self._top = None
        return await call_in_document(await self.top(), method, argument, by_value=by_value)

    async def drain_events(self) -> None:
        """When this returns, all that Chromium had told before has been heard.

        Asked of Chromium's own process: it holds back what is for a page's process while that page goes elsewhere.
        """
        pings = (session.send("Target.getTargetInfo") for session in self.sessions)
        await asyncio.gather(*pings, return_exceptions=True)  # one that is gone has nothing to say

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
            return []  # a frame that went while we looked
        found = _flatten_tree(session, answer["frameTree"])
        # One that is known already keeps the world that was made in it.
        return [self._top if session is self.main and each == self._top else each for each in found]

    # --- one element -------------------------------------------------------------------------------------------------

    async def find(self, element: Element) -> FoundElement:
        """Exactly one. Refused where there is none, or more than one, or the selector is not CSS."""
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
                next_step="Only what `document.querySelector` takes is one; or use a ref from a snapshot.",
            )
        if count > 1:
            raise ElementNeverFoundError(
                Reason.ELEMENT_MISSING,
                f"{count} elements of the page fit {selector!r}",
                next_step="Narrow it down to one element, or take a snapshot and use the ref of the one that is meant.",
            )
        raise RefusedError(
            Reason.ELEMENT_MISSING,
            f"nothing on the page fits {selector!r}",
            next_step="Take a snapshot to see what is there. Frames and shadow roots are reached by ref only.",
        )

    async def _find_by_reference(self, ref: str) -> FoundElement:
        reference = self.references.find(ref)
        if reference is not None:
            for document in await self.all():
                if (document.frame_id, document.loader_id) == (reference.frame_id, reference.loader_id):
                    found = await self.resolve(document, reference.node_id)
                    if found is not None and await call_on_element(found, "isThere"):
                        return found
        problem = "is not from a snapshot of this session" if reference is None else "is of an element that is gone"
        raise ElementNeverFoundError(
            Reason.ELEMENT_MISSING,
            f"{ref!r} {problem}",
            next_step="Take a snapshot of the page, without a ref, and use a ref that it gives.",
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
        """The <iframe> that shows this document, in the document around it; None of the page itself."""
        around = next((other for other in documents if other.frame_id == document.parent_id), None)
        if around is None:
            return None
        answer = await around.cdp.send("DOM.getFrameOwner", {"frameId": document.frame_id})
        return await self.resolve(around, answer["backendNodeId"])


async def call_in_document(
    document: FrameDocument, method: str, argument: Any = None, *, by_value: bool = True
) -> dict[str, Any]:
    """One function of `page.js` about a document; the answer as CDP gives it."""
    return await _call_function(
        document,
        {"executionContextId": await _get_world(document)},
        method,
        argument,
        by_value=by_value,
    )


async def call_on_element(found: FoundElement, method: str, argument: Any = None) -> Any:
    """One function of `page.js` about an element; its answer, by value."""
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
        # Our own code failed: a page cannot make it, but a document may go while it runs.
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
    document.worlds[0].add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody asks


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
        "the page changed while it was looked at",
        next_step="Look again: take a new snapshot.",
    )
