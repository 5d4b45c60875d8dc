"""What a task notes for the ledger before a step that the files alone could not tell of, and what that proves later.

A file is the task's own if its mark was noted, and for no other reason: one that looks alike is somebody else's.
Numbers are written in letters, because a note is masked before it is kept. Limit: where the filesystem does not tell
when a file was made, one that got its inode number afterwards in the same folder has the same mark.
"""

import os
from typing import Final

from remit.effects.context import EffectContext
from remit.fs.openat import FileIdentity

MADE: Final = "made"
DIGEST: Final = "sha256"
ASIDE: Final = "aside"
BACK: Final = "back"

_LETTERS: Final = str.maketrans("0123456789abcdef", "abcdefghijklmnop")
_HOME: Final = "home"
_UNKNOWN: Final = "a"


def mark_of(identity: FileIdentity, folder: int) -> str:
    """Device, inode and birth. A device is that of the folder, whose number may be another after a reboot."""
    device = _HOME if identity.dev == os.fstat(folder).st_dev else _in_letters(identity.dev)
    return "-".join((device, _in_letters(identity.ino), _in_letters(identity.birth_ns)))


def note_made(work: EffectContext, made: FileIdentity, folder: int, digest: str) -> None:
    """To be said right before the file gets the name under which others can see it."""
    work.note({MADE: mark_of(made, folder), DIGEST: digest})


def note_aside(work: EffectContext, source: FileIdentity, folder: int) -> None:
    """To be said right before a source that was set aside is removed."""
    work.note({ASIDE: mark_of(source, folder)})


def note_restored(work: EffectContext, source: FileIdentity, folder: int) -> None:
    """To be said right before a source that was set aside gets its name again: it was not removed after all."""
    work.note({BACK: mark_of(source, folder)})


def digest_made(work: EffectContext, found: FileIdentity, folder: int) -> str | None:
    """The digest that this file was made with; None if it was not this task that made it."""
    mark = mark_of(found, folder)
    for note in reversed(work.notes):
        if MADE in note and _is_same(str(note[MADE]), mark):
            return str(note[DIGEST])
    return None


def intended_removal(work: EffectContext) -> bool:
    """Whether a source that is nowhere now was removed by the task."""
    noted = [ASIDE in note for note in work.notes if ASIDE in note or BACK in note]
    return bool(noted) and noted[-1]


def _is_same(noted: str, mark: str) -> bool:
    *noted_file, noted_birth = noted.split("-")
    *file, birth = mark.split("-")
    return noted_file == file and (noted_birth == birth or _UNKNOWN in {noted_birth, birth})


def _in_letters(number: int) -> str:
    return format(number & 0xFFFF_FFFF_FFFF_FFFF, "x").translate(_LETTERS)
