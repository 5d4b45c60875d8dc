"""Files that every decision goes by: read anew whenever one is another, and only looked at while it is the same.

One is the same if its inode, size and change time are, and if it had rested for a while when it was read: two changes
within one tick of the file system's clock have the same time. Whoever edits a file can set its other times back, but
not that one. What rested for less is read every time.
"""

import os
import time
from typing import Final

from remit.doors.reading import read_below
from remit.effects.plan_files import mismatch

RESTED_SECONDS: Final = 2.0
"""More than a tick of any file system that Remit can work on."""
MOST_FILES: Final = 2_048
"""A catalogue of a thousand simulations may have a plan's template in a file for each."""
_Stamp = tuple[int, int, int, int, int]


class SeenFiles:
    """Reads like `read_below`, and keeps what it read."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, int], tuple[_Stamp, tuple[bytes, str]]] = {}

    def read(self, root: str, path: str, most: int) -> tuple[bytes, str]:
        """All of a file below the root, and its digest."""
        whole = os.path.join(root, path)
        stamp = _stamp_of(whole)
        if stamp is None:
            return read_below(root, path, most)
        key = (root, path, most)
        seen = self._seen.get(key)
        if seen is not None and seen[0] == stamp:
            return seen[1]
        found = read_below(root, path, most)
        if _stamp_of(whole) != stamp:
            raise mismatch("somebody changed the file while it was being read", path)
        if len(self._seen) >= MOST_FILES:
            self._seen.clear()
        self._seen[key] = stamp, found
        return found


def _stamp_of(path: str) -> _Stamp | None:
    """What changes with the file. None while it has not rested yet, and for one that cannot be looked at."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if time.time() - found.st_ctime < RESTED_SECONDS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
