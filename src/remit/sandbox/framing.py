"""The frames between host and child: four bytes of length, big-endian, then one JSON object.

Both sides read with bounds. The host does not trust the frames of a child: it parses them with `parse_json` and never
with pickle. The sandboxed process loads this module too, so it uses the standard library only.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_FRAME: Final = 1 << 20
MAX_FRAMES: Final = 1_000
"""The most frames from one child to the host. Each step of the order adds `FRAMES_OF_A_STEP`."""
FRAMES_OF_A_STEP: Final = 4
MAX_GIVEN: Final = 120
"""The most descriptors with an order of any build. The kernel accepts 253 in one message."""
MAX_ANSWERS: Final = 5_000
"""The most frames from the host to a child. A child may ask before each of a thousand steps."""

CHUNK: Final = 1 << 16
_LENGTH: Final = 4


class FramingError(Exception):
    """Raised if the other side sent a frame that is too large, or too many frames."""


def encode_frame(message: Mapping[str, Any]) -> bytes:
    """Return one frame.

    Raises TypeError or ValueError for a message that is not JSON, and FramingError for one that is too large.
    """
    body = _ENCODER.encode(message).encode("ascii")
    if len(body) > MAX_FRAME:
        raise FramingError(f"a message is larger than {MAX_FRAME:,} bytes")
    return len(body).to_bytes(_LENGTH, "big") + body


class FrameReader:
    """A reader that turns bytes into whole frames. It never holds more than one frame and one chunk."""

    def __init__(self, most: int = MAX_FRAMES) -> None:
        self._buffer = bytearray()
        self._count = 0
        self._most = most

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the frames that are complete now. Read all of them before the next call."""
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
    """Return a read-only mapping or a small dataclass as a plain object, for `json`."""
    if isinstance(value, Mapping):
        return dict(value)
    # Without `dataclasses`, which loads 1.4 MB that every fork would pay for.
    names = getattr(value, "__dataclass_fields__", None)
    if names is not None and not isinstance(value, type):
        return {name: getattr(value, name) for name in names}
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


_ENCODER: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain)

GO: Final = encode_frame({"kind": "go"})
"""The frame after the order that lets the effect begin."""
