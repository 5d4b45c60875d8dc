"""Durable files: all of the new bytes or all of the old ones, and an error when neither can be promised."""

import errno
import os
import queue
import re
import shutil
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.fs.atomic_write import make_private_directory, start_writing, write_durably
from remit.fs.overlapped import overlap, sync_all, write_together
from tests.support.child_process import Fault, run_child
from tests.support.small_disks import only_root, small_disk


def left_overs(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.tmp")]


def test_a_new_file_has_its_bytes_and_is_private(tmp_path: Path) -> None:
    write_durably(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_the_mode_is_the_one_asked_for_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_durably(tmp_path / "file", b"x", mode=0o640)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_a_reader_sees_the_old_file_or_the_new_one_never_a_mixture(tmp_path: Path) -> None:
    path, stop = tmp_path / "file", threading.Event()
    versions = [bytes([number]) * 100_000 for number in range(40)]
    write_durably(path, versions[0])
    seen: set[bytes] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        for version in versions:
            write_durably(path, version)
        stop.set()
        reader.result()
    assert seen <= set(versions)


def test_an_existing_file_is_kept_when_it_must_not_be_replaced(tmp_path: Path) -> None:
    write_durably(tmp_path / "file", b"old", replace=False)
    with pytest.raises(EnvironmentFailureError, match="File exists"):
        write_durably(tmp_path / "file", b"new", replace=False)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_of_many_who_create_one_file_exactly_one_succeeds(tmp_path: Path) -> None:
    def create(number: int) -> bool:
        try:
            write_durably(tmp_path / "file", str(number).encode(), replace=False)
        except EnvironmentFailureError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(32)))
    assert won.count(True) == 1
    assert (tmp_path / "file").read_bytes() == str(won.index(True)).encode()
    assert (tmp_path / "file").stat().st_nlink == 1
    assert left_overs(tmp_path) == []


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_bytes(b"mine")
    link.symlink_to(victim)
    write_durably(link, b"new")
    assert victim.read_bytes() == b"mine"
    assert not link.is_symlink()


def test_a_missing_folder_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailureError, match="No such file or directory") as failed:
        write_durably(tmp_path / "nowhere" / "file", b"x")
    assert failed.value.reason is Reason.STATE_UNSAFE
    assert failed.value.where == str(tmp_path / "nowhere" / "file")


@only_root
@pytest.mark.parametrize("size", [1, 10, 100])
def test_a_full_disk_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path, size: int) -> None:
    with small_disk(tmp_path / "small", "64k") as disk:
        write_durably(disk / "file", b"old" * 1_000)
        with pytest.raises(EnvironmentFailureError, match="is full") as failed:
            write_durably(disk / "file", b"n" * 65_536 * size)
        assert failed.value.reason is Reason.DISK_FULL
        assert "Free some space" in failed.value.next_step
        assert (disk / "file").read_bytes() == b"old" * 1_000
        assert os.listdir(disk) == ["file"]
        write_durably(disk / "file", b"new" * 1_000)
        assert (disk / "file").read_bytes() == b"new" * 1_000


SHORT_WRITE = """
import os, resource, signal, sys
from pathlib import Path
from remit.fs.atomic_write import write_durably
from remit.core.errors import EnvironmentFailureError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
folder = Path(sys.argv[1])
with open(folder / "naive", "wb", buffering=0) as naive:
    print("one write took", naive.write(b"x" * 150_000))
try:
    write_durably(folder / "file", b"x" * 150_000)
except EnvironmentFailureError as failed:
    print("refused:", failed)
"""


def test_a_short_write_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    """The limit makes the kernel take a part and say so without an error, as a disk that fills up does."""
    (tmp_path / "file").write_bytes(b"old")
    ended = run_child([sys.executable, "-c", SHORT_WRITE, str(tmp_path)])
    first, second = ended.output.splitlines()
    assert first == "one write took 100000"
    assert second.startswith("refused: could not write a file: File too large")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert left_overs(tmp_path) == []


