"""Ways round the goal door that somebody has tried, each of which had worked."""

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.goals.dispatch import DispatchEnvelope
from remit.contracts.goals.packets import FINDER_PACKET, Packet, SimulationMatchPacket
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.ids import render_time
from remit.execution.engine import IncompleteError
from remit.goals import gates
from remit.goals.actions.runner import GoalActionRunner
from remit.goals.composite.layout import FIRST_STEP, find_target
from remit.goals.dispatch import AlreadyStartedError
from remit.goals.history import load_decision
from remit.goals.planner import build_envelope, build_step, idempotency_key
from remit.goals.ports import MAX_PAYLOAD, BoundActionResult
from remit.goals.replay import load_evidence, replay_decision
from remit.goals.rules import PastRules
from remit.goals.service import Reply
from remit.goals.simulation_executor import SimulationOperation
from remit.goals.trace import trace_goal
from remit.goals.user_messages import confirmation_prompt
from remit.identity.person import Person
from remit.ledger.documents import DocumentStore, StoredDocument
from remit.ledger.goal_queries import step_events
from remit.ledger.goal_tables import row_values
from tests.goals.goal_office import ANN, PING, POLICY, SIMULATIONS, TENANT, TOUCH, UNDO_ARCHIVE, Office, goal_bytes
from tests.goals.test_final_gate import NOBODY, decided
from tests.support.task_workspace import MovableClock

COUNT: dict[str, Any] = {
    **PING,
    "id": "count",
    "fields": {"n": {"type": "integer", "question": "How far?"}},
    "phrases": {"en": ["count to {n}"]},
}
COMPENSATE: dict[str, Any] = {
    **TOUCH,
    "id": "undo-copy",
    "fields": {"name": TOUCH["fields"]["name"], "of": {"type": "text", "question": "Which goal?"}},
    "phrases": {},
    "rollback": "copy-form",
    "binding": {"type": "task", "capability_id": "NO_EFFECT", "inputs": {}},
}


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, step: str) -> Iterator[None]:
    """The dispatch is left as a crash leaves it: claimed, by nobody."""

    def dies(*_: object) -> None:
        raise IncompleteError(Reason.EFFECT_FAILED, "died")

    with monkeypatch.context() as patched:
        patched.setattr(SimulationOperation, step, dies)
        with pytest.raises(IncompleteError):
            yield


