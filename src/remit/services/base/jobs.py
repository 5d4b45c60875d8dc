"""Jobs: work in threads that may take longer than its caller waits. A caller finds a job by the id of its subject.

Nothing depends on the state of this module. The outcome of each job is in the ledger. Only the progress of running jobs
is known here alone, and it is lost when this process ends.
"""

import asyncio
import contextlib
import contextvars
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, cast

from remit.contracts.services.common import Progress
from remit.core.errors import Reason, RefusedError

T = TypeVar("T")

MAX_THREADS: Final = 32
MAX_PER_OWNER: Final = 16
"""The most running and queued jobs of one caller, so that other callers also get a thread."""
MAX_QUEUED: Final = 256
MAX_REMEMBERED: Final = 500
ENDED_SECONDS: Final = 600.0
CLOSE_SECONDS: Final = 15.0
IDLE_SECONDS: Final = 30.0


@dataclass(eq=False)
class Job(Generic[T]):
    """One job. `subject` is the id of its subject, such as `task:T1`; `owner` is the caller who requested it first."""

    key: str
    subject: str
    owner: str
    _fn: "Callable[[Job[T]], T]" = field(repr=False)
    _on_progress: "Callable[[Job[Any]], None]" = field(repr=False, default=lambda _: None)
    progress: Progress | None = None
    ended_at: float | None = None
    _result: T | None = None
    _problem: BaseException | None = None
    _context: contextvars.Context = field(default_factory=contextvars.copy_context, repr=False)
    """The context of the caller who requested it first, so that log messages of the thread have the caller's ids."""
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)
    _wake: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set for waiting callers when the job has ended, or when no caller shall wait any longer."""
    _cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    _wake_callbacks: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ask the job to stop. Work that can be stopped checks this regularly; other work continues to its end."""
        self._cancelled.set()

    def report_progress(self, phase: str, done: int = 0, total: int | None = None) -> None:
        """Report the progress of the job. Fast enough to be called often."""
        self.progress = Progress(phase=phase[:200], done=max(done, 0), total=total)
        self._on_progress(self)

    def wait(self, seconds: float) -> bool:
        """Wait for the end, and return whether the job has ended. `release_waiters` ends the wait early."""
        self._wake.wait(max(seconds, 0.0))
        return self._ended.is_set()

    async def wait_async(self, seconds: float) -> bool:
        """Wait in an event loop, without a thread, and return whether the job has ended."""
        loop = asyncio.get_running_loop()
        over = loop.create_future()

        def end() -> None:
            if not over.done():
                over.set_result(None)

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and its waiting callers with it
                loop.call_soon_threadsafe(end)

        timer = loop.call_later(max(seconds, 0.0), end)
        self._wake_callbacks.append(wake)
        try:
            if not self._wake.is_set():  # from here on, the thread that sets it calls `wake`
                await over
        finally:
            timer.cancel()
            self._wake_callbacks.remove(wake)
        return self._ended.is_set()

    def wait_until_ended(self, seconds: float) -> bool:
        return self._ended.wait(max(seconds, 0.0))

    def release_waiters(self) -> None:
        """End the wait of all callers. The work itself continues."""
        self._wake.set()
        for wake in tuple(self._wake_callbacks):
            wake()

    def result(self) -> T:
        """Return the result of a job that has ended, or raise the exception that the work raised."""
        if self._problem is not None:
            raise self._problem
        return cast("T", self._result)

    def reject(self, problem: BaseException) -> None:
        """End a job that was never started, with this exception as its result."""
        self._problem = problem
        self._ended.set()
        self.release_waiters()

    def run(self) -> None:
        """Do the work. `end` wakes the waiting callers afterwards."""
        try:
            self._result = self._context.run(self._fn, self)
        except BaseException as problem:  # noqa: BLE001 - `result` raises it in the caller
            self._problem = problem
        finally:
            self._fn, self._context = (
                _reject_second_run,
                contextvars.Context(),
            )  # they hold what was sent, which may be large
            self.ended_at = time.monotonic()

    def end(self) -> None:
        """Wake the waiting callers. The job must not be in `_active` any more: the same request is now a new job."""
        self._ended.set()
        self.release_waiters()


