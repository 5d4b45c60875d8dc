"""Databases as files: checks whether one is in use, private copies, and the work folders in which SQL runs.

A work folder is in the state directory: `work/<32 digits>`, mode 0700. The process that made it holds a lock on it
until
it removes it. A work folder without a lock was left by a process that died, and is removed by `sweep`.
"""

import contextlib
import fcntl
import os
import re
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Self

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.effects.file_copy import copy_content, sha256_of
from remit.effects.plans.database_files import busy, require_no_log
from remit.effects.plans.files import mismatch, require_ordinary
from remit.effects.plans.steps import State
from remit.fs import openat as beneath
from remit.fs.atomic_write import disk_failure, make_private_directory
from remit.fs.paths import Located
from remit.plans.model.folders import opened
from remit.plans.model.folders_cleanup import remove_tree

_NAME: Final = re.compile(r"[0-9a-f]{32}")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FLOCK: Final = struct.Struct("hhqqi0q")
"""Kind, whence, start, length, process: the layout of `fcntl` on the 64-bit machines that Remit runs on."""
_TRIES: Final = 5

CheckCancelled = Callable[[], None]
"""Called regularly during a long operation. Raises if the operation is cancelled."""


class OpenCopy(NamedTuple):
    """An open copy of a file, with its state."""

    descriptor: int
    state: State


# --- databases in use ------------------------------------------------------------------------------------------------


def require_idle(place: Located, *, writes: bool) -> None:
    """Refuse with DATABASE_BUSY if another program has the database open, or left changes in a log file beside it.

    A reader only conflicts with a writer. A missing folder means that no program has the database open.
    """
    try:
        with opened(place.base, place.parents, where=place.path) as folder:
            require_idle_in(folder, place, writes=writes)
    except RefusedError as problem:
        if problem.reason is not Reason.FILE_MISSING:
            raise


def require_idle_in(folder: int, place: Located, *, writes: bool) -> None:
    """Do the same as `require_idle` in a folder that is open."""
    require_no_log(folder, place.name, where=place.path)
    if beneath.exists(folder, place.name):
        descriptor = beneath.open_file(folder, place.name, where=place.path)
        try:
            require_unlocked(descriptor, place.path, writes=writes)
        finally:
            os.close(descriptor)


def require_unlocked(descriptor: int, where: str, *, writes: bool) -> None:
    """Refuse if the file is locked. DuckDB locks the whole file while it is open: shared to read, exclusive to
    write.
    """
    lock_kind = fcntl.F_WRLCK if writes else fcntl.F_RDLCK
    try:
        # An OFD lock has an owner of its own, so locks of this process are seen as well.
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _FLOCK.pack(lock_kind, os.SEEK_SET, 0, 0, 0))
    except OSError:  # this filesystem has no locks
        return
    if _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK:
        raise busy("another program has it open", where)


def require_none_busy(
    problems: Iterable[Mapping[str, str]], then: str = "Then apply the plan again: the approval was not used."
) -> None:
    """Refuse a plan if a database is in use. `then` is the next step after the other program has closed it."""
    for problem in problems:
        if problem["reason"] == Reason.DATABASE_BUSY:
            raise RefusedError(
                Reason.DATABASE_BUSY,
                problem["what"],
                where=problem["where"],
                next_step=f"{problem['next_step']} {then}",
            )


# --- copies ----------------------------------------------------------------------------------------------------------


def copy_database(place: Located, target: Path, most: int, check_cancelled: CheckCancelled) -> State | None:
    """Copy a database to a new file, as it is at one moment. Return its state, or None if it does not exist.

    Refuses a database that is in use, too large, or changed meanwhile. Memory use does not grow with its size.
    """
    with opened(place.base, place.parents, where=place.path) as folder:
        require_idle_in(folder, place, writes=False)
        if not beneath.exists(folder, place.name):
            return None
        with closing(beneath.open_file(folder, place.name, where=place.path)) as source:
            identity = beneath.identify(source)
            require_ordinary(identity, where=place.path)
            if identity.size > most:
                raise backup_too_large_error(identity.size, most, place.path)
            with new_file(target) as copy:
                _copy(source, copy, identity.size, target, check_cancelled)
                digest = sha256_of(copy)
            require_idle_in(folder, place, writes=False)
            if beneath.identify(source) != identity:
                raise mismatch("the database was changed while it was copied", place.path)
    reach("sql.copied")
    return State(digest, identity.size, identity.mode & 0o777)


