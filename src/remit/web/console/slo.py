"""The page of service levels and metrics: the targets, the present values, and the metrics of this process."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.contracts.goals.slo import FigureName
from remit.core.ids import parse_time, render_time
from remit.core.metrics import COMMITS, EXECUTION_SECONDS, HTTP_SECONDS, REFUSALS, Histogram, HistogramData
from remit.goals.slo import MOST, WINDOW, Rate, own_dispatch_times, percentile, rolling_error_rate
from remit.ledger.goal_figures import ended_executions_by_hour
from remit.observability.gauges import read_chains
from remit.store.connection import Connection
from remit.web.console.charts import WIDE, Chart, Value, draw_bars
from remit.web.console.pages import ConsoleRoute, get_services, page, require_viewer
from remit.web.console.templating import render_duration

if TYPE_CHECKING:
    from remit.services.services import Services

router: Final = APIRouter(route_class=ConsoleRoute, include_in_schema=False)
_HOUR_LENGTH: Final = 13
MILLISECONDS: Final = 1_000
MOST_REFUSALS: Final = 12


class Level(NamedTuple):
    """One value with its target."""

    name: str
    value: str
    promise: str
    state: str


@router.get("/levels")
def levels(request: Request) -> Response:
    require_viewer(request)
    services = get_services(request)
    now = services.workspace.clock()
    tenants = sorted(services.workspace.config.tenants)
    with services.workspace.store.reading() as connection:
        rate = rolling_error_rate(connection, tenants, now)
        times = own_dispatch_times(connection, tenants, now)
        hours = _count_by_hour(connection, tenants, now)
        chains = read_chains(connection)
    return page(
        request,
        "levels.html",
        here="/levels",
        levels=[_error_level(rate), *_time_levels(times), *_waiting(services, now)],
        goals=hours,
        histograms=[
            *_list_histograms(EXECUTION_SECONDS, "Duration of a request, from the first step to the last"),
            *_list_histograms(COMMITS, "Duration of a commit of the ledger"),
        ],
        http=_all_of(HTTP_SECONDS),
        refusals=sorted(REFUSALS.read().items(), key=lambda each: -each[1])[:MOST_REFUSALS],
        chains=chains,
    )


def _error_level(rate: Rate) -> Level:
    promise = f"at most {MOST['execution_error_rate'] * 100:g} %, in 24 hours"
    if rate.value is None:
        return Level("Failed dispatches", "no data", promise, "")
    state = "KEPT" if rate.value <= MOST["execution_error_rate"] else "BREACHED"
    return Level("Failed dispatches", f"{rate.value * 100:.2f} %", promise, state)


def _time_levels(times: list[float]) -> Iterator[Level]:
    """Yield the times of the workspace's own goals. The gate of a release judges those of its load."""
    figures: tuple[tuple[int, FigureName], ...] = ((95, "agent_dispatch_p95_ms"), (99, "agent_dispatch_p99_ms"))
    for percent, figure in figures:
        value, most = percentile(times, percent), MOST[figure]
        promise = f"at most {most:,.0f} ms, in 24 hours"
        if value is None:
            yield Level(f"Time of a dispatch, p{percent}", "no data", promise, "")
        else:
            state = "KEPT" if value <= most else "BREACHED"
            yield Level(f"Time of a dispatch, p{percent}", f"{value:,.0f} ms", promise, state)


def _waiting(services: "Services", now: datetime) -> Iterator[Level]:
    names = {"request": "Held requests", "plan": "Proposed plans", "goal": "Goals to approve"}
    for kind, (count, oldest) in services.inbox.count_open().items():
        since = (
            f"oldest for {render_duration((now - parse_time(oldest)).total_seconds())}" if oldest else "none waiting"
        )
        yield Level(names.get(kind, kind), f"{count:,}", since, "")


def _count_by_hour(connection: Connection, tenants: list[str], now: datetime) -> Chart | None:
    """Draw the goals that ended in each of the last 24 hours. Return None if there were none."""
    hours = [render_time(now - timedelta(hours=back))[:_HOUR_LENGTH] for back in range(23, -1, -1)]
    ended = dict.fromkeys(hours, 0)
    failed = dict.fromkeys(hours, 0)
    for tenant in tenants:
        by_hour = ended_executions_by_hour(connection, tenant, render_time(now - WINDOW), render_time(now))
        for hour, counts in by_hour.items():
            if hour in ended:
                ended[hour] += counts.total
                failed[hour] += counts.failed
    if not any(ended.values()):
        return None
    values = [Value(f"{hour[-2:]}:00", ended[hour], failed[hour]) for hour in hours]
    return draw_bars("Ended goals by hour (UTC)", values, width=WIDE)


def _list_histograms(counted: Histogram, what: str) -> Iterator[Chart]:
    for labels, spread in sorted(counted.read().items()):
        label_text = f" ({', '.join(labels)})" if labels else ""
        yield draw_bars(f"{what}{label_text}", _values(counted, spread))


def _all_of(counted: Histogram) -> Chart | None:
    """Draw the sum of all routes. The page /metrics lists each route."""
    spreads = list(counted.read().values())
    if not spreads:
        return None
    counts = tuple(map(sum, zip(*(spread.counts for spread in spreads), strict=True)))
    return draw_bars("Responses to HTTP requests", _values(counted, HistogramData(counts, 0.0)))


def _values(counted: Histogram, spread: HistogramData) -> list[Value]:
    """Return one bar for each bound, without the empty bars at the end."""
    names = [f"≤ {_bound(bound)}" for bound in counted.bounds]
    names.append(f"> {_bound(counted.bounds[-1])}")
    last = max((index for index, count in enumerate(spread.counts) if count), default=0)
    return [Value(name, count) for name, count in list(zip(names, spread.counts, strict=True))[: last + 1]]


def _bound(seconds: float) -> str:
    return f"{seconds * MILLISECONDS:g} ms" if seconds < 1 else f"{seconds:g} s"
