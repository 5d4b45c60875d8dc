"""Backups that nobody can need any more, and report folders of runs that never began: found, and removed.

Only what the ledger says counts: a manifest file that calls itself EXECUTED prunes nothing. The papers of a run stay.
A folder is renamed first and emptied then, so one that is there under its own name is whole.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from remit.checkpoint.outputs import BACKUPS, DRIFTED, REPORTS, SCRIPT, remove_files
from remit.confine.beneath import failure, open_base, open_folder
from remit.errors import Reason, Refused
from remit.faultpoints import reach

STRAY_AGE: Final = timedelta(hours=1)
"""Younger ones may belong to a run that is about to record its intent."""

PRUNED: Final = ".pruned-"

KnownStatus = Literal["ACTIVE", "EXECUTED", "EXPIRED", "NONE"]
"""Of a run's manifest, by the ledger. ACTIVE also while it runs; NONE: it ended without a manifest."""

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Prunable(NamedTuple):
    """A report folder, and what of it can go."""

    name: str
    what: Literal["backups", "folder"]
    """`folder`: all of it, since nothing was ever run under it."""
    size: int
    why: str


def prunable(root: str, known: Mapping[str, KnownStatus], now: datetime) -> list[Prunable]:
    """`known` has every report folder that a claim in the ledger names, finished or not. Removes nothing."""
    found: list[Prunable] = []
    with _reports(root) as reports:
        for name in sorted(os.listdir(reports)) if reports is not None else ():
            with _opened(reports, name) as folder:
                if folder is not None:
                    found += _judge(name, folder, known.get(name), now)
    return found


def prune(root: str, item: Prunable) -> int:
    """Remove it; the bytes that were freed. Doing it again after a crash goes on."""
    where = "/".join((*REPORTS, item.name))
    try:
        with _reports(root) as reports, _opened(reports, item.name) as folder:
            if reports is None or folder is None:
                return 0
            return _remove_folder(reports, item.name) if item.what == "folder" else _remove_backups(folder)
    except OSError as problem:
        raise failure(problem, where, "could not be removed") from None


def _judge(name: str, folder: int, status: KnownStatus | None, now: datetime) -> list[Prunable]:
    if name.startswith(PRUNED):
        return [Prunable(name, "folder", _size(folder), "removed before, and interrupted")]
    if status is None:
        changed = datetime.fromtimestamp(os.fstat(folder).st_mtime, UTC)
        return [Prunable(name, "folder", _size(folder), "no run was recorded")] if now - changed > STRAY_AGE else []
    if status == "ACTIVE" or _holds_somebodys_work(folder):
        return []
    parts = {BACKUPS, PRUNED + BACKUPS, SCRIPT} & set(os.listdir(folder))
    size = sum(_size_of(folder, part) for part in parts)
    return [Prunable(name, "backups", size, status.lower())] if parts else []


def _holds_somebodys_work(folder: int) -> bool:
    """What a forced rollback put aside was changed by somebody after the plan, and may be the only copy."""
    with _opened(folder, BACKUPS) as inner:
        return inner is not None and any(DRIFTED in name for name in os.listdir(inner))


def _remove_folder(reports: int, name: str) -> int:
    gone = name if name.startswith(PRUNED) else PRUNED + name
    if gone != name:
        os.rename(name, gone, src_dir_fd=reports, dst_dir_fd=reports)
        reach("prune.renamed")
    with _opened(reports, gone) as folder:
        freed = 0 if folder is None else remove_files(folder)
    os.rmdir(gone, dir_fd=reports)
    os.fsync(reports)
    reach("prune.removed")
    return freed


def _remove_backups(folder: int) -> int:
    """The script goes with the backups: without them it is of no use."""
    freed = _size_of(folder, SCRIPT)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SCRIPT, dir_fd=folder)
    gone = PRUNED + BACKUPS
    freed += _empty(folder, gone)
    with contextlib.suppress(FileNotFoundError):
        os.rename(BACKUPS, gone, src_dir_fd=folder, dst_dir_fd=folder)
        reach("prune.renamed")
    freed += _empty(folder, gone)
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


def _size(folder: int) -> int:
    """Of its files, and of those one level below."""
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
    """None: there are no reports."""
    base = open_base(root)
    try:
        folder = open_folder(base, REPORTS, where="/".join(REPORTS))
    except Refused as problem:
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
    """The folder of this name; None for anything else: a file or a link among the reports is none of ours."""
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
