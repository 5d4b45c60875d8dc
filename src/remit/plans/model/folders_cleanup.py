"""A folder removed with all that is in it, whoever made it: programs do not make folders as people do."""

import os
from pathlib import Path
from typing import Final

_TO_PASS: Final = 0o700


def remove_tree(folder: Path) -> None:
    """However deep it lies, this goes no deeper than two folders. Follows no link. OSError if something stays.

    A program can make folders within folders until any way of walking them is at its end, and close them to everybody.
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
                os.chmod(below.path, _TO_PASS)  # whoever moves a folder must be able to write to it
                while os.path.lexists(target := folder / f".{moved:x}"):
                    moved += 1
                os.rename(below.path, target)
            os.rmdir(entry.path)
