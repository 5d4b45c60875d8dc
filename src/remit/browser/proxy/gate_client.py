"""Calls to the gate: ask about a request, and report how it ended."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from remit.browser.model.requests import Ending, Gate, GateDecision, OutgoingRequest
from remit.browser.proxy.addresses import Endpoint
from remit.browser.proxy.stream import ByteStream
from remit.core.errors import render_line


class EndReport:
    """Reports to the gate how a request that it let through ended, exactly once in every case."""

    def __init__(self, gate: Gate, request: OutgoingRequest) -> None:
        self._gate = gate
        self._request = request
        self._is_reported = False
        self.sent = False

    def report(self, status: int | None, problem: str = "", location: str = "") -> None:
        if not self._is_reported:
            self._is_reported = True
            with _catch_failures("informed how a request ended"):
                self._gate.note_end(self._request, Ending(status, self.sent, render_line(problem), location))


MAX_URL: Final = 20_000


def report_refused(gate: Gate, method: str, url: str, why: str) -> None:
    with _catch_failures("informed about a refused request"):
        gate.note_refused(render_line(method), url[:MAX_URL], render_line(why))


@contextmanager
def _catch_failures(what: str) -> Iterator[None]:
    """Report an error of the gate as a bug. The browser still gets an answer, because without one it would ask
    again.
    """
    try:
        yield
    except Exception as problem:  # noqa: BLE001 - as above
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"the gate failed when it was {what}", "exception": problem}
        )


def check_destination(gate: Gate, endpoint: Endpoint) -> str | None:
    try:
        return gate.check_destination(endpoint.scheme, endpoint.host, endpoint.port)
    except Exception as problem:  # noqa: BLE001 - a request that the gate did not allow is refused
        return f"it could not be judged: {type(problem).__name__}"


async def judge(gate: Gate, browser: ByteStream, request: OutgoingRequest) -> GateDecision | None:
    """Return the gate's decision, or None if the browser hung up before."""
    judgement = asyncio.ensure_future(gate.judge(request))
    try:
        with browser.on_hang_up(judgement.cancel):
            decision = await judgement
    except asyncio.CancelledError:
        if _is_being_cancelled():
            raise
        return None
    except Exception as problem:  # noqa: BLE001 - after any error of the gate, a request is not sent
        report_refused(gate, request.method, request.url, f"it could not be judged: {type(problem).__name__}")
        return GateDecision.DROP
    if decision is not GateDecision.DROP and (browser.is_gone or _is_being_cancelled()):
        EndReport(gate, request).report(None, "the browser gave the request up")
        if _is_being_cancelled():
            raise asyncio.CancelledError
        return None
    return decision


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
