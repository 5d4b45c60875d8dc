"""The way back: what a task did is taken back by its signed result, and nothing of somebody else's."""

import json
import os
from pathlib import Path

import pytest

from remit.core.errors import Reason, RefusedError
from remit.workspace.workspace import Workspace
from tests.support.task_workspace import CONTENT, file_task, refused, run


def test_a_task_that_uses_the_id_of_a_restore_does_not_prevent_it(
    workspace: Workspace, source: Path, base: Path
) -> None:
    deleted = run(workspace, file_task("t", "FILE_DELETE", source))
    (base / "other").write_bytes(b"x")
    assert run(workspace, file_task("restore-t", "FILE_COPY", base / "other", base / "squat")).status == "SUCCESS"
    back = workspace.restore_task(deleted.canonical())
    assert (back.status, back.task_id) == ("SUCCESS", "restore-t-2")
    assert source.read_bytes() == CONTENT


def test_another_file_in_the_place_of_a_moved_one_is_left_alone(workspace: Workspace, source: Path, base: Path) -> None:
    moved = run(workspace, file_task("t", "FILE_MOVE", source, base / "d"))
    (base / "kept").write_bytes(b"so that the inode is not used again")
    (base / "d").rename(base / "elsewhere")
    (base / "d").write_bytes(b"a stranger")
    with pytest.raises(RefusedError, match="another file has replaced the moved file"):
        workspace.restore_task(moved.canonical())
    assert (base / "d").read_bytes() == b"a stranger"
    assert not source.exists()
    (base / "d").unlink()
    (base / "elsewhere").rename(base / "d")
    (base / "d").write_bytes(b"edited")
    assert workspace.restore_task(moved.canonical()).status == "SUCCESS"
    assert source.read_bytes() == b"edited"


@pytest.mark.req("EI-13")
def test_a_move_is_restored_once_and_a_second_time_gives_the_same_result(
    workspace: Workspace, source: Path, base: Path
) -> None:
    moved = run(workspace, file_task("t", "FILE_MOVE", source, base / "d"))
    back = workspace.restore_task(moved.canonical())
    assert (back.status, back.task_id, back.capability_id) == ("SUCCESS", "restore-t", "FILE_MOVE")
    assert source.read_bytes() == CONTENT
    assert workspace.restore_task(moved.canonical()) == back
    with workspace.store.reading() as connection:
        rows = list(connection.rows("SELECT DISTINCT correlation_id FROM ledger_entries WHERE task_id = 'restore-t'"))
    assert rows == [("t",)]
    assert workspace.verify_ledger().holds


@pytest.mark.req("EI-13")
def test_a_deleted_file_comes_back_with_its_content_mode_and_times(workspace: Workspace, source: Path) -> None:
    before = os.stat(source)
    deleted = run(workspace, file_task("t", "FILE_DELETE", source))
    assert not source.exists()
    back = workspace.restore_task(deleted.canonical())
    assert (back.status, back.executor_id) == ("SUCCESS", "remit.file-restore")
    after = os.stat(source)
    assert source.read_bytes() == CONTENT
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


@pytest.mark.req("EI-13")
def test_a_restore_removes_a_reversible_copy_unless_another_process_changed_it(
    workspace: Workspace, source: Path, base: Path
) -> None:
    kept = run(workspace, file_task("1", "FILE_COPY", source, base / "kept"))
    gone = run(workspace, file_task("2", "FILE_COPY", source, base / "gone"))
    (base / "kept").write_bytes(b"mine now")
    with pytest.raises(RefusedError, match="changed since"):
        workspace.restore_task(kept.canonical())
    back = workspace.restore_task(gone.canonical())
    assert back.status == "SUCCESS"
    assert sorted(path.name for path in base.iterdir()) == ["kept", "source"]
    assert workspace.restore_task(gone.canonical()) == back


@pytest.mark.req("EI-13")
def test_a_task_that_was_not_requested_as_reversible_cannot_be_restored(
    workspace: Workspace, source: Path, base: Path
) -> None:
    asked = json.loads(file_task("t", "FILE_COPY", source, base / "d")) | {"constraints": {"reversible": False}}
    result = run(workspace, json.dumps(asked).encode())
    assert result.tree()["output"]["undo_metadata"] == {}
    with pytest.raises(RefusedError, match="nothing to undo"):
        workspace.restore_task(result.canonical())


def test_a_restore_that_is_in_the_way_of_a_new_file_can_be_tried_again(workspace: Workspace, source: Path) -> None:
    deleted = run(workspace, file_task("t", "FILE_DELETE", source)).canonical()
    source.write_bytes(b"a new one")
    assert "never overwritten" in refused(workspace.restore_task(deleted))
    source.unlink()
    assert workspace.restore_task(deleted).status == "SUCCESS"
    assert source.read_bytes() == CONTENT


@pytest.mark.req("EI-05")
def test_only_the_recorded_result_can_be_restored(workspace: Workspace, source: Path, base: Path) -> None:
    moved = run(workspace, file_task("t", "FILE_MOVE", source, base / "d")).tree()
    elsewhere = {**moved["output"], "undo_metadata": {"original_path": str(base / "elsewhere")}}
    for changed in ({"output": elsewhere}, {"signature": "A" * 86}):
        with pytest.raises(RefusedError) as problem:
            workspace.restore_task(json.dumps({**moved, **changed}).encode())
        assert problem.value.reason is Reason.SIGNATURE_INVALID
    other = {**moved, "task_id": "x", "output": {**moved["output"], "task_id": "x"}}
    with pytest.raises(RefusedError, match="no outcome of that task"):
        workspace.restore_task(json.dumps(other).encode())
    assert (base / "d").exists()


def test_a_result_of_a_retired_key_can_still_be_restored(workspace: Workspace, source: Path, base: Path) -> None:
    moved = run(workspace, file_task("t", "FILE_MOVE", source, base / "d")).canonical()
    workspace.rotate_key("executor")
    assert workspace.restore_task(moved).status == "SUCCESS"
    assert source.exists()
