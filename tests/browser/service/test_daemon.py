"""The browser in the background: sessions last from one command to the next, and a held request waits there."""

import json
import os
import select
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from remit.browser_daemon import client
from remit.browser_daemon.client import HostClient
from remit.browser_daemon.socket_path import DaemonFolder
from remit.core.errors import RemitError
from tests.browser.service.browser_workspace import Place, made_place
from tests.support import preloaded

pytestmark = pytest.mark.req("VX-05", "VX-09", "VX-13")

FORM = '<form method="post" action="/act"><input name="item" value="42"><button id="go">Pay now</button></form>'


class Shell:
    """Commands in a workspace, as somebody at a terminal gives them."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place = place
        self.folder = folder
        (folder / "token").write_text(place.token + "\n")

    def __call__(self, *arguments: str, given: bytes = b"", **variables: str) -> tuple[int, str]:
        ended = subprocess.run(
            [preloaded.remit(), *arguments],
            cwd=self.place.workspace.root,
            env={**os.environ, **self.place.workspace.environ, **variables},
            input=given,
            capture_output=True,
            check=False,
            timeout=60,
        )
        return ended.returncode, ended.stdout.decode() + ended.stderr.decode()

    def browse(self, action: bytes, *more: str) -> tuple[int, Any]:
        code, told = self("browse", "-", "--token", str(self.folder / "token"), "--json", *more, given=action)
        return code, json.loads(told[told.index("{") : told.rindex("}") + 1])

    @property
    def client(self) -> HostClient:
        workspace = self.place.workspace
        return HostClient(workspace.root, DaemonFolder.of(workspace.state), {**os.environ, **workspace.environ})


@pytest.fixture
def shared() -> None:
    """This module has no browser in its own process."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with made_place(tmp_path, idle_seconds=60, metrics_port=free_port()) as place:
        place.site.routes |= {"/": FORM, "/act": "<title>Thanks</title>"}
        shell = Shell(place, tmp_path)
        try:
            yield shell
        finally:
            shell.client.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def test_navigate_and_click_from_the_shell_and_a_person_in_between(shell: Shell) -> None:
    site, place = shell.place.site, shell.place
    code, told = shell.browse(place.action("navigate"))
    assert (code, told.get("success")) == (0, True), told
    picture, screenshot = shell.folder / "page.png", place.action("screenshot")
    for _ in range(2):  # the same command may find its own file
        code, told = shell.browse(screenshot, "-o", str(picture))
        assert (code, sha256(picture.read_bytes()).hexdigest()) == (0, told["output"]["screenshot"]["sha256"])
    click = place.action("click", selector="#go")
    code, told = shell.browse(click)
    assert code == 3, told
    approval = told["waiting"]["approval_id"]
    code, again = shell.browse(click)
    assert (code, again["waiting"]["approval_id"]) == (3, approval), "the same action joins what is at work"
    assert site.posts() == []
    code, said = shell("approvals", "approve", approval, REMIT_TOKEN=place.token)
    assert code == 2, said
    assert "an agent cannot" in said
    assert site.posts() == []
    digest = place.workspace.approvals.show(approval).request_digest
    assert shell("approvals", "approve", approval, "--digest", digest)[0] == 0
    code, told = shell.browse(click, "--wait")
    assert (code, told["output"]["title"]) == (0, "Thanks")
    assert [seen.body for seen in site.posts()] == [b"item=42"]
    metrics = read_metrics(place)
    assert 'abos_executor_requests_total{action="navigate",status="success"} 1.0' in metrics
    assert "abos_executor_approvals_pending 0.0" in metrics
    log = DaemonFolder.of(place.workspace.state).log.read_text()
    assert place.token not in log
    assert (shell.client.status() or {})["sessions"] == 1


def read_metrics(place: Place) -> str:
    port = place.workspace.config.browser.metrics_port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text: str = answer.read().decode()
    return text


