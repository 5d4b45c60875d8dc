"""Proposals on either database: the steps, their guards, and what an attacker with a connection can make of them."""

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from remit.authority.envelope import issue_envelope, verify_envelope
from remit.contracts.plans.envelope import Approvals, Envelope
from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError, RemitError
from remit.crypto.keyring import load_signer
from remit.fs.change_signal import ChangeSignal
from remit.identity.person import Person
from remit.ledger.clock_acceptance import accept_clock
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from remit.ledger.writer import Batch
from remit.plans.proposals import service as module
from remit.plans.proposals.draft import ProposalDraft
from remit.plans.proposals.service import PROPOSAL_LIFE, Proposals
from remit.store.connection import GuardedTableError
from remit.store.proposals import NEWEST_FIRST_START, ProposalRow
from tests.plans.project import create, plan_of
from tests.support.store_fixtures import World, database_url, dialect, empty_store, store, store_url, world

__all__ = ["database_url", "dialect", "empty_store", "store", "store_url", "world"]

ADA = Person("os:ada")
NOTHING = Approvals(protected=(), executable=(), content=(), irreversible=())
CONFIG = "sha256:" + "c" * 64
STATES = ("PENDING", "APPROVED")
NO_ANSWER = {Reason.EVIDENCE_INVALID, Reason.TRANSITION_INVALID}
ALL: dict[str, Any] = {"proposed_by": None, "states": (), "before": NEWEST_FIRST_START, "most": 10}


@dataclass
class StoredProposals:
    world: World
    proposals: Proposals

    def draft(self, number: int = 1, **changes: Any) -> ProposalDraft:
        plan = Plan.parse(plan_of(create("a", f"file{number}.txt"), plan_id=f"plan-{number}"))
        given = {"proposed_by": "agent:bot", "token_jti": "token-1", **changes}
        return ProposalDraft(plan.canonical(), plan.plan_id, "a plan", "LOW", **given)

    def propose(self, number: int = 1, **changes: Any) -> ProposalRow:
        return self.proposals.propose(self.draft(number, **changes)).row

    def envelope(self, row: ProposalRow) -> Envelope:
        plan = Plan.parse(self.proposals.plan_of(row))
        return issue_envelope(load_signer(self.world.keys, "protocol"), plan, CONFIG, (), NOTHING, self.world.clock())

    def approve(self, row: ProposalRow) -> ProposalRow:
        envelope = self.envelope(row)
        work = lambda batch: self.proposals.approve(batch, row.proposal_id, envelope, ADA)  # noqa: E731
        return self.world.ledger.transact(work)

    def find(self, row: ProposalRow) -> ProposalRow:
        found = self.proposals.find(row.proposal_id)
        assert found is not None
        return found


@pytest.fixture
def stored(world: World) -> StoredProposals:
    return StoredProposals(
        world, Proposals(lambda: world.ledger, ChangeSignal(world.keys.parent / "bell"), world.clock)
    )


def reason_of(call: Any, *arguments: Any, **more: Any) -> Reason:
    with pytest.raises(RemitError) as caught:
        call(*arguments, **more)
    return caught.value.reason


def test_from_a_proposal_to_a_signed_envelope_and_each_step_stands_in_the_ledger(stored: StoredProposals) -> None:
    made = stored.propose(note="token ghp_" + "a" * 36)
    assert made.note is not None
    assert "a" * 9 not in made.note, "the ledger is for ever, and so is no secret in it"
    approved = stored.approve(made)
    raw = stored.proposals.envelope_of(approved)
    envelope = Envelope.parse(raw)
    verify_envelope(envelope, CONFIG, stored.world.keyring, stored.world.clock(), plan_digest=envelope.plan.digest())
    assert (envelope.envelope_id, envelope.plan.digest()) == (approved.envelope_id, made.plan_digest)
    denied = stored.proposals.deny(stored.propose(2).proposal_id, ADA, "not today")
    withdrawn = stored.proposals.withdraw(stored.propose(3).proposal_id, "agent:bot")
    assert (denied.reason, withdrawn.reason) == ("not today", "withdrawn by agent:bot")
    assert stored.proposals.plan_of(denied), "somebody answers for a no, so what he said it to is kept"
    assert stored.world.attacker.run("SELECT count(*) FROM plan_proposals WHERE plan IS NULL") == [(1,)]
    assert stored.world.verify().findings == []


