"""The host's side of one task: send the order, start the effect, receive frames, check the quotas, end the process.

All frames of the child are untrusted data. The child is always dead when this returns or raises: the host sends SIGKILL
through its pidfd and waits until the kernel reports the end.
"""

import _socket
import array
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from remit.core.concurrency import yielding
from remit.core.errors import Reason, RefusedError, RemitError, UsageError
from remit.parsing import Bounds, parse_json
from remit.sandbox.framing import (
    CHUNK,
    FRAMES_OF_A_STEP,
    GO,
    MAX_FRAME,
    MAX_FRAMES,
    FrameReader,
    FramingError,
    encode_frame,
)
from remit.sandbox.orders import Quotas, Usage
from remit.sandbox.processor_time import charge_process
from remit.sandbox.quotas import (
    FIRST_CHECK_SECONDS,
    Breach,
    Meter,
    WatchError,
    decide_breach,
    memory_breach,
    next_check,
    time_breach,
)
from remit.sandbox.results import KINDS, CancelledError, EffectResult, InterruptedTaskError, Note, reason_of
from remit.sandbox.step_protocol import Paces, ProtocolError
from remit.sandbox.zygote_pool import Child

OnProgress = Callable[[int, int], None]
OnAsk = Callable[[Mapping[str, Any]], Mapping[str, Any]]
OnNote = Callable[[Mapping[str, Any]], None]
OnStep = Callable[[Mapping[str, Any]], None]
IsCancelled = Callable[[], bool]
Meanwhile = Callable[[dict[str, Any] | None], None]

_DOCTOR: Final = {"next_step": "Mount /proc without hidepid; `remit doctor` shows what this machine supports."}
MAX_NOTED: Final = 64 << 10
"""The most bytes of notes of a task. The order to settle contains them, and has a bound too."""

_BOUNDS: Final = Bounds(max_bytes=MAX_FRAME)
_NOTED: Final = encode_frame({"kind": "noted"})


class SessionCallbacks(NamedTuple):
    """The functions of the caller that are called while a task runs."""

    on_progress: OnProgress | None = None
    on_ask: OnAsk | None = None
    on_note: OnNote | None = None
    meanwhile: Meanwhile | None = None
    on_step: OnStep | None = None
    is_cancelled: IsCancelled | None = None


class OrderTimes(NamedTuple):
    """The time limits of an order: for all of it, if not the host's quota, and for each step."""

    seconds: float | None = None
    paces: tuple[float, ...] = ()


_NO_TIMES: Final = OrderTimes()


class NeverStartedError(Exception):
    """Raised if the child died before it was allowed to begin, so that another child can get its order."""


