"""Backups of every file that a plan changes: copied, hashed, and durable before the first change.

A backup has the bytes, the permissions and the time of its original. The manifest has the owner and the attributes. An
undo does not need them. They serve a later rollback, with Remit or without it.
"""

import base64
import contextlib
import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Self

from remit.contracts.config.config import Limits
from remit.contracts.plans.rollback import Checkpoint, RowsCheckpoint
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.effects.file_copy import sha256_of
from remit.effects.plans.database_files import is_database_file
from remit.effects.plans.steps import State
from remit.fs.atomic_write import start_writing, write_all
from remit.fs.openat import FileIdentity, failure, identify, open_base, open_file, open_folder
from remit.fs.paths import Located
from remit.plans.storage.run_folder import BACKUPS, DRIFTED, ReportFolder

MAX_ATTRIBUTES: Final = 100
MAX_ATTRIBUTE_BYTES: Final = 256 << 10
"""The bound for all extended attributes of one file. They are sent to the sandbox in one frame."""
MAX_ATTRIBUTE_BYTES_OF_ALL: Final = 1 << 20
"""The bound for all files of a plan. The manifest lists them and must stay readable."""
SPARE_BYTES: Final = 1 << 20
"""Space to leave free beside the backups and the new files, for reports and the ledger."""

_CHUNK: Final = 1 << 20
_SLICE: Final = 8 << 20
_WORTH_SHARING: Final = 1 << 20
_FICLONE: Final = 0x40049409
_DAMAGED_MESSAGE: Final = "is changed or damaged"
_LONGEST_NAME: Final = 200
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Original(NamedTuple):
    """A file as it was before the plan."""

    state: State
    owner: tuple[int, int]
    """User and group id."""
    atime_ns: int
    mtime_ns: int
    attributes: Mapping[str, str]
    """Extended attributes, including ACLs, in base64."""
    backup: str
    """The name of the copy in the backup folder."""


def back_up_files(
    paths: Sequence[Located],
    expected: Mapping[int, State | None],
    folder: ReportFolder,
    limits: Limits,
    new_bytes: int = 0,
    *,
    databases: Collection[int] = (),
) -> dict[int, Original]:
    """Copy every expected file. Returns the originals by the index of the path.

    The copies are durable after the next `write` of the folder, which syncs them together with its own files. Before
    copying, this refuses files that are too large, or that do not fit on the disk beside `new_bytes` of the plan. It
    also refuses a file that is not, or does not stay, as expected. Each of `databases` may be as large as all backups
    together, because databases are not read into memory. The caller discards the folder if this raises.
    """
    states = {index: state for index, state in sorted(expected.items()) if state is not None}
    _require_limits(states, folder, limits, new_bytes, databases)
    originals: dict[int, Original] = {}
    attributes = 0
    with _Folders() as folders:
        for index, state in states.items():
            located = paths[index]
            source = open_file(folders.of(located), located.name, where=located.path)
            with _closing(source):
                name = backup_name(index, located.name)
                original, copy = _copy(source, state, folder, name, located.path)
            folder.sync_later([copy])
            start_writing(copy)
            originals[index] = original
            attributes += sum(len(name) + len(value) for name, value in original.attributes.items())
            if attributes > MAX_ATTRIBUTE_BYTES_OF_ALL:
                raise _too_many_attributes_error(located.path)
            reach("backup.copied")
    return originals


def verify_backups(folder: ReportFolder, checkpoints: Sequence[Checkpoint]) -> None:
    """Require every backup to exist unchanged. A refusal names each missing or damaged one."""
    missing: list[str] = []
    damaged: list[str] = []
    for checkpoint in checkpoints:
        if checkpoint.backup_location is None:
            continue
        try:
            with _closing(_open_backup(folder, checkpoint)) as descriptor:
                if not _is_whole(descriptor, checkpoint):
                    damaged.append(checkpoint.backup_location)
        except RefusedError as problem:
            # A link, a folder, or a file with a second name is not a valid backup, whatever its content is.
            (missing if problem.reason is Reason.BACKUP_MISSING else damaged).append(checkpoint.backup_location)
    if missing:
        raise _unusable_error(Reason.BACKUP_MISSING, "is gone", missing)
    if damaged:
        raise _unusable_error(Reason.BACKUP_DAMAGED, _DAMAGED_MESSAGE, damaged)


def open_backups(folder: ReportFolder, checkpoints: Sequence[Checkpoint]) -> dict[str, int]:
    """Open and verify the backups. Return descriptors by `checkpoint_id`, which the caller closes."""
    opened: dict[str, int] = {}
    try:
        for checkpoint in checkpoints:
            if checkpoint.backup_location is None:
                continue
            opened[checkpoint.checkpoint_id] = _open_backup(folder, checkpoint)
            _require_whole(opened[checkpoint.checkpoint_id], checkpoint)
    except BaseException:
        for descriptor in opened.values():
            os.close(descriptor)
        raise
    return opened


