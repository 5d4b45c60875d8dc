"""Syncs the new files of a run while its sandboxed process, which has one thread, writes the next ones.

The process switches a step only after the sync of its file. It syncs each file itself that is not named as durable in
the answer to its question, for example because the host could not open it. So this saves time, and decides nothing.
"""

import contextlib
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

from remit.core.errors import RemitError
from remit.effects.plans.files import fresh_name
from remit.effects.plans.steps import StepPlan
from remit.fs.paths import Located
from remit.plans.model.folders import Parents, opened

_AT_A_TIME: Final = 4
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class StagedFiles:
    """The new files that the processes of one run have written. Thread-safe. A context manager."""

    def __init__(self, plan: StepPlan, places: Mapping[int, Located]) -> None:
        self._plan = plan
        self._places = places
        self._guard = threading.Lock()
        self._pool = ThreadPoolExecutor(_AT_A_TIME, thread_name_prefix="remit-sync")
        self._opened = contextlib.ExitStack()
        self._folders: dict[Parents, int] = {}
        self._syncs: dict[int, Future[bool]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._opened.close()

    def start_sync(self, number: int, inode: object) -> None:
        """Begin to sync the new file of a step. `inode` is what its process says, which is compared with the file."""
        if len(self._plan.steps) < 2 or type(inode) is not int:  # a single file waits for nothing
            return
        step = self._plan.steps[number]
        with self._guard, contextlib.suppress(RemitError, KeyError):
            folder = self._folder_of(self._places[step.path])
            self._syncs[number] = self._pool.submit(_sync, folder, fresh_name(self._plan, step), inode)

    def wait(self) -> list[int]:
        """Wait for the syncs that have begun. Return the steps whose new file is durable."""
        with self._guard:
            syncs = dict(self._syncs)
        return sorted(number for number, sync in syncs.items() if sync.result())

    def _folder_of(self, place: Located) -> int:
        if place.parents not in self._folders:
            self._folders[place.parents] = self._opened.enter_context(opened(place.base, place.parents))
        return self._folders[place.parents]


def _sync(folder: int, name: str, inode: int) -> bool:
    """Return whether the file is durable. On any doubt, its own process syncs it and reports the error."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
        try:
            os.fsync(descriptor)
            return os.fstat(descriptor).st_ino == inode
        finally:
            os.close(descriptor)
    except OSError:
        return False
