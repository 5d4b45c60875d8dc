"""Zygotes that outlive their workspace: the next one of the same kind is served by one that is there already.

Starting one is most of what a short plan costs, and the tests open thousands of workspaces. Each serves one host at a
time; what it does for that one, its children, walls and quotas, is real. What a test says about starting and ending
zygotes, or about the lock that they hold, needs the real ones.
"""

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest

from remit.core import faultpoints
from remit.sandbox import host
from remit.sandbox.orders import Build, Quotas
from remit.sandbox.zygote_pool import TASKS, Zygote

_MOST_OF_A_KIND: Final = 2


class _Shelf:
    """Of one process: a fork has none of the zygotes."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.free: dict[Any, list[Kept]] = defaultdict(list)

    def take(self, kind: Any) -> "Kept | None":
        while self.owner == os.getpid() and self.free[kind]:
            if (found := self.free[kind].pop()).is_alive():
                return found
            found.end()
        return None

    def put(self, kept: "Kept") -> bool:
        there = self.free[kept.kind]
        if self.owner != os.getpid() or len(there) >= _MOST_OF_A_KIND:
            return False
        if kept not in there:
            there.append(kept)
        return True

    def clear(self) -> None:
        for kept in (one for there in self.free.values() for one in there):
            kept.end()
        self.free.clear()


class Kept(Zygote):
    def __init__(self, shelf: _Shelf, kind: Any, effects: Sequence[str], quotas: Quotas, **settings: Any) -> None:
        self.kind = kind
        self._shelf = shelf
        self._is_ready = False
        # Not the workspace's lock: that ends with the host that holds it, too, and this goes on.
        with tempfile.TemporaryFile() as lock:
            super().__init__(effects, quotas, **{**settings, "lock": lock.fileno()})

    def wait_until_ready(self) -> None:
        if not self._is_ready:
            super().wait_until_ready()
        self._is_ready = True

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self, *, at_once: bool = False) -> bool:
        """Kept only if it is as good as new: ready, alive, and nobody uses a child of it."""
        if at_once or not self._is_ready or not self.is_alive() or not self._is_idle() or not self._shelf.put(self):
            return super().close(at_once=at_once)
        return True

    def end(self) -> None:
        super().close()

    def _is_idle(self) -> bool:
        with self._guard:
            while self._packets:
                self._take_in()
            self._sweep()
            return len(self._children) == len(self._waiting())


@contextmanager
def kept_zygotes() -> Iterator[None]:
    shelf = _Shelf()

    def get(
        effects: Sequence[str],
        quotas: Quotas,
        *,
        confined: bool,
        lock: int,
        import_paths: Sequence[str],
        build: Build = TASKS,
    ) -> Zygote:
        settings = {"confined": confined, "import_paths": tuple(import_paths), "build": build}
        kind = (tuple(effects), quotas, *settings.values(), faultpoints.is_announcing())
        return shelf.take(kind) or Kept(shelf, kind, effects, quotas, lock=lock, **settings)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host, "Zygote", get)
        try:
            yield
        finally:
            shelf.clear()


@pytest.fixture(scope="module", autouse=True)
def zygotes_are_kept() -> Iterator[None]:
    """For the folders whose conftest has it, from test to test within a module."""
    with kept_zygotes():
        yield
