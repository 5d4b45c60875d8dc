"""Work that takes longer than its caller waits: begun in a thread, followed by the id of what it is about.

Nothing rests on what is remembered here. What was done is in the ledger; what is known of running work besides, how far
it is, ends with this process.
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
"""Running and in line, for one caller: the others' work must find a place too."""
MAX_QUEUED: Final = 256
MAX_REMEMBERED: Final = 500
ENDED_SECONDS: Final = 600.0
CLOSE_SECONDS: Final = 15.0
IDLE_SECONDS: Final = 30.0


@dataclass(eq=False)
class Job(Generic[T]):
    """One piece of work. `subject` is the id of the thing, such as `task:T1`; `owner` whoever asked for it."""

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
    """Of whoever asked first: what is logged in the thread carries his ids."""
    _ended: threading.Event = field(default_factory=threading.Event, repr=False)
    _wake: threading.Event = field(default_factory=threading.Event, repr=False)
    """For whoever waits: it has ended, or nobody is to wait any longer."""
    _cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    _wake_callbacks: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Work that can be stopped looks at it now and then; other work goes on to its end."""
        self._cancelled.set()

    def report_progress(self, phase: str, done: int = 0, total: int | None = None) -> None:
        """How far it is. Cheap enough to be called often."""
        self.progress = Progress(phase=phase[:200], done=max(done, 0), total=total)
        self._on_progress(self)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within that time; sooner, if nobody is to wait any longer."""
        self._wake.wait(max(seconds, 0.0))
        return self._ended.is_set()

    async def wait_async(self, seconds: float) -> bool:
        """The same for an event loop, which goes on meanwhile: no thread waits."""
        loop = asyncio.get_running_loop()
        over = loop.create_future()

        def end() -> None:
            if not over.done():
                over.set_result(None)

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(end)

        timer = loop.call_later(max(seconds, 0.0), end)
        self._wake_callbacks.append(wake)
        try:
            if not self._wake.is_set():  # from here on, whoever sets it calls `wake`
                await over
        finally:
            timer.cancel()
            self._wake_callbacks.remove(wake)
        return self._ended.is_set()

    def wait_until_ended(self, seconds: float) -> bool:
        return self._ended.wait(max(seconds, 0.0))

    def release_waiters(self) -> None:
        """Of whoever waits for it. The work itself goes on."""
        self._wake.set()
        for wake in tuple(self._wake_callbacks):
            wake()

    def result(self) -> T:
        """Of work that has ended; raises what it raised."""
        if self._problem is not None:
            raise self._problem
        return cast("T", self._result)

    def reject(self, problem: BaseException) -> None:
        """It was never begun."""
        self._problem = problem
        self._ended.set()
        self.release_waiters()

    def run(self) -> None:
        """Do the work. The callers that wait are told by `end`."""
        try:
            self._result = self._context.run(self._fn, self)
        except BaseException as problem:  # noqa: BLE001 - told to whoever waits for it
            self._problem = problem
        finally:
            self._fn, self._context = (
                _reject_second_run,
                contextvars.Context(),
            )  # they hold what was sent, which may be large
            self.ended_at = time.monotonic()

    def end(self) -> None:
        """Tell the callers that wait. The same request from now on is a new job, so it must be out of `_active`."""
        self._ended.set()
        self.release_waiters()


class JobRunner:
    """Safe to use from any thread. A few threads work; they end when there was nothing to do for a while.

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
        """By key: in line or at work."""
        self._ended: OrderedDict[str, Job[Any]] = OrderedDict()
        """By subject, the last one of each."""
        self._threads = 0
        self._idle = 0
        self._closed = False
        self.is_ending = False
        """Nobody waits any longer."""
        self.on_progress: Callable[[Job[Any]], None] = lambda _: None

    def start(self, key: str, fn: Callable[[Job[T]], T], *, subject: str, owner: str) -> Job[T]:
        """Have it done. The same key while it is in line or at work is the same job, so it must name all of the wish:
        whoever gives the same gets the same answer.
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
        """The job about this thing: one that goes on now, else the last one that ended a short while ago."""
        with self._lock:
            active = next((job for job in self._active.values() if job.subject == subject), None)
            return active or self._ended.get(subject)

    def active_jobs(self) -> list[Job[Any]]:
        """In line or at work."""
        with self._lock:
            return list(self._active.values())

    @property
    def running(self) -> int:
        with self._lock:
            return len(self._active) - len(self._queue)

    @property
    def waiting(self) -> int:
        """In line."""
        return len(self._queue)

    def release_waiters(self) -> None:
        """Of everybody who waits, whatever he wished: this process is about to end. The work goes on until `close`."""
        with self._lock:
            self.is_ending = True
            for job in self._active.values():
                job.release_waiters()

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Begin nothing more, cancel what can be, and wait. Whether all has ended; what has not is for recovery."""
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
            raise _capacity_error("too much work is under way already", "Try again when some of it has ended.")
        if sum(job.owner == owner for job in self._active.values()) >= MAX_PER_OWNER:
            raise _capacity_error("too much work of yours is under way already", "Wait until some of it has ended.")

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
                    self._work_available.notify()  # another job of this owner may be in line
                self._active.pop(job.key, None)
                self._ended.pop(job.subject, None)
                self._ended[job.subject] = job
                self._forget_old()
            job.end()

    def _pop_next(self) -> Job[Any] | None:
        """The first in line whose turn it is, taken out of the line."""
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
    return _capacity_error("Remit is about to end", "Nothing was begun. Try again when it is back.")


def _capacity_error(what: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.RESOURCE_EXHAUSTED, what, where="the work of this process", next_step=next_step)
