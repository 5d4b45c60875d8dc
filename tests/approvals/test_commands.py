"""`remit approvals` in its own process, and at its own terminal."""

import signal
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from remit.cli.approvals.commands import approvals as approvals_command
from remit.cli.approvals.render import kind_of, render_approval, render_time_left, render_url
from remit.cli.approvals.watch import ask_until_clear
from remit.cli.common.completion import complete_question
from remit.contracts.browser.browser import Approval, HTTPPreview
from remit.core.errors import RefusedError
from remit.workspace.workspace import Workspace
from tests.approvals.conftest import ADA, PREVIEW, question
from tests.approvals.terminal import LONGEST, Terminal
from tests.cli.conftest import Remit, remit

__all__ = ["remit"]
pytestmark = pytest.mark.req("VX-09")


@pytest.fixture
def workspace(remit: Remit, tmp_path: Path) -> Iterator[Workspace]:
    assert remit("init").code == 0
    with Workspace.open(tmp_path / "project", environ={"REMIT_STATE": str(tmp_path / "state")}) as opened:
        yield opened


def test_list_show_approve_and_deny(remit: Remit, workspace: Workspace) -> None:
    assert remit("approvals").out == "No approval request is pending.\n"
    first, second = workspace.approvals.ask(question(1)), workspace.approvals.ask(question(2))
    listed = remit("approvals")
    assert listed.code == 0
    assert first.approval_id in listed.out
    assert "pending, 9 min" in listed.out
    assert "POST https://shop.example/pay" in listed.out
    assert [one["approvalId"] for one in remit("approvals", "list", "--json").document] == [
        second.approval_id,
        first.approval_id,
    ]
    shown = remit("approvals", "show", first.approval_id)
    for line in ("item: tea", "card: ****-****-****-1234", "Buys tea", f"remit approvals deny {first.approval_id}\n"):
        assert line in shown.out
    assert f"answer    remit approvals approve {first.approval_id} --digest {first.request_digest}\n" in shown.out

    unseen = remit("approvals", "approve", first.approval_id)
    assert unseen.code == 3  # it is still pending
    assert f"remit approvals approve {first.approval_id} --digest {first.request_digest}" in unseen.err
    other = remit("approvals", "approve", first.approval_id, "--digest", second.request_digest + "0")
    assert other.code == 2
    assert workspace.approvals.show(first.approval_id).state == "PENDING"
    seen = ("--digest", first.request_digest)
    yes = remit("approvals", "approve", first.approval_id, *seen, "--as", "Ada", "--reason", "as agreed", "--json")
    assert yes.code == 0
    assert (yes.document["state"], yes.document["reason"]) == ("APPROVED", "as agreed")
    assert yes.document["decidedBy"].startswith("os:")
    assert yes.document["decidedBy"].endswith(" (Ada)")
    again = remit("approvals", "deny", first.approval_id)
    assert again.code == 2
    assert "is closed: it was approved by os:" in again.err
    assert "(as agreed)" in again.err
    no = remit("approvals", "deny", second.approval_id)
    assert "is not sent" in no.out
    everything = remit("approvals", "list", "--all").out
    assert "approved by os:" in everything
    assert "denied by os:" in everything
    assert remit("ledger", "verify").code == 0


def test_an_agent_cannot_decide_and_sees_no_requests(workspace: Workspace) -> None:
    asked = workspace.approvals.ask(question())
    place = ["-C", str(workspace.root)]
    for words in (
        ["approve", asked.approval_id],
        ["deny", asked.approval_id],
        ["list"],
        ["show", asked.approval_id],
        [],
    ):
        for variable in ("REMIT_AGENT", "REMIT_TOKEN"):
            environ = {**workspace.environ, variable: "agent-2"}
            ran = CliRunner().invoke(approvals_command, [*words, *place], env=environ)
            assert isinstance(ran.exception, RefusedError), words
            assert "an agent cannot do it" in ran.exception.what
            assert ran.output == ""
    assert workspace.approvals.show(asked.approval_id).state == "PENDING"


@pytest.mark.parametrize("typed,answer", [("y\n", "True"), ("YES\n", "True"), ("n\n", "False"), ("deny\n", "False")])
def test_only_a_clear_answer_is_accepted(typed: str, answer: str) -> None:
    for before in ("", "\n", "maybe\nyess\n", "s t\n"):
        ran = CliRunner().invoke(_asking, input=before + typed)
        assert ran.output.splitlines()[-1] == answer
        assert ran.output.count("Please answer") == before.count("\n")
    assert CliRunner().invoke(_asking, input="later\n").output.endswith("None\n")


def test_a_closed_terminal_does_not_deny() -> None:
    ran = CliRunner().invoke(_asking, input="what\n")
    assert ran.exit_code == 1
    assert "Aborted!" in ran.output


@click.command()
def _asking() -> None:
    click.echo(repr(ask_until_clear("Send it?")))


def test_completion_offers_pending_requests_and_offers_nothing_to_an_agent(workspace: Workspace) -> None:
    first, second = workspace.approvals.ask(question(1)), workspace.approvals.ask(question(2))
    workspace.approvals.decide(first.approval_id, approved=False, who=ADA)

    def offered(verb: str, incomplete: str = "") -> list[str]:
        command = click.Command(verb)
        context = click.Context(command, info_name=verb)
        context.params["directory"] = workspace.root
        return [item.value for item in complete_question(context, click.Argument(["ID"]), incomplete)]

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REMIT_STATE", workspace.environ["REMIT_STATE"])
        assert offered("approve") == offered("deny") == [second.approval_id]
        assert offered("show") == [second.approval_id, first.approval_id]
        assert offered("show", "ffff") == []
        patched.setenv("REMIT_AGENT", "agent-1")
        assert offered("approve") == []


