"""The host of a sandbox: it runs each task in a process of its own, watches that process, and kills it at the end.

This is the interface of the package. Processes are forked in advance. Nothing is started before the first task.
Thread-safe. A process that was forked from the one that made a host must not use it.
"""

import fcntl
import os
import select
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, NamedTuple, Self

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.core.metrics import SANDBOX_KILLS, SANDBOX_SECONDS
from remit.fs.atomic_write import disk_failure, make_private_directory
from remit.parsing import parse_json
from remit.sandbox.encoded_order import EncodedOrder, encode_order
from remit.sandbox.framing import CHUNK, FrameReader, FramingError
from remit.sandbox.orders import MOST_THREADS, Build, Order, Quotas
from remit.sandbox.results import CancelledError, EffectResult, InterruptedTaskError, explain_death
from remit.sandbox.session import (
    ChildSession,
    IsCancelled,
    Meanwhile,
    NeverStartedError,
    OnAsk,
    OnNote,
    OnProgress,
    OnStep,
    OrderTimes,
    SessionCallbacks,
)
from remit.sandbox.support import require_confinement_here
from remit.sandbox.zygote_pool import (
    AHEAD,
    ANSWER_SECONDS,
    TASKS,
    Child,
    ChildHandle,
    Zygote,
    ZygoteGoneError,
    ZygoteStuckError,
    close_all,
)

__all__ = ["CancelledError", "EffectResult", "InterruptedTaskError", "PrewarmedProcess", "SandboxHost"]

_NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
_TRIES: Final = 2 * AHEAD
"""How often a child is replaced that died while it waited, with its zygote or without."""


