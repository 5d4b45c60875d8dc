"""The steps that the file effects are made of, and how to tell afterwards which of them were done.

Each step either happens whole or leaves things as they were; `undoing` takes back those before it when one fails.
What a killed task had done is read from the files themselves, since a host that died has lost the task's notes.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from remit.confine.beneath import Identity, already_there, exists, failure, identify, look, open_file, peek
from remit.confine.beneath import rename_noreplace as rename
from remit.effects.duplicate import (
    changed,
    copy_content,
    create_part,
    remove_if_same,
    rename_checked,
    require_equal,
    sha256_of,
    sync,
)
from remit.effects.work import Spot, Work
from remit.errors import EnvironmentFailed, Reason, Refused, RemitError
from remit.faultpoints import reach

SOURCE: Final = "source_path"
DESTINATION: Final = "destination_path"

# Every file has this label where SELinux is at work; the kernel gives a new file its own.
_LABELS: Final = frozenset({"security.selinux"})
# Some filesystems keep times to the second, or to two.
_COARSEST_TIME: Final = 2_000_000_000


@contextmanager
def undoing(where: str) -> Iterator[ExitStack]:
    """Callbacks put on the stack run, last one first, if the block fails. If one of them fails, the error says so."""
    undo = ExitStack()
    try:
        yield undo
    except Exception as problem:
        first = _as_error(problem, where)
        try:
            undo.close()
        except (OSError, RemitError) as second:
            raise _not_undone(first, _as_error(second, where)) from problem
        raise first from problem
    undo.pop_all()


@contextmanager
def opened(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# --- doing ----------------------------------------------------------------------------------------------------------


def identity_before(work: Work, use: str = SOURCE) -> Identity:
    return Identity.from_json(work.before[use]).seen_from(work.spots[use].folder)


def require_ready(work: Work) -> Identity:
    """The source is the file that was looked at before, untouched, and nothing is at the destination."""
    source = work.spots[SOURCE]
    before = identity_before(work)
    if look(source.folder, source.name, where=source.path) != before:
        raise changed(source.path)
    if DESTINATION in work.spots:
        require_free(work.spots[DESTINATION])
    return before


def require_free(spot: Spot) -> None:
    if exists(spot.folder, spot.name):
        raise already_there(spot.path)


def open_source(work: Work, before: Identity) -> int:
    source = work.spots[SOURCE]
    descriptor = open_file(source.folder, source.name, where=source.path)
    if identify(descriptor) != before:
        os.close(descriptor)
        raise changed(source.path)
    return descriptor


def duplicate(work: Work, source: int, before: Identity, undo: ExitStack, *, keep: bool) -> tuple[Identity, str]:
    """The source's bytes under the part name in the destination's folder, verified and on the disk; with its digest.

    With `keep` it has the source's owner, mode and times, or is refused.
    """
    destination = work.spots[DESTINATION]
    times = os.fstat(source)  # before reading, which may change the time of access
    with opened(create_part(destination.folder, work.part_name, before.mode, where=destination.path)) as part:
        made = identify(part)
        undo.callback(remove_if_same, destination.folder, work.part_name, made, where=destination.path)
        reach("effect.part_made")
        work.note({"made": f"{made.dev}:{made.ino}"})
        if keep:
            _require_kept(work, made, before)
        copy_content(source, part, before.size, work.progress)
        reach("effect.part_filled")
        digest = require_equal(source, part, before, where=work.spots[SOURCE].path)
        if keep:
            os.utime(part, ns=(times.st_atime_ns, times.st_mtime_ns))
        os.fsync(part)
        reach("effect.part_synced")
        return identify(part), digest


def publish(work: Work, made: Identity, undo: ExitStack) -> None:
    """The finished part gets its real name, for good. Somebody else's file of that name stays."""
    spot = work.spots[DESTINATION]
    part, new = (spot.folder, work.part_name), (spot.folder, spot.name)
    rename_checked(part, new, made, where=part_path(work, spot), where_new=spot.path)
    undo.callback(remove_if_same, *new, made, where=spot.path)
    reach("effect.published")
    sync(spot.folder, where=spot.path)
    reach("effect.folder_synced")


def take_away(work: Work, kept: Identity, undo: ExitStack) -> None:
    """Remove the source, which is set aside first and looked at: what replaced it at the last moment is given back.

    Forgets all of `undo` once the file is gone: from then on there is no way back, only forward.
    """
    source = work.spots[SOURCE]
    name, aside = (source.folder, source.name), (source.folder, work.part_name)
    there = peek(*aside, where=source.path)
    if there is None or not there.is_file(kept):
        rename_checked(name, aside, kept, where=source.path, where_new=part_path(work, source))
    undo.callback(sync, source.folder, where=source.path)
    undo.callback(rename, *aside, *name, where=part_path(work, source), where_new=source.path)
    reach("effect.set_aside")
    os.unlink(work.part_name, dir_fd=source.folder)
    undo.pop_all()
    reach("effect.removed")
    _sync_removal(source)
    reach("effect.removal_synced")