WRITE = """
import sys
from pathlib import Path
from remit.fs.atomic_write import write_durably
write_durably(Path(sys.argv[1]), b"new", replace=sys.argv[2] == "replace")
"""


@pytest.mark.parametrize("point, content", [("written", b"old"), ("synced", b"old"), ("renamed", b"new")])
def test_an_error_is_reported_and_leaves_one_whole_file(tmp_path: Path, point: str, content: bytes) -> None:
    (tmp_path / "file").write_bytes(b"old")
    fault = Fault(f"durable.{point}", action="error")
    ended = run_child([sys.executable, "-c", WRITE, str(tmp_path / "file"), "replace"], fault=fault)
    assert ended.exit_code == 1
    assert "EnvironmentFailureError: could not write a file: the disk, or a quota on it, is full" in ended.output
    assert (tmp_path / "file").read_bytes() == content
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("how", ["replace", "create"])
def test_bytes_reach_the_disk_before_the_name_and_the_name_before_the_return(tmp_path: Path, how: str) -> None:
    """What no killed process can show: the order of write, fsync, rename and the fsync of the folder."""
    assert shutil.which("strace"), "strace is not installed; on Debian: apt-get install strace"
    calls = "trace=openat,write,fsync,rename,renameat2,link,unlink"
    log = tmp_path / "log"
    target = tmp_path / "folder" / "file"
    target.parent.mkdir()
    strace = ["strace", "-o", str(log), "-y", "-e", calls, sys.executable, "-c", WRITE, str(target), how]
    source = Path(write_durably.__code__.co_filename).parents[2]
    subprocess.run(strace, check=True, env={"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"})
    lines = [line for line in log.read_text().splitlines() if str(target.parent) in line]
    steps = [re.split(r"\W", line, maxsplit=1)[0] for line in lines]
    naming = ["rename"] if how == "replace" else ["renameat2"]
    assert steps == ["openat", "write", "fsync", *naming, "openat", "fsync"]
    assert ".tmp>" in lines[2], "the first fsync is that of the new file"
    assert f"<{target.parent}>" in lines[-1], "the last fsync is that of the folder"


