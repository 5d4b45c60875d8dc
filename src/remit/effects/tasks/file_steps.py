"""The steps of the file effects, and the functions that find out afterwards which steps were done.

Each step either happens completely or changes nothing. When one fails, `Undoing` undoes the steps before it. After a
kill, the existing files and the notes of the task show which steps were done. A file that only looks like the task's
own is never taken for it.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.effects.context import EffectContext, PathHandle
from remit.effects.file_copy import (
    changed,
    copy_content,
    create_part,
    remove_if_same,
    rename_checked,
    require_equal,
    restore_name,
    sha256_of,
    sync,
)
from remit.effects.tasks.notes import digest_made, note_aside, note_made, note_restored
from remit.fs.openat import FileIdentity, already_exists, exists, failure, identify, inspect_file, open_file, peek

SOURCE: Final = "source_path"
DESTINATION: Final = "destination_path"

# With SELinux every file has this label, and the kernel gives a new file a label of its own.
_LABELS: Final = frozenset({"security.selinux"})


class Undoing:
    """A context manager that runs its callbacks, the last one first, if the block fails.

    If a callback fails too, the error says so. `contextlib.ExitStack` is not used, because it creates functions at run
    time, which costs memory that each child must first copy.
    """

    __slots__ = ("_callbacks", "_where")

    def __init__(self, where: str) -> None:
        self._where = where
        self._callbacks: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = []

    def callback(self, function: Callable[..., object], *arguments: Any, **named: Any) -> None:
        self._callbacks.append((function, arguments, named))

    def forget(self) -> None:
        """Drop all callbacks: from here on an undo is not possible."""
        self._callbacks.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(problem, Exception):
            return
        first = _as_error(problem, self._where)
        try:
            self._undo_all()
        except (OSError, RemitError) as second:
            raise _not_undone_error(first, _as_error(second, self._where)) from problem
        if first is not problem:
            raise first from problem

    def _undo_all(self) -> None:
        """Run all callbacks, even if some fail. Then raise the error of the last one that failed."""
        failed: BaseException | None = None
        while self._callbacks:
            function, arguments, named = self._callbacks.pop()
            try:
                function(*arguments, **named)
            except BaseException as problem:  # noqa: BLE001 - raised after all callbacks have run
                failed = problem
        if failed is not None:
            raise failed


@contextmanager
def opened(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# --- steps ----------------------------------------------------------------------------------------------------------


def parse_identity(work: EffectContext, use: str = SOURCE) -> FileIdentity:
    return FileIdentity.from_json(work.before[use]).seen_from(work.spots[use].folder)


def require_ready(work: EffectContext) -> FileIdentity:
    """Return the identity of the source. Raise if it has changed since the host's check, or the destination exists."""
    source = work.spots[SOURCE]
    before = parse_identity(work)
    if inspect_file(source.folder, source.name, where=source.path) != before:
        raise changed(source.path)
    if DESTINATION in work.spots:
        require_free(work.spots[DESTINATION])
    return before


def require_free(spot: PathHandle) -> None:
    if exists(spot.folder, spot.name):
        raise already_exists(spot.path)


def open_source(work: EffectContext, before: FileIdentity) -> int:
    source = work.spots[SOURCE]
    descriptor = open_file(source.folder, source.name, where=source.path)
    if identify(descriptor) != before:
        os.close(descriptor)
        raise changed(source.path)
    return descriptor


def duplicate(
    work: EffectContext, source: int, before: FileIdentity, undo: Undoing, *, keep_permissions: bool
) -> tuple[FileIdentity, str]:
    """Copy the source to the part name in the destination's folder, verified and on the disk.

    Return the identity of the copy and its digest. With `keep_permissions` the copy has the source's owner, mode and
    times, or the step raises.
    """
    destination = work.spots[DESTINATION]
    times = os.fstat(source)  # before the copy, which may change the access time
    with opened(create_part(destination.folder, work.part_name, before.mode, where=destination.path)) as part:
        made = identify(part)
        undo.callback(remove_if_same, destination.folder, work.part_name, made, where=destination.path)
        reach("effect.part_made")
        if keep_permissions:
            _require_same_permissions(work, made, before)
        copy_content(source, part, before.size, work.progress)
        reach("effect.part_filled")
        digest = require_equal(source, part, before, where=work.spots[SOURCE].path)
        if keep_permissions:
            os.utime(part, ns=(times.st_atime_ns, times.st_mtime_ns))
        os.fsync(part)
        reach("effect.part_synced")
        return identify(part), digest


