"""Real disks that are too small, for tests of what happens then."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")


def require_root() -> None:
    """As `only_root`, for one row of a table."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A filesystem in memory of this size (`64k`, `1m`), private to us, mounted at `folder` meanwhile."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def small_ext4(folder: Path, size: int = 8 << 20, inodes: int = 512, block: int = 1 << 10) -> Iterator[Path]:
    """A real ext4 in a file beside `folder`, mounted there meanwhile. No block is kept back for root.

    A database wants blocks of 4096 bytes: where they are smaller than a page of memory, SQLite maps an index with holes
    in it, and a disk that is full then is a bus error.
    """
    image = folder.with_name(f"{folder.name}.img")
    with image.open("wb") as stream:
        stream.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-N", str(inodes), "-b", str(block), str(image)], check=True)
    folder.mkdir()
    subprocess.run(["mount", "-t", "ext4", "-o", "loop,nodev,nosuid", str(image), str(folder)], check=True)
    try:
        folder.chmod(0o700)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        image.unlink()


@contextlib.contextmanager
def sharing_disk(folder: Path, size: int = 512 << 20) -> Iterator[Path]:
    """A real XFS, where two files can have the same bytes and need no more room than one."""
    image = folder.with_name(f"{folder.name}.img")
    with image.open("wb") as stream:
        stream.truncate(size)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], check=True)
    folder.mkdir()
    subprocess.run(["mount", "-t", "xfs", "-o", "loop,nodev,nosuid", str(image), str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        image.unlink()


class Ballast:
    """Takes up room on a disk, to the block or to the inode, until it is dropped."""

    def __init__(self, disk: Path) -> None:
        self._folder = disk / "ballast"
        self._folder.mkdir()

    def leave_bytes(self, wanted: int) -> int:
        """Leave about so many bytes free, and say how many there are: whole blocks, and never more than wanted."""
        most = 1 << 62
        with (self._folder / "bytes").open("ab") as stream:
            for _ in range(64):
                os.fsync(stream.fileno())  # what others freed counts from the next commit of the journal on
                more = min(free_bytes(self._folder) - wanted, most)
                if more <= 0:
                    break
                held = os.fstat(stream.fileno()).st_blocks * 512
                try:
                    os.posix_fallocate(stream.fileno(), held, more)
                except OSError:  # its own map of blocks may want one, too, and a long run may be refused as a whole
                    most = max(more // 2, 1)
        return free_bytes(self._folder)

    def leave_inodes(self, wanted: int) -> None:
        number = 0
        while os.statvfs(self._folder).f_ffree > wanted:
            (self._folder / f"inode{number}").touch()
            number += 1

    def drop(self) -> None:
        for path in self._folder.iterdir():
            path.unlink()
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # what was freed counts from the next commit of the journal on
        finally:
            os.close(folder)


def free_bytes(disk: Path) -> int:
    space = os.statvfs(disk)
    return space.f_bfree * space.f_frsize
