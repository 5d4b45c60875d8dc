"""Chromium can reach its listeners and nothing else, and sees nothing of ours."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, UsageError
from tests.browser.chromium.conftest import Running, Stage
from tests.browser.chromium.processes import command_of, family_of, status_of

TEMPORARY = Path("/tmp")  # noqa: S108 - where Playwright leaves its folders, and Chromium's own view has another one
ROOT = Path(__file__).parents[3]


def test_chromium_runs_without_privileges_in_its_own_namespaces_and_with_its_own_sandbox(stage: Stage) -> None:
    stage.show("<p>x</p>")
    pid = stage.chromium.pid
    assert stage.chromium.confined
    for name in ("net", "mnt"):
        assert os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
    status = status_of(pid)
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    if os.geteuid() == 0:
        assert status["Uid"].split() == ["65534"] * 4
        assert status["Groups"] == ""
    renderers = [one for one in family_of(pid) if b"--type=renderer" in command_of(one)]
    assert renderers
    assert {status_of(one)["Seccomp"] for one in renderers} == {"2"}
    assert b"--no-sandbox" not in command_of(pid)


def _open_files(pid: int) -> list[str]:
    """Of a process that may end, or close one, while it is looked at."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
    return found


def test_of_its_descriptors_none_is_the_hosts(running: Running) -> None:
    marked = os.open(running.state.parent, os.O_RDONLY)
    os.set_inheritable(marked, True)
    try:
        seen = {pid: _open_files(pid) for pid in family_of(running.chromium.pid)}
        assert len(seen[running.chromium.pid]) > 3
        for paths in seen.values():
            assert not [path for path in paths if path.startswith(str(running.state.parent))]
    finally:
        os.close(marked)


def test_it_sees_nothing_of_the_state_directory_nor_of_other_peoples_files(running: Running) -> None:
    root = f"/proc/{running.chromium.pid}/root"
    assert os.listdir(running.state) == ["run"]
    for folder in (running.state, Path("/run"), Path("/home"), Path("/root")):
        if os.path.isdir(f"{root}{folder}"):
            assert os.listdir(f"{root}{folder}") == []
    (TEMPORARY / running.state.parent.name).touch()
    try:
        assert not os.path.exists(f"{root}{TEMPORARY}/{running.state.parent.name}")
    finally:
        (TEMPORARY / running.state.parent.name).unlink()


@pytest.fixture
def outside() -> Iterator[tuple[int, list[bytes]]]:
    """A server on the host's own loopback, and what it received."""
    heard: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            heard.append(b"connected")
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1], heard
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_a_page_reaches_the_hosts_loopback_by_no_way(stage: Stage, outside: tuple[int, list[bytes]]) -> None:
    port, heard = outside
    stage.show(
        f"""<p id=p>x</p><script>
        const go = (work) => Promise.race([work, new Promise((done) => setTimeout(done, 700))]).catch(() => 0);
        const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{port}'}},
          {{urls: 'turn:127.0.0.1:{port}?transport=tcp', username: 'a', credential: 'b'}}]}});
        peer.createDataChannel('x');
        peer.createOffer().then((offer) => peer.setLocalDescription(offer));
        const socket = new WebSocket('ws://127.0.0.1:{port}/');
        Promise.all([
          go(fetch('http://127.0.0.1:{port}/', {{mode: 'no-cors'}})),
          go(fetch('http://localhost:{port}/', {{mode: 'no-cors'}})),
          go(fetch('https://127.0.0.1:{port}/', {{mode: 'no-cors'}})),
          go(new Promise((done) => {{ socket.onerror = done }})),
          go(new Promise(() => 0)),
        ]).then(() => {{ document.title = 'tried' }});
        </script>"""
    )
    stage.run(_titled(stage, "tried"))
    asked = {request.url for request in stage.site.asked}
    assert {f"http://127.0.0.1:{port}/", f"http://localhost:{port}/", f"127.0.0.1:{port}"} <= asked
    assert heard == []


async def _titled(stage: Stage, title: str) -> None:
    async with asyncio.timeout(8):
        while stage.session.title != title:
            await stage.session.wait_for_rest(1)
            await stage.session.content_hash()


def test_a_page_reaches_no_listener_of_another_session(running: Running) -> None:
    first, second = Stage(running), Stage(running)
    try:
        port = second.port
        first.show(
            f"""<script>
            const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{port}'}},
              {{urls: 'turn:127.0.0.1:{port}?transport=tcp', username: 'a', credential: 'b'}},
              {{urls: 'turns:127.0.0.1:{port}?transport=tcp', username: 'a', credential: 'b'}}]}});
            peer.createDataChannel('x');
            peer.onicegatheringstatechange = () => {{ if (peer.iceGatheringState === 'complete') go() }};
            peer.createOffer().then((offer) => peer.setLocalDescription(offer));
            const go = () => fetch('http://127.0.0.1:{port}/', {{mode: 'no-cors'}})
              .finally(() => {{ document.title = 'tried' }});
            setTimeout(go, 1500);
            </script>"""
        )
        first.run(_titled(first, "tried"))
        assert f"http://127.0.0.1:{port}/" in {request.url for request in first.site.asked}
        assert second.site.connections == 0
    finally:
        first.close()
        second.close()


def test_what_a_session_still_asked_for_does_not_reach_the_next_one(running: Running) -> None:
    port, listener = running.chromium.acquire_listener()
    listener.close()

    async def ask_and_leave() -> None:
        session = await running.chromium.open_session(port)
        with pytest.raises(EnvironmentFailureError):
            await session.navigate("http://a.test/", 0.5)  # nobody serves it: the connection waits in the queue
        await session.close()

    running.run(ask_and_leave())
    running.chromium.release_listener(port)
    with pytest.raises(BlockingIOError):
        running.chromium._listeners[port].accept()  # noqa: SLF001 - the queue itself
    with pytest.raises(UsageError):
        running.chromium.release_listener(port)


def test_there_are_only_so_many_sessions(running: Running) -> None:
    taken = []
    for _ in range(32):
        port, listener = running.chromium.acquire_listener()
        listener.close()
        taken.append(port)
    with pytest.raises(EnvironmentFailureError) as full:
        running.chromium.acquire_listener()
    assert full.value.reason is Reason.RESOURCE_EXHAUSTED
    for port in taken:
        running.chromium.release_listener(port)


def test_two_sessions_share_nothing(running: Running) -> None:
    first, second = Stage(running), Stage(running)
    try:
        page = (
            "<script>document.title = document.cookie + '|' + (localStorage.x || ''); localStorage.x = 'kept';</script>"
        )
        first.show(page, more="Set-Cookie: a=1\r\n")
        first.show(page)
        assert first.title == "a=1|kept"
        second.show(page)
        assert second.title == "|"
        assert [request.url for request in second.site.asked if "favicon" not in request.url] == ["http://a.test/"]
    finally:
        first.close()
        second.close()
