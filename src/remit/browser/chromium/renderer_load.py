"""Chromium's processes of pages as the machine reports them: which of them never rest, and how much memory each has."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_PROCESSES: Final = Path("/proc")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_OF_PAGES: Final = b"--type=renderer"


class RendererState(NamedTuple):
    """One process of pages, at one moment."""

    pid: int
    resident_bytes: int
    running: frozenset[int]
    """The threads that run, or would run if a processor were free. So the speed of the machine does not matter."""


class BusyThreads:
    """The number of samples in a row in which each thread was busy."""

    def __init__(self) -> None:
        self._samples: dict[tuple[int, int], int] = {}

    def note(self, renderers: list[RendererState]) -> None:
        running = {(each.pid, thread) for each in renderers for thread in each.running}
        self._samples = {thread: self._samples.get(thread, 0) + 1 for thread in running}

    def clear(self) -> None:
        self._samples.clear()

    def processes(self, samples: int) -> set[int]:
        """Return the processes with a thread that was busy in each of the last so many samples."""
        return {pid for (pid, _), count in self._samples.items() if count >= samples}


def read_renderers(browser_pid: int) -> list[RendererState]:
    """Return all processes of pages below that one. Processes that end meanwhile are omitted."""
    return [renderers for pid in _list_descendants(browser_pid) if (renderers := _read_renderer(pid)) is not None]


def _list_descendants(browser_pid: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir(_PROCESSES):
        if name.isdigit() and (fields := _read_stat(_PROCESSES / name / "stat")) is not None:
            children.setdefault(int(fields[1]), []).append(int(name))
    waiting = [browser_pid]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting.extend(children.get(pid, ()))


def _read_renderer(pid: int) -> RendererState | None:
    folder = _PROCESSES / str(pid)
    try:
        # Chromium rewrites the command lines of its children, with spaces between the words.
        if _OF_PAGES not in (folder / "cmdline").read_bytes():
            return None
        resident = int((folder / "statm").read_text("ascii").split()[1]) * _PAGE_BYTES
        threads = os.listdir(folder / "task")
    except (OSError, IndexError, ValueError):
        return None
    states = {int(name): _read_stat(folder / "task" / name / "stat") for name in threads}
    return RendererState(
        pid, resident, frozenset(thread for thread, fields in states.items() if fields and fields[0] == "R")
    )


def _read_stat(path: Path) -> list[str] | None:
    """Return the fields after the name of the program: state, parent and so on. The name may contain any text."""
    try:
        return path.read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
