"""Files as a plan's hands take them: read whole, told apart by their state, written under a name nobody else has.

Works on the folders it was given, by one name at a time, and follows nothing. No name is ever overwritten here.
"""

import binascii
import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.effects.context import EffectContext, PathHandle, read_given
from remit.effects.file_copy import create_part, sha256_of, sync
from remit.effects.plans.steps import MAX_PLAN_BYTES, PlanStep, State, StepPlan, aside_name, parse_plan, part_name
from remit.fs.atomic_write import start_writing
from remit.fs.openat import FileIdentity, failure, identify, open_file, peek

try:  # the one function: the module around it loads others, which every fork pays for
    from _hashlib import openssl_sha256 as sha256
except ImportError:  # a Python without OpenSSL
    from hashlib import sha256

PERMISSIONS: Final = 0o777
_SPECIAL: Final = 0o7000
_ACCESS_ACL: Final = "system.posix_acl_access"
_UNFINISHED: Final = 0o600
_NOT_OURS_TO_SET: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EINVAL})

Likeness = Literal["absent", "before", "after", "other"]

Fill = Callable[[int], object]
"""Writes all bytes of a file to the descriptor of an empty one. Raises OSError, or one of ours."""


class ReadFile(NamedTuple):
    """A file, read at one moment."""

    content: bytes
    state: State
    identity: FileIdentity


class FoundFile(NamedTuple):
    """What has a name, in the words of a step: its state before, its state after, or something else."""

    likeness: Likeness
    identity: FileIdentity | None


def read_plan(work: EffectContext) -> StepPlan:
    """What the host sent along. Not checked further: the host made it."""
    return parse_plan(read_given(work, "plan", MAX_PLAN_BYTES))


def spot_of(work: EffectContext, path: int) -> PathHandle | None:
    """None where the folder does not exist, and so nothing in it."""
    return work.spots.get(str(path))


def require_spot(work: EffectContext, plan: StepPlan, path: int) -> PathHandle:
    spot = spot_of(work, path)
    if spot is None:
        raise missing(plan.paths[path], "the folder of this file does not exist")
    return spot


def state_of(content: bytes, mode: int) -> State:
    return State(f"sha256:{sha256(content).hexdigest()}", len(content), mode & PERMISSIONS)


def read_file(spot: PathHandle, most: int, *, where: str) -> ReadFile:
    """All of it. Refuses what is missing, too large, not a plain file, or changes while it is read."""
    descriptor = open_file(spot.folder, spot.name, where=where)
    try:
        before = identify(descriptor)
        if before.size > most:
            raise too_large(before.size, most, where)
        content = _read_all(descriptor, before.size)
        after = identify(descriptor)
    except OSError as problem:
        raise failure(problem, where, "could not be read") from None
    finally:
        os.close(descriptor)
    if after != before or len(content) != before.size:
        raise mismatch("somebody wrote to the file while it was read", where)
    return ReadFile(content, state_of(content, before.mode), before)


def require_ordinary(identity: FileIdentity, *, where: str) -> None:
    """A file that runs as somebody else, or shares its place in memory, is nobody's to rewrite by a plan."""
    if identity.mode & _SPECIAL:
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            f"a file with the mode {stat.S_IMODE(identity.mode):04o} is neither modified nor deleted by a plan",
            where=where,
            next_step="Take the set-id and sticky bits away first, if the file may be changed.",
        )


def find_path(work: EffectContext, path: int, before: State | None, after: State | None = None) -> FoundFile:
    """What is at a path of the plan. Where there is no folder, there is nothing in it."""
    spot = spot_of(work, path)
    return FoundFile("absent", None) if spot is None else find(spot, spot.name, before, after)


def find(spot: PathHandle, name: str, before: State | None, after: State | None) -> FoundFile:
    """Compared by bytes and permissions. Whatever cannot be opened by the rules is something else."""
    identity = peek(spot.folder, name, where=spot.path)
    if identity is None:
        return FoundFile("absent", None)
    if not stat.S_ISREG(identity.mode) or all(
        state is None or state.size != identity.size for state in (before, after)
    ):
        return FoundFile("other", identity)
    try:
        descriptor = open_file(spot.folder, name, where=spot.path)
    except RemitError:
        return FoundFile("other", identity)
    try:
        opened = identify(descriptor)
        state = State(sha256_of(descriptor), opened.size, opened.mode & PERMISSIONS)
    except OSError as problem:
        raise failure(problem, spot.path, "could not be read") from None
    finally:
        os.close(descriptor)
    if state.is_alike(before):
        return FoundFile("before", opened)
    return FoundFile("after" if state.is_alike(after) else "other", opened)


# --- names that are the plan's own -----------------------------------------------------------------------------------


def old_name(plan: StepPlan, step: PlanStep) -> str:
    """Where the old file of a modification or a deletion is set aside."""
    return (part_name if step.move == "modify" else aside_name)(plan.prefix, step.number)


def fresh_name(plan: StepPlan, step: PlanStep) -> str:
    """Where new bytes grow. For a modification not the name of the old file: what is there is never in doubt."""
    return (part_name if step.move == "create" else aside_name)(plan.prefix, step.number)


def beside(spot: PathHandle, name: str) -> str:
    """The path of a name in the folder of a spot, for people."""
    return f"{spot.path.rpartition('/')[0]}/{name}"


