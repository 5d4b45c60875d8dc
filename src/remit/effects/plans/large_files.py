"""Files of any size, as a plan's hands take them: hashed and copied piece by piece. Memory does not grow with them."""

import os
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.context import PathHandle
from remit.effects.file_copy import CHUNK, SLICE, copy_pieces, sha256_of
from remit.effects.plans.files import PERMISSIONS, mismatch
from remit.effects.plans.steps import State
from remit.fs.atomic_write import start_writing
from remit.fs.openat import FileIdentity, failure, identify, open_file

try:  # the one function: the module around it loads others, which every fork pays for
    from _hashlib import openssl_sha256 as sha256
except ImportError:  # a Python without OpenSSL
    from hashlib import sha256

_NOT_HASHED: Final = ""


def observe_state(spot: PathHandle, expected: State | None, *, where: str) -> tuple[State, FileIdentity]:
    """What it is now. Not hashed if it has not the expected size: it is another file then, and may be huge.

    Refuses what is missing, not a plain file, or changes while it is read.
    """
    descriptor = open_file(spot.folder, spot.name, where=where)
    try:
        before = identify(descriptor)
        is_same_size = expected is not None and before.size == expected.size
        digest = sha256_of(descriptor) if is_same_size else _NOT_HASHED
        after = identify(descriptor)
    except OSError as problem:
        raise failure(problem, where, "could not be read") from None
    finally:
        os.close(descriptor)
    if after != before:
        raise mismatch("somebody wrote to the file while it was read", where)
    return State(digest, before.size, before.mode & PERMISSIONS), before


def copy_expected(source: int, target: int, expected: State, *, where: str) -> None:
    """All of the source into an empty file. Refused if what arrives there is not what was expected. Raises OSError."""
    if os.fstat(source).st_size != expected.size or _copy_hashed(source, target, expected.size) != expected.sha256:
        raise _source_changed_error(where)


def _copy_hashed(source: int, target: int, size: int) -> str:
    """The digest of what arrived. Each piece is hashed while it is in memory, and sent on to the disk."""
    digest = sha256()
    hashed = flushed = 0
    try:
        for at in copy_pieces(source, target, size):
            if at - flushed >= SLICE:
                start_writing(target)
                flushed = at
            hashed = _hash_on(digest, target, hashed, at)
    except RefusedError:  # it became shorter
        return _NOT_HASHED
    _hash_on(digest, target, hashed, size)
    return "sha256:" + digest.hexdigest()


def _hash_on(digest: Any, descriptor: int, start: int, end: int) -> int:
    at = start
    while at < end and (chunk := os.pread(descriptor, min(CHUNK, end - at), at)):
        digest.update(chunk)
        at += len(chunk)
    return at


def _source_changed_error(where: str) -> RemitError:
    return EnvironmentFailureError(
        Reason.HASH_MISMATCH,
        "the bytes that were kept ready for this file are not the ones that were looked at: changed or damaged since",
        where=where,
        next_step="Nothing was done to the file. Try it anew; if it happens again, check the disk and the memory.",
    )
