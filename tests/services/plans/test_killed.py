"""Killed at any step, a proposal is what the ledger says: made or not, answered or not, and its envelope with it."""

from pathlib import Path

import pytest

from tests.services.plans.proposal_workspace import ADMIN, OPERATOR, ProposalWorkspace
from tests.support import preloaded
from tests.support.child_process import ChildExit, Fault, run_child

ACTING = Path(__file__).with_name("acting_process.py")
BEFORE = ("append.before_commit",)
AFTER = ("append.committed",)


def killed(office: ProposalWorkspace, point: str, *what: str, count: int = 1) -> ChildExit:
    """Kill the process when it reaches the point for the `count`-th time."""
    command = [preloaded.python(), str(ACTING), str(office.project.root), *what]
    ended = run_child(command, fault=Fault(point, count), environment=office.project.environ)
    assert ended.killed, f"{point}: {ended.output}"
    assert ended.acknowledged == (), point
    return ended


def test_a_process_killed_while_it_proposes_has_proposed_once_or_not_at_all(
    office: ProposalWorkspace, tmp_path: Path
) -> None:
    for point in (*BEFORE, "proposal.inserted", *AFTER, "proposal.made"):
        document, _ = office.make_plan()
        file = tmp_path / "plan.json"
        file.write_bytes(document)
        before = len(office.plans.list_pending(ADMIN))
        # The first transaction stores the preview.
        killed(office, point, "propose", str(file), point, count=2 if point.startswith("append.") else 1)
        is_made = point in {*AFTER, "proposal.made"}
        assert len(office.plans.list_pending(ADMIN)) == before + is_made, point
        again = office.plans.propose(ADMIN, document, key=point)
        assert len(office.plans.list_pending(ADMIN)) == before + 1, point
        assert [kind for kind, _ in office.read_entries(again.proposal_id)] == ["proposal.made"], point
        office.plans.cancel(ADMIN, again.proposal_id)
    assert office.workspace.verify_ledger().holds


def test_an_envelope_is_recorded_with_the_answer_or_not_at_all(office: ProposalWorkspace) -> None:
    for point in (*BEFORE, "proposal.approved", *AFTER, "proposal.answered"):
        made, path = office.make_proposed()
        office.plans.read_preview(
            ADMIN, made.proposal_id
        )  # waits until this process has stored the preview for the next one
        issued = office.project.kinds().count("envelope.issued")
        killed(office, point, "approve", made.proposal_id)
        is_answered = point in {*AFTER, "proposal.answered"}
        now = office.plans.get(ADMIN, made.proposal_id)
        assert now.state == ("APPROVED" if is_answered else "PENDING"), point
        assert office.project.kinds().count("envelope.issued") == issued + is_answered, point
        if not is_answered:
            office.approve(made.proposal_id)
        assert office.plans.apply(OPERATOR, made.proposal_id, wait=30).state == "APPLIED", point
        assert office.project.read(path) == "one\nTWO\nthree\n"
    made, _ = office.make_proposed()
    killed(office, "proposal.answered", "deny", made.proposal_id)
    assert office.plans.get(ADMIN, made.proposal_id).state == "DENIED"
    assert office.workspace.verify_ledger().holds


@pytest.mark.parametrize("point", ["road.intent_recorded", "road.effect_done"])
def test_a_killed_run_is_reported_as_unfinished_and_recovered_by_the_next_apply(
    office: ProposalWorkspace, point: str
) -> None:
    made, path = office.make_approved()
    killed(office, point, "apply", made.proposal_id)
    now = office.plans.get(office.agent, made.proposal_id)
    assert (now.state, now.progress) == ("UNFINISHED", None)
    settled = office.plans.apply(office.agent, made.proposal_id, wait=30)
    done = settled.state == "APPLIED"
    assert done or settled.state in {"ROLLED_BACK", "FAILED"}
    assert office.project.read(path) == ("one\nTWO\nthree\n" if done else "one\ntwo\nthree\n")
    assert office.workspace.verify_ledger().holds
