"""A plan that somebody closed as it was: nobody may read that nothing happened, and all that is left is named."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.core.errors import RefusedError
from remit.execution.recovery import Recovered
from remit.plans.apply.abandoned import is_of_unknown_effect
from tests.plans.project import Project, plan_of, replace
from tests.plans.test_errors import stuck
from tests.support.task_workspace import MovableClock


def abandon(project: Project) -> PlanOutcome:
    envelope_id = json.loads(stuck(project))["envelope_id"]
    (report,) = project.workspace.recover(abandoned=[envelope_id])
    assert report.unknown
    assert isinstance(report.outcome, PlanOutcome)
    return report.outcome


@pytest.mark.req("PX-35")
def test_its_report_says_unknown_and_names_the_leftover_files_and_the_backups(project: Project) -> None:
    outcome = abandon(project)
    assert is_of_unknown_effect(outcome.report)
    first, *left = outcome.report.warnings
    assert first.startswith("Unknown effect")
    assert outcome.status.folder in first
    assert {"rollback_manifest.json", "rollback.py"} <= set(first.replace(",", " ").split())
    parts = sorted(str(file.relative_to(project.root)) for file in project.root.rglob(".remit-*.part"))
    assert parts, "something is left, or this shows nothing"
    named = [warning.split()[2].rstrip(",") for warning in left if warning.startswith("Left over: ")]
    assert sorted(named) == parts
    assert any(warning.endswith("the old content of a.txt") for warning in left)


@pytest.mark.req("PX-35")
def test_its_reports_are_written_with_the_backups_beside_them(project: Project) -> None:
    outcome = abandon(project)
    folder = project.report_folder(outcome)
    written = json.loads((folder / "execution_report.json").read_text())
    assert written == outcome.report.tree()
    assert json.loads((folder / "status.json").read_text()) == outcome.status.tree()
    assert (folder / "rollback.py").exists()
    manifest = json.loads((folder / "rollback_manifest.json").read_text())
    assert manifest["status"] == "ACTIVE"
    assert len(manifest["checkpoints"]) == len(list((folder / "backups").iterdir())) == 2


@pytest.mark.req("PX-35")
def test_a_rollback_of_it_says_what_to_do_instead_and_last_is_the_one_before(project: Project) -> None:
    project.write("c.txt", before := "one\ntwo\nthree\n")
    good = project.apply(plan_of(replace("c", "c.txt")))
    outcome = abandon(project)
    with pytest.raises(RefusedError, match="this run was abandoned") as caught:
        project.workspace.rollback(outcome.status.envelope_id)
    assert f"{outcome.status.folder}/rollback.py" in caught.value.next_step
    taken = project.workspace.rollback("last")
    assert (taken.envelope_id, taken.status) == (good.status.envelope_id, "EXECUTED")
    assert project.read("c.txt") == before
    assert project.workspace.rollback("last") == taken, "and not the run before it"


@pytest.mark.req("PX-35")
def test_its_backups_can_be_pruned_when_their_time_is_over(project: Project, clock: MovableClock) -> None:
    outcome = abandon(project)
    assert project.workspace.prune(dry_run=True) == []
    clock.offset += timedelta(days=400)
    (found,) = project.workspace.prune(dry_run=True)
    assert outcome.status.folder.endswith(found.folder)
    assert found.what == "backups"


def test_a_second_attempt_does_not_change_when_it_was_begun(project: Project, clock: MovableClock) -> None:
    stuck(project)
    (first,) = project.workspace.recover()
    clock.offset += timedelta(hours=1)
    (second,) = project.workspace.recover()
    assert second.problem is not None
    assert second.began_at == first.began_at


@pytest.mark.parametrize("next_call", ["apply", "rollback"])
def test_the_next_call_tells_what_it_settled_first(project: Project, next_call: str) -> None:
    project.write("c.txt")
    good = project.apply(plan_of(replace("c", "c.txt")))
    key = json.loads(stuck(project))["envelope_id"]
    (aside,) = project.root.glob(".remit-*")
    aside.replace(project.root / "a.txt")  # mended by hand
    again = project.opened()
    told: list[str] = []

    def on_settled(reports: Sequence[Recovered[Any]]) -> None:
        told.extend(report.key for report in reports)

    if next_call == "apply":
        project.write("d.txt")
        again.apply(again.approve(plan_of(replace("d", "d.txt"))).canonical(), on_settled=on_settled)
    else:
        again.rollback(good.status.envelope_id, on_settled=on_settled)
    assert told == [key]
    again.rollback("last", on_settled=on_settled)
    assert told == [key], "once"
    again.close()
