"""The notes of a task: facts recorded in the ledger before a step that the files alone do not prove afterwards.

A file belongs to the task only if the task noted its mark. A file that merely looks the same belongs to another
program. Numbers are written in letters, because a note is masked before it is stored. Limit: where the filesystem does
not report when a file was made, a later file in the same folder with the same inode number has the same mark.
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
    """Return the mark of a file: device, inode and birth. The number of the folder's own device is not in it, because
    it may change with a reboot.
    """
    device = _HOME if identity.dev == os.fstat(folder).st_dev else _in_letters(identity.dev)
    return "-".join((device, _in_letters(identity.ino), _in_letters(identity.birth_ns)))


def note_made(work: EffectContext, made: FileIdentity, folder: int, digest: str) -> None:
    """Record the file right before it gets the name under which other programs can see it."""
    work.note({MADE: mark_of(made, folder), DIGEST: digest})


def note_aside(work: EffectContext, source: FileIdentity, folder: int) -> None:
    """Record a source that is set aside, right before it is removed."""
    work.note({ASIDE: mark_of(source, folder)})


def note_restored(work: EffectContext, source: FileIdentity, folder: int) -> None:
    """Record that a source was not removed, right before it gets its name again."""
    work.note({BACK: mark_of(source, folder)})


def digest_made(work: EffectContext, found: FileIdentity, folder: int) -> str | None:
    """Return the digest of the original content of this file. None if this task did not make it."""
    mark = mark_of(found, folder)
    for note in reversed(work.notes):
        if MADE in note and _is_same(str(note[MADE]), mark):
            return str(note[DIGEST])
    return None


def intended_removal(work: EffectContext) -> bool:
    """Whether the task itself removed a source that no longer exists."""
    noted = [ASIDE in note for note in work.notes if ASIDE in note or BACK in note]
    return bool(noted) and noted[-1]


def _is_same(noted: str, mark: str) -> bool:
    *noted_file, noted_birth = noted.split("-")
    *file, birth = mark.split("-")
    return noted_file == file and (noted_birth == birth or _UNKNOWN in {noted_birth, birth})


def _in_letters(number: int) -> str:
    return format(number & 0xFFFF_FFFF_FFFF_FFFF, "x").translate(_LETTERS)
