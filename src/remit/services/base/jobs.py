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

MOST_AT_ONCE: Final = 32
MOST_OF_ONE: Final = 16
"""Running and in line, for one caller: the others' work must find a place too."""
MOST_IN_LINE: Final = 256
MOST_ENDED: Final = 500
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
    _tell: "Callable[[Job[Any]], None]" = field(repr=False, default=lambda _: None)
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
    _wakes: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Work that can be stopped looks at it now and then; other work goes on to its end."""
        self._cancelled.set()

    def say(self, phase: str, done: int = 0, total: int | None = None) -> None:
        """How far it is. Cheap enough to be called often."""
        self.progress = Progress(phase=phase[:200], done=max(done, 0), total=total)
        self._tell(self)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within that time; sooner, if nobody is to wait any longer."""
        self._wake.wait(max(seconds, 0.0))
        return self._ended.is_set()

    async def wait_in_loop(self, seconds: float) -> bool:
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
        self._wakes.append(wake)
        try:
            if not self._wake.is_set():  # from here on, whoever sets it calls `wake`
                await over
        finally:
            timer.cancel()
            self._wakes.remove(wake)
        return self._ended.is_set()

    def wait_until_ended(self, seconds: float) -> bool:
        return self._ended.wait(max(seconds, 0.0))

    def let_go(self) -> None:
        """Of whoever waits for it. The work itself goes on."""
        self._wake.set()
        for wake in tuple(self._wakes):
            wake()

    def result(self) -> T:
        """Of work that has ended; raises what it raised."""
        if self._problem is not None:
            raise self._problem
        return cast("T", self._result)

    def give_up(self, problem: BaseException) -> None:
        """It was never begun."""
        self._problem = problem
        self._ended.set()
        self.let_go()

    def run(self) -> None:
        """Do the work. The callers that wait are told by `end`."""
        try:
            self._result = self._context.run(self._fn, self)
        except BaseException as problem:  # noqa: BLE001 - told to whoever waits for it
            self._problem = problem
        finally:
            self._fn, self._context = _was_run, contextvars.Context()  # they hold what was sent, which may be large
            self.ended_at = time.monotonic()

    def end(self) -> None:
        """Tell the callers that wait. The same request from now on is a new job, so it must be out of `_going`."""
        self._ended.set()
        self.let_go()


class JobRunner:
    """Safe to use from any thread. A few threads work; they end when there was nothing to do for a while.

    With `one_of_each`, one job of each owner is at work at a time, so that no owner takes all threads.
    """

    def __init__(self, most: int = MOST_AT_ONCE, *, one_of_each: bool = False) -> None:
        self._most = most
        self._one_of_each = one_of_each
        self._busy: set[str] = set()
        """Owners with a job at work, where one of each counts."""
        self._lock = threading.Lock()
        self._come = threading.Condition(self._lock)
        self._line: deque[Job[Any]] = deque()
        self._going: dict[str, Job[Any]] = {}
        """By key: in line or at work."""
        self._ended: OrderedDict[str, Job[Any]] = OrderedDict()
        """By subject, the last one of each."""
        self._threads = 0
        self._idle = 0
        self._closed = False
        self.is_ending = False
        """Nobody waits any longer."""
        self.on_progress: Callable[[Job[Any]], None] = lambda _: None

    def begin(self, key: str, fn: Callable[[Job[T]], T], *, subject: str, owner: str) -> Job[T]:
        """Have it done. The same key while it is in line or at work is the same job, so it must name all of the wish:
        whoever gives the same gets the same answer.
        """
        with self._lock:
            if self._closed:
                raise _about_to_end()
            found = self._going.get(key)
            if found is not None:
                return found
            self._require_room(owner)
            job = Job(key, subject, owner, fn, self.on_progress)
            if self.is_ending:
                job.let_go()
            self._going[key] = job
            self._line.append(job)
            if self._idle > 0:
                self._come.notify()
            elif self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._labour, name="remit-work", daemon=True).start()
        return job

    def about(self, subject: str) -> Job[Any] | None:
        """The job about this thing: one that goes on now, else the last one that ended a short while ago."""
        with self._lock:
            going = next((job for job in self._going.values() if job.subject == subject), None)
            return going or self._ended.get(subject)

    def jobs(self) -> list[Job[Any]]:
        """In line or at work."""
        with self._lock:
            return list(self._going.values())

    @property
    def running(self) -> int:
        with self._lock:
            return len(self._going) - len(self._line)

    @property
    def waiting(self) -> int:
        """In line."""
        return len(self._line)

    def let_go(self) -> None:
        """Of everybody who waits, whatever he wished: this process is about to end. The work goes on until `close`."""
        with self._lock:
            self.is_ending = True
            for job in self._going.values():
                job.let_go()

    def close(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Begin nothing more, cancel what can be, and wait. Whether all has ended; what has not is for recovery."""
        with self._lock:
            self._closed = True
            for job in self._line:
                self._going.pop(job.key, None)
                job.give_up(_about_to_end())
            self._line.clear()
            left = list(self._going.values())
            self._come.notify_all()
        deadline = time.monotonic() + seconds
        for job in left:
            job.cancel()
        for job in left:
            job.wait_until_ended(deadline - time.monotonic())
        return not any(job.is_running for job in left)

    def _require_room(self, owner: str) -> None:
        if len(self._going) >= self._most + MOST_IN_LINE:
            raise _no_room("too much work is under way already", "Try again when some of it has ended.")
        if sum(job.owner == owner for job in self._going.values()) >= MOST_OF_ONE:
            raise _no_room("too much work of yours is under way already", "Wait until some of it has ended.")

    def _labour(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                while (job := self._next()) is None:
                    if self._closed or not self._come.wait(IDLE_SECONDS):
                        job = self._next()
                        break
                self._idle -= 1
                if job is None:
                    self._threads -= 1
                    return
            job.run()
            with self._lock:
                if self._one_of_each:
                    self._busy.discard(job.owner)
                    self._come.notify()  # another job of this owner may be in line
                self._going.pop(job.key, None)
                self._ended.pop(job.subject, None)
                self._ended[job.subject] = job
                self._forget()
            job.end()

    def _next(self) -> Job[Any] | None:
        """The first in line whose turn it is, taken out of the line."""
        for place, job in enumerate(self._line):
            if job.owner not in self._busy:
                del self._line[place]
                if self._one_of_each:
                    self._busy.add(job.owner)
                return job
        return None

    def _forget(self) -> None:
        now = time.monotonic()
        while self._ended:
            subject, oldest = next(iter(self._ended.items()))
            if len(self._ended) <= MOST_ENDED and now - (oldest.ended_at or now) <= ENDED_SECONDS:
                return
            del self._ended[subject]


def _was_run(_: Job[Any]) -> Any:
    raise AssertionError("a job is run once")


def _about_to_end() -> RefusedError:
    return _no_room("Remit is about to end", "Nothing was begun. Try again when it is back.")


def _no_room(what: str, next_step: str) -> RefusedError:
    return RefusedError(Reason.RESOURCE_EXHAUSTED, what, where="the work of this process", next_step=next_step)
