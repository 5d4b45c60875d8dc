"""Files that every decision goes by: read anew whenever one is another, and only looked at while it is the same.

One is the same if its inode, size and change time are, those of the folders on its way too, and if it had rested for a
while when it was read: two changes within one tick of the file system's clock have the same time. Whoever edits a file
can set its other times back, but not that one. What rested for less is read every time; and everything is, every few
seconds, since a file that somebody has mapped into memory may change without its times, and a network's may lag.
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
"""A catalogue of a thousand simulations may have a plan's template in a file for each."""
_Stamp = tuple[int, ...]


class FileCache:
    """Reads like `read_below`, and keeps what it read."""

    def __init__(self) -> None:
        self._cached: dict[tuple[str, str, int], tuple[_Stamp, float, tuple[bytes, str]]] = {}

    def read(self, root: str, path: str, most: int) -> tuple[bytes, str]:
        """All of a file below the root, and its digest."""
        stamp = _stamp_of(root, path)
        if stamp is None:
            return read_below(root, path, most)
        key, now = (root, path, most), time.monotonic()
        cached = self._cached.get(key)
        if cached is not None and cached[0] == stamp and now - cached[1] < CACHE_SECONDS_PER_FILE:
            return cached[2]
        found = read_below(root, path, most)
        if _stamp_of(root, path) != stamp:
            raise mismatch("somebody changed the file while it was being read", path)
        if len(self._cached) >= MAX_FILES:
            self._cached.clear()
        self._cached[key] = stamp, now, found
        return found


def _stamp_of(root: str, path: str) -> _Stamp | None:
    """What changes with the file, no link followed. None while it has not rested yet, and if it cannot be looked at."""
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
