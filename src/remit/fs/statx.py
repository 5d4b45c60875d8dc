"""The state of a file in one system call, with its time of birth, because the kernel reuses inode numbers at once.

The sandboxed process uses this module too, so it imports little. Limit: if the filesystem, the kernel or a filter does
not report the birth, it is 0. Then a file can be mistaken for an earlier one with the same inode number.
"""

import ctypes
import errno
import os
import struct
from typing import Final

from remit.core.syscalls import number_here, prepared

_STATX: Final = number_here("statx")
_SYMLINK_NOFOLLOW, _EMPTY_PATH = 0x100, 0x1000
_BASIC_AND_BIRTH, _BIRTH = 0xFFF, 0x800
_OVERLAY: Final = 0x794C7630

# mask; links, owner, group, mode; inode, size; birth, change and modification; device. See `struct statx`.
_LAYOUT: Final = struct.Struct("=I12xIIIH2xQQ32xqI4xqI4xqI4x8xII")
_Buffer: Final = ctypes.c_uint64 * 32

_libc: Final = ctypes.CDLL(None, use_errno=True)
_statx: Final = prepared(ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_ulong, ctypes.c_void_p)

Seen = tuple[int, int, int, int, int, int, int, int, int, int]
"""dev, ino, size, mtime_ns, ctime_ns, mode, uid, gid, nlink, birth_ns."""


def stat_with_birth(descriptor: int, name: str = "") -> Seen:
    """Return the state of the open file, or of this name in the open folder. Follows no link. Raises OSError."""
    if _STATX < 0:
        return _without_birth(descriptor, name)
    buffer = _Buffer()  # one for each call, because the host calls it from many threads
    flags = _SYMLINK_NOFOLLOW if name else _EMPTY_PATH
    if _statx(_STATX, descriptor, os.fsencode(name), flags, _BASIC_AND_BIRTH, buffer) < 0:
        code = ctypes.get_errno()
        if code in {errno.ENOSYS, errno.EPERM}:  # an old kernel, or a filter of a container that does not know it
            return _without_birth(descriptor, name)
        raise OSError(code, os.strerror(code))
    mask, nlink, uid, gid, mode, ino, size, *times, major, minor = _LAYOUT.unpack_from(buffer)
    birth_ns, changed, modified = _ns(*times[:2]), _ns(*times[2:4]), _ns(*times[4:])
    if not mask & _BIRTH or (major == 0 and _is_overlay(descriptor)):
        birth_ns = 0
    return os.makedev(major, minor), ino, size, modified, changed, mode, uid, gid, nlink, birth_ns


def _ns(seconds: int, nanoseconds: int) -> int:
    return seconds * 1_000_000_000 + nanoseconds


def _is_overlay(descriptor: int) -> bool:
    """Return whether the file is on overlayfs.

    There, the first rename or write of a file of a lower layer changes its birth and keeps its inode number.
    """
    buffer = _Buffer()
    return _libc.fstatfs(descriptor, buffer) == 0 and buffer[0] == _OVERLAY


def _without_birth(descriptor: int, name: str) -> Seen:
    found = os.stat(name, dir_fd=descriptor, follow_symlinks=False) if name else os.fstat(descriptor)
    return (
        *(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns),
        *(found.st_mode, found.st_uid, found.st_gid, found.st_nlink, 0),
    )
