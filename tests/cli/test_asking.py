"""The question before a plan is applied: what is checked before it, and an answer that is neither yes nor no."""

from pathlib import Path

import pytest

from tests.cli.conftest import Remit, approve
from tests.cli.terminal import TypedAnswer, run_in_terminal
from tests.cli.test_plan_commands import AFTER, BEFORE, create, project, put, update

__all__ = ["project"]

NOT_NEEDED = ("--allow-content", "run.sh")


def test_an_option_that_is_not_needed_is_refused_before_the_question(remit: Remit, project: Path) -> None:
    plan = put(project, update())
    alone = remit("run", plan, *NOT_NEEDED)
    assert (alone.code, "run.sh" in alone.err, "1015 ARGUMENT_INVALID" in alone.err) == (2, True, True), alone
    assert "remit run plan.json\n" in alone.err
    assert remit("run", plan).code == 3
    assert (remit("run", plan, *NOT_NEEDED, "--yes").code, (project / "settings.json").read_text()) == (2, BEFORE)
    seen = run_in_terminal(project, "run", plan, *NOT_NEEDED, answers=())
    assert (seen.code, "[y/N]" in seen.shown) == (2, False), seen
    assert approve(remit, plan, *NOT_NEEDED).code == 2
    proposed = remit("propose", "-", "--json", stdin=(project / plan).read_bytes()).document["proposal_id"]
    digest = remit("approvals", "show", proposed, "--json").document["preview"]["preview_digest"]
    approved = remit("approvals", "approve", proposed, "--digest", digest, *NOT_NEEDED)
    assert (approved.code, "run.sh" in approved.err) == (2, True)


@pytest.mark.parametrize("last, code, content", [("y\n", 0, AFTER), ("n\n", 2, BEFORE), ("\n", 2, BEFORE)])
def test_an_answer_that_is_neither_yes_nor_no_is_asked_for_again(
    remit: Remit, project: Path, last: str, code: int, content: str
) -> None:
    put(project, update())
    seen = run_in_terminal(
        project,
        *("run", "plan.json"),
        answers=(
            TypedAnswer("Apply this plan? [y/N]:", "maybe\n"),
            TypedAnswer("Type y or n.", ""),
            TypedAnswer("Apply this plan? [y/N]:", last),
        ),
    )
    assert (seen.code, seen.answered, "invalid input" in seen.shown) == (code, True, False), seen
    assert (project / "settings.json").read_text() == content


def test_a_refused_apply_says_what_to_do_with_this_plan_only(remit: Remit, project: Path) -> None:
    plan = put(project, create("new.txt"), update())
    approve(remit, plan, "-o", "envelope.json")
    proposed = remit("propose", "-", "--json", stdin=(project / plan).read_bytes()).document["proposal_id"]
    digest = remit("approvals", "show", proposed, "--json").document["preview"]["preview_digest"]
    assert remit("approvals", "approve", proposed, "--digest", digest).code == 0
    (project / "settings.json").write_text(AFTER)
    by_envelope = remit("apply", "envelope.json")
    assert (by_envelope.code, "proposed" in by_envelope.err, "`remit preview`" in by_envelope.err) == (2, False, True)
    by_proposal = remit("apply", "--proposal", proposed)
    assert (by_proposal.code, "`remit preview`" in by_proposal.err) == (2, False), by_proposal
    assert f"remit apply --proposal {proposed}" in by_proposal.err
    assert "propose it again" in by_proposal.err
