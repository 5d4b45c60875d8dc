"""What a preview, a refusal and a rollback say in the corner cases: nothing to do, doomed, skipped, not touched."""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import click
import pytest

from remit.cli.plans.allow_options import repeat_command
from remit.cli.plans.render import render_outcome, render_preview
from remit.contracts.plans.report import SkippedAction
from tests.cli.conftest import Remit, approve
from tests.cli.test_plan_commands import BEFORE, applied, change_env, create, project, put, update
from tests.cli.test_plan_views import ended, error, previewed, text
from tests.cli.test_refusals import failing_in_part, given_command
from tests.cli.test_runs import completed, envelope_of

__all__ = ["project"]

MISSING = error(2001, "FILE_NOT_FOUND", "there is no such file", action_id="a1", target="x")
BLOCKED = error(2001, "DEPENDENCY_FAILED", "needs a1", action_id="a2") | {
    "error_code": 4003,
    "error_category": "DEPENDENCY_ERROR",
}
ENDS: dict[str, dict[str, Any]] = {
    "ready": {},
    "no-op": {"files": [], "undo": ""},
    "doomed": {"problems": [MISSING], "status": "WOULD_FAIL", "doomed": True, "would_end": "FAILED", "files": []},
    "back": {"problems": [MISSING], "status": "WOULD_FAIL", "would_end": "ROLLED_BACK"},
    "partial": {"problems": [MISSING], "status": "WOULD_FAIL", "would_end": "PARTIAL"},
}


def test_every_preview_can_be_shown_with_and_without_diffs(subtests: pytest.Subtests) -> None:
    for end, most, idle in list(product(ENDS, (0, 40, None), ((), ("a7",), ("a7", "a8")))):
        with subtests.test(end):
            shown = text(render_preview(previewed(**ENDS[end]), max_lines=most, idle=idle))
            first = shown.splitlines()[0]
            assert ("nothing would be changed" in first) == (end in {"doomed", "back"})
            assert ("nothing to change" in first) == (end == "no-op")
            assert ("can be undone" in shown) == (end in {"ready", "partial"})
            assert ("a7 changes nothing" in shown) == (len(idle) == 1)
            assert ("a7, a8 change nothing" in shown) == (len(idle) == 2)
            assert shown.count("there is no such file") == ("problems" in ENDS[end])


def test_a_plan_that_would_change_nothing_names_its_failure_first() -> None:
    lines = text(render_preview(previewed(**ENDS["back"]))).splitlines()
    assert lines[0] == "Plan plan-1: nothing would be changed"
    assert lines[1] == "  problem   a1 x: 2001 FILE_NOT_FOUND, there is no such file"


def test_an_action_that_would_only_be_skipped_is_not_reported_as_a_failure() -> None:
    shown = text(render_preview(previewed(problems=[MISSING, BLOCKED], status="WOULD_FAIL", would_end="PARTIAL")))
    assert "  skipped   a2: needs a1\n" in shown
    assert shown.count("problem ") == 1
    skipped = [{"action_id": "a2", "reason": "Dependency a1 failed"}]
    failed = ended("PARTIAL", errors=[MISSING, BLOCKED])
    report = failed.report.model_copy(
        update={"actions_skipped": tuple(SkippedAction.from_tree(each) for each in skipped)}
    )
    after = text(render_outcome(failed.model_copy(update={"report": report})))
    assert after.count("a2") == 1


def test_many_actions_skipped_for_one_reason_are_a_number() -> None:
    outcome = ended("CANCELLED")
    many = tuple(SkippedAction(action_id=f"b{number}", reason="Cancelled") for number in range(30))
    one = SkippedAction(action_id="c1", reason="Dependency b1 failed")
    report = outcome.report.model_copy(update={"actions_skipped": (*many, one)})
    shown = text(render_outcome(outcome.model_copy(update={"report": report})))
    assert '  skipped   30 actions: Cancelled\n  skipped   "c1": its dependency "b1" failed\n' in shown


def test_a_change_of_mode_is_listed() -> None:
    opened = previewed(file={"mode_before": "0600", "mode_after": "0644"})
    assert "a1: change x, mode 0600 -> 0644  +1  -2\n" in text(render_preview(opened, max_lines=0))
    assert "a1: change x, mode 0600 -> 0644\n@@" in text(render_preview(opened))
    same = previewed(file={"mode_before": "0644", "mode_after": "0644"})
    assert "mode" not in text(render_preview(same))


