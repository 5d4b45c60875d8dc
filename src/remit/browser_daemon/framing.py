"""What is said between a command and the browser host: JSON documents, each behind its length, none too long."""

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
        raise EnvironmentFailureError(Reason.TOO_LARGE, "what is to be said to the other side is too long")
    connection.sendall(LENGTH.pack(len(body)) + body)


def receive_frame(connection: socket.socket, *, prefix: bytes = b"", max_bytes: int = MAX_FRAME) -> Any:
    """None at the end of the conversation. `prefix` is what was read of it already."""
    head = prefix + receive_exactly(connection, LENGTH.size - len(prefix))
    if not head:
        return None
    size = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else -1
    if not 0 <= size <= max_bytes:
        raise RefusedError(Reason.TOO_LARGE, "a frame is cut short or too long", where="the browser host's socket")
    body = receive_exactly(connection, size)
    if len(body) < size:
        raise RefusedError(Reason.MALFORMED, "the other side ended in the middle of a frame")
    return parse_json(body, BOUNDS, source="frame")


def receive_exactly(connection: socket.socket, size: int) -> bytes:
    """Less only at the end."""
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
    """Made anew, and so masked anew. What cannot be read is a failure of the other side."""
    try:
        kind, reason = _KINDS[fields["kind"]], Reason(fields["reason"])
        return kind(reason, str(fields["what"]), where=str(fields["where"]), next_step=str(fields["next_step"]))
    except (KeyError, TypeError, ValueError):
        return EnvironmentFailureError(Reason.INTERNAL, "the browser host answered in a way that cannot be read")