def verified_backup(folder: ReportFolder, checkpoint: Checkpoint | RowsCheckpoint) -> int:
    """Open and verify the backup of a checkpoint that has one. The caller closes the descriptor."""
    descriptor = _open_backup(folder, checkpoint)
    try:
        _require_whole(descriptor, checkpoint)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def find_backed_up_databases(folder: ReportFolder, checkpoints: Sequence[Checkpoint]) -> set[str]:
    """Return the paths of checkpoints whose backup is a database. The caller has verified the backups."""
    found: set[str] = set()
    for checkpoint in checkpoints:
        if checkpoint.backup_location is not None:
            with _closing(_open_backup(folder, checkpoint)) as descriptor:
                if is_database_file(descriptor):
                    found |= {path for path in (checkpoint.file_path, checkpoint.new_path) if path is not None}
    return found


def backup_name(index: int, name: str) -> str:
    """Return the name of a backup. The number distinguishes files of the same name. A long name is cut at a
    character.
    """
    stem = name.encode("utf-8", "surrogateescape")[:_LONGEST_NAME].decode("utf-8", "ignore")
    return f"{index:04d}-{stem}.bak"


def back_up_drifted(located: Located, folder: ReportFolder, checkpoint: Checkpoint, attempt: int) -> str:
    """Back up a file that changed since the run, before a forced rollback replaces it. Return the location of the
    copy.
    """
    stem = (checkpoint.backup_location or f"{BACKUPS}/{backup_name(0, located.name)}").rpartition("/")[2]
    name = f"{stem.removesuffix('.bak')}{DRIFTED}{attempt}.bak"
    with _Folders() as folders, _closing(open_file(folders.of(located), located.name, where=located.path)) as source:
        _, copy = _copy(source, None, folder, name, located.path)
        with _closing(copy):
            try:
                os.fsync(copy)
                os.fsync(folder.backups)
            except OSError as problem:
                raise failure(problem, folder.location(BACKUPS), "could not be written to the disk for good") from None
    return folder.location(f"{BACKUPS}/{name}")


def state_of(descriptor: int) -> State:
    """Return the current state of an open file."""
    found = os.fstat(descriptor)
    return State(sha256_of(descriptor), found.st_size, stat.S_IMODE(found.st_mode) & 0o777)


def _copy(source: int, expected: State | None, folder: ReportFolder, name: str, where: str) -> tuple[Original, int]:
    """Copy to a new backup file. Return it open and not yet synced."""
    before = os.fstat(source)  # before reading, which may change the access time
    identity = identify(source)
    if expected is not None and identity.size != expected.size:
        raise _changed_error(where)
    attributes = read_attributes(source, where)
    try:
        copy = os.open(name, _NEW_FILE, 0o600, dir_fd=folder.backups)
    except OSError as problem:
        raise failure(problem, folder.location(f"{BACKUPS}/{name}"), "could not be created") from None
    try:
        digest, size = _copy_bytes(source, copy, identity.size)
        state = State("sha256:" + digest, size, stat.S_IMODE(identity.mode) & 0o777)
        _require_unchanged(source, identity, state, expected, where)
        os.fchmod(copy, state.mode)
        os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    except BaseException as problem:
        os.close(copy)
        if isinstance(problem, OSError):
            raise failure(problem, folder.location(f"{BACKUPS}/{name}"), "could not be written") from None
        raise
    owner = (before.st_uid, before.st_gid)
    return Original(state, owner, before.st_atime_ns, before.st_mtime_ns, attributes, name), copy


def _copy_bytes(source: int, copy: int, most: int) -> tuple[str, int]:
    """Copy at most `most` bytes, so that a file that grows cannot fill the disk. One pass with little memory."""
    shared = most >= _WORTH_SHARING and _share(source, copy)
    digest = hashlib.sha256()
    size = flushed = 0
    while size < most and (chunk := os.pread(copy if shared else source, min(_CHUNK, most - size), size)):
        digest.update(chunk)
        size += len(chunk)
        if not shared:
            write_all(copy, chunk)
        if size - flushed >= _SLICE:  # start writing early, so that the final sync is short
            start_writing(copy)
            flushed = size
    return digest.hexdigest(), size


def _share(source: int, copy: int) -> bool:
    """Share the source's blocks with the copy if the filesystem can. Returns whether it did.

    A later write to one of the two does not change the other. Sharing takes no time and no space.
    """
    try:
        fcntl.ioctl(copy, _FICLONE, source)
    except OSError:  # this filesystem cannot share blocks, or the files are on two filesystems
        return False
    return True


def _require_unchanged(source: int, identity: FileIdentity, state: State, expected: State | None, where: str) -> None:
    is_unchanged = state.size == identity.size and identify(source) == identity
    if not is_unchanged or not state.is_alike(expected or state):
        raise _changed_error(where)


