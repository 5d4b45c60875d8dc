"""How Chromium starts and ends, for whom, and that it leaves nothing behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.browser.chromium.executable import require_version
from remit.browser.chromium.process import Chromium
from remit.contracts.config.browser import Browser
from remit.core.errors import EnvironmentFailureError, Reason
from tests.browser.chromium.conftest import SPKI, until
from tests.browser.chromium.processes import are_gone, command_of, family_of
from tests.browser.chromium.site import Site

TEMPORARY = Path("/tmp")  # noqa: S108 - where Playwright leaves its folders, and Chromium's own view has another one
ROOT = Path(__file__).parents[3]


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
        family = family_of(chromium.pid)
        assert len(family) > 2
        await chromium.close()
        assert chromium.closed.is_set()
        with pytest.raises(EnvironmentFailureError):
            await chromium.open_session(1)
        await chromium.close()
        await until(lambda: are_gone(family))
        return family

    assert asyncio.run(work())
    assert os.listdir(state / "run") == []
    assert os.listdir(temporary) == []


def test_that_it_was_killed_is_noticed_at_once(state: Path) -> None:
    async def work() -> None:
        chromium = await Chromium.launch(Browser(), run_folder=state / "run", hidden=[state], spki=SPKI)
        family = family_of(chromium.pid)
        port, listener = chromium.acquire_listener()
        listener.close()
        session = await chromium.open_session(port)
        os.kill(chromium.pid, signal.SIGKILL)
        await asyncio.wait_for(chromium.closed.wait(), 2)
        with pytest.raises(EnvironmentFailureError):
            await session.navigate("http://a.test/", 5)
        await session.close()
        await chromium.close()
        await until(lambda: are_gone(family))

    asyncio.run(work())


HOST = """
import asyncio, sys
from pathlib import Path
from remit.browser.chromium.process import Chromium
from remit.contracts.config.browser import Browser
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
        family = family_of(pid)
        host.kill()
    asyncio.run(until(lambda: are_gone(family)))
    asyncio.run(until(lambda: os.listdir(temporary) == []))


AS_NOBODY = """
import asyncio, json, os, sys
from pathlib import Path
from remit.browser.chromium.process import Chromium
from remit.contracts.config.browser import Browser
from remit.core.errors import RemitError
from tests.browser.chromium.site import Site
async def main(folder, **more):
    state = folder / "state"
    site = Site()
    site.put("a.test/", "<title>hi</title>")
    chromium = await Chromium.launch(Browser(), run_folder=state / "run", hidden=[state], spki="x", **more)
    (state / "key").write_text("secret")
    port, listener = chromium.acquire_listener()
    await site.serve(listener)
    session = await chromium.open_session(port)
    await session.navigate("http://a.test/", 10)
    await session.content_hash()
    process = Path(f"/proc/{chromium.pid}")
    told = {"title": session.title, "confined": chromium.confined,
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
        assert b"--no-sandbox" not in command_of(chromium.pid)
        port, listener = chromium.acquire_listener()
        site = Site()
        site.put("a.test/", "<title>hi</title>")
        await site.serve(listener)
        session = await chromium.open_session(port)
        assert (await session.navigate("http://a.test/", 10)).status == 200
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
        (Browser(user="root"), "/usr/bin", "is root, and a browser must not run as root"),
    ],
)
def test_a_launch_problem_is_reported_with_a_next_step(
    state: Path, config: Browser, search_path: str, problem: str
) -> None:
    if config.user is not None and os.geteuid() != 0:
        pytest.skip("an ordinary user does not change whom it runs as")
    launch = Chromium.launch(config, run_folder=state, hidden=[state], spki=SPKI, search_path=search_path)
    with pytest.raises(EnvironmentFailureError, match=problem) as failed:
        asyncio.run(launch)
    assert failed.value.next_step


def test_a_chromium_that_is_too_old_is_refused() -> None:
    require_version("150.0.1")
    for version in ("119.9", "", "x"):
        with pytest.raises(EnvironmentFailureError, match="too old"):
            require_version(version)


def test_a_chromium_that_is_installed_in_a_hidden_folder_is_reported(state: Path) -> None:
    launch = Chromium.launch(Browser(), run_folder=state, hidden=[Path("/usr")], spki=SPKI)
    with pytest.raises(EnvironmentFailureError, match="in which Chromium itself is installed") as failed:
        asyncio.run(launch)
    assert failed.value.reason is Reason.SANDBOX_UNAVAILABLE
