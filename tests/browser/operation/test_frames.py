"""What a command and the browser host say to each other: whole, bounded, and only among processes of one user."""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.browser.inflight import BrowseHooks
from remit.browser_daemon.framing import MAX_FRAME, error_from_frame, error_to_frame, receive_frame, send_frame
from remit.browser_daemon.server import HostServer
from remit.browser_daemon.socket_path import DaemonFolder, peer_user, require_same_user
from remit.contracts.browser.browser import ActionResult
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@given(
    document=st.dictionaries(
        texts, st.lists(texts | st.integers(-(2**40), 2**40) | st.booleans(), max_size=5), max_size=5
    )
)
def test_a_document_arrives_as_it_was_sent(document: dict[str, object]) -> None:
    here, there = socket.socketpair()
    with here, there:
        send_frame(here, document)
        assert receive_frame(there) == document


def test_a_clean_end_is_distinguished_from_a_frame_that_was_cut_short(pair: Pair) -> None:
    here, there = pair
    here.sendall(struct.pack(">I", 10) + b"{}")
    here.shutdown(socket.SHUT_WR)
    with pytest.raises(RefusedError):
        receive_frame(there)
    assert receive_frame(there) is None


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff", b"GET ", struct.pack(">I", MAX_FRAME + 1), b"\x00\x00"])
def test_a_frame_that_is_too_long_is_refused_before_it_is_read(pair: Pair, raw: bytes) -> None:
    here, there = pair
    here.sendall(raw)
    here.shutdown(socket.SHUT_WR)
    with pytest.raises(RefusedError):
        receive_frame(there)


@pytest.mark.parametrize("body", [b"nonsense", b'{"a": 1, "a": 2}', b"{" * 200, b"\xff"])
def test_what_is_no_json_is_refused(pair: Pair, body: bytes) -> None:
    here, there = pair
    here.sendall(struct.pack(">I", len(body)) + body)
    with pytest.raises(RefusedError):
        receive_frame(there)


@pytest.mark.parametrize("kind", [RefusedError, UsageError, EnvironmentFailureError])
def test_an_error_keeps_its_kind_and_its_words(kind: type[RemitError]) -> None:
    problem = kind(Reason.TIMED_OUT, "what", where="where", next_step="next")
    again = error_from_frame(error_to_frame(problem)["error"])
    assert type(again) is kind
    assert again.as_json() == problem.as_json()


@pytest.mark.parametrize("told", [None, 1, {}, {"kind": "other"}, {"kind": "refused", "reason": "no such"}])
def test_an_error_that_cannot_be_read_is_one_too(told: object) -> None:
    assert error_from_frame(told).reason is Reason.INTERNAL


def test_the_socket_is_reached_however_long_its_path_is_and_by_its_owner_only(tmp_path: Path) -> None:
    place = DaemonFolder(tmp_path / ("d" * 100) / ("e" * 100) / "host")
    os.makedirs(place.folder.parent.parent)
    place.make()
    assert place.connect() is None
    with place.listen() as listener:
        connected = place.connect()
        assert connected is not None
        with connected:
            accepted, _ = listener.accept()
            with accepted:
                assert peer_user(accepted) == os.geteuid()
    assert (place.folder / "host.sock").stat().st_mode & 0o777 == 0o600
    assert place.folder.stat().st_mode & 0o777 == 0o700
    assert place.connect() is None, "nobody listens there any more"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else for a moment")
def test_a_process_of_another_user_is_refused() -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(b"\0remit-test-%d" % os.getpid())
    listener.listen()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        visitor = socket.socket(socket.AF_UNIX)
        visitor.connect(b"\0remit-test-%d" % os.getppid())
        visitor.recv(1)
        os._exit(0)
    connected, _ = listener.accept()
    with listener, connected, pytest.raises(EnvironmentFailureError) as refused:
        require_same_user(connected)
    os.waitpid(child, 0)
    assert refused.value.reason is Reason.STATE_UNSAFE


def test_there_is_one_host_at_a_time(tmp_path: Path) -> None:
    place = DaemonFolder(tmp_path / "browser" / "host")
    place.make()
    held = place.lock()
    assert held is not None
    assert place.lock() is None
    os.close(held)
    again = place.lock()
    assert again is not None
    os.close(again)


class Ended:
    """Stands for a browser whose action ended, before (`stored`) or just now."""

    def __init__(self) -> None:
        self.stored = False

    def browse(self, action: bytes, _: str, hooks: BrowseHooks) -> ActionResult:
        if self.stored:
            hooks.on_stored()
        self.stored = True
        return ActionResult(action_id=action.decode(), success=True)


def asked(server: HostServer, *, listens: bool) -> bool | None:
    """What is said about whether the result is an earlier one; None if nobody listens."""
    here, there = socket.socketpair()
    with here, there:
        if not listens:
            here.close()
            before = threading.enumerate()
            with pytest.raises(ConnectionError):
                server._browse(there, b"a-1", "token")  # noqa: SLF001 - without a process around it
            for thread in threading.enumerate():
                if thread not in before:
                    thread.join()  # the action goes on by itself
            return None
        server._browse(there, b"a-1", "token")  # noqa: SLF001
        stored: bool = receive_frame(here)["stored"]
        return stored


def test_a_result_that_no_caller_has_received_yet_is_not_called_an_earlier_one() -> None:
    browsing: Any = Ended()
    with contextlib.closing(HostServer(browsing, 60)) as server:
        assert [asked(server, listens=each) for each in (False, False, True, True)] == [None, None, False, True]
