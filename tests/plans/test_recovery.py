"""kill -9 at every point of the host: the tree is as before or as after, and the ledger says which."""

import json
from pathlib import Path

import pytest

from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from tests.plans.project import Project, create, delete, plan_of, ran, rename, replace
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.sampling import some

APPLY = """
import sys
from remit.core.errors import Reason
from tests.support.child_process import acknowledge
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    acknowledge(workspace.apply(open(sys.argv[2], "rb").read()).status.signature)
"""
ROLL_BACK = """
import sys
from remit.core.errors import Reason
from tests.support.child_process import acknowledge
from remit.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]) as workspace:
    acknowledge(workspace.rollback("last").signature)
"""
KILL_AT_STEP = """
import os, signal, sys
from remit.workspace.workspace import Workspace
def die(done, total):
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
with Workspace.open(sys.argv[1]) as workspace:
    workspace.apply(open(sys.argv[2], "rb").read(), on_progress=die)
"""
BEFORE_INTENT = [
    "backup.folder_made",
    "backup.copied",
    "backup.manifest_written",
    "road.checkpoint_made",
]
BACK = ["road.intent_recorded", "plan.folders_made"]
CLEARING = ["plan.clearing", "plan.cleared_one", "plan.cleared"]
CLEARING_BACK = ["rollback.clearing", "plan.cleared_one", "plan.cleared", "plan.folders_removed"]
ROLLED = ["road.effect_done", "road.published", *CLEARING_BACK]
FORWARD = ["road.effect_done", "plan.published", "road.published", *CLEARING]

Tree = dict[str, tuple[bytes, int, int] | None]


def edits() -> bytes:
    return plan_of(
        create("make", "new/made.txt"),
        replace("edit", "edited.txt"),
        delete("drop", "gone.txt"),
        rename("move", "old.txt", "moved.txt"),
    )


def chain() -> bytes:
    """Several waves on one file; another one is deleted and made again with the very same bytes."""
    return plan_of(
        create("a", "x.txt", "one\n"),
        replace("b", "x.txt", "one", "two"),
        rename("c", "x.txt", "y.txt"),
        replace("d", "y.txt", "two", "three"),
        delete("e", "same.txt"),
        create("f", "same.txt", "same\n"),
    )


def seed(project: Project) -> None:
    for name in ("edited.txt", "gone.txt", "old.txt"):
        project.write(name)
    project.write("same.txt", "same\n")


def without_times(tree: Tree) -> dict[str, tuple[bytes, int] | None]:
    return {name: found and found[:2] for name, found in tree.items()}


def after_of(tmp_path: Path, plan: bytes) -> dict[str, tuple[bytes, int] | None]:
    """What the plan makes of a project of its own."""
    folder = tmp_path / "undisturbed"
    folder.mkdir()
    other = Project(folder)
    seed(other)
    assert other.apply(plan).status.status == "SUCCESS"
    tree = without_times(other.tree())
    other.close()
    return tree


def killed(project: Project, tmp_path: Path, plan: bytes, fault: Fault, *, script: str = APPLY) -> bytes:
    """Approve, apply in a process that is killed at that point; the envelope."""
    envelope = project.approve(plan).canonical()
    kept = tmp_path / "envelope.json"
    kept.write_bytes(envelope)
    command = [preloaded.python(), "-c", script, str(project.root), str(kept)]
    ended = run_child(command, fault=fault, environment=project.environ)
    assert ended.killed, ended
    return envelope


