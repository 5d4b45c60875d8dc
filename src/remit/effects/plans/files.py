"""File operations of a plan: read a whole file, compare its state, write new bytes under a name of the plan's own.

Works in the folders of the order, on one name at a time, and follows no link. No name is ever overwritten here.
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
"""A function that writes all bytes of a file to the descriptor of an empty one. Raises OSError or a `RemitError`."""


class ReadFile(NamedTuple):
    """A file, read at one moment."""

    content: bytes
    state: State
    identity: FileIdentity


class FoundFile(NamedTuple):
    """The file at a name, compared with a step: as before the step, as after it, or another file."""

    likeness: Likeness
    identity: FileIdentity | None


def read_plan(work: EffectContext) -> StepPlan:
    """Return the plan that the host sent. It is not checked further, because the host made it."""
    return parse_plan(read_given(work, "plan", MAX_PLAN_BYTES))


def spot_of(work: EffectContext, path: int) -> PathHandle | None:
    """Return the folder and name of a path. None if the folder does not exist."""
    return work.spots.get(str(path))


def require_spot(work: EffectContext, plan: StepPlan, path: int) -> PathHandle:
    spot = spot_of(work, path)
    if spot is None:
        raise missing(plan.paths[path], "the folder of this file does not exist")
    return spot


def state_of(content: bytes, mode: int) -> State:
    return State(f"sha256:{sha256(content).hexdigest()}", len(content), mode & PERMISSIONS)


def read_file(spot: PathHandle, most: int, *, where: str) -> ReadFile:
    """Read a whole file. Raises if it is missing, too large, not a regular file, or changes during the read."""
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
        raise mismatch("another program wrote to the file while Remit read it", where)
    return ReadFile(content, state_of(content, before.mode), before)


def require_ordinary(identity: FileIdentity, *, where: str) -> None:
    """Raise if the file has a set-id or sticky bit. A plan must not rewrite a file that runs as another user."""
    if identity.mode & _SPECIAL:
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            f"a plan cannot modify or delete a file with the mode {stat.S_IMODE(identity.mode):04o}",
            where=where,
            next_step="If the file may be changed, remove its set-id and sticky bits first.",
        )


def find_path(work: EffectContext, path: int, before: State | None, after: State | None = None) -> FoundFile:
    """Return the file at a path of the plan. It is absent if its folder does not exist."""
    spot = spot_of(work, path)
    return FoundFile("absent", None) if spot is None else find(spot, spot.name, before, after)


def find(spot: PathHandle, name: str, before: State | None, after: State | None) -> FoundFile:
    """Return the file at a name, compared by bytes and permissions. One that cannot be opened safely is `other`."""
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


# --- names that belong to the plan -----------------------------------------------------------------------------------


def old_name(plan: StepPlan, step: PlanStep) -> str:
    """Return the name under which the old file of a modification or a deletion is set aside."""
    return (part_name if step.move == "modify" else aside_name)(plan.prefix, step.number)


def fresh_name(plan: StepPlan, step: PlanStep) -> str:
    """Return the name for new bytes. A modification uses another name for its old file: the two are never confused."""
    return (part_name if step.move == "create" else aside_name)(plan.prefix, step.number)


def beside(spot: PathHandle, name: str) -> str:
    """Return the path of a name in the folder of a spot, for messages."""
    return f"{spot.path.rpartition('/')[0]}/{name}"


def write_fresh(spot: PathHandle, name: str, fill: Fill, mode: int, metadata: Mapping[str, Any] | None) -> int:
    """Write new bytes under this name. Return the descriptor, which the caller syncs and closes."""
    first = mode if metadata is None else _UNFINISHED  # no other user may read it until its permissions are known
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
    """Remove the file with this name of the plan, if it is a regular file, and the expected one if that is given."""
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
    """Sync each folder once."""
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
    """Raise if the plan names a digest for the file's content and the file has another."""
    if expected is None or (state is not None and state.sha256 == expected):
        return
    found = "the file would not exist" if state is None else f"it has {state.sha256}"
    raise mismatch(f"the plan expects the content {expected}, but {found}", where)


# --- refusals --------------------------------------------------------------------------------------------------------


def missing(where: str, what: str = "the file does not exist") -> RefusedError:
    return RefusedError(Reason.FILE_MISSING, what, where=where, next_step="Check the path, or create the file.")


def too_large(size: int, most: int, where: str) -> RefusedError:
    return RefusedError(
        Reason.LIMIT_EXCEEDED,
        f"the file has {size:,} bytes; the limit for a file in a plan is {most:,}",
        where=where,
        next_step="Raise limits.max_file_bytes in remit.yaml if the file may be larger.",
    )


def inherited_rights_error(where: str) -> RemitError:
    """The error for a folder with a default ACL. The process that writes cannot remove rights that the folder adds."""
    return EnvironmentFailureError(
        Reason.PERMISSION_DENIED,
        "this folder adds its own access rights to new files (a default ACL), "
        "so a file written there would not keep its permissions",
        where=where,
        next_step="Remove the default ACL of the folder with `setfacl -k`, or make the change by hand.",
    )


def mismatch(what: str, where: str) -> RefusedError:
    return RefusedError(
        Reason.HASH_MISMATCH,
        what,
        where=where,
        next_step="Check the file, and have the plan approved again.",
    )


def as_error(problem: Mapping[str, str]) -> RemitError:
    """Return the error that the host or a simulation recorded for a step."""
    return EnvironmentFailureError(
        Reason(problem["reason"]), problem["what"], where=problem["where"], next_step=problem["next_step"]
    )


# --- inside ----------------------------------------------------------------------------------------------------------


def _require_no_other_rights(descriptor: int, *, where: str) -> None:
    """Raise if the new, empty file has an ACL. The folder may have got a default ACL since the host checked it."""
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
    # One byte more than expected, to notice a file that grew.
    while piece := os.pread(descriptor, size + 1 - done, done):
        pieces.append(piece)
        done += len(piece)
        if done > size:
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _set_metadata(descriptor: int, metadata: Mapping[str, Any], *, where: str) -> None:
    """Set owner, attributes, mode and times. The owner is first, because changing it clears bits of the mode. The times
    are last, because all other changes set them.

    With `strict`, it is a failure if this user may not set one of them. Otherwise only the bytes are required, and the
    rest is tried.
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
                f"the owner or an attribute of this file cannot be set: {os.strerror(problem.errno)}",
                where=where,
                next_step="Run Remit as the owner of the file, or set preserve_permissions to false.",
            ) from None
