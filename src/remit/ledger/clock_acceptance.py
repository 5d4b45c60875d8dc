"""Acceptance of the clock: a person's recorded act, after which each chain continues from the time of the clock.

It is for chains whose newest entry is later than the clock, and for those in which a jump ahead was noticed. It covers
all of them in one transaction. Later requests are checked by the accepted clock. Anything recorded as expired, refused,
revoked or closed stays so. Limit: what had expired without a record is valid again as long as its own dates say.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import render_time
from remit.ledger.clock import BEHIND_IS_FINE, SET_CLOCK, ClockEntry, is_unanswered_jump, last_clock_entry, newest_time
from remit.ledger.cursor import tenants_in
from remit.ledger.entry import Entry
from remit.ledger.writer import Batch, Ledger
from remit.store.connection import Connection

EARLIEST_YEAR: Final = 2025
LATEST_YEAR: Final = 2100
SHOWN_FOR: Final = timedelta(minutes=10)
"""How long a person may take to accept. The clock must still be the one that was shown."""
SERVER_MAY_DIFFER: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class ChainClock:
    """One chain compared with the clock."""

    tenant_id: str
    newest: datetime
    behind: timedelta
    """How far the clock is behind the newest entry. Zero if it is not."""
    last: ClockEntry | None
    """The last entry about the clock."""

    @property
    def can_be_accepted(self) -> bool:
        return self.behind > BEHIND_IS_FINE or is_unanswered_jump(self.last)


def chain_clocks(connection: Connection, now: datetime) -> Iterator[ChainClock]:
    """Yield the comparison for every tenant that has a chain."""
    for tenant_id in tenants_in(connection):
        newest = newest_time(connection, tenant_id) or now
        behind = max(newest - now, timedelta(0))
        yield ChainClock(tenant_id, newest, behind, last_clock_entry(connection, tenant_id))


def accept_clock(ledger: Ledger, actor: str, person: str, shown: datetime) -> list[Entry]:
    """Record in every chain that needs it that a person accepts the clock. Return the entries; none if no chain does.

    `shown` is the time that the person saw. Refuses if the clock was set since then.
    """

    def work(batch: Batch) -> list[Entry]:
        now = batch.clock()
        _require_sane(now, shown)
        chains = [chain for chain in chain_clocks(batch.store, now) if chain.can_be_accepted]
        written = [batch.accept_clock(chain.tenant_id, actor, _payload(chain, now, person), now) for chain in chains]
        reach("clock.accepting")
        return written

    entries = ledger.transact(work)
    reach("clock.accepted")
    return entries


def require_server_agrees(connection: Connection, now: datetime) -> None:
    """Refuse if the database server shows another time. Several hosts share a chain there, and a host with a wrong
    clock must not decide for all.
    """
    row = connection.one("SELECT clock_timestamp()")
    if row is None or abs(row[0] - now) > SERVER_MAY_DIFFER:
        server_time = f"the server's clock shows {render_time(row[0])}" if row else "the server did not tell its time"
        raise EnvironmentFailureError(
            Reason.STORE_UNAVAILABLE,
            f"this machine's clock shows {render_time(now)}, and {server_time}; nothing was accepted",
            where="PostgreSQL",
            next_step=f"Set both clocks first: {SET_CLOCK}",
        )


def _require_sane(now: datetime, shown: datetime) -> None:
    if not EARLIEST_YEAR <= now.year <= LATEST_YEAR:
        raise RefusedError(
            Reason.NOT_YET_VALID,
            f"the clock shows {render_time(now)}, which cannot be right; nothing was accepted",
            where="the clock",
            next_step=f"Set it first: {SET_CLOCK}",
        )
    if abs(now - shown) > SHOWN_FOR:
        raise RefusedError(
            Reason.EXPIRED,
            f"the clock showed {render_time(shown)} when you were asked, and shows {render_time(now)} now;"
            " nothing was accepted",
            where="the clock",
            next_step="Look again: remit clock show",
        )


def _payload(chain: ChainClock, now: datetime, person: str) -> dict[str, Any]:
    return {
        "newest_at": render_time(chain.newest),
        "accepted_at": render_time(now),
        "seconds": int((now - chain.newest).total_seconds()),
        "person": person,
    }
