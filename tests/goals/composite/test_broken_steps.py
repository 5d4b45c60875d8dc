"""Goals with several steps that somebody disturbs: other packets, other people, other processes, and late answers."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final

import pytest

from remit.core.errors import RemitError
from remit.goals.actions import runner
from remit.goals.actions.runner import GoalActionRunner
from remit.goals.composite.driver import StepsDriver
from remit.goals.composite.layout import rollback_id_of
from remit.goals.service import Reply
from tests.goals.composite.composites import COMPOSITE_POLICY
from tests.goals.composite.step_office import (
    ASK,
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
from tests.goals.goal_office import TENANT, Office, goal_bytes
from tests.goals.test_boundaries import OWN_RECORD, Seen, seen
from tests.support.task_workspace import MovableClock

__all__ = ["seen"]
KEPT: Final = "sort and keep one as two and list"
CLAIMS: Final = "SELECT count(*) FROM claims"


# --- packets of another Finder ----------------------------------------------------------------------------------------


@pytest.mark.req("AC-29", "AC-02", "AC-12")
def test_a_packet_with_other_steps_than_the_promoted_ones_is_invalid(desk: Office) -> None:
    packet = desk.ask(ASK).goal.sim_finder_packet.tree()
    first, second, third = packet["steps"]
    other = {**first, "digest": "sha256:" + 64 * "0"}
    wrong: dict[str, dict[str, Any]] = {
        "reordered": {"steps": [second, first, third]},
        "left out": {"steps": [first, third]},
        "the last one left out": {"steps": [first, second]},
        "added": {"steps": [first, second, third, {**third, "step": "more"}]},
        "twice": {"steps": [first, first, second, third]},
        "none": {"steps": []},
        "another simulation": {"steps": [{**first, "simulation": "leave-note"}, second, third]},
        "another name": {"steps": [{**first, "step": "copy2"}, second, third]},
        "another digest": {"steps": [other, second, third]},
        "of another composite": {"candidates": [{"simulation_id": "sort-and-keep", "score": 1.0}]},
        "of no composite": {"candidates": [{"simulation_id": "leave-note", "score": 1.0}]},
        "another catalogue": {"catalog_snapshot_ref": "sha256:" + 64 * "0"},
        "of another goal": {"correlation_id": "elsewhere"},
    }
    wrong["of another composite"]["steps"] = [first, third, second]
    other_goal = desk.ask("are you there").goal
    before = desk.count(CLAIMS)
    for number, (name, changes) in enumerate(wrong.items()):
        correlation = f"raw-{number}"
        made = {**packet, "correlation_id": correlation, **changes}
        goal = goal_bytes(other_goal, correlation_id=correlation, sim_finder_packet=made)
        for _ in range(2):  # the same again when it is repeated
            outcome = desk.goals.core.run(goal)
            assert (name, outcome.reason_code, outcome.simulation_outcome) == (name, "PACKET_INVALID", None)
        assert "DISPATCHED" not in desk.events(correlation)
        replayed = desk.goals.replay(correlation, tenant=TENANT)
        assert [each.why for each in replayed if not each.agrees] == [], name
    assert desk.count(CLAIMS) == before


@pytest.mark.req("AC-30", "AC-08")
def test_the_goal_of_another_user_is_neither_shown_nor_moved(desk: Office, waits: Waits) -> None:
    completed = answered(desk, ASK, 3)
    (desk.base / "form.txt").unlink()
    waits.before = {1: _die}
    with pytest.raises(RuntimeError):  # it waits for its second attempt
        answered(desk, "sort two as three and other", 1)
    waits.before = {}
    failed = next(each for each in _correlations(desk) if each != completed.goal.correlation_id)
    for correlation in (completed.goal.correlation_id, failed):
        stored = desk.goals.stored_goal(correlation, user="mia", tenant=TENANT)
        before = desk.events(correlation)
        outcomes = [
            desk.goals.answer(correlation, None, user="leo", tenant=TENANT).outcome,
            desk.goals.core.run(goal_bytes(stored, user_id="leo")),
            desk.goals.core.run(goal_bytes(stored, raw_user_utterance="something else")),
            desk.goals.rollback(correlation, user="leo", tenant=TENANT).outcome,
        ]
        assert {each.reason_code for each in outcomes} == {"IDEMPOTENCY_VIOLATION"}
        assert {each.simulation_outcome for each in outcomes} == {None}
        assert desk.events(correlation) == before


def _die() -> None:
    raise RuntimeError("the process ends here")


def _correlations(office: Office) -> list[str]:
    with office.workspace.store.reading() as connection:
        found = connection.rows("SELECT DISTINCT correlation_id FROM agent_execution_ledger")
        return [row[0] for row in found]


# --- a person who refuses, or does not answer -------------------------------------------------------------------------

REFUSALS: Final = ("no", "unclear", "late", "denied", "unapproved")


@pytest.mark.req("AC-19", "AC-32")
@pytest.mark.parametrize("cause", REFUSALS)
def test_a_later_step_that_a_person_refuses_rolls_back_unless_it_is_kept(
    desk: Office, clock: MovableClock, cause: str
) -> None:
    expected = {
        "no": "CONFIRMATION_REFUSED",
        "unclear": "CONFIRMATION_AMBIGUOUS",
        "late": "CONFIRMATION_EXPIRED",
        "denied": "ACCESS_SCOPE_VIOLATION",
        "unapproved": "ACCESS_AP_REQUIRED",
    }[cause]
    for words, ending, remaining in ((ASK, "ABORTED_ROLLED_BACK", []), (KEPT, "ABORTED_PARTIAL", ["copy", "one"])):
        third = answered(desk, words, 2)
        _refuse(desk, clock, third, cause)
        last = desk.answer(third, None)
        assert rows(desk, last)[-1].row.event == ending, cause
        assert rows(desk, last)[-1].row.reason_code == expected
        assert done(desk) == set(remaining)
        assert [each for each in remaining if each not in last.outcome.user_visible_text] == []
        assert ("undo-copy" in dispatched(desk, last)) is not bool(remaining)
        assert differences(desk, last) == []
        desk.write_policy(COMPOSITE_POLICY)


def _refuse(office: Office, clock: MovableClock, third: Reply, cause: str) -> None:
    note = 'principal == User::"acme/mia", action == Action::"leave_note", resource'
    if cause == "no":
        yes(office, third, "no")
    elif cause == "unclear":
        assert [yes(office, third, "fine").outcome.reason_code for _ in range(3)] == ["CONFIRMATION_AMBIGUOUS"] * 3
    elif cause == "late":
        clock.offset += timedelta(minutes=10, seconds=1)
    elif cause == "denied":
        office.write_policy(f'{COMPOSITE_POLICY}\n@id("no-notes")\nforbid ({note});')
        yes(office, third)
    else:
        asks = COMPOSITE_POLICY.replace(', Action::"leave_note"', "")
        office.write_policy(f'{asks}\n@id("notes-ask")\n@verdict("approval_required")\npermit ({note});')
        assert yes(office, third).outcome.reason_code == "ACCESS_AP_REQUIRED"
        clock.offset += timedelta(minutes=10, seconds=1)


@pytest.mark.req("AC-32")
def test_a_failure_rolls_back_also_where_refusals_keep(desk: Office, waits: Waits) -> None:
    """An action that could not start, or stopped being allowed between two attempts, is no refusal by a person."""
    third = answered(desk, KEPT, 2)
    desk.write_note("list")  # the action cannot start
    ended = yes(desk, third)
    assert (ended.outcome.reason_code, events(desk, ended)[-1]) == ("SIMULATION_REFUSED", "ABORTED_ROLLED_BACK")
    (desk.root / "notes" / "list.txt").unlink()
    desk.retire("leave-note")
    ended = yes(desk, answered(desk, KEPT, 2))
    assert (ended.outcome.reason_code, events(desk, ended)[-1]) == ("SIMULATION_NOT_ACTIVE", "ABORTED_ROLLED_BACK")
    assert done(desk) == set()
    assert waits.seconds == []


@pytest.mark.req("AC-33", "AC-30")
def test_a_question_that_no_user_answers_is_ended_without_a_caller(desk: Office, clock: MovableClock) -> None:
    third = answered(desk, ASK, 2)
    assert desk.goals.recover() == []
    clock.offset += timedelta(minutes=10, seconds=1)
    (report,) = desk.goals.recover()
    assert (report.key, report.problem) == (third.goal.correlation_id, None)
    assert events(desk, third)[-1] == "ABORTED_ROLLED_BACK"
    assert done(desk) == set()
    assert yes(desk, third).outcome.reason_code == "CONFIRMATION_EXPIRED"


# --- rules that change between steps, and between attempts ------------------------------------------------------------


@pytest.mark.req("AC-31", "AC-06")
@pytest.mark.parametrize("cause", ["access", "retired", "late"])
def test_another_attempt_passes_the_final_gate_again(
    desk: Office, waits: Waits, clock: MovableClock, cause: str
) -> None:
    named = ids(desk)
    closed = f'{COMPOSITE_POLICY}\n@id("no")\nforbid (principal, action == Action::"copy_form", resource);'
    changes: dict[str, tuple[str, Any]] = {
        "access": ("ACCESS_SCOPE_VIOLATION", lambda: desk.write_policy(closed)),
        "retired": ("SIMULATION_NOT_ACTIVE", lambda: desk.retire("copy-form")),
        "late": ("CONFIRMATION_EXPIRED", lambda: setattr(clock, "offset", clock.offset + timedelta(minutes=11))),
    }
    code, change = changes[cause]
    form = (desk.base / "form.txt").read_text()
    (desk.base / "form.txt").unlink()
    waits.before = {1: lambda: (change(), (desk.base / "form.txt").write_text(form))}
    ended = answered(desk, ASK, 1)
    assert events(desk, ended, named["copy"])[4:] == ["DISPATCHED", "FAILED", "REFUSED"]
    assert ended.outcome.reason_code == code
    assert events(desk, ended) == ["STARTED", "ABORTED_ROLLED_BACK"]
    assert done(desk) == set()
    assert len(claims(desk, ended)) == 1
    assert differences(desk, ended) == []


@pytest.mark.req("AC-29")
def test_a_step_has_its_own_shorter_time_limit(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    run = GoalActionRunner.run

    def limited(self: GoalActionRunner, prepared: Any, seconds: float) -> Any:
        limits.append(seconds)
        return run(self, prepared, 0.0 if len(limits) > 1 else seconds)

    monkeypatch.setattr(runner.GoalActionRunner, "run", limited)
    ended = answered(desk, ASK, 2)
    assert limits[:2] == [7, 20]
    assert ended.outcome.reason_code == "STEP_TIMEOUT"
    assert events(desk, ended, ids(desk)["one"])[-2:] == ["DISPATCHED", "FAILED"]


# --- many at once -----------------------------------------------------------------------------------------------------


@pytest.mark.req("AC-30", "AC-08")
def test_sixteen_who_answer_the_same_step_at_once_run_it_once(office: Office) -> None:
    named = ids(office)
    first = office.ask(ASK)
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: yes(office, first), range(16)))
    assert {each.outcome.step_id for each in replies} <= {named["copy"], named["one"]}
    second = office.goals.read_reply(first.goal.correlation_id, user="mia", tenant=TENANT)
    assert (second.outcome.reason_code, second.outcome.step_id) == ("CONFIRMATION_REQUIRED", named["one"])
    assert dispatched(office, first) == ["copy-form"]
    assert events(office, first, named["copy"]).count("CONFIRMED") == 1
    assert events(office, first, named["one"]) == ["PLANNED", "CONFIRMATION_REQUESTED"]
    assert office.count("SELECT count(*) FROM agent_execution_confirmation_ledger") == 1
    assert differences(office, first) == []


@pytest.mark.req("AC-33", "AC-08")
def test_two_processes_that_drive_one_goal_do_each_step_once(office: Office) -> None:
    """Each has a workspace of its own. They answer the same questions, and also roll back, at the same time."""
    named = ids(office)
    other = office.opened()
    first = office.ask(ASK)
    both = (office.workspace.goals, other.goals)
    for name, word in (("copy", "yes"), ("one", "yes"), ("note", "no")):
        met = threading.Barrier(2)

        def answer(goals: Any, name: str = name, word: str = word, met: threading.Barrier = met) -> str:
            met.wait()
            try:
                reply = goals.answer(first.goal.correlation_id, word, user="mia", tenant=TENANT, step=named[name])
            except RemitError as problem:
                return problem.reason.value
            return str(reply.outcome.reason_code)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(answer, both))
        office.answer(first, None)
    other.close()
    assert dispatched(office, first) == ["copy-form", "archive-note", "undo-archive", "undo-copy"]
    assert events(office, first) == ["STARTED", "ABORTED_ROLLED_BACK"]
    assert done(office) == set()
    assert differences(office, first) == []
    assert office.workspace.verify_ledger().holds


# --- --undo of a completed goal ---------------------------------------------------------------------------------------


@pytest.mark.req("AC-32", "AC-14", "AC-33")
def test_a_completed_goal_is_undone_once_and_resumed_after_a_crash(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = answered(office, ASK, 3)
    correlation = ended.goal.correlation_id
    asked = office.goals.rollback(correlation, user="mia", tenant=TENANT)
    assert (asked.outcome.reason_code, asked.outcome.step_id) == ("CONFIRMATION_REQUIRED", "goal-rollback")
    named = ids(office)
    assert office.answer(asked, "yes", step=named["note"]).outcome.reason_code != "SIMULATION_REFUSED"
    assert done(office) == {"copy", "one", "note"}  # an answer to a step does not undo the goal

    def dies(self: StepsDriver, situation: Any, step: Any) -> Any:
        result = roll_back(self, situation, step)
        raise RuntimeError(result.reason_code)

    roll_back = StepsDriver._roll_back  # noqa: SLF001 - the process ends there
    with monkeypatch.context() as patched:
        patched.setattr(StepsDriver, "_roll_back", dies)
        with pytest.raises(RuntimeError, match="SIMULATION_SUCCEEDED"):
            yes(office, asked)
    assert done(office) == {"copy", "one"}
    office.close()
    office.workspace = office.opened()
    office.workspace.recover()
    assert done(office) == set()
    assert dispatched(office, ended)[3:] == ["undo-note", "undo-archive", "undo-copy"]
    assert events(office, ended) == ["STARTED", "COMPLETED", "ROLLED_BACK"]
    for name in ("copy", "one", "note"):
        assert events(office, ended, rollback_id_of(named[name]))[-1] == "SUCCEEDED"
    again = office.goals.rollback(correlation, user="mia", tenant=TENANT)
    assert again.outcome.reason_code == "IDEMPOTENCY_VIOLATION"
    assert differences(office, ended) == []
    assert json.loads(goal_bytes(again.goal))["correlation_id"] == correlation


@pytest.mark.req("AC-18", "AC-24")
def test_a_goal_with_several_steps_writes_nothing_but_its_own_record(desk: Office, seen: Seen) -> None:
    """Its end, its outputs and its rollbacks too. The actions write in their own sandboxes."""
    yes(desk, answered(desk, ASK, 2), "no")
    assert seen.tables == OWN_RECORD | {"claims", "plan_previews"}
    assert seen.schema == set()
