"""Functions that open a file without following a link, leaving its directory, or crossing a mount point.

openat2 walks the path, so that no other process can replace a component between a check and the open. The result is a
descriptor, and all further work uses it. The sandboxed process uses this module too, so it imports only the standard
library, `remit.core.errors`, `remit.core.syscalls` and `remit.fs.statx`. Limit: a descriptor does not show if its file
is moved afterwards.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.syscalls import number_here, prepared
from remit.fs.statx import stat_with_birth

_OPENAT2: Final = number_here("openat2")
_RENAMEAT2: Final = number_here("renameat2")
_AT_FDCWD: Final = -100
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 1, 2, 4, 8
_CONFINED: Final = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
# The kernel answers EAGAIN if a rename of another process disturbed its walk. A process that renames without end must
# not block Remit.
_TRIES: Final = 200
_DEFAULT_ACL: Final = "system.posix_acl_default"

_openat2: Final = prepared(ctypes.c_long, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
_renameat2: Final = prepared(ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_char_p, ctypes.c_ulong)


def _how(flags: int, resolve: int) -> Any:
    """Return a `struct open_how`: flags, mode, resolve. It is made once, because the calls only read it."""
    return (ctypes.c_uint64 * 3)(flags | os.O_CLOEXEC, 0, resolve)


_BASE: Final = _how(os.O_PATH | os.O_DIRECTORY, _NO_MAGICLINKS | _NO_SYMLINKS)
# Not O_PATH: only a folder that is open for reading can be synced.
_FOLDER: Final = _how(os.O_RDONLY | os.O_DIRECTORY, _CONFINED)
# Without O_NOFOLLOW, which would open the link itself instead of refusing it.
_INSPECT: Final = _how(os.O_PATH, _CONFINED)
_READ: Final = _how(os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY, _CONFINED)

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
    stat.S_IFLNK: "a symbolic link",
}


class OtherFilesystemError(EnvironmentFailureError):
    """Raised if a rename would cross from one filesystem, or mount, to another. Nothing was changed."""


class FileIdentity(NamedTuple):
    """A file and the state in which it was seen. Two are equal if they are the same file in the same state.

    Attributes:
        dev: The device.
        ino: The number of the inode.
        size: The size in bytes.
        mtime_ns: The time of the last change of the content, in nanoseconds.
        ctime_ns: The time of the last change of content or attributes, in nanoseconds.
        mode: The type and the permissions.
        uid: The owner.
        gid: The group.
        nlink: The number of hard links.
    """

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    uid: int
    gid: int
    nlink: int
    # Equality leaves it out, since not every call gets it from the kernel. `ctime_ns` is never before it.
    birth_ns: int = 0
    """When the file was made, or 0 if unknown. It is needed because an inode number is reused for the next file."""
    folder_dev: int = 0
    """The device of the folder in which the file was seen. A disk may have another number after a reboot."""

    def as_json(self) -> dict[str, int]:
        """Return each value as two halves of 32 bits, since the canonical form has no integers past 2^53.

        Returns:
            The halves by name, such as `ino_high` and `ino_low`.
        """
        halves: dict[str, int] = {}
        for (high, low), value in zip(_HALVES, self, strict=True):
            halves[high] = value >> 32
            halves[low] = value & 0xFFFFFFFF
        return halves

    @classmethod
    def from_json(cls, halves: Mapping[str, int]) -> "FileIdentity":
        """Parse the result of `as_json`.

        Args:
            halves: The halves by name.

        Returns:
            The identity.

        Raises:
            KeyError: A half is missing.
        """
        return cls(*[(halves[high] << 32) | halves[low] for high, low in _HALVES])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileIdentity) and self[:_COMPARED] == other[:_COMPARED]

    def __ne__(self, other: object) -> bool:  # otherwise the tuple's own would be used
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:_COMPARED])

    def seen_from(self, folder: int) -> "FileIdentity":
        """Return the identity with the present device of its folder, which may have been mounted again since.

        Args:
            folder: A descriptor of the folder.

        Returns:
            The identity to compare with files that are seen now.
        """
        # With stacked layers, the device of a file may differ from its folder's. Then the present one is unknown.
        return FileIdentity(os.fstat(folder).st_dev, *self[1:]) if self.dev == self.folder_dev else self

    def is_file(self, other: "FileIdentity") -> bool:
        """Return whether both are the same file, even if it has changed.

        Args:
            other: The other identity.

        Returns:
            True if device, inode and, as far as known, birth time are equal.
        """
        same_birth = self.birth_ns == other.birth_ns or not (self.birth_ns and other.birth_ns)
        return same_birth and (self.dev, self.ino) == (other.dev, other.ino)

    def has_content_of(self, other: "FileIdentity") -> bool:
        """Return whether it is the same file, not written to since. A rename, link or chmod makes no difference.

        Args:
            other: The other identity.

        Returns:
            True if it is the same file with the same size and time of change.
        """
        return self.is_file(other) and (self.size, self.mtime_ns) == (other.size, other.mtime_ns)


_COMPARED: Final = FileIdentity._fields.index("birth_ns")
_HALVES: Final = tuple((f"{name}_high", f"{name}_low") for name in FileIdentity._fields)


def open_base(path: str) -> int:
    """Open an allowed directory, without a link from the root down. The caller closes the descriptor (O_PATH)."""
    return _open(_AT_FDCWD, os.fsencode(path), _BASE, path, "the allowed directory")


def open_folder(base: int, parents: Sequence[str], *, where: str = "") -> int:
    """Open the folder that `parents` leads to, beneath `base`. It is open for reading, so that it can be synced."""
    for component in parents:
        _require_component(component, where)
    path = "/".join(parents) or "."
    # The message names the folder, because `where` is usually the file below it.
    return _open(base, os.fsencode(path), _FOLDER, where or path, f"the folder {path}" if parents else "the folder")


def open_file(folder: int, name: str, *, where: str = "") -> int:
    """Open a regular file with exactly one link for reading. Never follows a link or waits for a FIFO.

    Args:
        folder: A descriptor of the folder.
        name: The name of the file in the folder.
        where: The path for error messages; the name if omitted.

    Returns:
        The descriptor. The caller closes it.

    Raises:
        RefusedError: The name is missing, is not a regular file with exactly one link, or was replaced meanwhile.
        EnvironmentFailureError: The file cannot be opened.
    """
    identity = inspect_file(folder, name, where=where)
    descriptor = _open(folder, os.fsencode(name), _READ, where or name, "the file")
    try:
        _require_same(identify(descriptor), identity, where or name)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def inspect_file(folder: int, name: str, *, where: str = "") -> FileIdentity:
    """Return the identity of a file without opening it. Refuses all but a regular file with exactly one link."""
    _require_component(name, where)
    descriptor = _open(folder, os.fsencode(name), _INSPECT, where or name, "the file")
    try:
        identity = FileIdentity(*stat_with_birth(descriptor), os.fstat(folder).st_dev)
    finally:
        os.close(descriptor)
    _require_plain(identity, where or name)
    return identity


def identify(descriptor: int) -> FileIdentity:
    """Return the identity of an open file.

    Args:
        descriptor: The open file.

    Returns:
        The identity, without the device of its folder.
    """
    return FileIdentity(*stat_with_birth(descriptor))


def peek(folder: int, name: str, *, where: str = "") -> FileIdentity | None:
    """Return the identity of the file, folder or link with this name. The next call may already find another.

    Args:
        folder: A descriptor of the folder.
        name: The name in the folder.
        where: The path for error messages; the name if omitted.

    Returns:
        The identity, or None if the name does not exist. A dangling link exists.

    Raises:
        RefusedError: The name has a separator.
        EnvironmentFailureError: The name cannot be inspected.
    """
    _require_component(name, where)
    try:
        return FileIdentity(*stat_with_birth(folder, name))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise failure(problem, where or name, "could not be inspected") from None


def exists(folder: int, name: str) -> bool:
    """Return whether anything has this name, also a dangling link."""
    return peek(folder, name) is not None


def rename_noreplace(
    folder_a: int, name_a: str, folder_b: int, name_b: str, *, where: str = "", where_new: str = ""
) -> None:
    """Rename a file in one step. An existing file or link with the new name is never replaced.

    Args:
        folder_a: A descriptor of the folder of the file.
        name_a: The name of the file.
        folder_b: A descriptor of the new folder.
        name_b: The new name.
        where: The old path for error messages; the name if omitted.
        where_new: The new path for error messages; the name if omitted.

    Raises:
        RefusedError: The file does not exist, or the new name exists.
        EnvironmentFailureError: The filesystem cannot do this, or the rename failed.
        OtherFilesystemError: The folders are on different filesystems. It is an `EnvironmentFailureError`.
    """
    _require_component(name_a, where)
    _require_component(name_b, where_new)
    old, new = os.fsencode(name_a), os.fsencode(name_b)
    if _renameat2(_RENAMEAT2, folder_a, old, folder_b, new, _RENAME_NOREPLACE) >= 0:
        return
    code = ctypes.get_errno()
    if code == errno.EEXIST:
        raise already_exists(where_new or name_b)
    if code == errno.ENOENT:
        raise _missing("the file", where or name_a)
    if code == errno.EXDEV:
        raise OtherFilesystemError(Reason.EFFECT_FAILED, "the two folders are on different filesystems", where=where)
    if code in {errno.EINVAL, errno.ENOSYS}:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "this filesystem cannot rename a file without the risk that it replaces another",
            where=where_new or name_b,
            next_step="Use a directory on ext4, XFS, Btrfs, tmpfs or another filesystem with RENAME_NOREPLACE.",
        )
    raise failure(OSError(code, os.strerror(code)), where or name_a, "could not be renamed")


def rename_exchange(folder: int, name_a: str, name_b: str, *, where: str = "") -> None:
    """Exchange two names in one step. At every moment each name belongs to one of the two files."""
    _require_component(name_a, where)
    _require_component(name_b, where)
    old, new = os.fsencode(name_a), os.fsencode(name_b)
    if _renameat2(_RENAMEAT2, folder, old, folder, new, _RENAME_EXCHANGE) >= 0:
        return
    code = ctypes.get_errno()
    if code == errno.ENOENT:
        raise _missing("the file", where or name_b)
    if code in {errno.EINVAL, errno.ENOSYS}:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "this filesystem cannot exchange two files in one step",
            where=where or name_b,
            next_step="Use a directory on ext4, XFS, Btrfs, tmpfs or another filesystem with RENAME_EXCHANGE.",
        )
    raise failure(OSError(code, os.strerror(code)), where or name_b, "could not be exchanged")


def make_folder(folder: int, name: str, *, where: str = "") -> bool:
    """Make a folder of mode 0755, less the umask. False if it exists already. The caller syncs `folder`."""
    _require_component(name, where)
    try:
        os.mkdir(name, 0o755, dir_fd=folder)
    except FileExistsError:
        found = peek(folder, name, where=where)
        if found is None or stat.S_ISDIR(found.mode):  # None: removed again, which the next open reports
            return False
        kind = _KINDS.get(stat.S_IFMT(found.mode), "a file")
        raise RefusedError(
            Reason.PATH_REFUSED,
            f"a folder is needed here, and this is {kind}",
            where=where or name,
            next_step="Choose another path.",
        ) from None
    except FileNotFoundError:
        raise _missing("the folder above", where or name) from None
    except OSError as problem:
        raise failure(problem, where or name, "could not be made") from None
    return True


def remove_folder(folder: int, name: str, *, where: str = "") -> bool:
    """Remove an empty folder. False if it is not empty, or no folder has this name. The caller syncs `folder`."""
    _require_component(name, where)
    try:
        os.rmdir(name, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as problem:
        if problem.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            return False
        raise failure(problem, where or name, "could not be removed") from None
    return True


def is_writable(folder: int) -> bool:
    """Return whether names can be made and removed in this folder with the present permissions. It may change.

    Limit: in a folder with the sticky bit, another user's file cannot be removed even so.
    """
    return os.access(".", os.W_OK | os.X_OK, dir_fd=folder, effective_ids=True)


def has_default_acl(folder: int) -> bool:
    """Return whether the folder has a default ACL, which gives new files permissions that their maker did not ask for.

    The folder is open for reading. Limit: permissions that a file server adds are not seen.
    """
    try:
        return _DEFAULT_ACL in os.listxattr(folder)
    except OSError as problem:
        if problem.errno == errno.ENOTSUP:
            return False
        raise failure(problem, "a folder", "could not be read for its default ACL") from None


def already_exists(where: str) -> RefusedError:
    return RefusedError(
        Reason.FILE_CONFLICT,
        "a file or folder exists here already, and is never overwritten",
        where=where,
        next_step="Choose a destination that does not exist.",
    )


def failure(problem: OSError, where: str, what: str) -> RemitError:
    """Return the error of Remit for a failed system call."""
    code = problem.errno or 0
    if code in {errno.ENOSPC, errno.EDQUOT}:
        return EnvironmentFailureError(
            Reason.DISK_FULL,
            f"this {what}: the disk, or a quota on it, is full",
            where=where,
            next_step="Free some space and try again.",
        )
    closed = code in {errno.EACCES, errno.EPERM, errno.EROFS}
    advice = "Check who owns it, and its mode. Remit has the permissions of the user that it runs as." if closed else ""
    why = os.strerror(code) if code else type(problem).__name__
    return EnvironmentFailureError(
        Reason.PERMISSION_DENIED if closed else Reason.EFFECT_FAILED,
        f"this {what}: {why}",
        where=where,
        next_step=advice or "`remit doctor` shows problems of this machine and its disks.",
    )


def _open(folder: int, path: bytes, how: Any, where: str, what: str) -> int:
    for _ in range(_TRIES):
        descriptor: int = _openat2(_OPENAT2, folder, path, how, 24)
        if descriptor >= 0:
            return descriptor
        code = ctypes.get_errno()
        if code not in {errno.EAGAIN, errno.EINTR}:
            raise _refusal(code, where, what)
    raise _refusal(errno.EAGAIN, where, what)


def _refusal(code: int, where: str, what: str) -> RemitError:
    if code == errno.ELOOP:
        return RefusedError(
            Reason.PATH_REFUSED,
            f"{what} is, or lies behind, a symbolic link",
            where=where,
            next_step="Use the real path of the file: no component may be a link.",
        )
    if code == errno.EXDEV:
        return RefusedError(
            Reason.PATH_REFUSED,
            f"{what} is behind a mount point, or outside of its allowed directory",
            where=where,
            next_step="List the mounted directory itself among the allowed directories if it may be used.",
        )
    if code == errno.ENOENT:
        return _missing(what, where)
    if code == errno.ENOTDIR:
        return RefusedError(
            Reason.PATH_REFUSED,
            f"{what} cannot be reached: a component of its path is not a directory",
            where=where,
            next_step="Check the path.",
        )
    if code == errno.ENXIO:
        return RefusedError(
            Reason.PATH_REFUSED, f"{what} is not a regular file", where=where, next_step="Check the path."
        )
    if code == errno.ENAMETOOLONG:
        return RefusedError(
            Reason.PATH_REFUSED, f"{what} has a name that is too long", where=where, next_step="Choose a shorter one."
        )
    if code == errno.ENOSYS:
        return EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "this kernel has no openat2, which Remit needs to confine paths",
            where=where,
            next_step="Use Linux 5.6 or newer. `remit doctor` shows what this machine supports.",
        )
    return failure(OSError(code, os.strerror(code)), where, "could not be opened")


def _missing(what: str, where: str) -> RefusedError:
    return RefusedError(
        Reason.FILE_MISSING, f"{what} does not exist", where=where, next_step="Check the path, or create it."
    )


def _require_plain(identity: FileIdentity, where: str) -> None:
    if not stat.S_ISREG(identity.mode):
        kind = _KINDS.get(stat.S_IFMT(identity.mode), "something else")
        raise RefusedError(
            Reason.PATH_REFUSED,
            f"only regular files are allowed, and this is {kind}",
            where=where,
            next_step="Name a regular file.",
        )
    if identity.nlink != 1:
        raise RefusedError(
            Reason.PATH_REFUSED,
            "this file does not have exactly one hard link, so it may also be outside of the allowed directories",
            where=where,
            next_step="Make a copy of the file, and name the copy.",
        )


def _require_same(found: FileIdentity, identity: FileIdentity, where: str) -> None:
    _require_plain(found, where)
    if not found.is_file(identity):
        raise RefusedError(
            Reason.FILE_CONFLICT,
            "the file was replaced while it was being opened",
            where=where,
            next_step="Find out which other process works in this folder, then try again.",
        )


def _require_component(name: str, where: str) -> None:
    """Refuse a name with a separator. This is a second check: `remit.fs.paths` has split the path already."""
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise RefusedError(
            Reason.PATH_REFUSED,
            "this is not the name of one file or folder",
            where=where or name,
            next_step="Pass each component of the path by itself.",
        )
