"""Goals that need somebody else's approval: people see what they would do, and the user who asked cannot say it."""

import os
import pwd
import shlex
from datetime import timedelta
from pathlib import Path

import pytest

from remit.authority.capability_token import TokenRequest
from remit.cli.approvals.goals import find_goal_id
from remit.contracts.browser.browser import TokenConstraints
from remit.core.errors import RefusedError
from remit.identity.callers import AgentCaller, PersonCaller
from remit.identity.person import Person
from remit.services.plans.service import PlanService
from remit.workspace.workspace import Workspace
from tests.approvals.terminal import Terminal
from tests.cli.goals.conftest import Shell
from tests.cli.terminal import TypedAnswer, run_in_terminal
from tests.goals.goal_office import POLICY, Office
from tests.plans.project import plan_of, replace

ADMIN = PersonCaller(Person("os:ada"), "admin")
LOGIN = pwd.getpwuid(os.getuid()).pw_name


@pytest.mark.req("AC-06")
def test_a_goal_waits_until_another_person_has_approved_it(shell_on_each_store: Shell) -> None:
    office = shell_on_each_store.office
    waits = shell_on_each_store.ask(
        "copy the form as new", "--user", "leo", "--tenant", "acme", "--correlation", "g-1", "--confirm", "yes"
    )
    assert (waits.code, waits.document["waiting_for"]) == (3, "approval")
    assert waits.document["next"] == [
        ["remit", "approvals", "approve", "--tenant", "acme", "g-1"],
        ["remit", "ask", "--tenant", "acme", "--continue", "g-1"],
    ]
    assert shell_on_each_store("ask", "--continue", "g-1").code == 3
    listed = shell_on_each_store("approvals")
    assert "Copy the form (copy-form 1): name = new" in listed.out
    assert shell_on_each_store("approvals", "--json").document == []  # as it was: the questions of the browser
    (told,) = shell_on_each_store("approvals", "list", "--goals", "--json").document["goals"]
    assert (told["user_id"], told["policies"], told["fields"]) == ("leo", ["leo-asks-first"], {"name": "new"})
    shown = shell_on_each_store("approvals", "show", "g-1")
    assert "copy the form as new (en)" in shown.out
    assert "policy    leo-asks-first\n" in shown.out
    assert f"until     {told['expires_at'][:19]}Z, for the decision and until the user has continued it" in shown.out
    assert told["policy_reasons"] == {}
    approved = shell_on_each_store(
        *("approvals", "approve", "g-1", "--digest", told["digest"], "--as", "Ann", "--reason", "seen it")
    )
    assert approved.code == 0
    assert "remit ask --tenant acme --continue g-1" in approved.out
    assert not (office.base / "new.txt").exists()  # an approval does nothing by itself
    assert shell_on_each_store("ask", "--continue", "g-1").code == 0
    assert (office.base / "new.txt").exists()
    assert shell_on_each_store("approvals", "deny", "g-1").code == 2  # the first answer counts


def test_a_person_who_waits_at_the_terminal_is_asked_about_goals_and_plans_too(shell: Shell) -> None:
    office, workspace = shell.office, shell.office.workspace
    token = workspace.tokens.issue(TokenRequest("bot", ("plan.propose",), TokenConstraints(), timedelta(hours=1))).text
    bot, desk = AgentCaller.by(workspace.tokens, token), PlanService(workspace)
    (office.root / "a.txt").write_text("one\ntwo\n")
    (office.root / ".env").write_text("A=1\n")
    shell.ask_goal("copy the form as new", "g-1", "--confirm", "yes", user="leo")
    terminal = Terminal(office.root, office.environ)
    try:
        terminal.until("Goal g-1")
        shown = terminal.until("Approve this goal? yes (y), no (n) or later (s)")
        assert "Copy the form (copy-form 1): name = new" in shown
        plan = desk.propose(bot, plan_of(replace("a", "a.txt"), plan_id="tidy"))
        terminal.type("yes\n")
        terminal.until("The reason, for the ledger and the agent")
        terminal.type("seen it\n")
        terminal.until("next: remit ask --tenant acme --continue g-1")
        terminal.until(f"Proposal {plan.proposal_id}")
        assert "+TWO" in terminal.until("Approve this plan? yes (y), no (n) or later (s)")
        (office.root / "a.txt").write_text("one\ntwo\nthree\n")  # behind his back
        terminal.type("y\n")
        terminal.until("The reason, for the ledger and the agent")
        terminal.type("\n")
        terminal.until("Compute the preview again")
        assert desk.get(ADMIN, plan.proposal_id).state == "PENDING"  # no yes to what he did not see
        second = desk.propose(bot, plan_of(replace("a", "a.txt"), plan_id="again"))
        terminal.until("Approve this plan? yes (y), no (n) or later (s)")
        terminal.type("y\n")
        terminal.until("The reason, for the ledger and the agent")
        terminal.type("fine\n")
        terminal.until(f"remit apply --proposal {second.proposal_id}")
        told = desk.get(ADMIN, second.proposal_id)
        assert (told.state, told.reason) == ("APPROVED", "fine")
        guarded = desk.propose(bot, plan_of(replace("b", ".env", "A=1", "A=2"), plan_id="guarded"))
        terminal.until(f"cannot be approved here. Use: remit approvals approve {guarded.proposal_id}")
        assert desk.get(ADMIN, guarded.proposal_id).state == "PENDING"
    finally:
        terminal.close()


