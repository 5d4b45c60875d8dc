"""Checks of the state directory: its file system, free space, owner, and the time of a durable write."""

import os
import re
import secrets
import shlex
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from remit.diagnostics.check import Check, Topic
from remit.fs.atomic_write import PRIVATE_FILE, sync_directory, write_all
from remit.fs.state_dir import StateDirectory, privacy_problem

STATE: Final = Topic("state directory", "keeping keys and the ledger private")
FILESYSTEM: Final = Topic("file system", "a ledger that survives")
SPACE: Final = Topic("free space", "writing the ledger")
DURABLE: Final = Topic("durable write", "every entry of the ledger")

# SQLite's WAL needs shared memory and locks that work for all processes. Between hosts they do not work.
SHARED_KINDS: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "coda", "drvfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"}
    | {"ocfs2", "prl_fs", "smb3", "smbfs", "vboxsf", "vmhgfs"}
    | {"fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse"}
)
VOLATILE_KINDS: Final = frozenset({"ramfs", "tmpfs"})
MEBIBYTE: Final = 1 << 20
TIGHT_SPACE: Final = 1024 * MEBIBYTE
NO_SPACE: Final = 64 * MEBIBYTE
FEW_FILES: Final = 1_000
SLOW_WRITE: Final = 0.1
MAX_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Mount:
    point: str
    kind: str


def find_mount(path: str, mountinfo: str) -> Mount | None:
    """Find the mount of an absolute path in the text of /proc/self/mountinfo. The last one on a point wins."""
    best: Mount | None = None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if not separator or len(fields) <= 4:  # the mount point is the fifth field
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (best is None or len(point) >= len(best.point)):
            best = Mount(point, kinds[0])
    return best


def check_filesystem(mount: Mount | None, *, has_database: bool) -> Check:
    if mount is None:
        return FILESYSTEM.absent("unknown, because this system does not list its mounts", "Keep state on a local disk.")
    rendered = f"{mount.kind} at {mount.point}"
    if mount.kind in SHARED_KINDS:
        advice = "Set REMIT_STATE to a folder on a local disk."
        if has_database:
            return FILESYSTEM.fail(f"{rendered}: SQLite's WAL does not work across hosts", advice)
        return FILESYSTEM.warn(f"{rendered}: locks and permissions may not hold there", advice)
    if mount.kind in VOLATILE_KINDS:
        return FILESYSTEM.warn(f"{rendered}: lost at the next reboot", "Set REMIT_STATE to a folder on a disk.")
    if mount.kind == "overlay":
        return FILESYSTEM.warn(f"{rendered}: lost with its container", "Mount a volume and set REMIT_STATE to it.")
    return FILESYSTEM.ok(rendered)


def check_space(free_bytes: int, free_files: int | None) -> Check:
    """Check the free space. `free_files` is None if the file system has no limit for the number of files."""
    rendered = f"{free_bytes / MEBIBYTE / 1024:.1f} GiB free"
    if free_bytes < NO_SPACE:
        return SPACE.fail(f"{free_bytes / MEBIBYTE:.0f} MiB free", "Free some space: du -xh / | sort -h | tail")
    if free_files is not None and free_files < FEW_FILES:
        return SPACE.warn(
            f"{rendered}, but room for {free_files} files only",
            "Remove files. df -i shows the use of each file system.",
        )
    if free_bytes < TIGHT_SPACE:
        return SPACE.warn(f"{free_bytes / MEBIBYTE:.0f} MiB free", "Free some space: du -xh / | sort -h | tail")
    return SPACE.ok(rendered)


def read_space(folder: Path) -> tuple[int, int | None]:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None


def check_durable_write(seconds: float) -> Check:
    rendered = f"4 KiB written and synced in {seconds * 1000:.1f} ms"
    if seconds > SLOW_WRITE:
        return DURABLE.warn(f"{rendered}: each entry waits that long", "Set REMIT_STATE to a folder on a faster disk.")
    return DURABLE.ok(rendered)


def time_durable_write(folder: Path) -> float:
    """Return the seconds that it takes to write a file, sync it and sync its folder. The file is removed.

    `write_durably` is not used, because an active fault point in it would kill this process.
    """
    path = folder / f".doctor.{secrets.token_hex(8)}.tmp"
    started = time.perf_counter()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        write_all(descriptor, b"\0" * 4096)
        os.fsync(descriptor)
        sync_directory(folder)
        return time.perf_counter() - started
    finally:
        os.close(descriptor)
        path.unlink(missing_ok=True)


def check_state_directory(state: StateDirectory) -> Check:
    """Check that the directory and its direct content are private, and that no other user could replace it."""
    where = shlex.quote(str(state.path))
    try:
        os.lstat(state.path)
    except FileNotFoundError:
        advice = "New here: remit init. Moved: remit init --adopt OLD_STATE_DIRECTORY. Lost: restore a backup first."
        return STATE.fail(f"{state.path} is missing", advice)
    problems = describe_problems([state.path]) or describe_problems(sorted(state.path.iterdir()))
    if problems:
        advice = f"Find out who changed it, then: chown -R {os.geteuid()} {where} && chmod -R go-rwx {where}"
        return STATE.fail(list_some(problems), advice)
    movers = [parent for parent in state.path.resolve().parents if _others_may_rename_in(os.stat(parent))]
    if movers:
        advice = f"chmod go-w {shlex.quote(str(movers[0]))} and own it, or set REMIT_STATE to a folder of your own."
        return STATE.warn(f"{state.path}: other users may rename folders in {movers[0]}", advice)
    return STATE.ok(str(state.path))


def check_state_home(home: Path) -> Check:
    """Check that a state directory can be created, before there is a workspace."""
    folder = nearest_folder(home)
    if not os.access(folder, os.W_OK | os.X_OK):
        return STATE.fail(f"{folder} cannot be written to", "Set REMIT_STATE to the full path of a folder of your own.")
    return STATE.ok(f"will be created in {home}")


def nearest_folder(path: Path) -> Path:
    """Return the path itself, or its first parent that exists."""
    return next(folder for folder in (path, *path.parents) if os.path.isdir(folder))


def describe_problems(paths: list[Path]) -> list[str]:
    found = ((path, privacy_problem(os.lstat(path))) for path in paths)
    return [f"{path} {why}" for path, why in found if why]


def list_some(problems: list[str]) -> str:
    rest = len(problems) - MAX_NAMED
    return "; ".join(problems[:MAX_NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def _others_may_rename_in(found: os.stat_result) -> bool:
    if found.st_uid not in {0, os.geteuid()}:
        return True
    return bool(found.st_mode & 0o022) and not found.st_mode & stat.S_ISVTX
