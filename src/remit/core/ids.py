"""Ids and times that Remit makes. Time and randomness come in as arguments, so tests can fix both."""

import os
import re
import shlex
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import Final

Clock = Callable[[], datetime]

DEFAULT_TENANT: Final = "default"
"""Whom everything belongs to that no tenant asked for."""

CLOCK_TOLERANCE: Final = timedelta(seconds=60)
"""By how much two clocks may differ before anything is made of it."""

_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z")


def tenant_flag(tenant_id: str, known: Collection[str]) -> str:
    """What a command that is suggested needs, to be about this tenant; empty where it is without that.

    `known` are the tenants of remit.yaml: of one, and of several that one called `default`, need not be named.
    """
    meant = next(iter(known)) if len(known) == 1 else DEFAULT_TENANT if DEFAULT_TENANT in known else None
    return "" if tenant_id == meant else f" --tenant {shlex.quote(tenant_id)}"


def system_clock() -> datetime:
    return datetime.now(UTC)


def is_within(begun: datetime, now: datetime, life: timedelta) -> bool:
    """Whether `now` lies in the `life` of something that began then.

    False also for a begin in the future: it was written while a clock was ahead that has been set right since.
    """
    return -CLOCK_TOLERANCE <= now - begun <= life


def uuid7(at: datetime, random_bytes: Callable[[int], bytes] = os.urandom) -> str:
    """RFC 9562 version 7: sorts by time, so that an index on it appends at its end."""
    milliseconds = int(at.timestamp() * 1000)
    raw = bytearray(milliseconds.to_bytes(6, "big") + random_bytes(10))
    raw[6] = (raw[6] & 0x0F) | 0x70
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def render_time(at: datetime) -> str:
    """RFC 3339, UTC, always six decimals: such texts sort as their times do."""
    if at.tzinfo is not UTC:
        at = at.astimezone(UTC)
    return at.isoformat(timespec="microseconds")[:26] + "Z"


def parse_time(text: str) -> datetime:
    """The inverse of `render_time`; also takes fewer decimals. ValueError on any other form, offsets included."""
    if not _TIME.fullmatch(text):
        raise ValueError("not an RFC 3339 time in UTC, such as 2026-01-31T09:30:00Z")
    return datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC)
