"""Restore the files that a plan changed, on a machine without Remit. Needs Python 3.8 or newer and nothing else.

    python3 -I agent_outputs/reports/<run>/rollback.py [--dry-run] [--force] [--checkpoint ID] [--root FOLDER]

Reads rollback_manifest.json beside it. All backups are verified before the first file is restored. If a file was
changed
since the run, nothing is restored, unless --force is given; then its current version is first copied to the backups. A
file that is replaced or removed is checked once more after it was moved aside, and put in its place again if another
program changed it just now. If a program has a DuckDB database open, nothing is restored. No link is followed. Running
the script again continues an interrupted run, or reports that nothing is left. Exit codes: 0 (restored, or nothing
left), 1 (failed, or a file was changed meanwhile and kept, or rows on a server are left) or 2 (refused: nothing was
changed).

Files only: rows that the plan changed in a database on a server are restored by `remit rollback` only.

Limits: it trusts the manifest, which anyone who can write to the project can change; `remit rollback` does not. On a
disk that can neither exchange names nor make hard links, a write in the moment of a replacement is lost.
"""

from __future__ import annotations  # so that Python 3.8 does not look at the types

import argparse
import base64
import contextlib
import datetime as dt
import errno
import fcntl
import hashlib
import json
import os
import stat
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

MANIFEST = "rollback_manifest.json"
NAME = "rollback.py"

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NO_REPLACE = 1  # of renameat2
EXCHANGE = 2
NOT_ABLE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)
NO_ID = (1 << 32) - 1
NEW_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
LOG = b".wal"
LONGEST_NAME = 255
LOCK = struct.Struct("hhqqi0q")  # kind, whence, start, length and process of a lock on a file
CLOSE = "Nothing was restored. Close the program that has it open; if none has, open it with DuckDB once and close it."
# Errors that a manifest can cause that Remit did not write.
BROKEN = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)

if TYPE_CHECKING:
    Checkpoint = dict[str, Any]
    State = tuple[str, int] | None
    """Hash and permissions. None if there is no such file."""
    Observed = dict[str, State]
    """The checked states by path. Only a file in this state may be replaced."""
    Prepared = tuple[dict[str, Any], list[Checkpoint], dict[str, str], Observed, int]
    Metadata = tuple[tuple[int, int] | None, dict[str, bytes], int, int | None]
    """Owner, attributes, permissions and modification time."""


class RefusalError(Exception):
    """The script refused to start. Nothing was changed."""


class ChangedError(Exception):
    """Another program changed the file after it was checked. The file is as that program left it."""


def print_line(text: str) -> None:
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    sys.stdout.write(line.encode("ascii", "backslashreplace").decode("ascii") + "\n")


# --- files beneath the root, without following links ------------------------------------------------------------------


def components(path: str) -> list[bytes]:
    parts = path.split("/")
    if "\0" in path or any(part in {"", ".", ".."} for part in parts):
        raise RefusalError(f"the manifest names a path that is not a plain one: {path}")
    return [part.encode("utf-8", "surrogateescape") for part in parts]