def clone(source: int, target: Path, check_cancelled: CheckCancelled) -> None:
    """Make a new file with the bytes of an open file that has no name any more."""
    with new_file(target) as copy:
        _copy(source, copy, os.fstat(source).st_size, target, check_cancelled)


def detach_file(
    path: Path, mode: int, most: int, *, where: str, too_large: Callable[[int, int, str], RemitError]
) -> OpenCopy:
    """Open and hash a file that the engine has written, and remove its name, so that no process can change it."""
    try:
        with closing(os.open(path.parent, _FOLDER)) as folder:
            descriptor = beneath.open_file(folder, path.name, where=where)
    except (OSError, RemitError) as problem:  # a correct process leaves a plain file there
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "the process that ran the SQL did not write the file that it reported",
            where=where,
            next_step="This is a bug in Remit; nothing was changed.",
        ) from problem
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, descriptor)
        size = os.fstat(descriptor).st_size
        if size > most:
            raise too_large(size, most, where)
        try:
            state = State(sha256_of(descriptor), size, mode)
            path.unlink()
        except OSError as problem:
            raise disk_failure(problem, path) from problem
        undo.pop_all()
    reach("sql.prepared")
    return OpenCopy(descriptor, state)


def backup_too_large_error(size: int, most: int, where: str) -> RefusedError:
    return RefusedError(
        Reason.LIMIT_EXCEEDED,
        f"the database has {size:,} bytes, and the backups of a plan may have at most {most:,}",
        where=where,
        next_step="Raise limits.max_backup_bytes in remit.yaml.",
    )


def _copy(source: int, copy: int, size: int, target: Path, check_cancelled: CheckCancelled) -> None:
    try:
        copy_content(source, copy, size, lambda _done, _total: check_cancelled())
    except OSError as problem:
        raise disk_failure(problem, target) from problem


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[int]:
    """Create a private file, open for reading and writing."""
    try:
        descriptor = os.open(path, _NEW_FILE, 0o600)
    except OSError as problem:
        raise disk_failure(problem, path) from problem
    with closing(descriptor):
        yield descriptor


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# --- work folders ----------------------------------------------------------------------------------------------------


class WorkFolder:
    """A locked folder of this process, until it is closed. Its subfolders can be granted to sandboxed processes."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def make(cls, work: Path) -> Self:
        make_private_directory(work)
        for _ in range(_TRIES):
            path = work / secrets.token_hex(16)
            try:
                path.mkdir(mode=0o700)
                lock = os.open(path, _FOLDER)
            except FileNotFoundError:  # another process swept it before it was locked
                continue
            except OSError as problem:
                raise disk_failure(problem, path) from problem
            if _locked(lock) and path.exists():
                return cls(path, lock)
            os.close(lock)
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE, "a work folder could not be made", where=str(work), next_step="Try again."
        )

    def folder(self, name: str) -> Path:
        """Return a subfolder, and make it if it does not exist."""
        path = self.path / name
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError as problem:
            raise disk_failure(problem, path) from problem
        return path

    def close(self) -> None:
        """Remove the folder and its content. `sweep` removes what is left."""
        with contextlib.suppress(OSError):
            remove_tree(self.path)
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def sweep(work: Path) -> int:
    """Remove the work folders without a lock, whose processes died. Return how many."""
    swept = 0
    for path in sorted(work.glob("*")) if work.is_dir() else ():
        if _NAME.fullmatch(path.name) is None:
            continue
        with contextlib.suppress(OSError), closing(os.open(path, _FOLDER)) as lock:
            if _locked(lock):
                remove_tree(path)
                swept += 1
    return swept


def _locked(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
