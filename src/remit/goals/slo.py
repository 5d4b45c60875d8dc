"""The service levels of goals: compares measured figures with their limits. Pure; the time is an argument.

A figure without data blocks like a breach, and no waiver can change that.

A waiver is a named builder's permission to pass a breach until a date. Only `read_waivers` does I/O: it reads the file.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, get_args

from remit.contracts.goals.simulation import MAX_STEP_SECONDS
from remit.contracts.goals.slo import NEVER_WAIVED, FigureName, SloWaiver, SloWaivers
from remit.core.errors import Reason, RefusedError, UsageError
from remit.core.ids import parse_time, render_time
from remit.goals.gates import ANSWER_LIFE
from remit.ledger.goal_figures import count_unfinished, dispatch_times, ended_executions
from remit.parsing import read_bounded
from remit.parsing.yaml import parse_yaml
from remit.store.connection import Connection


def read_waivers(file: Path) -> tuple[SloWaiver, ...]:
    """Read all waivers. Refuses the whole file if one of them cannot be read."""
    try:
        with file.open("rb") as stream:
            raw = read_bounded(stream, SloWaivers.bounds, source=str(file))
    except OSError as problem:
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            f"the waivers cannot be read: {problem.strerror}",
            where=str(file),
            next_step="Make the file readable for this user, or remove it; without the file no breach is waived.",
        ) from problem
    return SloWaivers.from_tree(parse_yaml(raw, SloWaivers.bounds, source=str(file)), source=str(file)).waivers


def find_waiver(
    figure: FigureName, value: float, waivers: Sequence[SloWaiver], now: datetime
) -> tuple[SloWaiver | None, str]:
    """Return a waiver that lets this value pass today and a text, or None and the reason."""
    if figure == NEVER_WAIVED:
        return None, "this figure cannot be waived"
    why = "no waiver names this figure"
    today = now.astimezone(UTC).date()
    for waiver in waivers:
        if waiver.figure != figure:
            continue
        problem = _problem(waiver, value, today)
        if not problem:
            return waiver, f"waived by {waiver.approved_by} until {waiver.ends}: {waiver.reason}"
        why = f"the waiver of {waiver.approved_by} {problem}"
    return None, why


def _problem(waiver: SloWaiver, value: float, today: date) -> str:
    if today < date.fromisoformat(waiver.issued):
        return f"begins on {waiver.issued}"
    if today > date.fromisoformat(waiver.ends):
        return f"ended on {waiver.ends}"
    if value > waiver.limit:
        return f"covers values up to {waiver.limit:g} only"
    return ""


FIGURES: Final[tuple[FigureName, ...]] = get_args(FigureName)
MOST: Final[Mapping[FigureName, float]] = {
    "agent_dispatch_p95_ms": 1_200.0,
    "agent_dispatch_p99_ms": 2_500.0,
    "execution_error_rate": 0.005,
    NEVER_WAIVED: 0.0,
}
"""The highest value that each figure may have. Rates are fractions of 1."""
WINDOW: Final = timedelta(hours=24)

OVERDUE: Final = timedelta(seconds=2 * MAX_STEP_SECONDS)
"""A dispatch without an end counts as a failure from this time on. No step may run for half as long."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of cases out of a total. It has no value if the total is zero."""

    count: int
    total: int

    def __post_init__(self) -> None:
        if self.count < 0 or self.total < 0 or (self.total == 0 and self.count):
            raise UsageError(Reason.MISUSE, "a rate needs a count between zero and its total")

    @property
    def value(self) -> float | None:
        return self.count / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a load run. `ended` may have several rates, and each must stay within the limit."""

    dispatch_ms: Sequence[float]
    ended: Sequence[Rate]
    duplicates: Rate


@dataclass(frozen=True, slots=True)
class OwnGoals:
    """The measurements of the goals of a workspace in the last 24 hours."""

    ended: Rate
    dispatch_ms: Sequence[float]

    def figures(self) -> dict[FigureName, float | None]:
        """Return the figures that a workspace has. A load run measures duplicate effects too."""
        return {
            "agent_dispatch_p95_ms": percentile(self.dispatch_ms, 95),
            "agent_dispatch_p99_ms": percentile(self.dispatch_ms, 99),
            "execution_error_rate": self.ended.value,
        }


@dataclass(frozen=True, slots=True)
class FigureVerdict:
    figure: FigureName
    measured: float | None
    most: float
    verdict: Literal["PASS", "WAIVED", "BREACH", "NO_DATA"]
    waiver: SloWaiver | None = None
    why: str = ""

    @property
    def blocks(self) -> bool:
        return self.verdict in {"BREACH", "NO_DATA"}


def percentile(samples: Sequence[float], percent: int) -> float | None:
    """Return the smallest sample that `percent` % of all samples do not exceed (nearest rank)."""
    if not 0 < percent <= 100 or any(not math.isfinite(each) or each < 0 for each in samples):
        raise UsageError(
            Reason.MISUSE, "a percentile needs finite times of zero or more, and a percentage above 0 and up to 100"
        )
    # Integer arithmetic: a rounded rank could be one too low.
    return sorted(samples)[-(-percent * len(samples) // 100) - 1] if samples else None


def rolling_error_rate(connection: Connection, tenants: Collection[str], now: datetime) -> Rate:
    """Return the rate of failures among the executions that ended in the last 24 hours, excluding exactly 24 hours.

    Every failure counts: also one in the preparation, before the dispatch, and a dispatch whose end is overdue.
    """
    failed = total = 0
    since = render_time(now - WINDOW)
    for tenant_id in sorted(set(tenants)):
        ended = ended_executions(connection, tenant_id, since, render_time(now))
        overdue = count_unfinished(connection, tenant_id, since, render_time(now - OVERDUE))
        failed, total = failed + ended.failed + overdue, total + ended.total + overdue
    return Rate(failed, total)


def own_dispatch_times(connection: Connection, tenants: Collection[str], now: datetime) -> list[float]:
    """Return the milliseconds from the decision that allowed a dispatch to its end, of the last 24 hours.

    A later attempt of a step begins with its own event, without the wait before it.
    """
    since, until = now - WINDOW, render_time(now)
    found = [
        each
        for tenant_id in sorted(set(tenants))
        for each in dispatch_times(connection, tenant_id, render_time(since - ANSWER_LIFE), until)
    ]
    spans = [(parse_time(each.began_at), parse_time(each.ended_at)) for each in found]
    return [max(0.0, (end - begin) / timedelta(milliseconds=1)) for begin, end in spans if end > since]


def figures_of(measured: Measured) -> dict[FigureName, float | None]:
    rates = [rate.value for rate in measured.ended]
    known = [rate for rate in rates if rate is not None]
    return {
        "agent_dispatch_p95_ms": percentile(measured.dispatch_ms, 95),
        "agent_dispatch_p99_ms": percentile(measured.dispatch_ms, 99),
        "execution_error_rate": max(known) if known and len(known) == len(rates) else None,
        NEVER_WAIVED: measured.duplicates.value,
    }


def judge(measured: Measured, waivers: Sequence[SloWaiver], now: datetime) -> list[FigureVerdict]:
    """Return one verdict for each figure, in their order."""
    values = figures_of(measured)
    return [_judge(figure, values[figure], waivers, now) for figure in FIGURES]


def _judge(figure: FigureName, value: float | None, waivers: Sequence[SloWaiver], now: datetime) -> FigureVerdict:
    most = MOST[figure]
    if value is None:
        return FigureVerdict(figure, None, most, "NO_DATA", why="nothing was measured")
    if value <= most:
        return FigureVerdict(figure, value, most, "PASS")
    found, why = find_waiver(figure, value, waivers, now)
    return FigureVerdict(figure, value, most, "WAIVED" if found else "BREACH", found, why)