@contextlib.contextmanager
def folder_of(root: int, path: str, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
    """Open the folder that holds the path. Yields it and the last name. FileNotFoundError if there is no such
    folder.
    """
    *parents, name = components(path)
    current = os.dup(root)
    try:
        for parent in parents:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(parent, 0o755, dir_fd=current)
            inner = os.open(parent, FOLDER_FLAGS, dir_fd=current)
            if make:
                os.fsync(current)
            os.close(current)
            current = inner
        yield current, name
    finally:
        os.close(current)


def open_plain(folder: int, name: bytes, shown: str) -> int:
    descriptor = os.open(name, READ_FLAGS, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RefusalError(f"not a regular file: {shown}")
    return descriptor


def hash_of(descriptor: int) -> str:
    digest = hashlib.sha256()
    offset = 0
    while True:
        chunk = os.pread(descriptor, 1 << 20, offset)
        if not chunk:
            return "sha256:" + digest.hexdigest()
        digest.update(chunk)
        offset += len(chunk)


def state_in(folder: int, name: bytes, shown: str) -> State:
    descriptor = open_plain(folder, name, shown)
    try:
        return hash_of(descriptor), stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o777
    finally:
        os.close(descriptor)


def is_as_judged(folder: int, name: bytes, judged: State) -> bool:
    try:
        return state_in(folder, name, "") == judged
    except (RefusalError, OSError):
        return False


def state_of(root: int, path: str) -> State:
    try:
        with folder_of(root, path) as (folder, name):
            return state_in(folder, name, path)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise RefusalError(f"cannot be inspected ({problem.strerror}): {path}") from None


def is_folder(root: int, path: str) -> bool:
    try:
        with folder_of(root, path) as (folder, name):
            return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


# --- checks before any change -----------------------------------------------------------------------------------------


def original_of(checkpoint: Checkpoint) -> State:
    if checkpoint["original_hash"] is None:
        return None
    return checkpoint["original_hash"], int(checkpoint.get("original_mode") or "0644", 8)


def judge(root: int, checkpoint: Checkpoint, observed: Observed) -> str:
    """Return `left` (as the plan left it), `before` (as before the plan) or `drifted`. Adds the states to
    `observed`.
    """
    path = checkpoint["file_path"]
    if checkpoint.get("file_kind") == "directory":
        return "left" if is_folder(root, path) else "before"
    observed[path], original = state_of(root, path), original_of(checkpoint)
    if checkpoint["operation_to_reverse"] == "RENAME":
        moved = checkpoint["new_path"]
        observed[moved] = state_of(root, moved)
        if observed[path] == original and observed[moved] is None:
            return "before"
        is_left = observed[path] is None and observed[moved] == original
    else:
        if observed[path] == original:
            return "before"
        is_left = is_as_left(observed[path], checkpoint)
    return "left" if is_left else "drifted"


def is_as_left(state: State, checkpoint: Checkpoint) -> bool:
    if state is None or checkpoint.get("hash_after") is None:
        return state is None and checkpoint.get("hash_after") is None
    mode = checkpoint.get("mode_after")  # older manifests have none
    return state[0] == checkpoint["hash_after"] and (mode is None or state[1] == int(mode, 8))


def backup_name(checkpoint: Checkpoint) -> bytes:
    return components(checkpoint["backup_location"])[-1]


def verify_backups(backups: int, checkpoints: Sequence[Checkpoint]) -> None:
    for checkpoint in checkpoints:
        if checkpoint["backup_location"] is None:
            continue
        shown = checkpoint["backup_location"]
        try:
            descriptor = open_plain(backups, backup_name(checkpoint), shown)
        except OSError as problem:
            raise RefusalError(
                f"this backup cannot be read ({problem.strerror}), nothing was restored: {shown}"
            ) from None
        try:
            whole = hash_of(descriptor) == checkpoint["original_hash"]
        finally:
            os.close(descriptor)
        if not whole:
            raise RefusalError(f"this backup is damaged, nothing was restored: {shown}")


def nearest_folder(root: int, path: str) -> tuple[int, bool]:
    """Open the folder that holds the path, or the deepest existing folder above it. True for the former."""
    current = os.dup(root)
    try:
        for parent in components(path)[:-1]:
            try:
                inner = os.open(parent, FOLDER_FLAGS, dir_fd=current)
            except FileNotFoundError:
                return current, False
            os.close(current)
            current = inner
    except BaseException:
        os.close(current)
        raise
    return current, True


def has_default_acl(folder: int) -> bool:
    try:
        return "system.posix_acl_default" in os.listxattr(folder)
    except OSError as problem:
        if problem.errno == errno.ENOTSUP:
            return False
        raise


def is_undone_by_rename(root: int, checkpoint: Checkpoint) -> bool:
    """Whether the renamed file still exists unchanged. It is then renamed again, and its backup is not used."""
    moved = checkpoint.get("new_path")
    if not moved or state_of(root, checkpoint["file_path"]) is not None:
        return False
    return state_of(root, moved) == original_of(checkpoint)


def require_restorable(root: int, checkpoint: Checkpoint) -> None:
    """Require that the file can get its old metadata, and that a default ACL gives it no other rights."""
    if checkpoint["operation_to_reverse"] == "CREATE":  # a file or folder is removed, and none is made
        return
    metadata_of(checkpoint)
    folder, is_parent = nearest_folder(root, checkpoint["file_path"])
    try:
        has_acl = has_default_acl(folder)
    finally:
        os.close(folder)
    if has_acl and not (is_parent and is_undone_by_rename(root, checkpoint)):
        raise RefusalError(
            "this folder gives new files access rights of its own (a default ACL), so a restored file would"
            " not have its permissions; remove it with setfacl -k, or restore by hand: " + checkpoint["file_path"]
        )


def require_idle(root: int, backups: int, checkpoint: Checkpoint) -> None:
    """Require that no database is in use. Its latest changes are not in its file, and would mix with the restored
    file.
    """
    backup = checkpoint["backup_location"]
    is_database_backup = backup is not None and is_database(backups, backup_name(checkpoint), backup)
    files = [checkpoint["file_path"], checkpoint.get("new_path")]
    for path in files if checkpoint.get("file_kind") != "directory" else ():
        if path:
            with contextlib.suppress(FileNotFoundError), folder_of(root, path) as (folder, name):
                exists = has(folder, name)
                if is_database_backup or (exists and is_database(folder, name, path)):
                    require_no_log(folder, name, path)
                    if exists:
                        require_unlocked(folder, name, path)


def is_database(folder: int, name: bytes, shown: str) -> bool:
    """Whether the first bytes are those of a DuckDB file."""
    descriptor = open_plain(folder, name, shown)
    try:
        return os.pread(descriptor, 4, 8) == b"DUCK"
    finally:
        os.close(descriptor)


def require_no_log(folder: int, name: bytes, shown: str) -> None:
    if len(name + LOG) <= LONGEST_NAME and has(folder, name + LOG):
        raise RefusalError(f"this database is in use, or was not closed: its log {shown}.wal is there. {CLOSE}")


def require_unlocked(folder: int, name: bytes, shown: str) -> None:
    """Require that no program has the database open. Where this cannot be checked, the file is treated as unlocked."""
    if not sys.platform.startswith("linux"):  # other systems have another lock structure
        return
    descriptor = open_plain(folder, name, shown)
    try:
        question = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind = LOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))[0]
    except OSError:  # a disk without locks
        return
    finally:
        os.close(descriptor)
    if kind != fcntl.F_UNLCK:
        raise RefusalError(f"another program has this database open: {shown}. {CLOSE}")


