"""FILE_DELETE with its snapshot, and FILE_RESTORE, which gives the file back."""

import os
from pathlib import Path

import pytest

from remit.contracts.base import Contract
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.effects.context import EffectContext
from remit.effects.tasks.capabilities import CAPABILITIES, FILE_EXECUTOR, RESTORE_EXECUTOR
from remit.effects.tasks.file_steps import require_ready
from remit.effects.tasks.files import DELETE
from remit.effects.tasks.restore import RESTORE
from remit.fs.openat import FileIdentity
from tests.effects.tasks.task_folder import DECLARED, Place, world
from tests.support.small_disks import only_root

TIME = 1_500_000_000_123_456_789


@pytest.mark.req("FX-01")
def test_the_file_executor_has_three_capabilities_and_the_restorer_one() -> None:
    by_executor: dict[str, set[str]] = {}
    for capability in CAPABILITIES:
        by_executor.setdefault(capability.executor_id, set()).add(capability.capability_id)
    assert by_executor == {
        FILE_EXECUTOR: {"FILE_MOVE", "FILE_COPY", "FILE_DELETE"},
        RESTORE_EXECUTOR: {"FILE_RESTORE"},
    }
    assert DECLARED["FILE_DELETE"].must_be_reversible
    assert not any(capability.network for capability in CAPABILITIES)


@pytest.mark.req("FX-08", "FX-09", "FX-10", "EI-13")
def test_a_deleted_file_comes_back_with_content_mode_times_and_attributes(place: Place) -> None:
    content = os.urandom(100_000)
    source = place.file("deep/folder/a", content, 0o640)
    os.setxattr(source, "user.comment", b"kept")
    os.utime(source, ns=(TIME, TIME + 1))
    output = place.run("FILE_DELETE", source_path=source)
    assert not source.exists()
    assert world(source.parent) == {}
    assert output["result_summary"] == {"source": str(source), "destination": None}
    recovery = output["undo_metadata"]["recovery"]

    back = place.run("FILE_RESTORE", recovery=recovery, destination_path=source)
    found = source.stat()
    assert (found.st_mode & 0o7777, found.st_atime_ns, found.st_mtime_ns) == (0o640, TIME, TIME + 1)
    assert (source.read_bytes(), os.getxattr(source, "user.comment")) == (content, b"kept")
    assert back == {
        "result_summary": {"source": recovery, "destination": str(source)},
        "undo_metadata": {},
    }


@only_root
@pytest.mark.req("FX-08")
def test_the_owner_is_restored_and_with_it_the_right_to_run_as_the_owner(place: Place) -> None:
    source = place.file("a", b"program")
    os.chown(source, 12345, 54321)
    source.chmod(0o4755)
    recovery = place.run("FILE_DELETE", source_path=source)["undo_metadata"]["recovery"]
    place.run("FILE_RESTORE", recovery=recovery, destination_path=source)
    found = source.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (12345, 54321, 0o4755)


