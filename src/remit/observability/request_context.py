"""To which request something belongs that is done for it: for the ids in its records, and for its spans.

Both follow the task or thread that a request is served in. What serves several in one task, such as a session of MCP,
says for each of them whose it is.
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
    """`ids` are those of `bind_ids`; `span` is there if somebody traces."""

    ids: Mapping[str, str]
    span: "Span | None" = None


def new_request_id() -> str:
    return secrets.token_hex(16)


@contextlib.contextmanager
def bind_request(state: Any) -> Iterator[None]:
    """As what `Watching` left in the state of an HTTP request says; without one, as a request of its own."""
    found = getattr(state, "belonging", None)
    if not isinstance(found, RequestContext):
        found = RequestContext({"request_id": new_request_id()})
    with bind_ids(**found.ids), tracing.activate_span(found.span):
        yield
