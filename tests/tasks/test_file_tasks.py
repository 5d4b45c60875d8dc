"""Tasks that change files, from a lease to the signed result, the ledger and the way back."""

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, UsageError
from remit.execution.engine import Preview
from remit.workspace.workspace import Workspace
from tests.support.task_workspace import CONTENT, MovableClock, file_task, made_workspace, manifest, refused, run
from tests.tasks.declared_capabilities import register


@pytest.mark.req("EI-01", "EI-04", "EI-14")
@pytest.mark.parametrize("capability_id", ["FILE_MOVE", "FILE_COPY", "FILE_DELETE"])
def test_a_file_task_is_done_signed_and_traced(
    workspace: Workspace, source: Path, base: Path, capability_id: str, kinds: Callable[[], list[str]]
) -> None:
    made = None if capability_id == "FILE_DELETE" else base / "destination"
    asked = file_task("t", capability_id, source, made)
    result = run(workspace, asked)
    assert result.status == "SUCCESS", result
    assert result.executor_id == "remit.file"
    assert workspace.kernel.accept(result.canonical(), asked) == result
    assert source.exists() == (capability_id == "FILE_COPY")
    assert made is None or made.read_bytes() == CONTENT
    noted = [] if capability_id == "FILE_MOVE" else ["task.noted"]
    assert kinds()[1:] == ["lease.issued", "task.intent", *noted, "task.outcome"]
    with workspace.store.reading() as connection:
        traced = set(connection.rows("SELECT task_id, capability_id FROM ledger_entries WHERE seq > 1"))
        payload = connection.one("SELECT payload FROM ledger_entries WHERE kind = 'task.intent'")
        claimed = connection.one("SELECT checkpoint FROM claims")
    assert traced == {("t", capability_id)}
    assert payload is not None
    assert claimed is not None
    intent = json.loads(payload[0])
    assert f"{len(CONTENT)} bytes" in intent["preview"]
    assert intent["checkpoint_digest"] == "sha256:" + hashlib.sha256(claimed[0].encode()).hexdigest()
    assert workspace.verify_ledger().holds


def test_a_preview_says_what_will_happen_and_changes_nothing(workspace: Workspace, source: Path, base: Path) -> None:
    asked = file_task("t", "FILE_MOVE", source, base / "destination")
    preview = workspace.preview_task(asked, workspace.issue_lease(asked).canonical())
    assert isinstance(preview, Preview)
    assert preview.summary == (
        f"FILE_MOVE as task t: remove {source} ({len(CONTENT)} bytes), create {base / 'destination'}"
    )
    deleted = file_task("d", "FILE_DELETE", source)
    preview = workspace.preview_task(deleted, workspace.issue_lease(deleted).canonical())
    assert isinstance(preview, Preview)
    assert "store a snapshot" in preview.summary
    assert list(base.iterdir()) == [source]
    assert not workspace.state.snapshots.exists()


@pytest.mark.req("EI-08")
def test_every_problem_of_a_file_task_is_reported_with_one_of_the_agreed_codes(
    workspace: Workspace, source: Path, base: Path, kinds: Callable[[], list[str]]
) -> None:
    taken = base / "taken"
    taken.write_bytes(b"precious")
    link = base / "link"
    link.symlink_to(source)
    huge = base / "huge"
    with huge.open("wb") as stream:
        stream.truncate(8 << 40)
    cases = [
        (file_task("1", "FILE_MOVE", base / "missing", base / "d"), "EXECUTION_FAILED", "does not exist"),
        (file_task("2", "FILE_MOVE", source, taken), "EXECUTION_FAILED", "never overwritten"),
        (file_task("3", "FILE_COPY", Path("/etc/passwd"), base / "d"), "EXECUTION_FAILED", "outside of every allowed"),
        (file_task("4", "FILE_COPY", source, Path("/srv/outside")), "EXECUTION_FAILED", "outside of every allowed"),
        (file_task("5", "FILE_COPY", link, base / "d"), "EXECUTION_FAILED", "symbolic link"),
        (file_task("6", "FILE_COPY", base / "x" / ".." / "source", base / "d"), "EXECUTION_FAILED", "`..`"),
        (file_task("7", "FILE_COPY", huge, base / "d"), "RESOURCE_EXHAUSTED", "larger than the 52,428,800 bytes"),
        (file_task("8", "FILE_DELETE", huge), "RESOURCE_EXHAUSTED", "max_file_bytes"),
        (file_task("9", "FILE_SHRED", source), "UNSUPPORTED_CAPABILITY", "FILE_COPY"),
    ]
    irreversible = {"task_id": "10", "constraints": {"reversible": False}}
    cases.append(
        (
            json.dumps(json.loads(file_task("10", "FILE_DELETE", source)) | irreversible).encode(),
            "EXECUTION_FAILED",
            "true",
        )
    )
    for asked, code, words in cases:
        assert words in refused(run(workspace, asked), code), asked
    assert source.read_bytes() == CONTENT
    assert taken.read_bytes() == b"precious"
    assert sorted(path.name for path in base.iterdir()) == ["huge", "link", "source", "taken"]
    assert kinds().count("task.intent") == 0
    assert kinds().count("task.refused") == len(cases)


