"""The plan's files as the steps so far would leave them. Nothing is written. Each file is read once, when needed."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.effects.plans.files import ReadFile, require_ordinary
from remit.effects.plans.steps import PlanStep, State
from remit.fs.openat import FileIdentity


class _Entry(NamedTuple):
    state: State
    content: bytes
    original: FileIdentity | None
    """The file on the disk, while no step has changed its content."""


class VirtualTree:
    """The files, by the number of the path. Content is kept only as long as a later step needs it."""

    def __init__(self, paths: Sequence[str], steps: Sequence[PlanStep], read: Callable[[int], ReadFile | None]) -> None:
        self._paths = paths
        self._read = read
        self._entries: dict[int, _Entry | None] = {}
        self._last_use = last_uses(steps)
        self._folders = {folder for path in paths for folder in _folders_of(path)}
        self._names = frozenset(paths)

    def state(self, path: int) -> State | None:
        """Return the state of a path, or None if there is no file. If the file cannot be read, raises at each call."""
        entry = self._entry(path)
        return entry.state if entry is not None else None

    def content(self, path: int) -> bytes | None:
        entry = self._entry(path)
        return entry.content if entry is not None else None

    def is_planned(self, path: int) -> bool:
        """Whether the bytes of the file come, at least in part, from an earlier step."""
        entry = self._entry(path)
        return entry is not None and entry.original is None

    def require_ordinary(self, path: int) -> None:
        """Raise if its permissions say that a plan may not change or remove the file."""
        entry = self._entry(path)
        if entry is not None and entry.original is not None:
            require_ordinary(entry.original, where=self._paths[path])

    def put(self, path: int, content: bytes, state: State) -> None:
        self._entries[path] = _Entry(state, content, None)

    def remove(self, path: int) -> None:
        self._entries[path] = None

    def rename(self, path: int, new_path: int) -> None:
        self._entries[new_path], self._entries[path] = self._entry(path), None

    def forget(self, step: PlanStep) -> None:
        """Drop the content of files that no step after this one needs."""
        for path in (step.path, step.new_path):
            entry = None if path is None else self._entries.get(path)
            if path is not None and entry is not None and self.is_last_use(path, step.number):
                self._entries[path] = entry._replace(content=b"")

    def is_last_use(self, path: int, number: int) -> bool:
        return self._last_use.get(path, -1) == number

    def require_place(self, path: int) -> None:
        """Raise if the path is a file for one step and a folder for another."""
        name = self._paths[path]
        above = [folder for folder in _folders_of(name) if folder in self._names]
        if above or name in self._folders:
            raise RefusedError(
                Reason.PATH_REFUSED,
                f"in this plan {above[0] if above else name} is a file for one action and a folder for another",
                where=name,
                next_step="Make two plans: one that removes the path, and one that creates it.",
            )

    def _entry(self, path: int) -> _Entry | None:
        if path not in self._entries:
            read = self._read(path)
            self._entries[path] = None if read is None else _Entry(read.state, read.content, read.identity)
        return self._entries[path]


def last_uses(steps: Sequence[PlanStep]) -> Mapping[int, int]:
    """Return the last step that names a path, by path."""
    return {path: step.number for step in steps for path in (step.path, step.new_path) if path is not None}


def _folders_of(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]
