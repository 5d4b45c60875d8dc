"""Cancelled: by the caller, by a command in another process, by an interrupt. Everything is as before."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from remit.authority.envelope import ApprovedPlan
from remit.contracts.plans.outcome import PlanRefusal
from remit.core.errors import RefusedError
from remit.execution.engine import Preview
from remit.plans.operation import PlanOperation
from tests.plans.project import Project, at_phase, create, plan_of, ran, refused, replace

pytestmark = pytest.mark.req("PX-13")


def waves(count: int = 6) -> bytes:
    """Each on the file of the one before it: one wave each."""
    return plan_of(
        create("a0", "a.txt", "0\n"), *(replace(f"a{n}", "a.txt", f"{n - 1}", f"{n}") for n in range(1, count))
    )


def test_a_plan_cancelled_by_its_caller_while_it_runs_is_undone(project: Project) -> None:
    asked = threading.Event()
    project.write("keep.txt")
    before = project.tree()
    envelope = project.approve(waves()).canonical()

    def on_progress(done: int, _total: int) -> None:
        if done == 3:
            asked.set()

    outcome = ran(project.workspace.apply(envelope, on_progress=on_progress, is_cancelled=asked.is_set))
    assert outcome.status.status == outcome.report.status == "CANCELLED"
    assert 0 < outcome.report.actions_summary.completed < 6
    assert outcome.report.rollback_performed
    assert {skipped.reason for skipped in outcome.report.actions_skipped} <= {"Cancelled"}
    assert [error.error_code for error in outcome.errors] == [5006]
    assert project.tree() == before
    assert ran(project.workspace.apply(envelope)) == outcome


def test_a_cancel_before_the_first_switch_changes_nothing(project: Project) -> None:
    asked = threading.Event()
    envelope = project.approve(plan_of(create("a", "new/a.txt"))).canonical()
    before = project.tree()
    on_status = at_phase("RUNNING", asked.set)
    outcome = ran(project.workspace.apply(envelope, on_status=on_status, is_cancelled=asked.is_set))
    assert (outcome.status.status, outcome.report.rollback_performed) == ("CANCELLED", False)
    assert project.tree() == before


@pytest.mark.parametrize("phase", ["CHECKING", "CHECKPOINT"])
def test_a_cancel_by_the_caller_before_anything_is_begun_leaves_the_approval_unused(
    project: Project, phase: str
) -> None:
    asked = threading.Event()
    project.write("a.txt")
    envelope = project.approve(plan_of(replace("a", "a.txt"))).canonical()
    before = project.tree()
    outcome = project.workspace.apply(envelope, on_status=at_phase(phase, asked.set), is_cancelled=asked.is_set)
    assert refused(outcome)[0] == 5006
    assert isinstance(outcome, PlanRefusal)
    assert outcome.status == "CANCELLED"
    assert "before anything was changed" in outcome.errors[0].message
    assert "The approval was not used" in outcome.errors[0].message
    assert project.tree() == before
    assert_nothing_was_begun(project)
    assert ran(project.workspace.apply(envelope)).status.status == "SUCCESS", "the approval was not used up"


@pytest.mark.parametrize("phase", ["CHECKPOINT"])
def test_a_cancel_by_command_before_anything_is_begun_cancels_the_approval_too(project: Project, phase: str) -> None:
    """It comes while the plan is on its way, so whoever applies it is told that it was cancelled meanwhile."""
    envelope = project.approve(plan_of(create("a", "a.txt")))
    answered: list[object] = []

    def cancel() -> None:
        answered.append(project.workspace.cancel(envelope.envelope_id))

    outcome = project.workspace.apply(envelope.canonical(), on_status=at_phase(phase, cancel))
    assert isinstance(outcome, PlanRefusal)
    assert (outcome.status, refused(outcome)[0], answered) == ("CANCELLED", 5006, [None])
    assert "its approval was cancelled too" in outcome.errors[0].message
    assert_nothing_was_begun(project)
    again = project.workspace.apply(envelope.canonical())
    assert isinstance(again, PlanRefusal)
    assert (again.status, refused(again)[0]) == ("REFUSED", 1002)


def test_a_cancel_by_command_just_before_the_intent_stops_the_plan(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cancels before the intent stands is told that the plan will not run; and so it does not."""
    envelope = project.approve(plan_of(create("a", "a.txt")))
    answered: list[object] = []
    at_checkpoint = PlanOperation.checkpoint

    def then_cancel(self: PlanOperation, granted: ApprovedPlan, preview: Preview) -> str:
        made = at_checkpoint(self, granted, preview)
        answered.append(project.workspace.cancel(envelope.envelope_id))
        return made

    monkeypatch.setattr(PlanOperation, "checkpoint", then_cancel)
    outcome = ran(project.workspace.apply(envelope.canonical()))
    assert (outcome.status.status, answered) == ("CANCELLED", [None])
    assert not (project.root / "a.txt").exists()


