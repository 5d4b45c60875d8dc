"""Every failure has its code, its category and what was done about it; also where going back itself fails."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from remit.contracts.plans.outcome import PlanOutcome
from remit.core.errors import Reason
from remit.execution.engine import IncompleteError
from tests.plans.project import Project, action, at_phase, create, delete, plan_of, ran, rename, replace

Spoil = Callable[[Project], object]


def edit(**operation: Any) -> dict[str, Any]:
    return action("b", "FILE_MODIFY", "b.json", operation)


# What the second action is, what happens to its file after the checkpoint, and the code that comes of it.
FAILING: dict[str, tuple[dict[str, Any], Spoil, int]] = {
    "2001 gone": (replace("b", "b.txt"), lambda p: (p.root / "b.txt").unlink(), 2001),
    "2002 came": (create("b", "new.txt"), lambda p: p.write("new.txt", "theirs\n"), 2002),
    "2002 its twin came": (create("b", "new.txt", "new\n"), lambda p: p.write("new.txt", "new\n"), 2002),
    "2002 new name came": (rename("b", "b.txt", "new.txt"), lambda p: p.write("new.txt", "theirs\n"), 2002),
    "2003 changed": (replace("b", "b.txt"), lambda p: p.write("b.txt", "two of theirs\n"), 2003),
    "2003 delete changed": (delete("b", "b.txt"), lambda p: p.write("b.txt", "theirs\n"), 2003),
    "1005 a link": (
        replace("b", "b.txt"),
        lambda p: p.link("b.txt", "/etc/passwd"),
        1005,
    ),
}
# What is found before anything is touched.
DOOMED: dict[str, tuple[dict[str, Any], int]] = {
    "1101": (replace("b", "b.txt", "nowhere"), 1101),
    "1102": (action("b", "FILE_MODIFY", "b.txt", {"type": "line_delete", "start_line": 9, "end_line": 9}), 1102),
    "1103": (edit(type="json_update_value", path="$.*", value=1), 1103),
    "1104": (edit(type="json_add_property", path="$", key="x", value=1), 1104),
    "1106": (
        action("b", "FILE_MODIFY", "b.txt", {"type": "text_replace", "pattern": "(", "replacement": "", "regex": True}),
        1106,
    ),
    "1107": (replace("b", "b.bin"), 1107),
    "1108": (action("b", "FILE_MODIFY", "b.txt", {"type": "json_update_value", "path": "$", "value": 1}), 1108),
    "1109": (
        action("b", "SCHEMA_UPDATE", "b.json", {"type": "json_add_property", "path": "$", "key": "type", "value": 7}),
        1109,
    ),
    "2001": (delete("b", "missing.txt"), 2001),
    "2002": (create("b", "b.txt"), 2002),
}
CATEGORIES = {
    1: "VALIDATION_ERROR",
    2: "FILE_SYSTEM_ERROR",
    3: "PERMISSION_ERROR",
    4: "DEPENDENCY_ERROR",
    5: "INTERNAL_ERROR",
}


def seed(project: Project) -> None:
    project.write("a.txt")
    project.write("b.txt")
    project.write("b.json", '{"x": 1, "y": 2}\n')
    project.write("b.bin", b"\xff\xfe\x00two")


@pytest.mark.req("PX-22", "PX-35")
@pytest.mark.parametrize("name", FAILING)
def test_a_failure_in_the_middle_undoes_what_was_done(project: Project, name: str) -> None:
    seed(project)
    step, spoil, code = FAILING[name]
    envelope = project.approve(plan_of(replace("a", "a.txt"), step, create("c", "c.txt"))).canonical()
    left: list[object] = []

    def spoil_it() -> None:
        spoil(project)
        left.append(project.tree())

    outcome = ran(project.workspace.apply(envelope, on_status=at_phase("RUNNING", spoil_it)))
    assert outcome.status.status == "ROLLED_BACK"
    assert [project.tree()] == left, "what somebody else made is his"
    (error,) = outcome.errors
    assert (error.error_code, error.recovery_action) == (code, "ROLLED_BACK")
    assert error.error_category == CATEGORIES[code // 1000]
    assert (error.details.action_id, error.details.target) == ("b", step["target"])


@pytest.mark.req("PX-22", "PX-34")
@pytest.mark.parametrize("name", DOOMED)
def test_what_cannot_be_done_is_found_before_anything_is_touched(project: Project, name: str) -> None:
    seed(project)
    step, code = DOOMED[name]
    before = project.tree()
    document = project.workspace.preview(plan_of(replace("a", "a.txt"), step)).document
    assert document.status == "WOULD_FAIL"
    assert [(problem.error_code, problem.recovery_action) for problem in document.problems] == [(code, "SKIPPED")]
    assert project.tree() == before


def stuck(project: Project) -> bytes:
    """Two edits; then somebody changes the first file, and the second one's fails its check: only a person can tell."""
    seed(project)
    envelope = project.approve(plan_of(replace("a", "a.txt"), replace("b", "b.txt"))).canonical()
    spoil = at_phase("VERIFYING", lambda: project.write("a.txt", "theirs, and longer\n"))
    with pytest.raises(IncompleteError) as caught:
        project.workspace.apply(envelope, on_status=spoil)
    assert caught.value.reason is Reason.ROLLBACK_FAILED
    assert "a.txt" in caught.value.where
    assert ".part" in caught.value.next_step
    assert "remit recover" in caught.value.next_step
    return envelope


@pytest.mark.req("PX-35", "PX-28")
def test_an_undo_that_fails_loses_nothing_and_says_what_to_do(project: Project) -> None:
    stuck(project)
    assert project.read("a.txt") == "theirs, and longer\n"
    (aside,) = project.root.glob(".remit-*")
    assert aside.read_text() == "one\ntwo\nthree\n"
    (log,) = (project.root / "agent_logs/executor").iterdir()
    told = json.loads(log.read_text().splitlines()[-1])
    assert told["error"]["recovery_action"] == "MANUAL_REQUIRED"
    assert (told["level"], told["error"]["error_code"]) == ("error", 5004)
    (report,) = project.workspace.recover()
    assert report.problem is not None
    assert report.problem.reason is Reason.ROLLBACK_FAILED


@pytest.mark.req("PX-35")
def test_a_plan_that_was_repaired_by_hand_is_recovered_by_one_command(project: Project) -> None:
    envelope = stuck(project)
    (aside,) = project.root.glob(".remit-*")
    aside.replace(project.root / "a.txt")
    (report,) = project.workspace.recover()
    assert report.problem is None, str(report.problem)
    outcome = ran(project.workspace.apply(envelope))
    assert outcome.status.status == "ROLLED_BACK"
    assert project.read("a.txt") == project.read("b.txt") == "one\ntwo\nthree\n"


@pytest.mark.req("PX-35")
def test_an_abandoned_plan_says_that_a_person_must_look(project: Project) -> None:
    envelope = stuck(project)
    after = project.tree()
    envelope_id = json.loads(envelope)["envelope_id"]
    (report,) = project.workspace.recover(abandoned=[envelope_id])
    assert isinstance(report.outcome, PlanOutcome)
    assert report.outcome.status.status == "FAILED"
    (error,) = report.outcome.errors
    assert (error.error_code, error.recovery_action) == (5004, "MANUAL_REQUIRED")
    assert "rollback_manifest.json" in error.message
    assert project.tree() == after
    assert project.workspace.recover() == []
