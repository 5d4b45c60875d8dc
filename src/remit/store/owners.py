"""Is the process that claimed something still there? Said only when it is certain: a wrong "gone" would run twice.

An owner is named by boot, process namespace, process id and start time, so that a reused process id, another container
or another machine is never taken for it.
"""

import os
from functools import lru_cache
from pathlib import Path


def this_process() -> str:
    """The owner string of the calling process. A forked child is another owner."""
    return _describe(os.getpid())


def is_gone(owner: str) -> bool:
    """True only if that process certainly no longer runs. False when it runs, and whenever we cannot know.

    After a reboot of this machine, or for an owner in another container or on another host, we cannot know.
    """
    parts = owner.split(":")
    if len(parts) != 4 or parts[:2] != _surroundings() or not parts[2].isdigit():
        return False
    return _describe(int(parts[2])) != owner


def is_before_reboot(owner: str) -> bool:
    """The owner was started under another boot. For a store that only this machine can open, that means gone."""
    return owner.split(":", maxsplit=1)[0] != _surroundings()[0]


def _describe(pid: int) -> str:
    try:
        # After the last parenthesis: a program's name may hold spaces and parentheses of its own.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # A zombie does nothing any more.
    return "" if fields[0] in {"Z", "X"} else ":".join([*_surroundings(), str(pid), fields[19]])


@lru_cache(maxsize=1)
def _surroundings() -> list[str]:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.stat("/proc/self/ns/pid").st_ino
    return [boot, str(namespace)]
