"""Report, change log, errors and status: complete, consistent, valid against the shipped schemas, in their place."""

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import remit
from remit.contracts.plans.change_log import DiffSummary
from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.status import CompletionStatus
from remit.contracts.schemas import load_schema
from remit.core.errors import EnvironmentFailureError, Reason
from remit.effects.plans.steps import Result
from remit.plans.reports.archive import archive
from remit.plans.reports.change_log import build_change_log
from remit.plans.reports.execution_report import build_errors, build_report, refusal_of
from remit.plans.reports.publish import digest_reports, publish, render_report_files, restore_reports
from remit.plans.reports.run_data import FinishedRun, time_of
from remit.plans.storage.manifest import mark_executed
from remit.plans.storage.run_folder import ReportFolder
from tests.plans.storage.project import CREATED, Action, Done, Project

STARTED, ENDED = "2026-11-15T15:45:02.000000Z", "2026-11-15T15:45:03.250000Z"
NOT_FOUND = {"reason": "file_missing", "what": "the file does not exist", "where": "b", "next_step": "Check the path."}
ACTIONS: list[Action] = [
    ("modify", "a", b"a after"),
    ("create", "new/n", b"n"),
    ("modify", "new/n", b"n edited"),
    ("delete", "b", None),
    ("rename", "c", "new/c"),
]


def clock() -> datetime:
    return datetime(2026, 11, 15, 15, 45, 4, tzinfo=UTC)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    place = Project(tmp_path / "project")
    for name in "abc":
        place.write(name, f"{name} before".encode())
    return place


@pytest.fixture
def done(project: Project) -> Done:
    return project.run_plan(ACTIONS)


def run_of(project: Project, done: Done, **changed: Any) -> FinishedRun:
    results = tuple(Result(step.number, "done", STARTED, ENDED) for step in done.plan.steps)
    steps = done.plan._replace(steps=tuple(step._replace(summary=f"Did {step.move}") for step in done.plan.steps))
    places = {index: project.root / path for index, path in enumerate(done.plan.paths)}
    run = FinishedRun(
        plan_id="plan-1",
        ids=done.ids,
        folder=f"agent_outputs/reports/{done.name}",
        started_at=CREATED,
        completed_at=ENDED,
        status="SUCCESS",
        steps=steps,
        results=results,
        diffs={0: DiffSummary(lines_added=2, lines_removed=1, preview="-a\n+b\n+c")},
        modified={index: time_of(place.stat().st_mtime_ns) for index, place in places.items() if place.exists()},
        originals=done.originals,
        rolled_back=False,
    )
    return run._replace(**changed)


def failed_run(project: Project, done: Done, **changed: Any) -> FinishedRun:
    """Worked example 12.2: the second action fails, the third is skipped."""
    steps = done.plan._replace(steps=done.plan.steps[:3])
    results = (
        Result(0, "done", STARTED, ENDED),
        Result(1, "failed", STARTED, ENDED, error=NOT_FOUND),
        Result(2, "skipped", reason="Dependency a001 failed"),
    )
    run = run_of(project, done, steps=steps, results=results, status="ROLLED_BACK", rolled_back=True)
    return run._replace(**changed)


def outcome_of(project: Project, done: Done, run: FinishedRun) -> PlanOutcome:
    report, log = build_report(run), build_change_log(run)
    manifest = mark_executed(done.manifest, ENDED) if run.rolled_back else done.manifest
    unsigned: Mapping[str, Any] = {
        "envelope_id": done.ids.envelope_id,
        "plan_id": run.plan_id,
        "report_id": done.ids.report_id,
        "status": run.status,
        "executor_id": "remit.plan",
        "executor_version": remit.__version__,
        "completed_at": ENDED,
        "folder": run.folder,
        **digest_reports(report, log, manifest)._asdict(),
        "key_id": "A" * 43,
        "signature": "A" * 86,
    }
    status = CompletionStatus.from_tree(unsigned)
    return PlanOutcome(status=status, report=report, change_log=log, manifest=manifest, errors=build_errors(run, clock))


