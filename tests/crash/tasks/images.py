"""Real ext4 disks in files, in a mount namespace of our own: whatever happens to us, no mount is left behind.

A copy of such a file, made while nothing can change it, is what a power cut leaves: what was only in the page cache is
not in it. Limit: the loop device has no volatile cache of its own: a flush that the filesystem forgets stays unseen.
"""

import contextlib
import ctypes
import fcntl
import itertools
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SIZE: Final = 24 << 20
OPTIONS: Final = "noauto_da_alloc,commit=300"
"""ext4 by default hides a missing fsync before a rename, and after some seconds any missing fsync at all."""

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"

_MAKE: Final = ("mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-N", "512", "-J", "size=4")
_EAGER: Final = ("-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard")
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
_LOOP_CONFIGURE, _LOOP_ADD, _LOOP_REMOVE = 0x4C0A, 0x4C80, 0x4C81
_AUTOCLEAR: Final = 4
_FIRST_NUMBER: Final = 64
"""Far above those that `losetup --find` gives to others."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def enter_namespace() -> None:
    """From here on, what this process and its children mount is theirs alone."""
    if _libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    _mount("none", "/", "none", _MS_REC | _MS_PRIVATE)


def pretend_reboot(boot_id: Path) -> None:
    """In this namespace the kernel says that it was started anew."""
    boot_id.write_text("11111111-2222-4333-8444-555555555555\n")
    _mount(str(boot_id), BOOT_ID, "none", _MS_BIND)


def make_image(image: Path) -> None:
    with open(image, "wb") as stream:
        stream.truncate(SIZE)
    subprocess.run([*_MAKE, *_EAGER, str(image)], check=True)


def copy_image(source: Path, target: Path) -> None:
    """Holes stay holes: in memory, most of a disk is one."""
    with open(source, "rb") as reading, open(target, "wb") as writing:
        end = os.fstat(reading.fileno()).st_size
        place = 0
        while place < end:
            try:
                begin = os.lseek(reading.fileno(), place, os.SEEK_DATA)
            except OSError:  # ENXIO: only a hole is left
                break
            place = os.lseek(reading.fileno(), begin, os.SEEK_HOLE)
            os.pwrite(writing.fileno(), os.pread(reading.fileno(), place - begin, begin), begin)
        writing.truncate(end)


class Device:
    """A loop device that keeps its number from one image to the next, as a disk keeps its own over a reboot."""

    def __init__(self) -> None:
        with open("/dev/loop-control", "rb") as control:
            for number in itertools.count(_FIRST_NUMBER):
                with contextlib.suppress(FileExistsError):
                    fcntl.ioctl(control, _LOOP_ADD, number)
                    break
        self.number = number
        self.path = f"/dev/loop{number}"

    def mount(self, image: Path, folder: Path, options: str = OPTIONS) -> None:
        with open(image, "r+b") as backing, _opened_when_there(self.path) as device:
            config = bytearray(304)
            struct.pack_into("=II", config, 0, backing.fileno(), 0)
            struct.pack_into("=I", config, 8 + 52, _AUTOCLEAR)
            for _ in range(200):
                try:
                    fcntl.ioctl(device, _LOOP_CONFIGURE, bytes(config))
                    break
                except OSError:  # EBUSY: the kernel has not let go of the one before
                    time.sleep(0.005)
            _mount(self.path, str(folder), "ext4", 0, options)

    def written(self) -> tuple[str, ...]:
        """How much has reached the device; nothing is under way if two looks are equal and the count says 0."""
        fields = Path(f"/sys/block/loop{self.number}/stat").read_text().split()
        return (fields[4], fields[6], fields[8], *fields[11:16])

    def remove(self) -> None:
        with open("/dev/loop-control", "rb") as control:
            for _ in range(200):
                with contextlib.suppress(OSError):
                    fcntl.ioctl(control, _LOOP_REMOVE, self.number)
                    return
                time.sleep(0.005)


def unmount(folder: Path) -> None:
    for _ in range(200):
        if _libc.umount2(os.fsencode(folder), 0) == 0:
            return
        time.sleep(0.005)
    raise OSError(ctypes.get_errno(), "umount", str(folder))


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    if _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"mount {source}", target)


@contextlib.contextmanager
def _opened_when_there(path: str) -> Iterator[int]:
    for _ in range(200):
        if os.path.exists(path):
            break
        time.sleep(0.005)
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
