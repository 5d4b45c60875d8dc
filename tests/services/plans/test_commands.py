"""`remit propose`, `remit approvals` and `remit apply --proposal`, each in a process of its own."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import CommandResult, Remit, remit
from tests.cli.terminal import TypedAnswer, run_in_terminal
from tests.plans.project import create, plan_of, replace

__all__ = ["remit"]


def test_the_next_step_for_a_missing_capability_is_a_whole_command(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    (tmp_path / "project/a.txt").write_text("one\ntwo\n")
    (tmp_path / "plan.json").write_bytes(plan_of(replace("a", "a.txt")))
    token = remit("token", "issue", "--sub", "a bot", "--cap", "task.run").out.strip()
    refused = remit("propose", str(tmp_path / "plan.json"), REMIT_TOKEN=token)
    assert refused.code == 2
    command = refused.err.partition("issued: remit ")[2].splitlines()[0]
    assert command == "token issue --sub 'a bot' --cap plan.propose"
    issued = remit(*shlex.split(command))
    assert issued.code == 0
    token = issued.out.strip()
    assert remit("propose", str(tmp_path / "plan.json"), REMIT_TOKEN=token).code == 0
    [name] = [
        each["jti"] for each in remit("token", "list", "--json").document["tokens"] if "plan.propose" in str(each)
    ]
    assert remit("token", "revoke", name).code == 0
    revoked = remit("propose", str(tmp_path / "plan.json"), REMIT_TOKEN=token)
    assert "remit token issue --sub AGENT --cap CAPABILITY" in revoked.err


def test_an_agent_proposes_at_the_command_line_and_a_person_answers(remit: Remit, tmp_path: Path) -> None:
    project = tmp_path / "project"
    assert remit("init").code == 0
    (project / "a.txt").write_text("one\ntwo\n")
    (project / ".env").write_text("A=1\n")
    plan = plan_of(replace("a", "a.txt"), replace("b", ".env", "A=1", "A=2"), plan_id="tidy")
    (tmp_path / "plan.json").write_bytes(plan)
    caps = ("--cap", "plan.propose", "--cap", "plan.apply")
    token = remit("token", "issue", "--sub", "bot", *caps).out.strip()

    said = remit("propose", str(tmp_path / "plan.json"), "--note", "please", "--key", "k", REMIT_TOKEN=token)
    assert said.code == 0, said.err
    assert "A person must decide before" in said.out
    again = remit("propose", str(tmp_path / "plan.json"), "--key", "k", "--json", REMIT_TOKEN=token).document
    name = again["proposal_id"]
    assert name in said.out
    assert (again["state"], again["proposed_by"]) == ("PENDING", "agent:bot")

    early = remit("apply", "--proposal", name, REMIT_TOKEN=token)
    assert (early.code, "1002 NOT_APPROVED" in early.err) == (3, True), "only a person can go on from here"
    listed = remit("approvals")
    assert listed.out.startswith("plan "), "what waits, and no word about what does not"
    assert "agent:bot" in listed.out
    assert "59 min" in listed.out, "it waits as long as its token lives, and a day at most"
    assert [one["proposal_id"] for one in remit("approvals", "list", "--plans", "--json").document["plans"]] == [name]
    shown = remit("approvals", "show", name[:20])
    for line in ("+TWO", "please (the proposer's own words)", "--allow-protected", f"approvals deny {name}"):
        assert line in shown.out, shown.out
    digest = remit("approvals", "show", name, "--json").document["preview"]["preview_digest"]

    agents = remit("approvals", "approve", name, "--digest", digest, REMIT_TOKEN=token)
    assert (agents.code, "an agent cannot" in agents.err) == (2, True)
    alone = remit("approvals", "approve", name)
    assert (alone.code, "there is no terminal" in alone.err) == (3, True)
    assert f"remit approvals approve {name} --digest {digest}" in alone.err
    missing = remit("approvals", "approve", name, "--digest", digest)
    assert (missing.code, "--allow-protected .env" in missing.err) == (2, True)
    allowed = ("--allow-protected", ".env")
    (project / "a.txt").write_text("one\ntwo\nthree\n")
    stale = remit("approvals", "approve", name, "--digest", digest, *allowed)
    assert (stale.code, f"remit approvals compute {name}" in stale.err, "a.txt" in stale.err) == (2, True, True)
    told = remit("approvals", "show", name).out
    assert "a.txt: this file was changed since this preview" in told and f"approvals compute {name}" in told  # noqa: PT018
    digest = remit("approvals", "compute", name, "--json").document["preview"]["preview_digest"]
    yes = remit("approvals", "approve", name, "--digest", digest, *allowed, "--as", "Ada", "--reason", "fine")
    assert yes.code == 0, yes.err
    assert f"remit apply --proposal {name}" in yes.out

    done = remit("apply", "--proposal", name, REMIT_TOKEN=token)
    assert done.code == 0, done.err
    assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
    view = remit("approvals", "show", name, "--json").document["proposal"]
    assert (view["state"], view["reason"]) == ("APPLIED", "fine")
    assert view["decided_by"].endswith(" (Ada)")
    assert remit("ledger", "verify").code == 0


def test_a_denied_plan_is_not_applied_and_wrong_commands_are_refused(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    long = plan_of(create("a", "long.txt", "line\n" * 90 + "the last\n"), plan_id="long")
    name = remit("propose", "-", "--json", stdin=long).document["proposal_id"]
    cut, whole = remit("approvals", "show", name).out, remit("approvals", "show", name, "--full").out
    assert ("more lines: --full" in cut, "+the last" in cut) == (True, False)
    assert ("more lines" in whole, "+the last" in whole) == (False, True)
    made = remit("propose", "-", "--json", stdin=plan_of(create("a", "new.txt"), plan_id="new")).document
    no = remit("approvals", "deny", made["proposal_id"], "--reason", "not now")
    assert (no.code, no.out.startswith("Denied: plan new")) == (0, True)
    again = remit("approvals", "deny", made["proposal_id"])
    assert (again.code, "not now" in again.err) == (2, True)
    late = remit("apply", "--proposal", made["proposal_id"])
    assert (late.code, "denied it: not now" in late.err) == (2, True)
    assert not (tmp_path / "project" / "new.txt").exists()
    assert remit("apply").code == 2
    assert remit("apply", "--proposal", "nothing").code == 2
    bad = remit("propose", "-", stdin=json.dumps({"plan_id": "x"}).encode())
    assert (bad.code, "action_plan" in bad.err) == (2, True)
    question = remit("approvals", "approve", "0123", "--even-if-it-fails")
    assert (question.code, "are for proposed plans" in question.err) == (2, True)


@pytest.mark.req("PV-07")
def test_at_a_terminal_the_plan_is_shown_and_asked_for(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    made = remit("propose", "-", "--json", stdin=plan_of(create("a", "new.txt"), plan_id="new")).document
    answers = {"n\n": (3, "the proposal is still pending"), "y\n": (0, "Approved")}
    for typed, (code, told) in answers.items():
        seen = run_in_terminal(
            tmp_path / "project",
            *("approvals", "approve", made["proposal_id"]),
            answers=(TypedAnswer("+new", ""), TypedAnswer("Approve this plan? [y/N]", typed)),
        )
        assert (seen.code, seen.answered, told in seen.shown) == (code, True, True), seen


LONG = plan_of(create("a", "long.txt", "line\n" * 90 + "the last\n"), plan_id="long")
HIDDEN = "54 lines of this preview were not shown."


@pytest.mark.req("PV-07")
def test_hidden_lines_of_a_proposed_plan_need_an_answer_of_their_own(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    project = tmp_path / "project"
    name = remit("propose", "-", "--json", stdin=LONG).document["proposal_id"]
    plain = run_in_terminal(
        project, "approvals", "approve", name, answers=(TypedAnswer(HIDDEN, "y\n"), TypedAnswer(HIDDEN, "n\n"))
    )
    assert (plain.code, plain.answered) == (3, True), plain
    digest = remit("approvals", "show", name, "--json").document["preview"]["preview_digest"]
    given = ("approvals", "approve", name, "--digest", digest)
    refused = remit(*given)
    assert (refused.code, "--unseen-lines 54" in refused.err) == (2, True), refused
    assert remit(*given, "--unseen-lines", "53").code == 2
    assert remit("approvals", "show", name, "--json").document["proposal"]["state"] == "PENDING"
    seen = run_in_terminal(
        project,
        *("approvals", "approve", name),
        answers=(
            TypedAnswer(HIDDEN, "f\n"),
            TypedAnswer("+the last", ""),
            TypedAnswer("Approve this plan? [y/N]", "y\n"),
        ),
    )
    assert (seen.code, seen.answered) == (0, True), seen
    for number, more in enumerate((("--unseen-lines", "54"), ("--full",))):
        made = remit("propose", "-", "--json", "--key", f"k{number}", stdin=LONG).document["proposal_id"]
        said = remit("approvals", "approve", made, "--digest", digest, *more)
        assert said.code == 0, said


@pytest.mark.req("PV-07")
def test_an_approver_who_waits_for_plans_accepts_hidden_lines_by_name_or_sees_them_first(
    remit: Remit, tmp_path: Path
) -> None:
    assert remit("init").code == 0
    project = tmp_path / "project"
    for typed, told in ((("y\n", "f\n"), True), (("yes\n", "unseen\n"), False)):
        name = remit("propose", "-", "--json", stdin=LONG).document["proposal_id"]
        asked = [TypedAnswer(HIDDEN, text) for text in typed]
        asked += [TypedAnswer("+the last", ""), TypedAnswer("yes (y), no (n) or later (s)", "y\n")] if told else []
        ends = [TypedAnswer("The reason, for the ledger and the agent", "\n"), TypedAnswer("Approved: ", "\x03")]
        seen = run_in_terminal(project, "approvals", "--wait", answers=(*asked, *ends))
        assert seen.answered, seen
        assert remit("approvals", "show", name, "--json").document["proposal"]["state"] == "APPROVED"


def answers_of(shown: CommandResult) -> list[str]:
    """The commands under `answer`, as a person copies them."""
    assert shown.code == 0, shown
    found = re.search(r"^  answer    (.*)(?:\n            (.*))?", shown.out, re.MULTILINE)
    assert found is not None, shown.out
    return [each for each in found.groups() if each]


def proposed_by_bot(remit: Remit, plan: bytes) -> str:
    token = remit("token", "issue", "--sub", "bot", "--cap", "plan.propose").out.strip()
    name: str = remit("propose", "-", "--json", stdin=plan, REMIT_TOKEN=token).document["proposal_id"]
    return name


@pytest.mark.req("PV-07")
@pytest.mark.parametrize("options", [(), ("--full",)], ids=["cut", "full"])
def test_the_answer_that_show_prints_is_a_command_that_works_without_a_terminal(
    remit: Remit, tmp_path: Path, options: tuple[str, ...]
) -> None:
    assert remit("init").code == 0
    project = tmp_path / "project"
    (project / ".env").write_text("A=1\n")
    text = "line\n" * 90 + "the last\n"
    lasting = {"stop_on_error": False, "rollback_on_failure": False}
    plans = (
        plan_of(create("a", "new.txt"), plan_id="short"),
        plan_of(create("a", "long.txt", text), replace("b", ".env", "A=1", "A=2"), plan_id="needs"),
        plan_of(create("a", "made.txt"), replace("b", "none.txt"), plan_id="partly", **lasting),
    )
    for plan in plans:
        name = proposed_by_bot(remit, plan)
        place = ("-C", str(project))
        approve, deny = answers_of(remit("approvals", "show", *place, name, *options, cwd=tmp_path))
        assert deny == f"remit approvals deny -C {project} {name}"
        alone = remit("approvals", "approve", *place, name, *options, cwd=tmp_path)
        assert (alone.code, approve in alone.err) == (3, True), alone
        said = remit(*shlex.split(approve)[1:], cwd=tmp_path)
        assert said.code == 0, (approve, said)


@pytest.mark.req("PV-07")
def test_of_a_plan_that_only_can_be_denied_no_approval_is_offered(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    project = tmp_path / "project"
    (project / "a.txt").write_text("one\n")
    name = proposed_by_bot(remit, plan_of(replace("a", "a.txt", "absent", "x"), plan_id="doomed"))
    deny = f'remit approvals deny {name} --reason "..."'
    assert answers_of(remit("approvals", "show", name)) == [deny]
    shown = remit("approvals", "show", name, "--json").document
    assert shown["preview"]["document"]["doomed"]
    digest = shown["preview"]["preview_digest"]
    for given, code in (((), 3), (("--digest", digest), 2), (("--digest", digest, "--even-if-it-fails"), 2)):
        refused = remit("approvals", "approve", name, *given)
        assert (refused.code, deny in refused.err) == (code, True), refused
        assert ("remit preview" in refused.err, "approvals approve" in refused.err) == (False, False), refused
    for command in (("approve", name), ("--wait",)):
        ends = (TypedAnswer(f"deny {name}", "\x03"),)
        seen = run_in_terminal(project, "approvals", *command, answers=ends)
        assert (seen.answered, deny in seen.shown) == (True, True), seen
        assert f"approvals approve {name}" not in seen.shown
    view, listed = shown["proposal"], remit("approvals", COLUMNS="240").out
    assert (view["risk"], view["title"].endswith("1 would fail")) == (shown["preview"]["document"]["risk"], True), view
    assert re.search(rf"^{name}.* {view['risk']} +{re.escape(view['title'])}$", listed, re.MULTILINE), listed
    assert remit(*shlex.split(deny.replace("...", "mind the words"))[1:]).code == 0


def test_all_lists_decided_plans_too(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    (tmp_path / "project" / "a.txt").write_text("one\n")
    denied, applied, pending = (
        proposed_by_bot(remit, plan_of(replace("a", "a.txt", "one", word), plan_id=f"to-{word}"))
        for word in ("two", "three", "four")
    )
    assert remit("approvals", "deny", denied).code == 0
    approve, _ = answers_of(remit("approvals", "show", applied))
    assert remit(*shlex.split(approve)[1:]).code == 0
    assert remit("approvals", "list", "--plans").out.count(pending) == 1
    assert denied not in remit("approvals", "list", "--plans").out
    everything = ("approvals", "list", "--plans", "--all")
    assert re.search(
        rf"^{applied} .* approved by \S+, not applied ", remit(*everything, COLUMNS="240").out, re.MULTILINE
    )
    assert remit("apply", "--proposal", applied).code == 0
    listed = remit(*everything, COLUMNS="240").out
    for name, state in ((denied, "denied by "), (applied, "applied "), (pending, "pending, ")):
        assert re.search(rf"^{name} .* {state}", listed, re.MULTILINE), listed
    assert denied in remit("approvals", "list", "--all", COLUMNS="240").out
    states = {each["proposal_id"]: each["state"] for each in remit(*everything, "--json").document["plans"]}
    assert states == {denied: "DENIED", applied: "APPLIED", pending: "PENDING"}


@pytest.mark.req("PV-07")
def test_of_a_stale_preview_only_compute_and_deny_are_offered(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    file = tmp_path / "project" / "a.txt"
    file.write_text("one\ntwo\n")
    name = proposed_by_bot(remit, plan_of(replace("a", "a.txt"), plan_id="stale"))
    file.write_text("one\ntwo\nthree\n")
    shown = remit("approvals", "show", name)
    assert answers_of(shown) == [f"remit approvals deny {name}"]
    assert (f"remit approvals compute {name}" in shown.out, "approvals approve" in shown.out) == (True, False)
    approve, _ = answers_of(remit("approvals", "compute", name))
    assert remit(*shlex.split(approve)[1:]).code == 0


def test_the_refusal_of_a_digest_names_its_cause_and_the_next_command(remit: Remit, tmp_path: Path) -> None:
    assert remit("init").code == 0
    file = tmp_path / "project" / ".env"
    file.write_text("A=1\n")
    name = proposed_by_bot(remit, plan_of(replace("a", ".env", "A=1", "A=2"), plan_id="guarded"))
    command = ("approvals", "approve", name, "--digest")
    other = remit(*command, f"sha256:{'0' * 64}")
    assert (other.code, "not that of the plan's stored preview" in other.err) == (2, True)
    assert f"remit approvals show {name}" in other.err
    digest = remit("approvals", "show", name, "--json").document["preview"]["preview_digest"]
    file.write_text("A=1\nB=2\n")
    assert f"remit approvals compute {name}" in remit(*command, digest).err
    approve, _ = answers_of(remit("approvals", "compute", name))
    assert remit(*shlex.split(approve)[1:]).code == 0
    twice = remit(*command, digest)
    assert (twice.code, "this proposal is closed" in twice.err) == (2, True), "and not that an approval is missing"
    file.write_text("A=1\nB=3\n")
    late = remit("approvals", "compute", name)
    assert (late.code, "changed since the plan was approved" in late.err) == (2, True)


def test_the_json_list_says_on_standard_error_that_plans_wait_too(remit: Remit) -> None:
    assert remit("init").code == 0
    quiet = remit("approvals", "--json")
    assert (quiet.document, quiet.err) == ([], "")
    name = remit("propose", "-", "--json", stdin=plan_of(create("a", "new.txt"), plan_id="new")).document["proposal_id"]
    hint = "1 proposed plan is pending too, not in this list: remit approvals list --plans --json\n"
    for command in (("approvals", "--json"), ("approvals", "list", "--json")):
        told = remit(*command)
        assert (told.code, told.document, told.err) == (0, [], hint)
    assert [each["proposal_id"] for each in remit(*shlex.split(hint.partition(": ")[2])[1:]).document["plans"]] == [
        name
    ]
