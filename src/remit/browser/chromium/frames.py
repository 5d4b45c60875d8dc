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

from remit.browser.chromium.failures import CALL_SECONDS, PlaywrightError, within
from remit.browser.chromium.words import Element
from remit.errors import Reason, Refused

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
class Document:
    """One document in one frame, and the session of the process that shows it."""

    cdp: CDPSession
    frame_id: str
    loader_id: str
    url: str
    parent_id: str | None
    worlds: list[int] = field(default_factory=list, compare=False)
    """Our world in it, once it was asked for. A world ends with its document, and its number is not used again."""


class Found(NamedTuple):
    """An element, held by a handle in our world of its document."""

    document: Document
    handle: str


class Known(NamedTuple):
    """What a reference stands for."""

    frame_id: str
    loader_id: str
    node_id: int


@dataclass
class References:
    """The same element has the same reference as long as it lives; none is ever given twice."""

    _by_ref: dict[str, Known] = field(default_factory=dict)
    _by_known: dict[Known, str] = field(default_factory=dict)

    def of(self, known: Known) -> str:
        if known not in self._by_known:
            ref = f"e{len(self._by_ref) + 1}"
            self._by_ref[ref] = known
            self._by_known[known] = ref
        return self._by_known[known]

    def get(self, ref: str) -> Known | None:
        return self._by_ref.get(ref)


class Documents:
    """Of one page. Sessions of frames in processes of their own are opened when they are first seen."""

    def __init__(
        self, context: BrowserContext, page: Page, main: CDPSession, listeners: Mapping[str, Callable[[Any], None]]
    ) -> None:
        self._listeners = listeners
        self._context = context
        self._page = page
        self.main = main
        self._own: dict[Frame, CDPSession] = {}
        self._top: Document | None = None
        self.references = References()

    @property
    def known(self) -> list[CDPSession]:
        """The sessions that are open, the page's own first."""
        return [self.main, *self._own.values()]

    async def attach(self, frame: Frame) -> CDPSession | None:
        """The session of a frame that has a process of its own; None of one that shares its parent's."""
        try:
            session = await self._context.new_cdp_session(frame)
        except PlaywrightError:
            self._own.pop(frame, None)
            return None
        self._own[frame] = session
        await self.prepare(session)
        return session

    async def prepare(self, session: CDPSession) -> None:
        for name, listener in self._listeners.items():
            session.on(name, listener)
        await session.send("Page.enable")

    async def all(self) -> list[Document]:
        """The page's own first; then the rest, outer ones before inner ones."""
        trees = await asyncio.gather(*(self._tree(session) for session in [self.main, *await self._sessions()]))
        return [document for tree in trees for document in tree][:MOST_FRAMES]

    async def top(self) -> Document:
        """The page's own. Remembered until it goes: two questions less for each element that is looked for."""
        if self._top is None:
            self._top = (await self._tree(self.main))[0]
        return self._top

    def forget_top(self) -> None:
        self._top = None

    async def hear_out(self) -> None:
        """When this returns, all that Chromium had told before has been heard.

        Asked of Chromium's own process: it holds back what is for a page's process while that page goes elsewhere.
        """
        sessions = [self.main, *self._own.values()]
        asked = (session.send("Target.getTargetInfo") for session in sessions)
        await asyncio.gather(*asked, return_exceptions=True)  # one that is gone has nothing to say

    async def _sessions(self) -> list[CDPSession]:
        frames = [frame for frame in self._page.frames[1:MOST_FRAMES] if not frame.is_detached()]
        for frame in [known for known in self._own if known not in frames]:
            del self._own[frame]
        missing = [frame for frame in frames if frame not in self._own]
        await asyncio.gather(*(self.attach(frame) for frame in missing))
        return [self._own[frame] for frame in frames if frame in self._own]

    async def _tree(self, session: CDPSession) -> list[Document]:
        try:
            answer = await session.send("Page.getFrameTree")
        except PlaywrightError:
            if session is self.main:
                raise
            self._own = {frame: own for frame, own in self._own.items() if own is not session}
            return []  # a frame that went while we looked
        return _documents(session, answer["frameTree"])

    # --- one element -------------------------------------------------------------------------------------------------

    async def find(self, element: Element) -> Found:
        """Exactly one. Refused where there is none, or more than one, or the selector is not CSS."""
        async with within(CALL_SECONDS, f"look for {element}"):
            if element.ref is not None:
                return await self._by_reference(element.ref)
            return await self._by_selector(element.selector or "")

    async def _by_selector(self, selector: str) -> Found:
        remembered = self._top
        document = await self.top()
        try:
            answer = await ask(document, "find", selector, by_value=False)
        except Refused:
            if remembered is None:
                raise
            self.forget_top()  # it went, and we have not heard of it yet
            document = await self.top()
            answer = await ask(document, "find", selector, by_value=False)
        if answer.get("subtype") == "node":
            return Found(document, answer["objectId"])
        count = answer.get("value", 0)
        if count == -1:
            raise Refused(
                Reason.ELEMENT_MISSING,
                f"{selector!r} is not a CSS selector",
                next_step="Only what `document.querySelector` takes is one; or use a ref from a snapshot.",
            )
        problem = "nothing on the page fits" if count == 0 else f"{count} elements of the page fit"
        raise Refused(
            Reason.ELEMENT_MISSING,
            f"{problem} {selector!r}",
            next_step="Take a snapshot, and name one element. Frames and shadow roots are reached by ref only.",
        )

    async def _by_reference(self, ref: str) -> Found:
        known = self.references.get(ref)
        if known is not None:
            for document in await self.all():
                if (document.frame_id, document.loader_id) == (known.frame_id, known.loader_id):
                    found = await self.resolve(document, known.node_id)
                    if found is not None and await call(found, "isThere"):
                        return found
        problem = "is not from a snapshot of this session" if known is None else "is of an element that is gone"
        raise Refused(Reason.ELEMENT_MISSING, f"{ref} {problem}", next_step="Take a new snapshot.")

    async def resolve(self, document: Document, node_id: int) -> Found | None:
        world = await _world(document)
        try:
            answer = await document.cdp.send(
                "DOM.resolveNode", {"backendNodeId": node_id, "executionContextId": world, "objectGroup": _WORLD}
            )
        except PlaywrightError as problem:
            if _is_gone(problem):
                return None
            raise
        return Found(document, answer["object"]["objectId"])

    async def owner(self, document: Document, documents: list[Document]) -> Found | None:
        """The <iframe> that shows this document, in the document around it; None of the page itself."""
        around = next((other for other in documents if other.frame_id == document.parent_id), None)
        if around is None:
            return None
        answer = await around.cdp.send("DOM.getFrameOwner", {"frameId": document.frame_id})
        return await self.resolve(around, answer["backendNodeId"])


