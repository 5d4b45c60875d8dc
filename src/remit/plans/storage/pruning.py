"""Pruning: removes backups that are no longer needed, and report folders of runs that never started.

Only the ledger decides what may go. A manifest file that says EXECUTED prunes nothing. The reports of a run stay. The
ledger may be new, or of another machine. So a folder that it does not know is removed only if no data is lost: it holds
no report of a run, and every file that it could restore is as it was before. Copies of drifted files are never removed.
A folder is first renamed, then checked again, then emptied, so a folder under its own name is complete. Folders that
Remit did not make are not changed.
"""

import contextlib
import errno
import fcntl
import logging
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from remit.contracts.plans.rollback import RollbackManifest
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.fs.openat import failure, open_base, open_file, open_folder
from remit.plans.storage.drift import check_files
from remit.plans.storage.run_folder import BACKUPS, DRIFTED, MANIFEST, MAX_REPORT_BYTES, REPORTS, SCRIPT, remove_files

STRAY_AGE: Final = timedelta(hours=1)
"""A younger folder may belong to a run that is about to record its intent."""

PRUNED: Final = ".pruned-"

KnownStatus = Literal["ACTIVE", "EXECUTED", "EXPIRED", "NONE"]
"""The status of a run's manifest, by the ledger. A running plan is ACTIVE. NONE: the run ended without a manifest."""

_PATIENCE: Final = 50
"""In tenths of a second."""
_LOG: Final = logging.getLogger("remit.plans")
_BACKUP_FOLDERS: Final = (BACKUPS, PRUNED + BACKUPS)
_BEFORE_A_RUN: Final = {*_BACKUP_FOLDERS, MANIFEST, SCRIPT}
"""All that a folder may hold before its run starts."""
_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Prunable(NamedTuple):
    """A report folder, and the part of it that can be removed."""

    name: str
    what: Literal["backups", "folder"]
    """`folder`: all of it, because no run was started."""
    size: int
    why: str


def prunable(root: str, known: Mapping[str, KnownStatus], now: datetime) -> list[Prunable]:
    """Find prunable folders. Removes nothing.

    `known` has every report folder that a claim in the ledger names, completed or not.
    """
    found: list[Prunable] = []
    with _reports(root) as reports:
        for name in sorted(os.listdir(reports)) if reports is not None else ():
            try:
                with _opened(reports, name) as folder:
                    if folder is not None:
                        found += _judge(root, name, folder, known.get(name), now)
            except (RemitError, OSError) as problem:  # a folder that cannot be inspected must not block the others
                _warn(name, str(problem))
    return found


def prune(root: str, item: Prunable) -> int:
    """Remove it. Return the number of freed bytes, 0 if it is needed now. After a crash, calling it again continues."""
    where = "/".join((*REPORTS, item.name))
    try:
        with _reports(root) as reports, _opened(reports, item.name) as folder:
            if reports is None or folder is None:
                return 0
            with _locked(folder) as is_ours:
                if not is_ours:
                    _warn(item.name, "a rollback uses it")
                    return 0
                if item.what == "folder":
                    return _remove_folder(root, reports, folder, item.name)
                return _remove_backups(folder, item.name)
    except OSError as problem:
        raise failure(problem, where, "could not be removed") from None


@contextlib.contextmanager
def in_use(folder: int) -> Iterator[None]:
    """Mark a report folder as in use, so that `remit prune` removes nothing from it.

    Pruning is short. A process that holds the lock for longer is not pruning, and does not block this.
    """
    for _ in range(_PATIENCE):
        if _lock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB):
            break
        time.sleep(0.1)
    try:
        yield
    finally:
        _lock(folder, fcntl.LOCK_UN)


def _judge(root: str, name: str, folder: int, status: KnownStatus | None, now: datetime) -> list[Prunable]:
    if status is None:
        is_begun = name.startswith(PRUNED)
        changed = datetime.fromtimestamp(os.fstat(folder).st_mtime, UTC)
        if not (is_begun or now - changed > STRAY_AGE) or not _is_disposable(root, folder, name):
            return []
        why = "removed before, and interrupted" if is_begun else "no run was recorded"
        return [Prunable(name, "folder", _size(folder), why)]
    if status == "ACTIVE" or _has_unique_copies(folder, name):
        return []
    parts = {*_BACKUP_FOLDERS, SCRIPT} & set(os.listdir(folder))
    size = sum(_size_of(folder, part) for part in parts)
    return [Prunable(name, "backups", size, status.lower())] if parts else []