SCHEMAS = {
    "execution_report.json": "execution-report",
    "change_log.json": "change-log",
    "rollback_manifest.json": "rollback-manifest",
    "status.json": "completion-status",
}


@pytest.mark.req("PX-12", "PX-37")
@pytest.mark.parametrize("make", [run_of, failed_run])
def test_every_report_file_is_published_in_its_place_and_valid_against_its_schema(
    project: Project, done: Done, make: Any
) -> None:
    outcome = outcome_of(project, done, make(project, done))
    with ReportFolder.open(project.base, done.name) as folder:
        publish(folder, outcome)
    for name, schema in SCHEMAS.items():
        raw = (project.report(done) / name).read_bytes()
        jsonschema_rs.validator_for(load_schema(schema)).validate(json.loads(raw))
        assert raw == render_report_files(outcome)[name]
        assert raw.endswith(b"}\n")
        assert b'\n  "' in raw, "for people: two spaces"
    assert json.loads((project.report(done) / "status.json").read_bytes())["report_digest"] == outcome.report.digest()
    assert PlanOutcome.parse(outcome.canonical()) == outcome


@pytest.mark.req("PX-12", "PX-13", "PX-33")
def test_the_report_of_a_success(project: Project, done: Done) -> None:
    report = build_report(run_of(project, done, warnings=("No sandbox.",))).tree()
    assert report["executor_version"] == remit.__version__
    assert report["actions_summary"] == {"total": 5, "completed": 5, "failed": 0, "skipped": 0}
    assert report["actions_completed"][0] == {
        "action_id": "a000",
        "status": "SUCCESS",
        "started_at": STARTED,
        "completed_at": ENDED,
        "output": "Did modify",
    }
    assert report["duration_ms"] == 2127
    assert (report["rollback_performed"], report["rollback_manifest_id"]) == (False, done.ids.manifest_id)
    assert report["warnings"] == ["No sandbox."]


@pytest.mark.req("PX-09", "PX-13", "PX-22")
def test_the_report_of_a_failure_that_was_undone(project: Project, done: Done) -> None:
    run = failed_run(project, done)
    report = build_report(run)
    assert report.actions_summary.tree() == {"total": 3, "completed": 1, "failed": 1, "skipped": 1}
    assert report.actions_failed[0].error_code == 2001
    assert report.actions_failed[0].error_message == "the file does not exist (at b). Check the path."
    assert report.actions_skipped[0].reason == "Dependency a001 failed"
    assert (report.rollback_performed, report.rollback_manifest_id) == (True, done.ids.manifest_id)
    assert build_change_log(run).changes == (), "nothing is changed"


@pytest.mark.req("PX-22", "PX-35")
def test_every_failure_is_an_error_response(project: Project, done: Done) -> None:
    problem = EnvironmentFailureError(Reason.RULE_FAILED, "a rule does not hold", where="$.a")
    errors = [error.tree() for error in build_errors(failed_run(project, done, problem=problem), clock)]
    jsonschema_rs.validator_for(load_schema("error-response")).validate(errors[0])
    assert uuid.UUID(errors[0].pop("error_id")).version == 5
    assert errors[0] == {
        "error_code": 2001,
        "error_category": "FILE_SYSTEM_ERROR",
        "error_type": "FILE_NOT_FOUND",
        "message": "the file does not exist (at b). Check the path.",
        "details": {"action_id": "a001", "target": "new/n", "operation": "FILE_CREATE"},
        "recovery_action": "ROLLED_BACK",
        "timestamp": "2026-11-15T15:45:04.000000Z",
    }
    assert [(error["error_code"], error["recovery_action"]) for error in errors[1:]] == [
        (4003, "SKIPPED"),
        (1201, "ROLLED_BACK"),
    ]
    assert errors[2]["details"] == {"action_id": None, "target": None, "operation": None}
    again = build_errors(failed_run(project, done, problem=problem), clock)
    assert [error.error_id for error in again][1:] == [error["error_id"] for error in errors[1:]]