def test_only_the_first_answer_is_recorded_and_the_agent_that_proposed_cannot_answer(stored: StoredProposals) -> None:
    row = stored.propose()
    for agent in (Person("agent:bot"), Person("os:x", "bot"), Person("bot")):
        assert reason_of(stored.proposals.deny, row.proposal_id, agent) is Reason.PERMISSION_DENIED
    envelopes = [stored.envelope(row) for _ in range(4)]
    ended: list[str] = []
    barrier = threading.Barrier(4)

    def answer(envelope: Envelope) -> None:
        barrier.wait()
        try:
            stored.world.ledger.transact(lambda batch: _recorded(stored, batch, row, envelope))
        except RemitError as problem:
            ended.append(problem.reason.value)
        else:
            ended.append("approved")

    threads = [threading.Thread(target=answer, args=(envelope,)) for envelope in envelopes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["approved", *["transition_invalid"] * 3]
    issued = stored.world.attacker.run("SELECT count(*) FROM ledger_entries WHERE kind = 'envelope.issued'")
    assert issued == [(1,)], "an envelope is recorded with the answer, or not at all"
    assert reason_of(stored.proposals.deny, row.proposal_id, ADA) is Reason.TRANSITION_INVALID


def _recorded(stored: StoredProposals, batch: Batch, row: ProposalRow, envelope: Envelope) -> None:
    """As `Plans.approve` does it."""
    batch.append(NewEntry(row.tenant_id, "envelope.issued", envelope.envelope_id, {}))
    stored.proposals.approve(batch, row.proposal_id, envelope, ADA)


def test_a_key_is_one_proposal_and_another_plan_under_it_is_refused(stored: StoredProposals) -> None:
    first = stored.propose(key="k1")
    assert stored.propose(key="k1") == first
    assert stored.propose(key="k1", proposed_by="agent:other").proposal_id != first.proposal_id
    assert reason_of(stored.propose, 2, key="k1") is Reason.IDEMPOTENCY_CONFLICT
    assert reason_of(stored.proposals.find_by_key, "agent:bot", "k1", CONFIG) is Reason.IDEMPOTENCY_CONFLICT
    stored.proposals.deny(first.proposal_id, ADA)
    assert stored.propose(key="k1").state == "DENIED", "what was answered is not asked again"


def test_it_expires_after_a_day_or_with_its_token_and_is_refused_then(stored: StoredProposals) -> None:
    world = stored.world
    short = stored.propose(not_after=world.clock.now + timedelta(minutes=1))
    long = stored.propose(2)
    envelope = stored.envelope(short)
    world.clock.now += timedelta(minutes=2)
    late = lambda: world.ledger.transact(  # noqa: E731 - without the look that would close it first
        lambda batch: stored.proposals.approve(batch, short.proposal_id, envelope, ADA)
    )
    assert reason_of(late) is Reason.APPROVAL_TIMEOUT
    assert (stored.find(short).state, stored.find(long).state) == ("EXPIRED", "PENDING")
    world.clock.now += PROPOSAL_LIFE
    assert stored.proposals.pending() == []
    assert reason_of(stored.proposals.deny, long.proposal_id, ADA) is Reason.TRANSITION_INVALID
    assert reason_of(stored.proposals.plan_of, stored.find(long)) is Reason.TRANSITION_INVALID
    world.clock.now -= timedelta(days=3)
    assert stored.find(long).state == "EXPIRED", "a clock that is set back revives nothing"
    assert world.verify().findings == []


def test_one_proposer_cannot_fill_the_inbox(stored: StoredProposals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING_OF_ONE", 2)
    monkeypatch.setattr(module, "MAX_PENDING", 3)
    first = stored.propose(1)
    stored.propose(2)
    assert reason_of(stored.propose, 3) is Reason.RESOURCE_EXHAUSTED
    stored.propose(3, proposed_by="agent:other")
    assert reason_of(stored.propose, 4, proposed_by="agent:third") is Reason.RESOURCE_EXHAUSTED
    stored.proposals.withdraw(first.proposal_id, "agent:bot")
    stored.propose(4)


def test_revoking_a_token_voids_its_pending_proposals_and_its_unused_approvals(stored: StoredProposals) -> None:
    pending, approved = stored.propose(1), stored.approve(stored.propose(2))
    other, denied = stored.propose(3, token_jti="token-2"), stored.proposals.deny(stored.propose(4).proposal_id, ADA)
    voided = stored.world.ledger.transact(lambda batch: stored.proposals.void_of_token(batch, "token-1", "os:ada"))
    states = [stored.find(row).state for row in (pending, approved, other, denied)]
    assert (voided, states) == (2, ["VOID", "VOID", "PENDING", "DENIED"])
    cancelled = stored.world.attacker.run("SELECT correlation_id FROM ledger_entries WHERE kind = 'envelope.cancelled'")
    assert cancelled == [(approved.envelope_id,)], "the envelope is void with its proposal"
    assert reason_of(stored.proposals.envelope_of, stored.find(approved)) is Reason.REVOKED
    assert stored.world.verify().findings == []


CHANGES = {
    "a yes instead of a no": """UPDATE plan_proposals SET state = 'APPROVED', envelope_id = 'e', envelope = '{}'
      WHERE state = 'DENIED'""",
    "a no to what waits": "UPDATE plan_proposals SET state = 'DENIED', decided_by = 'os:eve' WHERE state = 'PENDING'",
    "another who decided": "UPDATE plan_proposals SET decided_by = 'os:eve' WHERE state = 'APPROVED'",
    "another proposer": "UPDATE plan_proposals SET proposed_by = 'agent:eve'",
    "another plan": "UPDATE plan_proposals SET plan = '{}' WHERE state = 'PENDING'",
    "no plan": "UPDATE plan_proposals SET plan = NULL WHERE state = 'PENDING'",
    "another envelope": "UPDATE plan_proposals SET envelope = '{}' WHERE state = 'APPROVED'",
    "revived": "UPDATE plan_proposals SET state = 'APPROVED', entry_seq = entry_seq - 2 WHERE state = 'VOID'",
    "more time": "UPDATE plan_proposals SET expires_at = '2030-01-01T00:00:00.000000Z'",
    "one removed": "DELETE FROM plan_proposals WHERE state = 'PENDING'",
}


def test_every_change_past_the_guards_is_found_and_the_guards_refuse_each(stored: StoredProposals) -> None:
    stored.propose(1)
    stored.approve(stored.propose(2))
    stored.proposals.deny(stored.propose(3).proposal_id, ADA)
    stored.proposals.withdraw(stored.approve(stored.propose(4)).proposal_id, "os:ada")
    attacker = stored.world.attacker
    rows = attacker.run("SELECT * FROM plan_proposals")
    back = [(f"INSERT INTO plan_proposals VALUES ({', '.join('?' * len(row))})", row) for row in rows]
    assert stored.world.verify().findings == []
    for name, statement in CHANGES.items():
        with pytest.raises(Exception, match="append-only"):
            attacker.run(statement)
        attacker.tamper(statement)
        found = stored.world.faults()
        assert found & {RecordFault.ROW_EDITED, RecordFault.ROW_MISSING}, name
        attacker.tamper("DELETE FROM plan_proposals", *back)
    assert stored.world.verify().findings == []


def test_a_changed_row_is_not_trusted(stored: StoredProposals) -> None:
    row, approved = stored.propose(1), stored.approve(stored.propose(2))
    set_pending, set_approved = ("UPDATE plan_proposals SET %s WHERE state = '" + state + "'" for state in STATES[:2])
    again = (
        "state = 'PENDING', decided_by = NULL, decided_at = NULL, reason = NULL, envelope_id = NULL, envelope = NULL, "
    )
    forged = {
        "a plan in its place": (set_pending % "plan = '{}'", row),
        "another note": (set_pending % "note = 'safe, I swear'", row),
        "another proposer": (set_pending % "proposed_by = 'agent:other'", row),
        "a yes made up": (
            set_pending
            % "state = 'APPROVED', decided_by = 'os:eve', decided_at = created_at, envelope_id = 'x', envelope = '{}'",
            row,
        ),
        "an envelope in its place": (set_approved % "envelope = '{}'", approved),
        "another proposer of what was approved": (set_approved % "proposed_by = 'agent:other'", approved),
        "somebody else's yes": (set_approved % "decided_by = 'os:eve'", approved),
        "a yes at another time": (set_approved % "decided_at = created_at", approved),
        "another reason": (set_approved % "reason = 'because'", approved),
        "pending again": (set_approved % f"{again} entry_seq = proposed_seq", approved),
        "pending again, from a later place": (set_approved % f"{again} entry_seq = 99999999", approved),
    }
    kept = stored.world.attacker.run("SELECT * FROM plan_proposals")
    back = [(f"INSERT INTO plan_proposals VALUES ({', '.join('?' * len(each))})", each) for each in kept]
    for name, (statement, which) in forged.items():
        assert stored.find(which) == which, name
        stored.world.attacker.tamper(statement)
        is_plan = name == "a plan in its place"
        read = (lambda: stored.proposals.plan_of(stored.find(which))) if is_plan else (lambda: stored.find(which))  # noqa: B023
        assert reason_of(read) is Reason.EVIDENCE_INVALID, name
        answer = lambda: stored.proposals.deny(which.proposal_id, ADA)  # noqa: B023, E731
        assert name == "a plan in its place" or reason_of(answer) in NO_ANSWER, name
        others = [each for each in stored.proposals.newest(**ALL) if stored.proposals.is_verified(each)]
        assert len(others) == 1 + is_plan, name
        stored.world.attacker.tamper("DELETE FROM plan_proposals", *back)
    dead = stored.proposals.withdraw(approved.proposal_id, "os:ada")
    stored.world.attacker.tamper("DELETE FROM plan_proposals", *back)  # as it was before
    assert dead.state == "VOID"
    assert reason_of(stored.find, approved) is Reason.EVIDENCE_INVALID
    assert reason_of(stored.proposals.envelope_of, approved) is Reason.EVIDENCE_INVALID


def test_an_answered_proposal_gets_no_second_answer_whatever_the_row_says(stored: StoredProposals) -> None:
    """The row says that it waits, and names a place after all others: the entries say what became of it."""
    denied, approved = stored.propose(1), stored.propose(2)
    plain = stored.envelope(denied), stored.envelope(approved)
    stored.proposals.deny(denied.proposal_id, ADA)
    stored.approve(approved)
    for place in ("entry_seq", "proposed_seq", "99999999"):
        stored.world.attacker.tamper(
            "UPDATE plan_proposals SET state = 'PENDING', decided_by = NULL, decided_at = NULL, reason = NULL,"
            f" envelope_id = NULL, envelope = NULL, entry_seq = {place}"
        )
        for row, envelope in zip((denied, approved), plain, strict=True):
            work = lambda batch: stored.proposals.approve(batch, row.proposal_id, envelope, ADA)  # noqa: B023, E731
            assert reason_of(stored.world.ledger.transact, work) is Reason.EVIDENCE_INVALID, (place, row.plan_id)
            assert reason_of(stored.proposals.deny, row.proposal_id, ADA) is Reason.EVIDENCE_INVALID


def test_the_database_takes_no_step_without_its_entry(stored: StoredProposals) -> None:
    row = stored.propose()
    moved = "UPDATE plan_proposals SET state = 'DENIED', decided_by = 'os:eve', entry_seq = ? WHERE proposal_id = ?"

    def forge(batch: Batch) -> None:
        entry = batch.append(NewEntry(row.tenant_id, "proposal.denied", "another", {}))
        batch.store.execute(moved, (entry.seq, row.proposal_id))

    with pytest.raises((GuardedTableError, RemitError)):
        stored.world.ledger.transact(forge)
    assert stored.find(row).state == "PENDING"


@pytest.mark.parametrize("ahead", [False, True])
def test_a_proposal_outlives_a_clock_that_was_ahead_only_if_it_was_made_before(
    stored: StoredProposals, *, ahead: bool
) -> None:
    world, span = stored.world, timedelta(days=366)
    before = None if ahead else stored.propose()
    right = world.clock.now
    world.clock.now += span
    made = before or stored.propose()
    world.append("default", 1)
    world.clock.now = right
    if not ahead:
        with pytest.raises(RefusedError, match="behind the ledger's newest entry"):
            stored.proposals.deny(made.proposal_id, ADA)
        assert stored.find(made).state == "PENDING"
    assert accept_clock(world.ledger, ADA.id, ADA.signature, world.clock.now)
    if ahead:
        assert stored.find(made).state == "EXPIRED", "its end lies a year ahead, and so does its begin"
    else:
        assert stored.approve(made).state == "APPROVED"
    assert stored.propose(2).state == "PENDING"
    assert world.verify().findings == []