class SandboxHost:
    """Runs orders for the effects it was made with, and for no others.

    `lock` is a file on which this process, the zygote and every child hold a shared flock until the last of them is
    dead. `import_paths` are the folders with the packages of the effects. `confined=False` is `sandbox: unsafe-none`:
    then the quotas apply, but not Landlock and seccomp.
    """

    def __init__(
        self,
        effects: Sequence[str],
        quotas: Quotas,
        *,
        confined: bool = True,
        lock: Path,
        import_paths: Sequence[str] = (),
        build: Build = TASKS,
    ) -> None:
        self._effects = tuple(effects)
        self._build = build
        self._quotas = replace(quotas, threads=MOST_THREADS) if build.program else quotas
        self._confined = confined
        self._lock_path = lock
        self._import_paths = tuple(import_paths)
        self._owner = os.getpid()
        self._guard = threading.Lock()
        self._zygote: Zygote | None = None
        self._retired: list[Zygote] = []
        self._lock: list[int] = []
        self._closed = False
        _hosts.add(self)

    def run(  # noqa: PLR0913 - the caller's callbacks, by name
        self,
        order: Order,
        *,
        given: Mapping[str, int] = _NOTHING,
        on_progress: OnProgress | None = None,
        on_ask: OnAsk | None = None,
        on_note: OnNote | None = None,
        meanwhile: Meanwhile | None = None,
        on_step: OnStep | None = None,
        is_cancelled: IsCancelled | None = None,
    ) -> EffectResult:
        """Run an order in its own process, which is dead when this returns or raises. See `PrewarmedProcess.run`."""
        with self.prewarm(order, given=given) as prewarmed:
            return prewarmed.run(
                on_progress=on_progress,
                on_ask=on_ask,
                on_note=on_note,
                meanwhile=meanwhile,
                on_step=on_step,
                is_cancelled=is_cancelled,
            )

    def prewarm(self, order: Order, *, given: Mapping[str, int] = _NOTHING) -> "PrewarmedProcess":
        """Return a confined process that has this order and its folders, and does nothing before `run`.

        It can be prepared while the intent is recorded. The descriptors in `given` must stay open until `run` ends.
        """
        self.require_usable()
        self._require_runnable(order, given)
        frame = encode_order(order, tuple(given))
        prewarmed = PrewarmedProcess(
            self, EncodedOrder(frame, tuple(given.values()), OrderTimes(order.seconds, order.paces))
        )
        try:
            prewarmed.prepare()
        except BaseException:
            prewarmed.dismiss()
            raise
        return prewarmed

    def close(self) -> None:
        """End the zygote, and with it every child. A forked copy of this process has detached already."""
        with self._guard:
            self._closed = True
            if self._zygote is not None:
                self._retire(self._zygote, at_once=False)
            close_all(self._lock)

    def detach_after_fork(self) -> None:
        """Close all descriptors in a forked copy of the process, so that none shows others a task that still runs."""
        self._closed = True
        self._guard = threading.Lock()  # the thread that held the old one is not in this process
        for zygote in (self._zygote, *self._retired):
            if zygote is not None:
                zygote.detach()
        self._zygote = None
        self._retired.clear()
        close_all(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ready(self) -> int:
        """The number of processes that were forked in advance and wait for an order."""
        zygote = self._zygote
        return 0 if zygote is None else zygote.ready

    def require_usable(self) -> None:
        if os.getpid() != self._owner:
            raise _unusable_error("belongs to the parent process, from which this one was forked")
        if self._closed:
            raise _unusable_error("is closed")

    def _require_runnable(self, order: Order, given: Mapping[str, int]) -> None:
        if order.effect not in self._effects:
            raise UsageError(Reason.MISUSE, f"no effect {order.effect} was registered with this sandbox")
        if order.network and not self._build.network:
            raise UsageError(Reason.MISUSE, "this sandbox was built without a network", where=order.capability_id)
        most = self._build.max_descriptors
        if len(given) > most:
            raise UsageError(Reason.MISUSE, f"an order may have at most {most} descriptors", where=order.task_id)

    def send_order(self, encoded: EncodedOrder, handle: ChildHandle) -> "StartedChild | None":
        """Send the order to a child that is alive. Returns None if the child died, so that another one gets it."""
        zygote, child = self._claim_child(handle)
        session = ChildSession(child, self._quotas, zygote.resident, encoded.times)
        try:
            session.send_order(encoded.frame, encoded.descriptors)
            session.start_watching()
            zygote.fork_ahead()
        except NeverStartedError:
            child.close()
            return None
        except BaseException:
            child.close()
            raise
        return StartedChild(zygote, child, session)

    def add_exit_status(self, cut: InterruptedTaskError, ready: "StartedChild") -> InterruptedTaskError:
        """Return the error with the exit status that the zygote has, if the child ended by itself."""
        if not ready.session.died:
            return cut
        return explain_death(cut, ready.zygote.wait_status(ready.child.pid), self._quotas)

    def _claim_child(self, handle: ChildHandle) -> tuple[Zygote, Child]:
        """Return a child that is alive. A zygote that has died is replaced."""
        exit_message = ""
        for _ in range(_TRIES):
            zygote = self._running()
            try:
                child = zygote.claim_child(handle)
            except ZygoteGoneError:
                self._discard(zygote)
                continue
            except ZygoteStuckError:
                self._discard(zygote)
                raise _stuck_error() from None
            if not is_dead(child.pidfd):
                return zygote, child
            exit_message = read_exit_message(child) or exit_message
            child.close()
        raise _no_process_error(exit_message)

    def _running(self) -> Zygote:
        zygote = self._zygote
        if zygote is not None:
            return zygote
        with self._guard:
            if self._closed:
                raise _unusable_error("is closed")
            if self._zygote is None:
                self._zygote = self._start()
            return self._zygote

    def _start(self) -> Zygote:
        """Start a zygote and return it when it is ready.

        It is tried twice, because the signal that ended the first may have been meant for another process.
        """
        self._retired = [zygote for zygote in self._retired if not zygote.close(at_once=True)]
        lock_shared(self._lock_path, self._lock)
        ended = ""
        for _ in range(2):
            zygote = Zygote(
                self._effects,
                self._quotas,
                confined=self._confined,
                lock=self._lock[0],
                import_paths=self._import_paths,
                build=self._build,
            )
            try:
                if self._confined:
                    require_confinement_here()  # while the zygote imports
                zygote.wait_until_ready()
            except ZygoteGoneError:
                zygote.close(at_once=False)
                ended = zygote.exit_description()
            except BaseException:
                zygote.close(at_once=True)
                raise
            else:
                return zygote
        raise _start_failed_error(ended)

    def _discard(self, zygote: Zygote) -> None:
        with self._guard:
            if self._zygote is zygote:
                self._retire(zygote, at_once=True)

    def _retire(self, zygote: Zygote, *, at_once: bool) -> None:
        """Stop using a zygote. Threads that still have its children close them; otherwise the next start does."""
        if not zygote.close(at_once=at_once):
            self._retired.append(zygote)
        self._zygote = None


class StartedChild(NamedTuple):
    """A child that has its order, with its zygote and its session."""

    zygote: Zygote
    child: Child
    session: ChildSession


class PrewarmedProcess:
    """One order and a process that waits to run it: `run` once, or `dismiss`. Not for two threads at a time.

    Even if this object is lost, the process is killed, at the latest when the next task takes a child.
    """

    __slots__ = ("_encoded_order", "_handle", "_host", "_ready")

    def __init__(self, host: SandboxHost, encoded: EncodedOrder) -> None:
        self._handle = ChildHandle()
        self._host = host
        self._encoded_order = encoded
        self._ready: StartedChild | None = None

    def prepare(self) -> StartedChild | None:
        self._ready = self._host.send_order(self._encoded_order, self._handle)
        return self._ready

    def run(
        self,
        *,
        on_progress: OnProgress | None = None,
        on_ask: OnAsk | None = None,
        on_note: OnNote | None = None,
        meanwhile: Meanwhile | None = None,
        on_step: OnStep | None = None,
        is_cancelled: IsCancelled | None = None,
    ) -> EffectResult:
        """Run the effect. The process is dead when this returns or raises. One that died before the start is replaced.

        The effect continues only after `on_note` has returned. An exception of `on_note` ends the task and is raised
        unchanged. `meanwhile` is called with the output of a completed task while its process is being killed. It is
        for work towards the outcome, which must not be published before `run` has returned. `on_step` receives the
        steps of an order that has paces. `is_cancelled` is called every few milliseconds; true ends the task with
        `CancelledError`.
        Raises the error of the effect; `InterruptedTaskError` if the effect did not complete and must be settled; and
        EnvironmentFailureError, with nothing started, if no sandbox is possible.
        """
        if self._handle.over:
            raise UsageError(Reason.MISUSE, "a prewarmed process serves once, and this one was used or dismissed")
        listener = SessionCallbacks(on_progress, on_ask, on_note, meanwhile, on_step, is_cancelled)
        try:
            self._host.require_usable()
            for _ in range(_TRIES):
                ready = self._ready or self.prepare()
                self._ready = None
                if ready is not None and (finished := self._run_started(ready, listener)) is not None:
                    return finished
            raise _no_process_error("")
        finally:
            self._handle.over = True  # no call, so no interrupt can come before it

    def dismiss(self) -> None:
        """End the process without running the effect. Can be called again, and after `run`."""
        ready, self._ready = self._ready, None
        try:
            if ready is not None:
                ready.child.close()
        finally:
            self._handle.over = True  # not earlier: another thread closes the child as soon as its use is over

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dismiss()

    def _run_started(self, ready: StartedChild, listener: SessionCallbacks) -> EffectResult | None:
        try:
            finished = ready.session.run(listener)
        except NeverStartedError:
            return None
        except InterruptedTaskError as cut:
            explained = self._host.add_exit_status(cut, ready)
            SANDBOX_KILLS.add(explained.reason.value)
            SANDBOX_SECONDS.observe(cut.usage.seconds)
            raise explained from None
        else:
            SANDBOX_SECONDS.observe(finished.usage.seconds)
            return finished
        finally:
            ready.child.close()


_hosts: Final[weakref.WeakSet[SandboxHost]] = weakref.WeakSet()


def _detach_all() -> None:
    for host in tuple(_hosts):
        host.detach_after_fork()


os.register_at_fork(after_in_child=_detach_all)


def _unusable_error(why: str) -> UsageError:
    return UsageError(Reason.MISUSE, f"this sandbox {why}", next_step="Open the workspace again, in this process.")


def _no_process_error(exit_message: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.SANDBOX_UNAVAILABLE,
        f"no sandboxed process could be started{': ' + exit_message if exit_message else ''}",
        next_step="`remit doctor` shows what this machine supports.",
    )


def _stuck_error() -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.SANDBOX_UNAVAILABLE,
        f"the process that sandboxes are forked from did not answer for {ANSWER_SECONDS:g} seconds",
        next_step="Try again. Remit has killed it, and the next task starts another.",
    )


def _start_failed_error(ended: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.SANDBOX_UNAVAILABLE,
        f"the process that sandboxes are forked from died twice while it started ({ended})",
        next_step="Find out what ends it: a lack of memory, a supervisor, or the import of an effect.",
    )


def lock_shared(path: Path, descriptors: list[int]) -> None:
    """Take a shared lock on this file. It lasts while any process has a copy of the one descriptor in `descriptors`."""
    make_private_directory(path.parent)
    flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if not descriptors:
            # One call in C, so that no interrupt can come between the open and the list.
            descriptors.extend(map(os.open, (path,), (flags,), (0o600,)))
    except OSError as problem:
        raise disk_failure(problem, path) from problem
    try:
        fcntl.flock(descriptors[0], fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        close_all(descriptors)
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            "another process is recovering the requests of this one, as if it were dead",
            where=str(path),
            next_step="Try again.",
        ) from None


def is_dead(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def read_exit_message(child: Child) -> str:
    """Return why a child without an order died, if it reported that."""
    try:
        for frame in FrameReader().feed(os.read(child.channel, CHUNK)):
            return str(parse_json(frame)["error"]["what"])
    except (OSError, FramingError, RefusedError, KeyError, TypeError):
        pass
    return ""
