"""Hashes and copies files of any size in a plan, piece by piece. Memory does not grow with the file."""

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
    """Return the current state of a file. A file of another size than expected is not hashed. It is another file then,
    and may be very large.

    Raises if the file is missing, is not a regular file, or changes during the read.
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
        raise mismatch("another program wrote to the file while Remit read it", where)
    return State(digest, before.size, before.mode & PERMISSIONS), before


def copy_expected(source: int, target: int, expected: State, *, where: str) -> None:
    """Copy the whole source into an empty file. Raises if the copied bytes are not the expected ones, or OSError."""
    if os.fstat(source).st_size != expected.size or _copy_hashed(source, target, expected.size) != expected.sha256:
        raise _source_changed_error(where)


def _copy_hashed(source: int, target: int, size: int) -> str:
    """Return the digest of the copied bytes. Each piece is hashed while it is in memory, and its write is started."""
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
        "the new bytes that were stored for this file have changed since they were checked, or are damaged",
        where=where,
        next_step="The file was not changed. Try again. If it happens again, check the disk and the memory.",
    )
