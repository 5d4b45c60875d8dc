"""A cache of the files that every decision depends on. A file is read again when it has changed.

A file is unchanged if its inode, size and times are the same, and the folders above it too. It must also have been
unchanged for a while when it was read: two changes within one tick of the file system's clock have the same time. An
editor can set back the other times of a file, but not the change time. A file that changed very recently is read every
time. Every file is read again after a few seconds, because a file that another process has mapped into memory can
change without new times, and the times of a network file system can lag.
"""

import os
import time
from typing import Final

from remit.effects.plans.files import mismatch
from remit.plans.engines.input_files import read_below

RESTED_SECONDS: Final = 2.0
"""More than a tick of any file system that Remit can work on."""
CACHE_SECONDS_PER_FILE: Final = 5.0
MAX_FILES: Final = 2_048
"""A catalogue of a thousand simulations may have a file with a plan template for each."""
_Stamp = tuple[int, ...]


class FileCache:
    """A cache with the interface of `read_below`."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str, str, int], tuple[_Stamp, float, tuple[bytes, str]]] = {}

    def read(self, root: str, path: str, most: int) -> tuple[bytes, str]:
        """Return the content of a file below the root, and its digest."""
        stamp = _stamp_of(root, path)
        if stamp is None:
            return read_below(root, path, most)
        key, now = (root, path, most), time.monotonic()
        cached = self._cached.get(key)
        if cached is not None and cached[0] == stamp and now - cached[1] < CACHE_SECONDS_PER_FILE:
            return cached[2]
        found = read_below(root, path, most)
        if _stamp_of(root, path) != stamp:
            raise mismatch("another process changed the file while it was read", path)
        if len(self._cached) >= MAX_FILES:
            self._cached.clear()
        self._cached[key] = stamp, now, found
        return found


def _stamp_of(root: str, path: str) -> _Stamp | None:
    """Return the values that change with the file, not following links. None if unreadable or recently changed."""
    try:
        folders, whole = [], root
        for part in path.split("/")[:-1]:
            whole = f"{whole}/{part}"
            folders.append(os.lstat(whole))
        found = os.lstat(f"{root}/{path}")
    except (OSError, ValueError):
        return None
    if time.time() - found.st_ctime < RESTED_SECONDS:
        return None
    folder_stamps = [number for each in folders for number in (each.st_dev, each.st_ino, each.st_mode)]
    return (
        *folder_stamps,
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )
