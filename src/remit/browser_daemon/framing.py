"""The messages between a command and the browser host: JSON documents of limited size, each after its length."""

import json
import socket
import struct
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.parsing import Bounds, parse_json

LENGTH: Final = struct.Struct(">I")
MAX_FRAME: Final = 16 << 20
BOUNDS: Final = Bounds(max_bytes=MAX_FRAME, max_depth=64, max_items=200_000)
_KINDS: Final[dict[str, type[RemitError]]] = {
    "refused": RefusedError,
    "misuse": UsageError,
    "failed": EnvironmentFailureError,
}


def send_frame(connection: socket.socket, document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    if len(body) > MAX_FRAME:
        raise EnvironmentFailureError(Reason.TOO_LARGE, "the message to the other process is too long")
    connection.sendall(LENGTH.pack(len(body)) + body)


def receive_frame(connection: socket.socket, *, prefix: bytes = b"", max_bytes: int = MAX_FRAME) -> Any:
    """Receive one message. None at the end of the connection. `prefix` is the part that was read already."""
    head = prefix + receive_exactly(connection, LENGTH.size - len(prefix))
    if not head:
        return None
    size = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else -1
    if not 0 <= size <= max_bytes:
        raise RefusedError(Reason.TOO_LARGE, "a message is incomplete or too long", where="the browser host's socket")
    body = receive_exactly(connection, size)
    if len(body) < size:
        raise RefusedError(Reason.MALFORMED, "the other process ended in the middle of a message")
    return parse_json(body, BOUNDS, source="frame")


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """Receive that many bytes. Returns fewer only at the end of the connection."""
    pieces: list[bytes] = []
    while size > 0:
        piece = connection.recv(min(size, 1 << 16))
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def error_to_frame(problem: RemitError) -> dict[str, Any]:
    kind = next((name for name, each in _KINDS.items() if isinstance(problem, each)), "failed")
    return {"error": {**problem.as_json(), "kind": kind}}


def error_from_frame(fields: Any) -> RemitError:
    """Build the error again, so that it is masked again. An unreadable error is a failure of the other process."""
    try:
        kind, reason = _KINDS[fields["kind"]], Reason(fields["reason"])
        return kind(reason, str(fields["what"]), where=str(fields["where"]), next_step=str(fields["next_step"]))
    except (KeyError, TypeError, ValueError):
        return EnvironmentFailureError(Reason.INTERNAL, "the answer of the browser host cannot be read")
