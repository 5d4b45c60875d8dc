"""What is opened, and what is refused: links, mount points, other kinds of file, hard links, and what is not there."""

import errno
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.canonical import canonical_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.fs import openat as beneath
from remit.fs.openat import FileIdentity
from tests.support.patience import SOON
from tests.support.small_disks import only_root, small_disk


@pytest.fixture
def base(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_bytes(b"bytes")
    descriptor = beneath.open_base(str(tmp_path))
    yield descriptor
    os.close(descriptor)


def _open(base: int, path: tuple[str, ...]) -> None:
    folder = beneath.open_folder(base, path[:-1], where="/shown")
    try:
        os.close(beneath.open_file(folder, path[-1], where="/shown"))
    finally:
        os.close(folder)


def refusal(base: int, *path: str) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        _open(base, path)
    assert caught.value.where == "/shown"
    assert caught.value.next_step
    return caught.value


@pytest.mark.req("FX-02")
def test_a_regular_file_is_opened_for_reading_and_its_folder_can_be_synced(base: int) -> None:
    folder = beneath.open_folder(base, ["sub"])
    descriptor = beneath.open_file(folder, "file")
    assert os.read(descriptor, 100) == b"bytes"
    os.fsync(folder)
    assert beneath.identify(descriptor) == beneath.inspect_file(folder, "file")
    assert not os.get_inheritable(folder)
    assert not os.get_inheritable(descriptor)
    os.close(descriptor)
    os.close(folder)


@pytest.mark.req("FX-05")
@pytest.mark.parametrize("target", ["sub/file", "../outside", "/etc/passwd", "nowhere", "link"])
def test_a_link_is_refused_wherever_it_leads(base: int, tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(target)
    assert "symbolic link" in refusal(base, "link").what


@pytest.mark.req("FX-05")
@pytest.mark.parametrize("target", ["sub", "..", "/etc", "/proc/self/root"])
def test_a_link_in_the_middle_is_refused(base: int, tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(target)
    assert "symbolic link" in refusal(base, "link", "passwd").what


@pytest.mark.req("FX-05")
def test_a_base_behind_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(RefusedError, match="symbolic link"):
        beneath.open_base(str(tmp_path / "link"))


@pytest.mark.req("FX-02")
@pytest.mark.parametrize(
    "kind", ["a FIFO", "a socket", "a directory", pytest.param("a character device", marks=only_root)]
)
def test_only_regular_files_are_opened_and_nothing_waits_or_wakes(
    base: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "odd"
    match kind:
        case "a FIFO":
            os.mkfifo(path)
        case "a socket":
            monkeypatch.chdir(tmp_path)  # the path of a socket may have 107 bytes only
            with socket.socket(socket.AF_UNIX) as end:
                end.bind("odd")
        case "a directory":
            path.mkdir()
        case _:
            os.mknod(path, 0o20666, os.makedev(1, 5))
    start = time.monotonic()
    refused = refusal(base, "odd")
    assert (refused.reason, kind in refused.what) == (Reason.PATH_REFUSED, True)
    assert time.monotonic() - start < SOON


@pytest.mark.req("FX-02")
def test_a_file_with_a_second_name_is_refused(base: int, tmp_path: Path) -> None:
    os.link(tmp_path / "sub" / "file", tmp_path / "hard")
    assert "exactly one hard link" in refusal(base, "hard").what


@only_root
@pytest.mark.req("FX-05")
def test_a_mount_point_inside_a_base_is_refused(base: int, tmp_path: Path) -> None:
    with small_disk(tmp_path / "mounted", "64k") as disk:
        (disk / "file").write_bytes(b"elsewhere")
        assert "mount point" in refusal(base, "mounted", "file").what
    (tmp_path / "over").write_bytes(b"below")
    subprocess.run(["mount", "--bind", str(tmp_path / "sub" / "file"), str(tmp_path / "over")], check=True)
    try:
        assert "mount point" in refusal(base, "over").what
    finally:
        subprocess.run(["umount", str(tmp_path / "over")], check=True)


@pytest.mark.parametrize("path", [("none",), ("none", "file"), ("sub", "none")])
def test_a_missing_path_is_reported_as_missing(base: int, path: tuple[str, ...]) -> None:
    refused = refusal(base, *path)
    assert (refused.reason, "does not exist" in refused.what) == (Reason.FILE_MISSING, True)


@pytest.mark.parametrize(
    "path", [("..", "x"), ("sub/..", "x"), ("/etc", "passwd"), ("sub", "a/b"), ("sub", ".."), ("",)]
)
def test_a_component_is_one_name(base: int, path: tuple[str, ...]) -> None:
    assert refusal(base, *path).reason is Reason.PATH_REFUSED


def test_a_file_where_a_folder_is_due_is_refused(base: int) -> None:
    assert "not a directory" in refusal(base, "sub", "file", "x").what


@pytest.mark.req("FX-03")
@pytest.mark.parametrize("taken", ["file", "folder", "dangling link"])
def test_a_rename_never_replaces(base: int, tmp_path: Path, taken: str) -> None:
    new = tmp_path / "new"
    match taken:
        case "file":
            new.write_bytes(b"theirs")
        case "folder":
            new.mkdir()
        case _:
            new.symlink_to("nowhere")
    inode = new.lstat().st_ino
    folder = beneath.open_folder(base, ["sub"])
    with pytest.raises(RefusedError, match="never overwritten"):
        beneath.rename_noreplace(folder, "file", base, "new")
    assert new.lstat().st_ino == inode
    new.rename(tmp_path / "away")
    beneath.rename_noreplace(folder, "file", base, "new")
    assert new.read_bytes() == b"bytes"
    assert not beneath.exists(folder, "file")
    with pytest.raises(RefusedError, match="does not exist"):
        beneath.rename_noreplace(folder, "file", base, "newer")
    os.close(folder)


@only_root
def test_a_rename_between_filesystems_raises_an_error_of_its_own(base: int, tmp_path: Path) -> None:
    with small_disk(tmp_path / "mounted", "64k") as disk:
        other = beneath.open_base(str(disk))
        folder = beneath.open_folder(base, ["sub"])
        with pytest.raises(beneath.OtherFilesystemError):
            beneath.rename_noreplace(folder, "file", other, "file")
        os.close(other)
        os.close(folder)
    assert (tmp_path / "sub" / "file").exists()


@pytest.mark.parametrize(
    "code, reason",
    [
        (errno.ENOSPC, Reason.DISK_FULL),
        (errno.EDQUOT, Reason.DISK_FULL),
        (errno.EACCES, Reason.PERMISSION_DENIED),
        (errno.EPERM, Reason.PERMISSION_DENIED),
        (errno.EROFS, Reason.PERMISSION_DENIED),
        (errno.EIO, Reason.EFFECT_FAILED),
    ],
)
def test_a_failed_call_is_one_of_our_errors(code: int, reason: Reason) -> None:
    error = beneath.failure(OSError(code, "x"), "/a", "could not be made")
    assert isinstance(error, EnvironmentFailureError)
    assert (error.reason, error.where, bool(error.next_step)) == (reason, "/a", True)


WIDE = st.integers(0, 2**64 - 1)
TIMES = st.integers(-(2**62), 2**62)


@given(st.builds(FileIdentity, WIDE, WIDE, st.integers(0, 2**63 - 1), TIMES, TIMES, *[WIDE] * 4, TIMES, WIDE))
def test_an_identity_survives_canonical_json(identity: FileIdentity) -> None:
    halves = identity.as_json()
    assert canonical_bytes(halves)
    assert tuple(FileIdentity.from_json(halves)) == tuple(identity)


def test_an_identity_tells_file_and_content_apart(base: int, tmp_path: Path) -> None:
    folder = beneath.open_folder(base, ["sub"])
    seen = beneath.inspect_file(folder, "file")
    (tmp_path / "sub" / "file").chmod(0o600)
    assert beneath.inspect_file(folder, "file").has_content_of(seen)
    assert beneath.inspect_file(folder, "file") != seen
    (tmp_path / "sub" / "file").write_bytes(b"other bytes")
    assert beneath.inspect_file(folder, "file").is_file(seen)
    assert not beneath.inspect_file(folder, "file").has_content_of(seen)
    os.close(folder)
