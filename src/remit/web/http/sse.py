"""The event stream (`text/event-stream`). It resumes by Last-Event-ID, has heartbeats, and ends with the credential.

A revoked token or an ended session must not receive later events. So the services check the credential before they send
events that were recorded after the last check, and this module checks it with each heartbeat. The services disconnect a
subscriber that does not read.
"""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from remit.core.errors import Reason, RefusedError
from remit.services.base.fair_share import FairShareQuota
from remit.web.http.authentication import is_still_valid, require_caller

if TYPE_CHECKING:
    from remit.services.base.events import StreamEvent, Subscription
    from remit.services.services import Services

MEDIA_TYPE: Final = "text/event-stream"
HEARTBEAT: Final = 15.0
_BEGIN: Final = b"retry: 2000\n\n"
_BEAT: Final = b": still here\n\n"
_OVER: Final = b'event: desk.closed\ndata: {"why": "the credential is no longer valid"}\n\n'


async def event_stream(request: Request, after: str | None) -> StreamingResponse:
    """Return a stream of the events from now on, or since the event `after`, that this caller may see."""
    services: Services = request.app.state.services
    quota: FairShareQuota = request.app.state.listening
    caller = require_caller(request)
    if not quota.acquire(caller):  # before the first await, or many requests could pass this check together
        raise RefusedError(
            Reason.RESOURCE_EXHAUSTED,
            "too many open event streams, of this caller or of all callers",
            where="the event stream",
            next_step="Close a page that shows events. The setting web.limits.listeners in remit.yaml is the limit.",
        )
    try:
        subscription = await services.events.subscribe(caller, after, functools.partial(is_still_valid, request))
    except BaseException:
        quota.release(caller)
        raise
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    body = _stream_events(request, subscription)
    return _Stream(subscription, lambda: quota.release(caller), body, 200, headers, MEDIA_TYPE)


class _Stream(StreamingResponse):
    """A response that releases its quota however it ends, also if the client left before the first line."""

    def __init__(self, subscription: "Subscription", leave: Callable[[], None], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._subscription = subscription
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._subscription.close()
            self._leave()


async def _stream_events(request: Request, subscription: "Subscription") -> AsyncIterator[bytes]:
    # One task waits for the next events across heartbeats. Cancelling it could lose events.
    pending: asyncio.Task[list[StreamEvent]] | None = None
    checked_at = time.monotonic()
    try:
        yield _BEGIN
        while True:
            pending = pending or asyncio.ensure_future(subscription.next_batch())
            left = checked_at + HEARTBEAT - time.monotonic()
            done, _ = await asyncio.wait({pending}, timeout=max(left, 0.0))
            if left <= 0 or not done:
                if not await run_in_threadpool(is_still_valid, request):
                    yield _OVER
                    return
                checked_at = time.monotonic()
                yield _BEAT
            if done:
                sent, pending = pending.result(), None
                if not sent:
                    if subscription.ended_with_caller:
                        yield _OVER
                    return
                yield b"".join(one.stream for one in sent)
    finally:
        if pending is not None:
            pending.cancel()
