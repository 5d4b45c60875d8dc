"""The report folder: made beneath the root, never behind a link, durable, and gone again when nothing came of it."""

import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.plans.storage import run_folder as outputs
from remit.plans.storage.run_folder import ReportFolder, folder_name, list_reports
from tests.support.small_disks import only_root, small_disk

AT = datetime(2026, 11, 15, 15, 45, 1, 123456, UTC)


def test_a_name_has_the_time_in_utc_and_the_id() -> None:
    local = AT.astimezone(timezone(timedelta(hours=5)))
    assert folder_name(local, "envelope-1") == "20261115T154501.123456Z_envelope-1"


@pytest.mark.parametrize("wild", ["../../etc", "a/b", "a\nb", "é", "x" * 200, ".."])
def test_a_wild_id_becomes_one_plain_name_that_no_other_id_has(wild: str) -> None:
    name = folder_name(AT, wild)
    assert "/" not in name
    assert name.isascii()
    assert len(name) < 150
    assert name != folder_name(AT, wild + "!")


@pytest.mark.req("PX-12")
def test_reports_are_where_the_spec_says_and_only_their_owner_can_read_them(tmp_path: Path) -> None:
    with ReportFolder.make(str(tmp_path), "run") as folder:
        folder.write({"execution_report.json": b"{}\n"})
        assert folder.location("execution_report.json") == "agent_outputs/reports/run/execution_report.json"
        assert folder.read("execution_report.json") == b"{}\n"
        assert folder.read("change_log.json") is None
    paper = tmp_path / "agent_outputs/reports/run/execution_report.json"
    assert paper.read_bytes() == b"{}\n"
    assert paper.stat().st_mode & 0o777 == 0o600  # a diff quotes files that may be closed to others
    assert (paper.parent / "backups").stat().st_mode & 0o777 == 0o700, "a backup is for nobody but its owner"
    assert (tmp_path / "agent_outputs/.gitignore").read_text() == "*\n"


@pytest.mark.req("PX-07")
def test_the_folder_and_every_new_one_above_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with ReportFolder.make(str(tmp_path), "one") as folder:
        folder.write({"a": b"a"})
        below = [str(tmp_path), *(str(tmp_path / p) for p in ("agent_outputs", "agent_outputs/reports"))]
        assert set(below) | {str(tmp_path / "agent_outputs/reports/one")} <= set(synced)
        synced.clear()
        folder.write({"b": b"b"})
        assert str(tmp_path) not in synced, "once is enough"


@pytest.mark.req("PX-05")
@pytest.mark.parametrize("planted", ["agent_outputs", "agent_outputs/reports"])
def test_a_planted_link_is_refused_and_nothing_is_written_behind_it(tmp_path: Path, planted: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / planted).parent.mkdir(parents=True)
    (root / planted).symlink_to(outside)
    with pytest.raises(RefusedError) as caught:
        ReportFolder.make(str(root), "run")
    assert caught.value.reason is Reason.PATH_REFUSED
    assert list(outside.iterdir()) == []
    with pytest.raises(RefusedError):
        ReportFolder.open(str(root), "run")


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agent_outputs").write_text("mine")
    with pytest.raises(RefusedError, match="a folder is needed here"):
        ReportFolder.make(str(tmp_path), "run")


def test_a_folder_of_that_name_is_never_taken_over(tmp_path: Path) -> None:
    ReportFolder.make(str(tmp_path), "run").close()
    with pytest.raises(RefusedError, match="never overwritten"):
        ReportFolder.make(str(tmp_path), "run")


@pytest.mark.parametrize("name", ["..", "a/b", "", "../../x"])
def test_a_name_that_leads_out_of_the_reports_is_refused(tmp_path: Path, name: str) -> None:
    ReportFolder.make(str(tmp_path), "run").close()
    for way in (ReportFolder.make, ReportFolder.open):
        with pytest.raises(RemitError):
            way(str(tmp_path), name)
    assert list_reports(str(tmp_path)) == ["run"]


def test_a_lost_folder_is_reported_as_lost(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailureError) as caught:
        ReportFolder.open(str(tmp_path), "run")
    assert caught.value.reason is Reason.STATE_MISSING


def test_lost_backups_are_reported_as_lost(tmp_path: Path) -> None:
    ReportFolder.make(str(tmp_path), "run").close()
    (tmp_path / "agent_outputs/reports/run/backups").rmdir()
    with ReportFolder.open(str(tmp_path), "run") as folder, pytest.raises(RefusedError) as caught:
        _ = folder.backups
    assert caught.value.reason is Reason.BACKUP_MISSING


@pytest.mark.parametrize("opened_again", [True, False])
def test_what_is_discarded_is_gone_and_its_neighbours_are_not(tmp_path: Path, opened_again: bool) -> None:  # noqa: FBT001
    ReportFolder.make(str(tmp_path), "other").close()
    made = ReportFolder.make(str(tmp_path), "run")
    if opened_again:
        made.close()
        made = ReportFolder.open(str(tmp_path), "run")
    with made as folder:
        (tmp_path / "agent_outputs/reports/run/backups/0000-a.bak").write_bytes(b"a")
        folder.discard()
    assert list_reports(str(tmp_path)) == ["other"]


def test_reports_are_listed_newest_first_without_leftovers(tmp_path: Path) -> None:
    assert list_reports(str(tmp_path)) == []
    for name in ("20260101T000000.000000Z_a", "20260102T000000.000000Z_a", ".pruned-x"):
        ReportFolder.make(str(tmp_path), name).close()
    assert list_reports(str(tmp_path)) == ["20260102T000000.000000Z_a", "20260101T000000.000000Z_a"]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = count()
    with ReportFolder.make(str(tmp_path), "run") as folder:
        folder.write({"a": b"a"})
        _ = folder.backups
    with ReportFolder.make(str(tmp_path), "second") as folder:
        folder.discard()
    with pytest.raises(RefusedError):
        ReportFolder.make(str(tmp_path), "run")
    list_reports(str(tmp_path))
    (tmp_path / "agent_outputs/reports/link").symlink_to("run")
    with pytest.raises(RefusedError):
        ReportFolder.open(str(tmp_path), "link")
    assert count() == before


@only_root
@pytest.mark.req("PX-22")
def test_a_full_disk_is_named_and_the_old_report_stays_whole(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as root, ReportFolder.make(str(root), "run") as folder:
        folder.write({"a": b"old"})
        with pytest.raises(EnvironmentFailureError) as caught:
            folder.write({"a": b"x" * (1 << 20)})
        assert caught.value.reason is Reason.DISK_FULL
        assert folder.read("a") == b"old"
        assert os.listdir(folder.descriptor).count("a") == 1
        assert not [name for name in os.listdir(folder.descriptor) if name.endswith(".tmp")]


def test_reports_are_read_up_to_a_limit_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MAX_REPORT_BYTES", 10)
    with ReportFolder.make(str(tmp_path), "run") as folder:
        folder.write({"a": b"x" * 100})
        assert folder.read("a") == b"x" * 10