@pytest.mark.req("AC-06")
def test_a_denied_goal_is_refused_and_an_agent_cannot_approve_or_deny_it(shell: Shell) -> None:
    shell.ask_goal("copy the form as new", "g-1", "--confirm", "yes", user="leo")
    for answer in ("approve", "deny", "show"):
        assert shell("approvals", answer, "g-1", REMIT_AGENT="helper").code == 2
    denied = shell("approvals", "deny", "g-1", "--tenant", "acme", "--json")
    assert (denied.document["approved"], denied.document["goal"]["correlation_id"]) == (False, "g-1")
    ended = shell.ask("--continue", "g-1")
    assert (ended.code, ended.document["outcome"]["reason_code"]) == (2, "ACCESS_SCOPE_VIOLATION")
    assert not (shell.office.base / "new.txt").exists()


@pytest.mark.req("AC-06")
def test_the_user_of_a_goal_cannot_approve_it(tmp_path: Path) -> None:
    office = Office(tmp_path, policy=POLICY.replace("acme/leo", f"acme/{LOGIN}"), promoted=False)
    office.write_config(tenants={"acme": {"users": ["mia", LOGIN]}})
    office.promote("copy-form")
    shell = Shell(office)
    asked = shell.ask("copy the form as new", "--user", LOGIN, "--correlation", "g-1", "--confirm", "yes")
    assert asked.document["waiting_for"] == "approval"
    digest = shell("approvals", "show", "g-1", "--json").document["digest"]
    own = shell("approvals", "approve", "g-1", "--digest", digest, "--as", "Somebody Else")
    assert own.code == 2
    assert "the user of a goal cannot approve it" in own.err
    assert shell("ask", "--continue", "g-1").code == 3
    office.close()


def test_an_id_that_fits_a_goal_and_another_request_is_refused_unless_the_tenant_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace: Workspace = shell.office.workspace
    shell.office.done("copy the form as new", user="leo", correlation_id="01a1")
    assert find_goal_id(workspace, "01a1", None) == "acme"
    assert find_goal_id(workspace, "01a2", None) is None
    for others, find in ((workspace.approvals, "show"), (workspace.proposals, "find_by_name")):
        with monkeypatch.context() as patched:
            patched.setattr(others, find, lambda _: "one whose id begins like that")
            with pytest.raises(RefusedError, match="both a goal and another approval request"):
                find_goal_id(workspace, "01a1", None)
            assert find_goal_id(workspace, "01a1", "acme") == "acme"


def test_the_tab_key_offers_goals_that_it_makes_sense_for(shell: Shell) -> None:
    shell.office.done("copy the form as new", user="leo", correlation_id="g-waits")
    shell.office.ask("archive the note", correlation_id="g-asks")
    shell.office.done("archive the note one", correlation_id="g-done")

    def offered(words: str) -> set[str]:
        ran = shell(_REMIT_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
        return {line.partition(",")[2] for line in ran.out.splitlines()}

    assert offered("remit approvals approve g-") == {"g-waits"}
    assert offered("remit ask --continue g-") == {"g-waits"}
    assert offered("remit ask --reply g-") == {"g-asks"}
    assert offered("remit ask --undo g-") == {"g-done"}
    assert offered("remit ledger trace g-") == {"g-waits", "g-asks", "g-done"}


@pytest.mark.req("PV-07")
def test_at_a_terminal_a_goal_is_shown_before_it_is_approved(shell: Shell) -> None:
    shell.ask_goal("copy the form as new", "g-1", "--confirm", "yes", user="leo")
    command = ("approvals", "approve", "g-1")
    for typed, code, state in (("n\n", 3, 1), ("y\n", 0, 0)):
        answers = (TypedAnswer("copy the form as new (en)", ""), TypedAnswer("Approve this goal? [y/N]", typed))
        seen = run_in_terminal(shell.office.root, *command, answers=answers, environ=shell.environ())
        assert (seen.code, seen.answered) == (code, True), seen
        assert len(shell("approvals", "list", "--goals", "--json").document["goals"]) == state


@pytest.mark.req("AC-06", "PV-07")
def test_without_a_terminal_a_goal_is_approved_only_by_the_digest_of_what_was_read(shell: Shell) -> None:
    for name in ("g-1", "g-2"):
        shell.ask_goal("copy the form as new", name, "--confirm", "yes", user="leo")
    blind = shell("approvals", "approve", "g-1")
    assert (blind.code, "there is no terminal to show it; nothing was approved" in blind.err) == (3, True), blind
    assert shell("approvals", "approve", "g-1", "--json").code == 3
    other = shell("approvals", "show", "g-2", "--json").document["digest"]
    assert other not in shell("approvals", "show", "g-1").out
    wrong = shell("approvals", "approve", "g-1", "--digest", other)
    assert (wrong.code, "the digest does not match the goal; nothing was approved" in wrong.err) == (2, True), wrong
    assert len(shell("approvals", "list", "--goals", "--json").document["goals"]) == 2
    assert shell("ask", "--continue", "g-1").code == 3
    command = blind.err.partition("if you want it: remit ")[2].splitlines()[0]
    assert command in shell("approvals", "show", "g-1").out
    assert shell(*shlex.split(command)).code == 0
    assert shell("ask", "--continue", "g-1").code == 0
