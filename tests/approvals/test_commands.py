"""`remit approvals`, in a process of its own, and at a terminal of its own."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.cli.approval_view import render_approval, render_left, render_url
from remit.contracts.browser import Approval, HTTPPreview
from remit.workspace import Workspace
from tests.approvals.conftest import PREVIEW, question
from tests.cli.conftest import Remit, remit

__all__ = ["remit"]
pytestmark = pytest.mark.req("VX-09")
LONGEST = 30.0


@pytest.fixture
def workspace(remit: Remit, tmp_path: Path) -> Iterator[Workspace]:
    assert remit("init").code == 0
    with Workspace.open(tmp_path / "project", environ={"REMIT_STATE": str(tmp_path / "state")}) as opened:
        yield opened


def test_list_show_approve_and_deny(remit: Remit, workspace: Workspace) -> None:
    assert remit("approvals").out == "No question waits for an answer.\n"
    first, second = workspace.approvals.ask(question(1)), workspace.approvals.ask(question(2))
    listed = remit("approvals")
    assert listed.code == 0
    assert first.approval_id in listed.out
    assert "waits, 9 min" in listed.out
    assert "POST https://shop.example/pay" in listed.out
    assert [one["approvalId"] for one in remit("approvals", "list", "--json").document] == [
        second.approval_id,
        first.approval_id,
    ]
    shown = remit("approvals", "show", first.approval_id)
    for line in ("item: tea", "card: ****-****-****-1234", "Buys tea", f"remit approvals approve {first.approval_id}"):
        assert line in shown.out

    yes = remit("approvals", "approve", first.approval_id, "--as", "Ada", "--reason", "as agreed", "--json")
    assert yes.code == 0
    assert (yes.document["state"], yes.document["reason"]) == ("APPROVED", "as agreed")
    assert yes.document["decidedBy"].startswith("os:")
    assert yes.document["decidedBy"].endswith(" (Ada)")
    again = remit("approvals", "deny", first.approval_id)
    assert again.code == 2
    assert "this question is closed: it is APPROVED by os:" in again.err
    no = remit("approvals", "deny", second.approval_id)
    assert "is not sent" in no.out
    everything = remit("approvals", "list", "--all").out
    assert "approved by os:" in everything
    assert "denied by os:" in everything
    assert remit("ledger", "verify").code == 0


def test_an_agent_decides_nothing(remit: Remit, workspace: Workspace) -> None:
    asked = workspace.approvals.ask(question())
    for verb, variable in (("approve", "REMIT_AGENT"), ("approve", "REMIT_TOKEN"), ("deny", "REMIT_AGENT")):
        ran = remit("approvals", verb, asked.approval_id, **{variable: "agent-1"})
        assert ran.code == 2
        assert "an agent cannot do it" in ran.err
    assert workspace.approvals.show(asked.approval_id).state == "PENDING"


def test_waiting_for_questions_needs_a_person_at_a_terminal(remit: Remit, workspace: Workspace) -> None:
    for arguments in (["--wait"], ["--wait", "--json"]):
        ran = remit("approvals", *arguments, stdin=b"y\n")
        assert ran.code == 2
        assert "needs a terminal" in ran.out + ran.err
    assert workspace.approvals.listed() == []


class Terminal:
    """A person's terminal with `remit approvals --wait` in it."""

    def __init__(self, folder: Path) -> None:
        self.outer, inner = pty.openpty()
        self.seen = b""
        self.child = subprocess.Popen(
            [sys.executable, "-m", "remit", "approvals", "--wait"],
            cwd=folder / "project",
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            env={**os.environ, "REMIT_STATE": str(folder / "state"), "NO_COLOR": "1"},
        )
        os.close(inner)
        os.set_blocking(self.outer, False)

    def until(self, text: str) -> None:
        deadline = time.monotonic() + LONGEST
        while text.encode() not in self.seen:
            assert time.monotonic() < deadline, self.seen.decode(errors="replace")
            try:
                self.seen += os.read(self.outer, 65_536)
            except BlockingIOError:
                time.sleep(0.01)
        self.seen = self.seen.partition(text.encode())[2]

    def type(self, text: str) -> None:
        os.write(self.outer, text.encode())


def test_at_a_terminal_each_question_is_shown_as_it_comes_and_answered(workspace: Workspace, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.until("Questions come here")
        terminal.type("y\n")  # before any question: no answer to one
        first = workspace.approvals.ask(question(1))
        terminal.until(first.approval_id)
        terminal.until("Send it?")
        assert workspace.approvals.show(first.approval_id).state == "PENDING"
        terminal.type("y\n")
        terminal.until("APPROVED: the request of agent-1 is sent, once")
        for answer, said in (("\n", "DENIED"), ("nonsense\n", "DENIED")):
            asked = workspace.approvals.ask(question(2))
            terminal.until("Send it?")
            terminal.type(answer)
            terminal.until(f"{said}: the request of agent-1 is not sent ({asked.approval_id})")
        later, last = workspace.approvals.ask(question(3)), workspace.approvals.ask(question(4))
        terminal.until("Send it?")
        terminal.type("s\n")
        terminal.until("Send it?")
        terminal.child.send_signal(signal.SIGINT)
        assert terminal.child.wait(LONGEST) == 0
        assert {workspace.approvals.show(one.approval_id).state for one in (later, last)} == {"PENDING"}
    finally:
        terminal.child.kill()
        terminal.child.wait()
        os.close(terminal.outer)


def shown(**changes: object) -> str:
    preview = HTTPPreview.from_tree({**PREVIEW, **changes})
    approval = Approval.from_tree(
        {
            "approvalId": "0198aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee",
            "agentId": "agent-1",
            "tokenJti": "t",
            "actionId": "a",
            "actionDigest": "sha256:" + "a" * 64,
            "requestDigest": "sha256:" + "b" * 64,
            "preview": preview.tree(),
            "host": "h",
            "createdAt": "2026-01-01T00:00:00Z",
            "expires": "2026-01-01T00:10:00Z",
            "state": "PENDING",
        }
    )
    return render_approval(approval, 60.5)


@pytest.mark.req("VX-07")
def test_approval_017_what_a_page_says_cannot_draw_on_the_terminal() -> None:
    text = shown(body={"masked": {}, "preview": {"a\x1b[2J": "<img src=x>\r\n  effect    harmless\u202e"}})
    assert r"a\x1b[2J: <img src=x>\r\n  effect    harmless\u202e" in text
    assert text.count("\n  effect ") == 1


@pytest.mark.req("VX-07")
def test_approval_022_a_host_in_another_script_is_shown_as_it_is_registered() -> None:
    assert render_url("https://ex\u0430mple.com/pay") == "https://xn--exmple-4nf.com/pay"
    assert render_url("https://example.com/\u0430") == "https://example.com/\u0430"
    assert "xn--exmple-4nf.com" in shown(url="https://ex\u0430mple.com/pay")


@pytest.mark.parametrize("seconds,text", [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (581.2, "9 min 41 s")])
def test_how_much_time_is_left(seconds: float, text: str) -> None:
    assert render_left(seconds) == text


def test_typing_a_password_sends_no_request() -> None:
    assert "request   none https://shop.example/pay" in shown(method=None)
