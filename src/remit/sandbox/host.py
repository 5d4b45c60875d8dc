"""Where effects run: one sandboxed process for each task, forked ahead, locked by the kernel, watched, certainly dead.

The one door of this room. Nothing is started before the first task. Thread-safe; not to be used in a process that was
forked from the one that made it.
"""

import fcntl
import functools
import os
import select
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from remit.durable import disk_failure, make_private_directory
from remit.errors import EnvironmentFailed, Misuse, Reason, Refused
from remit.sandbox.child import MAX_GIVEN
from remit.sandbox.conversation import Conversation, NeverBegun, OnAsk, OnProgress
from remit.sandbox.endings import CutShort, Finished, death_of
from remit.sandbox.frames import CHUNK, FrameReader, FramesBroken, encode_frame
from remit.sandbox.kernel import KernelFeatures, probe_kernel
from remit.sandbox.orders import Order, Quotas
from remit.sandbox.pool import AHEAD, Child, Zygote, ZygoteGone
from remit.untrusted import parse_json

__all__ = ["CutShort", "Finished", "SandboxHost"]

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
    ) -> None:
        self._effects = tuple(effects)
        self._quotas = quotas
        self._confined = confined
        self._lock_path = lock
        self._import_paths = tuple(import_paths)
        self._owner = os.getpid()
        self._guard = threading.Lock()
        self._zygote: Zygote | None = None
        self._lock = -1
        self._closed = False

    def run(
        self,
        order: Order,
        *,
        given: Mapping[str, int] = _NOTHING,
        on_progress: OnProgress | None = None,
        on_ask: OnAsk | None = None,
    ) -> Finished:
        """Do it in a process of its own, which is dead when this returns or raises.

        Raises what the effect raised; `CutShort` where it did not come to its end, and must be settled;
        EnvironmentFailed, with nothing begun, where there can be no sandbox.
        """
        self._require_usable(order, given)
        frame = encode_order(order, tuple(given))
        for _ in range(_TRIES):
            zygote, child = self._take()
            conversation = Conversation(child, self._quotas, zygote.resident, on_progress, on_ask)
            try:
                return conversation.run(frame, tuple(given.values()))
            except NeverBegun:
                continue
            except CutShort as cut:
                if conversation.died:
                    raise death_of(cut, zygote.ended(child.pid), self._quotas) from None
                raise
            finally:
                child.close()
        raise _no_process("")

    def close(self) -> None:
        """End the zygote, and with it every child. In a forked copy: only let go."""
        with self._guard:
            self._closed = True
            zygote, self._zygote = self._zygote, None
            if zygote is not None:
                if os.getpid() == self._owner:
                    zygote.close()
                else:
                    zygote.forget()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_usable(self, order: Order, given: Mapping[str, int]) -> None:
        if self._closed:
            raise _unusable("is closed")
        if os.getpid() != self._owner:
            raise _unusable("belongs to the process that this one was forked from")
        if order.effect not in self._effects:
            raise Misuse(Reason.MISUSE, f"no effect {order.effect} was registered with this sandbox")
        if order.network:
            raise Misuse(Reason.MISUSE, "no effect can use the network yet", where=order.capability_id)
        if len(given) > MAX_GIVEN:
            raise Misuse(Reason.MISUSE, f"a task is given at most {MAX_GIVEN} descriptors", where=order.task_id)

    def _take(self) -> tuple[Zygote, Child]:
        """A child that is alive. A zygote that died meanwhile is replaced."""
        said = ""
        for _ in range(_TRIES):
            zygote = self._running()
            try:
                child = zygote.take()
            except ZygoteGone:
                self._discard(zygote)
                continue
            if not is_dead(child.pidfd):
                return zygote, child
            said = last_words(child) or said
            child.close()
        raise _no_process(said)

    def _running(self) -> Zygote:
        zygote = self._zygote
        if zygote is not None:
            return zygote
        with self._guard:
            if self._closed:
                raise _unusable("is closed")
            if self._zygote is None:
                self._zygote = self._start()
            return self._zygote

    def _start(self) -> Zygote:
        if self._lock < 0:
            self._lock = hold(self._lock_path)
        zygote = Zygote(
            self._effects, self._quotas, confined=self._confined, lock=self._lock, import_paths=self._import_paths
        )
        try:
            if self._confined:
                require_confinement(_this_kernel())  # meanwhile the zygote imports
            zygote.wait_until_ready()
        except BaseException:
            zygote.close()
            raise
        return zygote

    def _discard(self, zygote: Zygote) -> None:
        with self._guard:
            if self._zygote is zygote:
                self._zygote = None
                zygote.close()


def _unusable(why: str) -> Misuse:
    return Misuse(Reason.MISUSE, f"this sandbox {why}", next_step="Open the workspace again, in this process.")


def _no_process(said: str) -> EnvironmentFailed:
    return EnvironmentFailed(
        Reason.SANDBOX_UNAVAILABLE,
        f"no sandboxed process could be started{': ' + said if said else ''}",
        next_step="`remit doctor` shows what holds on this machine.",
    )


def encode_order(order: Order, given: Sequence[str]) -> bytes:
    fields: dict[str, Any] = {name: getattr(order, name) for name in Order.__dataclass_fields__}
    try:
        return encode_frame({**fields, "given": given})
    except FramesBroken as problem:
        raise Refused(Reason.TOO_LARGE, f"the task is too large: {problem}", where=order.task_id) from None


def hold(path: Path) -> int:
    """A shared lock on this file, for as long as a copy of the descriptor is open anywhere."""
    make_private_directory(path.parent)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise disk_failure(problem, path) from problem
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise EnvironmentFailed(
            Reason.STATE_UNSAFE,
            "somebody recovers for this process, as if it were dead",
            where=str(path),
            next_step="Try again.",
        ) from None
    return descriptor


def is_dead(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def last_words(child: Child) -> str:
    """Why a child that never had an order died, if it could say so."""
    try:
        for frame in FrameReader().feed(child.channel.recv(CHUNK)):
            return str(parse_json(frame)["error"]["what"])
    except (OSError, FramesBroken, Refused, KeyError, TypeError):
        pass
    return ""


@functools.cache
def _this_kernel() -> KernelFeatures:
    return probe_kernel()


def require_confinement(kernel: KernelFeatures) -> None:
    """All that the sandbox stands on works here, or EnvironmentFailed naming what does not."""
    wanted = ("landlock", "confinement", "seccomp", "no_new_privs", "openat2", "renameat2")
    missing = [f"{name} ({getattr(kernel, name).found})" for name in wanted if not getattr(kernel, name).works]
    if missing:
        raise EnvironmentFailed(
            Reason.SANDBOX_UNAVAILABLE,
            f"this kernel cannot confine an effect: {', '.join(missing)}",
            next_step="`remit doctor` says what is needed; `sandbox: unsafe-none` in remit.yaml runs without.",
        )
