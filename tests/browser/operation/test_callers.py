"""Many callers of one browser host: who hangs up makes room at once, and nobody is kept from ending it all."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from remit.browser.inflight import BrowseHooks, InflightAction
from remit.browser_daemon.client import HostClient
from remit.browser_daemon.framing import receive_frame, send_frame
from remit.browser_daemon.outbox import Outbox
from remit.browser_daemon.server import MAX_CONNECTIONS, MAX_WAITING_CALLERS, HostServer
from remit.browser_daemon.socket_path import DaemonFolder
from remit.contracts.browser.browser import ActionResult, Approval
from remit.core.errors import Reason, RefusedError
from tests.contracts.operation_examples import BROWSER

pytestmark = pytest.mark.req("VX-09")

QUESTION = Approval.from_tree(BROWSER["approval"])


@dataclass
class OneAction:
    """Stands for a browser with one action at work, which waits for a person. Whoever comes joins it."""

    flight: InflightAction = field(default_factory=InflightAction)
    is_busy = True
    sessions = 1

    def browse(self, _action: bytes, _token: str, hooks: BrowseHooks) -> ActionResult:
        self.flight.join(hooks, lambda _: QUESTION)
        hooks.on_waiting(QUESTION)
        return self.flight.wait(hooks)


@dataclass
class Host:
    place: DaemonFolder
    client: HostClient
    action: OneAction

    def call(self) -> socket.socket:
        """A caller who was told that a person is waited for."""
        connection = self.connect()
        send_frame(connection, {"do": "browse", "action": json.dumps("an action"), "token": "token"})
        assert "waiting" in receive_frame(connection)
        return connection

    def connect(self) -> socket.socket:
        connection = self.place.connect()
        assert connection is not None
        connection.settimeout(10)
        return connection


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    place = DaemonFolder(tmp_path / "browser" / "host")
    place.make()
    browsing: Any = OneAction()
    with contextlib.closing(HostServer(browsing, 60)) as server, place.listen() as listener:
        serving = threading.Thread(target=server.serve, args=([listener],))
        serving.start()
        try:
            yield Host(place, HostClient(tmp_path, place, {}), browsing)
        finally:
            server.stop()
            serving.join()
            browsing.flight.result.set_result(ActionResult(action_id="a-1", success=True))


def wait_until_left(host: Host) -> None:
    """Until nothing of those who hung up is left: no thread of theirs, no hook."""
    for thread in threading.enumerate():
        if thread.daemon and thread.name.endswith(("(run)", "(_serve_caller)")):
            thread.join(10)
    assert host.action.flight.hooks == []


def test_who_does_not_wait_makes_room_for_others_though_the_question_stays_open(host: Host) -> None:
    for _ in range(3):
        for _ in range(MAX_WAITING_CALLERS // 2):
            host.call().close()
        wait_until_left(host)
    with host.call():
        assert len(host.action.flight.hooks) == 1


def test_one_caller_too_many_is_refused_and_the_host_still_answers_status_and_stop(host: Host) -> None:
    with contextlib.ExitStack() as waiting:
        for _ in range(MAX_WAITING_CALLERS):
            waiting.enter_context(host.call())
        with pytest.raises(RefusedError, match="too many callers") as refused:
            host.client.browse(b"{}", "token")
        assert (refused.value.reason, bool(refused.value.next_step)) == (Reason.IN_PROGRESS, True)
        assert (host.client.status() or {})["sessions"] == 1
        with host.connect() as stopping:
            send_frame(stopping, {"do": "stop"})
            assert receive_frame(stopping)["sessions"] == 1


def test_a_caller_without_a_free_connection_is_refused_too(host: Host) -> None:
    with contextlib.ExitStack() as silent:
        for _ in range(MAX_CONNECTIONS):
            silent.enter_context(host.connect())
        for ask in (lambda: host.client.browse(b"x" * 200_000, "token"), host.client.status, host.client.stop):
            with pytest.raises(RefusedError, match="too many callers"):
                ask()


def test_messages_are_sent_in_order_and_none_to_a_caller_who_left() -> None:
    here, there = socket.socketpair()
    with here, there, Outbox(there) as sayings:
        assert all(sayings.put({"number": number}) for number in range(3))
        assert [sayings.next()["number"] for _ in range(2)] == [0, 1]
        here.close()
        assert sayings.next() == {"number": 2}
        with pytest.raises(ConnectionResetError):
            sayings.next()
        assert sayings.caller_left.done()
        assert not sayings.put({"number": 4})