def sync_both(source: Spot, destination: Spot) -> None:
    # The destination first: a filesystem without a journal must not forget the file at both ends.
    sync(destination.folder, where=destination.path)
    here, there = os.fstat(source.folder), os.fstat(destination.folder)
    if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
        sync(source.folder, where=source.path)


def require_portable(work: Work, source: int, before: Identity) -> None:
    """Refuses what a move to another filesystem would lose, since no effect may change owner, mode or attributes."""
    special = stat.S_IMODE(before.mode) & ~0o777
    attributes = [name for name in _attributes(source) if name not in _LABELS]
    if special or attributes:
        named = ", ".join(attributes) if attributes else f"mode {stat.S_IMODE(before.mode):04o}"
        raise Refused(
            Reason.EFFECT_FAILED,
            f"this file cannot be moved to another filesystem without losing what belongs to it: {named}",
            where=work.spots[SOURCE].path,
            next_step="Move it within its filesystem, or copy it and delete it by two tasks.",
        )


def part_path(work: Work, spot: Spot) -> str:
    return f"{spot.path.rpartition('/')[0]}/{work.part_name}"


# --- telling what was done ------------------------------------------------------------------------------------------


def clear_part(work: Work, spot: Spot, before: Identity | None = None) -> bool:
    """Remove unfinished bytes, and say whether there were any. The name is this task's own, so the file is, too."""
    found = peek(spot.folder, work.part_name, where=spot.path)
    if found is None or not stat.S_ISREG(found.mode) or (before is not None and found.is_file(before)):
        return False
    return remove_if_same(spot.folder, work.part_name, found, where=part_path(work, spot))


def find_source(work: Work, before: Identity) -> tuple[str, Identity] | None:
    """The name under which the source still is in its folder: its own, or the part name if it was set aside."""
    source = work.spots[SOURCE]
    for name in (source.name, work.part_name):
        found = peek(source.folder, name, where=source.path)
        if found is not None and found.is_file(before):
            return name, found
    return None


def put_back(work: Work, before: Identity) -> None:
    """Give a source that was set aside its name again."""
    source = work.spots[SOURCE]
    aside = peek(source.folder, work.part_name, where=source.path)
    if aside is not None and aside.is_file(before):
        old, new = (source.folder, work.part_name), (source.folder, source.name)
        rename(*old, *new, where=part_path(work, source), where_new=source.path)
        sync(source.folder, where=source.path)


def was_made(work: Work, found: Identity) -> bool:
    """Whether the task itself said that it made this file."""
    return any(note.get("made") == f"{found.dev}:{found.ino}" for note in work.notes)


def has_same_bytes(work: Work, name: str) -> bool:
    """Whether the destination has the bytes of the source, which now has this name. Reads both."""
    source, destination = work.spots[SOURCE], work.spots[DESTINATION]
    try:
        with (
            opened(open_file(source.folder, name, where=source.path)) as old,
            opened(open_file(destination.folder, destination.name, where=destination.path)) as new,
        ):
            return os.fstat(old).st_size == os.fstat(new).st_size and sha256_of(old) == sha256_of(new)
    except Refused:  # whatever cannot be opened by the rules was not made by them
        return False


def has_traits(found: Identity, before: Identity) -> bool:
    """Whether the file could be one that was moved here: size, mode and time are kept by a move."""
    same = (found.size, found.mode) == (before.size, before.mode)
    return same and abs(found.mtime_ns - before.mtime_ns) < _COARSEST_TIME


def edited_since(where: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        Reason.EFFECT_FAILED,
        "the task was stopped half-way, and the file it had made was changed since, so it is left as it is",
        where=where,
        next_step="Look at it, move it away, then run `remit recover` again.",
    )


def digest_at(spot: Spot) -> str:
    with opened(open_file(spot.folder, spot.name, where=spot.path)) as descriptor:
        return sha256_of(descriptor)


# --- inside ---------------------------------------------------------------------------------------------------------


def _require_kept(work: Work, made: Identity, before: Identity) -> None:
    if (made.uid, made.gid, made.mode) != (before.uid, before.gid, before.mode):
        raise Refused(
            Reason.EFFECT_FAILED,
            "this file cannot be moved to another filesystem without changing its owner, group or mode",
            where=work.spots[SOURCE].path,
            next_step="Run Remit as the file's owner, or copy it and delete it by two tasks.",
        )


def _attributes(descriptor: int) -> list[str]:
    try:
        return os.listxattr(descriptor)
    except OSError:  # the filesystem has none
        return []


def _sync_removal(source: Spot) -> None:
    """Twice if need be: the file is gone, and what a second attempt can still save is the certainty of it."""
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


def _not_undone(first: Exception, left: Exception) -> EnvironmentFailed:
    advice = [problem.next_step for problem in (first, left) if isinstance(problem, RemitError)]
    return EnvironmentFailed(
        Reason.EFFECT_FAILED,
        f"{_what(first)}; and what was done before that could not be taken back: {_what(left)}",
        where=left.where if isinstance(left, RemitError) else "",
        next_step=" ".join(advice),
    )


def _what(problem: Exception) -> str:
    return problem.what if isinstance(problem, RemitError) else type(problem).__name__