def publish(work: EffectContext, made: FileIdentity, digest: str, undo: Undoing) -> None:
    """Give the finished part its real name durably. If another file has that name already, that file stays."""
    spot = work.spots[DESTINATION]
    part, new = (spot.folder, work.part_name), (spot.folder, spot.name)
    note_made(work, made, spot.folder, digest)
    rename_checked(part, new, made, where=part_path(work, spot), where_new=spot.path)
    undo.callback(_unpublish, spot, made)
    reach("effect.published")
    sync(spot.folder, where=spot.path)
    reach("effect.folder_synced")


def remove_source(work: EffectContext, expected: FileIdentity, undo: Undoing) -> None:
    """Remove the source. It is set aside first and checked. A file that replaced it at the last moment gets its name
    again.

    Drops all callbacks of `undo` once the file is removed, because an undo is not possible from then on.
    """
    source = work.spots[SOURCE]
    name, aside = (source.folder, source.name), (source.folder, work.part_name)
    present = peek(*aside, where=source.path)
    if present is None or not present.is_file(expected):
        rename_checked(name, aside, expected, where=source.path, where_new=part_path(work, source))
    undo.callback(_restore_source_name, work, expected)
    reach("effect.set_aside")
    note_aside(work, expected, source.folder)
    present = peek(*aside, where=source.path)
    if present is None or not present.has_content_of(expected):  # changed through a descriptor that was open before
        raise changed(source.path)
    os.unlink(work.part_name, dir_fd=source.folder)
    undo.forget()
    reach("effect.removed")
    _sync_removal(source)
    reach("effect.removal_synced")


def sync_both(source: PathHandle, destination: PathHandle) -> None:
    # The destination first: a filesystem without a journal must not lose the file in both folders.
    sync(destination.folder, where=destination.path)
    here, other = os.fstat(source.folder), os.fstat(destination.folder)
    if (here.st_dev, here.st_ino) != (other.st_dev, other.st_ino):
        sync(source.folder, where=source.path)


def require_portable(work: EffectContext, source: int, before: FileIdentity) -> None:
    """Raise if a move to another filesystem would lose attributes or mode bits, which the effect may not set."""
    special = stat.S_IMODE(before.mode) & ~0o777
    attributes = [name for name in _attributes(source) if name not in _LABELS]
    if special or attributes:
        named = ", ".join(attributes) if attributes else f"mode {stat.S_IMODE(before.mode):04o}"
        raise RefusedError(
            Reason.EFFECT_FAILED,
            f"a move to another filesystem would lose properties of this file: {named}",
            where=work.spots[SOURCE].path,
            next_step="Move it within its filesystem, or copy it and delete it with two tasks.",
        )


def part_path(work: EffectContext, spot: PathHandle) -> str:
    return f"{spot.path.rpartition('/')[0]}/{work.part_name}"


# --- recovery -------------------------------------------------------------------------------------------------------


def clear_part(work: EffectContext, before: FileIdentity | None = None) -> None:
    """Remove unfinished bytes at the destination. No other program can know the name, so the file is the task's own."""
    spot = work.spots[DESTINATION]
    found = peek(spot.folder, work.part_name, where=spot.path)
    if found is not None and stat.S_ISREG(found.mode) and (before is None or not found.is_file(before)):
        remove_if_same(spot.folder, work.part_name, found, where=part_path(work, spot))


def find_made(work: EffectContext) -> tuple[FileIdentity, str] | None:
    """Return the file at the destination and the digest of its original content, if the task made it. Else None."""
    spot = work.spots[DESTINATION]
    arrived = peek(spot.folder, spot.name, where=spot.path)
    digest = digest_made(work, arrived, spot.folder) if arrived is not None else None
    return (arrived, digest) if arrived is not None and digest is not None else None


def finish_made(work: EffectContext, *, finish: bool) -> str | None:
    """Finish or undo a task that only makes a file. Return the digest of the file if it exists and stays, else None."""
    spot = work.spots[DESTINATION]
    clear_part(work)
    made = find_made(work)
    if made is None:
        return None
    if finish:
        sync(spot.folder, where=spot.path)
        return made[1]
    remove_untouched(spot, *made)
    return None


