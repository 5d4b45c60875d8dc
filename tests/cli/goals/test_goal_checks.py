"""`remit doctor` says what the goal door lacks, and what to do about it."""

from pathlib import Path
from typing import NoReturn

import pytest

from remit.cli.doctor import inspect_goals
from remit.contracts.config.config import SystemConfig
from remit.core.ids import system_clock
from remit.diagnostics.check import Check
from remit.diagnostics.goals import FileFindings, check_goals
from tests.goals.goal_office import ARCHIVE, PING, UNDO_ARCHIVE, Office


def looked(office: Office) -> dict[str, Check]:
    return {check.name: check for check in inspect_goals(office.root, office.environ, system_clock)}


@pytest.mark.req("AC-20")
def test_doctor_counts_simulations_and_policies_and_names_a_broken_file(tmp_path: Path) -> None:
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


@pytest.mark.req("AC-20")
def test_a_promoted_simulation_that_cannot_be_used_any_more_is_reported_with_the_command(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.retire("ping")
    edited = {**ARCHIVE, "title": "Archive it"}
    office.write_catalogue(edited, UNDO_ARCHIVE, {**PING, "title": "Ping"}, {**PING, "id": "pong", "phrases": {}})
    office.write_policy('@id("pings") permit (principal, action == Action::"ping", resource);')
    found = looked(office)
    changed, gone = found["changed simulations"], found["missing simulations"]
    assert (changed.status, gone.status) == ("warn", "warn")
    assert changed.found.startswith("archive-note for acme: its file has changed since a person promoted it")
    assert changed.next_step.endswith("then: remit catalogue promote archive-note --tenant acme")
    assert gone.found.startswith("copy-form for acme, undo-copy for acme: promoted, but no longer in any file")
    assert gone.next_step.endswith("remit catalogue retire copy-form --tenant acme")
    assert found["active simulations"].found == "1 for acme, 0 for globex"
    office.promote("archive-note")
    for name in ("copy-form", "undo-copy"):
        office.retire(name)
    assert set(looked(office)) == {"catalogue", "access policies", "active simulations"}
    office.close()


@pytest.mark.req("AC-06")
def test_a_policy_that_names_an_unknown_simulation_is_reported_with_all_existing_ones(tmp_path: Path) -> None:
    office = Office(tmp_path)
    assert office.ask("are you there").outcome.reason_code != "ACCESS_SCOPE_VIOLATION"
    office.write_catalogue(ARCHIVE, UNDO_ARCHIVE, PING)
    policies = looked(office)["access policies"]
    assert policies.status == "fail"
    assert "the policy mia-archives names the action 'copy_form'" in policies.found
    assert "(access.cedar, line 5); and 1 more: remit catalogue check" in policies.found
    assert "The known simulations: archive-note (archive_note), ping (ping), undo-" in policies.next_step
    assert office.ask("are you there").outcome.reason_code == "ACCESS_SCOPE_VIOLATION", "until it is mended"
    office.close()


def test_where_nothing_is_set_up_it_says_how_to_begin() -> None:
    def never(*_: object) -> NoReturn:
        raise AssertionError

    (alone,) = check_goals(SystemConfig.from_tree({"version": 1}), lambda: FileFindings(0, 0), never, never)
    assert (alone.status, "goals: {catalogue" in alone.next_step) == ("absent", True)
    half = SystemConfig.from_tree({"version": 1, "goals": {"catalogue": ["a.json"]}})
    found = check_goals(half, lambda: FileFindings(1, 0), never, never)
    assert [check.status for check in found] == ["ok", "warn", "warn"]
    assert all(check.next_step for check in found if check.status != "ok")
