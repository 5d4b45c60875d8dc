"""Follows a preview through its turn (`remit.plans.proposals.turns`), and decides whether its agent may see it (PV-04).

The agent sees it only if the computation was small: otherwise whether it ends in time would depend on the load of
the machine, and so on previews that the agent may not read. The limit is on processor time, which the load hardly
changes, and far below the length of a turn. It is another one each time, so that no agent can place its plan at the
edge and read from the answer how much the processor was slowed down.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from remit.contracts.config.config import PostgresqlConnection, SystemConfig
from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError
from remit.core.ids import Clock
from remit.plans.preview.planned_effect import PlannedEffect
from remit.plans.proposals.turns import MOST_AHEAD, Turn
from remit.services.plans.read_grants import subjects_of

TURN: Final = timedelta(seconds=5)
"""The agent waits as long for every preview. It is long enough for a busy machine, which needs a second or two."""
LOWEST_LIMIT, HIGHEST_LIMIT = 0.03, 0.06
"""The parts of a turn between which the limit is drawn: 0.15 to 0.3 seconds. An edit uses a few hundredths of a second,
and SQL not much more. Other work must slow a computation down thirteen times before the turn is too short for one that
is shown otherwise."""
_OF_MACHINE: Final = frozenset(
    {
        Reason.TIMED_OUT,
        Reason.CANCELLED,
        Reason.RESOURCE_EXHAUSTED,
        Reason.DATABASE_BUSY,
        Reason.DATABASE_UNREACHABLE,
        Reason.DISK_FULL,
        Reason.SANDBOX_UNAVAILABLE,
        Reason.INTERNAL,
    }
)
"""Problems that may come from other work on the machine: its load, its locks, its full disk."""
_POLL_SECONDS: Final = 0.1
_STEPS: Final = 1 << 32


def draw_limit() -> float:
    """Return the part of a turn that a computation may use."""
    share = int.from_bytes(os.urandom(4)) / _STEPS
    return LOWEST_LIMIT + share * (HIGHEST_LIMIT - LOWEST_LIMIT)


@dataclass(frozen=True, slots=True)
class TurnRules:
    """The length of a turn, and how the limit for one computation is drawn, as a part of the length."""

    length: timedelta = TURN
    draw_limit: Callable[[], float] = draw_limit

    def is_small(self, seconds: float) -> bool:
        """Whether a computation that used so many seconds may be shown. The answer differs from call to call."""
        return seconds <= self.length.total_seconds() * self.draw_limit()


class TurnWatch:
    """Follows one turn on the clock: waits for its start, and stops the computation at its end."""

    def __init__(self, turn: Turn, clock: Clock, cancelled: Callable[[], bool]) -> None:
        self._turn = turn
        self._clock = clock
        self._cancelled = cancelled
        self.was_stopped = False
        """Whether the computation had to stop, so that what it returned is not the preview of the plan."""

    def wait_for_start(self) -> None:
        """Wait for the start. Raises CANCELLED if the job is cancelled while it waits."""
        pause = threading.Event()
        while (left := (self._turn.starts_at - self._clock()).total_seconds()) > 0:
            if self._cancelled():
                raise RefusedError(Reason.CANCELLED, "the computation of the preview was stopped before it began")
            pause.wait(min(left, _POLL_SECONDS))

    def must_stop(self) -> bool:
        """Whether to stop: the turn is over, or the job is cancelled."""
        self.was_stopped = self.was_stopped or self._cancelled() or self._clock() >= self._turn.stops_at
        return self.was_stopped


def depends_on_machine(preview: PlannedEffect) -> bool:
    """Whether a problem in the preview may come from other work, such as a limit that the agent itself set low."""
    return any(problem.get("reason") in _OF_MACHINE for problem in preview.problems)


def is_too_far(turn: Turn, rules: TurnRules, clock: Clock) -> bool:
    """Whether the turn is later than any proposal waits: the clock of this machine is behind the ledger."""
    return turn.starts_at - clock() > (MOST_AHEAD + 1) * rules.length


def uses_server(plan: Plan, config: SystemConfig) -> bool:
    """Whether the preview waits for a database server, which does its work in no process of this machine."""
    subjects = subjects_of(plan, config)
    names = () if subjects is None else subjects.connections
    return any(isinstance(config.connections.get(name), PostgresqlConnection) for name in names)
