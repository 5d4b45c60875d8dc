"""`remit ask` for a goal with several steps: each answer names its step, and the end says what is left in the world."""

from typing import Any

import pytest

from tests.cli.goals.conftest import Shell
from tests.goals.composite.composites import COMPOSITE_POLICY, COMPOSITE_SIMULATIONS


@pytest.fixture
def office_parts() -> dict[str, Any]:
    return {"simulations": COMPOSITE_SIMULATIONS, "policy": COMPOSITE_POLICY}


@pytest.mark.req("AC-30", "AC-32")
def test_a_goal_with_several_steps_from_the_shell(shell_on_each_store: Shell) -> None:
    tidy = shell_on_each_store
    asked = tidy.ask_goal("tidy one and two", "g-1", "--confirm", "yes")
    assert (asked["waiting_for"], asked["steps"]["outcome"], tidy.office.archived()) == ("confirmation", "WAITING", [])
    [command] = asked["next"]
    step = asked["steps"]["waiting"]["step_id"]
    assert command[-4:] == ["--step", step, "--confirm", "ANSWER"]
    for wrong in ((), ("--step", "two")):  # the answer is for no step, or for one that does not wait
        unused = tidy("ask", "--continue", "g-1", "--confirm", "yes", *wrong)
        assert (unused.code, tidy.office.archived()) == (2, [])
        assert f"--step {step}" in unused.err
    second = tidy("ask", "--continue", "g-1", "--confirm", "yes", "--step", "one")
    assert (second.code, tidy.office.archived()) == (3, ["one"])
    assert "2. one: Archive a note" in second.out
    listed = tidy("ledger", "trace", "g-1", "--json").document
    assert (listed["holds"], listed["trace"]["facts"]["stands"]) == (True, "CONFIRMATION_REQUESTED")
    ended = tidy.ask("--continue", "g-1", "--confirm", "no", "--step", "two")
    assert (ended.code, ended.document["steps"]["outcome"]) == (1, "ABORTED_ROLLED_BACK")
    assert (tidy.office.archived(), tidy.office.notes()) == ([], ["one", "three", "two"])
    traced = tidy("ledger", "trace", "g-1", "--json")
    assert (traced.code, traced.document["holds"]) == (0, True)
    nodes = traced.document["trace"]["children"]
    assert [each["kind"] for each in nodes] == ["packet", "entry", "begin", "step", "step", "step", "outcome"]
    assert [each["facts"]["name"] for each in nodes if each["kind"] == "step"] == ["look", "one", "two"]
    archived = next(each for each in nodes if each["facts"].get("name") == "one")
    dispatches = [each for each in archived["children"] if each["kind"] == "dispatch"]
    assert [[child["facts"].get("kind") for child in each["children"]] for each in dispatches] == [
        ["simulation.intent", "simulation.outcome", None]
    ]
    assert archived["children"][-1]["kind"] == "step_rollback"
    replayed = tidy("ledger", "replay", "g-1", "--json").document
    assert replayed["agrees"]
    assert [each["step"] for each in replayed["decisions"] if each["event"] == "SUCCEEDED"] == [
        "look",
        "one",
        "rollback of one",
        "rollback of look",
    ]


@pytest.mark.req("AC-30", "AC-32")
def test_a_completed_goal_with_several_steps_is_rolled_back_from_the_shell(shell_on_each_store: Shell) -> None:
    tidy = shell_on_each_store
    tidy.ask_goal("tidy one and two", "g-1")
    assert tidy("ask", "--continue", "g-1", "--confirm", "yes", "--step", "one").code == 3
    done = tidy("ask", "--continue", "g-1", "--confirm", "yes", "--step", "two")
    assert (done.code, "undo:  remit ask --tenant acme --undo g-1" in done.out) == (0, True)
    kept = tidy("ask", "--undo", "g-1", "--confirm", "no")
    assert (kept.code, tidy.office.archived()) == (2, ["one"])
    assert "Nothing was rolled back." in kept.err
    assert tidy("recover").out.strip() == "Nothing was left unfinished."
    asked = tidy("ask", "--undo", "g-1")
    assert (asked.code, tidy("recover").out.strip()) == (3, "Nothing was left unfinished.")
    back = tidy.ask("--continue", "g-1", "--confirm", "yes", "--step", asked.out.split("--step ")[1].split()[0])
    assert (back.code, back.document["steps"]["outcome"], tidy.office.archived()) == (0, "ROLLED_BACK", [])
