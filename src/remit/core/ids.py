"""Ids and times that Remit makes. Time and randomness come in as arguments, so tests can fix both."""

import os
import re
import shlex
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Final

Clock = Callable[[], datetime]

DEFAULT_TENANT: Final = "default"
"""The owner of everything that was not requested for a tenant."""

CLOCK_TOLERANCE: Final = timedelta(seconds=60)
"""The difference between two clocks that is tolerated."""

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z")


def tenant_flag(tenant_id: str, known: Collection[str]) -> str:
    """Return the `--tenant` option that a suggested command needs to be about this tenant, or an empty text.

    `known` holds the tenants of remit.yaml. The option is not needed for the only tenant, nor, among several, for the
    one called `default`.
    """
    meant = next(iter(known)) if len(known) == 1 else DEFAULT_TENANT if DEFAULT_TENANT in known else None
    return "" if tenant_id == meant else f" --tenant {shlex.quote(tenant_id)}"


def system_clock() -> datetime:
    return datetime.now(UTC)


def is_within(begun: datetime, now: datetime, life: timedelta) -> bool:
    """Return whether `now` lies within `life` after `begun`.

    False also if `begun` lies in the future: it was written while a clock was ahead that has been corrected since.
    """
    return -CLOCK_TOLERANCE <= now - begun <= life


def uuid7(at: datetime, random_bytes: Callable[[int], bytes] = os.urandom) -> str:
    """Return a UUID of version 7 (RFC 9562). Such ids sort by time, so an index on them grows at its end."""
    milliseconds = int(at.timestamp() * 1000)
    raw = bytearray(milliseconds.to_bytes(6, "big") + random_bytes(10))
    raw[6] = (raw[6] & 0x0F) | 0x70
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def render_time(at: datetime) -> str:
    """Return the RFC 3339 text in UTC, always with six decimals. Such texts sort in the order of their times."""
    if at.tzinfo is not UTC:
        at = at.astimezone(UTC)
    return at.isoformat(timespec="microseconds")[:26] + "Z"


def parse_time(text: str) -> datetime:
    """Parse a time: the inverse of `render_time`. Fewer decimals are accepted.

    Any other form, also one with an offset, raises ValueError.
    """
    if not _TIME.fullmatch(text):
        raise ValueError("not an RFC 3339 time in UTC, such as 2026-01-31T09:30:00Z")
    return datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
