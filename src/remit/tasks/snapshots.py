"""Snapshots: whole copies of files that a task is about to delete. Remit never prunes them.

They are in the state directory. `<folder>/<id>/content` has the bytes. `meta.json` has path, mode, owner, times,
extended attributes, and the digest of the bytes. A reference contains the digest of `meta.json`, so the holder of a
signed result can check that the restored file is the deleted one. `meta.json` also has a random nonce. Without it, an
agent could find the content by computing the digests of likely contents. Older snapshots without a nonce can still be
read. A snapshot gets its name only when all of it is on the disk.
"""

import base64
import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.effects.file_copy import changed, copy_content, require_equal
from remit.effects.file_copy import sha256_of as digest_of
from remit.fs.atomic_write import disk_failure, make_private_directory, write_all
from remit.fs.openat import FileIdentity, failure, identify, open_base, open_file, open_folder
from remit.fs.paths import Located

MAX_ATTRIBUTE_BYTES: Final = 256 << 10
"""The limit for all extended attributes of one file together, because one frame carries them to the sandbox."""
MAX_META_BYTES: Final = 1 << 20
NONCE_BYTES: Final = 32

_REFERENCE: Final = re.compile(r"snapshot:([0-9a-f]{32})@(sha256:[0-9a-f]{64})")
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def take_snapshot(located: Located, folder: Path, max_bytes: int, expected: FileIdentity | None = None) -> str:
    """Copy the whole file into a snapshot, and return the reference.

    The snapshot is on the disk when this returns. If it fails, nothing is left. Limit: a crash in between leaves a
    folder whose name begins with a dot, and no reference to it exists.

    Raises:
        RefusedError: The file is too large (found before it is read), is not the `expected` one, or changes meanwhile.
    """
    with _open_located(located) as source:
        identity = identify(source)
        if expected is not None and identity != expected:
            raise changed(located.path)
        _require_size(identity, max_bytes, located.path)
        times = os.fstat(source)  # before the copy, which may change the access time
        attributes = _read_attributes(source, located.path)
        name = secrets.token_hex(16)
        unfinished = folder / f".{name}"
        make_private_directory(folder)
        try:
            meta = _write(source, identity, times, attributes, unfinished, located.path)
            os.rename(unfinished, folder / name)
            _sync_folder(folder)
            reach("snapshot.published")
        except BaseException as problem:
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.rmtree(folder / name, ignore_errors=True)
            if isinstance(problem, OSError):
                raise disk_failure(problem, folder) from problem
            raise
    return f"snapshot:{name}@{digest_bytes(meta)}"