def test_without_base_directories_every_path_is_refused(tmp_path: Path) -> None:
    with made_workspace(tmp_path, {"REMIT_STATE": str(tmp_path / "state")}, base_directories=[]) as workspace:
        (tmp_path / "base" / "a").write_bytes(b"x")
        asked = file_task("t", "FILE_DELETE", tmp_path / "base" / "a")
        assert "No directory is allowed yet" in refused(run(workspace, asked))


@pytest.mark.parametrize(
    "place, why", [(".", "overlaps the state directory"), ("nowhere", "does not exist"), ("linked", "symbolic link")]
)
def test_a_bad_base_directory_is_refused_by_its_place_in_the_settings_and_stops_no_audit(
    tmp_path: Path, place: str, why: str
) -> None:
    bases = [str(tmp_path.resolve() / place)]
    with made_workspace(tmp_path, {"REMIT_STATE": str(tmp_path / "state")}, base_directories=bases) as workspace:
        (tmp_path / "linked").symlink_to(tmp_path / "base")
        message = refused(run(workspace, file_task("t", "FILE_DELETE", tmp_path / "base" / "a")))
        assert why in message
        assert "remit.yaml, $.base_directories" in message
        assert run(workspace, manifest("no-paths")).status == "SUCCESS"
        assert workspace.recover() == []
        assert workspace.verify_ledger().holds


@pytest.mark.req("FX-04")
def test_no_task_touches_the_file_that_says_what_remit_may_do(workspace: Workspace, source: Path, base: Path) -> None:
    settings = base / "project" / "remit.yaml"
    settings.parent.mkdir()
    settings.write_text("version: 1\n")
    for number, (old, new) in enumerate([(settings, base / "x"), (source, base / "remit.yaml")]):
        asked = file_task(str(number), "FILE_MOVE", old, new)
        assert "no task touches it" in refused(run(workspace, asked))
    assert "no task touches it" in refused(run(workspace, file_task("d", "FILE_DELETE", settings)))
    assert settings.exists()


def test_a_file_cannot_be_moved_onto_itself(workspace: Workspace, source: Path) -> None:
    assert "the same file" in refused(run(workspace, file_task("t", "FILE_MOVE", source, source)))
    assert source.read_bytes() == CONTENT


def test_a_stored_result_is_distinguished_from_work(workspace: Workspace, source: Path, base: Path) -> None:
    asked = file_task("t", "FILE_MOVE", source, base / "d")
    told: list[str] = []
    lease = workspace.issue_lease(asked).canonical()
    first = workspace.execute_task(asked, lease, on_stored=lambda: told.append("run"))
    assert told == []
    assert workspace.execute_task(asked, lease, on_stored=lambda: told.append("run")) == first
    workspace.restore_task(first.canonical(), on_stored=lambda: told.append("restore"))
    assert told == ["run"]
    workspace.restore_task(first.canonical(), on_stored=lambda: told.append("restore"))
    assert told == ["run", "restore"]


def test_a_model_or_a_text_in_place_of_bytes_is_the_callers_mistake(workspace: Workspace) -> None:
    asked = manifest()
    lease = workspace.issue_lease(asked)
    for wrong in (lambda: workspace.execute_task(asked, lease), lambda: workspace.issue_lease(asked.decode())):  # type: ignore[arg-type] # the mistake
        with pytest.raises(UsageError, match="bytes of its JSON"):
            wrong()


@pytest.mark.req("EI-10", "EI-04")
def test_a_task_past_its_time_is_killed_undone_and_signed_as_exhausted(tmp_path: Path, base: Path) -> None:
    environ = {"REMIT_STATE": str(tmp_path / "state")}
    with made_workspace(tmp_path, environ, timeouts={"file_operation": 1}) as workspace:
        register(workspace, "ENDLESS")
        asked = file_task("t", "ENDLESS", None, base / "made")
        result = run(workspace, asked)
        refused(result, "RESOURCE_EXHAUSTED")
        assert workspace.kernel.accept(result.canonical(), asked) == result
        assert list(base.iterdir()) == []
        assert run(workspace, asked) == result
        assert workspace.verify_ledger().holds


@pytest.mark.req("EI-04")
@pytest.mark.parametrize("name", ["DIE", "RAMBLE", "EXPLODE"])
def test_an_effect_that_breaks_is_undone_and_its_failure_signed(workspace: Workspace, base: Path, name: str) -> None:
    register(workspace, name)
    asked = file_task("t", name, None, base / "made")
    result = run(workspace, asked)
    refused(result)
    workspace.kernel.accept(result.canonical(), asked)
    assert list(base.iterdir()) == []


def test_an_effect_that_lies_is_contradicted_by_the_host(workspace: Workspace, base: Path) -> None:
    register(workspace, "LIE")
    message = refused(run(workspace, file_task("t", "LIE", None, base / "made")))
    assert "reported as done" in message
    assert "does not exist" in message


