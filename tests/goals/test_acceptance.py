"""AT-AGENT-01 to AT-AGENT-13, on both stores; and to each a twin, in which the rule is broken and that is noticed.

AT-AGENT-14 to AT-AGENT-22, about goals with several steps, are in the folder `composite`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from remit.contracts.goals.dispatch import DispatchEnvelope, SimulationOutcome
from remit.contracts.goals.goal import KEY_RECIPE
from remit.contracts.goals.packets import SimulationMatchPacket
from remit.core.canonical import digest
from remit.core.errors import RemitError
from remit.goals import core, gates, planner
from remit.goals.composite.layout import FIRST_STEP, find_target
from remit.goals.confirmation.parser import Lexicon, ParsedConfirmation
from remit.goals.core import AgentCore
from remit.goals.gates import Evidence, GateVerdict
from remit.goals.messages.catalogue import UserText
from remit.goals.simulation_executor import SimulationExecutor
from remit.ledger import projections
from remit.ledger.entry import Entry
from remit.ledger.goal_tables import append_agent_row
from remit.ledger.projections import projection_drift, rebuild
from remit.store.connection import GuardedTableError
from tests.goals.goal_office import TENANT, Office, goal_bytes

Check = Callable[[Office], None]
DISPATCHED = "SELECT count(*) FROM agent_execution_ledger WHERE event = 'DISPATCHED'"


def is_caught(check: Check, office: Office) -> None:
    """The rule is broken: its own test must see that, or Remit itself must refuse to go on."""
    with pytest.raises((AssertionError, RemitError, GuardedTableError)):
        check(office)


class Calls:
    """Every dispatch that reaches the SimulationExecutor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[DispatchEnvelope] = []
        real = SimulationExecutor.dispatch

        def dispatch(executor: SimulationExecutor, envelope: DispatchEnvelope, attempt: int = 1) -> SimulationOutcome:
            self.seen.append(envelope)
            return real(executor, envelope, attempt)

        monkeypatch.setattr(SimulationExecutor, "dispatch", dispatch)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


# --- 01: one dispatch for a packet with one step --------------------------------------------------------------------


def check_01(office: Office) -> None:
    reply = office.done("archive the note one")
    assert reply.outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert reply.outcome.next_step is None
    assert office.archived() == ["one"]
    assert office.notes() == ["three", "two"]
    assert office.count(DISPATCHED) == 1
    assert office.events(reply.goal.correlation_id) == [
        "PLANNED",
        "CONFIRMATION_REQUESTED",
        "CONFIRMED",
        "ACCESS_ALLOWED",
        "DISPATCHED",
        "SUCCEEDED",
    ]


@pytest.mark.req("AC-15", "AC-01", "AC-22")
def test_at_agent_01_single_step_dispatch(office: Office) -> None:
    check_01(office)


@pytest.mark.req("AC-15")
def test_at_agent_01_twin_a_second_dispatch_is_noticed(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """A goal may have several steps now, if its packet names them. A packet with one step still has one dispatch."""
    real = AgentCore._dispatch  # noqa: SLF001 - the rule is broken where it stands
    more = ["archive the note two"]

    def twice(self: AgentCore, *given: Any) -> Any:
        if more:
            desk.done(more.pop())
        return real(self, *given)

    monkeypatch.setattr(AgentCore, "_dispatch", twice)
    is_caught(check_01, desk)


# --- 02: no confirmation, no dispatch -------------------------------------------------------------------------------


def check_02(office: Office) -> None:
    asked = office.ask("archive the note one")
    assert asked.outcome.reason_code == "CONFIRMATION_REQUIRED"
    assert "Archive a note" in asked.outcome.user_visible_text
    assert "note = one" in asked.outcome.user_visible_text
    assert office.answer(asked, None).outcome.reason_code == "CONFIRMATION_REQUIRED"
    assert office.answer(asked, "okay").outcome.reason_code == "CONFIRMATION_AMBIGUOUS"
    assert office.archived() == []
    assert office.count(DISPATCHED) == 0
    assert office.answer(asked, "yes").outcome.reason_code == "SIMULATION_SUCCEEDED"
    refused = office.ask("archive the note two")
    assert office.answer(refused, "no").outcome.reason_code == "CONFIRMATION_REFUSED"
    assert office.answer(refused, "yes").outcome.reason_code == "CONFIRMATION_REFUSED"
    assert office.archived() == ["one"]


@pytest.mark.req("AC-15", "AC-05")
def test_at_agent_02_confirm_required_before_impactful_sim(office: Office) -> None:
    check_02(office)


@pytest.mark.req("AC-15")
def test_at_agent_02_twin_an_impactful_one_that_needs_no_confirmation_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "needs_confirmation", lambda _: False)
    is_caught(check_02, desk)


