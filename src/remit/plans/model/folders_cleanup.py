"""Removal of a folder with all its content, also of folder trees that only a program would make."""

import os
from pathlib import Path
from typing import Final

_TO_PASS: Final = 0o700


def remove_tree(folder: Path) -> None:
    """Remove a folder and its content. Opens at most two levels, however deep it is. Raises OSError if something stays.

    It follows no link. A program can nest folders deeper than any traversal reaches, and remove all permissions on
    them.
    """
    _flatten(folder)
    folder.rmdir()


def _flatten(folder: Path) -> None:
    moved = 0
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, _TO_PASS)
            for below in list(os.scandir(entry.path)):
                if not below.is_dir(follow_symlinks=False):
                    os.unlink(below.path)
                    continue
                os.chmod(below.path, _TO_PASS)  # moving a folder needs write permission on it
                while os.path.lexists(target := folder / f".{moved:x}"):
                    moved += 1
                os.rename(below.path, target)
            os.rmdir(entry.path)