async def ask(document: Document, method: str, argument: Any = None, *, by_value: bool = True) -> dict[str, Any]:
    """One function of `page.js` about a document; the answer as CDP gives it."""
    return await _run(
        document,
        {"executionContextId": await _world(document)},
        method,
        argument,
        by_value=by_value,
    )


async def call(found: Found, method: str, argument: Any = None) -> Any:
    """One function of `page.js` about an element; its answer, by value."""
    return (await _run(found.document, {"objectId": found.handle}, method, argument, by_value=True)).get("value")


async def _run(document: Document, on: dict[str, Any], method: str, argument: Any, *, by_value: bool) -> dict[str, Any]:
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
        if _is_gone(problem):
            raise _changed() from problem
        raise
    if "exceptionDetails" in answer:
        # Our own code failed: a page cannot make it, but a document may go while it runs.
        raise _changed()
    result: dict[str, Any] = answer["result"]
    return result


async def _world(document: Document) -> int:
    if not document.worlds:
        try:
            answer = await document.cdp.send(
                "Page.createIsolatedWorld", {"frameId": document.frame_id, "worldName": _WORLD}
            )
        except PlaywrightError as problem:
            if _is_gone(problem):
                raise _changed() from problem
            raise
        document.worlds.append(answer["executionContextId"])
    return document.worlds[0]


def _documents(session: CDPSession, tree: dict[str, Any]) -> list[Document]:
    frame = tree["frame"]
    url = frame.get("url", "") + frame.get("urlFragment", "")
    own = Document(session, frame["id"], frame["loaderId"], url, frame.get("parentId"))
    return [own, *(inner for child in tree.get("childFrames", []) for inner in _documents(session, child))]


def _is_gone(problem: PlaywrightError) -> bool:
    return any(words in problem.message for words in _GONE)


def _changed() -> Refused:
    return Refused(
        Reason.ELEMENT_MISSING,
        "the page changed while it was looked at",
        next_step="Look again: take a new snapshot.",
    )
