"""`remit propose`, `remit approvals` and `remit apply --proposal`, each in a process of its own."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from remit.cli.approvals import approvals as approvals_command
from tests.cli.conftest import Remit, remit
from tests.plan_road.project import create, plan_of, replace

__all__ = ["remit"]


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
    assert "A person must answer until" in said.out
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
    assert (alone.code, "nobody here to show it to" in alone.err) == (3, True)
    assert f"remit approvals approve {name} --digest {digest}" in alone.err
    missing = remit("approvals", "approve", name, "--digest", digest)
    assert (missing.code, "--allow-protected .env" in missing.err) == (2, True)
    allowed = ("--allow-protected", ".env")
    (project / "a.txt").write_text("one\ntwo\nthree\n")
    stale = remit("approvals", "approve", name, "--digest", digest, *allowed)
    assert (stale.code, "Look at it again" in stale.err) == (2, True)
    digest = remit("approvals", "show", name, "--json").document["preview"]["preview_digest"]
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


def test_a_no_and_what_is_refused(remit: Remit, tmp_path: Path) -> None:
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
    assert (late.code, "said no: not now" in late.err) == (2, True)
    assert not (tmp_path / "project" / "new.txt").exists()
    assert remit("apply").code == 2
    assert remit("apply", "--proposal", "nothing").code == 2
    bad = remit("propose", "-", stdin=json.dumps({"plan_id": "x"}).encode())
    assert (bad.code, "action_plan" in bad.err) == (2, True)
    question = remit("approvals", "approve", "0123", "--even-if-it-fails")
    assert (question.code, "are for proposed plans" in question.err) == (2, True)


def test_at_a_terminal_the_plan_is_shown_and_asked_for(
    remit: Remit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remit("init").code == 0
    made = remit("propose", "-", "--json", stdin=plan_of(create("a", "new.txt"), plan_id="new")).document
    monkeypatch.setenv("REMIT_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("REMIT_TOKEN", raising=False)
    monkeypatch.setattr("remit.cli.plan_approvals._require_terminal", lambda *_, **__: None)
    answers = {"n\n": "not denied either", "y\n": "Approved"}
    for typed, told in answers.items():
        arguments = ["approve", made["proposal_id"], "-C", str(tmp_path / "project")]
        ran = CliRunner().invoke(approvals_command, arguments, input=typed)
        assert "+new" in ran.output, ran.output
        assert told in (ran.output + str(ran.exception)), ran.output