def recovered(project: Project) -> PlanOutcome | None:
    reports = project.workspace.recover()
    assert all(report.problem is None for report in reports), [str(report.problem) for report in reports]
    assert project.workspace.verify_ledger().holds
    assert not list(project.root.rglob(".remit-*"))
    assert project.workspace.recover() == []
    outcomes = [report.outcome for report in reports]
    return ran(outcomes[0]) if outcomes else None  # type: ignore[arg-type]


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", BEFORE_INTENT)
def test_before_the_intent_nothing_has_happened(project: Project, tmp_path: Path, point: str) -> None:
    seed(project)
    before = project.tree()
    envelope = killed(project, tmp_path, edits(), Fault(point))
    assert project.tree() == before
    assert recovered(project) is None
    assert ran(project.workspace.apply(envelope)).status.status == "SUCCESS"


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", some(BACK, 2))
def test_a_plan_that_had_not_taken_effect_is_undone(project: Project, tmp_path: Path, point: str) -> None:
    seed(project)
    before = project.tree()
    envelope = killed(project, tmp_path, edits(), Fault(point))
    outcome = recovered(project)
    assert outcome is not None
    assert (outcome.status.status, outcome.report.rollback_performed) == ("ROLLED_BACK", True)
    assert outcome.manifest is not None
    assert outcome.manifest.status == "EXECUTED"
    assert project.tree() == before
    assert ran(project.workspace.apply(envelope)) == outcome, "an outcome is for ever"


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", some(FORWARD, 2))
@pytest.mark.parametrize("plan", [edits(), chain()], ids=["one wave", "several waves"])
def test_a_plan_whose_changes_were_all_switched_is_finished(
    project: Project, tmp_path: Path, point: str, plan: bytes
) -> None:
    seed(project)
    wanted = after_of(tmp_path, plan)
    envelope = killed(project, tmp_path, plan, Fault(point))
    outcome = recovered(project)
    assert outcome is not None
    assert outcome.status.status == "SUCCESS"
    assert without_times(project.tree()) == wanted
    papers = json.loads((project.report_folder(outcome) / "execution_report.json").read_text())
    assert papers == outcome.report.tree()
    assert ran(project.workspace.apply(envelope)) == outcome


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("occurrence", [1, 2, 3, 4])
def test_a_plan_killed_between_two_waves_is_undone(project: Project, tmp_path: Path, occurrence: int) -> None:
    seed(project)
    before = project.tree()
    killed(project, tmp_path, chain(), Fault("road.noted", occurrence))
    outcome = recovered(project)
    assert outcome is not None
    assert outcome.status.status == "ROLLED_BACK"
    assert project.tree() == before


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_plan_killed_while_its_steps_are_switched_is_finished_or_undone(
    project: Project, tmp_path: Path, step: int
) -> None:
    seed(project)
    before, wanted = project.tree(), after_of(tmp_path, edits())
    kept = tmp_path / "envelope.json"
    kept.write_bytes(project.approve(edits()).canonical())
    command = [preloaded.python(), "-c", KILL_AT_STEP, str(project.root), str(kept), str(step)]
    assert run_child(command, environment=project.environ).killed
    outcome = recovered(project)
    assert outcome is not None
    if outcome.status.status == "SUCCESS":
        assert without_times(project.tree()) == wanted
    else:
        assert (outcome.status.status, project.tree()) == ("ROLLED_BACK", before)


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point", some([*BACK, *FORWARD], 2))
def test_a_valid_envelope_continues_where_a_crash_stopped_it(project: Project, tmp_path: Path, point: str) -> None:
    seed(project)
    wanted = after_of(tmp_path, edits())
    envelope = killed(project, tmp_path, edits(), Fault(point))
    outcome = ran(project.workspace.apply(envelope))
    assert outcome.status.status == "SUCCESS"
    assert without_times(project.tree()) == wanted
    kinds = project.kinds()
    assert (kinds.count("plan.intent"), kinds.count("plan.outcome")) == (1, 1)


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("second", [Fault("road.settled"), Fault("road.noted", 6), Fault("road.noted", 9)], ids=str)
def test_a_repeated_apply_that_is_killed_too_leaves_the_original_files(
    project: Project, tmp_path: Path, second: Fault
) -> None:
    """What the first life noted of its waves must not be believed of the second: `same.txt` would be lost.

    The second one notes four waves as undone, then that it begins anew, then its own four waves.
    """
    seed(project)
    before = project.tree()
    envelope = tmp_path / "envelope.json"
    envelope.write_bytes(killed(project, tmp_path, chain(), Fault("road.noted", 4)))
    command = [preloaded.python(), "-c", APPLY, str(project.root), str(envelope)]
    ended = run_child(command, fault=second, environment=project.environ)
    assert ended.killed, ended
    outcome = recovered(project)
    assert outcome is not None
    assert outcome.status.status == "ROLLED_BACK"
    assert project.tree() == before


@pytest.mark.req("PX-28", "PX-11")
@pytest.mark.parametrize("point", ["road.noted", "plan.folders_removed"])
def test_a_plan_killed_while_it_is_undone_is_undone_by_recovery(project: Project, tmp_path: Path, point: str) -> None:
    """A rule does not hold, so all is taken back; and then the process dies, too."""
    seed(project)
    before = project.tree()
    rule = {"type": "file_exists", "path": "nowhere.txt"}
    plan = plan_of(replace("edit", "edited.txt"), create("make", "new/made.txt"), rules=[rule])
    envelope = killed(project, tmp_path, plan, Fault(point))
    outcome = recovered(project)
    assert outcome is not None
    assert outcome.status.status == "ROLLED_BACK"
    assert outcome.report.actions_summary.completed == 2
    assert [error.recovery_action for error in outcome.errors] == ["ROLLED_BACK"]
    assert project.tree() == before
    assert ran(project.workspace.apply(envelope)) == outcome


@pytest.mark.req("PX-28", "PX-15")
@pytest.mark.parametrize("point", some(["road.intent_recorded", *ROLLED], 2))
def test_a_killed_rollback_leaves_all_files_rolled_back_or_none(project: Project, tmp_path: Path, point: str) -> None:
    seed(project)
    before = project.tree()
    project.apply(edits())
    after = project.tree()
    ended = run_child(
        [preloaded.python(), "-c", ROLL_BACK, str(project.root)], fault=Fault(point), environment=project.environ
    )
    assert ended.killed, ended
    (report,) = project.workspace.recover()
    assert report.problem is None, str(report.problem)
    assert isinstance(report.outcome, RollbackOutcome)
    is_back = report.outcome.status == "EXECUTED"
    assert is_back == (point in ROLLED)
    assert project.tree() == (before if is_back else after)
    assert not list(project.root.rglob(".remit-*"))
    assert project.workspace.rollback("last").status == "EXECUTED"
    assert project.tree() == before
