"""A waiver has an owner, a limit and an end; outside of them it waives nothing."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.config.config import SystemConfig
from remit.contracts.goals.slo import NEVER_WAIVED, WAIVERS_NAME, SloWaiver, SloWaivers
from remit.core.errors import RefusedError
from remit.execution.protected_paths import is_forbidden
from remit.goals.slo import FigureVerdict, Measured, Rate, judge, read_waivers

NOW = datetime(2026, 5, 10, 23, 59, tzinfo=UTC)
WAIVER = {
    "figure": "agent_dispatch_p95_ms",
    "limit": 1500,
    "approved_by": "Ann Builder",
    "reason": "the new disks come on Monday",
    "issued": "2026-05-01",
    "ends": "2026-05-10",
}
SLOW = Measured([1_400.0] * 100, [Rate(0, 100)], Rate(0, 100))


def judged(measured: Measured = SLOW, now: datetime = NOW, **changes: Any) -> FigureVerdict:
    waiver = SloWaiver.from_tree({**WAIVER, **changes})
    return next(each for each in judge(measured, (waiver,), now) if each.verdict != "PASS")


@pytest.mark.req("AC-17", "AC-26")
def test_a_breach_within_a_waiver_is_let_pass_and_said() -> None:
    verdict = judged()
    assert verdict.verdict == "WAIVED"
    assert not verdict.blocks
    assert "Ann Builder" in verdict.why
    assert "2026-05-10" in verdict.why


@pytest.mark.req("AC-17", "AC-26")
def test_a_waiver_that_ended_or_names_another_figure_or_a_lower_limit_waives_nothing() -> None:
    assert judged(now=NOW + timedelta(minutes=1)).verdict == "BREACH"
    assert "ended on 2026-05-10" in judged(now=NOW + timedelta(minutes=1)).why
    assert judged(now=datetime(2026, 4, 30, 23, 59, tzinfo=UTC)).verdict == "BREACH"
    assert judged(limit=1_399.9).verdict == "BREACH"
    assert judged(limit=1_400).verdict == "WAIVED"
    assert judged(figure="agent_dispatch_p99_ms").verdict == "BREACH"
    assert judged(figure="execution_error_rate", limit=0.5).verdict == "BREACH"


def test_one_of_several_waivers_is_enough() -> None:
    old = SloWaiver.from_tree({**WAIVER, "issued": "2026-01-01", "ends": "2026-01-02"})
    verdicts = judge(SLOW, (old, SloWaiver.from_tree(WAIVER), old), NOW)
    assert verdicts[0].verdict == "WAIVED"
    assert judge(SLOW, (old, old), NOW)[0].verdict == "BREACH"


@pytest.mark.req("AC-17")
def test_what_is_no_waiver_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        {"figure": NEVER_WAIVED},
        {"figure": "something_else"},
        {"approved_by": ""},
        {"approved_by": "   "},
        {"approved_by": "Ann\nBuilder"},
        {"reason": ""},
        {"limit": -1},
        {"limit": "1500"},
        {"limit": True},
        {"ends": "2026-07-31"},  # 91 days
        {"ends": "2026-04-30"},  # before it was issued
        {"ends": "2026-02-30"},
        {"ends": "2026-05-10T00:00:00Z"},
        {"ends": None},
        {"more": 1},
    ]
    for changes in cases:
        with subtests.test(changes=changes), pytest.raises(RefusedError):
            SloWaivers.from_tree({"version": 1, "waivers": [{**WAIVER, **changes}]})


def test_the_limit_of_a_rate_is_a_fraction_and_the_refusal_says_how_to_write_it() -> None:
    rate = {**WAIVER, "figure": "execution_error_rate"}
    assert SloWaiver.from_tree({**rate, "limit": 0.05}).limit == 0.05
    assert SloWaiver.from_tree({**rate, "limit": 1}).limit == 1
    with pytest.raises(RefusedError, match=r"a fraction between 0 and 1, and not 5\. For 5 % write 0\.05"):
        SloWaiver.from_tree({**rate, "limit": 5})


def test_a_waiver_may_last_90_days_and_needs_every_field() -> None:
    assert SloWaiver.from_tree({**WAIVER, "ends": "2026-07-30"}).ends == "2026-07-30"
    for name in WAIVER:
        with pytest.raises(RefusedError):
            SloWaiver.from_tree({key: value for key, value in WAIVER.items() if key != name})


@pytest.mark.req("AC-17")
def test_a_duplicate_effect_cannot_be_waived_even_by_a_waiver_that_was_made_past_the_contract() -> None:
    forged = SloWaiver.from_tree(WAIVER).model_copy(update={"figure": NEVER_WAIVED, "limit": 1.0})
    twice = Measured([1.0], [Rate(0, 1)], Rate(1, 100))
    (verdict,) = [each for each in judge(twice, (forged,), NOW) if each.figure == NEVER_WAIVED]
    assert verdict.verdict == "BREACH"
    assert "cannot be waived" in verdict.why


def test_the_file_is_yaml_and_is_read_whole_or_refused(tmp_path: Path) -> None:
    file = tmp_path / WAIVERS_NAME
    lines = "\n    ".join(f"{name}: {json.dumps(value)}" for name, value in WAIVER.items())
    file.write_text(f"version: 1\nwaivers:\n  - \n    {lines}\n")
    assert read_waivers(file) == (SloWaiver.from_tree(WAIVER),)
    file.write_text("version: 1\nwaivers: []\nwhat: 1\n")
    with pytest.raises(RefusedError):
        read_waivers(file)
    with pytest.raises(RefusedError):
        read_waivers(tmp_path / "gone.yaml")
    with pytest.raises(RefusedError):
        read_waivers(tmp_path)


def test_no_plan_of_an_agent_can_write_a_waiver() -> None:
    config = SystemConfig.from_tree({"version": 1})
    assert "no plan may change it" in is_forbidden(WAIVERS_NAME, config)
    assert "no plan may change it" in is_forbidden("below/SLO_Waivers.YAML", config)
    assert is_forbidden("slo_waivers.txt", config) == ""
