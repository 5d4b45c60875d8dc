"""Chromium can reach its listeners and nothing else, sees nothing of ours, and leaves nothing behind."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.browser.chromium.process import Chromium
from remit.browser.chromium.program import require_version
from remit.contracts.browser_config import Browser
from remit.errors import EnvironmentFailed, Misuse, Reason
from tests.browser_chromium.conftest import SPKI, Running, Stage, until
from tests.browser_chromium.site import Site

TEMPORARY = Path("/tmp")  # noqa: S108 - where Playwright leaves its folders, and Chromium's own view has another one
ROOT = Path(__file__).parents[2]


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _family(pid: int) -> list[int]:
    """The process and all that came from it."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(_status(int(name))["PPid"])
            except (OSError, KeyError):
                continue
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting.extend(child for child, parent in parents.items() if parent == one)
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _are_gone(pids: list[int]) -> bool:
    return not [pid for pid in pids if b"chrom" in _command(pid)]


def test_it_runs_as_nobody_in_namespaces_of_its_own_with_its_own_sandbox(stage: Stage) -> None:
    stage.show("<p>x</p>")
    pid = stage.chromium.pid
    assert stage.chromium.confined
    for name in ("net", "mnt"):
        assert os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
    status = _status(pid)
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
    if os.geteuid() == 0:
        assert status["Uid"].split() == ["65534"] * 4
        assert status["Groups"] == ""
    renderers = [one for one in _family(pid) if b"--type=renderer" in _command(one)]
    assert renderers
    assert {_status(one)["Seccomp"] for one in renderers} == {"2"}
    assert b"--no-sandbox" not in _command(pid)


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
        seen = {pid: _open_files(pid) for pid in _family(running.chromium.pid)}
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
            await stage.session.settle(1)


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
    port, listener = running.chromium.take_listener()
    listener.close()

    async def ask_and_leave() -> None:
        session = await running.chromium.open_session(port)
        with pytest.raises(EnvironmentFailed):
            await session.navigate("http://a.test/", 0.5)  # nobody serves it: the connection waits in the queue
        await session.close()

    running.run(ask_and_leave())
    running.chromium.give_back(port)
    with pytest.raises(BlockingIOError):
        running.chromium._listeners[port].accept()  # noqa: SLF001 - the queue itself
    with pytest.raises(Misuse):
        running.chromium.give_back(port)


def test_there_are_only_so_many_sessions(running: Running) -> None:
    taken = []
    for _ in range(32):
        port, listener = running.chromium.take_listener()
        listener.close()
        taken.append(port)
    with pytest.raises(EnvironmentFailed) as full:
        running.chromium.take_listener()
    assert full.value.reason is Reason.RESOURCE_EXHAUSTED
    for port in taken:
        running.chromium.give_back(port)


def test_two_sessions_share_nothing(running: Running) -> None:
    first, second = Stage(running), Stage(running)
    try:
        page = (
            "<script>document.title = document.cookie + '|' + (localStorage.x || ''); localStorage.x = 'kept';</script>"
        )
        first.show(page, more="Set-Cookie: a=1\r\n")
        first.show(page)
        assert first.session.title == "a=1|kept"
        second.show(page)
        assert second.session.title == "|"
        assert [request.url for request in second.site.asked if "favicon" not in request.url] == ["http://a.test/"]
    finally:
        first.close()
        second.close()


# --- how it ends -----------------------------------------------------------------------------------------------------


