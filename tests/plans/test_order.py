"""Dependencies: refused where they make no sense, else one order, in sequence or several at once."""

from typing import Any

import pytest

from remit.core.errors import Reason, RefusedError
from remit.plans.runtime.runner import StepRun
from tests.plans.project import Project, at_phase, create, delete, plan_of, ran, rename, replace


@pytest.mark.req("PX-08")
def test_a_cycle_is_named_before_anything_runs(project: Project) -> None:
    plan = plan_of(create("a", "a.txt", depends_on=["b"]), create("b", "b.txt", depends_on=["a"]))
    with pytest.raises(RefusedError, match="a -> b -> a") as caught:
        project.workspace.preview(plan)
    assert caught.value.reason is Reason.DEPENDENCY_INVALID


@pytest.mark.req("PX-08")
def test_an_unknown_dependency_is_refused(project: Project) -> None:
    with pytest.raises(RefusedError, match="which is not in the plan"):
        project.approve(plan_of(create("a", "a.txt", depends_on=["nobody"])))


@pytest.mark.req("PX-08")
@pytest.mark.parametrize("order", ["sequential", "parallel"])
def test_the_order_is_the_same_each_time(project: Project, order: str) -> None:
    plan = plan_of(
        create("d", "d.txt", depends_on=["c"]),
        create("c", "c.txt", depends_on=["a"]),
        create("b", "b.txt"),
        create("a", "a.txt"),
        execution_order=order,
    )
    outcome = project.apply(plan)
    assert [item.action_id for item in outcome.report.actions_completed] == ["b", "a", "c", "d"]


@pytest.mark.req("PX-08")
@pytest.mark.parametrize("order", ["sequential", "parallel"])
def test_actions_on_one_file_follow_each_other(project: Project, order: str) -> None:
    project.write("same.txt", "same\n")
    plan = plan_of(
        create("a", "x.txt", "one\n"),
        replace("b", "x.txt", "one", "two"),
        rename("c", "x.txt", "dir/y.txt"),
        replace("d", "dir/y.txt", "two", "three"),
        delete("e", "same.txt"),
        create("f", "same.txt", "same\n"),
        execution_order=order,
    )
    before = project.tree()
    outcome = project.apply(plan)
    assert outcome.status.status == "SUCCESS"
    assert project.read("dir/y.txt") == "three\n"
    assert not (project.root / "x.txt").exists()
    project.workspace.rollback("last")
    assert {name: found and found[:2] for name, found in project.tree().items()} == {
        name: found and found[:2] for name, found in before.items()
    }


@pytest.mark.req("PX-08", "PX-26")
def test_parallel_actions_run_at_the_same_time_and_at_most_four(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work, most = [0], [0]
    original = StepRun.run

    def counted(self: StepRun, *given: Any) -> Any:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        try:
            return original(self, *given)
        finally:
            at_work[0] -= 1

    monkeypatch.setattr(StepRun, "run", counted)
    for number in range(12):
        project.write(f"dir{number}/f.txt")
    actions = [replace(f"a{number}", f"dir{number}/f.txt") for number in range(12)]
    outcome = project.apply(plan_of(*actions, execution_order="parallel"))
    assert outcome.status.status == "SUCCESS"
    assert 1 < most[0] <= 4
    assert [item.action_id for item in outcome.report.actions_completed] == [f"a{number}" for number in range(12)]


@pytest.mark.req("PX-08", "PX-09")
def test_a_failure_in_one_parallel_action_undoes_all_of_them(project: Project) -> None:
    names = [f"dir{number}/f.txt" for number in range(8)]
    for name in names:
        project.write(name)
    actions = [replace(f"a{number}", name) for number, name in enumerate(names)]
    plan = plan_of(*actions, create("last", "last.txt", depends_on=["a3"]), execution_order="parallel")
    envelope = project.approve(plan).canonical()
    (victim,) = [project.root / names[3]]
    before = project.tree()
    del before[names[3]]
    outcome = ran(project.workspace.apply(envelope, on_status=at_phase("RUNNING", victim.unlink)))
    assert outcome.status.status in {"ROLLED_BACK", "FAILED"}
    assert [item.error_code for item in outcome.report.actions_failed] == [2001]
    assert project.tree() == before


@pytest.mark.req("PX-09")
def test_in_parallel_too_a_dependant_is_skipped(project: Project) -> None:
    project.write("a.txt")
    project.write("b.txt")
    plan = plan_of(
        replace("a", "a.txt"),
        replace("b", "b.txt"),
        create("c", "c.txt", depends_on=["b"]),
        create("d", "d.txt", depends_on=["c"]),
        execution_order="parallel",
        stop_on_error=False,
        rollback_on_failure=False,
    )
    envelope = project.approve(plan).canonical()
    spoil = at_phase("RUNNING", (project.root / "b.txt").unlink)
    outcome = ran(project.workspace.apply(envelope, on_status=spoil))
    reasons = [(item.action_id, item.reason) for item in outcome.report.actions_skipped]
    assert reasons == [("c", "Dependency b failed"), ("d", "Dependency c was skipped")]
    assert outcome.status.status == "PARTIAL"
