"""Pictures of pages in a folder of their own. The settings limit their age and their total size."""

import contextlib
import re
import secrets
from pathlib import Path
from typing import Final

from remit.fs.atomic_write import PRIVATE_FILE, disk_failure, make_private_directory, write_durably

PRUNED_AFTER: Final = 100
"""The number of pictures after which the folder is pruned again."""
SPARED_SECONDS: Final = 3_600
"""Younger pictures stay, however many there are, because a pending approval request or a reader may need them. An
approval request is pending for ten minutes.
"""
_NAME: Final = re.compile(r"[0-9a-f]{32}\.png")


class Pictures:
    def __init__(self, folder: Path, *, most_days: int, most_bytes: int) -> None:
        self._folder = folder
        self._most_seconds = most_days * 86_400
        self._most_bytes = most_bytes
        self._saved = 0

    def save(self, picture: bytes, *, durably: bool) -> str:
        """Save the picture under a random name and return its path."""
        make_private_directory(self._folder)
        path = self._folder / f"{secrets.token_hex(16)}.png"
        self._saved += 1
        if durably:
            write_durably(path, picture)
            return str(path)
        try:
            path.touch(PRIVATE_FILE, exist_ok=False)
            path.write_bytes(picture)
        except OSError as problem:
            raise disk_failure(problem, path) from problem
        return str(path)

    @property
    def is_pruning_due(self) -> bool:
        return self._saved % PRUNED_AFTER == 0

    def prune(self, now: float) -> int:
        """Remove pictures that are too old, then the oldest while the total is too large. Returns how many."""
        found = []
        with contextlib.suppress(OSError):  # the folder does not exist yet
            for path in self._folder.iterdir():
                if _NAME.fullmatch(path.name):
                    with contextlib.suppress(OSError):  # removed by another process
                        state = path.stat()
                        found.append((now - state.st_mtime, state.st_size, path))
        total = removed = 0
        for age, size, path in sorted(found):
            total += size
            if age > self._most_seconds or (total > self._most_bytes and age > SPARED_SECONDS):
                with contextlib.suppress(OSError):
                    path.unlink()
                    removed += 1
        return removed