def test_waiting_for_requests_needs_a_person_at_a_terminal(remit: Remit, workspace: Workspace) -> None:
    for arguments in (["--wait"], ["--wait", "--json"]):
        ran = remit("approvals", *arguments, stdin=b"y\n")
        assert ran.code == 2
        assert "needs a terminal" in ran.out + ran.err
    assert workspace.approvals.listed() == []


def test_at_a_terminal_each_new_request_is_shown_and_decided(workspace: Workspace, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "project", {"REMIT_STATE": str(tmp_path / "state")})
    try:
        terminal.until("Approval requests appear here")
        terminal.type("y\n")  # typed before any request is shown, so it decides none
        first = workspace.approvals.ask(question(1))
        terminal.until(first.approval_id)
        terminal.until("Send it?")
        assert workspace.approvals.show(first.approval_id).state == "PENDING"
        terminal.type("y\n")
        terminal.until("The reason, for the ledger and the agent")
        assert workspace.approvals.show(first.approval_id).state == "PENDING"
        terminal.type("as agreed\n")
        terminal.until("Approved: the request of agent-1 is sent, once")
        assert workspace.approvals.show(first.approval_id).reason == "as agreed"
        asked = workspace.approvals.ask(question(2))
        for answer in ("\n", "nonsense\n"):
            terminal.until("Send it?")
            terminal.type(answer)
            terminal.until("Please answer with yes")
            assert workspace.approvals.show(asked.approval_id).state == "PENDING"
        terminal.until("Send it?")
        terminal.type("no\n")
        terminal.until("The reason, for the ledger and the agent")
        terminal.type("\n")
        terminal.until(f"Denied: the request of agent-1 is not sent ({asked.approval_id})")
        later, last = workspace.approvals.ask(question(3)), workspace.approvals.ask(question(4))
        terminal.until("Send it?")
        terminal.type("s\n")
        terminal.until("It is not shown here again. It is open until ")
        terminal.until("Send it?")
        terminal.child.send_signal(signal.SIGINT)
        assert terminal.child.wait(LONGEST) == 0
        assert {workspace.approvals.show(one.approval_id).state for one in (later, last)} == {"PENDING"}
    finally:
        terminal.close()


def made(**changes: object) -> Approval:
    preview = HTTPPreview.from_tree({**PREVIEW, **changes})
    return Approval.from_tree(
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


def shown(**changes: object) -> str:
    return render_approval(made(**changes), 60.5)


@pytest.mark.req("VX-07")
def test_approval_017_text_of_a_page_cannot_draw_on_the_terminal() -> None:
    text = shown(body={"masked": {}, "preview": {"a\x1b[2J": "<img src=x>\r\n  effect    harmless\u202e"}})
    assert r"a\x1b[2J: <img src=x>\r\n  effect    harmless\u202e" in text
    assert text.count("\n  effect ") == 1


@pytest.mark.req("VX-07")
def test_approval_022_a_host_in_another_script_is_shown_as_it_is_registered() -> None:
    assert render_url("https://ex\u0430mple.com/pay") == "https://xn--exmple-4nf.com/pay"
    assert render_url("https://example.com/\u0430") == "https://example.com/\u0430"
    assert "xn--exmple-4nf.com" in shown(url="https://ex\u0430mple.com/pay")


@pytest.mark.parametrize("seconds,text", [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (581.2, "9 min 41 s")])
def test_the_time_left_is_shown_in_minutes_and_seconds(seconds: float, text: str) -> None:
    assert render_time_left(seconds) == text


@pytest.mark.parametrize(
    "state,text",
    [
        ("USED", "approved by os:ada, then used"),
        ("VOID", "approved by os:ada, then void"),
        ("DENIED", "denied by os:ada"),
    ],
)
def test_the_state_says_who_decided_and_what_came_after(state: str, text: str) -> None:
    answered = {"state": state, "decided_by": "os:ada", "decided_at": "2026-01-01T00:01:00Z"}
    closed = made().model_copy(update=answered)
    assert f"state     {text} (decided at 2026-01-01T00:01:00Z)" in render_approval(closed, 0)


def test_typing_a_password_sends_no_request_and_the_text_says_so() -> None:
    assert "request   typing at https://shop.example/pay" in shown(method=None)
    typing, message = made(method=None), made(method=None, url="wss://shop.example/chat")
    assert "sent, once" not in kind_of(typing).if_approved
    assert "put into that field" in kind_of(typing).if_approved
    assert kind_of(message).if_approved == kind_of(made()).if_approved == "is sent, once"
    assert "message" in kind_of(message).question


def test_an_approval_at_a_terminal_is_for_the_request_shown_there(workspace: Workspace, tmp_path: Path) -> None:
    asked = workspace.approvals.ask(question(1))
    for typed, said, state in (
        ("n\n", "the request is still pending", "PENDING"),
        ("y\n", "Approved: the request", "APPROVED"),
    ):
        words = ("approve", asked.approval_id)
        terminal = Terminal(tmp_path / "project", {"REMIT_STATE": str(tmp_path / "state")}, *words)
        try:
            assert "item: tea" in terminal.until("Send it?")
            assert workspace.approvals.show(asked.approval_id).state == "PENDING"
            terminal.type(typed)
            terminal.until(said)
        finally:
            terminal.close()
        assert workspace.approvals.show(asked.approval_id).state == state
