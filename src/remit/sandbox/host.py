"""Where effects run: one sandboxed process for each task, forked ahead, locked by the kernel, watched, certainly dead.

The one door of this room. Nothing is started before the first task. Thread-safe; not to be used in a process that was
forked from the one that made it.
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
"""As many children may have died while they waited, with their zygote or without."""


class SandboxHost:
    """Runs orders for the effects it was made with, and for no other.

    `lock` is a file on which this process, the zygote and every child hold a shared flock until the last of them is
    dead. `import_paths` are folders where the effects' packages are found. `confined=False` is `sandbox: unsafe-none`:
    the quotas still hold, Landlock and seccomp do not.
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

    def run(  # noqa: PLR0913 - what the caller wants to hear, by name
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
        """Do it in a process of its own, which is dead when this returns or raises. See `PrewarmedProcess.run`."""
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
        """A process that has this order, has its folders open and its walls closed, and does nothing before `run`.

        To be had while the intent is being recorded. The descriptors in `given` must stay open until `run` is over.
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
        """End the zygote, and with it every child. A forked copy has let go already."""
        with self._guard:
            self._closed = True
            if self._zygote is not None:
                self._retire(self._zygote, at_once=False)
            close_all(self._lock)

    def detach_after_fork(self) -> None:
        """In a forked copy of the process: keep nothing open that says to others that a task may still run."""
        self._closed = True
        self._guard = threading.Lock()  # whoever held the old one is not in this process
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
        """Processes that were forked ahead and wait for an order."""
        zygote = self._zygote
        return 0 if zygote is None else zygote.ready

    def require_usable(self) -> None:
        if os.getpid() != self._owner:
            raise _unusable_error("belongs to the process that this one was forked from")
        if self._closed:
            raise _unusable_error("is closed")

    def _require_runnable(self, order: Order, given: Mapping[str, int]) -> None:
        if order.effect not in self._effects:
            raise UsageError(Reason.MISUSE, f"no effect {order.effect} was registered with this sandbox")
        if order.network and not self._build.network:
            raise UsageError(Reason.MISUSE, "these processes cannot use the network", where=order.capability_id)
        most = self._build.max_descriptors
        if len(given) > most:
            raise UsageError(Reason.MISUSE, f"an order is given at most {most} descriptors here", where=order.task_id)

    def send_order(self, encoded: EncodedOrder, handle: ChildHandle) -> "StartedChild | None":
        """The order to a child that is alive; None if it died at that moment, and another one is to have it."""
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
        """With what the zygote knows of a child that ended by itself."""
        if not ready.session.died:
            return cut
        return explain_death(cut, ready.zygote.wait_status(ready.child.pid), self._quotas)

    def _claim_child(self, handle: ChildHandle) -> tuple[Zygote, Child]:
        """A child that is alive. A zygote that died meanwhile is replaced."""
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
        """One that is ready. Whatever ended the first may have been meant for somebody else: it is tried once more."""
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
                    require_confinement_here()  # meanwhile the zygote imports
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
        """Other threads may still hold children of it. They close them; if they cannot, the next start does."""
        if not zygote.close(at_once=at_once):
            self._retired.append(zygote)
        self._zygote = None


class StartedChild(NamedTuple):
    """A child that has its order, and whom it is of."""

    zygote: Zygote
    child: Child
    session: ChildSession


class PrewarmedProcess:
    """One order and a process that waits to do it: `run` once, or `dismiss`. Not for two threads at a time.

    Whatever becomes of this object, the process is killed: at the latest when the next task takes a child.
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
        """Go. The process is dead when this returns or raises; one that died before it was told is replaced.

        The effect goes on only when `on_note` has returned; what that raises ends the task and comes out as it is.
        `meanwhile` is called with the output of a task that came to its end, when its process was killed and may not
        be dead yet: for work on the way to the outcome, which must not be told to anybody before `run` has returned.
        `on_step` hears of the steps of an order that has paces. `is_cancelled` is asked every few milliseconds; a yes
        ends the task with `CancelledError`.
        Raises what the effect raised; `InterruptedTaskError` where it did not come to its end, and must be settled;
        EnvironmentFailureError, with nothing begun, where there can be no sandbox.
        """
        if self._handle.over:
            raise UsageError(Reason.MISUSE, "a process that stood by serves once, and this one was used or dismissed")
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
        """Nothing was done, and nothing will be. Can be called again, and after `run`."""
        self._handle.over = True
        ready, self._ready = self._ready, None
        if ready is not None:
            ready.child.close()

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
        next_step="`remit doctor` shows what holds on this machine.",
    )


def _stuck_error() -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.SANDBOX_UNAVAILABLE,
        f"the process that sandboxes are forked from did not answer for {ANSWER_SECONDS:g} seconds",
        next_step="Try again: it was killed, and the next task starts another.",
    )


def _start_failed_error(ended: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.SANDBOX_UNAVAILABLE,
        f"the process that sandboxes are forked from died twice while it started ({ended})",
        next_step="See what ends it: the kernel for want of memory, a supervisor, or an effect as it is imported.",
    )


def lock_shared(path: Path, descriptors: list[int]) -> None:
    """A shared lock on this file, while a copy of the descriptor, the only one in `descriptors`, is open anywhere."""
    make_private_directory(path.parent)
    flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if not descriptors:
            # One call, all C: no interrupt can come between opening and remembering.
            descriptors.extend(map(os.open, (path,), (flags,), (0o600,)))
    except OSError as problem:
        raise disk_failure(problem, path) from problem
    try:
        fcntl.flock(descriptors[0], fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        close_all(descriptors)
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            "somebody recovers for this process, as if it were dead",
            where=str(path),
            next_step="Try again.",
        ) from None


def is_dead(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def read_exit_message(child: Child) -> str:
    """Why a child that never had an order died, if it could say so."""
    try:
        for frame in FrameReader().feed(os.read(child.channel, CHUNK)):
            return str(parse_json(frame)["error"]["what"])
    except (OSError, FramingError, RefusedError, KeyError, TypeError):
        pass
    return ""