def test_a_file_whose_owner_cannot_be_restored_is_restored_without_the_right_to_run_as_the_owner(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = place.file("a", b"program", 0o4755)
    recovery = place.run("FILE_DELETE", source_path=source)["undo_metadata"]["recovery"]

    def refuse(*_: object) -> None:
        raise PermissionError(1, "not yours to give")

    monkeypatch.setattr(os, "fchown", refuse)
    place.run("FILE_RESTORE", recovery=recovery, destination_path=source)
    assert (source.read_bytes(), source.stat().st_mode & 0o7777) == (b"program", 0o755)


@pytest.mark.req("FX-14")
@pytest.mark.parametrize("lacking", ["snapshot", "reversible"])
def test_no_snapshot_no_delete(place: Place, lacking: str) -> None:
    source = place.file("a")
    work = place.prepare("FILE_DELETE", source_path=source)
    work = work._replace(checkpoint={}) if lacking == "snapshot" else work._replace(reversible=False)
    with pytest.raises(RefusedError, match="only if the task is reversible and a snapshot of the file is kept"):
        DELETE.run(work)
    assert source.exists()


@pytest.mark.req("FX-03", "FX-14")
@pytest.mark.parametrize("meanwhile", ["rewritten", "same bytes, new file", "mode"])
def test_a_file_that_is_not_the_one_in_the_snapshot_is_not_deleted(place: Place, meanwhile: str) -> None:
    source = place.file("a", b"kept")
    work = place.prepare("FILE_DELETE", source_path=source)
    match meanwhile:
        case "rewritten":
            source.write_bytes(b"new!")
        case "mode":
            source.chmod(0o600)
        case _:
            _save_anew(source, b"kept")
    was = world(place.here)
    with pytest.raises(RefusedError, match="changed or replaced"):
        DELETE.run(work)
    assert world(place.here) == was


@pytest.mark.req("FX-14")
def test_what_an_editor_saves_in_the_instant_of_the_delete_is_not_lost(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = place.file("a", b"kept")
    work = place.prepare("FILE_DELETE", source_path=source)

    def then_save(work: EffectContext) -> FileIdentity:
        before = require_ready(work)
        _save_anew(source, b"saved")
        return before

    monkeypatch.setattr("remit.effects.tasks.files.require_ready", then_save)
    with pytest.raises(RefusedError, match="changed or replaced"):
        DELETE.run(work)
    assert source.read_bytes() == b"saved"
    assert [*place.here.iterdir()] == [source]


@pytest.mark.req("FX-08", "FX-03")
def test_a_restore_never_overwrites(place: Place) -> None:
    source = place.file("a", b"first")
    recovery = place.run("FILE_DELETE", source_path=source)["undo_metadata"]["recovery"]
    inputs = {"recovery": recovery, "destination_path": str(source)}
    work = place.work("FILE_RESTORE", inputs, {}, {})
    source.write_bytes(b"second")
    with pytest.raises(RefusedError, match="never overwritten"):
        RESTORE.run(work)
    assert source.read_bytes() == b"second"


@pytest.mark.req("FX-08")
def test_one_snapshot_can_be_restored_to_many_places(place: Place) -> None:
    source = place.file("a", b"again and again")
    recovery = place.run("FILE_DELETE", source_path=source)["undo_metadata"]["recovery"]
    for name in ("a", "b", "c"):
        place.run("FILE_RESTORE", recovery=recovery, destination_path=place.there / name)
    assert {path.read_bytes() for path in place.there.iterdir()} == {b"again and again"}


def test_a_snapshot_that_is_damaged_before_the_restore_is_not_restored(place: Place) -> None:
    source = place.file("a", b"good")
    recovery = place.run("FILE_DELETE", source_path=source)["undo_metadata"]["recovery"]
    work = place.work("FILE_RESTORE", {"recovery": recovery, "destination_path": str(source)}, {}, {})
    [content] = place.snapshots.glob("*/content")
    content.write_bytes(b"evil")
    with pytest.raises(EnvironmentFailureError) as caught:
        RESTORE.run(work)
    assert caught.value.reason is Reason.EFFECT_FAILED
    assert world(place.here) == {}


def test_a_host_that_omits_what_the_restore_needs_gets_a_usage_error(place: Place) -> None:
    source = place.file("a")
    recovery = place.run("FILE_DELETE", source_path=source)["undo_metadata"]["recovery"]
    work = place.work("FILE_RESTORE", {"recovery": recovery, "destination_path": str(source)}, {}, {})
    with pytest.raises(UsageError, match="meta"):
        RESTORE.run(work._replace(checkpoint={}))


@pytest.mark.req("FX-10")
def test_each_output_fits_the_contract_that_its_capability_declares(place: Place) -> None:
    a, b = place.file("a"), place.there / "b"
    outputs = {"FILE_COPY": place.run("FILE_COPY", source_path=a, destination_path=b)}
    outputs["FILE_MOVE"] = place.run("FILE_MOVE", source_path=a, destination_path=place.there / "c")
    outputs["FILE_DELETE"] = place.run("FILE_DELETE", source_path=b)
    recovery = outputs["FILE_DELETE"]["undo_metadata"]["recovery"]
    outputs["FILE_RESTORE"] = place.run("FILE_RESTORE", recovery=recovery, destination_path=b)
    for capability_id, output in outputs.items():
        tree = {"task_id": "t-1", "capability_id": capability_id, **output}
        closed = DECLARED[capability_id].output.from_tree(tree)
        assert isinstance(closed, Contract)
        assert closed.tree() == tree


def _save_anew(path: Path, content: bytes) -> None:
    new = path.with_name("new")
    new.write_bytes(content)
    new.chmod(path.stat().st_mode & 0o7777)
    new.rename(path)