def test_what_cannot_be_undone_yet_stays_claimed_and_is_recovered_later(workspace: Workspace, base: Path) -> None:
    register(workspace, "STUBBORN")
    (base / "stuck").write_bytes(b"")
    asked = file_task("t", "STUBBORN", None, base / "made")
    with pytest.raises(EnvironmentFailureError, match="its undo did not complete"):
        run(workspace, asked)
    (report,) = workspace.recover()
    assert report.problem is not None
    (base / "stuck").unlink()
    (report,) = workspace.recover()
    assert report.took_effect
    assert run(workspace, asked) == report.outcome
    assert workspace.recover() == []
    assert workspace.verify_ledger().holds


def test_unconfined_results_say_so_in_the_executors_name(
    tmp_path: Path, base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with made_workspace(tmp_path, {"REMIT_STATE": str(tmp_path / "state")}, sandbox="unsafe-none") as workspace:
        (base / "a").write_bytes(b"x")
        asked = file_task("t", "FILE_MOVE", base / "a", base / "b")
        lease = workspace.issue_lease(asked)
        result = workspace.execute_task(asked, lease.canonical())
        assert (result.status, result.executor_id) == ("SUCCESS", "remit.file+unsafe-none")
        assert lease.executor_id == "remit.file+unsafe-none"
        assert "not confined" in caplog.text
        (workspace.root / "remit.yaml").write_text(json.dumps({"version": 1, "base_directories": [str(base)]}))
    with Workspace.open(workspace.root, environ=workspace.environ) as confined:
        refusal = confined.execute_task(asked, lease.canonical())
        refused(refusal, "INVALID_LEASE")
        assert confined.restore_task(result.canonical()).executor_id == "remit.file"


def test_progress_of_a_task_is_reported(workspace: Workspace, base: Path) -> None:
    register(workspace, "MARK")
    asked = file_task("t", "MARK", None, base / "made")
    told: list[tuple[int, int]] = []
    lease = workspace.issue_lease(asked).canonical()
    workspace.execute_task(asked, lease, on_progress=lambda done, total: told.append((done, total)))
    assert told[:1] == [(1, 2)]  # later ones may be left out


@pytest.mark.req("EI-06")
def test_lease_then_binding_then_expiry_then_capability_then_paths_decide(
    workspace: Workspace, base: Path, clock: MovableClock
) -> None:
    """Each task breaks a rule and all that come after it; the first broken one is what is said."""
    wrong = file_task("wrong", "FILE_MOVE", base / "missing", Path("/outside"))
    foreign = file_task("foreign", "FILE_SHRED", base / "missing", Path("/outside"))
    of_wrong, of_foreign = (workspace.issue_lease(asked) for asked in (wrong, foreign))
    forged = json.dumps({**of_foreign.tree(), "signature": "A" * 86}).encode()
    refused(workspace.execute_task(wrong, of_wrong.canonical()), "EXECUTION_FAILED")
    refused(workspace.execute_task(foreign, of_foreign.canonical()), "UNSUPPORTED_CAPABILITY")
    clock.offset = timedelta(hours=2)
    refused(workspace.execute_task(foreign, of_foreign.canonical()), "LEASE_EXPIRED")
    refused(workspace.execute_task(wrong, of_foreign.canonical()), "INVALID_LEASE")
    refused(workspace.execute_task(foreign, forged), "INVALID_LEASE")
    assert list(base.iterdir()) == []


def test_an_effect_that_cannot_be_loaded_is_refused_before_anything_is_claimed(
    workspace: Workspace, base: Path, kinds: Callable[[], list[str]]
) -> None:
    register(workspace, "NOT_THERE")
    refused(run(workspace, file_task("t", "NOT_THERE", None, base / "made")))
    assert "task.intent" not in kinds()


@pytest.mark.req("FX-14")
def test_without_a_snapshot_there_is_no_delete(
    workspace: Workspace, source: Path, kinds: Callable[[], list[str]]
) -> None:
    workspace.state.snapshots.write_bytes(b"a file where the folder should be")
    asked = file_task("t", "FILE_DELETE", source)
    refused(run(workspace, asked))
    assert source.read_bytes() == CONTENT
    assert "task.intent" not in kinds()
    workspace.state.snapshots.unlink()
    assert run(workspace, asked).status == "SUCCESS"


@pytest.mark.req("EI-16")
def test_a_new_executor_is_registered_and_nothing_else(workspace: Workspace, base: Path) -> None:
    asked = file_task("t", "MARK", None, base / "made")
    refused(run(workspace, asked), "UNSUPPORTED_CAPABILITY")
    register(workspace, "MARK")  # also after the first task
    result = run(workspace, asked)
    assert (result.status, result.executor_id) == ("SUCCESS", "test.mark")
    assert workspace.kernel.accept(result.canonical(), asked) == result
    assert run(workspace, manifest("n")).status == "SUCCESS"
