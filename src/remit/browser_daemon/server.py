"""The host's side of the socket: a thread for each caller, actions that run to their end, and the metrics."""

import contextlib
import logging
import os
import selectors
import socket
import threading
import time
from typing import Any, Final

from remit.browser.inflight import BrowseHooks, CallerLeftError
from remit.browser.service import BrowserActions
from remit.browser_daemon.framing import LENGTH, error_to_frame, receive_exactly, receive_frame, send_frame
from remit.browser_daemon.outbox import Message, Outbox
from remit.browser_daemon.socket_path import peer_user
from remit.contracts.browser.browser import Approval
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, as_remit_error

REQUEST_SECONDS: Final = 10.0
"""How long a caller may take to send its request."""
MAX_REQUEST: Final = 256 << 10
MAX_HEAD: Final = 8_192
MAX_WAITING_CALLERS: Final = 64
"""The callers that may wait for actions at a time."""
MAX_CONNECTIONS: Final = MAX_WAITING_CALLERS + 16
"""A few more, so that the status and the stop of the host work however many callers wait."""
MAX_METRICS_READERS: Final = 8
MAX_DELIVERIES_NOTED: Final = 1_000
POLL_SECONDS: Final = 0.5
_LOG: Final = logging.getLogger("remit.browser_host")


