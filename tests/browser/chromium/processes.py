"""Chromium as the machine sees it: a family of processes."""

import os
from pathlib import Path


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def family_of(pid: int) -> list[int]:
    """The process and all that came from it."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(status_of(int(name))["PPid"])
            except (OSError, KeyError):
                continue
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting.extend(child for child, parent in parents.items() if parent == one)
    return found


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def are_gone(pids: list[int]) -> bool:
    return not [pid for pid in pids if b"chrom" in command_of(pid)]
