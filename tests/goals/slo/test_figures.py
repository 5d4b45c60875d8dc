"""The four service levels: what is a percentile, what is a rate, and what has no data."""

import itertools
import math
import random
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from remit.contracts.goals.slo import SloWaiver
from remit.core.errors import UsageError
from remit.goals.slo import (
    FIGURES,
    MOST,
    OVERDUE,
    FigureVerdict,
    Measured,
    OwnGoals,
    Rate,
    judge,
    own_dispatch_times,
    percentile,
    rolling_error_rate,
)
from remit.ledger.goal_figures import DECISIONS
from remit.ledger.goal_tables import StepRow
from remit.ledger.projections import append_step
from tests.support.store_fixtures import World

NOW = datetime(2026, 5, 10, 12, 0, tzinfo=UTC)
GOOD = Measured([100.0] * 100, [Rate(0, 100)], Rate(0, 100))


def by_name(verdicts: list[FigureVerdict]) -> dict[str, str]:
    return {each.figure: each.verdict for each in verdicts}


@pytest.mark.req("AC-26")
def test_the_figures_have_the_names_and_thresholds_that_were_promised() -> None:
    assert dict(MOST) == {
        "agent_dispatch_p95_ms": 1200,
        "agent_dispatch_p99_ms": 2500,
        "execution_error_rate": 0.005,
        "idempotency_duplicate_side_effect_rate": 0,
    }
    assert list(MOST) == list(FIGURES)


def test_a_percentile_is_the_smallest_sample_that_so_many_do_not_exceed() -> None:
    draw = random.Random(7)  # noqa: S311 - the same numbers in every run
    for size, percent in itertools.product((1, 2, 3, 19, 20, 21, 99, 100, 101, 200), (1, 50, 95, 99, 100)):
        samples = [draw.random() * 1_000 for _ in range(size)]
        found = percentile(samples, percent)
        enough = [each for each in samples if sum(other <= each for other in samples) * 100 >= percent * size]
        assert found == min(enough)
    assert percentile([5.0, 1.0, 3.0], 50) == 3.0
    assert percentile([float(number) for number in range(1, 101)], 95) == 95.0
    assert percentile([], 99) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_what_is_no_time_is_no_sample(bad: float) -> None:
    with pytest.raises(UsageError):
        percentile([1.0, bad], 50)


@pytest.mark.parametrize("count, total", [(1, 0), (-1, 3), (0, -1)])
def test_a_rate_of_nothing_cannot_be_made_up(count: int, total: int) -> None:
    with pytest.raises(UsageError):
        Rate(count, total)


@pytest.mark.req("AC-17", "AC-26")
def test_a_level_is_kept_up_to_its_threshold_and_breached_beyond_it() -> None:
    at_most = Measured([1_200.0] * 95 + [2_500.0] * 5, [Rate(5, 1_000)], Rate(0, 1))
    assert set(by_name(judge(at_most, (), NOW)).values()) == {"PASS"}
    slow = judge(Measured([1.0] * 94 + [1_200.1] * 6, [Rate(0, 1)], Rate(0, 1)), (), NOW)
    assert by_name(slow)["agent_dispatch_p95_ms"] == "BREACH"
    assert by_name(slow)["agent_dispatch_p99_ms"] == "PASS"
    slower = judge(Measured([1.0] * 98 + [2_500.1] * 2, [Rate(0, 1)], Rate(0, 1)), (), NOW)
    assert by_name(slower)["agent_dispatch_p99_ms"] == "BREACH"
    failing = judge(Measured([1.0], [Rate(0, 1_000), Rate(6, 1_000)], Rate(0, 1)), (), NOW)
    assert by_name(failing)["execution_error_rate"] == "BREACH"
    twice = judge(Measured([1.0], [Rate(0, 1)], Rate(1, 1_000_000)), (), NOW)
    assert by_name(twice)["idempotency_duplicate_side_effect_rate"] == "BREACH"


@pytest.mark.req("AC-17")
def test_a_figure_without_data_blocks_and_no_waiver_helps() -> None:
    waivers = tuple(
        SloWaiver(
            figure=figure,
            limit=1 if figure.endswith("_rate") else 1e9,
            approved_by="Ann",
            reason="we wait",
            issued="2026-05-10",
            ends="2026-05-10",
        )
        for figure in FIGURES[:3]
    )
    nothing = judge(Measured([], [], Rate(0, 0)), waivers, NOW)
    assert by_name(nothing) == dict.fromkeys(FIGURES, "NO_DATA")
    assert all(verdict.blocks and verdict.measured is None for verdict in nothing)
    partly = judge(Measured(GOOD.dispatch_ms, [Rate(0, 100), Rate(0, 0)], GOOD.duplicates), waivers, NOW)
    assert by_name(partly)["execution_error_rate"] == "NO_DATA"