def test_missing_folders_are_made_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private_directory(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for folder in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700


def test_an_existing_folder_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    make_private_directory(tmp_path / "a" / "b")
    make_private_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755


def test_a_file_in_the_way_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(EnvironmentFailureError, match="Not a directory"):
        make_private_directory(tmp_path / "a" / "b")


PAPERS = {"report": b"r" * 10_000, "log": b"", "status": b"s"}


def in_folder(folder: Path, files: dict[str, bytes], *, mode: int = 0o644) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        write_together(descriptor, files, mode=mode)
    finally:
        os.close(descriptor)


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_files_written_together_have_their_bytes_and_their_mode(tmp_path: Path, umask: int) -> None:
    (tmp_path / "log").write_bytes(b"an older one")
    (tmp_path / "victim").write_bytes(b"mine")
    (tmp_path / "status").symlink_to("victim")
    before = os.umask(umask)
    try:
        in_folder(tmp_path, PAPERS, mode=0o640)
    finally:
        os.umask(before)
    assert read_all(tmp_path) == {**PAPERS, "victim": b"mine"}
    assert {stat.S_IMODE((tmp_path / name).lstat().st_mode) for name in PAPERS} == {0o640}
    assert not (tmp_path / "status").is_symlink()


@only_root
@pytest.mark.req("PX-22")
def test_files_that_do_not_fit_together_leave_the_old_ones_as_they_were(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "64k") as disk:
        in_folder(disk, PAPERS)
        with pytest.raises(EnvironmentFailureError, match="is full") as failed:
            in_folder(disk, {"report": b"new", "log": b"n" * 200_000, "status": b"new"})
        assert (failed.value.reason, failed.value.where) == (Reason.DISK_FULL, "log")
        assert read_all(disk) == PAPERS


def test_a_folder_that_takes_no_file_is_named_by_what_it_did_not_take(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(EnvironmentFailureError, match="directory") as failed:
        in_folder(tmp_path, PAPERS)
    assert (failed.value.reason, failed.value.where) == (Reason.STATE_UNSAFE, "log")
    assert "REMIT_STATE" not in failed.value.next_step
    assert left_overs(tmp_path) == []


TOGETHER = """
import os, sys
from remit.fs.overlapped import write_together
folder = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
write_together(folder, {name: b"new" for name in ("a", "b", "c")})
"""


@pytest.mark.parametrize("action", ["kill", "error"])
@pytest.mark.parametrize(
    "point, count, new",
    [("written", 1, 0), ("written", 3, 0), ("synced", 1, 0), ("renamed", 1, 1), ("renamed", 2, 2), ("renamed", 3, 3)],
)
def test_of_files_written_together_each_one_is_whole_at_every_moment(
    tmp_path: Path, point: str, count: int, new: int, action: Literal["kill", "error"]
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"old")
    fault = Fault(f"durable.{point}", count, action)
    ended = run_child([sys.executable, "-c", TOGETHER, str(tmp_path)], fault=fault)
    assert ended.killed == (action == "kill")
    assert [(tmp_path / name).read_bytes() for name in "abc"] == [b"new"] * new + [b"old"] * (3 - new)
    if action == "error":
        assert left_overs(tmp_path) == []


def test_all_bytes_reach_the_disk_before_the_first_name_and_the_names_before_the_return(tmp_path: Path) -> None:
    folder, log = tmp_path / "folder", tmp_path / "log"
    folder.mkdir()
    calls = "trace=openat,write,sync_file_range,fsync,rename,renameat"
    strace = ["strace", "-f", "-o", str(log), "-y", "-e", calls, sys.executable, "-c", TOGETHER, str(folder)]
    source = Path(write_together.__code__.co_filename).parents[2]
    subprocess.run(strace, check=True, env={"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"})
    lines = [line.split(None, 1)[1] for line in log.read_text().splitlines() if str(folder) in line][1:]
    steps = [re.split(r"\W", line, maxsplit=1)[0] for line in lines]
    synced = ["sync_file_range"] * 3 + ["fsync"] * 3
    assert steps == ["openat", "write"] * 3 + synced + ["renameat"] * 3 + ["fsync"]
    assert len({line.split("<")[1].split(">")[0] for line in lines[9:12]}) == 3, "each file is synced"
    assert f"<{folder}>" in lines[-1], "the last fsync is that of the folder"


def test_a_descriptor_that_cannot_be_synced_fails_only_in_the_sync() -> None:
    reading, writing = os.pipe()
    try:
        start_writing(writing)
        with pytest.raises(OSError, match="Invalid argument"):
            sync_all([writing])
    finally:
        os.close(reading)
        os.close(writing)


def test_overlapped_operations_wait_at_the_same_time_and_each_item_gets_one() -> None:
    together, done = threading.Barrier(4, timeout=60), queue.SimpleQueue[int]()

    def operation(item: int) -> None:
        together.wait()  # broken unless four of them wait at the same time
        done.put(item)

    overlap(operation, range(16))
    assert sorted(done.get() for _ in range(16)) == list(range(16))
    assert done.empty()
    overlap(operation, [])


def test_the_error_of_an_overlapped_operation_is_raised_when_all_have_ended() -> None:
    together, begun = threading.Barrier(4, timeout=60), queue.SimpleQueue[int]()

    def operation(item: int) -> None:
        begun.put(item)
        together.wait()
        raise OSError(errno.EIO, "the disk")

    with pytest.raises(OSError, match="the disk"):
        overlap(operation, range(1_000))
    assert begun.qsize() == 4, "each of the four threads began one"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("remit-disk")]