def assert_nothing_was_begun(project: Project) -> None:
    assert "plan.intent" not in project.kinds()
    reports = project.root / "agent_outputs/reports"
    assert not reports.exists() or not list(reports.iterdir())


def test_a_cancel_makes_an_unused_envelope_void(project: Project) -> None:
    envelope = project.approve(plan_of(create("a", "a.txt")))
    assert project.workspace.cancel(envelope.envelope_id) is None
    assert refused(project.workspace.apply(envelope.canonical()))[0] == 1002
    assert not (project.root / "a.txt").exists()
    assert "envelope.cancelled" in project.kinds()


def test_a_cancel_of_a_plan_that_has_run_returns_its_outcome(project: Project) -> None:
    envelope = project.approve(plan_of(create("a", "a.txt")))
    outcome = ran(project.workspace.apply(envelope.canonical()))
    assert project.workspace.cancel(envelope.envelope_id) == outcome
    assert "envelope.cancelled" not in project.kinds()


def test_a_cancel_of_an_unknown_envelope_is_refused(project: Project) -> None:
    with pytest.raises(RefusedError, match="no envelope with this id"):
        project.workspace.cancel("nobody knows it")


def test_another_workspace_can_cancel_a_running_plan_and_gets_its_outcome(project: Project) -> None:
    """The one that cancels has a workspace of its own, and waits for the end."""
    envelope = project.approve(waves(40))
    answered: list[object] = []

    def cancel() -> None:
        with project.opened() as other:
            answered.append(other.cancel(envelope.envelope_id))

    canceller = threading.Thread(target=cancel)

    def on_progress(done: int, _total: int) -> None:
        if done == 1:
            canceller.start()
        time.sleep(0.05)

    before = project.tree()
    outcome = ran(project.workspace.apply(envelope.canonical(), on_progress=on_progress))
    canceller.join()
    assert outcome.status.status == "CANCELLED"
    assert answered == [outcome]
    assert project.tree() == before


INTERRUPTED = """
import os, signal, sys
from remit.workspace.workspace import Workspace
def interrupt(done, total):
    if done == 2:
        os.kill(os.getpid(), signal.SIGINT)
with Workspace.open(sys.argv[1]) as workspace:
    workspace.apply(open(sys.argv[2], "rb").read(), on_progress=interrupt)
"""


def test_an_interrupt_undoes_everything_and_still_ends_the_process(project: Project, tmp_path: Path) -> None:
    envelope = project.approve(waves()).canonical()
    kept = tmp_path / "envelope.json"
    kept.write_bytes(envelope)
    before = project.tree()
    command = [sys.executable, "-c", INTERRUPTED, str(project.root), str(kept)]
    done = subprocess.run(command, env=project.environ, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT, done.stderr
    assert project.tree() == before
    outcome = ran(project.workspace.apply(envelope))
    assert outcome.status.status == "CANCELLED"