@pytest.mark.req("PX-35")
@pytest.mark.parametrize(
    "reason, rolled_back, wanted",
    [
        (Reason.FILE_MISSING, False, "SKIPPED"),
        (Reason.HASH_MISMATCH, True, "ROLLED_BACK"),
        (Reason.ROLLBACK_FAILED, False, "MANUAL_REQUIRED"),
        (Reason.ROLLBACK_FAILED, True, "MANUAL_REQUIRED"),
    ],
)
def test_the_recovery_action_says_how_the_failure_was_handled(
    project: Project,
    done: Done,
    reason: Reason,
    rolled_back: bool,  # noqa: FBT001
    wanted: str,
) -> None:
    problem = EnvironmentFailureError(reason, "it failed")
    run = run_of(project, done, status="FAILED", results=(), problem=problem, rolled_back=rolled_back)
    [error] = build_errors(run, clock)
    assert error.recovery_action == wanted
    assert "it failed" in build_report(run).warnings[0]


@pytest.mark.req("PX-13")
def test_partial_cancelled_and_failed_runs_are_reported(project: Project, done: Done) -> None:
    part = failed_run(project, done, status="PARTIAL", rolled_back=False)
    assert [change.action_id for change in build_change_log(part).changes] == ["a000"]
    assert build_errors(part, clock)[0].recovery_action == "SKIPPED"
    cancelled = build_report(run_of(project, done, status="CANCELLED", results=(), rolled_back=True))
    assert cancelled.actions_summary.skipped == 5
    doomed = build_report(run_of(project, done, status="FAILED", results=(), has_manifest=False))
    assert doomed.rollback_manifest_id is None


def test_a_refusal_is_an_error_response_too() -> None:
    problem = EnvironmentFailureError(Reason.PROTECTED, "protected", where=".env")
    error = refusal_of(problem, "envelope-1", clock)
    assert (error.error_code, error.recovery_action) == (1006, "SKIPPED")


@pytest.mark.req("PX-12", "PX-14")
def test_the_change_log_has_states_before_and_after_each_step(project: Project, done: Done) -> None:
    log = build_change_log(run_of(project, done)).tree()
    assert [change["operation"] for change in log["changes"]] == ["MODIFY", "CREATE", "MODIFY", "DELETE", "RENAME"]
    modify, create, edit, delete, rename = log["changes"]
    assert modify["diff_summary"] == {"lines_added": 2, "lines_removed": 1, "preview": "-a\n+b\n+c"}
    assert modify["before_state"]["last_modified"] == time_of(done.originals[0].mtime_ns)
    after = (project.root / "a").stat()
    assert modify["after_state"]["last_modified"] == time_of(after.st_mtime_ns)
    assert modify["after_state"]["size_bytes"] == after.st_size
    assert create["before_state"] == {"exists": False, "hash": None, "size_bytes": None, "last_modified": None}
    assert create["after_state"] == edit["before_state"]
    assert create["after_state"]["last_modified"] == ENDED
    assert edit["after_state"]["last_modified"] == time_of((project.root / "new/n").stat().st_mtime_ns)
    assert delete["after_state"]["exists"] is False
    assert (rename["file_path"], rename["new_path"]) == ("c", "new/c")
    assert rename["before_state"] == rename["after_state"]
    assert (log["files_affected_count"], log["total_lines_changed"]) == (4, 3)


def test_an_unchanged_file_is_completed_and_not_a_change(project: Project, done: Done) -> None:
    run = run_of(project, done)
    first = run.steps.steps[0]._replace(unchanged=True)
    run = run._replace(steps=run.steps._replace(steps=(first, *run.steps.steps[1:])))
    assert build_change_log(run).changes[0].action_id == "a001"
    assert build_report(run).actions_summary.completed == 5


