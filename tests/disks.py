"""Real disks that are too small, for tests of what happens then."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A filesystem in memory of this size (`64k`, `1m`), private to us, mounted at `folder` meanwhile."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
