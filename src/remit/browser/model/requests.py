"""An outgoing request, exactly as it will be written to the server. The same object is shown, approved and sent."""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol

from remit.core.canonical import digest

RequestKind = Literal["request", "websocket", "message"]


@dataclass(frozen=True)
class OutgoingRequest:
    """A complete request with its body. It never changes after it was made."""

    request_id: str
    kind: RequestKind
    method: str
    """The method. Empty for a message on a WebSocket."""
    url: str
    headers: tuple[tuple[str, str], ...]
    """The headers as they are sent, in their order, without those between the browser and the proxy."""
    body: bytes = b""
    is_navigation: bool = False
    """Whether a page or a frame will show the answer, as far as the request itself says.

    A page can make another request look like a navigation, and cannot make a navigation look like another request.
    """
    is_text: bool = False
    """Whether a message is text and not binary."""

    @cached_property
    def digest(self) -> str:
        return digest(
            {
                "kind": self.kind,
                "method": self.method,
                "url": self.url,
                "headers": [list(pair) for pair in self.headers],
                "body_sha256": sha256(self.body).hexdigest(),
                "is_text": self.is_text,
            }
        )

    @property
    def target(self) -> str:
        """The path and the query, as the request line has them."""
        return self.url[self.url.index("/", self.url.index("://") + 3) :]

    def wire(self) -> bytes:
        """Return the bytes to send. Not for a message on a WebSocket, whose body is sent in a frame."""
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


class Ending(NamedTuple):
    """The outcome of a request that the gate let through, known when the head of the answer has arrived or cannot
    arrive.
    """

    status: int | None
    """The status of the server's answer. None if there was no answer; a message on a WebSocket never has one."""
    sent: bool
    """Whether any byte of it may have reached the server."""
    problem: str = ""
    location: str = ""
    """The target of a redirect, as the server wrote it."""


class GateDecision(Enum):
    SEND = "send"
    """Send it once, on a new connection, and never again, with any outcome."""
    READ = "read"
    """Send it without an approval, because it only reads. It may reuse a connection, and be sent again if that was
    closed.
    """
    DROP = "drop"


class Gate(Protocol):
    """Decides about every request of one session. Called in the event loop of the proxy."""

    def check_destination(self, scheme: str, host: str, port: int) -> str | None:
        """Return why no request may go to this host, or None. The proxy calls it before the DNS lookup, and again after
        it has connected, because a token may be revoked meanwhile. Nothing has been written by then.

        The scheme is http or https, also for a WebSocket. The host has no dot at its end and no capital letters, and an
        IPv6 address has no brackets. The reason is shown in the browser.
        """

    async def judge(self, request: OutgoingRequest) -> GateDecision:
        """Return the decision, however long it takes. Cancelled if the browser gives the request up.

        The destination was checked before: it is allowed and not private. If this raises, the request is not sent.
        """

    def note_end(self, request: OutgoingRequest, ending: Ending) -> None:
        """Called exactly once for every request that was decided SEND or READ, also if it was cut off."""

    def note_refused(self, method: str, url: str, why: str) -> None:
        """Called for a request that was turned away without `judge`: its destination is not allowed, its body is too
        large, or it is ambiguous.

        The texts are bounded. The URL is not masked, because the gate knows the secrets. `method` and `url` are empty
        if they could not be read.
        """
