"""Backups: whole, as their originals were, on the disk in few commits; and found out when they were changed."""

import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from remit.contracts.config.config import Limits
from remit.contracts.plans.rollback import Checkpoint
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.plans.steps import State
from remit.fs.paths import Located, locate_below
from remit.plans.storage import backups
from remit.plans.storage.backups import back_up_drifted, back_up_files, backup_name, open_backups, verify_backups
from remit.plans.storage.run_folder import ReportFolder
from tests.plans.storage.project import LIMITS, Done, Project, state_of
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.small_disks import only_root, sharing_disk, small_disk


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def done(project: Project) -> Done:
    project.write("a.txt", b"a before")
    project.write("b.txt", b"b before")
    return project.run_plan([("modify", "a.txt", b"a after"), ("delete", "b.txt", None), ("create", "c.txt", b"c")])


def located(project: Project, *paths: str) -> list[Located]:
    return [locate_below(project.base, path) for path in paths]


def states(project: Project, *paths: str) -> dict[int, State | None]:
    return {index: project.state(path) for index, path in enumerate(paths)}


@pytest.mark.req("PX-07")
def test_a_backup_has_bytes_permissions_and_times_and_the_rest_is_known(project: Project) -> None:
    place = project.write("deep/er/a.txt", b"content", 0o640)
    os.setxattr(place, "user.comment", b"kept \xff")
    paths = ("deep/er/a.txt", "absent")
    expected = states(project, *paths)  # which reads it
    os.utime(place, ns=(1_600_000_000_000_000_001, 1_500_000_000_000_000_003))
    with ReportFolder.make(project.base, "run") as folder:
        originals = back_up_files(located(project, *paths), expected, folder, LIMITS)
    assert set(originals) == {0}, "what is not there has no backup"
    original = originals[0]
    assert original.state == state_of(b"content", 0o640)
    assert original.owner == (place.stat().st_uid, place.stat().st_gid)
    assert (original.atime_ns, original.mtime_ns) == (1_600_000_000_000_000_001, 1_500_000_000_000_000_003)
    assert original.attributes == {"user.comment": "a2VwdCD/"}
    copy = project.root / "agent_outputs/reports/run/backups" / original.backup
    assert original.backup == "0000-a.txt.bak"
    assert copy.read_bytes() == b"content"
    assert copy.stat().st_mode & 0o7777 == 0o640
    assert copy.stat().st_mtime_ns == 1_500_000_000_000_000_003


@pytest.mark.req("PX-07")
@pytest.mark.parametrize("changed", ["content", "longer", "mode", "gone"])
def test_an_original_that_is_not_the_previewed_one_is_refused(project: Project, changed: str) -> None:
    place = project.write("a", b"previewed")
    expected = states(project, "a")
    match changed:
        case "content":
            place.write_bytes(b"Previewed")
        case "longer":
            os.truncate(place, 8 << 30)  # refused before it is copied
        case "mode":
            place.chmod(0o600)
        case _:
            place.unlink()
    with ReportFolder.make(project.base, "run") as folder, pytest.raises(RefusedError) as caught:
        back_up_files(located(project, "a"), expected, folder, LIMITS)
    assert caught.value.reason is (Reason.FILE_MISSING if changed == "gone" else Reason.HASH_MISMATCH)
    assert caught.value.where.endswith("/a")


