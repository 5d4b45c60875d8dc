"""The request that work belongs to: its log records carry the ids of the request, and its spans lie below its span.

Both follow the task or thread that serves the request. A task that serves several requests, such as an MCP session,
binds each of them separately.
"""

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remit.observability import tracing
from remit.observability.logs import bind_ids

if TYPE_CHECKING:
    from opentelemetry.trace import Span


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The ids of a request, as for `bind_ids`, and its span if tracing is on."""

    ids: Mapping[str, str]
    span: "Span | None" = None


def new_request_id() -> str:
    return secrets.token_hex(16)


@contextlib.contextmanager
def bind_request(state: Any) -> Iterator[None]:
    """Bind the request context that the web server stored in the state of an HTTP request.

    Without one, bind a new request id.
    """
    found = getattr(state, "belonging", None)
    if not isinstance(found, RequestContext):
        found = RequestContext({"request_id": new_request_id()})
    with bind_ids(**found.ids), tracing.activate_span(found.span):
        yield