def test_two_commands_at_once_start_one_host(shell: Shell) -> None:
    command = [preloaded.python(), "-m", "remit", "browse", "-", "--token", str(shell.folder / "token"), "--json"]
    place = shell.place
    environ = {**os.environ, **place.workspace.environ}
    started = [
        subprocess.Popen(command, cwd=place.workspace.root, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for number, process in enumerate(started):
        assert process.stdin is not None
        process.stdin.write(place.action("navigate", session=f"s{number}"))
        process.stdin.close()
    for process in started:
        with process:
            assert process.stdout is not None
            told = process.stdout.read()
            assert json.loads(told).get("success"), told
    assert (shell.client.status() or {})["sessions"] == 3


def test_a_host_that_was_killed_makes_what_it_held_void_and_the_next_one_says_so(shell: Shell) -> None:
    place = shell.place
    shell.browse(place.action("navigate"))
    click = place.action("click", selector="#go")
    code, told = shell.browse(click)
    assert code == 3, told
    approval = told["waiting"]["approval_id"]
    pid = (shell.client.status() or {})["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)
    digest = place.workspace.approvals.show(approval).request_digest
    assert shell("approvals", "approve", approval, "--digest", digest)[0] == 2, "nobody can send it any more"
    code, said = shell("recover", "--json")
    settled = json.loads(said)
    assert (code, [(each["kind"], each["state"]) for each in settled]) == (0, [("browser", "not sent")])
    code, told = shell.browse(click)
    assert (code, told["error"]["code"]) == (2, "KERNEL_ERROR"), "and its reason says: not sent"
    assert place.site.posts() == []
    assert place.workspace.approvals.show(approval).state == "VOID"


def wait_for_end(pid: int) -> None:
    try:
        ended = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert select.select([ended], [], [], 10)[0]
    os.close(ended)


def test_a_host_that_is_asked_to_end_voids_what_waits(shell: Shell) -> None:
    place = shell.place
    shell.browse(place.action("navigate"))
    code, told = shell.browse(place.action("click", selector="#go"))
    assert code == 3, told
    pid = (shell.client.status() or {})["pid"]
    ended = (0, "The browser was stopped, with 1 session; 1 approval request closed without a decision.\n")
    assert shell("browse", "--stop") == ended
    assert not Path(f"/proc/{pid}/exe").exists(), "its process is gone"
    assert place.workspace.approvals.show(told["waiting"]["approval_id"]).state == "VOID"
    assert place.site.posts() == []
    assert place.workspace.recover() == []
    assert shell.client.status() is None
    assert "No browser was running" in shell("browse", "--stop")[1]


def test_what_cannot_be_read_is_refused_without_a_host(shell: Shell) -> None:
    code, told = shell("browse", "-", "--token", str(shell.folder / "token"), given=b'{"action_id": "a"}')
    assert code == 2, told
    assert shell("browse")[0] == 2
    code, told = shell("browse", "-", given=shell.place.action("navigate"))
    assert code == 2
    assert "no capability token" in told
    assert shell.client.status() is None


def test_hosts_that_ended_are_buried_when_the_next_one_is_started(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever serves outlives many of them."""
    ended, lasting = (subprocess.Popen(["sleep", seconds]) for seconds in ("0", "60"))
    monkeypatch.setattr(client, "_started", {ended.pid, lasting.pid})
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    nowhere = HostClient(shell.folder / "nowhere", DaemonFolder.of(shell.place.workspace.state), os.environ)
    with pytest.raises(RemitError):
        nowhere.browse(b"{}", "")
    assert not Path(f"/proc/{ended.pid}").exists()
    assert ended.pid not in client._started  # noqa: SLF001 - nobody else needs to know them
    assert lasting.pid in client._started  # noqa: SLF001
    with lasting:
        lasting.kill()
    ended.returncode = 0


def test_a_host_that_no_caller_uses_ends(tmp_path: Path) -> None:
    with made_place(tmp_path, idle_seconds=1) as place:
        place.site.routes["/"] = FORM
        shell = Shell(place, tmp_path)
        assert shell.browse(place.action("navigate"))[0] == 0
        status = shell.client.status()
        if status is not None:
            wait_for_end(status["pid"])
        assert shell.client.status() is None
