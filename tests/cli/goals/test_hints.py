"""What `remit ask` tells beside the outcome: why, by which policy, what may have been meant, and that it was over."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from remit.cli import main
from remit.cli.approvals.goals import render_goal
from remit.cli.common.suggest import LocationOptions
from remit.cli.goals.ask import GoalDialogue, ask
from remit.cli.goals.render import ACCESS_NEXT, NEXT, Cycle, fill_advice
from remit.cli.goals.requester import GoalRequester
from remit.goals.core import AgentCore
from remit.services.goals.approvals import list_waiting_goals
from remit.services.inbox.service import view_goal
from tests.goals.goal_office import ANN, POLICY, SIMULATIONS, Office

COUNT: dict[str, Any] = {
    "id": "count-boxes",
    "version": "1",
    "title": {"en": "Count boxes", "de": "Kisten zählen"},
    "impact": "read_only",
    "risk": "LOW",
    "access_action": "ping",
    "fields": {
        "shelf": {"type": "integer", "question": {"en": "Which shelf?", "de": "Welches Regal?"}, "maximum": 9},
        "day": {"type": "date", "question": "Which day?"},
    },
    "phrases": {"en": ["count the boxes on shelf {shelf}"], "de": ["zähle die Kisten in Regal {shelf}"]},
    "binding": {"type": "task", "capability_id": "NO_EFFECT", "inputs": {}},
}
FORBIDS = """
@id("no-copies-in-june")
@reason("Forms are frozen until the audit is over.")
@description("nobody reads this")
forbid (principal == User::"acme/mia", action == Action::"copy_form", resource);