class ChildSession:
    """The exchange with one child, which is dead after `run`. The caller closes its descriptors."""

    def __init__(self, child: Child, quotas: Quotas, resident: int, times: OrderTimes = _NO_TIMES) -> None:
        self._child = child
        self._quotas = quotas if times.seconds is None else replace(quotas, seconds=times.seconds)
        self._has_time_limit = times.seconds is not None
        self._paces = Paces(times.paces)
        self._listener = SessionCallbacks()
        self._meter = Meter(child.pid, resident, child.descriptors, counts_threads=quotas.threads is not None)
        self._reader = FrameReader(MAX_FRAMES + FRAMES_OF_A_STEP * len(times.paces))
        self._notes: list[Note] = []
        self._noted_bytes = 0
        self._has_received = False
        self._outgoing = memoryview(b"")
        self._began = 0.0
        self._paused = 0.0
        self._poll = select.poll()
        self.died = False
        """Whether the child ended by itself, so that its exit status is of interest."""

    def send_order(self, frame: bytes, descriptors: Sequence[int]) -> None:
        """Send the order. The child opens its folders, confines itself and waits for `run`. Raises NeverStartedError.

        `run` receives the messages that the child sends until then, such as that a folder is missing.
        """
        self._outgoing = memoryview(frame)
        try:
            sent = send_with_descriptors(self._child.channel, frame, descriptors)
        except ConnectionError:
            raise NeverStartedError from None
        self._outgoing = self._outgoing[sent:]

    def start_watching(self) -> None:
        """Prepare the poll and the meter while the child confines itself, so that no time is lost later."""
        self._poll.register(self._child.channel, select.POLLIN)
        self._poll.register(self._child.pidfd, select.POLLIN)
        self._meter.open()

    def run(self, listener: SessionCallbacks) -> EffectResult:
        """Start the effect. Raises the error of the effect, InterruptedTaskError, or NeverStartedError."""
        self._listener = listener
        try:
            finished = self._run_to_end()
            charge_process(self._child.pid, is_alive=True)
            if listener.meanwhile is not None:
                self._child.signal(signal.SIGKILL)
                listener.meanwhile(finished.output)  # at the same time the kernel ends the process
        except RemitError:
            charge_process(self._child.pid, is_alive=not self._child.is_dead)
            raise
        else:
            return finished
        finally:
            self._kill_and_wait()

    # --- messages -----------------------------------------------------------------------------------------------------

    def _run_to_end(self) -> EffectResult:
        try:
            self._began = time.monotonic()
            self._send_go()
            output = self._listen()
            used = self._meter.read(self._seconds())
            self._require_within(used)
            return EffectResult(output, tuple(self._notes), used)
        except FramingError as problem:
            raise self._limit_error(Breach(f"the task's process sent too much: {problem}", "")) from None
        except WatchError as problem:
            raise self._interrupted_error(
                Reason.EFFECT_FAILED, f"the resources of a task cannot be measured here: {problem}", _DOCTOR
            ) from None

    def _send_go(self) -> None:
        # A part of a large order may still be unsent, because the socket was full.
        self._outgoing = memoryview(b"".join((self._outgoing, GO)))
        try:
            sent = os.write(self._child.channel, self._outgoing)
        except BlockingIOError:
            return
        except ConnectionError:
            raise NeverStartedError from None
        self._outgoing = self._outgoing[sent:]

    def _listen(self) -> dict[str, Any] | None:
        """Receive messages until the task is done. The quotas are checked on time, even if the child sends a lot."""
        channel, next_check_at = self._child.channel, self._began + FIRST_CHECK_SECONDS
        while True:
            if self._outgoing:
                self._poll.modify(channel, select.POLLIN | select.POLLOUT)
            with yielding():
                ready = dict(self._poll.poll(max(next_check_at - time.monotonic(), 0.0) * 1_000))
            if self._outgoing and ready.get(channel, 0) & select.POLLOUT:
                self._send_more()
            if ready.get(channel, 0) & ~select.POLLOUT:
                for frame in self._receive():
                    message = self._parse(frame)
                    if message["kind"] == "done":
                        return self._output(message)
                    self._handle(message, len(frame))
            elif self._child.pidfd in ready:
                self.died = True
                raise self._death_error()
            if time.monotonic() >= next_check_at:
                next_check_at = self._check_limits() + time.monotonic()

    def _check_limits(self) -> float:
        """Check cancellation and quotas. Raises if the task must end, else returns the seconds until the next check."""
        if self._listener.is_cancelled is not None and self._listener.is_cancelled():
            raise self._interrupted_error(Reason.CANCELLED, "it was cancelled", {}, CancelledError)
        used = self._meter.read(self._seconds())
        self._require_within(used)
        pause, left = next_check(self._quotas, used), self._paces.left(used.seconds)
        return pause if left is None else min(pause, max(left, 0.0) + 0.001)

    def _require_within(self, used: Usage) -> None:
        breach = self._paces.breach(used.seconds)
        if breach is None and self._has_time_limit and used.seconds > self._quotas.seconds:
            breach = time_breach(self._quotas.seconds)
        breach = breach or decide_breach(self._quotas, used)
        if breach is not None:
            raise self._limit_error(breach)

    def _receive(self) -> Iterable[bytes]:
        try:
            data = os.read(self._child.channel, CHUNK)
        except BlockingIOError:
            return ()
        except ConnectionError:
            # The kernel reports this, and not the end of file, for a socket that was closed with unread data.
            if not self._has_received:
                raise NeverStartedError from None
            data = b""
        if not data:
            self.died = True
            raise self._death_error()
        self._has_received = True
        return self._reader.feed(data)

    def _store_note(self, note: Note, size: int) -> None:
        self._noted_bytes += size
        if self._noted_bytes > MAX_NOTED:
            raise FramingError(f"it noted more than {MAX_NOTED:,} bytes")
        self._notes.append(note)

    def _parse(self, frame: bytes) -> dict[str, Any]:
        try:
            message = parse_json(frame, _BOUNDS, source="the sandboxed process")
        except RefusedError:
            raise self._protocol_error() from None
        if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
            raise self._protocol_error()
        return message

    def _handle(self, message: dict[str, Any], size: int) -> None:
        match message:
            case {"kind": "note", "note": dict(note)}:
                self._handle_note(note, size)
            case {"kind": "progress", "done": int(done), "total": int(total)}:
                if self._listener.on_progress is not None:
                    self._listener.on_progress(done, total)
            case {"kind": "ask", "question": dict(question)}:
                self._handle_question(question)
            case {"kind": "step"}:
                self._handle_step(message)
            case {"kind": "failed", "error": dict(error)}:
                raise self._failure(error)
            case _:
                raise self._protocol_error()

    def _handle_step(self, message: dict[str, Any]) -> None:
        try:
            checked = self._paces.check_step(message, self._seconds())
        except ProtocolError:
            raise self._protocol_error() from None
        if self._listener.on_step is not None:
            self._listener.on_step(checked)

    def _handle_note(self, note: Note, size: int) -> None:
        """Store a note, and let the child continue. The clock is paused meanwhile; the process is not stopped.

        Limit: a child that does not wait for the answer works in that moment without a time limit. Its other resources
        are checked afterwards.
        """
        if self._outgoing:
            raise self._protocol_error()  # it has not received the answer to the last note yet
        self._store_note(note, size)
        if self._listener.on_note is not None:
            began = time.monotonic()
            self._listener.on_note(note)
            self._paused += time.monotonic() - began
        self._outgoing = memoryview(_NOTED)
        self._send_more()

    def _handle_question(self, question: dict[str, Any]) -> None:
        """Answer a question. The clock is paused and the child is stopped.

        Otherwise it could work without a time limit while a person decides.
        """
        if self._outgoing:
            raise self._protocol_error()  # it has not received the last answer yet
        paused_at = time.monotonic()
        self._child.signal(signal.SIGSTOP)
        answer = self._listener.on_ask(question) if self._listener.on_ask is not None else {}
        try:
            self._outgoing = memoryview(encode_frame({"kind": "answer", "answer": answer}))
        except (TypeError, ValueError, FramingError) as problem:
            raise UsageError(Reason.MISUSE, f"the answer to a task's question cannot be sent: {problem}") from None
        self._child.signal(signal.SIGCONT)
        self._paused += time.monotonic() - paused_at

    def _send_more(self) -> None:
        try:
            sent = os.write(self._child.channel, self._outgoing)
        except BlockingIOError:
            return
        except ConnectionError:
            sent = len(self._outgoing)  # the next read reports the end of the child
        self._outgoing = self._outgoing[sent:]
        if not self._outgoing:
            self._poll.modify(self._child.channel, select.POLLIN)

    def _output(self, message: dict[str, Any]) -> dict[str, Any] | None:
        match message:
            case {"kind": "done", "output": dict() | None as output}:
                return output
        raise self._protocol_error()

    # --- the end ------------------------------------------------------------------------------------------------------

    def _kill_and_wait(self) -> None:
        """Kill the process and wait for its end, because a killed process may still finish its system call."""
        if self._child.is_dead:
            return
        self._child.signal(signal.SIGKILL)
        poll = select.poll()
        poll.register(self._child.pidfd, select.POLLIN)
        poll.poll()
        self._child.is_dead = True

    def _failure(self, error: dict[str, Any]) -> RemitError:
        """Return the error of the effect. A bug may leave any state, so it is an interrupted task."""
        details = {key: value for key in ("what", "where", "next_step") if isinstance(value := error.get(key, ""), str)}
        match error.get("type"):
            case "exhausted":
                return self._limit_error(memory_breach(self._quotas))
            case "bug":
                return self._interrupted_error(
                    Reason.EFFECT_FAILED, f"the effect has a bug: {details.get('what', '')}", details
                )
            case str(kind) if kind in KINDS:
                return KINDS[kind](reason_of(error.get("reason")), **{"what": "", **details})
        return self._protocol_error()

    def _seconds(self) -> float:
        return time.monotonic() - self._began - self._paused

    def _limit_error(self, breach: Breach) -> InterruptedTaskError:
        details = {"next_step": breach.next_step}
        return self._interrupted_error(breach.reason, breach.what, details)

    def _protocol_error(self) -> InterruptedTaskError:
        return self._interrupted_error(Reason.EFFECT_FAILED, "the task's process did not answer as agreed", {})

    def _death_error(self) -> InterruptedTaskError:
        return self._interrupted_error(Reason.EFFECT_FAILED, "the task's process died", {})

    def _interrupted_error(
        self,
        reason: Reason,
        what: str,
        details: Mapping[str, str],
        kind: type[InterruptedTaskError] = InterruptedTaskError,
    ) -> InterruptedTaskError:
        """Kill the process, read the notes that are still in the socket for `settle`, and return the error."""
        self._kill_and_wait()
        self._drain()
        more = {key: details[key] for key in ("where", "next_step") if details.get(key)}
        used, step = self._meter.last(self._seconds()), self._paces.running
        return kind(reason, what, notes=self._notes, usage=used, step=step, **more)

    def _drain(self) -> None:
        """Store the notes that are left in the socket, up to the first message that breaks the protocol."""
        try:
            while data := os.read(self._child.channel, CHUNK):
                for frame in self._reader.feed(data):
                    message = parse_json(frame, _BOUNDS)
                    if isinstance(message, dict) and isinstance(message.get("note"), dict):
                        self._store_note(message["note"], len(frame))
        except (OSError, FramingError, RefusedError):
            return


def send_with_descriptors(channel: int, frame: bytes, descriptors: Sequence[int]) -> int:
    """Send the order, or as much of it as the socket takes, with its descriptors. Returns the bytes sent."""
    if not descriptors:
        return os.write(channel, frame)
    # A second descriptor, because the socket object closes it and the first one has another owner.
    (end,) = map(_socket.socket, (_socket.AF_UNIX,), (_socket.SOCK_STREAM,), (0,), map(os.dup, (channel,)))
    try:
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", descriptors))
        return end.sendmsg([frame], [rights], _socket.MSG_DONTWAIT)
    finally:
        end.close()
