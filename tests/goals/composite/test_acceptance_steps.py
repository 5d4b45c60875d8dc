"""AT-AGENT-14 to AT-AGENT-18: goals with several steps, on both stores; and to each twins, in which a rule is broken.

AT-AGENT-19 to AT-AGENT-22, about rollback, replay and change, are in `test_acceptance_endings.py`.
"""

import dataclasses
import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import pytest

from remit.contracts.goals.dispatch import DispatchEnvelope, SimulationOutcome
from remit.core.canonical import digest
from remit.core.ids import parse_time
from remit.execution.engine import IncompleteError
from remit.goals import core, gates, recording, simulation_executor
from remit.goals.actions import runner
from remit.goals.composite import driver, layout, progress
from remit.goals.composite.driver import StepsDriver
from remit.goals.composite.layout import rollback_id_of
from remit.goals.composite.started_goals import StartedGoals
from remit.goals.dispatch import attempt_key
from remit.goals.gates import Evidence, GateVerdict
from remit.goals.history import History, load_decision, read_history
from remit.goals.service import Reply
from remit.goals.simulation_executor import SimulationExecutor
from remit.identity.person import Person
from remit.ledger.documents import load_document
from remit.ledger.goal_queries import count_answers
from tests.goals.composite.composites import BACKOFF_MS, COMPOSITE_POLICY
from tests.goals.composite.step_office import (
    ASK,
    FORM,
    SORTED,
    Waits,
    answered,
    claims,
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
from tests.support import preloaded
from tests.support.child_process import Fault, run_child

Check = Callable[[Office], None]
SIMULATION_OF: Final = {"copy": "copy-form", "one": "archive-note", "note": "leave-note"}
LEO_APPROVER: Final = Person("os:ann")


# --- 14: one step after the other -----------------------------------------------------------------------------------


def check_14(office: Office) -> None:
    named = ids(office)
    assert len(set(named.values())) == 3
    reply = office.ask(ASK)
    for number, name in enumerate(SORTED):
        assert reply.outcome.step_id == named[name]
        assert reply.outcome.next_step == (named[SORTED[number + 1]] if number < 2 else None)
        assert dispatched(office, reply) == [SIMULATION_OF[each] for each in SORTED[:number]]
        assert done(office) == set(SORTED[:number])
        reply = yes(office, reply)
    assert reply.outcome.user_visible_text == "All steps are done."
    assert reply.outcome.simulation_outcome is not None
    assert done(office) == set(SORTED)
    assert (office.root / "notes" / "list.txt").read_text() == f"{office.base / 'two.txt'}\n"
    # Each step begins only after all rows of the one before, and every row is of a step of the plan.
    order = [each.row.step_id for each in rows(office, reply)]
    assert [step for step, _ in itertools.groupby(order)] == ["goal", *(named[name] for name in SORTED), "goal"]
    assert events(office, reply) == ["STARTED", "COMPLETED"]
    assert differences(office, reply) == []


@pytest.mark.req("AC-15", "AC-19", "AC-29")
def test_at_agent_14_steps_run_in_strict_sequence(office: Office) -> None:
    check_14(office)


@pytest.mark.req("AC-15", "AC-19")
def test_at_agent_14_twin_another_sequence_is_noticed(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(layout, "ordered_steps", lambda binding: binding.steps)
        is_caught(check_14, desk)  # the order of the file
    real = progress.next_move

    def backwards(steps: Any, *given: Any, **named: Any) -> Any:
        return real(tuple(reversed(steps)), *given, **named)

    monkeypatch.setattr(driver, "next_move", backwards)
    before = desk.count("SELECT count(*) FROM claims")
    is_caught(check_14, desk)
    begin = recording._begin_step  # noqa: SLF001 - then the executor holds
    monkeypatch.setattr(
        recording, "_begin_step", lambda *given: begin(given[0], given[1], given[2], {}) if given[3] else None
    )
    asked = desk.ask("twice four and five and six")
    assert asked.outcome.step_id == ids(desk, "copy-twice", ("right",))["right"]
    assert yes(desk, asked).outcome.reason_code == "IDEMPOTENCY_VIOLATION"
    assert desk.count("SELECT count(*) FROM claims") == before


# --- 15: each step is confirmed -------------------------------------------------------------------------------------


def check_15(office: Office) -> None:
    named = ids(office)
    reply = office.ask(ASK)
    proofs = {}
    for number, name in enumerate(SORTED):
        assert reply.outcome.reason_code == "CONFIRMATION_REQUIRED"
        assert f"Step {number + 1} of 3" in reply.outcome.user_visible_text
        assert SIMULATION_OF[name] in reply.outcome.user_visible_text
        for word in ("okay", "fine"):  # the answers to one question are counted for that step alone
            assert yes(office, reply, word).outcome.reason_code == "CONFIRMATION_AMBIGUOUS"
        assert office.answer(reply, None).outcome.step_id == named[name]
        assert done(office) == set(SORTED[:number])
        reply = yes(office, reply)
        own = rows(office, reply, named[name])
        allowed = next(each.row for each in own if each.row.event == "ACCESS_ALLOWED")
        with office.workspace.store.reading() as connection:
            record = load_decision(connection, TENANT, allowed.dispatch_decision_hash or "")
            envelope = load_document(connection, TENANT, record.envelope_ref or "")
            proof = load_document(connection, TENANT, envelope["confirmation_proof_ref"])
        assert (proof["step_id"], proof["accepted_token"], proof["number"]) == (named[name], "yes", 3)
        proofs[name] = envelope["confirmation_proof_ref"]
    assert len(set(proofs.values())) == 3
    confirmed = (
        "SELECT count(*) FROM agent_execution_confirmation_ledger"
        f" WHERE verdict = 'CONFIRMED' AND correlation_id = '{reply.goal.correlation_id}'"
    )
    assert office.count(confirmed) == 3
    look = office.ask("tidy three and five")  # its first step only reads, and asks no person
    assert "Step 2 of 3" in look.outcome.user_visible_text
    assert dispatched(office, look) == ["look"]


@pytest.mark.req("AC-15", "AC-19", "AC-30", "AC-05")
def test_at_agent_15_each_impactful_step_is_confirmed(office: Office) -> None:
    check_15(office)


@pytest.mark.req("AC-15", "AC-30")
def test_at_agent_15_twin_a_later_step_without_its_own_confirmation_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = gates._check_confirmation  # noqa: SLF001 - the rule is broken where it stands

    def first_only(evidence: Evidence, target: Any) -> GateVerdict:
        return real(evidence, target) if target.is_first else gates._check_access(evidence, target, None)  # noqa: SLF001

    with monkeypatch.context() as patched:
        patched.setattr(gates, "_check_confirmation", first_only)
        is_caught(check_15, desk)
    count = count_answers
    monkeypatch.setattr(
        core,
        "count_answers",
        lambda at, tenant, goal, _: sum(count(at, tenant, goal, each) for each in ids(desk).values()),
    )
    is_caught(check_15, desk)


# --- 16: an answer is for one step ----------------------------------------------------------------------------------


def check_16(office: Office) -> None:
    named = ids(office)
    first = office.ask(ASK)
    for wrong in (None, named["one"], named["note"], "goal-rollback", "step-1", rollback_id_of(named["copy"])):
        refused = office.answer(first, "yes", step=wrong)
        assert refused.outcome.reason_code == "CONFIRMATION_MISSING", wrong
    assert office.answer(first, "yes", step="goal").outcome.step_id == named["copy"]
    assert dispatched(office, first) == []
    second = yes(office, first)
    again = yes(office, first)  # a second click on the first question
    assert (again.outcome.reason_code, again.outcome.step_id) == ("CONFIRMATION_REQUIRED", named["one"])
    assert yes(office, first, "no").outcome.step_id == named["one"]  # nor does a late "no" to it stop the second
    assert dispatched(office, first) == ["copy-form"]
    assert yes(office, second).outcome.step_id == named["note"]
    single = office.ask("archive the note three")
    assert yes(office, single, step=named["one"]).outcome.reason_code == "CONFIRMATION_MISSING"
    assert yes(office, single, "no", step="step-1").outcome.reason_code == "CONFIRMATION_REFUSED"
    check_16_approvals(office)


def check_16_approvals(office: Office) -> None:
    named = ids(office, "copy-twice", ("left", "right"))
    asked = office.ask("twice four and five and six", user="leo")
    waiting = yes(office, asked)
    assert (waiting.outcome.reason_code, waiting.outcome.step_id) == ("ACCESS_AP_REQUIRED", named["left"])
    correlation = asked.goal.correlation_id
    office.goals.approve(correlation, tenant=TENANT, who=LEO_APPROVER, approved=True)
    second = office.answer(asked, None)
    assert second.outcome.step_id == named["right"]
    waiting = yes(office, second)
    assert (waiting.outcome.reason_code, waiting.outcome.step_id) == ("ACCESS_AP_REQUIRED", named["right"])
    assert office.answer(asked, None).outcome.reason_code == "ACCESS_AP_REQUIRED"
    assert dispatched(office, asked) == ["copy-form"]
    assert events(office, asked, named["right"])[-1] == "APPROVAL_REQUESTED"
    office.goals.approve(correlation, tenant=TENANT, who=LEO_APPROVER, approved=True)
    assert office.answer(asked, None).outcome.user_visible_text == "All steps are done."
    assert differences(office, asked) == []


@pytest.mark.req("AC-15", "AC-19", "AC-30")
def test_at_agent_16_an_answer_or_approval_counts_for_its_step_only(office: Office) -> None:
    check_16(office)


@pytest.mark.req("AC-15", "AC-30")
def test_at_agent_16_twin_an_answer_that_counts_for_any_step_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        open_step = StepsDriver._require_answer_for_open_step  # noqa: SLF001 - the rule is broken where it stands

        def any_step(self: StepsDriver, situation: Any) -> str | None:
            waiting = getattr(getattr(situation.move, "step", None), "step_id", None)
            return waiting if self._goal.confirm_state.answer is not None else open_step(self, situation)

        patched.setattr(StepsDriver, "_require_answer_for_open_step", any_step)
        is_caught(check_16, desk)

    def of_any_step(self: History, step_id: str) -> History:
        return dataclasses.replace(self, steps=tuple(each for each in self.steps if each.row.step_id == step_id))

    history = read_history

    def with_first_approval(*given: Any) -> History:
        """The approval of the first step that asked for one counts for all."""
        found = history(*given)
        asked = [each for each in found.steps if each.row.event == "APPROVAL_REQUESTED"]
        return dataclasses.replace(found, approval="APPROVED") if len(asked) > 1 else found

    monkeypatch.setattr(History, "of", of_any_step)
    monkeypatch.setattr(core, "read_history", with_first_approval)
    is_caught(check_16_approvals, desk)


# --- 17: a process that died ----------------------------------------------------------------------------------------

CHILD: Final = """
import sys
from pathlib import Path
from remit.workspace.workspace import Workspace
with Workspace.open(Path(sys.argv[1])) as workspace:
    print(workspace.goals.answer(sys.argv[2], "yes", user="mia", tenant="acme", step=sys.argv[3]))
"""


def killed(office: Office, waiting: Reply, point: str, count: int = 1) -> None:
    """Another process takes the answer, and dies at a fault point. Nobody remembers the goal then."""
    office.close()
    arguments = [str(office.root), waiting.goal.correlation_id, str(waiting.outcome.step_id)]
    ended = run_child(
        [preloaded.python(), "-c", CHILD, *arguments], fault=Fault(point, count), environment=office.environ
    )
    assert ended.killed, ended
    office.workspace = office.opened()


def check_17(office: Office) -> None:
    named = ids(office)
    first = office.ask(ASK)
    killed(office, first, "simulation.ran")  # the copy is there, and its outcome is not recorded
    assert events(office, first, named["copy"])[-1] == "DISPATCHED"
    reports = office.workspace.recover()
    assert [each.problem for each in reports if each.problem is not None] == []
    second = office.goals.read_reply(first.goal.correlation_id, user="mia", tenant=TENANT)
    assert (second.outcome.reason_code, second.outcome.step_id) == ("CONFIRMATION_REQUIRED", named["one"])
    killed(office, yes(office, second), "goal.ended")
    ended = office.answer(first, None)
    assert ended.outcome.user_visible_text == "All steps are done."
    assert office.workspace.recover() == []
    assert done(office) == set(SORTED)
    assert dispatched(office, first) == [SIMULATION_OF[name] for name in SORTED]
    assert len(claims(office, first)) == 3
    assert differences(office, first) == []
    assert office.workspace.verify_ledger().holds


@pytest.mark.req("AC-15", "AC-19", "AC-33")
def test_at_agent_17_a_goal_resumes_from_the_ledger_in_another_process(office: Office) -> None:
    check_17(office)


@pytest.mark.req("AC-15", "AC-33")
def test_at_agent_17_twin_a_goal_that_no_process_continues_is_noticed(
    desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(StartedGoals, "continue_interrupted", lambda _: [])
        is_caught(check_17, desk)
    real = StepsDriver.read
    memory: dict[str, Any] = {}

    def from_memory(self: StepsDriver) -> Any:
        """The state of a goal is remembered by this process, and not read again."""
        found = memory.get(self._goal.correlation_id)
        return memory.setdefault(self._goal.correlation_id, real(self)) if found is None else found

    monkeypatch.setattr(StepsDriver, "read", from_memory)
    is_caught(check_14, desk)


# --- 18: another attempt --------------------------------------------------------------------------------------------

ATTEMPTS: Final = (
    *("PLANNED", "CONFIRMATION_REQUESTED", "CONFIRMED", "ACCESS_ALLOWED"),
    *("DISPATCHED", "FAILED", "RETRIED", "FAILED", "RETRIED", "SUCCEEDED"),
)


def check_18(office: Office, waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    named = ids(office)
    form = office.base / "form.txt"
    form.unlink()
    waits.before = {
        1: lambda: office.write_policy(f"{COMPOSITE_POLICY}\n// more words, and so another snapshot\n"),
        2: lambda: form.write_text(FORM),
    }
    reply = answered(office, ASK, 1)
    assert (reply.outcome.reason_code, reply.outcome.step_id) == ("CONFIRMATION_REQUIRED", named["one"])
    own = rows(office, reply, named["copy"])
    at = [parse_time(each.created_at) for each in own if each.row.event in {"FAILED", "RETRIED"}]
    due = [timedelta(milliseconds=each) for each in BACKOFF_MS]
    assert [at[1] - at[0] >= due[0], at[3] - at[2] >= due[1]] == [True, True]
    assert [0 < waits.seconds[0] <= 60, 0 < waits.seconds[1] <= 300, len(waits.seconds)] == [True, True, 2]
    assert tuple(each.row.event for each in own) == ATTEMPTS
    assert [each.row.effect for each in own if each.row.event == "FAILED"] == ["NONE", "NONE"]
    assert [each.row.attempt for each in own[4:]] == [None, None, "2", "2", "3", "3"]
    (key,) = {each.row.idempotency_key for each in own[3:]}
    assert claims(office, reply) == sorted(attempt_key(key, number) for number in (1, 2, 3))
    assert [each.row.simulation_entry_ref for each in own[4:]] == [
        f"simulation/{attempt_key(key, number)}" for number in (1, 1, 2, 2, 3, 3)
    ]
    assert done(office) == {"copy"}
    assert differences(office, reply) == []
    check_18_no_more(office, waits, monkeypatch)


def check_18_no_more(office: Office, waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures after which there is no other attempt: a code that is not named, an unknown effect, the last attempt."""
    named = ids(office)
    waits.before = {}
    cases: list[tuple[str, list[str], str | None]] = [
        ("STEP_TIMEOUT", ["DISPATCHED", "FAILED"], "NONE"),
        ("UNKNOWN", ["DISPATCHED", "FAILED"], "UNKNOWN"),
        ("SIMULATION_FAILED", ["DISPATCHED", "FAILED", "RETRIED", "FAILED", "RETRIED", "FAILED"], "NONE"),
    ]
    (office.base / "form.txt").unlink()
    run = runner.GoalActionRunner.run
    for case, expected, effect in cases:
        waits.seconds.clear()
        with monkeypatch.context() as patched:
            if case == "UNKNOWN":
                patched.setattr(runner, "task_effect", lambda _: "UNKNOWN")
            if case == "STEP_TIMEOUT":
                patched.setattr(runner.GoalActionRunner, "run", lambda self, prepared, _: run(self, prepared, 0.0))
            reply = answered(office, f"sort three as {case.lower()} and other", 1)
        assert events(office, reply, named["copy"])[4:] == expected, case
        assert rows(office, reply, named["copy"])[-1].row.effect == effect
        assert len(waits.seconds) == (len(expected) - 2) // 2
        assert events(office, reply)[-1] == ("ABORTED_PARTIAL" if case == "UNKNOWN" else "ABORTED_ROLLED_BACK")
        assert dispatched(office, reply) == ["copy-form"]
        assert events(office, office.answer(reply, None), named["copy"])[4:] == expected  # asking again changes nothing
        assert differences(office, reply) == []


@pytest.mark.req("AC-15", "AC-19", "AC-31")
def test_at_agent_18_only_a_failure_that_had_no_effect_is_retried(
    office: Office, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_18(office, waits, monkeypatch)


@pytest.mark.req("AC-15", "AC-31")
@pytest.mark.parametrize("broken", ["unknown effect", "too early", "another key", "too often"])
def test_at_agent_18_twin_a_retry_against_the_policy_is_noticed(
    desk: Office, waits: Waits, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    if broken == "unknown effect":

        def problem(failure: Any, step: Any, attempts: int) -> str:
            is_open = failure.row.effect == "UNKNOWN" and attempts < step.retry.max_attempts
            return "" if is_open else real(failure, step, attempts)

        real = progress.retry_problem
        monkeypatch.setattr(progress, "retry_problem", problem)
        monkeypatch.setattr(simulation_executor, "retry_problem", problem)
    elif broken == "too early":
        monkeypatch.setattr(progress, "retry_time", lambda *_: waits.clock())
    elif broken == "too often":
        monkeypatch.setattr(progress, "retry_problem", lambda *_: "")  # and the executor is not asked
    else:
        dispatch = SimulationExecutor.dispatch

        def other_key(executor: SimulationExecutor, envelope: DispatchEnvelope, attempt: int = 1) -> SimulationOutcome:
            key = digest([envelope.idempotency_key, attempt])
            changed = envelope if attempt == 1 else envelope.model_copy(update={"idempotency_key": key})
            return dispatch(executor, changed, attempt)

        monkeypatch.setattr(SimulationExecutor, "dispatch", other_key)
    is_caught(lambda office: check_18(office, waits, monkeypatch), desk)


@pytest.mark.req("AC-31")
def test_a_dispatch_that_a_person_closed_is_never_retried(
    desk: Office, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was interrupted, and no process knows whether it took effect."""
    named = ids(desk)
    run = runner.GoalActionRunner.run

    def dies(self: Any, *given: Any) -> Any:
        run(self, *given)
        raise RuntimeError("the process ends here")

    first = desk.ask(ASK)
    with monkeypatch.context() as patched:
        patched.setattr(runner.GoalActionRunner, "run", dies)
        with pytest.raises(IncompleteError):
            yes(desk, first)
    (key,) = claims(desk, first)
    closed, *_ = desk.workspace.recover(presumed_dead=[key], abandoned=[key])
    assert closed.unknown
    assert events(desk, first, named["copy"])[4:] == ["DISPATCHED", "FAILED"]
    assert rows(desk, first, named["copy"])[-1].row.effect == "UNKNOWN"
    assert events(desk, first)[-1] == "ABORTED_PARTIAL"
    assert desk.answer(first, None).outcome.user_visible_text.endswith("The effects of these steps remain: copy.")
    assert waits.seconds == []