# --- 03: access -----------------------------------------------------------------------------------------------------


def check_03(office: Office) -> None:
    reply = office.done("archive the note one", user="eve")
    assert reply.outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    assert reply.outcome.simulation_outcome is None
    assert office.archived() == []
    assert office.count(DISPATCHED) == 0
    assert office.events(reply.goal.correlation_id)[-1] == "REFUSED"
    denied = "SELECT count(*) FROM agent_execution_access_decision_ledger WHERE verdict = 'DENIED'"
    assert office.count(denied) == 1


@pytest.mark.req("AC-15", "AC-06")
def test_at_agent_03_access_deny_fail_closed(office: Office) -> None:
    check_03(office)


@pytest.mark.req("AC-15", "AC-07")
def test_at_agent_03_twin_a_gate_that_admits_every_user_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = gates.decide

    def lets_in(evidence: Evidence) -> GateVerdict:
        verdict = real(evidence)
        return dataclasses.replace(verdict, event="ACCESS_ALLOWED") if verdict.access is not None else verdict

    monkeypatch.setattr(core, "decide", lets_in)
    is_caught(check_03, desk)
    assert desk.archived() == []  # the executor asked for itself


# --- 04: ACTIVE -----------------------------------------------------------------------------------------------------


def check_04(office: Office) -> None:
    office.retire("archive-note")
    reply = office.done("archive the note one")
    assert reply.outcome.reason_code == "SIMULATION_NOT_ACTIVE"
    other = office.done("are you there", tenant="globex")
    assert other.outcome.reason_code == "SIMULATION_NOT_ACTIVE"
    assert office.archived() == []
    assert office.count(DISPATCHED) == 0


@pytest.mark.req("AC-15", "AC-06")
def test_at_agent_04_sim_not_active_fail_closed(office: Office) -> None:
    check_04(office)


@pytest.mark.req("AC-15", "AC-07")
def test_at_agent_04_twin_a_gate_that_takes_any_state_is_noticed(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    real = gates.decide

    def any_state(evidence: Evidence) -> GateVerdict:
        verdict = real(evidence)
        is_inactive = verdict.reason_code == "SIMULATION_NOT_ACTIVE"
        return dataclasses.replace(verdict, event="ACCESS_ALLOWED") if is_inactive else verdict

    monkeypatch.setattr(core, "decide", any_state)
    is_caught(check_04, desk)
    assert desk.archived() == []


# --- 05: once -------------------------------------------------------------------------------------------------------


def check_05(office: Office) -> None:
    first = office.done("archive the note one")
    again = office.answer(first, "yes")
    with_another_process = office.opened()
    third = with_another_process.goals.answer(first.goal.correlation_id, None, user="mia", tenant=TENANT)
    with_another_process.close()
    assert first.outcome.simulation_outcome == again.outcome.simulation_outcome == third.outcome.simulation_outcome
    assert first.outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert office.count(DISPATCHED) == 1
    assert office.count("SELECT count(*) FROM ledger_entries WHERE kind = 'plan.intent'") == 1
    assert office.archived() == ["one"]


@pytest.mark.req("AC-15", "AC-08")
def test_at_agent_05_idempotent_retry_safe(office: Office) -> None:
    check_05(office)


@pytest.mark.req("AC-15", "AC-08")
def test_at_agent_05_twin_a_key_that_is_new_each_time_is_noticed(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100))

    def dispatch(executor: SimulationExecutor, envelope: DispatchEnvelope, attempt: int = 1) -> SimulationOutcome:
        changed = envelope.model_copy(update={"idempotency_key": f"key-{next(numbers)}"})
        return real(executor, changed, attempt)

    real = SimulationExecutor.dispatch
    monkeypatch.setattr(SimulationExecutor, "dispatch", dispatch)
    is_caught(check_05, desk)