@pytest.fixture
def state() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="remit-chromium-", dir="/var/tmp") as folder:
        yield Path(folder) / "state"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go meanwhile: what is left in there is ours."""
    with tempfile.TemporaryDirectory(prefix="remit-left-", dir=TEMPORARY) as folder:
        Path(folder).chmod(0o711)  # Chromium's user must get to its profile
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


def test_nothing_is_left_after_close(state: Path, temporary: Path) -> None:
    (state / "run").mkdir(parents=True)
    (state / "run" / "door").touch()  # as a host leaves it that was killed while it started

    async def work() -> list[int]:
        chromium = await Chromium.launch(Browser(), run_folder=state / "run", hidden=[state], spki=SPKI)
        family = _family(chromium.pid)
        assert len(family) > 2
        await chromium.close()
        assert chromium.closed.is_set()
        with pytest.raises(EnvironmentFailed):
            await chromium.open_session(1)
        await chromium.close()
        await until(lambda: _are_gone(family))
        return family

    assert asyncio.run(work())
    assert os.listdir(state / "run") == []
    assert os.listdir(temporary) == []


def test_that_it_was_killed_is_noticed_at_once(state: Path) -> None:
    async def work() -> None:
        chromium = await Chromium.launch(Browser(), run_folder=state / "run", hidden=[state], spki=SPKI)
        family = _family(chromium.pid)
        port, listener = chromium.take_listener()
        listener.close()
        session = await chromium.open_session(port)
        os.kill(chromium.pid, signal.SIGKILL)
        await asyncio.wait_for(chromium.closed.wait(), 2)
        with pytest.raises(EnvironmentFailed):
            await session.navigate("http://a.test/", 5)
        await session.close()
        await chromium.close()
        await until(lambda: _are_gone(family))

    asyncio.run(work())


HOST = """
import asyncio, sys
from pathlib import Path
from remit.browser.chromium.process import Chromium
from remit.contracts.browser_config import Browser
async def main():
    state = Path(sys.argv[1])
    chromium = await Chromium.launch(Browser(), run_folder=state / "run", hidden=[state], spki="x")
    print(chromium.pid, flush=True)
    await chromium.closed.wait()
asyncio.run(main())
"""


def test_it_ends_when_its_host_is_killed(state: Path, temporary: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen([sys.executable, "-c", HOST, state], stdout=subprocess.PIPE, env=environ) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        family = _family(pid)
        host.kill()
    asyncio.run(until(lambda: _are_gone(family)))
    asyncio.run(until(lambda: os.listdir(temporary) == []))


AS_NOBODY = """
import asyncio, json, os, sys
from pathlib import Path
from remit.browser.chromium.process import Chromium
from remit.contracts.browser_config import Browser
from remit.errors import RemitError
from tests.browser_chromium.site import Site
async def main(folder, **more):
    state = folder / "state"
    site = Site()
    site.put("a.test/", "<title>hi</title>")
    chromium = await Chromium.launch(Browser(), run_folder=state / "run", hidden=[state], spki="x", **more)
    (state / "key").write_text("secret")
    port, listener = chromium.take_listener()
    await site.serve(listener)
    session = await chromium.open_session(port)
    landed = await session.navigate("http://a.test/", 10)
    process = Path(f"/proc/{chromium.pid}")
    told = {"title": landed.title, "confined": chromium.confined,
        "apart": {name: os.readlink(process / "ns" / name) != os.readlink(f"/proc/self/ns/{name}")
                  for name in ("net", "user", "mnt")},
        "mounts": (process / "mountinfo").read_text(), "status": (process / "status").read_text()}
    await chromium.close()
    return told
async def say(*words, **more):
    try:
        print(json.dumps(await main(*words, **more)))
    except RemitError as problem:
        print(json.dumps({"reason": problem.reason, "problem": str(problem)}))
