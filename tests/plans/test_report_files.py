"""What people read of a run: in its place, valid, in agreement with the ledger; logs, archive, status updates."""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from remit.contracts.plans.status import StatusUpdate
from remit.contracts.schemas import load_schema
from tests.plans.project import Project, action, at_phase, create, delete, plan_of, ran, rename, replace

PAPERS = {
    "execution_report.json": "execution-report",
    "change_log.json": "change-log",
    "rollback_manifest.json": "rollback-manifest",
    "status.json": "completion-status",
}


def applied(project: Project) -> Path:
    project.write("a.txt")
    project.write("gone.bin", b"\0\1\2" * 9)
    project.write("old.txt")
    plan = plan_of(
        replace("a", "a.txt"),
        create("b", "new/b.txt", "x\n" * 1_000),
        delete("c", "gone.bin"),
        rename("d", "old.txt", "moved.txt"),
    )
    return project.report_folder(project.apply(plan))


@pytest.mark.req("PX-12", "PX-37")
@pytest.mark.parametrize("paper", PAPERS)
def test_each_report_is_valid_against_the_schema_that_is_shipped(project: Project, paper: str) -> None:
    folder = applied(project)
    document = json.loads((folder / paper).read_text())
    jsonschema_rs.validator_for(load_schema(PAPERS[paper])).validate(document)


@pytest.mark.req("PX-14")
def test_diffs_are_counted_and_bounded(project: Project) -> None:
    folder = applied(project)
    changes = {item["action_id"]: item for item in json.loads((folder / "change_log.json").read_text())["changes"]}
    counts = {
        name: (item["diff_summary"]["lines_added"], item["diff_summary"]["lines_removed"])
        for name, item in changes.items()
    }
    assert counts == {"a": (1, 1), "b": (1_000, 0), "c": (0, 0), "d": (0, 0)}
    assert all(len(item["diff_summary"]["preview"]) <= 500 for item in changes.values())
    assert changes["c"]["diff_summary"]["preview"].startswith("Binary file")
    assert changes["d"]["new_path"] == "moved.txt"


@pytest.mark.req("PX-27", "PX-37")
def test_only_a_success_is_archived(project: Project) -> None:
    folder = applied(project)
    (kept,) = (project.root / "agent_outputs/archive").iterdir()
    archived = json.loads(kept.read_text())
    assert archived["report"] == json.loads((folder / "execution_report.json").read_text())
    victim = project.write("b.txt")
    envelope = project.approve(plan_of(replace("a", "a.txt", "one", "ONE"), replace("b", "b.txt"))).canonical()
    outcome = ran(project.workspace.apply(envelope, on_status=at_phase("RUNNING", victim.unlink)))
    assert outcome.status.status == "ROLLED_BACK"
    assert list((project.root / "agent_outputs/archive").iterdir()) == [kept]


@pytest.mark.req("PX-27")
def test_the_log_is_json_lines_without_secrets(project: Project) -> None:
    project.write("a.txt", "password = hunter2hunter2\n")
    edit = replace("a", "a.txt", "password = hunter2hunter2", "password = hunter3hunter3")
    envelope = project.approve(plan_of(edit), content=["a.txt"])
    outcome = ran(project.workspace.apply(envelope.canonical()))
    assert outcome.status.status == "SUCCESS"
    (log,) = (project.root / "agent_logs/executor").iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[-1]["event"] == "plan.ended"
    assert events[-1]["status"]["status"] == "SUCCESS"
    assert list(events[-1]["phases"]) == ["CHECKING", "CHECKPOINT", "RUNNING", "VERIFYING", "REPORTING"]
    told = [path.read_text() for path in (log, *project.report_folder(outcome).glob("*.json"))]
    assert not any("hunter" in text for text in told)
    with project.workspace.store.reading() as connection:
        assert not any("hunter" in row[0] for row in connection.rows("SELECT payload FROM ledger_entries"))


@pytest.mark.req("PX-27")
def test_the_protocol_layer_is_notified_of_each_phase(project: Project) -> None:
    project.write("a.txt")
    heard: list[StatusUpdate] = []
    outcome = project.apply(plan_of(replace("a", "a.txt")), on_status=heard.append)
    phases = list(dict.fromkeys(update.phase for update in heard))
    assert phases == ["CHECKING", "CHECKPOINT", "RUNNING", "VERIFYING", "REPORTING"]
    assert {update.envelope_id for update in heard} == {outcome.status.envelope_id}
    assert (heard[-1].done, heard[-1].total) == (1, 1)


@pytest.mark.req("PX-37")
def test_the_status_is_signed_over_the_reports(project: Project) -> None:
    project.write("a.txt")
    outcome = project.apply(plan_of(replace("a", "a.txt")))
    assert outcome.manifest is not None
    status = outcome.status
    digests = (outcome.report.digest(), outcome.change_log.digest(), outcome.manifest.digest())
    assert (status.report_digest, status.change_log_digest, status.manifest_digest) == digests
    assert status.executor_id == "remit.plan"


@pytest.mark.req("PX-29")
def test_what_was_previewed_is_what_is_applied(project: Project) -> None:
    project.write("a.json", '{"a": [1, 2], "b": {}}\n')
    plan = plan_of(
        action("x", "FILE_MODIFY", "a.json", {"type": "json_update_value", "path": "$.a[1]", "value": {"c": None}}),
        create("y", "b.txt"),
        delete("z", "b.txt"),
    )
    document = project.workspace.preview(plan).document
    outcome = project.apply(plan)
    previewed = [(file.action_id, file.before, file.after) for file in document.files]
    changed = [
        (change.action_id, change.before_state.file_hash, change.after_state.file_hash)
        for change in outcome.change_log.changes
    ]
    assert previewed == changed
    assert "+" in document.files[0].diff


def test_an_edit_that_changes_nothing_is_a_success_without_a_change(project: Project) -> None:
    file = project.write("a.txt")
    outcome = project.apply(plan_of(replace("a", "a.txt", "two", "two")))
    assert (outcome.status.status, outcome.change_log.changes) == ("SUCCESS", ())
    assert file.stat().st_mtime_ns == 1_500_000_000_987_654_321


def test_a_run_without_a_sandbox_says_so_in_its_status_and_its_warnings(tmp_path: Path) -> None:
    project = Project(tmp_path, sandbox="unsafe-none")
    project.write("a.txt")
    outcome = project.apply(plan_of(replace("a", "a.txt")))
    assert outcome.status.status == "SUCCESS"
    assert outcome.status.executor_id == "remit.plan+unsafe-none"
    assert any("not confined" in warning for warning in outcome.report.warnings)
    project.close()
