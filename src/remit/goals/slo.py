"""The service levels of the goal door: what was measured against what was promised. Pure; the time comes in.

What was not measured has not been kept: a figure without data blocks as a breach does, and no waiver helps.

Waivers: a builder's word, by name and with an end, that a breach is let pass. Pure but for reading the file.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, get_args

from remit.contracts.goals.slo import NEVER_WAIVED, FigureName, SloWaiver, SloWaivers
from remit.core.errors import Reason, RefusedError, UsageError
from remit.core.ids import render_time
from remit.parsing import read_bounded
from remit.parsing.yaml import parse_yaml
from remit.store.connection import Connection


def read_waivers(file: Path) -> tuple[SloWaiver, ...]:
    """All of them, or a refusal: one that cannot be read waives nothing, and is not passed over in silence."""
    try:
        with file.open("rb") as stream:
            raw = read_bounded(stream, SloWaivers.bounds, source=str(file))
    except OSError as problem:
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            f"the waivers cannot be read: {problem.strerror}",
            where=str(file),
            next_step="Make it a file that you may read, or take it away: then nothing is waived.",
        ) from problem
    return SloWaivers.from_tree(parse_yaml(raw, SloWaivers.bounds, source=str(file)), source=str(file)).waivers


def find_waiver(
    figure: FigureName, value: float, waivers: Sequence[SloWaiver], now: datetime
) -> tuple[SloWaiver | None, str]:
    """One that lets this value pass today, or why none does."""
    if figure == NEVER_WAIVED:
        return None, "this figure cannot be waived"
    why = "no waiver names this figure"
    today = now.astimezone(UTC).date()
    for waiver in waivers:
        if waiver.figure != figure:
            continue
        problem = _problem(waiver, value, today)
        if not problem:
            return waiver, f"let pass by {waiver.approved_by} until {waiver.ends}: {waiver.reason}"
        why = f"the waiver of {waiver.approved_by} {problem}"
    return None, why


def _problem(waiver: SloWaiver, value: float, today: date) -> str:
    if today < date.fromisoformat(waiver.issued):
        return f"begins on {waiver.issued}"
    if today > date.fromisoformat(waiver.ends):
        return f"ended on {waiver.ends}"
    if value > waiver.limit:
        return f"goes up to {waiver.limit:g} only"
    return ""


FIGURES: Final[tuple[FigureName, ...]] = get_args(FigureName)
MOST: Final[Mapping[FigureName, float]] = {
    "agent_dispatch_p95_ms": 1_200.0,
    "agent_dispatch_p99_ms": 2_500.0,
    "execution_error_rate": 0.005,
    NEVER_WAIVED: 0.0,
}
"""The worst value that keeps the promise; rates as parts of one."""
WINDOW: Final = timedelta(hours=24)

_ENDED: Final = """SELECT event, count(*) FROM agent_execution_ledger
  WHERE tenant_id = ? AND created_at > ? AND created_at <= ? AND event IN ('SUCCEEDED', 'FAILED') GROUP BY event"""


@dataclass(frozen=True, slots=True)
class Rate:
    """So many of so many. Of nothing there is no rate."""

    count: int
    total: int

    def __post_init__(self) -> None:
        if self.count < 0 or self.total < 0 or (self.total == 0 and self.count):
            raise UsageError(Reason.MISUSE, "a rate counts some of what there is")

    @property
    def value(self) -> float | None:
        return self.count / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class Measured:
    """What a load run saw. `ended` may come from more than one place: each must keep the promise."""

    dispatch_ms: Sequence[float]
    ended: Sequence[Rate]
    duplicates: Rate


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
    """By nearest rank: the smallest sample that at least `percent` % of all do not exceed. Always one that occurred."""
    if not 0 < percent <= 100 or any(not math.isfinite(each) or each < 0 for each in samples):
        raise UsageError(Reason.MISUSE, "a percentile is of finite times, and lies above 0 and at most at 100")
    # In whole numbers: a rank that was rounded could be one too low.
    return sorted(samples)[-(-percent * len(samples) // 100) - 1] if samples else None


def rolling_error_rate(connection: Connection, tenants: Collection[str], now: datetime) -> Rate:
    """Dispatches that failed among those that ended, of the 24 hours up to now; what is exactly 24 hours old is out."""
    counts = {"SUCCEEDED": 0, "FAILED": 0}
    span = (render_time(now - WINDOW), render_time(now))
    for tenant_id in sorted(set(tenants)):
        for event, count in connection.rows(_ENDED, (tenant_id, *span)):
            counts[event] += count
    return Rate(counts["FAILED"], sum(counts.values()))


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
    """One verdict for each figure, in their order."""
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