def _is_disposable(root: str, folder: int, name: str) -> bool:
    """Whether a folder that the ledger does not know can be removed without loss of data.

    A manifest is written before the first change, and other reports after the last one. A folder with neither had no
    run.
    If it has a manifest only, every file must be as it was before.
    """
    half_written = re.compile(r"\..+\.tmp")
    names = {each for each in os.listdir(folder) if not half_written.fullmatch(each)}
    if names - _BEFORE_A_RUN or _has_unique_copies(folder, name):
        return False
    if MANIFEST not in names:
        return SCRIPT not in names
    try:
        with open(open_file(folder, MANIFEST, where=MANIFEST), "rb") as file:
            manifest = RollbackManifest.parse(file.read(MAX_REPORT_BYTES), source=MANIFEST)
        statuses = check_files(root, manifest, ())
    except RemitError:
        return False
    if manifest.rows is not None:  # rows on a server cannot be checked here
        return False
    return len(statuses) == len(manifest.checkpoints) and all(status == "before" for status, _ in statuses.values())


def _has_unique_copies(folder: int, name: str) -> bool:
    """Whether the folder has a copy of a drifted file. A forced rollback made it, and it may be the only copy."""
    for subfolder in _BACKUP_FOLDERS:
        with _opened(folder, subfolder) as inner:
            if inner is None:
                continue
            with os.scandir(inner) as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        if any(DRIFTED in each for each, _ in found):
            return True
        if any(is_folder for _, is_folder in found):
            _warn(name, "there is a folder among the backups that Remit did not make")
            return True
    return False


def _remove_folder(root: str, reports: int, folder: int, name: str) -> int:
    pruned_name = name if name.startswith(PRUNED) else PRUNED + name
    if pruned_name != name:
        os.rename(name, pruned_name, src_dir_fd=reports, dst_dir_fd=reports)
        reach("prune.renamed")
    if not _is_disposable(root, folder, name):
        os.rename(pruned_name, name.removeprefix(PRUNED), src_dir_fd=reports, dst_dir_fd=reports)
        return 0
    freed = 0
    for file in (SCRIPT, MANIFEST):  # first, so that a half-removed folder is judged as the whole one
        freed += _size_of(folder, file)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file, dir_fd=folder)
    freed += remove_files(folder)
    os.rmdir(pruned_name, dir_fd=reports)
    os.fsync(reports)
    reach("prune.removed")
    return freed


def _remove_backups(folder: int, name: str) -> int:
    """Remove the backups, and the script, which is useless without them."""
    pruned_name = PRUNED + BACKUPS
    if _has_unique_copies(folder, name):
        return 0
    freed = _empty(folder, pruned_name)
    with contextlib.suppress(FileNotFoundError):
        os.rename(BACKUPS, pruned_name, src_dir_fd=folder, dst_dir_fd=folder)
        reach("prune.renamed")
        if _has_unique_copies(folder, name):
            os.rename(pruned_name, BACKUPS, src_dir_fd=folder, dst_dir_fd=folder)
            return freed
    freed += _size_of(folder, SCRIPT)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SCRIPT, dir_fd=folder)
    freed += _empty(folder, pruned_name)
    os.fsync(folder)
    reach("prune.removed")
    return freed


def _empty(folder: int, name: str) -> int:
    with _opened(folder, name) as inner:
        if inner is None:
            return 0
        freed = remove_files(inner)
    os.rmdir(name, dir_fd=folder)
    return freed


def _warn(name: str, why: str) -> None:
    _LOG.warning("a report folder is not pruned", extra={"folder": name, "why": why})


@contextlib.contextmanager
def _locked(folder: int) -> Iterator[bool]:
    """Lock the folder. Yields False if another process uses it."""
    is_ours = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield is_ours
    finally:
        if is_ours:
            _lock(folder, fcntl.LOCK_UN)


def _lock(folder: int, how: int) -> bool:
    """Lock the folder. On a file system without such locks, this returns True without a lock."""
    try:
        fcntl.flock(folder, how)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _size(folder: int) -> int:
    """Return the size of its files, and of those one level below."""
    return sum(_size_of(folder, name) for name in os.listdir(folder))


def _size_of(folder: int, name: str) -> int:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    if not stat.S_ISDIR(found.st_mode):
        return found.st_size
    with _opened(folder, name) as inner:
        if inner is None:
            return 0
        return sum(os.stat(file, dir_fd=inner, follow_symlinks=False).st_size for file in os.listdir(inner))


@contextlib.contextmanager
def _reports(root: str) -> Iterator[int | None]:
    """Open the folder of the reports. Yields None if there are no reports."""
    base = open_base(root)
    try:
        folder = open_folder(base, REPORTS, where="/".join(REPORTS))
    except RefusedError as problem:
        if problem.reason is not Reason.FILE_MISSING:
            raise
        folder = None
    finally:
        os.close(base)
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


@contextlib.contextmanager
def _opened(parent: int | None, name: str) -> Iterator[int | None]:
    """Open the folder of this name. Yields None for a file or a link, which Remit did not make."""
    try:
        folder = None if parent is None else os.open(name, _FLAGS, dir_fd=parent)
    except (FileNotFoundError, NotADirectoryError):
        folder = None
    except OSError as problem:
        if problem.errno != errno.ELOOP:  # a link
            raise failure(problem, name, "could not be opened") from None
        folder = None
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)
