"""Whoever can write to the database, and has no key, makes nobody the owner of a plan, and no yes or no."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from remit.contracts.services.plans import ProposalState
from remit.core.errors import Reason
from remit.ledger.search import SearchFilter, find_entries
from remit.services.base.ownership import find_owner
from tests.services.plans.proposal_workspace import APPROVER, OPERATOR, VIEWER, ProposalWorkspace, refusal_of
from tests.support.store_fixtures import Attacker

PROPOSER = "UPDATE plan_proposals SET proposed_by = 'agent:other' WHERE proposal_id = ?"
AGAIN = """UPDATE plan_proposals SET state = 'PENDING', decided_by = NULL, decided_at = NULL, reason = NULL,
  envelope_id = NULL, envelope = NULL, entry_seq = proposed_seq WHERE proposal_id = ?"""
CHANGED: tuple[ProposalState, ...] = ("NOT_VOUCHED_FOR",)
BACK = "UPDATE plan_proposals SET proposed_by = 'agent:bot' WHERE proposal_id = ?"


@pytest.fixture(scope="module")
def attacker(office: ProposalWorkspace) -> Iterator[Attacker]:
    made = Attacker(office.workspace.store, "")
    yield made
    made.close()


@contextmanager
def changed(attacker: Attacker, proposal_id: str) -> Iterator[None]:
    attacker.tamper((PROPOSER, (proposal_id,)))
    try:
        yield
    finally:
        attacker.tamper((BACK, (proposal_id,)))


def test_a_row_gives_no_agent_another_ones_plan(office: ProposalWorkspace, attacker: Attacker) -> None:
    other, plans = office.issue_token("other"), office.plans
    waits, _ = office.make_proposed()
    approved, _ = office.make_approved()
    applied, path = office.make_applied()
    for made in (waits, approved, applied):
        name = made.proposal_id
        with changed(attacker, name):
            calls: list[Any] = [
                plans.get,
                plans.read_preview,
                plans.list_actions,
                plans.cancel,
                plans.apply,
                plans.read_envelope,
            ]
            calls += [plans.read_report, plans.read_run, plans.undo, plans.preview_undo]
            for caller in (other, office.agent, OPERATOR):
                for call in calls:
                    problem = refusal_of(call, caller, name)
                    assert problem.reason in {Reason.EVIDENCE_INVALID, Reason.PERMISSION_DENIED}, (call, caller)
            if made.envelope_id is not None:
                for of_run in (plans.undo, plans.read_run, plans.read_report):
                    assert refusal_of(of_run, other, made.envelope_id).reason is Reason.EVIDENCE_INVALID
                if made is applied:
                    looked = plans.preview_undo(OPERATOR, made.envelope_id)
                    assert looked.undo.state == "POSSIBLE", "a person needs no row to get at a run"
                with office.workspace.store.reading() as connection:
                    entries = find_entries(
                        connection, "default", SearchFilter(correlation_id=made.envelope_id), None, 50
                    )
                    assert {find_owner(connection, each) for each in entries.entries} == {None}
            assert not [each for each in plans.list_proposals(other).items if each.proposal_id == name]
            [told] = [each for each in plans.list_proposals(VIEWER).items if each.proposal_id == name]
            assert (told.state, told.proposed_by, told.title[:8]) == ("NOT_VOUCHED_FOR", "unknown", "This row")
            assert not [each for each in plans.list_pending(APPROVER) if each.proposal_id == name]
            assert [each.proposal_id for each in plans.list_proposals(VIEWER, states=CHANGED).items] == [name]
    assert office.project.read(path) == "one\nTWO\nthree\n"
    assert plans.get(office.agent, approved.proposal_id).state == "APPROVED"
    assert plans.undo(office.agent, applied.proposal_id).status == "EXECUTED"


def test_what_was_applied_is_not_approved_a_second_time(office: ProposalWorkspace, attacker: Attacker) -> None:
    applied, path = office.make_applied()
    office.project.write(path)
    attacker.tamper((AGAIN, (applied.proposal_id,)))
    assert refusal_of(office.plans.read_preview, APPROVER, applied.proposal_id).reason is Reason.EVIDENCE_INVALID
    seen = office.plans.preview(OPERATOR, office.make_plan(path)[0])
    assert seen.files, "the same plan could be applied, if anybody said yes"
    for said in (True, False):
        problem = refusal_of(
            office.plans.decide, APPROVER, applied.proposal_id, approved=said, preview_digest="sha256:" + "0" * 64
        )
        assert problem.reason is Reason.EVIDENCE_INVALID
    assert refusal_of(office.plans.apply, office.agent, applied.proposal_id).reason is Reason.EVIDENCE_INVALID
    assert office.project.read(path) == "one\ntwo\nthree\n"
