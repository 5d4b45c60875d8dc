"""A file is known by when it was made, too, wherever that can be told."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.fs import openat as beneath
from remit.fs import statx
from tests.support.small_disks import only_root


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(b"some bytes")
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize("kind", ["file", "link", "folder", "FIFO"])
def test_it_says_what_stat_says_and_when_the_file_was_made(tmp_path: Path, folder: int, kind: str) -> None:
    path = tmp_path / kind
    match kind:
        case "link":
            path.symlink_to("nowhere")
        case "folder":
            path.mkdir()
        case "FIFO":
            os.mkfifo(path)
    found, told = path.lstat(), statx.stat_with_birth(folder, kind)
    assert told[:5] == (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    assert told[5:9] == (found.st_mode, found.st_uid, found.st_gid, found.st_nlink)
    assert 0 < told[9] <= found.st_ctime_ns
    opened = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        assert statx.stat_with_birth(opened) == told
    finally:
        os.close(opened)


def test_a_time_before_1970_is_reported_as_stat_reports_it(tmp_path: Path, folder: int) -> None:
    os.utime(tmp_path / "file", ns=(0, -1_500_000_000))
    assert statx.stat_with_birth(folder, "file")[3] == (tmp_path / "file").stat().st_mtime_ns == -1_500_000_000


def test_a_name_that_nothing_has_is_an_error_of_the_system(folder: int) -> None:
    with pytest.raises(FileNotFoundError):
        statx.stat_with_birth(folder, "nothing")


@pytest.mark.parametrize("number", [-1, 100_000])
def test_without_the_system_call_all_but_the_birth_is_reported(
    folder: int, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A machine whose number for it is not known, and a kernel that does not know the number."""
    told = statx.stat_with_birth(folder, "file")
    opened = os.open("file", os.O_RDONLY, dir_fd=folder)
    monkeypatch.setattr(statx, "_STATX", number)
    try:
        assert statx.stat_with_birth(folder, "file") == statx.stat_with_birth(opened) == (*told[:9], 0)
    finally:
        os.close(opened)


def test_a_birth_time_that_only_one_inspection_knows_does_not_make_two_files_of_one(folder: int) -> None:
    seen = beneath.inspect_file(folder, "file")
    assert seen.birth_ns > 0
    assert seen.is_file(seen._replace(birth_ns=0))
    assert seen._replace(birth_ns=0).is_file(seen)
    assert not seen.is_file(seen._replace(birth_ns=seen.birth_ns + 1))


@only_root
def test_a_file_of_a_lower_layer_stays_the_same_file_when_it_is_renamed(tmp_path: Path) -> None:
    """It is copied up then: born again, with the number it had."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    (tmp_path / "lower" / "file").write_bytes(b"some bytes")
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    merged = tmp_path / "merged"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(merged)], check=True)
    folder = os.open(merged, os.O_RDONLY | os.O_DIRECTORY)
    try:
        before = beneath.inspect_file(folder, "file")
        beneath.rename_noreplace(folder, "file", folder, "moved")
        assert beneath.inspect_file(folder, "moved").has_content_of(before)
    finally:
        os.close(folder)
        subprocess.run(["umount", "--lazy", str(merged)], check=True)
