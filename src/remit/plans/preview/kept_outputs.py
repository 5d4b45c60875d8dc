"""The files that SQL and pipelines made for a preview, kept in the state directory until the plan is applied.

Each preview with such files has one folder, named after its digest: `prepared/<64 digits>`. A folder appears there
complete and durable, by one rename, and leaves it by one rename into a work folder. So a crash never leaves a part of
one. A process that keeps or removes a folder holds a lock on it. The database knows which folders are needed.
"""

import errno
import fcntl
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
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
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PREVIEW_AGAIN: Final = "Preview the plan again with `remit preview`, and approve it again."


class KeptOutputs:
    """The kept outputs of one workspace. Safe to use from several threads and processes."""

    def __init__(self, prepared: Path, work: Path) -> None:
        self._prepared = prepared
        self._work = work

    @contextmanager
    def keep(self, preview_digest: str, descriptors: Mapping[str, int]) -> Iterator[None]:
        """Keep copies of open files. Inside of the block they are durable, and no other process can remove them.

        The caller records in the block that they are needed. If the block fails, they are removed.
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
        """Give the folder its name. A folder that has the name already has the same files: the name covers them."""
        target = self._folder(preview_digest)
        with closing(_opened(outputs)) as ours:
            fcntl.flock(ours, fcntl.LOCK_EX)
            with self._renamed_or_locked(outputs, target) as is_ours:
                try:
                    yield
                except BaseException:
                    if is_ours:
                        with suppress(OSError):
                            self._set_aside(target)
                    raise

    @contextmanager
    def _renamed_or_locked(self, outputs: Path, target: Path) -> Iterator[bool]:
        """Rename the folder, or lock the one that has the name. Yields whether it was renamed."""
        while True:
            try:
                outputs.rename(target)
                sync_directory(self._prepared)
            except OSError as problem:
                if problem.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise disk_failure(problem, target) from problem
                if (lock := _lock(target, wait=True)) is None:
                    continue  # another process removed it just now
                with closing(lock):
                    yield False
            else:
                yield True
            return

    def open(self, preview_digest: str, outputs: Iterable[PlannedOutput]) -> dict[str, int]:
        """Open the outputs of a preview, and compare each with its digest. The caller closes the descriptors."""
        folder, opened = self._folder(preview_digest), dict[str, int]()
        with ExitStack() as undo:
            for output in outputs:
                try:
                    descriptor = os.open(folder / output.source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                except FileNotFoundError:
                    raise outputs_gone_error(output.path) from None
                except OSError as problem:
                    raise disk_failure(problem, folder / output.source) from problem
                undo.callback(os.close, descriptor)
                if sha256_of(descriptor) != output.sha256:
                    raise EnvironmentFailureError(
                        Reason.EVIDENCE_INVALID,
                        "the kept output of the preview is not the file that was approved; nothing was changed",
                        where=str(folder / output.source),
                        next_step=f"Find out who changed the state directory. {_PREVIEW_AGAIN}",
                    )
                opened[output.source] = descriptor
            undo.pop_all()
        return opened

    def remove(self, preview_digest: str) -> bool:
        """Remove the outputs of a preview. Returns whether there were any."""
        target = self._folder(preview_digest)
        lock = _lock(target, wait=False)
        if lock is None:
            return False
        with closing(lock):
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
            size = sum(each.lstat().st_size for each in path.glob("*"))
            if dry_run or self.remove(digest):
                found.append((digest, size))
        return found

    def has(self, preview_digest: str) -> bool:
        return self._folder(preview_digest).is_dir()

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