def read_attributes(descriptor: int, where: str) -> dict[str, str]:
    """Return all extended attributes, including ACLs, in base64."""
    try:
        values = {name: os.getxattr(descriptor, name) for name in os.listxattr(descriptor)}
    except OSError as problem:
        if problem.errno in {errno.ENOTSUP, errno.ENOSYS}:
            return {}
        raise failure(problem, where, "has extended attributes that could not be read") from None
    size = sum(len(name) + len(value) for name, value in values.items())
    if len(values) > MAX_ATTRIBUTES or size > MAX_ATTRIBUTE_BYTES:
        raise _too_many_attributes_error(where)
    return {name: base64.b64encode(value).decode("ascii") for name, value in values.items()}


def _too_many_attributes_error(where: str) -> RefusedError:
    return RefusedError(
        Reason.LIMIT_EXCEEDED,
        "the file has more or larger extended attributes than a manifest can hold, so it cannot be backed up",
        where=where,
        next_step="Remove attributes that are not needed, or split the plan.",
    )


def _require_limits(
    states: Mapping[int, State], folder: ReportFolder, limits: Limits, new_bytes: int, databases: Collection[int]
) -> None:
    sizes = [state.size for state in states.values()]
    if any(state.size > limits.max_file_bytes for index, state in states.items() if index not in databases):
        raise _too_large_error(f"a file has more than {limits.max_file_bytes:,} bytes", "limits.max_file_bytes", folder)
    if sum(sizes) > limits.max_backup_bytes:
        what = f"the backups would have {sum(sizes):,} bytes, and may have {limits.max_backup_bytes:,}"
        raise _too_large_error(what, "limits.max_backup_bytes", folder)
    require_space(folder, sum(sizes) + new_bytes)


def require_space(folder: ReportFolder, states: int) -> None:
    """Require this many free bytes on the project's disk, and some spare. Checked before anything is changed."""
    space = os.fstatvfs(folder.descriptor)
    free = (space.f_bavail if os.geteuid() else space.f_bfree) * space.f_frsize
    needed = states + SPARE_BYTES
    if space.f_blocks and free < needed:
        raise EnvironmentFailureError(
            Reason.DISK_FULL,
            f"the disk has {free:,} bytes left, and backups and new files need {needed:,}",
            where=folder.path,
            next_step="Free some space and try again. Nothing was changed.",
        )


def _too_large_error(what: str, setting: str, folder: ReportFolder) -> RefusedError:
    return RefusedError(
        Reason.LIMIT_EXCEEDED, what, where=folder.path, next_step=f"Raise {setting} in remit.yaml, or split the plan."
    )


def _changed_error(where: str) -> RefusedError:
    return RefusedError(
        Reason.HASH_MISMATCH,
        "the file has changed since the plan was previewed",
        where=where,
        next_step="Preview the plan again, and approve it again if it is still wanted.",
    )


def _open_backup(folder: ReportFolder, checkpoint: Checkpoint | RowsCheckpoint) -> int:
    location = checkpoint.backup_location or ""
    name = location.rpartition("/")[2]
    if location != folder.location(f"{BACKUPS}/{name}"):
        raise _unusable_error(Reason.BACKUP_MISSING, "is listed outside of the backup folder", [location])
    try:
        return open_file(folder.backups, name, where=location)
    except RefusedError as problem:
        if problem.reason is not Reason.FILE_MISSING:
            raise
        raise _unusable_error(Reason.BACKUP_MISSING, "is gone", [location]) from None


def _is_whole(descriptor: int, checkpoint: Checkpoint | RowsCheckpoint) -> bool:
    # Compare the size first. It is cheap, and a file that was made larger need not be read to its end.
    if os.fstat(descriptor).st_size != checkpoint.original_size:
        return False
    return sha256_of(descriptor) == checkpoint.original_hash


def _require_whole(descriptor: int, checkpoint: Checkpoint | RowsCheckpoint) -> None:
    if not _is_whole(descriptor, checkpoint):
        raise _unusable_error(Reason.BACKUP_DAMAGED, _DAMAGED_MESSAGE, [checkpoint.backup_location or ""])


def _unusable_error(reason: Reason, what: str, locations: Sequence[str]) -> RemitError:
    many = f"{len(locations)} backups cannot be used; the first one" if len(locations) > 1 else "this backup"
    return RefusedError(
        reason,
        f"{many} {what}",
        where=", ".join(locations[:20]) + (", ..." if len(locations) > 20 else ""),
        next_step="Nothing was restored. Restore the backup, or name the other checkpoints with --checkpoint.",
    )


class _Folders:
    """The folders of the paths. Each is opened once."""

    def __init__(self) -> None:
        self._opened: dict[tuple[str, tuple[str, ...]], int] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._stack.close()

    def of(self, located: Located) -> int:
        key = (located.base, located.parents)
        if key not in self._opened:
            with _closing(open_base(located.base)) as base:
                self._opened[key] = open_folder(base, located.parents, where=located.path)
            self._stack.callback(os.close, self._opened[key])
        return self._opened[key]


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
