"""The SimulationExecutor asks for itself, as things are when it is about to act, and believes no envelope."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.goals import simulation_executor
from remit.goals.core import AgentCore
from remit.goals.replay import RecreatedDecision, replay_decision
from remit.ledger.documents import load_document
from remit.ledger.goal_queries import step_events
from tests.goals.goal_office import ARCHIVE, POLICY, SIMULATIONS, TENANT, Office

NOBODY = '@id("closed")\nforbid (principal, action, resource);\n'
APPROVAL = POLICY.replace('@id("mia-archives")\npermit', '@id("mia-archives")\n@verdict("approval_required")\npermit')


def decided(office: Office, monkeypatch: pytest.MonkeyPatch) -> tuple[str, DispatchEnvelope]:
    """A goal that was let through, and whose process stopped right there."""
    reply = office.ask("archive the note one")
    with monkeypatch.context() as patched:
        patched.setattr(AgentCore, "_dispatch", lambda *_: reply.outcome)
        office.answer(reply, "yes")
    correlation = reply.goal.correlation_id
    with office.workspace.store.reading() as connection:
        last = step_events(connection, TENANT, correlation)[-1].row
        assert last.event == "ACCESS_ALLOWED"
        record = load_document(connection, TENANT, last.dispatch_decision_hash or "")
        envelope = DispatchEnvelope.from_tree(load_document(connection, TENANT, record["envelope_ref"]))
    return correlation, envelope


CHANGES: Final = {
    "policy": "ACCESS_SCOPE_VIOLATION",
    "approval": "ACCESS_AP_REQUIRED",
    "retired": "SIMULATION_NOT_ACTIVE",
    "edited": "PACKET_INVALID",
    "user": "ACCESS_SCOPE_VIOLATION",
}


@pytest.mark.req("AC-07")
def test_what_changed_since_the_decision_counts(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    for change, code in CHANGES.items():
        correlation, envelope = decided(office, monkeypatch)
        changed(office, change)
        assert (change, office.goals.executor.dispatch(envelope).reason_code) == (change, code)
        assert office.events(correlation)[-1] == "REFUSED"
        replayed = office.goals.replay(correlation, tenant=TENANT)
        assert [(one.event, one.reason_code) for one in replayed][-1] == ("REFUSED", code)
        assert all(one.agrees for one in replayed), replayed
        changed_back(office, change)
    assert office.archived() == []
    assert office.count("SELECT count(*) FROM claims") == 0


def changed(office: Office, what: str) -> None:
    if what == "policy":
        office.write_policy(NOBODY)
    elif what == "approval":
        office.write_policy(APPROVAL)
    elif what == "retired":
        office.retire("archive-note")
    elif what == "edited":
        office.write_catalogue({**ARCHIVE, "title": "Something else"}, *SIMULATIONS[1:])
    else:
        office.write_policy(POLICY.replace('"acme/mia"', '"acme/eve"'))


def changed_back(office: Office, what: str) -> None:
    office.write_policy(POLICY)
    office.write_catalogue(*SIMULATIONS)
    if what == "retired":
        office.promote("archive-note")


@pytest.mark.req("AC-05", "AC-07")
def test_a_dispatch_without_the_users_confirmation_is_refused(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The final gate asks no user. Without the answer in the evidence of the decision it refuses the dispatch."""

    def without_answer(*arguments: Any) -> RecreatedDecision:
        found = replay_decision(*arguments)
        return found._replace(evidence=replace(found.evidence, answered=None))

    correlation, envelope = decided(office, monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(simulation_executor, "replay_decision", without_answer)
        assert office.goals.executor.dispatch(envelope).reason_code == "CONFIRMATION_MISSING"
    assert office.events(correlation)[-1] == "REFUSED"
    assert office.archived() == []


@pytest.mark.req("AC-07")
def test_rules_that_cannot_be_read_any_more_let_nothing_through(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broken in ("catalogue", "policy"):
        correlation, envelope = decided(office, monkeypatch)
        if broken == "policy":
            (office.root / "access.cedar").unlink()
        else:
            office.write_catalogue(*SIMULATIONS[2:])  # and the policy names an action that there is no more
        assert office.goals.executor.dispatch(envelope).reason_code == "ACCESS_SCOPE_VIOLATION"
        assert office.events(correlation)[-1] == "REFUSED"
        changed_back(office, broken)
    assert office.archived() == []


@pytest.mark.req("AC-07")
def test_nothing_changed_and_it_is_dispatched(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    correlation, envelope = decided(office, monkeypatch)
    assert office.goals.executor.dispatch(envelope).reason_code == "SIMULATION_SUCCEEDED"
    assert office.archived() == ["one"]
    assert office.events(correlation)[-2:] == ["DISPATCHED", "SUCCEEDED"]


FORGED: Final[dict[str, Any]] = {
    "correlation_id": "another",
    "user_id": "eve",
    "tenant_id": "globex",
    "step_id": "step-2",
    "simulation_id": "copy-form",
    "required_fields": {"note": "two"},
    "confirmation_proof_ref": None,
    "access_action": "ping",
    "idempotency_key": "another",
    "policy_snapshot_ref": "another",
    "artifact_fingerprint_bundle_ref": "another",
    "rollback_plan_ref": None,
}


@pytest.mark.req("AC-07", "AC-08")
def test_an_envelope_without_a_decision_is_refused(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    correlation, envelope = decided(office, monkeypatch)
    assert set(FORGED) == set(envelope.tree())
    for name, value in FORGED.items():
        forged = DispatchEnvelope.from_tree({**envelope.tree(), name: value})
        assert (name, office.goals.executor.dispatch(forged).reason_code) == (name, "IDEMPOTENCY_VIOLATION")
        assert office.events(correlation)[-1] == "ACCESS_ALLOWED"
    assert office.archived() == []
    assert sorted(office.notes()) == ["one", "three", "two"]
    assert office.count("SELECT count(*) FROM claims") == 0


@pytest.mark.req("AC-07")
def test_a_confirmation_is_for_its_own_step(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof of another goal's yes does not open this one."""
    first, _ = decided(office, monkeypatch)
    other = office.ask("archive the note two")
    with office.workspace.store.reading() as connection:
        proof = step_events(connection, TENANT, first)[-1].row.confirmation_parse_proof_ref
        row = step_events(connection, TENANT, other.goal.correlation_id)[-1].row
    envelope = DispatchEnvelope(
        correlation_id=other.goal.correlation_id,
        tenant_id=TENANT,
        user_id="mia",
        step_id="step-1",
        simulation_id="archive-note",
        required_fields={"note": "two"},
        confirmation_proof_ref=proof,
        access_action="archive_note",
        idempotency_key=row.idempotency_key,
        policy_snapshot_ref=row.policy_snapshot_ref or "",
        artifact_fingerprint_bundle_ref=row.artifact_fingerprint_bundle_ref or "",
        rollback_plan_ref=row.rollback_plan_ref,
    )
    assert office.goals.executor.dispatch(envelope).reason_code == "IDEMPOTENCY_VIOLATION"
    assert office.archived() == []


@pytest.mark.req("AC-05", "AC-07")
def test_a_confirmation_that_is_not_used_in_time_expires(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    correlation, envelope = decided(office, monkeypatch)
    clock: Any = office.clock
    clock.offset = timedelta(minutes=11)
    outcome = office.goals.executor.dispatch(envelope)
    assert outcome.reason_code == "CONFIRMATION_EXPIRED"
    assert office.archived() == []
    assert office.events(correlation)[-1] == "REFUSED"


@pytest.mark.req("AC-05")
def test_a_user_can_still_refuse_a_goal_that_was_allowed_and_has_not_begun(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    correlation, envelope = decided(office, monkeypatch)
    refused = office.goals.answer(correlation, "no", user="mia", tenant=TENANT)
    assert refused.outcome.reason_code == "CONFIRMATION_REFUSED"
    assert office.events(correlation)[-1] == "REFUSED"
    assert office.goals.executor.dispatch(envelope).reason_code == "IDEMPOTENCY_VIOLATION"
    assert office.goals.answer(correlation, "yes", user="mia", tenant=TENANT).outcome.reason_code == (
        "CONFIRMATION_REFUSED"
    )
    assert office.archived() == []
    assert all(one.agrees for one in office.goals.replay(correlation, tenant=TENANT))
