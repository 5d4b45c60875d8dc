"""The identity of the process that owns a claim, and whether it still runs. A wrong "dead" would run the work twice.

An owner is named by boot, process namespace, process id and start time. So a reused process id, another container or
another machine is never mistaken for it. A process may leave child processes behind. The owner and its children hold a
shared lock on one file of the owner. A process that gets this lock exclusively knows that the last of them is dead.
"""

import contextlib
import fcntl
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

NO_OWNER: Final = "nobody"
"""The owner of a claim that its process has released. Any process may continue the work."""
WAIT_SECONDS: Final = 5.0
"""The time that the children of a dead process may take to end. The Linux kernel kills them, so this is generous."""
_PAUSE_SECONDS: Final = 0.01


def this_process() -> str:
    """Return the owner string of the calling process. A forked child is another owner."""
    return _process_name()


@lru_cache(maxsize=1)
def _process_name() -> str:
    return _describe(os.getpid())


os.register_at_fork(after_in_child=_process_name.cache_clear)


def is_dead(owner: str) -> bool:
    """Return True only if the process has certainly ended. Return False if it runs, and if this cannot be known.

    It cannot be known after a reboot of this machine, or for an owner in another container or on another host.
    """
    if owner == NO_OWNER:
        return True
    parts = owner.split(":")
    if len(parts) != 4 or parts[:2] != _boot_and_namespace() or not parts[2].isdecimal():
        return False
    return _describe(int(parts[2])) != owner


def is_before_reboot(owner: str) -> bool:
    """Return whether the owner started under another boot. On a store of this machine only, such an owner is dead."""
    return owner.split(":", maxsplit=1)[0] != _boot_and_namespace()[0]


def is_known_here(owner: str) -> bool:
    """Return whether this process would be visible here if it ran: same boot and same process namespace."""
    return owner.split(":")[:2] == _boot_and_namespace()


def lock_path(folder: Path, owner: str) -> Path:
    """Return the file on which an owner, and every process that it starts for a task, holds a shared lock."""
    return folder / (owner.replace(":", "_").replace("/", "_") + ".lock")


def is_childless(path: Path, patience: float = WAIT_SECONDS) -> bool:
    """Return whether all processes have released this lock, after a short wait. For the file of a dead owner.

    A missing file means that the owner never started a process. The lock is not kept: a dead owner starts nothing new.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return False
                time.sleep(_PAUSE_SECONDS)
            else:
                return True
    finally:
        os.close(descriptor)


def remove_stale_locks(folder: Path) -> None:
    """Remove the lock files of dead owners whose child processes are dead too.

    Such a file does no harm, so it stays in a folder that this account cannot change.
    """
    for path in sorted(folder.glob("*.lock")):
        owner = path.stem.replace("_", ":")
        with contextlib.suppress(PermissionError):
            if (is_dead(owner) or is_before_reboot(owner)) and is_childless(path, 0):
                path.unlink(missing_ok=True)


def _describe(pid: int) -> str:
    try:
        # After the last parenthesis, because a program's name may contain spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # A zombie does nothing any more, so it is dead.
    return "" if fields[0] in {"Z", "X"} else ":".join([*_boot_and_namespace(), str(pid), fields[19]])


@lru_cache(maxsize=1)
def _boot_and_namespace() -> list[str]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.stat("/proc/self/ns/pid").st_ino
    return [boot, str(namespace)]
