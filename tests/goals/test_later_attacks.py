"""What was tried against the goal door later: rules that move on, claims that were edited, documents that are gone."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from remit.goals.access import cedar as access_engine
from remit.goals.access import policy as access
from remit.goals.simulation_executor import SimulationOperation
from tests.goals.goal_office import POLICY, TENANT, Office

NOBODY = '@id("closed")\nforbid (principal, action, resource);\n'


def edit(office: Office, sql: str, *values: Any) -> None:
    """By somebody who can write to the database and has no key. Triggers are no obstacle to him."""
    with closing(sqlite3.connect(next((office.folder / "state").rglob("*.sqlite3")))) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute(sql, values)
        database.commit()


def claims(office: Office) -> dict[str, tuple[str, str]]:
    """By correlation: the key of the dispatch, and its checkpoint."""
    with office.workspace.store.reading() as connection:
        rows = connection.rows("SELECT correlation_id, key, checkpoint FROM claims WHERE scope = 'simulation'")
        return {row[0]: (row[1], row[2]) for row in rows}


@pytest.mark.req("AC-14")
def test_an_edited_claim_makes_no_rollback_reverse_the_work_of_another_tenant(tmp_path: Path) -> None:
    more = '@id("g")\npermit (principal == User::"globex/mia", action == Action::"copy_form", resource);\n'
    office = Office(tmp_path, policy=POLICY + more)
    for simulation in ("copy-form", "undo-copy"):
        office.promote(simulation, "globex")
    theirs = office.done("copy the form as theirs", tenant="globex").goal.correlation_id
    ours = office.done("copy the form as ours").goal.correlation_id
    (key, mine), (_, other) = claims(office)[ours], claims(office)[theirs]
    swapped = {**json.loads(mine), "prepared": json.loads(other)["prepared"]}
    for forged in (json.dumps(swapped), other):
        edit(office, "UPDATE claims SET checkpoint = ? WHERE scope = 'simulation' AND key = ?", forged, key)
        asked = office.goals.rollback(ours, user="mia", tenant=TENANT)
        assert office.answer_or_refusal(asked) != "SIMULATION_SUCCEEDED"
    assert sorted(path.stem for path in office.base.iterdir()) == ["form", "ours", "theirs"]
    assert office.events(ours)[-1] == office.events(theirs, "globex")[-1] == "SUCCEEDED"
    office.close()


@pytest.mark.req("AC-07", "AC-21")
def test_a_root_that_is_a_link_and_moves_on_brings_its_own_rules(tmp_path: Path) -> None:
    """As programs are deployed: `current` leads to the next version."""
    office = Office(tmp_path, promoted=False)
    office.close()
    for version, policy in (("v1", POLICY), ("v2", NOBODY)):
        folder = office.root / version
        (folder / "notes").mkdir(parents=True)
        (folder / "notes/one.txt").write_text(version)
        (folder / "access.cedar").write_text(policy)
        shutil.copy(office.root / "simulations.json", folder)
    (office.root / "current").symlink_to("v1")
    office.write_config(root="current")
    office.workspace = office.opened()
    for simulation in ("undo-archive", "archive-note"):
        office.promote(simulation)
    asked = office.ask("archive the note one")
    assert asked.outcome.reason_code == "CONFIRMATION_REQUIRED"
    (office.root / "next").symlink_to("v2")
    (office.root / "next").rename(office.root / "current")
    assert office.answer_or_refusal(asked) == "ACCESS_SCOPE_VIOLATION"
    assert not list(office.root.rglob("archive/*"))
    office.close()


@pytest.mark.req("AC-07")
def test_what_changes_while_the_intent_waits_for_the_lock_counts(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look is in the transaction of the intent."""
    real = SimulationOperation.require_still_valid

    def close_the_door(self: SimulationOperation, *given: Any) -> None:
        real(self, *given)
        office.write_policy(NOBODY)

    asked = office.ask("archive the note one")
    with monkeypatch.context() as patched:
        patched.setattr(SimulationOperation, "require_still_valid", close_the_door)
        assert office.answer(asked).outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    assert office.archived() == []
    assert office.events(asked.goal.correlation_id)[-2:] == ["ACCESS_ALLOWED", "REFUSED"]
    assert all(each.agrees for each in office.goals.replay(asked.goal.correlation_id, tenant=TENANT))
    assert office.count("SELECT count(*) FROM claims") == 0


@pytest.mark.req("AC-15", "AC-16")
def test_a_lost_envelope_fails_the_replay_of_the_decision_that_made_it(desk: Office) -> None:
    done = desk.done("archive the note one").goal.correlation_id
    assert all(each.agrees for each in desk.goals.replay(done, tenant=TENANT))
    edit(desk, "DELETE FROM agent_documents WHERE kind = 'envelope'")
    told = [each for each in desk.goals.replay(done, tenant=TENANT) if not each.agrees]
    assert told
    assert all("is missing" in each.why for each in told)


def test_the_rules_are_made_once_for_as_long_as_they_stay(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    real = access_engine.compile_policies

    def compiled(snapshot: Any) -> Any:
        built.append("policies")
        return real(snapshot)

    monkeypatch.setattr(access, "compile_policies", compiled)
    for name in ("one", "two"):
        assert desk.done(f"archive the note {name}").outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert len(built) <= 1
    desk.write_policy(POLICY + "// and a remark\n")
    assert desk.done("archive the note three").outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert len(built) <= 2
    assert "policies" in built
