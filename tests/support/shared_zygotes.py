"""Zygotes that outlive their workspace: the next workspace of the same kind gets one that runs already.

See README.md beside this file: what is real, and when a test needs a fresh one.
"""

import itertools
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
from tests.support.preloaded import is_fresh

_MOST_OF_A_KIND: Final = 2


class _FreeZygotes:
    """Of one process: a fork has none of the zygotes."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.free: dict[Any, list[SharedZygote]] = defaultdict(list)

    def take(self, kind: Any) -> "SharedZygote | None":
        while self.owner == os.getpid() and self.free[kind]:
            if (found := self.free[kind].pop()).is_alive():
                return found
            found.end()
        return None

    def put(self, zygote: "SharedZygote") -> bool:
        of_this_kind = self.free[zygote.kind]
        if self.owner != os.getpid() or len(of_this_kind) >= _MOST_OF_A_KIND:
            return False
        if zygote not in of_this_kind:
            of_this_kind.append(zygote)
        return True

    def clear(self) -> None:
        for zygote in itertools.chain.from_iterable(self.free.values()):
            zygote.end()
        self.free.clear()


class SharedZygote(Zygote):
    def __init__(self, free: _FreeZygotes, kind: Any, effects: Sequence[str], quotas: Quotas, **settings: Any) -> None:
        self.kind = kind
        self._free = free
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
        """Free again only if it is as good as new: ready, alive, and no child of it in use."""
        if at_once or not self._is_ready or not self.is_alive() or not self._is_idle() or not self._free.put(self):
            return super().close(at_once=at_once)
        return True

    def end(self) -> None:
        super().close()

    def _is_idle(self) -> bool:
        with self._guard:
            while self._packets:
                self._receive_packet()
            self._sweep()
            return len(self._children) == len(self._waiting())


@contextmanager
def sharing_zygotes() -> Iterator[None]:
    if is_fresh():
        yield
        return
    free = _FreeZygotes()

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
        return free.take(kind) or SharedZygote(free, kind, effects, quotas, lock=lock, **settings)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host, "Zygote", get)
        try:
            yield
        finally:
            free.clear()


@pytest.fixture(scope="module", autouse=True)
def zygotes_are_shared() -> Iterator[None]:
    """For the folders whose conftest imports it: from test to test within a module."""
    with sharing_zygotes():
        yield
