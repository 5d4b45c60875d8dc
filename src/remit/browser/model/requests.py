"""A request on its way out, as it will be written to the server: what is shown, approved and sent is this."""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol

from remit.core.canonical import digest

RequestKind = Literal["request", "websocket", "message"]


@dataclass(frozen=True)
class OutgoingRequest:
    """Exact and whole, its body included. Nobody changes it once it is made."""

    request_id: str
    kind: RequestKind
    method: str
    """For a message on a WebSocket: empty."""
    url: str
    headers: tuple[tuple[str, str], ...]
    """As they are sent, in their order; what is between the browser and the proxy only is left out."""
    body: bytes = b""
    is_navigation: bool = False
    """Whether a page or a frame is to show the answer, as far as the request itself tells.

    A page can make another request look like a navigation, and cannot make a navigation look like another request.
    """
    is_text: bool = False
    """Of a message: text, as against binary."""

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
        """The very bytes that are sent. (A message has none here: its body is put in a frame.)"""
        lines = [f"{self.method} {self.target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


class Ending(NamedTuple):
    """What became of a request that was let through: told when the head of the answer is there, or never will be."""

    status: int | None
    """The server's answer; None: there was none. A message on a WebSocket never has one."""
    sent: bool
    """Whether any byte of it may have reached the server."""
    problem: str = ""
    location: str = ""
    """Where the server sends the browser on to, as it wrote it."""


class GateDecision(Enum):
    SEND = "send"
    """Once, on a connection of its own, and never again, whatever becomes of it."""
    READ = "read"
    """Send it: it only reads, and nobody was asked. It may use a connection again, and go anew if that was closed."""
    DROP = "drop"


class Gate(Protocol):
    """Who is asked about every request of one session. Called in the event loop of the proxy."""

    def check_destination(self, scheme: str, host: str, port: int) -> str | None:
        """Why nothing may go there, or None. Asked before a name is looked up, and again once a connection is made:
        that takes a while, in which a token may be revoked. Nothing has been written then.

        The scheme is http or https, also for a WebSocket; the host has no dot at its end and no capital letters, an
        IPv6 address no brackets. The reason is shown in the browser.
        """

    async def judge(self, request: OutgoingRequest) -> GateDecision:
        """Returns when it is decided, however long that takes. Cancelled if the browser gives the request up.

        The place of the request has been looked at before: it is neither refused nor private. If this raises, the
        request is not sent.
        """

    def note_end(self, request: OutgoingRequest, ending: Ending) -> None:
        """Of every request that was answered SEND or READ, exactly once; also if it was cut off."""

    def note_refused(self, method: str, url: str, why: str) -> None:
        """What was turned away without asking `judge`: a place, a body too large, a request of two meanings.

        Bounded; the URL is not masked: the gate knows what is secret in it. `method` and `url` are empty where they
        could not be read.
        """