@id("eve-asks-first")
@verdict("approval_required")
@reason("Copies of the form cost money.")
permit (principal == User::"acme/eve", action == Action::"copy_form", resource);
"""
NUMBER = "is not a whole number of at most 15 digits"


class Desk:
    """`remit ask` in this very process, beside an office."""

    def __init__(self, office: Office) -> None:
        self.office = office

    def text(self, *arguments: str) -> str:
        return str(CliRunner().invoke(ask, self.words(*arguments), env=self.office.environ).output)

    def tree(self, *arguments: str) -> Any:
        ran = CliRunner().invoke(ask, self.words(*arguments, "--json"), env=self.office.environ)
        return json.loads(ran.stdout)

    def words(self, *arguments: str) -> list[str]:
        return [*arguments, "-C", str(self.office.root)]


WHO = ("--user", "mia", "--tenant", "acme")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    office = Office(tmp_path_factory.mktemp("desk"), simulations=(*SIMULATIONS, COUNT), policy=POLICY + FORBIDS)
    yield Desk(office)
    office.close()


@pytest.mark.req("AC-03")
def test_the_reason_for_a_question_is_shown_beside_its_unchanged_text(desk: Desk) -> None:
    first = desk.tree("count the boxes on shelf 7b", *WHO, "--correlation", "c-1")
    assert (first["waiting_for"], first["outcome"]["user_visible_text"]) == ("clarification", "Which shelf?")
    assert first["why"] == f"“7b” {NUMBER}"
    assert desk.tree("17", "--reply", "c-1", "--correlation", "c-2")["why"] == "“17” must be 9 or less"
    hidden = desk.text("my password is hunter2", "--reply", "c-2", "--correlation", "c-3")
    assert f"why:   The value that you gave {NUMBER}" in hidden
    assert "hunter2" not in hidden
    moved = desk.tree("7", "--reply", "c-3", "--correlation", "c-4")
    assert (moved["outcome"]["user_visible_text"], moved["why"]) == ("Which day?", None)
    assert desk.tree("zähle die Kisten", *WHO, "--lang", "de")["outcome"]["user_visible_text"] == "Welches Regal?"
    assert desk.tree("count the boxes", *WHO)["why"] is None


@pytest.mark.req("AC-04", "AC-20")
def test_similar_simulations_are_suggested_and_never_chosen(desk: Desk) -> None:
    missing = desk.tree("archiviere die Notiz one", *WHO, "--correlation", "m-1")
    assert missing["outcome"]["reason_code"] == "SIMULATION_MISSING"
    (near,) = missing["did_you_mean"]
    assert (near["title"], near["phrase"], near["languages"]) == (
        "Archive a note",
        "archive the note {note}",
        ["de", "en"],
    )
    assert "near:  Kisten zählen. Say: zähle die Kisten" in desk.text("count the boxes", *WHO, "--lang", "de")
    assert "near:  Copy the form. It has phrases in --lang en, tr" in desk.text("copy the form", *WHO, "--lang", "fr")
    elsewhere = desk.tree("archiviere die Notiz one", "--user", "mia", "--tenant", "globex")
    assert elsewhere["did_you_mean"] == []  # that tenant has it as a draft only
    assert desk.office.events("m-1") == ["ESCALATED"]
    with desk.office.workspace.store.reading() as connection:
        kept = str(list(connection.rows("SELECT payload FROM ledger_entries WHERE correlation_id = 'm-1'")))
    assert "ESCALATED" in kept
    assert "archive-note" not in kept


@pytest.mark.req("AC-06")
def test_a_denial_names_the_policy_and_its_reason_and_never_its_text(desk: Desk) -> None:
    denied = desk.tree("copy the form as new", *WHO, "--correlation", "d-1", "--confirm", "yes")
    assert denied["outcome"]["reason_code"] == "ACCESS_SCOPE_VIOLATION"
    assert denied["why"] == "a policy forbids it"
    assert denied["policies"] == [{"id": "no-copies-in-june", "reason": "Forms are frozen until the audit is over."}]
    shown = desk.text("copy the form as new", *WHO, "--confirm", "yes")
    assert "rule:  no-copies-in-june: Forms are frozen until the audit is over." in shown
    assert not [word for word in ("principal", "forbid (", "nobody reads this") if word in shown + json.dumps(denied)]
    nobody = desk.tree("archive the note one", "--user", "eve", "--tenant", "acme", "--confirm", "yes")
    assert (nobody["why"], nobody["policies"]) == ("no policy permits it", [])
    stranger = desk.tree("archive the note one", "--user", "max", "--tenant", "acme", "--confirm", "yes")
    assert stranger["why"] == "this user is not listed for this tenant"
    other = desk.tree("archive the note one", *WHO, "--correlation", "d-1")
    assert "belongs to another goal" in other["why"]
    assert other["policies"] == []  # those of the goal whose id it is say nothing about this one


@pytest.mark.req("AC-06", "AC-07")
def test_a_denial_by_the_final_gate_names_its_policy_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = desk.office.ask("archive the note two", correlation_id="f-1")
    with monkeypatch.context() as patched:
        patched.setattr(AgentCore, "_dispatch", lambda *_: asked.outcome)
        desk.office.answer(asked)
    desk.office.write_policy('@id("closed") @reason("Closed for today.")\nforbid (principal, action, resource);\n')
    refused = desk.tree("--continue", "f-1")
    desk.office.write_policy(POLICY + FORBIDS)
    assert refused["policies"] == [{"id": "closed", "reason": "Closed for today."}]
    assert "the final gate says ACCESS_SCOPE_VIOLATION: a policy forbids it" in refused["why"]
    desk.office.retire("archive-note")
    retired = desk.tree("archive the note two", *WHO, "--confirm", "yes")
    desk.office.promote("archive-note")
    assert (retired["why"], retired["policies"]) == (
        "the simulation is RETIRED",
        [],
    )  # the policies have let it through


@pytest.mark.req("AC-06")
def test_a_pending_approval_names_the_policy_that_requires_it_and_a_denial_is_reported(desk: Desk) -> None:
    leo = ("copy the form as new", "--user", "leo", "--tenant", "acme", "--correlation", "l-1", "--confirm", "yes")
    waits = desk.tree(*leo)
    assert (waits["waiting_for"], waits["policies"]) == ("approval", [{"id": "leo-asks-first", "reason": None}])
    desk.office.goals.approve("l-1", tenant="acme", who=ANN, approved=False)
    assert desk.tree("--continue", "l-1")["why"] == "a person was asked to approve it, and denied it"
    assert desk.tree(*leo[:-3], "l-2", *leo[-2:])["waiting_for"] == "approval"
    desk.office.goals.approve("l-2", tenant="acme", who=ANN, approved=False, reason="not before June")
    denied = desk.text("--continue", "l-2")
    assert "why:   a person was asked to approve it, and denied it: not before June" in denied
    assert "next:  To have it decided again, ask again. Who decided: remit ledger trace" in denied


def test_the_next_step_of_a_refused_access_fits_its_reason(desk: Desk) -> None:
    for user, reason, advice in (
        ("eve", "no policy permits it", "add a Cedar policy for this user"),
        ("max", "this user is not listed", "Add the user under `tenants`"),
    ):
        shown = desk.text("archive the note one", "--user", user, "--tenant", "acme", "--confirm", "yes")
        assert f"why:   {reason}" in shown
        assert advice in shown
        assert "remit doctor" not in shown


def test_a_reply_says_that_its_id_is_another_one(desk: Desk) -> None:
    assert "id of the reply" not in desk.text("archive the note", *WHO, "--correlation", "r-1")
    assert "note:  This is the id of the reply." in desk.text("one", "--reply", "r-1", "--correlation", "r-2")


@pytest.mark.req("AC-11")
def test_a_goal_that_ended_before_is_reported_as_such_with_its_time(desk: Desk) -> None:
    goal = ("archive the note one", *WHO, "--correlation", "again")
    asked = desk.tree(*goal)
    assert asked["ended_before"] is None
    done = desk.text(*goal, "--confirm", "yes")
    assert "done: Done." in done
    with desk.office.workspace.store.reading() as connection:
        row = connection.one("SELECT updated_at FROM agent_execution_current WHERE correlation_id = 'again'")
    at = row[0] if row else ""
    for again in (goal, ("--continue", "again")):
        assert desk.tree(*again)["ended_before"] == at
        assert "done before: Done." in desk.text(*again)
        assert f"when:  {at[:19]}Z; nothing was done now" in desk.text(*again)
    other = desk.tree("archive the note two", *WHO, "--correlation", "again")
    assert (other["outcome"]["reason_code"], other["ended_before"]) == ("IDEMPOTENCY_VIOLATION", None)
    desk.office.write_note("one")  # for whoever comes next
    (desk.office.root / "archive" / "one.txt").unlink()


def test_at_a_terminal_the_reason_stands_above_the_question(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["12", None])
    monkeypatch.setattr("remit.cli.goals.ask._prompt_answer", lambda: next(typed))
    workspace = desk.office.workspace
    talk = GoalDialogue(
        workspace, GoalRequester(workspace, "mia", "acme"), "acme", LocationOptions(), None, can_ask=True, prints=True
    )
    talk.run(desk.office.ask("count the boxes on shelf 7b"))
    asked = f"“7b” {NUMBER}.\nWhich shelf?\n“12” must be 9 or less.\nWhich shelf?\n"
    assert capsys.readouterr().err == asked


def parsed(command: list[str]) -> click.Context:
    """A command as it would be run, up to the point where it is: raises what a user would be told."""
    context, rest = click.Context(main), command[1:]
    found: click.Command = main
    while isinstance(found, click.Group) and rest:
        below = found.get_command(context, rest[0])
        if below is None:
            break
        found, rest = below, rest[1:]
    return found.make_context("remit", list(rest))


@pytest.mark.parametrize("where", [(), ("--tenant", "acme")])
def test_a_suggested_command_can_be_pasted(desk: Desk, where: tuple[str, ...]) -> None:
    """With two tenants the tenant is named even where the command found it by itself."""
    office = desk.office
    correlation = f"-paste me{len(where)}"
    office.ask("archive the note one", correlation_id=correlation)
    shown = desk.text("--continue", correlation, "--confirm", "okay", *where)
    waiting = next(line for line in shown.splitlines() if line.startswith("  next:"))
    command = shlex.split(waiting.removeprefix("  next:"))
    assert parsed(command).params["continued"] == correlation
    assert command[2:6] == ["-C", str(office.root), "--tenant", "acme"]
    done = desk.text(*[("yes" if word == "ANSWER" else word) for word in command[2:]])
    undo = next(line for line in done.splitlines() if line.startswith("  undo:"))
    words = shlex.split(undo.removeprefix("  undo:"))
    assert words[2:6] == command[2:6]
    assert "Done." in desk.text(*words[2:], "--confirm", "yes")
    assert office.notes() == ["one", "three", "two"]


def test_the_commands_shown_to_an_approver_can_be_pasted_too(desk: Desk) -> None:
    office = desk.office
    office.done("copy the form as other", user="leo", correlation_id="-a b")
    found = next(each for each in list_waiting_goals(office.workspace) if each.correlation_id == "-a b")
    shown = [line.partition("remit ")[2] for line in render_goal(found, office.root) if "remit " in line]
    assert [command.partition(" -C ")[0] for command in shown] == ["approvals approve", "approvals deny"]
    for command in shown:
        params = parsed(["remit", *shlex.split(command)]).params
        assert (params["directory"], params["tenant_id"], params["approval_id"]) == (office.root, "acme", "-a b")


def test_an_approver_sees_the_reason_of_the_policy_that_asks_for_the_approval(desk: Desk) -> None:
    desk.office.done("copy the form as paid", user="eve", correlation_id="e-1")
    found = next(each for each in list_waiting_goals(desk.office.workspace) if each.correlation_id == "e-1")
    assert "  policy    eve-asks-first: Copies of the form cost money." in render_goal(found, desk.office.root)
    assert view_goal(found).policy_reasons == {"eve-asks-first": "Copies of the form cost money."}


def test_every_advice_is_a_command_that_there_is(desk: Desk) -> None:
    reply = desk.office.ask("archive the note one", correlation_id="-x")
    wheres = LocationOptions(desk.office.root, "a b")
    advices = [*NEXT.values(), *ACCESS_NEXT.values()]
    told = [fill_advice(advice, Cycle(reply, None, wheres)) for advice in advices]
    commands = [shlex.split("remit " + each.partition(": remit ")[2]) for each in told if ": remit " in each]
    assert len(commands) == len([advice for advice in advices if "remit " in advice.replace("remit.yaml", "")])
    for command in commands:
        params = parsed(command).params
        assert params["directory"] == desk.office.root, command
        assert params.get("tenant_id", "a b") == "a b" or "verify" in command, command
        assert params.get("simulation_id", "archive-note") == "archive-note", command
        assert params.get("correlation_id", "-x") == "-x", command
    plain = [fill_advice(advice, Cycle(reply, None, LocationOptions(Path()))) for advice in advices]
    assert [each for each in plain if "  " in each or "{" in each] == []
