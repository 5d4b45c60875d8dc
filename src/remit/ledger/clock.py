"""The time of a chain: never before its newest entry, unless a person has accepted that the clock went back.

A clock that was set back must not make expired authority valid again, so an entry never has an earlier time than the
one before it. An entry that was written while the clock was ahead would then keep the chain in the future until real
time catches up. `clock.accepted` is the only solution: a person confirms that the clock is right, and this one entry
may have an earlier time than the entry before it. It is chained and signed like all entries. Anything recorded as
expired, refused or revoked stays so, since records are read by their place and not by their time.

When Remit notices a jump, it records `clock.jumped` before the entry that it was about to write.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.core.ids import CLOCK_TOLERANCE, Clock, parse_time, render_time
from remit.store.connection import Connection

ACCEPTED: Final = "clock.accepted"
JUMPED: Final = "clock.jumped"
FOUND_WORDS: Final = {
    "jumped_ahead": "was set ahead",
    "jumped_back": "was set back",
    "behind_ledger": "was behind the ledger",
}
ABOUT_CLOCK: Final = "clock"
"""The correlation of these entries, so that the index of correlations finds them."""

BEHIND_IS_FINE: Final = timedelta(seconds=1)
"""The clocks of two hosts that share a chain may differ by as much."""
SURELY_WRONG: Final = timedelta(days=1)
SET_CLOCK: Final = "timedatectl set-ntp true"
ACCEPT: Final = "remit clock accept"
_NOTICE_EVERY: Final = timedelta(hours=1)

_NEWEST: Final = "SELECT created_at FROM ledger_entries WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"
_ABOUT: Final = f"""SELECT seq, kind, created_at, payload, actor FROM ledger_entries WHERE tenant_id = ?
  AND correlation_id = '{ABOUT_CLOCK}' AND kind IN ('{ACCEPTED}', '{JUMPED}') ORDER BY seq"""
_LAST_ABOUT: Final = f"{_ABOUT} DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class ClockEntry:
    """An entry about the clock."""

    seq: int
    kind: str
    created_at: str
    payload: dict[str, Any]
    actor: str | None


class LedgerAheadError(RefusedError):
    """A refusal by the time of the chain alone. By the clock it would be valid, so it is not recorded as expired."""


class Jump(NamedTuple):
    """The time that a clock shows now, and the time that it would show if it had not been set."""

    shown: datetime
    expected: datetime


class ChainTimes(NamedTuple):
    """The time by the clock, and the time by the chain, which is never earlier than its newest entry."""

    shown: datetime
    now: datetime

    @classmethod
    def of(cls, connection: Connection, tenant_id: str, shown: datetime) -> "ChainTimes":
        newest = newest_time(connection, tenant_id)
        return cls(shown, shown if newest is None else max(shown, newest))

    def is_over(self, created_at: str, expires_at: str) -> bool:
        """Whether a request with these times may be recorded as expired.

        While the clock is more than a day behind the chain, one of the two is wrong, and only a person can tell which.
        Until then, a request that is over by the chain alone is refused, and not recorded as expired. A request with a
        later date than the chain was made while the clock was ahead, and a person has accepted an earlier clock since.
        """
        closing = self.shown if self.now - self.shown > SURELY_WRONG else self.now
        return parse_time(expires_at) <= closing or parse_time(created_at) - self.now > CLOCK_TOLERANCE

    def refusal(self, created_at: str, expires_at: str, overdue: RefusedError) -> RefusedError | None:
        """Return `overdue` if the time is over, with the cause if only the chain says so. None before that."""
        if self.is_over(created_at, expires_at):
            return overdue
        return explain_behind(overdue, self.now, self.shown) if parse_time(expires_at) <= self.now else None


def newest_time(connection: Connection, tenant_id: str) -> datetime | None:
    """Return the time of the newest entry of the chain, or None if there is none."""
    row = connection.one(_NEWEST, (tenant_id,))
    return parse_time(row[0]) if row else None


def clock_entries(connection: Connection, tenant_id: str) -> Iterator[ClockEntry]:
    """Yield the entries about the clock in this chain, in order: noticed jumps and acceptances."""
    for row in connection.rows(_ABOUT, (tenant_id,)):
        yield _entry(*row)


def last_clock_entry(connection: Connection, tenant_id: str) -> ClockEntry | None:
    row = connection.one(_LAST_ABOUT, (tenant_id,))
    return _entry(*row) if row else None


def is_unanswered_jump(entry: ClockEntry | None) -> bool:
    """Whether the clock was set far ahead, and no person has accepted it since."""
    return entry is not None and entry.kind == JUMPED and entry.payload.get("found") == "jumped_ahead"


def jump_payload(jump: Jump) -> dict[str, Any]:
    found = "jumped_ahead" if jump.shown > jump.expected else "jumped_back"
    return _jump_note(found, jump.shown, jump.expected)


def behind_payload(connection: Connection, tenant_id: str, now: datetime, newest: datetime) -> dict[str, Any] | None:
    """Return what to record about a clock that is behind its chain. None if it is not, or if it is recorded already."""
    if newest - now <= CLOCK_TOLERANCE:
        return None
    last = last_clock_entry(connection, tenant_id)
    if last is not None and last.payload.get("found") == "behind_ledger":
        same = last.payload.get("expected_at") == render_time(newest)
        if same or abs(now - parse_time(str(last.payload["clock_at"]))) < _NOTICE_EVERY:
            return None
    return _jump_note("behind_ledger", now, newest)


def judge_by_ledger(check: Callable[[datetime], None], now: datetime, clock: Clock) -> None:
    """Run `check` with the time of the chain. If the time of the clock would not refuse, the refusal says so."""
    try:
        check(now)
    except RefusedError as problem:
        shown = clock()
        if now - shown <= BEHIND_IS_FINE:
            raise
        try:
            check(shown)
        except RefusedError:
            raise problem from None
        raise explain_behind(problem, now, shown) from None


def explain_behind(problem: RefusedError, newest: datetime, now: datetime) -> RefusedError:
    """Return the same refusal with its cause: the ledger is ahead of the clock."""
    where = problem.where or "the clock"
    what = f"{problem.what}. This is by the time of the ledger: {describe_behind(newest, now)}"
    return LedgerAheadError(problem.reason, what, where=where, next_step=ACCEPT_ADVICE)


def require_valid_when_signed(connection: Connection, tenant_id: str, now: datetime, life: timedelta) -> None:
    """Refuse to sign a document that would be expired at once by the chain, because the clock is behind the ledger."""
    newest = newest_time(connection, tenant_id)
    if newest is not None and now + life <= newest:
        problem = RefusedError(
            Reason.EXPIRED, "a signature made now would be refused as expired at once, so nothing was signed"
        )
        raise explain_behind(problem, newest, now)


ACCEPT_ADVICE: Final = f"If the clock is right, a person accepts it: {ACCEPT}. If it is wrong, set it: {SET_CLOCK}."


def describe_behind(newest: datetime, now: datetime) -> str:
    return (
        f"this machine's clock ({_second(now)}) is {render_span(newest - now)} behind the ledger's newest entry"
        f" ({_second(newest)})"
    )


def render_span(span: timedelta) -> str:
    """Return a span as text for people, in its two largest units."""
    seconds = int(abs(span).total_seconds())
    parts: list[str] = []
    for name, length in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        count, seconds = divmod(seconds, length)
        if count or (name == "second" and not parts):
            parts.append(f"{count:,} {name}{'' if count == 1 else 's'}")
    return " ".join(parts[:2])


def _second(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _jump_note(found: str, shown: datetime, expected: datetime) -> dict[str, Any]:
    return {
        "found": found,
        "clock_at": render_time(shown),
        "expected_at": render_time(expected),
        "seconds": int((shown - expected).total_seconds()),
    }


def _entry(seq: int, kind: str, created_at: str, payload: str, actor: str | None) -> ClockEntry:
    return ClockEntry(seq, kind, created_at, json.loads(payload), actor)
