"""`remit doctor` says what the goal door lacks, and what to do about it."""

from pathlib import Path

import pytest

from remit.cli.doctor import look_at_goals
from remit.contracts.config import SystemConfig
from remit.ids import system_clock
from remit.observe.check import Check
from remit.observe.goal_checks import Found, check_goals
from tests.goals.office import Office


def looked(office: Office) -> dict[str, Check]:
    return {check.name: check for check in look_at_goals(office.root, office.environ, system_clock)}


@pytest.mark.req("AC-20")
def test_a_goal_door_that_works_says_how_much_there_is(tmp_path: Path) -> None:
    office = Office(tmp_path)
    found = looked(office)
    assert {name: (check.status, check.found) for name, check in found.items()} == {
        "catalogue": ("ok", "5 simulations in 1 file"),
        "access policies": ("ok", "1 file, valid"),
        "active simulations": ("ok", "5 for acme, 0 for globex"),
    }
    for simulation in ("archive-note", "undo-archive", "ping", "copy-form", "undo-copy"):
        office.retire(simulation)
    assert looked(office)["active simulations"].status == "warn"
    office.write_policy("permit (nobody);")
    assert looked(office)["access policies"].status == "fail"
    (office.root / "simulations.json").write_text('{"version": 1, "simulations": [{"id": "x"}]}')
    broken = looked(office)
    assert set(broken) == {"catalogue"}
    assert broken["catalogue"].status == "fail"
    assert "simulations.json" in broken["catalogue"].found
    assert broken["catalogue"].next_step
    office.close()


def test_where_nothing_is_set_up_it_says_how_to_begin() -> None:
    def never(*_: object) -> int:
        raise AssertionError

    (alone,) = check_goals(SystemConfig.from_tree({"version": 1}), lambda: Found(0, 0), never, never)
    assert (alone.status, "goals: {catalogue" in alone.next_step) == ("absent", True)
    half = SystemConfig.from_tree({"version": 1, "goals": {"catalogue": ["a.json"]}})
    found = check_goals(half, lambda: Found(1, 0), never, never)
    assert [check.status for check in found] == ["ok", "warn", "warn"]
    assert all(check.next_step for check in found if check.status != "ok")