@pytest.mark.req("AC-34")
def test_every_failure_of_an_execution_counts_and_no_decision_does(world: World) -> None:
    ended(world, "SUCCEEDED", NOW - timedelta(hours=1))
    ended(world, "REFUSED", NOW - timedelta(hours=1))  # by a gate: nothing was executed
    for code in ("SIMULATION_REFUSED", "STEP_TIMEOUT", "FIELDS_INVALID", "REPLAY_INVARIANT_FAILED"):
        ended(world, "REFUSED", NOW - timedelta(hours=1), reason_code=code, simulation_entry_ref="simulation/x")
    for code in DECISIONS:
        ended(world, "REFUSED", NOW - timedelta(hours=1), reason_code=code, simulation_entry_ref="simulation/x")
    with world.store.reading() as connection:
        assert rolling_error_rate(connection, ("acme",), NOW) == Rate(4, 5)
    ended(world, "DISPATCHED", NOW - OVERDUE - timedelta(minutes=1))  # no process records its end any more
    ended(world, "DISPATCHED", NOW - OVERDUE + timedelta(minutes=1))
    with world.store.reading() as connection:
        assert rolling_error_rate(connection, ("acme",), NOW) == Rate(5, 6)
        assert rolling_error_rate(connection, ("acme",), NOW + timedelta(minutes=2)) == Rate(6, 7)


@pytest.mark.req("AC-34")
def test_the_times_of_own_goals_are_from_the_decision_or_the_next_attempt_to_the_end(world: World) -> None:
    def steps(number: int, events: dict[str, float], at: datetime) -> None:
        for event, seconds in events.items():
            world.clock.now = at + timedelta(seconds=seconds) - timedelta(milliseconds=1)
            row = StepRow(
                event_id=f"own-{number}-{event}",
                correlation_id=f"own-{number}",
                plan_id=f"own-{number}",
                step_id="step-1",
                event=event.partition(" ")[0],
                idempotency_key=f"own-{number}",
                simulation_entry_ref="simulation/x" if event == "REFUSED" else None,
                attempt="2" if event.endswith("2") or event == "RETRIED" else None,
            )
            world.ledger.transact(partial(append_step, tenant_id="acme", row=row))

    steps(0, {"PLANNED": 0, "ACCESS_ALLOWED": 1, "DISPATCHED": 2, "FAILED": 3}, NOW - timedelta(hours=25))
    plain = {"PLANNED": 0, "CONFIRMATION_REQUESTED": 1, "CONFIRMED": 300, "ACCESS_ALLOWED": 301}
    steps(1, {**plain, "DISPATCHED": 301.5, "SUCCEEDED": 302}, NOW - timedelta(hours=3))
    steps(2, {**plain, "REFUSED": 305}, NOW - timedelta(hours=2))
    retried = {"DISPATCHED": 302, "FAILED": 303, "RETRIED": 400, "SUCCEEDED 2": 402}
    steps(3, {**plain, **retried}, NOW - timedelta(hours=1))
    with world.store.reading() as connection:
        found = own_dispatch_times(connection, ("acme",), NOW)
    assert [round(each / 1_000) for each in found] == [1, 4, 2, 2]
    own = OwnGoals(Rate(1, 4), found).figures()
    assert own == {
        "agent_dispatch_p95_ms": max(found),
        "agent_dispatch_p99_ms": max(found),
        "execution_error_rate": 0.25,
    }


def ended(world: World, event: str, at: datetime, tenant_id: str = "acme", **more: str) -> None:
    """A step that came to its end at this time, and all that led there."""
    world.clock.now = at - timedelta(milliseconds=1)  # it moves by one when it is looked at
    number = next(NUMBERS)
    before = ("PLANNED", "ACCESS_ALLOWED") if event in {"REFUSED", "DISPATCHED"} else _DISPATCHED
    for each in (*before, event):
        row = StepRow(
            event_id=f"{number}-{each}",
            correlation_id=f"corr-{number}",
            plan_id=f"plan-{number}",
            step_id="step-1",
            event=each,
            idempotency_key=f"key-{number}",
            **(more if each == event else {}),
        )
        world.ledger.transact(partial(append_step, tenant_id=tenant_id, row=row))


_DISPATCHED = ("PLANNED", "ACCESS_ALLOWED", "DISPATCHED")
NUMBERS = itertools.count()


@pytest.mark.req("AC-26")
def test_the_error_rate_is_of_the_last_24_hours_of_the_named_tenants(world: World) -> None:
    with world.store.reading() as connection:
        assert rolling_error_rate(connection, ("acme",), NOW) == Rate(0, 0)
    ended(world, "FAILED", NOW - timedelta(days=3))
    for hours in (23, 12, 1):
        ended(world, "SUCCEEDED", NOW - timedelta(hours=hours))
    ended(world, "FAILED", NOW - timedelta(minutes=30))
    ended(world, "FAILED", NOW - timedelta(minutes=20), tenant_id="globex")
    last = world.store
    with last.reading() as connection:
        times = [
            datetime.fromisoformat(row[0])
            for row in connection.rows(
                "SELECT created_at FROM agent_execution_ledger WHERE event = 'FAILED' AND tenant_id = 'acme' ORDER BY 1"
            )
        ]
        assert rolling_error_rate(connection, ("acme",), NOW) == Rate(1, 4)
        assert rolling_error_rate(connection, ("acme", "globex", "acme"), NOW) == Rate(2, 5)
        assert rolling_error_rate(connection, (), NOW) == Rate(0, 0)
        a_day, moment = timedelta(hours=24), timedelta(microseconds=1)
        failed = times[-1]
        assert rolling_error_rate(connection, ("acme",), failed).count == 1
        assert rolling_error_rate(connection, ("acme",), failed - moment).count == 0
        assert rolling_error_rate(connection, ("acme",), failed + a_day - moment).count == 1
        assert rolling_error_rate(connection, ("acme",), failed + a_day).count == 0
