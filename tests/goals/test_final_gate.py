"""The SimulationExecutor asks for itself, as things are when it is about to act, and believes no envelope."""

from datetime import timedelta
from typing import Any

import pytest

from remit.agent.core import AgentCore
from remit.contracts.dispatch import DispatchEnvelope
from remit.ledger.agent_reading import step_events
from remit.ledger.documents import load_document
from tests.goals.office import ARCHIVE, POLICY, SIMULATIONS, TENANT, Office

NOBODY = '@id("closed")\nforbid (principal, action, resource);\n'
APPROVAL = POLICY.replace('@id("mia-archives")\npermit', '@id("mia-archives")\n@verdict("approval_required")\npermit')


def decided(office: Office, monkeypatch: pytest.MonkeyPatch) -> tuple[str, DispatchEnvelope]:
    """A goal that was let through, and whose process stopped right there."""
    reply = office.ask("archive the note one")
    with monkeypatch.context() as patched:
        patched.setattr(AgentCore, "_dispatched", lambda *_: reply.outcome)
        office.answer(reply, "yes")
    correlation = reply.goal.correlation_id
    with office.workspace.store.reading() as connection:
        last = step_events(connection, TENANT, correlation)[-1].row
        assert last.event == "ACCESS_ALLOWED"
        record = load_document(connection, TENANT, last.dispatch_decision_hash or "")
        envelope = DispatchEnvelope.from_tree(load_document(connection, TENANT, record["envelope_ref"]))
    return correlation, envelope


@pytest.mark.req("AC-07")
@pytest.mark.parametrize(
    "change, code",
    [
        ("policy", "ACCESS_SCOPE_VIOLATION"),
        ("approval", "ACCESS_AP_REQUIRED"),
        ("retired", "SIMULATION_NOT_ACTIVE"),
        ("edited", "PACKET_INVALID"),
        ("user", "ACCESS_SCOPE_VIOLATION"),
    ],
)
def test_what_changed_since_the_decision_counts(
    desk: Office, monkeypatch: pytest.MonkeyPatch, change: str, code: str
) -> None:
    correlation, envelope = decided(desk, monkeypatch)
    changed(desk, change)
    outcome = desk.goals.executor.dispatch(envelope)
    assert outcome.reason_code == code
    assert desk.archived() == []
    assert desk.events(correlation)[-1] == "REFUSED"
    assert desk.count("SELECT count(*) FROM claims") == 0
    replayed = desk.goals.replay(correlation, tenant=TENANT)
    assert [(one.event, one.reason_code) for one in replayed][-1] == ("REFUSED", code)
    assert all(one.agrees for one in replayed), replayed


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


@pytest.mark.req("AC-07")
@pytest.mark.parametrize("broken", ["catalogue", "policy"])
def test_rules_that_cannot_be_read_any_more_let_nothing_through(
    desk: Office, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    correlation, envelope = decided(desk, monkeypatch)
    if broken == "policy":
        (desk.root / "access.cedar").unlink()
    else:
        desk.write_catalogue(*SIMULATIONS[2:])  # and the policy names an action that there is no more
    assert desk.goals.executor.dispatch(envelope).reason_code == "ACCESS_SCOPE_VIOLATION"
    assert desk.archived() == []
    assert desk.events(correlation)[-1] == "REFUSED"


@pytest.mark.req("AC-07")
def test_nothing_changed_and_it_is_dispatched(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    correlation, envelope = decided(office, monkeypatch)
    assert office.goals.executor.dispatch(envelope).reason_code == "SIMULATION_SUCCEEDED"
    assert office.archived() == ["one"]
    assert office.events(correlation)[-2:] == ["DISPATCHED", "SUCCEEDED"]


@pytest.mark.req("AC-07", "AC-08")
@pytest.mark.parametrize(
    "changes",
    [
        {"correlation_id": "another"},
        {"user_id": "eve"},
        {"tenant_id": "globex"},
        {"step_id": "step-2"},
        {"simulation_id": "copy-form"},
        {"required_fields": {"note": "two"}},
        {"confirmation_proof_ref": None},
        {"access_action": "ping"},
        {"idempotency_key": "another"},
        {"policy_snapshot_ref": "another"},
        {"artifact_fingerprint_bundle_ref": "another"},
        {"rollback_plan_ref": None},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_envelope_that_nobody_decided_is_refused(
    desk: Office, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    _, envelope = decided(desk, monkeypatch)
    forged = DispatchEnvelope.from_tree({**envelope.tree(), **changes})
    outcome = desk.goals.executor.dispatch(forged)
    assert outcome.reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.archived() == []
    assert sorted(desk.notes()) == ["one", "three", "two"]
    assert desk.count("SELECT count(*) FROM claims") == 0


@pytest.mark.req("AC-07")
def test_a_confirmation_is_for_its_own_step(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof of another goal's yes does not open this one."""
    first, _ = decided(desk, monkeypatch)
    other = desk.ask("archive the note two")
    with desk.workspace.store.reading() as connection:
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
    assert desk.goals.executor.dispatch(envelope).reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.archived() == []


@pytest.mark.req("AC-05", "AC-07")
def test_a_yes_that_was_left_lying_is_no_yes_any_more(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    correlation, envelope = decided(desk, monkeypatch)
    clock: Any = desk.clock
    clock.offset = timedelta(minutes=11)
    outcome = desk.goals.executor.dispatch(envelope)
    assert outcome.reason_code == "CONFIRMATION_EXPIRED"
    assert desk.archived() == []
    assert desk.events(correlation)[-1] == "REFUSED"


@pytest.mark.req("AC-05")
def test_a_no_to_what_was_let_through_and_not_begun_counts(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    correlation, envelope = decided(desk, monkeypatch)
    refused = desk.goals.answer(correlation, "no", user="mia", tenant=TENANT)
    assert refused.outcome.reason_code == "CONFIRMATION_REFUSED"
    assert desk.events(correlation)[-1] == "REFUSED"
    assert desk.goals.executor.dispatch(envelope).reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.goals.answer(correlation, "yes", user="mia", tenant=TENANT).outcome.reason_code == (
        "CONFIRMATION_REFUSED"
    )
    assert desk.archived() == []
    assert all(one.agrees for one in desk.goals.replay(correlation, tenant=TENANT))