class HostServer:
    """The server. It runs until it is stopped, or until it has received no request for `idle_seconds`."""

    def __init__(self, browsing: BrowserActions, idle_seconds: float) -> None:
        self._browsing = browsing
        self._idle_seconds = idle_seconds
        self._stopping = threading.Event()
        self._action_slots = threading.BoundedSemaphore(MAX_WAITING_CALLERS)
        self._connection_slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        # Separate slots, so that readers of the metrics port cannot block callers of the browser.
        self._metrics_slots = threading.BoundedSemaphore(MAX_METRICS_READERS)
        self._delivered: dict[str, bool] = {}
        """For the last actions, whether a caller received the result. A caller that did not wait has not received
        it.
        """
        self._last_used = time.monotonic()
        self._wake, self._waker = socket.socketpair()

    def stop(self) -> None:
        """Stop the server. May be called from any thread and from a signal handler."""
        self._stopping.set()
        with contextlib.suppress(OSError):
            self._waker.send(b"x")

    def close(self) -> None:
        self._wake.close()
        self._waker.close()

    def serve(self, listeners: list[socket.socket]) -> None:
        with selectors.DefaultSelector() as selector:
            for listener in listeners:
                listener.setblocking(False)
                selector.register(listener, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while not self._stopping.is_set() and not self._is_idle():
                for key, _ in selector.select(POLL_SECONDS):
                    if key.fileobj in listeners and isinstance(key.fileobj, socket.socket):
                        self._accept(key.fileobj)

    def _is_idle(self) -> bool:
        if self._browsing.is_busy:
            self._last_used = time.monotonic()
        return time.monotonic() - self._last_used > self._idle_seconds

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            slots = self._connection_slots if listener.family == socket.AF_UNIX else self._metrics_slots
            if not slots.acquire(blocking=False):
                with connection:
                    if slots is self._connection_slots:
                        send_frame(connection, error_to_frame(_too_many_callers_error()))
                return
            threading.Thread(target=self._serve_caller, args=(connection, slots), daemon=True).start()

    def _serve_caller(self, connection: socket.socket, slots: threading.BoundedSemaphore) -> None:
        try:
            with connection:
                connection.setblocking(True)
                connection.settimeout(REQUEST_SECONDS)
                self._answer(connection)
        except OSError:  # the caller disconnected
            pass
        except Exception:  # noqa: BLE001 - an error of one caller does not end the server
            _LOG.exception("a caller could not be answered")
        finally:
            slots.release()

    def _answer(self, connection: socket.socket) -> None:
        prefix = receive_exactly(connection, LENGTH.size)
        if prefix == b"GET ":
            self._answer_http(connection)
            return
        if connection.family != socket.AF_UNIX or peer_user(connection) != os.geteuid():
            return  # no other user is served; the metrics contain no secrets
        try:
            message = receive_frame(connection, prefix=prefix, max_bytes=MAX_REQUEST) if prefix else None
            if message is not None:
                self._dispatch(connection, message)
        except OSError:
            raise
        except Exception as problem:  # noqa: BLE001 - reported to the caller
            send_frame(connection, error_to_frame(as_remit_error(problem)))

    def _dispatch(self, connection: socket.socket, message: Any) -> None:
        what = message.get("do") if isinstance(message, dict) else None
        if what == "browse":
            if not self._action_slots.acquire(blocking=False):
                raise _too_many_callers_error()
            try:
                self._browse(connection, str(message.get("action", "")).encode(), str(message.get("token", "")))
            finally:
                self._action_slots.release()
        elif what == "status":
            send_frame(connection, {"status": {"pid": os.getpid(), "sessions": self._browsing.sessions}})
        elif what == "stop":
            send_frame(connection, {"stopping": True, "sessions": self._browsing.sessions})
            self.stop()
        else:
            raise RefusedError(Reason.MALFORMED, "the browser host does not know this request")

    def _browse(self, connection: socket.socket, action: bytes, token: str) -> None:
        """Run an action for a caller. Messages are queued, so a caller that does not read cannot delay the action.

        If the caller disconnects, the action goes on, and a caller that asks for it again joins it.
        """
        self._last_used = time.monotonic()
        flags: dict[str, bool] = {"refused": False, "stored": False}
        outbox = Outbox(connection)

        def notify_waiting(approval: Approval) -> None:
            outbox.put({"waiting": _render_waiting(approval)})

        def notify_retry(number: int) -> None:
            outbox.put({"retrying": number})

        hooks = BrowseHooks(
            on_refusal=lambda _: flags.update(refused=True),
            on_stored=lambda: flags.update(stored=True),
            on_waiting=notify_waiting,
            on_answered=notify_waiting,
            on_retry=notify_retry,
            caller_left=outbox.caller_left,
        )

        def run() -> None:
            try:
                result = self._browsing.browse(action, token, hooks)
                ending = {"result": result.tree(), **flags}
                if not outbox.put(ending):
                    self._note_delivered(ending, delivered=False)
            except CallerLeftError:
                pass
            except Exception as problem:  # noqa: BLE001 - reported to the caller
                _log_unexpected(problem)
                outbox.put(error_to_frame(as_remit_error(problem)))
            finally:
                self._last_used = time.monotonic()

        threading.Thread(target=run, daemon=True).start()
        with outbox:
            while not {"waiting", "retrying"}.isdisjoint(message := outbox.next()):
                send_frame(connection, message)
            self._send_result(connection, message)

    def _send_result(self, connection: socket.socket, message: Message) -> None:
        """Send the result of an action. A caller that did not wait receives it later, and then not as a stored
        result.
        """
        if message.get("stored") and self._delivered.get(message["result"]["action_id"]) is False:
            message["stored"] = False
        delivered = False
        try:
            send_frame(connection, message)
            delivered = True
        finally:
            self._note_delivered(message, delivered=delivered)

    def _note_delivered(self, message: Message, *, delivered: bool) -> None:
        if "result" not in message or message["refused"]:
            return
        action_id = message["result"]["action_id"]
        self._delivered[action_id] = delivered or self._delivered.get(action_id, False)
        for oldest in list(self._delivered)[:-MAX_DELIVERIES_NOTED]:
            self._delivered.pop(oldest, None)

    def _answer_http(self, connection: socket.socket) -> None:
        """Answer GET /metrics. Every other request gets 404."""
        head = b""
        deadline = time.monotonic() + REQUEST_SECONDS
        while b"\r\n\r\n" not in head and len(head) < MAX_HEAD:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = connection.recv(MAX_HEAD)
            if not piece:
                return
            head += piece
        path = head.partition(b" ")[0]
        if path != b"/metrics":
            _respond(connection, "404 Not Found", "text/plain", b"this port serves only /metrics\n")
            return
        metrics = self._browsing.metrics
        _respond(connection, "200 OK", metrics.content_type, metrics.render())


def _respond(connection: socket.socket, status: str, kind: str, body: bytes) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)


def _render_waiting(approval: Approval) -> dict[str, str]:
    return {
        "approval_id": approval.approval_id,
        "state": approval.state,
        "expires": approval.expires,
        "what": approval.preview.estimated_effect,
    }


def _too_many_callers_error() -> RefusedError:
    return RefusedError(
        Reason.IN_PROGRESS,
        "too many callers wait for this browser",
        where="the browser host",
        next_step="This call began nothing. Repeat it when other calls have ended.",
    )


def _log_unexpected(problem: Exception) -> None:
    if not isinstance(problem, RemitError):
        _LOG.error("an action ended in an unexpected error", exc_info=problem)


def listen_on(port: int) -> socket.socket:
    """Listen on loopback for the metrics. Raises if another process has the port."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as problem:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            f"the port for the metrics cannot be opened: {problem.strerror}",
            where="browser.metrics_port",
            next_step="Name another port in remit.yaml.",
        ) from None