@pytest.mark.parametrize("spelled", [["--allow-protected", "*.env"], ["--allow-protected=*.env"]])
def test_the_command_to_copy_leaves_out_options_that_are_of_no_use(spelled: list[str]) -> None:
    context = click.Context(click.Command("approve"), obj={"arguments": ["approve", "p.json", *spelled, "--json"]})
    with context:
        command = repeat_command("--allow-protected", ".env", without=[("protected", "*.env")])
    assert command == "remit approve p.json --json --allow-protected .env"


@pytest.mark.req("PX-06")
def test_a_pattern_is_rejected_and_the_suggested_command_works(remit: Remit, project: Path) -> None:
    told = approve(remit, put(project, change_env()), "-o", "envelope.json", "--allow-protected", "*.env")
    assert told.code == 2
    assert "not needed: *.env (protected) (patterns do not work; name each file)" in told.err
    assert remit(*given_command(told.err)).code == 0


def test_a_flag_that_cannot_help_is_reported_with_one_that_would(remit: Remit, project: Path) -> None:
    told = approve(remit, put(project, update(target="gone.json")), "--even-if-it-fails")
    assert told.code == 2
    assert "--even-if-it-fails cannot help here" in told.err
    assert '"stop_on_error": false' in told.err


def test_a_refusal_does_not_repeat_what_stands_above_it(remit: Remit, project: Path) -> None:
    told = remit("run", failing_in_part(project), "--yes")
    assert told.code == 2
    assert "does not exist" in told.out
    assert "does not exist" not in told.err


def test_the_rollback_of_a_plan_that_changed_nothing_does_nothing(remit: Remit, project: Path) -> None:
    plan = put(project, update(3))
    assert "a1 changes nothing" in remit("preview", plan, "--no-diff").out
    assert applied(remit, plan).code == 0
    name = envelope_of(project)
    told = remit("rollback", name)
    assert (told.code, told.out) == (0, "There is nothing to roll back: plan plan-1 changed nothing.\n")
    assert remit("rollback", name, "--json").document["status"] == "NOTHING"


def test_a_file_that_was_as_before_is_not_reported_as_restored(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update(), create("new.txt"))).code == 0
    (project / "settings.json").write_text(BEFORE)
    told = remit("rollback", "last")
    assert told.code == 0, told
    assert "2 checkpoints as before the plan, 1 of them was not touched\n" in told.out
    assert "  removed   new.txt\n  as before settings.json: not touched\n" in told.out


def test_a_rollback_in_part_ends_with_1_and_says_what_stays(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, create("new/file.txt"))).code == 0
    (project / "new/mine.txt").write_text("mine\n")
    told = remit("rollback", "last")
    assert told.code == 1, told
    assert told.out.startswith("PARTIAL  ")
    assert re.search(r"^  kept      new: .*is not empty", told.out, re.MULTILINE)
    assert "  not restored 1 checkpoint, see `kept` above: new\n" in told.out
    again = remit("rollback", "last")
    assert again.code == 1, again


def test_a_repeat_is_marked_for_programs(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    assert [remit("apply", "envelope.json", "--json").document["stored"] for _ in range(2)] == [False, True]
    assert [remit("rollback", "last", "--json").document["stored"] for _ in range(2)] == [False, True]


def test_an_unknown_name_leads_to_the_list_of_runs(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    for command in ("rollback", "cancel"):
        told = remit(command, "no-such-run")
        assert told.code == 2
        assert "`remit runs`" in told.err


def test_drift_by_a_later_plan_names_that_plan(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update(5))).code == 0
    first = envelope_of(project)
    assert applied(remit, put(project, update(6), plan_id="plan-2")).code == 0
    second = envelope_of(project)
    told = remit("rollback", first)
    assert told.code == 2
    assert f"Plan plan-2 changed it since. To roll back that plan first: remit rollback {second[-12:]}" in told.err


def test_a_shell_completes_what_can_be_cancelled(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    name = json.loads((project / "envelope.json").read_text())["envelope_id"]
    assert completed(remit, "remit cancel ") == [name]
    assert remit("apply", "envelope.json").code == 0
    assert completed(remit, "remit cancel ") == []
