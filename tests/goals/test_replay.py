"""Every decision can be made again from what was kept of it, under the rules of its time; or fails closed."""

import contextlib
import json
from functools import partial
from typing import Any

import pytest

from remit.core.canonical import digest
from remit.goals import core
from remit.goals.gates import Evidence
from remit.goals.replay import REPLAY_CODE
from remit.goals.simulation_executor import SimulationExecutor
from remit.store.connection import GuardedTableError
from tests.goals.goal_office import POLICY, TENANT, Office, goal_bytes

EVERYBODY = POLICY + '\n@id("open-door")\npermit (principal, action, resource);\n'
NOBODY = '@id("closed")\nforbid (principal, action, resource);\n'


def agreeing(office: Office, correlation: str) -> list[tuple[str, bool]]:
    return [(one.event, one.agrees) for one in office.goals.replay(correlation, tenant=TENANT)]


@pytest.mark.req("AC-13", "AC-23")
def test_every_kind_of_decision_replays(office: Office) -> None:
    cases = [
        office.done("archive the note one"),
        office.done("are you there"),
        office.ask("archive the note"),
        office.ask("order a pizza"),
        office.ask(""),
        office.done("archive the note two", user="eve"),
        office.done("archive the note two", "no"),
        office.done("archive the note two", "okay"),
        office.ask("copy the form as x", user="leo"),
    ]
    codes = {reply.outcome.reason_code for reply in cases}
    assert len(codes) == 8
    for reply in cases:
        replayed = agreeing(office, reply.goal.correlation_id)
        assert replayed
        assert all(agrees for _, agrees in replayed), (reply.outcome.reason_code, replayed)


@pytest.mark.req("AC-13")
def test_after_a_policy_change_the_old_decision_replays_under_the_old_snapshot(office: Office) -> None:
    allowed = office.done("archive the note one")
    denied = office.done("archive the note two", user="eve")
    office.write_policy(NOBODY)
    assert office.done("archive the note two").outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    office.write_policy(EVERYBODY)
    assert office.done("archive the note three", user="eve").outcome.reason_code == "SIMULATION_SUCCEEDED"
    office.retire("archive-note")
    office.write_catalogue()
    for reply, last in ((allowed, "SUCCEEDED"), (denied, "REFUSED")):
        replayed = agreeing(office, reply.goal.correlation_id)
        assert replayed[-1] == (last, True)
    again = office.answer(allowed, None)
    assert again.outcome.simulation_outcome == allowed.outcome.simulation_outcome


