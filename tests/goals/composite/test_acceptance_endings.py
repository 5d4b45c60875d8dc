"""AT-AGENT-19 to AT-AGENT-22: rollback, replay and change of goals with several steps; and twins with broken rules."""

import json
import logging
from collections.abc import Callable
from typing import Any, Final

import pytest

from remit.core.errors import RemitError
from remit.goals import gates, recording, simulation_executor
from remit.goals.actions import runner
from remit.goals.catalogue import catalogue
from remit.goals.composite import driver, layout, progress, replay_moves
from remit.goals.composite.driver import StepsDriver
from remit.goals.composite.layout import rollback_id_of, rolled_back_id
from remit.goals.composite.progress import End, RollBackStep
from remit.goals.composite.step_case import StepCase
from remit.goals.decisions import DecisionRecord
from remit.goals.history import load_decision
from remit.goals.service import Reply
from remit.ledger.documents import load_document
from tests.goals.composite.composites import COMPOSITE_POLICY, COMPOSITE_SIMULATIONS
from tests.goals.composite.step_office import (
    ASK,
    Waits,
    answered,
    differences,
    dispatched,
    done,
    events,
    ids,
    rows,
    yes,
)
from tests.goals.goal_office import TENANT, Office
from tests.goals.test_acceptance import is_caught
from tests.goals.test_replay import unguarded

ROLLBACK: Final = ["PLANNED", "ACCESS_ALLOWED", "DISPATCHED", "SUCCEEDED"]
NO_ARCHIVES: Final = (
    f'{COMPOSITE_POLICY}\n@id("closed")\nforbid (principal, action == Action::"archive_note", resource);'
)


# --- 19: the completed steps are rolled back, the last one first ------------------------------------------------------


def check_19(office: Office) -> None:
    named = ids(office)
    third = answered(office, ASK, 2)
    assert done(office) == {"copy", "one"}
    ended = yes(office, third, "no")
    assert ended.outcome.user_visible_text.endswith("The steps before it were rolled back.")
    assert dispatched(office, ended) == ["copy-form", "archive-note", "undo-archive", "undo-copy"]
    assert done(office) == set()
    assert office.notes() == ["one", "three", "two"]
    assert (rows(office, ended)[-1].row.event, rows(office, ended)[-1].row.reason_code) == (
        "ABORTED_ROLLED_BACK",
        "CONFIRMATION_REFUSED",
    )
    for name in ("copy", "one"):
        own, back = rows(office, ended, named[name]), rows(office, ended, rollback_id_of(named[name]))
        assert own[-1].row.event == "ROLLED_BACK"
        assert [each.row.event for each in back] == ROLLBACK
        proof = next(each.row.confirmation_parse_proof_ref for each in own if each.row.event == "SUCCEEDED")
        assert {each.row.confirmation_parse_proof_ref for each in back} == {proof}
        assert len({each.row.access_decision_ref for each in (*back, own[-1])} - {None}) == 2
        record, envelope = decided(office, back[1].row.dispatch_decision_hash)
        assert record.step_id == back[1].row.step_id
        assert envelope["undoes_step"] == named[name]
        assert (envelope["required_fields"], envelope["confirmation_proof_ref"]) == (
            {"of": ended.goal.correlation_id},
            proof,
        )
    backs = ", ".join(f"'{rollback_id_of(named[name])}'" for name in ("copy", "one"))
    gated = f"SELECT count(*) FROM agent_execution_access_decision_ledger WHERE step_id IN ({backs})"
    assert office.count(gated) == 2
    assert differences(office, ended) == []
    assert yes(office, third).outcome == ended.outcome


def decided(office: Office, ref: str | None) -> tuple[DecisionRecord, dict[str, Any]]:
    with office.workspace.store.reading() as connection:
        record = load_decision(connection, TENANT, ref or "")
        return record, load_document(connection, TENANT, record.envelope_ref or "")


@pytest.mark.req("AC-15", "AC-19", "AC-32")
def test_at_agent_19_an_abort_rolls_back_in_reverse_order(office: Office) -> None:
    check_19(office)


def _forwards(steps: Any, ending: Any) -> Any:
    """The first completed step is rolled back first."""
    return next((RollBackStep(each.step) for each in steps if each.event == "SUCCEEDED"), End(ending))


