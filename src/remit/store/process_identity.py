"""Is the process that claimed something still there? Said only when it is certain: a wrong "gone" would run twice.

An owner is named by boot, process namespace, process id and start time, so that a reused process id, another container
or another machine is never taken for it. A process may leave others behind that it had started: all of them keep a
shared lock on one file of the owner's, so that whoever gets it for himself knows that the last one is dead.
"""

import contextlib
import fcntl
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

NO_OWNER: Final = "nobody"
"""The owner of what its process has let go of: whoever asks for it next goes on with it, in any process."""
WAIT_SECONDS: Final = 5.0
"""How long what a dead process had started may take to notice. It is killed by the kernel, so this is generous."""
_PAUSE_SECONDS: Final = 0.01


def this_process() -> str:
    """The owner string of the calling process. A forked child is another owner."""
    return _process_name()


@lru_cache(maxsize=1)
def _process_name() -> str:
    return _describe(os.getpid())


os.register_at_fork(after_in_child=_process_name.cache_clear)


def is_dead(owner: str) -> bool:
    """True only if that process certainly no longer runs. False when it runs, and whenever we cannot know.

    After a reboot of this machine, or for an owner in another container or on another host, we cannot know.
    """
    if owner == NO_OWNER:
        return True
    parts = owner.split(":")
    if len(parts) != 4 or parts[:2] != _boot_and_namespace() or not parts[2].isdecimal():
        return False
    return _describe(int(parts[2])) != owner


def is_before_reboot(owner: str) -> bool:
    """The owner was started under another boot. For a store that only this machine can open, that means gone."""
    return owner.split(":", maxsplit=1)[0] != _boot_and_namespace()[0]


def is_known_here(owner: str) -> bool:
    """Whether this is a process that we could see if it ran: of this boot and this process namespace."""
    return owner.split(":")[:2] == _boot_and_namespace()


def lock_path(folder: Path, owner: str) -> Path:
    """The file that an owner, and every process it starts for a task, holds a shared lock on."""
    return folder / (owner.replace(":", "_").replace("/", "_") + ".lock")


def is_childless(path: Path, patience: float = WAIT_SECONDS) -> bool:
    """Whether nobody holds this lock any more, waiting a little. For the file of an owner that is gone.

    No file means that it never started anything. The lock is not kept: a dead owner starts nothing new.
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
    """Remove the lock files of owners that are dead, and whatever they had started too.

    They are in nobody's way, so a folder that is closed to us keeps them.
    """
    for path in sorted(folder.glob("*.lock")):
        owner = path.stem.replace("_", ":")
        with contextlib.suppress(PermissionError):
            if (is_dead(owner) or is_before_reboot(owner)) and is_childless(path, 0):
                path.unlink(missing_ok=True)


def _describe(pid: int) -> str:
    try:
        # After the last parenthesis: a program's name may hold spaces and parentheses of its own.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # A zombie does nothing any more.
    return "" if fields[0] in {"Z", "X"} else ":".join([*_boot_and_namespace(), str(pid), fields[19]])


@lru_cache(maxsize=1)
def _boot_and_namespace() -> list[str]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.stat("/proc/self/ns/pid").st_ino
    return [boot, str(namespace)]
