"""What host and child say to each other: four bytes of length, big-endian, then one JSON object.

Both ends read with bounds. The host takes nothing for granted of what comes from the child: `parse_json` on its side,
never pickle. Loaded in the sandboxed process too: standard library only.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_FRAME: Final = 1 << 20
MAX_FRAMES: Final = 1_000
"""In one conversation, from the child to the host; for each step of the order there are some more."""
FRAMES_OF_A_STEP: Final = 4
MAX_GIVEN: Final = 120
"""Descriptors that go with an order, of any build. The kernel takes 253 in one message."""
MAX_ANSWERS: Final = 5_000
"""From the host to the child, which could else not ask before each of a thousand steps."""

CHUNK: Final = 1 << 16
_LENGTH: Final = 4


class FramingError(Exception):
    """The other side said too much: a frame too large, or too many."""


def encode_frame(message: Mapping[str, Any]) -> bytes:
    """One frame. TypeError or ValueError for what JSON cannot say; FramesBroken if it is too large to be read."""
    body = _ENCODER.encode(message).encode("ascii")
    if len(body) > MAX_FRAME:
        raise FramingError(f"a message is larger than {MAX_FRAME:,} bytes")
    return len(body).to_bytes(_LENGTH, "big") + body


class FrameReader:
    """Bytes in, whole frames out. Never holds more than one frame and one chunk."""

    def __init__(self, most: int = MAX_FRAMES) -> None:
        self._buffer = bytearray()
        self._count = 0
        self._most = most

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are complete now. Take them all before feeding again."""
        buffered = self._buffer
        buffered += data
        while len(buffered) >= _LENGTH:
            length = int.from_bytes(buffered[:_LENGTH], "big")
            if length > MAX_FRAME:
                raise FramingError(f"it sent a message of more than {MAX_FRAME:,} bytes")
            end = _LENGTH + length
            if len(buffered) < end:
                return
            self._count += 1
            if self._count > self._most:
                raise FramingError(f"it sent more than {self._most:,} messages")
            frame = bytes(buffered[_LENGTH:end])
            del buffered[:end]
            yield frame


def _plain(value: Any) -> Any:
    """For `json`: a read-only mapping or a small dataclass, as the plain object it stands for."""
    if isinstance(value, Mapping):
        return dict(value)
    # Without `dataclasses`, which loads 1.4 MB that every fork would pay for.
    names = getattr(value, "__dataclass_fields__", None)
    if names is not None and not isinstance(value, type):
        return {name: getattr(value, name) for name in names}
    raise TypeError(f"{type(value).__name__} cannot be said in JSON")


_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain)

GO: Final = encode_frame({"kind": "go"})
"""After the order: the effect may begin."""
