"""The files that SQL and pipelines made for a preview, kept in the state directory until the plan is applied.

Each preview with such files has one folder, named after its digest: `prepared/<64 digits>`. A folder appears there
complete and durable, by one rename, and leaves it by one rename into a work folder. So a crash never leaves a part of
one. A process that keeps or removes a folder holds a lock on it. The database knows which folders are needed.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.effects.file_copy import copy_content, sha256_of
from remit.fs.atomic_write import disk_failure, make_private_directory, sync_directory
from remit.plans.engines.database_files import WorkFolder, closing, new_file
from remit.plans.preview.planned_effect import PlannedOutput

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIES: Final = 100
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PREVIEW_AGAIN: Final = "Preview the plan again with `remit preview`, and approve it again."


class KeptOutputs:
    """The kept outputs of one workspace. Safe to use from several threads and processes."""

    def __init__(self, prepared: Path, work: Path, is_needed: Callable[[str], bool]) -> None:
        """`is_needed` asks the database whether the outputs of a preview are recorded now."""
        self._prepared = prepared
        self._work = work
        self._is_needed = is_needed

    @contextmanager
    def keep(self, preview_digest: str, descriptors: Mapping[str, int]) -> Iterator[None]:
        """Keep copies of open files. Inside of the block they are durable, and no other process can remove them.

        The caller records in the block that they are needed. If the block is refused, they are removed. After another
        failure they may be recorded, so they stay; `remove_orphans` removes them if they are not.
        """
        if not descriptors:
            yield
            return
        make_private_directory(self._prepared)
        with WorkFolder.make(self._work) as work:
            outputs = work.folder("outputs")
            for source, descriptor in descriptors.items():
                _copy_durably(descriptor, outputs / source)
            sync_directory(outputs)
            reach("preview.outputs_copied")
            with self._publish(outputs, preview_digest):
                reach("preview.outputs_kept")
                yield

    @contextmanager
    def _publish(self, outputs: Path, preview_digest: str) -> Iterator[None]:
        """Give the folder its name, and hold its lock. A folder that has the name is replaced: it may be damaged."""
        target = self._folder(preview_digest)
        with closing(_opened(outputs)) as ours:
            fcntl.flock(ours, fcntl.LOCK_EX)
            self._rename(outputs, target)
            try:
                yield
            except RefusedError:
                with suppress(OSError):
                    self._set_aside(target)
                raise

    def _rename(self, outputs: Path, target: Path) -> None:
        for _ in range(_TRIES):
            try:
                outputs.rename(target)
                sync_directory(self._prepared)
            except OSError as problem:
                if problem.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    raise disk_failure(problem, target) from problem
            else:
                return
            if (lock := _lock(target, wait=True)) is not None:
                with closing(lock):  # another process that keeps the same outputs has recorded them by now
                    self._set_aside(target)
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            "the folder for the outputs of a preview cannot be replaced",
            where=str(target),
            next_step="Remove it, and preview the plan again.",
        )

    def open(self, preview_digest: str, outputs: Iterable[PlannedOutput]) -> dict[str, int]:
        """Open the outputs of a preview, and compare each with its digest. The caller closes the descriptors."""
        opened = dict[str, int]()
        with ExitStack() as undo:
            folder = -1
            for output in outputs:
                if folder < 0:
                    folder = self._open_folder(preview_digest, output.path)
                    undo.callback(os.close, folder)
                opened[output.source] = _open_output(folder, output)
                undo.callback(os.close, opened[output.source])
            undo.pop_all()
        if folder >= 0:
            os.close(folder)
        return opened

    def _open_folder(self, preview_digest: str, path: str) -> int:
        try:
            return os.open(self._folder(preview_digest), _FOLDER)
        except OSError:
            raise outputs_gone_error(path) from None

    def remove(self, preview_digest: str) -> bool:
        """Remove the outputs of a preview that the database does not need. Returns whether they were removed."""
        target = self._folder(preview_digest)
        lock = _lock(target, wait=False)
        if lock is None:
            return False
        with closing(lock):
            if self._is_needed(preview_digest):  # asked under the lock, which a process holds until it has recorded
                return False
            self._set_aside(target)
        return True

    def remove_orphans(self, needed: Collection[str], *, dry_run: bool = False) -> list[tuple[str, int]]:
        """Remove the folders of previews that are not in `needed`, with their digests and sizes.

        A folder that another process is about to record is locked, and stays.
        """
        found = []
        for path in sorted(self._prepared.glob("*")) if self._prepared.is_dir() else ():
            digest = f"sha256:{path.name}"
            if _NAME.fullmatch(path.name) is None or digest in needed:
                continue
            size = _size_of(path)
            if dry_run or self.remove(digest):
                found.append((digest, size))
        return found

    def exists(self, preview_digest: str) -> bool:
        return self._folder(preview_digest).is_dir()

    def has(self, preview_digest: str, outputs: Iterable[PlannedOutput]) -> bool:
        """Whether each of these outputs is there with its size. Their digests are compared when they are opened."""
        folder = self._folder(preview_digest)
        try:
            found = [(os.lstat(folder / output.source), output.size) for output in outputs]
        except OSError:
            return False
        return all(stat.S_ISREG(file.st_mode) and file.st_size == size for file, size in found)

    def _folder(self, preview_digest: str) -> Path:
        return self._prepared / preview_digest.removeprefix("sha256:")

    def _set_aside(self, target: Path) -> None:
        """Move a folder into a work folder, which is removed now, or later by a sweep if this process dies."""
        with WorkFolder.make(self._work) as work:
            try:
                target.rename(work.path / "outputs")
                sync_directory(self._prepared)
            except FileNotFoundError:
                return
            reach("preview.outputs_removed")


def _open_output(folder: int, output: PlannedOutput) -> int:
    """Open one output in the open folder, and compare it with its digest. A link, a pipe and the like are refused."""
    try:
        descriptor = os.open(output.source, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise outputs_gone_error(output.path) from None
    except OSError as problem:
        raise _changed_error(output) from problem
    with ExitStack() as undo:
        undo.callback(os.close, descriptor)
        is_same = stat.S_ISREG(os.fstat(descriptor).st_mode) and sha256_of(descriptor) == output.sha256
        if is_same:
            undo.pop_all()
    if not is_same:
        raise _changed_error(output)
    return descriptor


def _changed_error(output: PlannedOutput) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EVIDENCE_INVALID,
        "the kept output of the preview is not the file that was approved; nothing was changed",
        where=output.path,
        next_step=f"Find out who changed the state directory. {_PREVIEW_AGAIN}",
    )


def _size_of(folder: Path) -> int:
    size = 0
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):  # another process removes the folder
            size += path.lstat().st_size
    return size


def outputs_gone_error(path: str) -> RefusedError:
    """Return the error for a preview whose outputs were removed: it expired, or is of another machine."""
    return RefusedError(
        Reason.BINDING_MISMATCH,
        "the file that the preview made for this path is not kept any more, so the approved bytes cannot be put in"
        " place; nothing was changed",
        where=path,
        next_step=_PREVIEW_AGAIN,
    )


def _copy_durably(descriptor: int, target: Path) -> None:
    try:
        with new_file(target) as copy:
            copy_content(descriptor, copy, os.fstat(descriptor).st_size, lambda _done, _total: None)
            os.fsync(copy)
    except OSError as problem:
        raise disk_failure(problem, target) from problem


def _opened(folder: Path) -> int:
    try:
        return os.open(folder, _FOLDER)
    except OSError as problem:
        raise disk_failure(problem, folder) from problem


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder that is still under its name. None if there is none, or if another process has the lock."""
    try:
        lock = os.open(folder, _FOLDER)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.stat(folder, follow_symlinks=False).st_ino == os.fstat(lock).st_ino:
            return lock
    except OSError:
        pass
    os.close(lock)
    return None