"""


WITHOUT_NETWORKS = """
import ctypes, os
ctypes.CDLL(None).unshare(0x10000000)
open("/proc/self/uid_map", "w").write(f"65534 65534 1")
open("/proc/sys/user/max_net_namespaces", "w").write("0")
"""
"""Limits of a user namespace are set by whoever made it."""


def _nobody_can_run(interpreter: str) -> bool:
    words = [interpreter, "-I", "-c", ""]
    try:
        done = subprocess.run(
            words, cwd="/", capture_output=True, check=False, user=65534, group=65534, extra_groups=[]
        )
    except OSError:
        return False
    return done.returncode == 0


def _run_as_nobody(folder: Path, how: str, before: str = "") -> dict[str, Any]:
    """In an interpreter that nobody may run: ours may lie in a closed folder."""
    paths = [str(ROOT / "src"), str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths), "HOME": str(folder)}
    interpreter = next(filter(_nobody_can_run, (sys.executable, f"/usr/bin/python3.{sys.version_info[1]}")), None)
    if interpreter is None:
        pytest.skip("no Python of this version that nobody can run")
    program = f"{before}{AS_NOBODY}\nasyncio.run({how})"
    done = subprocess.run(
        [interpreter, "-c", program, folder],
        env=environ,
        cwd="/",
        stdout=subprocess.PIPE,
        check=True,
        user=65534,
        group=65534,
        extra_groups=[],
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    with tempfile.TemporaryDirectory(prefix="remit-chromium-", dir="/var/tmp") as folder:
        os.chown(folder, 65534, 65534)
        yield Path(folder)


def test_an_ordinary_user_has_it_confined_as_well(nobodys_folder: Path) -> None:
    told = _run_as_nobody(nobodys_folder, "say(Path(sys.argv[1]))")
    assert "problem" not in told
    assert (told["title"], told["confined"]) == ("hi", True)
    assert told["apart"] == {"net": True, "user": True, "mnt": True}
    # Its state is hidden with the folder around it.
    assert [line for line in told["mounts"].splitlines() if " /var/tmp " in line and "tmpfs" in line]
    status = dict(line.split(":\t", 1) for line in told["status"].splitlines() if ":\t" in line)
    assert int(status["CapEff"], 16) == 0
    assert status["NoNewPrivs"] == "1"


def test_where_there_can_be_no_namespace_it_is_not_started(nobodys_folder: Path) -> None:
    told = _run_as_nobody(nobodys_folder, "say(Path(sys.argv[1]))", WITHOUT_NETWORKS)
    assert told["reason"] == "sandbox_unavailable"
    assert "could not make a user and a network namespace" in told["problem"]
    assert "sandbox: unsafe-none" in told["problem"]


def test_without_confinement_it_says_so_and_its_folder_is_removed(state: Path, temporary: Path) -> None:
    async def work() -> None:
        chromium = await Chromium.launch(Browser(), run_folder=state, hidden=[state], spki=SPKI, unsafe=True)
        assert not chromium.confined
        assert [name for name in os.listdir(temporary) if name.startswith("remit-browser-")]
        assert os.readlink(f"/proc/{chromium.pid}/ns/net") == os.readlink("/proc/self/ns/net")
        assert b"--no-sandbox" not in _command(chromium.pid)
        port, listener = chromium.take_listener()
        site = Site()
        site.put("a.test/", "<title>hi</title>")
        await site.serve(listener)
        session = await chromium.open_session(port)
        assert (await session.navigate("http://a.test/", 10)).title == "hi"
        await site.close()
        await chromium.close()

    asyncio.run(work())
    assert os.listdir(temporary) == []


# --- what can be wrong with it ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config, search_path, problem",
    [
        (Browser(), "", "there is no Chromium on this machine"),
        (Browser(), "relative/bin", "there is no Chromium on this machine"),
        (Browser(executable="/nonexistent/chromium"), "", "is not a program that can be run"),
        (Browser(executable="/bin/false"), "", "did not start"),
        (Browser(user="no-such-user"), "/usr/bin", "is not a user of this machine"),
        (Browser(user="root"), "/usr/bin", "is root, as whom no browser is run"),
    ],
)
def test_what_is_wrong_is_told(state: Path, config: Browser, search_path: str, problem: str) -> None:
    if config.user is not None and os.geteuid() != 0:
        pytest.skip("an ordinary user does not change whom it runs as")
    launch = Chromium.launch(config, run_folder=state, hidden=[state], spki=SPKI, search_path=search_path)
    with pytest.raises(EnvironmentFailed, match=problem) as failed:
        asyncio.run(launch)
    assert failed.value.next_step


def test_a_chromium_that_is_too_old_is_refused() -> None:
    require_version("150.0.1")
    for version in ("119.9", "", "x"):
        with pytest.raises(EnvironmentFailed, match="too old"):
            require_version(version)


def test_a_chromium_inside_of_what_is_hidden_is_told(state: Path) -> None:
    launch = Chromium.launch(Browser(), run_folder=state, hidden=[Path("/usr")], spki=SPKI)
    with pytest.raises(EnvironmentFailed, match="in which Chromium itself lies") as failed:
        asyncio.run(launch)
    assert failed.value.reason is Reason.SANDBOX_UNAVAILABLE
