"""The worked examples of the specification, end to end, on a real sandbox."""

import json

import pytest

import remit
from tests.plans.project import Project, action, at_phase, delete, plan_of, ran, replace

SCHEMA = '{\n  "properties": {\n    "id": {"type": "integer"}\n  }\n}\n'


@pytest.mark.req("PX-13", "PX-33", "PX-12")
def test_a_file_is_modified(project: Project) -> None:
    """Example 12.1."""
    project.write("esquemas/esquema_bd.json", SCHEMA, 0o640)
    edit = {"type": "json_add_property", "path": "$.properties", "key": "new_field", "value": {"type": "string"}}
    plan = plan_of(action("a001", "FILE_MODIFY", "esquemas/esquema_bd.json", edit))

    preview = project.workspace.preview(plan)
    assert project.read("esquemas/esquema_bd.json") == SCHEMA
    outcome = project.apply(plan)

    report = outcome.report
    assert (report.status, report.plan_id, report.executor_version) == ("SUCCESS", "plan-001", remit.__version__)
    assert report.actions_summary.tree() == {"total": 1, "completed": 1, "failed": 0, "skipped": 0}
    (done,) = report.actions_completed
    assert (done.action_id, done.status) == ("a001", "SUCCESS")
    assert done.output == "Property 'new_field' added successfully"
    after = json.loads(project.read("esquemas/esquema_bd.json"))
    assert after == {"properties": {"id": {"type": "integer"}, "new_field": {"type": "string"}}}
    assert (project.root / "esquemas/esquema_bd.json").stat().st_mode & 0o777 == 0o640
    (change,) = outcome.change_log.changes
    assert change.after_state.file_hash == preview.document.files[0].after
    assert not list(project.root.rglob(".remit-*"))
    folder = project.report_folder(outcome)
    assert json.loads((folder / "execution_report.json").read_text()) == report.tree()
    assert json.loads((folder / "status.json").read_text()) == outcome.status.tree()
    assert project.kinds()[-4:] == ["envelope.issued", "plan.intent", "plan.noted", "plan.outcome"]


@pytest.mark.req("PX-13", "PX-15", "PX-22")
def test_the_second_action_fails_and_all_is_rolled_back(project: Project) -> None:
    """Example 12.2: the file of the second action vanishes after everything was looked at."""
    project.write("a.txt")
    victim = project.write("b.txt")
    project.write("c.txt")
    plan = plan_of(replace("a001", "a.txt"), replace("a002", "b.txt"), delete("a003", "c.txt"))
    envelope = project.approve(plan)
    before = project.tree()

    outcome = ran(project.workspace.apply(envelope.canonical(), on_status=at_phase("RUNNING", victim.unlink)))

    report = outcome.report
    assert report.status == outcome.status.status == "ROLLED_BACK"
    assert report.actions_summary.tree() == {"total": 3, "completed": 1, "failed": 1, "skipped": 1}
    (failed,) = report.actions_failed
    assert (failed.action_id, failed.error_code) == ("a002", 2001)
    assert "does not exist" in failed.error_message
    assert [skipped.reason for skipped in report.actions_skipped] == ["Stopped after a002 failed"]
    assert report.rollback_performed
    assert outcome.manifest is not None
    assert report.rollback_manifest_id == outcome.manifest.manifest_id
    assert outcome.manifest.status == "EXECUTED"
    assert outcome.change_log.changes == ()
    del before["b.txt"]
    assert project.tree() == before
    (error,) = outcome.errors
    assert (error.error_code, error.recovery_action, error.details.action_id) == (2001, "ROLLED_BACK", "a002")


@pytest.mark.req("PX-34", "PX-13")
def test_a_file_that_is_missing_from_the_start_fails_before_anything_is_touched(project: Project) -> None:
    project.write("a.txt")
    victim = project.write("b.txt")
    envelope = project.approve(plan_of(replace("a001", "a.txt"), replace("a002", "b.txt")))
    victim.unlink()
    before = project.tree()
    outcome = ran(project.workspace.apply(envelope.canonical()))
    assert outcome.report.status == "FAILED"
    assert not outcome.report.rollback_performed
    assert [failed.error_code for failed in outcome.report.actions_failed] == [2001]
    assert (outcome.manifest, project.tree()) == (None, before)
    assert not any((project.report_folder(outcome) / "backups").iterdir())
