"""The host's side of the socket: each caller in a thread, actions run to their end, metrics for whoever asks."""

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
from remit.browser_daemon.outbox import Saying, Sayings
from remit.browser_daemon.socket_path import peer_user
from remit.contracts.browser.browser import Approval
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, as_remit_error

REQUEST_SECONDS: Final = 10.0
"""How long a caller may take to say what he wants."""
MAX_REQUEST: Final = 256 << 10
MAX_HEAD: Final = 8_192
MOST_CALLERS: Final = 64
"""Who wait for actions."""
MOST_TALKS: Final = MOST_CALLERS + 16
"""So that there is room to ask how things stand, or to have it all end, however many wait."""
MOST_READERS: Final = 8
MOST_KNOWN: Final = 1_000
LOOK_SECONDS: Final = 0.5
_LOG: Final = logging.getLogger("remit.browser_host")


class HostServer:
    """Serves until it is stopped, or nothing was asked of it for `idle_seconds`."""

    def __init__(self, browsing: BrowserActions, idle_seconds: float) -> None:
        self._browsing = browsing
        self._idle_seconds = idle_seconds
        self._stopping = threading.Event()
        self._callers = threading.BoundedSemaphore(MOST_CALLERS)
        self._talks = threading.BoundedSemaphore(MOST_TALKS)
        # Of their own: whoever can reach the port for the metrics must not keep others from the browser.
        self._readers = threading.BoundedSemaphore(MOST_READERS)
        self._heard: dict[str, bool] = {}
        """Of the last actions: whether anybody heard the result. Whoever did not wait was not told it."""
        self._last = time.monotonic()
        self._wake, self._waker = socket.socketpair()

    def stop(self) -> None:
        """From any thread, and from a signal handler."""
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
                for key, _ in selector.select(LOOK_SECONDS):
                    if key.fileobj in listeners and isinstance(key.fileobj, socket.socket):
                        self._accept(key.fileobj)

    def _is_idle(self) -> bool:
        if self._browsing.is_busy:
            self._last = time.monotonic()
        return time.monotonic() - self._last > self._idle_seconds

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            places = self._talks if listener.family == socket.AF_UNIX else self._readers
            if not places.acquire(blocking=False):
                with connection:
                    if places is self._talks:
                        send_frame(connection, error_to_frame(_too_many()))
                return
            threading.Thread(target=self._talk, args=(connection, places), daemon=True).start()

    def _talk(self, connection: socket.socket, places: threading.BoundedSemaphore) -> None:
        try:
            with connection:
                connection.setblocking(True)
                connection.settimeout(REQUEST_SECONDS)
                self._answer(connection)
        except OSError:  # the caller went away
            pass
        except Exception:  # noqa: BLE001 - one caller is no reason to end
            _LOG.exception("a caller could not be answered")
        finally:
            places.release()

    def _answer(self, connection: socket.socket) -> None:
        begun = receive_exactly(connection, LENGTH.size)
        if begun == b"GET ":
            self._answer_http(connection)
            return
        if connection.family != socket.AF_UNIX or peer_user(connection) != os.geteuid():
            return  # nobody else is spoken to; the metrics hold nothing
        try:
            told = receive_frame(connection, begun=begun, max_bytes=MAX_REQUEST) if begun else None
            if told is not None:
                self._do(connection, told)
        except OSError:
            raise
        except Exception as problem:  # noqa: BLE001 - said to whoever asked
            send_frame(connection, error_to_frame(as_remit_error(problem)))

    def _do(self, connection: socket.socket, told: Any) -> None:
        what = told.get("do") if isinstance(told, dict) else None
        if what == "browse":
            if not self._callers.acquire(blocking=False):
                raise _too_many()
            try:
                self._browse(connection, str(told.get("action", "")).encode(), str(told.get("token", "")))
            finally:
                self._callers.release()
        elif what == "status":
            send_frame(connection, {"status": {"pid": os.getpid(), "sessions": self._browsing.sessions}})
        elif what == "stop":
            send_frame(connection, {"stopping": True, "sessions": self._browsing.sessions})
            self.stop()
        else:
            raise RefusedError(Reason.MALFORMED, "the browser host was asked for something it does not know")

    def _browse(self, connection: socket.socket, action: bytes, token: str) -> None:
        """What is to be said is queued: a caller who does not listen must not keep the action waiting.

        One who hangs up is forgotten at once; the action goes on, and whoever asks for it again joins it.
        """
        self._last = time.monotonic()
        said: dict[str, bool] = {"refused": False, "stored": False}
        sayings = Sayings(connection)

        def tell(approval: Approval) -> None:
            sayings.put({"waiting": _waiting(approval)})

        def tell_retry(number: int) -> None:
            sayings.put({"retrying": number})

        hooks = BrowseHooks(
            on_refusal=lambda _: said.update(refused=True),
            on_stored=lambda: said.update(stored=True),
            on_waiting=tell,
            on_answered=tell,
            on_retry=tell_retry,
            caller_left=sayings.left,
        )

        def run() -> None:
            try:
                result = self._browsing.browse(action, token, hooks)
                ending = {"result": result.tree(), **said}
                if not sayings.put(ending):
                    self._note_heard(ending, heard=False)
            except CallerLeftError:
                pass
            except Exception as problem:  # noqa: BLE001 - said to whoever asked
                _log(problem)
                sayings.put(error_to_frame(as_remit_error(problem)))
            finally:
                self._last = time.monotonic()

        threading.Thread(target=run, daemon=True).start()
        with sayings:
            while not {"waiting", "retrying"}.isdisjoint(saying := sayings.next()):
                send_frame(connection, saying)
            self._hand_out(connection, saying)

    def _hand_out(self, connection: socket.socket, saying: Saying) -> None:
        """The end of an action. Whoever did not wait for it is told later, and then for the first time."""
        if saying.get("stored") and self._heard.get(saying["result"]["action_id"]) is False:
            saying["stored"] = False
        heard = False
        try:
            send_frame(connection, saying)
            heard = True
        finally:
            self._note_heard(saying, heard=heard)

    def _note_heard(self, saying: Saying, *, heard: bool) -> None:
        if "result" not in saying or saying["refused"]:
            return
        action_id = saying["result"]["action_id"]
        self._heard[action_id] = heard or self._heard.get(action_id, False)
        for oldest in list(self._heard)[:-MOST_KNOWN]:
            self._heard.pop(oldest, None)

    def _answer_http(self, connection: socket.socket) -> None:
        """GET /metrics, and nothing else."""
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
            _respond(connection, "404 Not Found", "text/plain", b"only /metrics is here\n")
            return
        metrics = self._browsing.metrics
        _respond(connection, "200 OK", metrics.content_type, metrics.render())


def _respond(connection: socket.socket, status: str, kind: str, body: bytes) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + body)


def _waiting(approval: Approval) -> dict[str, str]:
    return {
        "approval_id": approval.approval_id,
        "state": approval.state,
        "expires": approval.expires,
        "what": approval.preview.estimated_effect,
    }


def _too_many() -> RefusedError:
    return RefusedError(
        Reason.IN_PROGRESS,
        "too many callers at once wait for this browser",
        where="the browser host",
        next_step="This call began nothing. Make it again when others have ended.",
    )


def _log(problem: Exception) -> None:
    if not isinstance(problem, RemitError):
        _LOG.error("an action ended in an unexpected error", exc_info=problem)


def listen_on(port: int) -> socket.socket:
    """On loopback, for the metrics. Refuses a port that somebody else has."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as problem:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            f"the port for the metrics cannot be had: {problem.strerror}",
            where="browser.metrics_port",
            next_step="Name another one in remit.yaml.",
        ) from None