@pytest.mark.req("PX-05")
def test_a_file_behind_a_link_is_not_copied(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_bytes(b"secret")
    (project.root / "link").symlink_to(outside)
    with ReportFolder.make(project.base, "run") as folder:
        with pytest.raises(RefusedError) as caught:
            back_up_files(located(project, "link/a"), {0: state_of(b"secret")}, folder, LIMITS)
        assert caught.value.reason is Reason.PATH_REFUSED
        assert os.listdir(folder.backups) == []


@pytest.mark.req("PX-26")
def test_too_much_is_refused_before_a_byte_is_copied(project: Project) -> None:
    project.write("a", b"x" * 600)
    project.write("b", b"y" * 600)
    both = located(project, "a", "b"), states(project, "a", "b")
    with ReportFolder.make(project.base, "run") as folder:
        for limits in (Limits(max_backup_bytes=1000), Limits(max_file_bytes=500)):
            with pytest.raises(RefusedError) as caught:
                back_up_files(*both, folder, limits)
            assert caught.value.reason is Reason.LIMIT_EXCEEDED
            assert os.listdir(folder.backups) == []
        assert len(back_up_files(*both, folder, Limits(max_backup_bytes=1200))) == 2


@pytest.mark.req("PX-18")
def test_a_database_may_be_larger_than_a_file_but_not_than_all_backups(project: Project) -> None:
    project.write("a", b"x" * 600)
    project.write("b.duckdb", b"y" * 900)
    both = located(project, "a", "b.duckdb"), states(project, "a", "b.duckdb")
    with ReportFolder.make(project.base, "run") as folder:
        for databases, limits in (
            ({1}, Limits(max_file_bytes=599)),
            ((), Limits(max_file_bytes=899)),
            ({1}, Limits(max_file_bytes=600, max_backup_bytes=1499)),
        ):
            with pytest.raises(RefusedError) as caught:
                back_up_files(*both, folder, limits, databases=databases)
            assert caught.value.reason is Reason.LIMIT_EXCEEDED
            assert os.listdir(folder.backups) == []
        limits = Limits(max_file_bytes=600, max_backup_bytes=1500)
        assert len(back_up_files(*both, folder, limits, databases={1})) == 2


@pytest.mark.req("PX-18")
def test_a_large_backup_takes_little_memory_and_one_wrong_byte_is_noticed(project: Project) -> None:
    place = project.write("a", os.urandom(8 << 20) * 8)
    expected = states(project, "a")
    tracemalloc.start()
    try:
        with ReportFolder.make(project.base, "run") as folder:
            originals = back_up_files(located(project, "a"), expected, folder, Limits(max_file_bytes=1), databases={0})
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
            copy = project.root / "agent_outputs/reports/run/backups" / originals[0].backup
            assert copy.read_bytes() == place.read_bytes()
    finally:
        tracemalloc.stop()
    with place.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    with ReportFolder.make(project.base, "again") as folder, pytest.raises(RefusedError) as caught:
        back_up_files(located(project, "a"), expected, folder, LIMITS, databases={0})
    assert caught.value.reason is Reason.HASH_MISMATCH


@only_root
@pytest.mark.skipif(shutil.which("mkfs.xfs") is None, reason="no filesystem that can share bytes can be made here")
def test_a_backup_that_shares_bytes_with_its_original_does_not_change_with_it(tmp_path: Path) -> None:
    with sharing_disk(tmp_path / "disk") as disk:
        project = Project(disk / "project")
        before = os.urandom(64 << 20)
        place = project.write("a", before)
        expected, free = states(project, "a"), os.statvfs(disk).f_bfree
        with ReportFolder.make(project.base, "run") as folder:
            originals = back_up_files(located(project, "a"), expected, folder, LIMITS, databases={0})
        assert (free - os.statvfs(disk).f_bfree) * os.statvfs(disk).f_bsize < 8 << 20
        with place.open("r+b") as file:
            file.write(b"written to since")
        copy = project.root / "agent_outputs/reports/run/backups" / originals[0].backup
        assert copy.read_bytes() == before


@pytest.mark.parametrize("limit", ["MAX_ATTRIBUTE_BYTES", "MAX_ATTRIBUTE_BYTES_OF_ALL", "MAX_ATTRIBUTES"])
def test_too_many_attributes_are_refused(project: Project, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    place = project.write("a", b"a")
    os.setxattr(place, "user.one", b"x" * 40)
    os.setxattr(place, "user.two", b"x" * 40)
    monkeypatch.setattr(backups, limit, 1)
    with ReportFolder.make(project.base, "run") as folder, pytest.raises(RefusedError, match="extended attributes"):
        back_up_files(located(project, "a"), states(project, "a"), folder, LIMITS)


@only_root
@pytest.mark.req("PX-22")
@pytest.mark.parametrize("known_to_be_full", [True, False])
def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_to_be_full: bool) -> None:  # noqa: FBT001
    with small_disk(tmp_path / "disk", "3m") as root:
        project = Project(root)
        project.write("a", b"x" * (2 << 20))
        if not known_to_be_full:
            monkeypatch.setattr(backups, "SPARE_BYTES", -(100 << 20))
        with ReportFolder.make(project.base, "run") as folder, pytest.raises(EnvironmentFailureError) as caught:
            back_up_files(located(project, "a"), states(project, "a"), folder, LIMITS)
        assert caught.value.reason is Reason.DISK_FULL
        assert ("bytes left" in caught.value.what) is known_to_be_full


def test_new_files_count_as_needed_space(project: Project) -> None:
    with ReportFolder.make(project.base, "run") as folder, pytest.raises(EnvironmentFailureError) as caught:
        back_up_files([], {}, folder, LIMITS, new_bytes=1 << 60)
    assert caught.value.reason is Reason.DISK_FULL


def test_a_file_that_changes_while_it_is_copied_is_refused(
    project: Project, done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = backups._copy_bytes  # noqa: SLF001 - the moment between reading and looking again

    def copy_bytes(source: int, copy: int, most: int) -> tuple[str, int]:
        copied = real(source, copy, most)
        with (project.root / "a.txt").open("ab") as file:
            file.write(b" and more")
        return copied

    monkeypatch.setattr(backups, "_copy_bytes", copy_bytes)
    place = locate_below(project.base, "a.txt")
    with ReportFolder.open(project.base, done.name) as folder, pytest.raises(RefusedError) as caught:
        back_up_drifted(place, folder, done.manifest.checkpoints[0], 1)
    assert caught.value.reason is Reason.HASH_MISMATCH


@pytest.mark.parametrize(
    "name, wanted",
    [("a.json", "0007-a.json.bak"), ("é" * 150, f"0007-{'é' * 100}.bak"), ("x" * 255, f"0007-{'x' * 200}.bak")],
)
def test_names_of_backups_fit_in_a_folder(name: str, wanted: str) -> None:
    assert backup_name(7, name) == wanted


@pytest.mark.req("PX-36")
def test_whole_backups_are_verified_and_opened(project: Project, done: Done) -> None:
    with ReportFolder.open(project.base, done.name) as folder:
        verify_backups(folder, done.manifest.checkpoints)
        opened = open_backups(folder, done.manifest.checkpoints)
        contents = {checkpoint_id: os.pread(fd, 100, 0) for checkpoint_id, fd in opened.items()}
        for descriptor in opened.values():
            os.close(descriptor)
    assert contents == {done.checkpoint("a.txt"): b"a before", done.checkpoint("b.txt"): b"b before"}


def damage(backup: Path, how: str) -> None:
    match how:
        case "changed":
            backup.write_bytes(b"A before")
        case "longer":
            backup.write_bytes(b"a before and more")
        case "link":
            backup.rename(backup.with_name("moved"))
            backup.symlink_to("moved")
        case "second name":
            os.link(backup, backup.with_name("second"))
        case "folder":
            backup.unlink()
            backup.mkdir()
        case _:
            backup.unlink()


@pytest.mark.req("PX-36")
@pytest.mark.parametrize("how", ["changed", "longer", "link", "second name", "folder", "gone"])
@pytest.mark.parametrize("check", [verify_backups, open_backups])
def test_a_damaged_backup_is_found(project: Project, done: Done, how: str, check: object) -> None:
    damage(project.report(done) / "backups/0000-a.txt.bak", how)
    wanted = Reason.BACKUP_MISSING if how == "gone" else Reason.BACKUP_DAMAGED
    with ReportFolder.open(project.base, done.name) as folder, pytest.raises(RemitError) as caught:
        verify_backups(folder, done.manifest.checkpoints) if check is verify_backups else open_backups(
            folder, done.manifest.checkpoints
        )
    if check is verify_backups:
        assert caught.value.reason is wanted
    assert "0000-a.txt.bak" in caught.value.where


def test_every_unusable_backup_is_named(project: Project, done: Done) -> None:
    for backup in (project.report(done) / "backups").iterdir():
        backup.write_bytes(b"x")
    with ReportFolder.open(project.base, done.name) as folder, pytest.raises(RefusedError) as caught:
        verify_backups(folder, done.manifest.checkpoints)
    assert "0000-a.txt.bak" in caught.value.where
    assert "0001-b.txt.bak" in caught.value.where


def test_a_manifest_cannot_name_a_backup_outside_of_its_folder(project: Project, done: Done) -> None:
    checkpoint = done.manifest.checkpoints[0]
    for elsewhere in (
        "a.txt",
        f"{done.manifest.auto_rollback_script}",
        "agent_outputs/reports/x/backups/0000-a.txt.bak",
    ):
        forged = Checkpoint.model_validate({**dict(checkpoint), "backup_location": elsewhere})
        with ReportFolder.open(project.base, done.name) as folder, pytest.raises(RemitError) as caught:
            verify_backups(folder, [forged])
        assert caught.value.reason is Reason.BACKUP_MISSING


@pytest.mark.req("PX-16")
def test_the_drifted_content_of_a_file_is_kept_beside_the_backups(project: Project, done: Done) -> None:
    project.write("a.txt", b"somebody's")
    checkpoint = next(c for c in done.manifest.checkpoints if c.file_path == "a.txt")
    with ReportFolder.open(project.base, done.name) as folder:
        place = back_up_drifted(locate_below(project.base, "a.txt"), folder, checkpoint, 1)
        assert (project.root / place).read_bytes() == b"somebody's"
        assert place.endswith("/backups/0000-a.txt.drifted-1.bak")
        with pytest.raises(RemitError):
            back_up_drifted(locate_below(project.base, "a.txt"), folder, checkpoint, 1)


CHILD = """
import sys
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from tests.support.child_process import acknowledge
from tests.plans.storage.project import Project
project = Project(Path(sys.argv[1]))
done = project.run_plan([("modify", f"f{n}", b"new") for n in range(int(sys.argv[2]))])
acknowledge(done.name)
"""


@pytest.mark.req("PX-07", "PX-28")
@pytest.mark.parametrize("point", ["backup.folder_made", "backup.copied", "durable.synced", "backup.manifest_written"])
def test_a_kill_before_the_first_change_leaves_the_project_as_it_was(project: Project, point: str) -> None:
    for number in range(2):
        project.write(f"f{number}", b"old")
    before = project.tree()
    command = [preloaded.python(), "-c", CHILD, project.base, "2", os.getcwd()]
    ended = run_child(command, fault=Fault(point))
    assert ended.killed
    assert ended.acknowledged == ()
    assert project.tree() == before
    assert run_child(command).acknowledged, "and the next one succeeds"


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.req("PX-07")
def test_a_hundred_backups_are_begun_together_and_then_each_is_synced(project: Project, tmp_path: Path) -> None:
    """One commit of the disk's journal serves them all if nothing is written between the first fsync and the last."""
    for number in range(100):
        project.write(f"f{number}", b"x" * 10_000)
    log = tmp_path / "calls"
    tracer = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range,write", "-y", "-o", str(log)]
    child = CHILD.replace("acknowledge(done.name)", "")
    subprocess.run([*tracer, sys.executable, "-c", child, project.base, "100", os.getcwd()], check=True)
    calls = [line.split(None, 1)[1] for line in log.read_text().splitlines()]
    kinds = [
        call.partition("(")[0] + (" backup" if ".bak>" in call else " other")
        for call in calls
        if "agent_outputs" in call or call.startswith("fsync")
    ]
    assert kinds.count("fsync backup") == 100
    first = kinds.index("fsync backup")
    last = len(kinds) - 1 - kinds[::-1].index("fsync backup")
    assert set(kinds[first : last + 1]) <= {"fsync backup", "fsync other"}, (
        "nothing new becomes dirty between the syncs"
    )
    assert kinds[:first].count("sync_file_range backup") >= 100, "and all of it was on its way before the first"
    assert kinds[first:].count("fsync other") <= 9  # backups; manifest, script, folder; reports and those above it