class JobRunner:
    """Runs jobs in a few threads, which end when there is no work for a while. Safe to use from any thread.

    With `one_per_owner`, one job of each owner is at work at a time, so that no owner takes all threads.
    """

    def __init__(self, most: int = MAX_THREADS, *, one_per_owner: bool = False) -> None:
        self._most = most
        self._one_per_owner = one_per_owner
        self._busy: set[str] = set()
        """Owners with a job at work, where one of each counts."""
        self._lock = threading.Lock()
        self._work_available = threading.Condition(self._lock)
        self._queue: deque[Job[Any]] = deque()
        self._active: dict[str, Job[Any]] = {}
        """Queued and running jobs, by key."""
        self._ended: OrderedDict[str, Job[Any]] = OrderedDict()
        """The last ended job of each subject, by subject."""
        self._threads = 0
        self._idle = 0
        self._closed = False
        self.is_ending = False
        """Whether the process is about to end, so that no caller waits any longer."""
        self.on_progress: Callable[[Job[Any]], None] = lambda _: None

    def start(self, key: str, fn: Callable[[Job[T]], T], *, subject: str, owner: str) -> Job[T]:
        """Queue a job. While a job with the same key is queued or running, return that job.

        So the key must include all of the request: callers with the same key get the same answer.
        """
        with self._lock:
            if self._closed:
                raise _shutting_down_error()
            found = self._active.get(key)
            if found is not None:
                return found
            self._require_capacity(owner)
            job = Job(key, subject, owner, fn, self.on_progress)
            if self.is_ending:
                job.release_waiters()
            self._active[key] = job
            self._queue.append(job)
            if self._idle > 0:
                self._work_available.notify()
            elif self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._run_jobs, name="remit-work", daemon=True).start()
        return job

    def find(self, subject: str) -> Job[Any] | None:
        """Find the job with this subject: a queued or running one, else the last one that ended a short while ago."""
        with self._lock:
            active = next((job for job in self._active.values() if job.subject == subject), None)
            return active or self._ended.get(subject)

    def active_jobs(self) -> list[Job[Any]]:
        """Return the queued and running jobs."""
        with self._lock:
            return list(self._active.values())

    @property
    def running(self) -> int:
        with self._lock:
            return len(self._active) - len(self._queue)

    @property
    def waiting(self) -> int:
        """The number of queued jobs."""
        return len(self._queue)

    def release_waiters(self) -> None:
        """End the wait of all callers, because this process is about to end. The work continues until `close`."""
        with self._lock:
            self.is_ending = True
            for job in self._active.values():
                job.release_waiters()

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Reject queued jobs, cancel running ones, and wait for them. Return whether all have ended.

        Recovery finishes or undoes the work of the others after the end of this process.
        """
        with self._lock:
            self._closed = True
            for job in self._queue:
                self._active.pop(job.key, None)
                job.reject(_shutting_down_error())
            self._queue.clear()
            left = list(self._active.values())
            self._work_available.notify_all()
        deadline = time.monotonic() + seconds
        for job in left:
            job.cancel()
        for job in left:
            job.wait_until_ended(deadline - time.monotonic())
        return not any(job.is_running for job in left)

    def _require_capacity(self, owner: str) -> None:
        if len(self._active) >= self._most + MAX_QUEUED:
            raise _capacity_error("too many requests are in progress", "Try again when some of them have ended.")
        if sum(job.owner == owner for job in self._active.values()) >= MAX_PER_OWNER:
            raise _capacity_error("too many of your requests are in progress", "Wait until some of them have ended.")

    def _run_jobs(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                while (job := self._pop_next()) is None:
                    if self._closed or not self._work_available.wait(IDLE_SECONDS):
                        job = self._pop_next()
                        break
                self._idle -= 1
                if job is None:
                    self._threads -= 1
                    return
            job.run()
            with self._lock:
                if self._one_per_owner:
                    self._busy.discard(job.owner)
                    self._work_available.notify()  # another job of this owner may be queued
                self._active.pop(job.key, None)
                self._ended.pop(job.subject, None)
                self._ended[job.subject] = job
                self._forget_old()
            job.end()

    def _pop_next(self) -> Job[Any] | None:
        """Remove and return the first queued job that may run now."""
        for index, job in enumerate(self._queue):
            if job.owner not in self._busy:
                del self._queue[index]
                if self._one_per_owner:
                    self._busy.add(job.owner)
                return job
        return None

    def _forget_old(self) -> None:
        now = time.monotonic()
        while self._ended:
            subject, oldest = next(iter(self._ended.items()))
            if len(self._ended) <= MAX_REMEMBERED and now - (oldest.ended_at or now) <= ENDED_SECONDS:
                return
            del self._ended[subject]


def _reject_second_run(_: Job[Any]) -> Any:
    raise AssertionError("a job is run once")


def _shutting_down_error() -> RefusedError:
    return _capacity_error("this Remit process is about to end", "Nothing was started. Try again after its restart.")


def _capacity_error(what: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.RESOURCE_EXHAUSTED, what, where="the requests of this process", next_step=next_step)