@pytest.mark.req("AC-07", "AC-08")
def test_a_refusal_now_is_not_the_end_of_what_was_begun(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes to its end as it stands: done if it was done, and not begun any more if it was not."""
    desk.write_note("four")
    rounds = [
        ("one", "verify_effect", "SUCCEEDED", "policy"),
        ("two", "effect", "FAILED", "policy"),
        ("three", "verify_effect", "SUCCEEDED", "retired"),
        ("four", "effect", "FAILED", "retired"),
    ]
    for note, died_at, ended, change in rounds:
        reply = desk.ask(f"archive the note {note}")
        with dying(monkeypatch, died_at):
            desk.answer(reply)
        desk.retire("archive-note") if change == "retired" else desk.write_policy(NOBODY)
        again = desk.answer(reply).outcome.reason_code
        assert again == f"SIMULATION_{ended}"
        assert desk.events(reply.goal.correlation_id)[-2:] == ["DISPATCHED", ended]
        assert (note in desk.archived()) == (ended == "SUCCEEDED")
        assert desk.goals.recover() == []
        desk.promote("archive-note") if change == "retired" else desk.write_policy(POLICY)
        assert desk.answer(reply).outcome.reason_code == again
    assert desk.archived() == ["one", "three"]


@pytest.mark.req("AC-07")
@pytest.mark.parametrize("change, code", [("policy", "ACCESS_SCOPE_VIOLATION"), ("retired", "SIMULATION_NOT_ACTIVE")])
def test_what_changes_while_it_is_made_ready_counts(
    desk: Office, monkeypatch: pytest.MonkeyPatch, change: str, code: str
) -> None:
    prepared = GoalActionRunner.prepare

    def slow(*given: Any) -> dict[str, Any]:
        made = prepared(*given)
        desk.retire("archive-note") if change == "retired" else desk.write_policy(NOBODY)
        return made

    monkeypatch.setattr(GoalActionRunner, "prepare", slow)
    ended = desk.done("archive the note one")
    assert ended.outcome.reason_code == code
    assert desk.archived() == []
    assert desk.events(ended.goal.correlation_id)[-2:] == ["ACCESS_ALLOWED", "REFUSED"]
    assert all(one.agrees for one in desk.goals.replay(ended.goal.correlation_id, tenant=TENANT))


@pytest.mark.req("AC-07", "AC-08")
def test_a_caller_whose_request_is_refused_late_receives_the_outcome(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ask for the same; the rules change after the first has begun, and before the second is judged."""
    correlation, envelope = decided(desk, monkeypatch)
    judged = SimulationOperation.decide
    rounds: list[str] = []

    def overtaken(door: SimulationOperation, request: Any) -> Any:
        rounds.append("judged")
        if len(rounds) == 1:
            assert desk.goals.executor.dispatch(envelope).reason_code == "SIMULATION_SUCCEEDED"
            desk.write_policy(NOBODY)
        return judged(door, request)

    monkeypatch.setattr(SimulationOperation, "decide", overtaken)
    assert desk.goals.executor.dispatch(envelope).reason_code == "SIMULATION_SUCCEEDED"
    assert desk.events(correlation)[-2:] == ["DISPATCHED", "SUCCEEDED"]
    assert len(rounds) == 2


def test_a_goal_that_cannot_be_recovered_is_reported_and_stays_dispatched(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = desk.ask("archive the note one")
    with dying(monkeypatch, "verify_effect"):
        desk.answer(reply)
    desk.write_policy(NOBODY)
    monkeypatch.setattr(type(desk.goals.executor), "recover", lambda *_: [])
    with pytest.raises(AlreadyStartedError) as told:
        desk.answer(reply)
    assert "remit recover" in told.value.next_step
    assert desk.events(reply.goal.correlation_id)[-1] == "DISPATCHED"


@pytest.mark.req("AC-07")
def test_a_forged_dispatch_does_not_end_the_real_one(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    correlation, envelope = decided(desk, monkeypatch)
    forged = DispatchEnvelope.from_tree({**envelope.tree(), "required_fields": {"note": "two"}})
    assert desk.goals.executor.dispatch(forged).reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.events(correlation)[-1] == "ACCESS_ALLOWED"
    with dying(monkeypatch, "verify_effect"):
        desk.goals.executor.dispatch(envelope)
    assert desk.goals.executor.dispatch(forged).reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.events(correlation)[-1] == "DISPATCHED"
    assert desk.goals.executor.dispatch(envelope).reason_code == "SIMULATION_SUCCEEDED"
    assert desk.archived() == ["one"]


@pytest.mark.req("AC-07", "AC-13")
def test_an_unsigned_decision_is_not_dispatched(desk: Office) -> None:
    """By somebody who can write to the database and has no key: a second decision, slipped in before the last event."""
    done = desk.done("archive the note one")
    _slip_in(desk, done.goal.correlation_id, {"note": "two"})
    with pytest.raises(EnvironmentFailureError) as refused:
        desk.answer(done)
    assert refused.value.reason is Reason.EVIDENCE_INVALID
    assert desk.archived() == ["one"]


def test_what_was_refused_is_not_dispatched_whatever_the_projection_says(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    correlation, envelope = decided(desk, monkeypatch)
    desk.retire("archive-note")
    assert desk.goals.executor.dispatch(envelope).reason_code == "SIMULATION_NOT_ACTIVE"
    desk.promote("archive-note")
    with _unguarded(desk) as database:
        database.execute("UPDATE agent_execution_current SET event = 'ACCESS_ALLOWED'")
    assert desk.goals.executor.dispatch(envelope).reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.archived() == []
    assert desk.events(correlation)[-1] == "REFUSED"


@pytest.mark.req("AC-13")
def test_a_number_is_decided_on_as_it_is_kept(tmp_path: Path) -> None:
    desk = Office(tmp_path, simulations=(*SIMULATIONS, COUNT))
    asked = desk.ask("count to 3", correlation_id="model")
    for number in (1.0, -0.0, 1.5):
        name = f"float {number}"
        packet = {**asked.goal.sim_finder_packet.tree(), "correlation_id": name, "fields": {"n": number}}
        outcome = desk.goals.run(goal_bytes(asked.goal, correlation_id=name, sim_finder_packet=packet))
        assert outcome.reason_code == ("FIELDS_INVALID" if number == 1.5 else "SIMULATION_SUCCEEDED")
        assert all(one.agrees for one in desk.goals.replay(name, tenant=TENANT))
    desk.close()


@pytest.mark.req("AC-14")
def test_of_many_rollbacks_of_one_goal_at_once_one_succeeds(tmp_path: Path) -> None:
    """A compensation is an action of its own: twice would be twice."""
    desk = Office(tmp_path, simulations=(*SIMULATIONS[:4], COMPENSATE))
    done = desk.done("copy the form as mine")
    backs = [desk.goals.rollback(done.goal.correlation_id, user="mia", tenant=TENANT) for _ in range(4)]
    codes: list[str] = []

    def take(back: Reply) -> None:
        codes.append(desk.answer_or_refusal(back))

    workers = [threading.Thread(target=take, args=(back,)) for back in backs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(codes) == [*["IDEMPOTENCY_VIOLATION"] * 3, "SIMULATION_SUCCEEDED"]
    assert desk.count("SELECT count(*) FROM claims WHERE scope = 'task'") == 2
    desk.close()


def test_while_one_rollback_runs_another_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Office(tmp_path, simulations=(*SIMULATIONS[:4], COMPENSATE))
    done = desk.done("copy the form as mine")
    first, second = (desk.goals.rollback(done.goal.correlation_id, user="mia", tenant=TENANT) for _ in range(2))
    with dying(monkeypatch, "effect"):
        desk.answer(first)
    assert desk.answer(second).outcome.reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.events(second.goal.correlation_id)[-1] == "REFUSED"
    assert desk.answer(first).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert desk.events(done.goal.correlation_id)[-1] == "ROLLED_BACK"
    desk.close()


def test_an_undo_cannot_be_put_back_by_an_undo(tmp_path: Path) -> None:
    redo = {**UNDO_ARCHIVE, "id": "redo"}
    simulations = (SIMULATIONS[0], {**UNDO_ARCHIVE, "rollback": "redo"}, redo, *SIMULATIONS[2:])
    desk = Office(tmp_path, simulations=simulations)
    done = desk.done("archive the note one")
    back = desk.answer(desk.goals.rollback(done.goal.correlation_id, user="mia", tenant=TENANT))
    assert back.outcome.reason_code == "SIMULATION_SUCCEEDED"
    again = desk.answer(desk.goals.rollback(back.goal.correlation_id, user="mia", tenant=TENANT))
    assert again.outcome.reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.events(again.goal.correlation_id)[-1] == "REFUSED"
    desk.close()


def test_a_malformed_rollback_request_is_refused(desk: Office) -> None:
    done = desk.done("archive the note one")
    odd: list[dict[str, Any]] = [
        {"language": "!!"},
        {"correlation_id": "x" * 300},
        {"correlation_id": "a\u202eb"},
        {"user": ""},
    ]
    for each in odd:
        with pytest.raises(RefusedError) as refused:
            desk.goals.rollback(done.goal.correlation_id, **{"user": "mia", "tenant": TENANT, **each})
        assert refused.value.reason in {Reason.MALFORMED, Reason.TOO_LARGE}


def test_two_approvals_in_one_transaction(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is there and not signed yet when the second is looked at."""
    waiting = desk.done("copy the form as mine", user="leo").goal.correlation_id
    ledger, works = desk.workspace.ledger, []  # type: ignore[var-annotated]
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "transact", works.append)
        for who in (ANN, Person("os:bob")):
            desk.goals.approve(waiting, tenant=TENANT, who=who, approved=who is ANN)
    with pytest.raises(RefusedError) as second:
        ledger.transact(lambda batch: [work(batch) for work in works])
    assert second.value.reason is Reason.TRANSITION_INVALID


@pytest.mark.req("AC-22")
def test_more_than_a_record_can_hold_does_not_make_a_failure_of_what_was_done(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = GoalActionRunner.run
    much: dict[str, Any] = {}

    def talkative(runner: GoalActionRunner, prepared: Any, seconds: float) -> BoundActionResult:
        ended = ran(runner, prepared, seconds)
        return replace(ended, payload={**ended.payload, **much})

    monkeypatch.setattr(GoalActionRunner, "run", talkative)
    too_much = {"one": "x" * MAX_PAYLOAD, "two": [0] * 20_001, "three": json.loads("[" * 25 + "]" * 25)}
    for note, what in too_much.items():
        much["much"] = what
        done = desk.done(f"archive the note {note}").outcome
        assert done.reason_code == "SIMULATION_SUCCEEDED"
        assert done.simulation_outcome is not None
        assert done.simulation_outcome.payload["type"] == "plan"
        assert "audit_refs" in str(done.simulation_outcome.payload["left_out"])
        assert done.simulation_outcome.audit_refs


def test_what_stands_and_cannot_be_recorded_is_not_called_a_failure(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Any:
        raise RefusedError(Reason.TOO_LARGE, "too large for an entry")

    reply = desk.ask("archive the note one")
    with monkeypatch.context() as patched:
        patched.setattr(SimulationOperation, "show_outcome", full)
        with pytest.raises(IncompleteError):
            desk.answer(reply)
    assert desk.events(reply.goal.correlation_id)[-1] == "DISPATCHED"
    assert desk.answer(reply).outcome.reason_code == "SIMULATION_SUCCEEDED"


def test_the_longest_question_fits(tmp_path: Path) -> None:
    names = [f"f{number:02}{'x' * 37}" for number in range(30)]
    wide = {
        **TOUCH,
        "id": "wide",
        "title": "t" * 200,
        "fields": {name: {"type": "text", "question": "?", "max_length": 1_000} for name in names},
        "phrases": {"en": ["do the wide thing"]},
        "binding": {"type": "task", "capability_id": "NO_EFFECT", "inputs": {}},
    }
    desk = Office(tmp_path, simulations=(*SIMULATIONS, wide))
    model = desk.ask("archive the note one")
    packet = {
        **model.goal.sim_finder_packet.tree(),
        "correlation_id": "wide",
        "fields": dict.fromkeys(names, "y" * 999),
    }
    packet["candidates"] = [{"simulation_id": "wide", "score": 1}]
    outcome = desk.goals.run(goal_bytes(model.goal, correlation_id="wide", sim_finder_packet=packet))
    assert outcome.reason_code == "CONFIRMATION_REQUIRED"
    assert all(name in outcome.user_visible_text for name in names)
    assert outcome.user_visible_text.count("... (799 more characters, not shown)") == len(names)
    desk.close()


def test_a_question_names_every_value_whatever_is_opened_in_one(desk: Office) -> None:
    """Each field by itself and line by line, a host always, and a long one whole as long as there is room."""
    with desk.workspace.store.reading_pooled() as connection:
        rules = desk.goals.rules(TENANT, connection)
    entry = rules.catalogue.find("archive-note")
    assert entry is not None
    told = confirmation_prompt(
        entry,
        {"a": 'token="\nwire 10,000 to EVIL', "b": "https://u:p@evil.example/x@bank.example", "c": "x" * 900 + " END"},
        rules.lexicon,
        "en",
    ).text
    assert "wire 10,000 to EVIL" in told
    assert "b = https://u:********@evil.example/x" in told
    assert " END" in told


def test_words_that_could_not_be_kept_are_refused_at_once(desk: Office) -> None:
    """Masked, they would be longer than a goal's words may be, and nobody could ever answer."""
    model = desk.ask("archive the note one").goal
    packet = {**model.sim_finder_packet.tree(), "correlation_id": "long"}
    words = ("https://u:p@h " * 800)[:10_000]
    goal = goal_bytes(model, correlation_id="long", sim_finder_packet=packet, raw_user_utterance=words)
    assert desk.goals.run(goal).reason_code == "FIELDS_INVALID"
    assert desk.events("long") == []


def test_what_is_no_id_names_no_goal(office: Office) -> None:
    goals = office.goals
    asked: list[Callable[[str], object]] = [
        lambda name: goals.replay(name, tenant=TENANT),
        lambda name: goals.replay("some", tenant=name),
        lambda name: goals.answer(name, "yes", user="mia", tenant=TENANT),
        lambda name: goals.approve(name, tenant=TENANT, who=ANN, approved=True),
        lambda name: office.ask("are you there", reply_to=name),
        lambda name: goals.rollback(name, user="mia", tenant=TENANT),
    ]
    for name in ("\ud800", "a\x00b", "\u202e"):
        assert goals.intake(name) == []
        for ask in asked:
            with pytest.raises(RemitError):
                ask(name)


@contextmanager
def _unguarded(office: Office) -> Iterator[sqlite3.Connection]:
    """The database, past Remit and its triggers."""
    (path,) = (office.folder / "state").rglob("ledger.sqlite3")
    database = sqlite3.connect(path)
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")
    with database:
        yield database
    database.close()


def _slip_in(office: Office, correlation: str, fields: dict[str, Any]) -> None:
    with office.workspace.store.reading() as connection:
        allowed = next(one for one in step_events(connection, TENANT, correlation) if one.row.event == "ACCESS_ALLOWED")
        record = load_decision(connection, TENANT, allowed.row.dispatch_decision_hash or "")
        evidence = load_evidence(DocumentStore(connection, TENANT), PastRules(), TENANT, record)
    assert isinstance(evidence.packet, SimulationMatchPacket)
    evidence = replace(evidence, packet=evidence.packet.model_copy(update={"fields": fields}))
    assert isinstance(evidence.packet, SimulationMatchPacket)
    target = find_target(evidence.packet, evidence.catalogue, FIRST_STEP, {})
    assert target is not None
    step = build_step(evidence, target)
    proof, artifacts = record.confirmation_parse_proof_ref, record.artifact_fingerprint_bundle_ref or ""
    envelope = build_envelope(evidence, target, step, proof_ref=proof, artifacts_ref=artifacts)
    packet = StoredDocument("packet", evidence.packet.tree())
    changes = {
        "finder_packet_ref": packet.ref,
        "idempotency_key": idempotency_key(correlation, step),
        "envelope_ref": envelope.digest(),
    }
    decision = StoredDocument("decision", record.model_copy(update=changes).tree())
    row = replace(
        allowed.row,
        event_id="forged",
        idempotency_key=changes["idempotency_key"],
        finder_packet_ref=packet.ref,
        dispatch_decision_hash=decision.ref,
    )
    with _unguarded(office) as database:
        for one in (packet, decision, StoredDocument("envelope", envelope.tree())):
            database.execute(
                "INSERT INTO agent_documents (tenant_id, ref, kind, body, created_at) VALUES (?, ?, ?, ?, ?)",
                (TENANT, one.ref, one.kind, one.body, allowed.created_at),
            )
        values = {
            "tenant_id": TENANT,
            "entry_seq": allowed.seq + 1,
            "created_at": allowed.created_at,
            **row_values(row),
        }
        marks = ", ".join("?" * len(values))
        database.execute(
            f"INSERT INTO agent_execution_ledger ({', '.join(values)}) VALUES ({marks})", [*values.values()]
        )
        database.execute("UPDATE agent_execution_current SET event = 'ACCESS_ALLOWED'")


def test_a_missing_configuration_file_is_reported(desk: Office) -> None:
    settings = desk.root / "remit.yaml"
    kept = settings.read_bytes()
    for what in ("gone", "folder", "pipe"):
        settings.rmdir() if settings.is_dir() else settings.unlink()
        if what == "folder":
            settings.mkdir()
        elif what == "pipe":
            os.mkfifo(settings)
        with pytest.raises(EnvironmentFailureError) as gone:
            desk.ask("are you there")
        assert gone.value.reason is Reason.STATE_MISSING
        settings.touch()
    settings.unlink()
    settings.write_bytes(kept)
    assert desk.ask("are you there").outcome.reason_code == "SIMULATION_SUCCEEDED"


def test_settings_that_changed_count_though_their_times_were_set_back(desk: Office) -> None:
    settings = desk.root / "remit.yaml"
    assert desk.ask("are you there", user="eve").outcome.reason_code == "SIMULATION_SUCCEEDED"
    before = settings.stat()
    settings.write_text(settings.read_text().replace('"eve"', '"bob"'))
    os.utime(settings, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert desk.ask("are you there", user="eve").outcome.reason_code == "ACCESS_SCOPE_VIOLATION"


def test_a_secret_in_the_words_of_another_finder_is_masked_in_the_intake(desk: Office) -> None:
    model = desk.ask("archive the note one").goal
    about = {key: value for key, value in model.sim_finder_packet.tree().items() if key not in {"candidates", "fields"}}
    packet = {**about, "packet_type": "missing", "correlation_id": "gap", "intent": "pay with password=hunter2secret"}
    assert desk.goals.run(goal_bytes(model, correlation_id="gap", sim_finder_packet=packet)).reason_code == (
        "SIMULATION_MISSING"
    )
    assert [item.intent for item in desk.goals.intake(TENANT)] == ["pay with password=********"]


SECRET = "hunter2secret"
SAID = f"password={SECRET}"
SAY: dict[str, Any] = {
    **PING,
    "id": "say",
    "fields": {"words": {"type": "text", "question": "What?"}},
    "phrases": {"en": ["say something"]},
}


CODES = {"CLARIFY_REQUIRED", "SIMULATION_MISSING", "FIELDS_INVALID", "PACKET_INVALID", "SIMULATION_NOT_REGISTERED"}


class Foreign:
    """A Finder that says what it is told to."""

    version = "foreign-1"

    def __init__(self, model: dict[str, Any]) -> None:
        self.packet = model

    def find(self, asked: Any, _: Any) -> Any:
        return FINDER_PACKET.from_tree({**self.packet, "correlation_id": asked.correlation_id})


def _whole_database(office: Office) -> str:
    (path,) = (office.folder / "state").rglob("ledger.sqlite3")
    with closing(sqlite3.connect(path)) as database:
        return "\n".join(database.iterdump())


def _packets(office: Office) -> tuple[dict[str, Any], dict[str, Any]]:
    """A match, and what all packets have of it."""
    match = office.ask("archive the note one").goal.sim_finder_packet.tree()
    return match, {key: value for key, value in match.items() if key not in {"candidates", "fields", "packet_type"}}


@pytest.mark.req("AC-13")
def test_a_secret_in_the_words_of_another_finders_packet_is_kept_nowhere(desk: Office) -> None:
    match, about = _packets(desk)
    packets = {
        "question": {**about, "packet_type": "clarify", "question": f"Is {SAID} right?", "field": "note", "attempt": 1},
        "intent": {**about, "packet_type": "missing", "intent": f"log in with {SAID}"},
        "a field too many": {**match, "fields": {"note": "one", "notes": SAID}},
        "its name": {**match, "fields": {"note": "one", SAID: 1}},
        "deep": {**match, "fields": {"note": "one", "more": [{"password": SECRET}]}},
        "another catalogue": {**match, "catalog_snapshot_ref": "sha256:" + 64 * "0", "fields": {"note": SAID}},
        "nobody's simulation": {**match, "candidates": [{"simulation_id": "x", "score": 1}], "fields": {"note": SAID}},
    }
    for name, packet in packets.items():
        desk.goals.finder = Foreign(packet)
        reply = desk.ask("do it", correlation_id=name)
        assert reply.outcome.reason_code in CODES, name
        again = desk.goals.run(goal_bytes(reply.goal))
        assert again == reply.outcome, name
        if name == "question":  # to whoever asked it is relayed word for word
            assert again.user_visible_text == f"Is {SAID} right?"
        assert all(one.agrees for one in desk.goals.replay(name, tenant=TENANT)), name
    assert "password=********" in _whole_database(desk)
    assert SECRET not in _whole_database(desk)


def test_a_secret_in_an_id_of_another_finders_packet_is_refused(desk: Office) -> None:
    match, about = _packets(desk)
    names = ("packet_id", "catalog_snapshot_ref", "finder_version", "proof_ref", "idempotency_key")
    packets = [{**match, name: SAID} for name in names]
    packets += [
        {**match, "candidates": [*match["candidates"], {"simulation_id": SAID, "score": 0}]},
        {**about, "packet_type": "clarify", "question": "Which?", "field": SAID, "attempt": 1},
        {**about, "packet_type": "refuse", "reason_code": "AKIAIOSFODNN7EXAMPLE"},
    ]
    for number, packet in enumerate(packets):
        desk.goals.finder = Foreign(packet)
        assert desk.ask("do it", correlation_id=f"id-{number}").outcome.reason_code == "PACKET_INVALID", packet
        assert desk.events(f"id-{number}") == []
    assert SECRET not in _whole_database(desk)
    assert "AKIAIOSFODNN7EXAMPLE" not in _whole_database(desk)


@pytest.mark.req("AC-13")
def test_a_field_that_the_simulation_declares_stays_exact(tmp_path: Path) -> None:
    """It is what will be done. Whichever catalogue is in force when it is asked about again."""
    desk = Office(tmp_path, simulations=(*SIMULATIONS, SAY))
    model = desk.ask("say something").goal
    about = {key: value for key, value in model.sim_finder_packet.tree().items() if key in Packet.model_fields}
    packet = {
        **about,
        "packet_type": "match",
        "correlation_id": "said",
        "candidates": [{"simulation_id": "say", "score": 1}],
        "fields": {"words": SAID},
    }
    goal = goal_bytes(model, correlation_id="said", sim_finder_packet=packet)
    done = desk.goals.run(goal)
    assert done.reason_code == "SIMULATION_SUCCEEDED"
    desk.write_catalogue(*SIMULATIONS)
    assert desk.goals.run(goal) == done
    stored = desk.goals.stored_goal("said", user="mia", tenant=TENANT).sim_finder_packet
    assert isinstance(stored, SimulationMatchPacket)
    assert stored.fields == {"words": SAID}
    assert all(one.agrees for one in desk.goals.replay("said", tenant=TENANT))
    desk.close()


@pytest.mark.req("AC-13")
def test_why_is_kept_masked_and_bounded_and_older_decisions_have_none(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(gates, "_fields_problem", lambda *_: SAID + 2_000 * " x")
        reply = desk.ask("archive the note one")
        (decision,) = desk.goals.replay(reply.goal.correlation_id, tenant=TENANT)
    assert decision.agrees
    assert decision.because.startswith("password=********")
    assert len(decision.because) == 1_000
    # With other words for it, it is the same decision.
    with monkeypatch.context() as patched:
        patched.setattr(gates, "_fields_problem", lambda *_: "something else")
        (again,) = desk.goals.replay(reply.goal.correlation_id, tenant=TENANT)
    assert again.agrees
    waits = desk.ask("archive the note two")
    with desk.workspace.store.reading() as connection:
        record = load_decision(connection, TENANT, waits.outcome.dispatch_decision_hash).tree()
        assert trace_of(desk, reply.goal.correlation_id)["why"] == decision.because
    added = {"why", "approval_asked_at", "approval_answered_at", "approval_decided_at"}
    older = StoredDocument("decision", {key: value for key, value in record.items() if key not in added})
    with _unguarded(desk) as database:
        database.execute(
            "INSERT INTO agent_documents (tenant_id, ref, kind, body, created_at) VALUES (?, ?, ?, ?, ?)",
            (TENANT, older.ref, older.kind, older.body, ""),
        )
    with desk.workspace.store.reading() as connection:
        assert replay_decision(connection, PastRules(), TENANT, older.ref).record.why is None


def trace_of(office: Office, correlation: str) -> dict[str, Any]:
    """What the last node of a goal's trace says."""
    with office.workspace.store.reading() as connection:
        root = trace_goal(connection, lambda: office.workspace.keyring, TENANT, correlation)
    assert root is not None
    return dict(root.children[-1].facts)


@pytest.mark.req("AC-06")
def test_what_was_asked_long_ago_cannot_be_made_younger_in_the_database(desk: Office, clock: MovableClock) -> None:
    waiting = desk.done("copy the form as mine", user="leo").goal.correlation_id
    desk.goals.approve(waiting, tenant=TENANT, who=ANN, approved=True)
    clock.offset = timedelta(minutes=11)
    with _unguarded(desk) as database:
        database.execute(
            "UPDATE agent_execution_ledger SET created_at = ? WHERE event = 'APPROVAL_REQUESTED'",
            (render_time(clock()),),
        )
    with pytest.raises(EnvironmentFailureError) as refused:
        desk.goals.answer(waiting, None, user="leo", tenant=TENANT)
    assert refused.value.reason is Reason.EVIDENCE_INVALID
    assert not (desk.base / "mine.txt").exists()