@pytest.mark.req("AC-13", "AC-02")
def test_a_decision_of_the_first_version_of_the_gates_replays_by_its_own_rules(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refused a packet without scores. A decision of that time has no version in its document."""
    asked = desk.ask("are you there")
    packet = asked.goal.sim_finder_packet.tree()
    packet |= {"correlation_id": "old", "candidates": [{"simulation_id": "ping"}, {"simulation_id": "copy-form"}]}
    monkeypatch.setattr(core, "Evidence", partial(Evidence, gates_version=1))
    old = desk.goals.run(goal_bytes(asked.goal, correlation_id="old", sim_finder_packet=packet))
    monkeypatch.undo()
    assert old.reason_code == "CANDIDATES_UNRESOLVED"
    assert agreeing(desk, "old") == [("REFUSED", True)]
    packet["correlation_id"] = "new"
    new = desk.goals.run(goal_bytes(asked.goal, correlation_id="new", sim_finder_packet=packet))
    assert new.reason_code == "SIMULATION_SUCCEEDED"
    assert all(agrees for _, agrees in agreeing(desk, "new"))


SNAPSHOTS = ["policy", "catalogue", "lexicon", "packet", "decision", "confirmation", "goal", "plan", "envelope"]


@pytest.mark.req("AC-13")
@pytest.mark.parametrize("kind", SNAPSHOTS)
def test_a_lost_document_fails_closed_with_the_replay_code(
    desk: Office, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Lost after the decision and before the dispatch: nothing is done any more, whatever is in a cache."""
    reply = desk.ask("archive the note one")
    with monkeypatch.context() as patched:
        patched.setattr(SimulationExecutor, "dispatch", _dies)
        with pytest.raises(KeyboardInterrupt):
            desk.answer(reply, "yes")
    assert desk.events(reply.goal.correlation_id)[-1] == "ACCESS_ALLOWED"
    lose(desk, kind)
    assert desk.answer_or_refusal(reply) == REPLAY_CODE
    assert desk.archived() == []
    replayed = desk.goals.replay(reply.goal.correlation_id, tenant=TENANT)
    assert kind == "envelope" or any("is missing" in one.why for one in replayed)


def _dies(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.req("AC-13")
def test_a_decision_that_comes_out_differently_is_not_dispatched(desk: Office) -> None:
    """Somebody who can write to the database puts in a decision of his own, and has no key."""
    reply = desk.done("archive the note one", user="eve")
    with unguarded(desk) as connection:
        rows = list(connection.rows("SELECT ref, body FROM agent_documents WHERE kind = 'decision'"))
        for ref, body in rows:
            tree = json.loads(body)
            if tree["event"] == "REFUSED":
                forged = {**tree, "event": "ACCESS_ALLOWED", "reason_code": "ACCESS_ALLOWED"}
                connection.execute("UPDATE agent_documents SET body = ? WHERE ref = ?", (json.dumps(forged), ref))
    replayed = desk.goals.replay(reply.goal.correlation_id, tenant=TENANT)
    assert [one.agrees for one in replayed][-1] is False
    assert "was changed" in replayed[-1].why


@pytest.mark.req("AC-13")
def test_a_forged_row_is_not_believed(desk: Office) -> None:
    """The row points to a whole forged decision, digest and all: what it lacks is a signed entry."""
    reply = desk.ask("archive the note one", user="eve")
    desk.answer(reply, "yes")
    with unguarded(desk) as connection:
        row = connection.one(
            "SELECT ref, body FROM agent_documents WHERE kind = 'decision' AND body LIKE '%\"event\":\"REFUSED\"%'"
        )
        assert row is not None
        forged = json.loads(row[1])
        forged.update(event="ACCESS_ALLOWED", reason_code="ACCESS_ALLOWED")
        text = json.dumps(forged, sort_keys=True, separators=(",", ":"))
        connection.execute(
            "INSERT INTO agent_documents (tenant_id, ref, kind, body, created_at) VALUES (?, ?, ?, ?, '')",
            (TENANT, digest(forged), "decision", text),
        )
        connection.execute(
            "UPDATE agent_execution_ledger SET event = 'ACCESS_ALLOWED', dispatch_decision_hash = ?"
            " WHERE event = 'REFUSED'",
            (digest(forged),),
        )
    outcome = desk.answer_or_refusal(reply)
    assert outcome == "evidence_invalid"
    assert desk.archived() == []
    assert not desk.workspace.verify_ledger().holds


@pytest.mark.req("AC-09")
def test_documents_are_append_only(office: Office) -> None:
    office.ask("are you there")
    connection = office.workspace.store.connect()
    try:
        for sql in (
            "UPDATE agent_documents SET body = '{}'",
            "DELETE FROM agent_documents",
        ):
            connection.begin(write=True)
            with pytest.raises(GuardedTableError):
                connection.execute(sql)
            connection.rollback()
    finally:
        connection.close()


def test_verify_finds_a_changed_document(desk: Office) -> None:
    desk.ask("are you there")
    assert desk.workspace.verify_ledger().holds
    with unguarded(desk) as connection:
        connection.execute("UPDATE agent_documents SET body = '{}' WHERE kind = 'packet'")
    findings = desk.workspace.verify_ledger().findings
    assert any("agent_documents" in finding.what for finding in findings)


def lose(office: Office, kind: str) -> None:
    with unguarded(office) as connection:
        assert connection.execute("DELETE FROM agent_documents WHERE kind = ?", (kind,)) > 0


@contextlib.contextmanager
def unguarded(office: Office) -> Any:
    """Whoever can write to the file can drop its triggers, too."""
    connection = office.workspace.store.connect()
    names = [
        (row[0], row[1])
        for row in connection.rows(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            " AND tbl_name IN ('agent_documents', 'agent_execution_ledger')"
        )
    ]
    connection.begin(write=True)
    for name, _ in names:
        connection.script(f"DROP TRIGGER {name}")
    yield connection
    for _, sql in names:
        connection.script(sql)
    connection.commit()
    connection.close()