# --- 06: one question -----------------------------------------------------------------------------------------------


def check_06(office: Office) -> None:
    asked = office.ask("archive the note")
    packet = asked.goal.sim_finder_packet
    assert asked.outcome.reason_code == "CLARIFY_REQUIRED"
    assert asked.outcome.user_visible_text == "Which note?" == getattr(packet, "question", "")
    assert getattr(packet, "attempt", 0) == 1
    assert asked.outcome.step_id is None
    assert office.events(asked.goal.correlation_id) == ["CLARIFIED"]
    second = office.ask("two", reply_to=asked.goal.correlation_id)
    assert second.goal.thread_id == asked.goal.thread_id
    assert second.goal.attempt_counter == 1
    assert office.answer(second).outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert office.archived() == ["two"]


@pytest.mark.req("AC-15", "AC-03")
def test_at_agent_06_clarify_one_question_rule(office: Office) -> None:
    check_06(office)


@pytest.mark.req("AC-15", "AC-03")
def test_at_agent_06_twin_another_question_is_noticed(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    from remit.goals import outcomes  # noqa: PLC0415 - patched here only

    real = outcomes._text  # noqa: SLF001 - the rule is broken where it stands
    monkeypatch.setattr(outcomes, "_text", lambda *given: UserText(real(*given).text + " And when?", None))
    is_caught(check_06, desk)


# --- 07 and 12: requests that no simulation covers -------------------------------------------------------------------


def check_07(office: Office) -> None:
    reply = office.ask("order a pizza, password: hunter2hunter2")
    assert reply.outcome.reason_code == "SIMULATION_MISSING"
    assert reply.outcome.simulation_outcome is None
    assert "was recorded" in reply.outcome.user_visible_text
    assert office.events(reply.goal.correlation_id) == ["ESCALATED"]
    assert office.goals.intake(TENANT)[0].count == 1
    office.ask("order a pizza, password: hunter2hunter2")
    assert [item.count for item in office.goals.intake(TENANT)] == [2]
    assert "hunter2" not in str(office.goals.intake(TENANT))


@pytest.mark.req("AC-15", "AC-04")
def test_at_agent_07_missing_simulation_escalates_to_dev_intake(office: Office) -> None:
    check_07(office)


@pytest.mark.req("AC-15", "AC-04")
def test_at_agent_07_twin_a_gap_that_is_only_refused_is_noticed(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    real = gates.decide

    def refuses(evidence: Evidence) -> GateVerdict:
        verdict = real(evidence)
        return dataclasses.replace(verdict, event="REFUSED") if verdict.event == "ESCALATED" else verdict

    monkeypatch.setattr(core, "decide", refuses)
    is_caught(check_07, desk)


@pytest.mark.req("AC-15", "AC-04")
def test_at_agent_12_missing_simulation_never_calls_simulation_executor(office: Office, calls: Calls) -> None:
    reply = office.ask("order a pizza")
    office.answer(reply, "yes")
    assert reply.outcome.reason_code == "SIMULATION_MISSING"
    assert calls.seen == []
    assert office.count("SELECT count(*) FROM claims") == 0


@pytest.mark.req("AC-15", "AC-04")
def test_at_agent_12_twin_a_core_that_dispatches_nevertheless_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch, calls: Calls
) -> None:
    monkeypatch.setattr(core, "ALLOWED_OR_LATER", frozenset({"ESCALATED"}))
    reply = desk.ask("order a pizza")
    is_caught(lambda office: assert_nothing(office, office.answer(reply, "yes"), calls), desk)


def assert_nothing(office: Office, reply: Any, calls: Calls) -> None:
    assert calls.seen == []
    assert reply.outcome.reason_code == "SIMULATION_MISSING"


# --- 08: the audit chain --------------------------------------------------------------------------------------------

LINKS = (
    "finder_packet_ref",
    "policy_snapshot_ref",
    "catalog_snapshot_ref",
    "artifact_fingerprint_bundle_ref",
    "access_decision_ref",
    "confirmation_parse_proof_ref",
    "simulation_entry_ref",
    "rollback_plan_ref",
    "dispatch_decision_hash",
    "idempotency_key",
)


def check_08(office: Office) -> None:
    reply = office.done("archive the note one")
    correlation = reply.goal.correlation_id
    with office.workspace.store.reading() as connection:
        columns = ", ".join(("source", "event_id", *LINKS))
        rows = list(
            connection.rows(
                f"SELECT {columns} FROM agent_execution_ledger WHERE correlation_id = ? AND event = 'SUCCEEDED'",
                (correlation,),
            )
        )
        ((source, event_id, *links),) = rows
        found = dict(zip(LINKS, links, strict=True))
        assert source == "PH1.AGENT_EXECUTION"
        assert all(found.values()), found
        assert reply.outcome.audit_event_id == event_id
        assert reply.outcome.dispatch_decision_hash == found["dispatch_decision_hash"]
        kept = [found[name] for name in LINKS[:6]] + [found["dispatch_decision_hash"]]
        for ref in kept:
            assert connection.one("SELECT 1 FROM agent_documents WHERE ref = ?", (ref,)) is not None, ref
        for table, column, ref in (
            ("agent_execution_access_decision_ledger", "decision_id", found["access_decision_ref"]),
            ("agent_execution_confirmation_ledger", "confirmation_id", found["confirmation_parse_proof_ref"]),
            ("claims", "key", found["idempotency_key"]),
        ):
            assert connection.one(f"SELECT 1 FROM {table} WHERE {column} = ?", (ref,)) is not None, table
    assert office.workspace.verify_ledger().holds
    assert all(one.agrees for one in office.goals.replay(correlation, tenant=TENANT))


@pytest.mark.req("AC-15", "AC-11", "AC-23", "AC-28")
def test_at_agent_08_audit_chain_complete(office: Office) -> None:
    check_08(office)


@pytest.mark.req("AC-15", "AC-11")
@pytest.mark.parametrize("link", ["access_decision_ref", "finder_packet_ref", "rollback_plan_ref"])
def test_at_agent_08_twin_a_row_without_a_link_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    from remit.goals import recording  # noqa: PLC0415 - patched here only

    real = recording.step_row
    monkeypatch.setattr(recording, "step_row", lambda *given: changed(real(*given), link))
    is_caught(check_08, desk)


def changed(row: Any, link: str) -> Any:
    return dataclasses.replace(row, **{link: None})


# --- 09: the Finder's first ------------------------------------------------------------------------------------------


def check_09(office: Office) -> None:
    asked = office.ask("archive the note one")
    packet = asked.goal.sim_finder_packet.tree()
    others = [{"simulation_id": "archive-note", "score": 0.95}, {"simulation_id": "copy-form", "score": 0.9}]
    ranked = {**packet, "correlation_id": "by-hand", "candidates": [{"simulation_id": "ping", "score": 0.96}, *others]}
    ranked["fields"] = {}
    goal = goal_bytes(asked.goal, correlation_id="by-hand", sim_finder_packet=ranked)
    outcome = office.goals.run(goal)
    assert outcome.reason_code == "SIMULATION_SUCCEEDED"
    with office.workspace.store.reading() as connection:
        rows = connection.rows("SELECT simulation_id FROM agent_execution_ledger WHERE correlation_id = 'by-hand'")
        assert {row[0] for row in rows} == {"ping"}
    for number, scores in enumerate(((None, None, None), (None, 0.9, 0.8), (0.9, None, None), (0.4, 0.9, 0.8))):
        given = zip(("ping", "archive-note", "copy-form"), scores, strict=True)
        found = [{"simulation_id": name, "score": score} for name, score in given]
        unranked = {**ranked, "correlation_id": f"unranked-{number}", "candidates": found}
        goal = goal_bytes(asked.goal, correlation_id=f"unranked-{number}", sim_finder_packet=unranked)
        assert office.goals.run(goal).reason_code == "SIMULATION_SUCCEEDED"
    made_up = {**ranked, "correlation_id": "made-up", "candidates": [{"simulation_id": "format-disk", "score": 1.0}]}
    outcome = office.goals.run(goal_bytes(asked.goal, correlation_id="made-up", sim_finder_packet=made_up))
    assert outcome.reason_code == "SIMULATION_NOT_REGISTERED"


@pytest.mark.req("AC-15", "AC-02")
def test_at_agent_09_finder_top1_is_consumed_without_rerank(office: Office) -> None:
    check_09(office)


@pytest.mark.req("AC-15", "AC-02")
def test_at_agent_09_twin_a_core_that_ranks_again_is_noticed(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    real = gates._check_match  # noqa: SLF001 - the rule is broken where it stands

    def ranks(evidence: Evidence, packet: Any) -> GateVerdict:
        known = sorted(packet.candidates, key=lambda one: one.simulation_id)
        return real(evidence, packet.model_copy(update={"candidates": tuple(known)}))

    monkeypatch.setattr(gates, "_check_match", ranks)
    is_caught(check_09, desk)


# --- 10: the words of a yes -----------------------------------------------------------------------------------------


def check_10(office: Office) -> None:
    german = office.ask("archiviere die Notiz one", language="de")
    assert "ja" in german.outcome.user_visible_text
    assert office.answer(german, "yes").outcome.reason_code == "CONFIRMATION_AMBIGUOUS"
    assert office.answer(german, "okay").outcome.reason_code == "CONFIRMATION_AMBIGUOUS"
    assert office.archived() == []
    assert office.answer(german, "Ja!").outcome.reason_code == "SIMULATION_SUCCEEDED"
    turkish = office.ask("formu yeni olarak kopyala", language="tr")
    assert office.answer(turkish, "EVET").outcome.reason_code == "SIMULATION_SUCCEEDED"
    with office.workspace.store.reading() as connection:
        rows = connection.rows(
            "SELECT accepted_token, language_tag, confirm_lexicon_version_ref, verdict"
            " FROM agent_execution_confirmation_ledger ORDER BY entry_seq"
        )
        proofs = list(rows)
    assert [(token, tag, verdict) for token, tag, _, verdict in proofs] == [
        (None, "de", "AMBIGUOUS"),
        (None, "de", "AMBIGUOUS"),
        ("ja", "de", "CONFIRMED"),
        ("evet", "tr", "CONFIRMED"),
    ]
    assert all(ref.startswith("confirm-lexicon-") for _, _, ref, _ in proofs)
    tired = office.ask("archive the note two")
    codes = [office.answer(tired, said).outcome.reason_code for said in ("okay", "fine", "maybe later", "yes")]
    assert codes == ["CONFIRMATION_AMBIGUOUS"] * 4
    assert office.events(tired.goal.correlation_id)[-1] == "REFUSED"


@pytest.mark.req("AC-15", "AC-05")
def test_at_agent_10_multilingual_confirmation_lexicon_enforced(office: Office) -> None:
    check_10(office)


@pytest.mark.req("AC-15", "AC-05")
def test_at_agent_10_twin_a_lexicon_that_takes_english_everywhere_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Lexicon.parse

    def lax(self: Lexicon, language_tag: str, answer: str) -> ParsedConfirmation:
        read = real(self, language_tag, answer)
        return read if read.verdict == "CONFIRMED" else real(self, "en", answer)

    monkeypatch.setattr(Lexicon, "parse", lax)
    is_caught(check_10, desk)


# --- 11: the key ----------------------------------------------------------------------------------------------------


def check_11(office: Office) -> None:
    asked = [office.ask("archive the note one"), office.ask("archive the note two"), office.ask("copy the form as one")]
    keys = set()
    for reply in asked:
        with office.workspace.store.reading() as connection:
            row = connection.one(
                "SELECT idempotency_key FROM agent_execution_ledger WHERE correlation_id = ?",
                (reply.goal.correlation_id,),
            )
        keys.add(row[0] if row else "")
    assert len(keys) == 3
    assert KEY_RECIPE == (
        "correlation_id",
        "step_id",
        "simulation_id",
        "required_fields_fingerprint",
        "policy_snapshot_version",
    )
    step = planner_step(office)
    whole = {planner.idempotency_key("c", step)}
    for name in KEY_RECIPE[1:]:
        other = "sha256:" + 64 * "0" if name == "required_fields_fingerprint" else "other"
        whole.add(planner.idempotency_key("c", step.model_copy(update={name: other})))
    whole.add(planner.idempotency_key("d", step))
    assert len(whole) == 6


def planner_step(office: Office) -> Any:
    with office.workspace.store.reading_pooled() as connection:
        rules = office.goals.rules(TENANT, connection)
    packet = office.ask("archive the note three").goal.sim_finder_packet
    evidence = Evidence(TENANT, "mia", "c", "en", packet, rules.catalogue, rules.policy, rules.lexicon)
    assert isinstance(packet, SimulationMatchPacket)
    target = find_target(packet, rules.catalogue, FIRST_STEP, {})
    assert target is not None
    return planner.build_step(evidence, target)


@pytest.mark.req("AC-15", "AC-08")
def test_at_agent_11_idempotency_key_includes_sim_and_field_fingerprint(office: Office) -> None:
    check_11(office)


@pytest.mark.req("AC-15", "AC-08")
@pytest.mark.parametrize("part", KEY_RECIPE)
def test_at_agent_11_twin_a_key_without_one_of_its_parts_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def without(correlation_id: str, step: Any) -> str:
        parts = {"correlation_id": correlation_id, **step.tree()}
        return digest([parts[name] for name in KEY_RECIPE if name != part])

    monkeypatch.setattr(planner, "idempotency_key", without)
    is_caught(check_11, desk)


# --- 13: the projection ---------------------------------------------------------------------------------------------


def check_13(office: Office) -> None:
    office.done("archive the note one")
    office.done("are you there")
    office.ask("archive the note")
    office.ask("order a pizza")
    office.done("archive the note two", user="eve")
    before = current(office)
    assert len(before) == 5
    with office.workspace.store.reading() as connection:
        assert list(projection_drift(connection)) == []
    rebuilt = rebuild(office.workspace.ledger)
    assert (rebuilt.rows, rebuilt.drift) == (5, ())
    assert current(office) == before


def current(office: Office) -> list[Any]:
    with office.workspace.store.reading() as connection:
        return list(connection.rows("SELECT * FROM agent_execution_current ORDER BY plan_id, step_id"))


@pytest.mark.req("AC-15", "AC-10")
def test_at_agent_13_current_rebuilds_from_ledger_without_drift(office: Office) -> None:
    check_13(office)


@pytest.mark.req("AC-15", "AC-10")
def test_at_agent_13_twin_a_step_that_moves_without_an_event_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moves_only(batch: Any, tenant_id: str, row: Any) -> Any:
        if row.event == "SUCCEEDED":
            return Entry(tenant_id, 1, *[""] * 10)
        return real(batch, tenant_id, row)

    real = append_agent_row
    monkeypatch.setattr(projections, "append_agent_row", moves_only)
    is_caught(check_13, desk)
