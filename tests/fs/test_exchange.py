"""Two files that change places, and folders that come and go: in one step, following no link, and said when not."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.fs import openat as beneath
from tests.support.child_process import run_child
from tests.support.small_disks import only_root, small_disk


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "new").write_bytes(b"new")
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.req("PX-28")
def test_two_files_change_places_and_stay_the_files_they_were(folder: int, tmp_path: Path) -> None:
    numbers = [(tmp_path / name).stat().st_ino for name in ("old", "new")]
    beneath.rename_exchange(folder, "new", "old")
    assert contents(tmp_path) == {"old": b"new", "new": b"old"}
    assert [(tmp_path / name).stat().st_ino for name in ("new", "old")] == numbers
    beneath.rename_exchange(folder, "new", "old")
    assert contents(tmp_path) == {"old": b"old", "new": b"new"}


@pytest.mark.parametrize("names", [("new", "none"), ("none", "old"), ("none", "nothing")])
def test_a_missing_file_is_exchanged_with_nothing(folder: int, tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(RefusedError, match="does not exist") as caught:
        beneath.rename_exchange(folder, *names, where="shown")
    assert (caught.value.reason, caught.value.where) == (Reason.FILE_MISSING, "shown")
    assert contents(tmp_path) == {"old": b"old", "new": b"new"}


def test_a_link_is_exchanged_as_the_link_it_is(folder: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("old")
    beneath.rename_exchange(folder, "new", "link")
    assert (tmp_path / "new").is_symlink()
    assert (tmp_path / "old").read_bytes() == b"old"
    assert (tmp_path / "link").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_each_takes_the_name_of_one_file_only(folder: int, name: str) -> None:
    for attempt in (
        lambda: beneath.rename_exchange(folder, name, "old"),
        lambda: beneath.rename_exchange(folder, "old", name),
        lambda: beneath.make_folder(folder, name),
        lambda: beneath.remove_folder(folder, name),
    ):
        with pytest.raises(RefusedError) as caught:
            attempt()
        assert caught.value.reason is Reason.PATH_REFUSED


@only_root
@pytest.mark.req("PX-22")
def test_a_read_only_disk_is_reported_as_permission_denied(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        for name in ("a", "b"):
            (disk / name).write_bytes(b"")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        folder = os.open(disk, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for attempt in (
                lambda: beneath.rename_exchange(folder, "a", "b"),
                lambda: beneath.make_folder(folder, "c"),
            ):
                with pytest.raises(EnvironmentFailureError) as caught:
                    attempt()
                assert caught.value.reason is Reason.PERMISSION_DENIED
            assert not beneath.is_writable(folder)
        finally:
            os.close(folder)


def test_a_folder_is_made_once_and_its_mode_is_plain(folder: int, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert beneath.make_folder(folder, "made") is True
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o755
    (tmp_path / "made").chmod(0o700)
    assert beneath.make_folder(folder, "made") is False
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["a file", "a symbolic link"])
def test_a_folder_is_not_made_where_something_else_stands(folder: int, tmp_path: Path, kind: str) -> None:
    if kind == "a symbolic link":
        (tmp_path / "old").unlink()
        (tmp_path / "old").symlink_to(tmp_path)
    with pytest.raises(RefusedError, match=f"this is {kind}") as caught:
        beneath.make_folder(folder, "old", where="shown")
    assert (caught.value.reason, caught.value.where) == (Reason.PATH_REFUSED, "shown")


def test_a_folder_that_is_gone_takes_no_new_one(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    folder = os.open(tmp_path / "gone", os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "gone").rmdir()
    with pytest.raises(RefusedError) as caught:
        beneath.make_folder(folder, "made")
    assert caught.value.reason is Reason.FILE_MISSING
    os.close(folder)


def test_only_an_empty_folder_is_removed(folder: int, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("empty")
    removed = {name: beneath.remove_folder(folder, name) for name in ("full", "link", "old", "none", "empty")}
    assert removed == {"full": False, "link": False, "old": False, "none": False, "empty": True}
    assert sorted(os.listdir(tmp_path)) == ["full", "link", "new", "old"]
    assert (tmp_path / "full" / "file").read_bytes() == b"theirs"


MAY_WRITE = """
import os, sys
from remit.fs.openat import is_writable, open_base
pairs = [(os.open(path, os.O_RDONLY), open_base(path)) for path in sys.argv[1:]]
os.setgroups([])
os.setegid(65534)
os.seteuid(65534)
for pair in pairs:
    print(*map(is_writable, pair))
"""


@only_root
@pytest.mark.req("PX-22", "PX-34")
def test_whether_a_folder_can_be_written_to_is_decided_for_the_effective_user(tmp_path: Path) -> None:
    """By effective ids: the process was started by root and acts as nobody."""
    modes = {"open": 0o777, "closed": 0o755, "not to be entered": 0o776}
    for name, mode in modes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    ended = run_child([sys.executable, "-c", MAY_WRITE, *[str(tmp_path / name) for name in modes]])
    assert ended.output.splitlines() == ["True True", "False False", "False False"]
    folder = os.open(tmp_path / "closed", os.O_PATH)
    assert beneath.is_writable(folder)
    os.close(folder)