def open_snapshot(folder: Path, reference: str) -> tuple[int, dict[str, Any]]:
    """Open a snapshot. Return its bytes as a descriptor, and its metadata, both verified against the reference.

    The caller closes the descriptor. FILE_RESTORE needs the descriptor as `given["snapshot"]` and the metadata as
    `checkpoint["meta"]`.

    Raises:
        RefusedError: The reference is malformed, or the snapshot was changed or damaged.
        EnvironmentFailureError: The snapshot does not exist.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise RefusedError(
            Reason.MALFORMED,
            "the reference of the snapshot is malformed",
            where=reference[:200],
            next_step="Use undo_metadata.recovery of the signed result of a FILE_DELETE.",
        )
    name, digest = match.groups()
    raw = _read_meta(folder / name / "meta.json")
    if digest_bytes(raw) != digest:
        raise _damaged(folder / name / "meta.json")
    meta: dict[str, Any] = json.loads(raw)
    content = folder / name / "content"
    descriptor = _open_snapshot_file(content)
    whole = False
    try:
        whole = os.fstat(descriptor).st_size == meta["size"] and digest_of(descriptor) == meta["sha256"]
    finally:
        if not whole:
            os.close(descriptor)
    if not whole:
        raise _damaged(content)
    return descriptor, meta


def _write(
    source: int, identity: FileIdentity, times: os.stat_result, attributes: dict[str, str], unfinished: Path, path: str
) -> bytes:
    """Write the content, then the metadata, then sync the folder. Return the bytes of the metadata."""
    os.mkdir(unfinished, 0o700)
    reach("snapshot.folder_made")
    content = os.open(unfinished / "content", _NEW_FILE, 0o600)
    try:
        copy_content(source, content, identity.size)
        digest = require_equal(source, content, identity, where=path)
        os.fsync(content)
    finally:
        os.close(content)
    reach("snapshot.content_synced")
    meta = canonical_bytes(
        {
            "version": 1,
            "path": path,
            "size": identity.size,
            "sha256": digest,
            "mode": stat.S_IMODE(identity.mode),
            "uid": identity.uid,
            "gid": identity.gid,
            # As text, because nanoseconds since 1970 are too large for the exact range of a JSON number.
            "atime_ns": str(times.st_atime_ns),
            "mtime_ns": str(times.st_mtime_ns),
            "xattrs": attributes,
            "nonce": secrets.token_hex(NONCE_BYTES),
        }
    )
    meta_file = os.open(unfinished / "meta.json", _NEW_FILE, 0o600)
    try:
        write_all(meta_file, meta)
        os.fsync(meta_file)
    finally:
        os.close(meta_file)
    _sync_folder(unfinished)
    reach("snapshot.meta_synced")
    return meta


@contextlib.contextmanager
def _open_located(located: Located) -> Iterator[int]:
    with contextlib.ExitStack() as stack:
        base = open_base(located.base)
        stack.callback(os.close, base)
        folder = open_folder(base, located.parents, where=located.path)
        stack.callback(os.close, folder)
        descriptor = open_file(folder, located.name, where=located.path)
        stack.callback(os.close, descriptor)
        yield descriptor


def _require_size(identity: FileIdentity, max_bytes: int, where: str) -> None:
    if identity.size > max_bytes:
        raise RefusedError(
            Reason.RESOURCE_EXHAUSTED,
            f"this file is larger than the {max_bytes:,} bytes that a snapshot may have, so it is not deleted",
            where=where,
            next_step="The limit is limits.max_file_bytes in remit.yaml.",
        )


def _read_attributes(descriptor: int, where: str) -> dict[str, str]:
    """Return all extended attributes, including ACLs, as base64."""
    try:
        values = {name: os.getxattr(descriptor, name) for name in os.listxattr(descriptor)}
    except OSError as problem:
        if problem.errno in {errno.ENOTSUP, errno.ENOSYS}:
            return {}
        raise failure(problem, where, "has extended attributes that could not be read") from None
    if sum(len(name) + len(value) for name, value in values.items()) > MAX_ATTRIBUTE_BYTES:
        raise RefusedError(
            Reason.RESOURCE_EXHAUSTED,
            f"this file has more than {MAX_ATTRIBUTE_BYTES:,} bytes of extended attributes, so it is not deleted",
            where=where,
            next_step="Remove attributes that are not needed.",
        )
    return {name: base64.b64encode(value).decode("ascii") for name, value in values.items()}


def _read_meta(path: Path) -> bytes:
    descriptor = _open_snapshot_file(path)
    try:
        return os.read(descriptor, MAX_META_BYTES)
    finally:
        os.close(descriptor)


def _open_snapshot_file(path: Path) -> int:
    try:
        descriptor = os.open(path, _OLD_FILE)
    except FileNotFoundError:
        raise EnvironmentFailureError(
            Reason.STATE_MISSING,
            "this snapshot does not exist",
            where=str(path.parent),
            next_step="Restore the state directory from a backup, or use the workspace in which the file was deleted.",
        ) from None
    except OSError as problem:
        raise disk_failure(problem, path) from problem
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _damaged(path)
    return descriptor


def _damaged(path: Path) -> RefusedError:
    return RefusedError(
        Reason.EVIDENCE_INVALID,
        "this snapshot was changed or damaged",
        where=str(path),
        next_step="Restore the state directory from a backup. A damaged snapshot is not used.",
    )


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