@pytest.mark.parametrize(
    "nanoseconds, wanted",
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1 << 62, "2116-02-20T23:53:38.427387Z"),
        (10**21, "9999-12-31T23:59:59.999999Z"),
        (-(10**21), "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_strange_times_of_files_are_still_timestamps(nanoseconds: int, wanted: str) -> None:
    assert time_of(nanoseconds) == wanted


def test_a_clock_that_was_set_back_does_not_break_the_report(project: Project, done: Done) -> None:
    report = build_report(run_of(project, done, completed_at="2020-01-01T00:00:00Z"))
    assert (report.duration_ms, report.completed_at) == (0, CREATED)


@pytest.mark.req("PX-22")
def test_errors_are_masked_bounded_and_never_unknown(project: Project, done: Done) -> None:
    told = {"reason": "no such reason", "what": "token=ghp_" + "a1B2" * 9 + " " + "x" * 9000, "trace": "file, line 1"}
    run = run_of(project, done, status="FAILED", results=(Result(0, "failed", error=told), Result(1, "failed")))
    report = build_report(run)
    assert report.actions_failed[0].error_code == 5000
    assert "a1B2a1B2a1B2" not in report.canonical().decode()
    assert report.actions_failed[0].stack_trace == "file, line 1"
    assert len(report.actions_failed[0].error_message) <= 4000
    assert report.actions_failed[1].error_message


def test_a_thousand_failures_still_make_an_outcome_that_can_be_read_again(project: Project, done: Done) -> None:
    first = done.plan.steps[0]
    steps = tuple(first._replace(number=n, action_id=f"a{n:04}") for n in range(1000))
    told = {"reason": "internal", "what": "é" * 2000, "where": "é" * 2000, "next_step": "é" * 2000, "trace": "é" * 9000}
    results = tuple(Result(n, "failed", STARTED, ENDED, error=told) for n in range(1000))
    plan = done.plan._replace(steps=steps)
    outcome = outcome_of(project, done, run_of(project, done, status="FAILED", steps=plan, results=results))
    assert PlanOutcome.parse(outcome.canonical()) == outcome


@pytest.mark.req("PX-12")
def test_report_files_that_were_changed_or_lost_are_written_again(project: Project, done: Done) -> None:
    outcome = outcome_of(project, done, run_of(project, done))
    with ReportFolder.open(project.base, done.name) as folder:
        publish(folder, outcome)
        assert restore_reports(folder, outcome) == []
        (project.report(done) / "execution_report.json").write_text("{}")
        (project.report(done) / "status.json").unlink()
        assert restore_reports(folder, outcome) == ["execution_report.json", "status.json"]
        assert folder.read("execution_report.json") == render_report_files(outcome)["execution_report.json"]
        restored = mark_executed(done.manifest, ENDED)
        assert restore_reports(folder, outcome, restored) == ["rollback_manifest.json"]


@pytest.mark.req("PX-12", "PX-28")
@pytest.mark.parametrize("paper", ["execution_report.json", "change_log.json", "rollback_manifest.json"])
def test_a_status_is_published_only_after_the_reports_that_it_names(project: Project, done: Done, paper: str) -> None:
    """A name that cannot be taken: what comes before it may be new, and the status is not."""
    outcome = outcome_of(project, done, failed_run(project, done))
    place = project.report(done) / paper
    place.unlink(missing_ok=True)
    place.mkdir()
    with ReportFolder.open(project.base, done.name) as folder:
        with pytest.raises(EnvironmentFailureError) as refused:
            publish(folder, outcome)
        assert folder.read("status.json") is None
    assert refused.value.where.endswith(f"{done.name}/{paper}")


@pytest.mark.req("PX-27", "PX-37")
def test_only_a_success_is_archived_and_as_a_copy(project: Project, done: Done) -> None:
    assert archive(project.base, outcome_of(project, done, failed_run(project, done))) is None
    assert not (project.root / "agent_outputs/archive").exists()
    outcome = outcome_of(project, done, run_of(project, done))
    place = archive(project.base, outcome)
    assert place == f"agent_outputs/archive/{done.name}.json"
    archived = json.loads((project.root / place).read_bytes())
    tree = outcome.tree()
    assert archived == {key: tree[key] for key in ("status", "report", "change_log", "manifest")}
    assert archive(project.base, outcome) == place, "again is the same"
    assert [path.name for path in (project.root / "agent_outputs/archive").iterdir()] == [f"{done.name}.json"]