def write_fresh(spot: PathHandle, name: str, fill: Fill, mode: int, metadata: Mapping[str, Any] | None) -> int:
    """New bytes under this name, on their way to the disk; the caller syncs and closes the descriptor."""
    first = mode if metadata is None else _UNFINISHED  # closed to all others until it is known who may read it
    descriptor = create_part(spot.folder, name, first, where=spot.path)
    try:
        _require_no_other_rights(descriptor, where=spot.path)
        fill(descriptor)
        if metadata is not None:
            _set_metadata(descriptor, metadata, where=spot.path)
        start_writing(descriptor)
    except (OSError, RemitError) as problem:
        made = identify(descriptor)
        os.close(descriptor)
        remove_temporary(spot, name, made)
        if isinstance(problem, OSError):
            raise failure(problem, spot.path, "could not be written") from None
        raise
    return descriptor


def remove_temporary(spot: PathHandle, name: str, expected: FileIdentity | None = None) -> None:
    """Remove what has this name of ours, if it is a plain file, and this very one where that is known."""
    identity = peek(spot.folder, name, where=spot.path)
    if identity is None or not stat.S_ISREG(identity.mode) or (expected is not None and not identity.is_file(expected)):
        return
    try:
        os.unlink(name, dir_fd=spot.folder)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise failure(problem, beside(spot, name), "could not be removed") from None


def sync_folders(spots: Iterable[PathHandle]) -> None:
    """Each folder once, whichever of its names were touched."""
    synced: set[tuple[int, int]] = set()
    for spot in spots:
        found = os.fstat(spot.folder)
        if (found.st_dev, found.st_ino) not in synced:
            synced.add((found.st_dev, found.st_ino))
            sync(spot.folder, where=spot.path)


def spots_of(work: EffectContext, steps: Iterable[PlanStep]) -> list[PathHandle]:
    paths = (path for step in steps for path in (step.path, step.new_path) if path is not None)
    return [spot for path in paths if (spot := spot_of(work, path)) is not None]


def require_hash(expected: str | None, state: State | None, where: str) -> None:
    """What the plan says of a file's content, where it says anything."""
    if expected is None or (state is not None and state.sha256 == expected):
        return
    found = "nothing would be there" if state is None else f"it has {state.sha256}"
    raise mismatch(f"the plan expects the content {expected}, and {found}", where)


# --- refusals --------------------------------------------------------------------------------------------------------


def missing(where: str, what: str = "the file does not exist") -> RefusedError:
    return RefusedError(Reason.FILE_MISSING, what, where=where, next_step="Check the path, and create it if due.")


def too_large(size: int, most: int, where: str) -> RefusedError:
    return RefusedError(
        Reason.LIMIT_EXCEEDED,
        f"the file has {size:,} bytes, and a plan takes files of at most {most:,}",
        where=where,
        next_step="Raise limits.max_file_bytes in remit.yaml, if it may be larger.",
    )


def inherited_rights_error(where: str) -> RemitError:
    """The process that writes may not change permissions, so what the folder gives could not be taken away again."""
    return EnvironmentFailureError(
        Reason.PERMISSION_DENIED,
        "this folder gives new files access rights of its own (a default ACL), "
        "so what is written there would not keep its permissions",
        where=where,
        next_step="Remove the default ACL of the folder with `setfacl -k`, or make the change by hand.",
    )


def mismatch(what: str, where: str) -> RefusedError:
    return RefusedError(
        Reason.HASH_MISMATCH,
        what,
        where=where,
        next_step="Look at the file as it is now, and have the plan approved anew.",
    )


def as_error(problem: Mapping[str, str]) -> RemitError:
    """What the host says of a step, or a simulation said: an error as it travels."""
    return EnvironmentFailureError(
        Reason(problem["reason"]), problem["what"], where=problem["where"], next_step=problem["next_step"]
    )


# --- inside ----------------------------------------------------------------------------------------------------------


def _require_no_other_rights(descriptor: int, *, where: str) -> None:
    """Asked of the empty file itself: the folder may have got a default ACL since somebody looked at it."""
    try:
        names = os.listxattr(descriptor)
    except OSError as problem:
        if problem.errno != errno.ENOTSUP:
            raise
        return
    if _ACCESS_ACL in names:
        raise inherited_rights_error(where)


def _read_all(descriptor: int, size: int) -> bytes:
    pieces: list[bytes] = []
    done = 0
    # One byte more than is due, so that a file that grew is noticed.
    while piece := os.pread(descriptor, size + 1 - done, done):
        pieces.append(piece)
        done += len(piece)
        if done > size:
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _set_metadata(descriptor: int, metadata: Mapping[str, Any], *, where: str) -> None:
    """Owner first, since changing it clears bits of the mode; times last, since everything else changes them.

    With `strict`, what this user may not give is a failure; else the bytes are what counts, and the rest is tried.
    """
    strict = bool(metadata.get("strict"))
    if "uid" in metadata:
        _try(os.fchown, descriptor, int(metadata["uid"]), int(metadata["gid"]), strict=strict, where=where)
    for name, value in metadata.get("xattrs", {}).items():
        _try(os.setxattr, descriptor, name, binascii.a2b_base64(value), strict=strict, where=where)
    os.fchmod(descriptor, int(metadata["mode"]) & PERMISSIONS)
    if "mtime_ns" in metadata:
        os.utime(descriptor, ns=(int(metadata["atime_ns"]), int(metadata["mtime_ns"])))


def _try(call: Any, *arguments: Any, strict: bool, where: str) -> None:
    try:
        call(*arguments)
    except OSError as problem:
        if problem.errno not in _NOT_OURS_TO_SET:
            raise
        if strict:
            raise EnvironmentFailureError(
                Reason.PERMISSION_DENIED,
                f"the owner or an attribute of this file cannot be kept: {os.strerror(problem.errno)}",
                where=where,
                next_step="Run Remit as the owner of the file, or set preserve_permissions to false.",
            ) from None