@pytest.mark.req("AC-15", "AC-32")
@pytest.mark.parametrize("broken", ["the order", "no rollback", "the proof", "no gates"])
def test_at_agent_19_twin_another_abort_is_noticed(desk: Office, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "the order":
        monkeypatch.setattr(progress, "_roll_back", _forwards)
    elif broken == "no rollback":
        monkeypatch.setattr(progress, "_roll_back", lambda _, ending: End(ending))
    elif broken == "the proof":
        _covers_all(monkeypatch)
    else:
        check = gates._check_access  # noqa: SLF001 - the rule is broken where it stands

        def without_gates(evidence: gates.Evidence, target: Any, parsed: Any) -> gates.GateVerdict:
            found = check(evidence, target, parsed)
            is_back = rolled_back_id(evidence.step_id) is not None
            return gates.GateVerdict("ACCESS_ALLOWED", "ACCESS_ALLOWED", target, parsed) if is_back else found

        monkeypatch.setattr(gates, "_check_access", without_gates)
    is_caught(check_19, desk)


def _covers_all(patched: pytest.MonkeyPatch) -> None:
    """The first confirmation that a rollback refers to covers all rollbacks."""
    real, first = StepCase, []

    def case(*given: Any, **named: Any) -> Any:
        first.extend([named["covered_by"]] if named.get("covered_by") else [])
        return real(*given, **{**named, **({"covered_by": first[0]} if named.get("covered_by") else {})})

    patched.setattr(driver, "StepCase", case)


# --- 20: a rollback that does not succeed -----------------------------------------------------------------------------


def _drifts(office: Office) -> None:
    (office.root / "archive" / "one.txt").write_text("somebody else was here\n")


def _closes(office: Office) -> None:
    office.write_policy(NO_ARCHIVES)


CAUSES: Final[dict[str, tuple[Callable[[Office], None], list[str]]]] = {
    "it fails": (_drifts, [*ROLLBACK[:3], "FAILED"]),
    "it is refused": (_closes, ["PLANNED", "REFUSED"]),
}


def check_20(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    named = ids(office)
    for number, (cause, expected) in enumerate(CAUSES.values()):
        office.write_policy(COMPOSITE_POLICY)
        office.write_note("one")
        for path in ("archive/one.txt", "notes/list.txt"):
            (office.root / path).unlink(missing_ok=True)
        third = answered(office, f"sort one as two{number} and list", 2)
        cause(office)
        caplog.clear()
        with caplog.at_level(logging.ERROR, logger="remit.goals"):
            ended = yes(office, third, "no")
            office.answer(third, None)  # it is reported once
        assert events(office, ended, rollback_id_of(named["one"])) == expected
        assert rows(office, ended, rollback_id_of(named["copy"])) == []  # it stops there
        assert (office.base / f"two{number}.txt").exists()
        assert office.archived() == ["one"]
        assert events(office, ended) == ["STARTED", "ABORTED_PARTIAL"]
        assert ended.outcome.user_visible_text.endswith("The effects of these steps remain: copy, one.")
        logged = [vars(each) for each in caplog.records if each.name == "remit.goals"]
        assert [(each["levelname"], each["steps"], each["correlation_id"]) for each in logged] == [
            ("ERROR", ["copy", "one"], ended.goal.correlation_id)
        ]
        assert differences(office, ended) == []


@pytest.mark.req("AC-15", "AC-19", "AC-32")
def test_at_agent_20_a_failed_rollback_stops_and_escalates(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    check_20(office, caplog)


@pytest.mark.req("AC-15", "AC-32")
@pytest.mark.parametrize("broken", ["goes on", "says nothing", "forgets"])
def test_at_agent_20_twin_a_rollback_that_goes_on_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    if broken == "goes on":

        def on(steps: Any, ending: Any) -> Any:
            left = (each for each in reversed(steps) if each.event == "SUCCEEDED" and each.rollback == "")
            waiting = (each for each in reversed(steps) if each.rollback in {"ACCESS_ALLOWED", "DISPATCHED"})
            step = next(waiting, None) or next(left, None)
            return RollBackStep(step.step) if step else real(steps, ending)

        real = progress._roll_back  # noqa: SLF001 - the rule is broken where it stands
        monkeypatch.setattr(progress, "_roll_back", on)
    elif broken == "says nothing":
        monkeypatch.setattr(driver, "_LOG", logging.getLogger("remit.other"))
    else:
        monkeypatch.setattr(progress, "_remaining", lambda _: ())
    is_caught(lambda office: check_20(office, caplog), desk)


# --- 21: replay -------------------------------------------------------------------------------------------------------


def check_21(office: Office, waits: Waits) -> None:
    """Every kind of end, and each is decided again with the same result."""
    (office.base / "form.txt").unlink()
    waits.before = {1: lambda: (office.base / "form.txt").write_text("form\n")}
    completed = answered(office, ASK, 3)
    assert "RETRIED" in [each.row.event for each in rows(office, completed)]
    back = office.goals.rollback(completed.goal.correlation_id, user="mia", tenant=TENANT)
    yes(office, back)
    refused = yes(office, office.ask("sort two as three and other"), "no")
    kept = yes(office, answered(office, "sort and keep two as three and other", 2), "no")
    ended = (completed, refused, kept)
    assert [events(office, each)[-1] for each in ended] == ["ROLLED_BACK", "REFUSED", "ABORTED_PARTIAL"]
    assert [differences(office, each) for each in ended] == [[], [], []]
    office.write_policy(NO_ARCHIVES)  # each is replayed under the rules of its time
    office.write_catalogue(*COMPOSITE_SIMULATIONS[:7])
    again = [each for reply in ended for each in office.goals.replay(reply.goal.correlation_id, tenant=TENANT)]
    assert {each.event for each in again} >= {"RETRIED", "COMPLETED", "UNDO_ALLOWED", "ROLLED_BACK", "ABORTED_PARTIAL"}
    assert all(each.agrees for each in again)


@pytest.mark.req("AC-15", "AC-19", "AC-33", "AC-13")
def test_at_agent_21_a_whole_goal_replays(office: Office, waits: Waits) -> None:
    check_21(office, waits)


@pytest.mark.req("AC-15", "AC-33")
def test_at_agent_21_twin_moves_of_a_broken_core_are_noticed(
    desk: Office, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row is whole and signed. It is what a core would record that broke a rule of the moves."""
    broken: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
        "another end": ("twice left0 and right0 and it", _ends_early),
        "another order": ("twice left1 and right1 and it", _in_another_order),
        "other values": ("twice left2 and right2 and it", _makes_values_up),
        "another confirmation": (ASK, _covers_all),
        "an attempt too many": ("sort two as three and other", lambda patched: _tries_again(desk, patched)),
    }
    for name, (words, breaks) in broken.items():
        with monkeypatch.context() as patched:
            breaks(patched)
            reply = yes(desk, desk.ask(words))
            reply = yes(desk, yes(desk, reply), "no") if words == ASK else reply
        assert differences(desk, reply) != [], name
        with monkeypatch.context() as patched:
            patched.setattr(replay_moves, "_problems", lambda *_, **__: iter(()))
            assert differences(desk, reply) == [], f"{name}: only the check of the moves can see it"


def _ends_early(patched: pytest.MonkeyPatch) -> None:
    real = progress.next_move

    def move(steps: Any, given: Any, **named: Any) -> Any:
        found = real(steps, given, **named)
        return End("COMPLETED") if given and given[-1].row.event == "SUCCEEDED" else found

    patched.setattr(driver, "next_move", move)


def _in_another_order(patched: pytest.MonkeyPatch) -> None:
    real, begin = progress.next_move, recording._begin_step  # noqa: SLF001 - the rule is broken where it stands
    patched.setattr(driver, "next_move", lambda steps, *given, **named: real(steps[::-1], *given, **named))
    patched.setattr(
        recording, "_begin_step", lambda *given: begin(given[0], given[1], given[2], {}) if given[3] else None
    )


def _makes_values_up(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(StepsDriver, "_read_outputs", lambda *_: {"left": {"made": "elsewhere"}})


def _tries_again(desk: Office, patched: pytest.MonkeyPatch) -> None:
    real = progress.retry_problem
    (desk.base / "form.txt").unlink()
    patched.setattr(runner, "task_effect", lambda _: "UNKNOWN")
    for module in (progress, simulation_executor):
        patched.setattr(module, "retry_problem", lambda *given: "" if given[2] < 2 else real(*given))


_ROWS: Final = "UPDATE agent_execution_ledger SET"


def _replace(connection: Any, kind: str, **changes: Any) -> None:
    for ref, body in list(connection.rows("SELECT ref, body FROM agent_documents WHERE kind = ?", (kind,))):
        changed = json.dumps({**json.loads(body), **changes}, sort_keys=True, separators=(",", ":"))
        connection.execute("UPDATE agent_documents SET body = ? WHERE ref = ?", (changed, ref))


def _swap(connection: Any) -> None:
    """Two rows of the ledger change places."""
    wanted = "SELECT entry_seq FROM agent_execution_ledger WHERE event = 'SUCCEEDED' ORDER BY entry_seq LIMIT 2"
    (first,), (second,) = list(connection.rows(wanted))
    for old, new in ((first, -1), (second, first), (-1, second)):
        connection.execute(f"{_ROWS} entry_seq = ? WHERE entry_seq = ?", (new, old))


TABLES: Final = ("agent_execution_ledger", "agent_documents")
Tamper = Callable[[Any], object]
TAMPERED: Final[dict[str, Tamper]] = {
    "an event": lambda at: at.execute(
        f"{_ROWS} event = 'FAILED' WHERE event = 'SUCCEEDED' AND simulation_id LIKE 'a%'"
    ),
    "the end": lambda at: at.execute(f"{_ROWS} event = 'REFUSED' WHERE event = 'COMPLETED'"),
    "an attempt": lambda at: at.execute(f"{_ROWS} attempt = '3' WHERE event = 'RETRIED'"),
    "an effect": lambda at: at.execute(f"{_ROWS} effect = 'UNKNOWN' WHERE event = 'FAILED'"),
    "which outputs": lambda at: at.execute(f"{_ROWS} outputs_ref = NULL WHERE outputs_ref IS NOT NULL"),
    "the outputs": lambda at: _replace(at, "outputs", outputs={"made": "/etc/passwd"}),
    "the values of a step": lambda at: _replace(at, "step_inputs", outputs={"copy": {"made": "/etc/passwd"}}),
    "a decision": lambda at: _replace(at, "decision", event="REFUSED"),
    "the packet": lambda at: _replace(at, "packet", steps=[]),
    "the order": _swap,
    "a lost row": lambda at: at.execute("DELETE FROM agent_execution_ledger WHERE event = 'RETRIED'"),
    "a lost step": lambda at: at.execute("DELETE FROM agent_execution_ledger WHERE simulation_id = 'archive-note'"),
    "a lost document": lambda at: at.execute("DELETE FROM agent_documents WHERE kind = 'outputs'"),
}


@pytest.mark.req("AC-15", "AC-33", "AC-13")
def test_at_agent_21_twin_a_record_that_was_changed_is_noticed(desk: Office, waits: Waits) -> None:
    (desk.base / "form.txt").unlink()
    waits.before = {1: lambda: (desk.base / "form.txt").write_text("form\n")}
    reply = answered(desk, ASK, 3)
    unnoticed = []
    for name, tamper in TAMPERED.items():
        with unguarded(desk) as connection:
            before = {table: [list(row) for row in connection.rows(f"SELECT * FROM {table}")] for table in TABLES}
            tamper(connection)
        if not noticed(desk, reply):
            unnoticed.append(name)
        with unguarded(desk) as connection:
            for table, saved in before.items():
                connection.execute(f"DELETE FROM {table}")
                marks = ", ".join("?" * len(saved[0]))
                for row in saved:
                    connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
    assert unnoticed == []
    assert differences(desk, reply) == []


def noticed(office: Office, reply: Reply) -> bool:
    try:
        return differences(office, reply) != []
    except RemitError:  # the newest row is not that of its signed entry
        return True


# --- 22: a composite that was changed ---------------------------------------------------------------------------------


def check_22(office: Office) -> None:
    for changed in ("sort", "copy-form", "leave-note", "undo-note"):
        office.write_catalogue(*with_title(changed))
        asked = yes(office, office.ask(ASK))
        assert (changed, asked.outcome.reason_code) == (changed, "SIMULATION_NOT_ACTIVE")
        assert dispatched(office, asked) == []
        office.write_catalogue(*COMPOSITE_SIMULATIONS)
    for number, changed in enumerate(("sort", "leave-note", "undo-note")):  # while a step waits for its answer
        office.write_note(f"n{number}")
        second = answered(office, f"sort n{number} as c{number} and list", 1)
        office.write_catalogue(*with_title(changed))
        ended = yes(office, second)
        assert (changed, ended.outcome.reason_code) == (changed, "PACKET_INVALID")
        assert dispatched(office, ended) == ["copy-form", "undo-copy"]
        assert events(office, ended)[-1] == "ABORTED_ROLLED_BACK"
        assert differences(office, ended) == []
        office.write_catalogue(*COMPOSITE_SIMULATIONS)
    office.retire("leave-note")  # a step that nobody has reached yet
    asked = answered(office, ASK, 2)
    assert yes(office, asked).outcome.reason_code == "SIMULATION_NOT_ACTIVE"
    assert dispatched(office, asked) == ["copy-form", "archive-note", "undo-archive", "undo-copy"]


def with_title(simulation_id: str) -> list[dict[str, Any]]:
    return [
        {**each, "title": "Something else"} if each["id"] == simulation_id else each for each in COMPOSITE_SIMULATIONS
    ]


@pytest.mark.req("AC-15", "AC-19", "AC-29")
def test_at_agent_22_a_composite_that_changed_is_refused(office: Office) -> None:
    check_22(office)


@pytest.mark.req("AC-15", "AC-29")
@pytest.mark.parametrize("broken", ["its own digest only", "as it was planned"])
def test_at_agent_22_twin_a_change_that_is_taken_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    if broken == "as it was planned":
        # Nothing compares digests any more, and the ids of the steps are no digests. Then the state of the whole holds.
        monkeypatch.setattr(layout, "step_id_of", lambda _, name: f"step-{name}")
        monkeypatch.setattr(gates, "_stale", lambda *_: "")
        monkeypatch.setattr(gates, "packet_problem", lambda *_: "")
    else:
        monkeypatch.setattr(catalogue, "entry_digest", lambda simulation, _: simulation.own_digest)
        monkeypatch.setattr(gates, "packet_problem", lambda *_: "")
    is_caught(check_22, desk)