def remove_untouched(spot: PathHandle, made: FileIdentity, digest: str) -> None:
    """Remove the file if it still has its original bytes. Raise if it was changed since, and leave it unchanged."""
    try:
        with opened(open_file(spot.folder, spot.name, where=spot.path)) as descriptor:
            same = sha256_of(descriptor) == digest
    except RefusedError:  # the task made a regular file, so a file that cannot be opened safely has been changed
        same = False
    if not same:
        raise edited_error(spot.path)
    _unpublish(spot, made)


def find_source(work: EffectContext, before: FileIdentity) -> tuple[str, FileIdentity] | None:
    """Return the current name of the source in its folder: its own, or the part name if it was set aside. Else None."""
    source = work.spots[SOURCE]
    for name in (source.name, work.part_name):
        found = peek(source.folder, name, where=source.path)
        if found is not None and found.is_file(before):
            return name, found
    return None


def restore_aside(work: EffectContext, before: FileIdentity) -> None:
    """Give the file that was set aside its name again: the source, or a file that had replaced it at that moment."""
    source = work.spots[SOURCE]
    aside = peek(source.folder, work.part_name, where=source.path)
    if aside is not None and (aside.is_file(before) or not _is_one_folder(work)):
        _restore_source_name(work, aside)


def edited_error(where: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        "the task was interrupted, and the file that it had created was changed since; the file is left unchanged",
        where=where,
        next_step="Check the file, move it away, then run `remit recover` again.",
    )


# --- inside ---------------------------------------------------------------------------------------------------------


def _unpublish(spot: PathHandle, made: FileIdentity) -> None:
    found = peek(spot.folder, spot.name, where=spot.path)
    if found is None or not found.is_file(made):
        return
    if not found.has_content_of(made):
        raise edited_error(spot.path)
    remove_if_same(spot.folder, spot.name, made, where=spot.path)


def _restore_source_name(work: EffectContext, aside: FileIdentity) -> None:
    source = work.spots[SOURCE]
    old, new = (source.folder, work.part_name), (source.folder, source.name)
    try:
        note_restored(work, aside, source.folder)
    finally:  # also if the host no longer listens
        restore_name(old, new, where=part_path(work, source), where_new=source.path)
    sync(source.folder, where=source.path)


def _is_one_folder(work: EffectContext) -> bool:
    """Whether source and destination are in one folder, which may be mounted twice. Then they share the part name."""
    spots = [os.fstat(spot.folder) for spot in work.spots.values()]
    return len(spots) > 1 and len({(found.st_dev, found.st_ino) for found in spots}) == 1


def _require_same_permissions(work: EffectContext, made: FileIdentity, before: FileIdentity) -> None:
    if (made.uid, made.gid, made.mode) != (before.uid, before.gid, before.mode):
        raise RefusedError(
            Reason.EFFECT_FAILED,
            "this file cannot be moved to another filesystem without changing its owner, group or mode",
            where=work.spots[SOURCE].path,
            next_step="Run Remit as the file's owner, or copy it and delete it with two tasks.",
        )


def _attributes(descriptor: int) -> list[str]:
    try:
        return os.listxattr(descriptor)
    except OSError:  # the filesystem has no attributes
        return []


def _sync_removal(source: PathHandle) -> None:
    """Sync the folder, with a second attempt if needed. The file is removed already, so only this can confirm it."""
    with suppress(OSError):
        os.fsync(source.folder)
        return
    try:
        os.fsync(source.folder)
    except OSError as problem:
        left = failure(problem, source.path, "was removed, but the disk did not confirm it")
        raise left from None


def _as_error(problem: Exception, where: str) -> Exception:
    return failure(problem, where, "could not be done") if isinstance(problem, OSError) else problem


def _not_undone_error(first: Exception, left: Exception) -> EnvironmentFailureError:
    advice = [problem.next_step for problem in (first, left) if isinstance(problem, RemitError)]
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        f"{_what(first)}; and the steps before that could not be undone: {_what(left)}",
        where=left.where if isinstance(left, RemitError) else "",
        next_step=" ".join(advice),
    )


def _what(problem: Exception) -> str:
    return problem.what if isinstance(problem, RemitError) else type(problem).__name__