def metadata_of(checkpoint: Checkpoint) -> Metadata:
    """Parse the metadata. Raises ValueError for values that no file can have."""
    owner, modified = None, None
    if checkpoint.get("original_owner"):
        user, group = map(int, checkpoint["original_owner"].split(":"))
        if not (0 <= user < NO_ID and 0 <= group < NO_ID):
            raise ValueError("no file has such an owner")
        owner = user, group
    if checkpoint.get("original_mtime_ns"):
        modified = int(checkpoint["original_mtime_ns"])
        if abs(modified) >= 1 << 63:
            raise ValueError("no file has such a time")
    attributes = checkpoint.get("original_attributes") or {}
    values = {name: base64.b64decode(value, validate=True) for name, value in attributes.items()}
    return owner, values, int(checkpoint.get("original_mode") or "0644", 8) & 0o777, modified


# --- restoring --------------------------------------------------------------------------------------------------------


def copy_bytes(source: int, target: int) -> None:
    offset = 0
    while True:
        view = memoryview(os.pread(source, 1 << 20, offset))
        if not view:
            return
        offset += len(view)
        while view:
            view = view[os.write(target, view) :]


def set_metadata(descriptor: int, checkpoint: Checkpoint) -> None:
    """Set the owner first, because that clears bits of the mode, and the times last, because other changes set them."""
    path = checkpoint["file_path"]
    owner, attributes, mode, modified = metadata_of(checkpoint)
    found = os.fstat(descriptor)
    if owner is not None and owner != (found.st_uid, found.st_gid):
        try:
            os.fchown(descriptor, owner[0], owner[1])
        except OSError:
            print_line(f"note: its owner {owner[0]}:{owner[1]} could not be restored: {path}")
    for name, value in attributes.items():
        try:
            os.setxattr(descriptor, name, value)
        except OSError:
            print_line(f"note: its attribute {name} could not be restored: {path}")
    os.fchmod(descriptor, mode)
    if modified is not None:
        os.utime(descriptor, ns=(modified, modified))


