"""Asking the gate about a request, and telling it how that ended."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from remit.browser.model.requests import Answer, Ending, Gate, OutgoingRequest
from remit.browser.proxy.addresses import Endpoint
from remit.browser.proxy.stream import ByteStream
from remit.core.errors import render_line


class Settlement:
    """Tells the gate how a request that it let through ended: once, whatever happens."""

    def __init__(self, gate: Gate, request: OutgoingRequest) -> None:
        self._gate = gate
        self._request = request
        self._told = False
        self.sent = False

    def tell(self, status: int | None, problem: str = "", location: str = "") -> None:
        if not self._told:
            self._told = True
            with _reporting("told how a request ended"):
                self._gate.ended(self._request, Ending(status, self.sent, render_line(problem), location))


LONGEST_TOLD: Final = 20_000


def tell_refused(gate: Gate, method: str, url: str, why: str) -> None:
    with _reporting("told what was refused"):
        gate.refused(render_line(method), url[:LONGEST_TOLD], render_line(why))


@contextmanager
def _reporting(what: str) -> Iterator[None]:
    """A gate that fails is a bug to be seen. The browser still gets its answer: without one it would ask again."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001 - as above
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the gate failed when it was {what}", "exception": problem}
        )


def refuse_place(gate: Gate, place: Endpoint) -> str | None:
    try:
        return gate.refuse_place(place.scheme, place.host, place.port)
    except Exception as problem:  # noqa: BLE001 - what the gate did not allow is refused
        return f"it could not be judged: {type(problem).__name__}"


async def judge(gate: Gate, browser: ByteStream, request: OutgoingRequest) -> Answer | None:
    """The gate's answer; None if the browser hung up before there was one."""
    asked = asyncio.ensure_future(gate.judge(request))
    try:
        with browser.watched(asked.cancel):
            answer = await asked
    except asyncio.CancelledError:
        if _is_being_cancelled():
            raise
        return None
    except Exception as problem:  # noqa: BLE001 - whatever is wrong with the gate, what it did not allow is not sent
        tell_refused(gate, request.method, request.url, f"it could not be judged: {type(problem).__name__}")
        return Answer.DROP
    if answer is not Answer.DROP and (browser.is_gone or _is_being_cancelled()):
        Settlement(gate, request).tell(None, "the browser gave it up")
        if _is_being_cancelled():
            raise asyncio.CancelledError
        return None
    return answer


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