def new_name() -> bytes:
    return b".remit-rollback-" + os.urandom(8).hex().encode("ascii") + b".tmp"


def rename_as(how: int, source: int, old: bytes, target: int, new: bytes) -> bool:
    """Call renameat2, which Python does not offer. Returns False, with nothing changed, if this system has none."""
    try:
        import ctypes  # noqa: PLC0415 - some Pythons are built without it

        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return False
    if call(source, old, target, new, how) == 0:
        return True
    number = ctypes.get_errno()
    if number in NOT_ABLE:
        return False
    raise OSError(number, os.strerror(number), os.fsdecode(new))


def move(source: int, old: bytes, target: int, new: bytes) -> None:
    """Move to a name that is free. Raises FileExistsError if it is not."""
    if rename_as(NO_REPLACE, source, old, target, new):
        return
    try:
        os.link(old, new, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        os.unlink(old, dir_fd=source)
    except OSError as problem:
        if problem.errno not in NOT_ABLE:
            raise
        # Neither call works here. A check directly before the rename is all that is possible.
        with contextlib.suppress(FileNotFoundError):
            os.stat(new, dir_fd=target, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(new)) from None
        os.rename(old, new, src_dir_fd=source, dst_dir_fd=target)


def replace(folder: int, part: bytes, name: bytes, judged: State) -> None:
    """Give the name to the new file in one step. If the old file is not as checked, exchange the two again."""
    if rename_as(EXCHANGE, folder, part, folder, name):
        if not is_as_judged(folder, part, judged):
            with naming(part):
                rename_as(EXCHANGE, folder, part, folder, name)
            raise ChangedError
        os.unlink(part, dir_fd=folder)
        return
    # A second name keeps the old file, and with it every write until the last moment.
    second = new_name()
    with contextlib.suppress(OSError):
        os.link(name, second, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    try:
        if not is_as_judged(folder, name, judged):
            raise ChangedError
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        if has(folder, second) and not is_as_judged(folder, second, judged):
            os.rename(second, name, src_dir_fd=folder, dst_dir_fd=folder)
            raise ChangedError
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(second, dir_fd=folder)


@contextlib.contextmanager
def naming(aside: bytes) -> Iterator[None]:
    """Print the name of a changed file that cannot be moved to its place again."""
    try:
        yield
    except OSError:
        print_line(f"kept     a file that was changed just now, beside its place, as {os.fsdecode(aside)}")
        raise ChangedError from None


def has(folder: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def restore_content(root: int, backups: int, checkpoint: Checkpoint, judged: State) -> None:
    """Write a new file beside the old one, sync it, and give it the name in one step."""
    source = open_plain(backups, backup_name(checkpoint), checkpoint["backup_location"])
    try:
        with folder_of(root, checkpoint["file_path"], make=True) as (folder, name):
            part = new_name()
            descriptor = os.open(part, NEW_FLAGS, 0o600, dir_fd=folder)
            try:
                copy_bytes(source, descriptor)
                set_metadata(descriptor, checkpoint)
                os.fsync(descriptor)
                if judged is None:
                    move(folder, part, folder, name)
                else:
                    replace(folder, part, name, judged)
            finally:
                remove_part(folder, part, descriptor)
                os.close(descriptor)
            os.fsync(folder)
    finally:
        os.close(source)


def remove_part(folder: int, part: bytes, descriptor: int) -> None:
    """Remove the new file, but only if the name still refers to it. After a failed exchange it is another file."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(part, dir_fd=folder, follow_symlinks=False), os.fstat(descriptor)):
            os.unlink(part, dir_fd=folder)


def remove(root: int, path: str, judged: State) -> None:
    try:
        with folder_of(root, path) as (folder, name):
            aside = new_name()
            os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
            if not is_as_judged(folder, aside, judged):
                with naming(aside):
                    move(folder, aside, folder, name)
                raise ChangedError
            os.unlink(aside, dir_fd=folder)
            os.fsync(folder)
    except FileNotFoundError:
        pass


def undo_rename(root: int, checkpoint: Checkpoint, judged: State) -> None:
    with folder_of(root, checkpoint["new_path"]) as (source, old):
        with folder_of(root, checkpoint["file_path"], make=True) as (target, new):
            move(source, old, target, new)
            if not is_as_judged(target, new, judged):
                move(target, new, source, old)
                raise ChangedError
            os.fsync(target)
        os.fsync(source)


def remove_folder(root: int, path: str) -> bool:
    with folder_of(root, path) as (folder, name):
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError:
            return False
        os.fsync(folder)
    return True


def back_up_drifted(root: int, backups: int, path: str) -> State:
    """Copy the changed file to the backups. Return the state that was copied."""
    with folder_of(root, path) as (folder, name):
        source = open_plain(folder, name, path)
    backup = name[:150] + b".drifted-" + os.urandom(4).hex().encode("ascii") + b".bak"
    try:
        copy = os.open(backup, NEW_FLAGS, 0o600, dir_fd=backups)
        try:
            copy_bytes(source, copy)
            os.fsync(copy)
            state = hash_of(copy), stat.S_IMODE(os.fstat(source).st_mode) & 0o777
        finally:
            os.close(copy)
        os.fsync(backups)
    finally:
        os.close(source)
    print_line(f"kept     {path} as backups/{backup.decode('utf-8', 'replace')}")
    return state


def restore(root: int, backups: int, checkpoint: Checkpoint, verdict: str, observed: Observed) -> str:
    """Restore one checkpoint. Return the reason why its file was kept, or an empty text."""
    path, moved = checkpoint["file_path"], checkpoint.get("new_path")
    if checkpoint.get("file_kind") == "directory":
        return "" if remove_folder(root, path) else "the folder is not empty"
    try:
        if verdict == "drifted":
            for drifted in [path] + ([moved] if moved else []):
                exists = state_of(root, drifted) is not None
                observed[drifted] = back_up_drifted(root, backups, drifted) if exists else None
        restore_file(root, backups, checkpoint, observed)
    except (ChangedError, FileExistsError, FileNotFoundError):
        return "it was changed just now"
    if state_of(root, path) != original_of(checkpoint):
        raise OSError(5, "it is not as it was before", path)
    return ""


def restore_file(root: int, backups: int, checkpoint: Checkpoint, observed: Observed) -> None:
    path, moved = checkpoint["file_path"], checkpoint.get("new_path")
    if checkpoint["operation_to_reverse"] == "CREATE":
        remove(root, path, observed[path])
    elif is_undone_by_rename(root, checkpoint):
        undo_rename(root, checkpoint, observed[checkpoint["new_path"]])
    else:
        restore_content(root, backups, checkpoint, observed[path])
        if moved:
            remove(root, moved, observed[moved])


# --- the manifest -----------------------------------------------------------------------------------------------------


def now_text() -> str:
    return dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: UP017 - 3.8


def pending(manifest: dict[str, Any], chosen: Sequence[str]) -> list[Checkpoint]:
    by_id = {checkpoint["checkpoint_id"]: checkpoint for checkpoint in manifest["checkpoints"]}
    for checkpoint_id in chosen:
        if checkpoint_id == (manifest.get("rows") or {}).get("checkpoint_id"):
            raise RefusalError("rows on a server are restored by `remit rollback` only")
        if checkpoint_id not in by_id:
            raise RefusalError(f"the manifest has no checkpoint {checkpoint_id}")
    wanted = [by_id[checkpoint_id] for checkpoint_id in manifest["rollback_order"]]
    return [c for c in wanted if not c.get("restored_at") and (not chosen or c["checkpoint_id"] in chosen)]


def rows_left(manifest: dict[str, Any]) -> list[str]:
    """Return lines about rows on a server that are not restored, if there are any."""
    rows = manifest.get("rows")
    if not rows or rows.get("restored_at"):
        return []
    place = f"connection {rows['connection']} ({rows['server']})"
    tables = ", ".join(str(table["table"]) for table in rows["tables"]) or "its tables"
    lines = [f"NOT RESTORED: the rows of {place}: {tables} stay as the plan left them."]
    if rows.get("irreversible"):
        return [*lines, f"They cannot be restored: {rows['irreversible']}"]
    return [*lines, "This script restores files only. To restore the rows too: remit rollback"]


def require_still_valid(manifest: dict[str, Any], *, force: bool) -> None:
    expires = manifest.get("expires_at")
    over = manifest["status"] == "EXPIRED"
    if expires and not over:
        whole_seconds = expires[:19] + "Z"
        over = whole_seconds < now_text()[:19] + "Z"
    if over and not force:
        raise RefusalError(f"this manifest expired at {expires}; give --force to restore anyway")


def render(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, ensure_ascii=False, indent=2).encode("utf-8") + b"\n"


def write_manifest(here: int, manifest: dict[str, Any]) -> None:
    if all(checkpoint.get("restored_at") for checkpoint in manifest["checkpoints"]) and not rows_left(manifest):
        manifest["status"] = "EXECUTED"
        manifest["executed_at"] = manifest.get("executed_at") or now_text()
    part = "." + MANIFEST + "." + os.urandom(8).hex() + ".tmp"
    try:
        descriptor = os.open(part, NEW_FLAGS, 0o644, dir_fd=here)
        with open(descriptor, "wb") as file:
            file.write(render(manifest))
            file.flush()
            os.fsync(descriptor)
        os.rename(part, MANIFEST, src_dir_fd=here, dst_dir_fd=here)
        os.fsync(here)
    except OSError as problem:
        print_line(f"note: the manifest could not be written ({problem.strerror}); the files are as listed above")


def read_manifest(here: int) -> dict[str, Any]:
    try:
        with open(os.open(MANIFEST, READ_FLAGS, dir_fd=here), "rb") as file:
            manifest: dict[str, Any] = json.load(file)
            render(manifest)  # it must be possible to write it again at the end
    except (OSError, ValueError, RecursionError):
        raise RefusalError(f"there is no readable {MANIFEST} beside this script") from None
    return manifest


# --- main -------------------------------------------------------------------------------------------------------------


def judge_all(root: int, checkpoints: Sequence[Checkpoint], observed: Observed, *, force: bool) -> dict[str, str]:
    verdicts = {checkpoint["checkpoint_id"]: judge(root, checkpoint, observed) for checkpoint in checkpoints}
    drifted = [c["file_path"] for c in checkpoints if verdicts[c["checkpoint_id"]] == "drifted"]
    if drifted and not force:
        raise RefusalError(
            "changed since the run, nothing was restored (--force restores anyway): " + ", ".join(drifted)
        )
    return verdicts


def prepare(root: int, here: int, options: argparse.Namespace) -> Prepared:
    """Make every check that can refuse, before any change."""
    try:
        manifest = read_manifest(here)
        checkpoints = pending(manifest, options.checkpoint)
        if checkpoints:
            require_still_valid(manifest, force=options.force)
        observed: Observed = {}
        verdicts = judge_all(root, checkpoints, observed, force=options.force)
        # A file that is as before needs no backup.
        due = [checkpoint for checkpoint in checkpoints if verdicts[checkpoint["checkpoint_id"]] != "before"]
        needed = "drifted" in verdicts.values() or any(checkpoint["backup_location"] for checkpoint in due)
        backups = os.open("backups", FOLDER_FLAGS, dir_fd=here) if needed else here
        verify_backups(backups, due)
        for checkpoint in due:
            require_restorable(root, checkpoint)
            require_idle(root, backups, checkpoint)
        rows_left(manifest)  # so that an invalid manifest is found before any change
    except OSError as problem:
        raise RefusalError(f"{problem.strerror}: {problem.filename}") from None
    except BROKEN as problem:
        raise RefusalError(f"the manifest is not one of Remit's ({type(problem).__name__}: {problem})") from None
    return manifest, checkpoints, verdicts, observed, backups


def run(root: int, here: int, prepared: Prepared) -> int:
    """Restore the files. Return how many were kept because another program changed them just now."""
    manifest, checkpoints, verdicts, observed, backups = prepared
    restored, removed, skipped, changed = 0, 0, 0, 0
    for checkpoint in checkpoints:
        verdict, path = verdicts[checkpoint["checkpoint_id"]], checkpoint["file_path"]
        why = "" if verdict == "before" else restore(root, backups, checkpoint, verdict, observed)
        if why:
            skipped += 1
            changed += checkpoint.get("file_kind") != "directory"
            print_line(f"kept      {path}: {why}")
        else:
            is_new = checkpoint["operation_to_reverse"] == "CREATE"
            removed += verdict != "before" and is_new
            restored += verdict != "before" and not is_new
            checkpoint.update(restored_at=now_text(), restored_by=NAME)
            done = "removed  " if is_new else "restored "
            print_line(f"{'as before' if verdict == 'before' else done} {path}")
    if checkpoints:
        write_manifest(here, manifest)
    none_due = all(verdict == "before" for verdict in verdicts.values())
    counts = f"{restored} restored, " + (f"{removed} removed, " if removed else "") + f"{skipped} kept"
    print_line("nothing left to do" if none_due else counts)
    return changed


def use(here: int) -> None:
    """Lock the folder, so that `remit prune` removes nothing. If the lock is held for too long, go on without it."""
    for _ in range(50):
        try:
            fcntl.flock(here, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:
            return
        else:
            return


def print_rows_left(manifest: dict[str, Any]) -> bool:
    """Print the lines about rows last, so that they are noticed. Return whether there were any."""
    left = rows_left(manifest)
    for line in left:
        print_line(line)
    return bool(left)


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=NAME, description="Restore the files that a plan changed.")
    parser.add_argument("--root", help="the root of the project; else three folders up")
    parser.add_argument(
        "--checkpoint", action="append", default=[], metavar="ID", help="only this one; can be repeated"
    )
    parser.add_argument("--force", action="store_true", help="also restore changed files, and after expiry")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(arguments)
    place = os.path.dirname(os.path.realpath(__file__))
    try:
        here = os.open(place, FOLDER_FLAGS)
        use(here)
        root = os.open(options.root or os.path.join(place, "..", "..", ".."), os.O_RDONLY | os.O_DIRECTORY)
        prepared = prepare(root, here, options)
    except (RefusalError, OSError) as problem:
        print_line(f"refused: {problem}")
        return 2
    if options.dry_run:
        _, checkpoints, verdicts, _, _ = prepared
        due = [c["restore_command"] for c in checkpoints if verdicts[c["checkpoint_id"]] != "before"]
        for command in due or ["Nothing: nothing left to do"]:
            print_line(f"would do: {command}")
        return 1 if print_rows_left(prepared[0]) else 0
    try:
        changed = run(root, here, prepared)
    except (RefusalError, OSError, *BROKEN) as problem:
        print_line(f"failed: {problem}. Fix the cause and run this again. It continues where it stopped.")
        return 1
    finally:
        left = print_rows_left(prepared[0])
    return 1 if changed or left else 0


if __name__ == "__main__":
    sys.exit(main())
