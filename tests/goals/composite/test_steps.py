"""Goals with several steps: strict order, one confirmation for each step, and a rollback of what was done."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.goals.composite.driver import StepsDriver
from remit.goals.service import Reply
from tests.goals.composite.composites import COMPOSITE_POLICY, COMPOSITE_SIMULATIONS
from tests.goals.goal_office import Office
from tests.support.task_workspace import MovableClock


@pytest.fixture
def tidy(tmp_path: Path, clock: MovableClock) -> Iterator[Office]:
    made = Office(tmp_path, clock=clock, simulations=COMPOSITE_SIMULATIONS, policy=COMPOSITE_POLICY)
    yield made
    made.close()


def yes(office: Office, reply: Reply, word: str = "yes") -> Reply:
    return office.answer(reply, word, step=reply.outcome.step_id)


def test_the_steps_run_in_order_and_each_asks_for_itself(tidy: Office) -> None:
    first = tidy.ask("tidy one and two")
    assert first.outcome.reason_code == "CONFIRMATION_REQUIRED", first.outcome
    assert "Step 2 of 3" in first.outcome.user_visible_text
    second = yes(tidy, first)
    assert second.outcome.reason_code == "CONFIRMATION_REQUIRED", second.outcome
    assert tidy.archived() == ["one"]
    ended = yes(tidy, second)
    assert ended.outcome.reason_code == "SIMULATION_SUCCEEDED", ended.outcome
    assert ended.outcome.user_visible_text == "All steps are done."
    assert (tidy.base / "two.txt").exists()

    assert all(each.agrees for each in tidy.goals.replay(first.goal.correlation_id, tenant="acme"))


def test_a_no_at_a_later_step_rolls_back_the_steps_before(tidy: Office) -> None:
    second = yes(tidy, yes_step := tidy.ask("tidy one and two"))
    assert tidy.archived() == ["one"]
    ended = yes(tidy, second, "no")

    assert ended.outcome.user_visible_text.endswith("The steps before it were rolled back.")
    assert tidy.archived() == []
    assert tidy.notes() == ["one", "three", "two"]
    assert tidy.events(yes_step.goal.correlation_id)[-1] == "ABORTED_ROLLED_BACK"
    replayed = tidy.goals.replay(yes_step.goal.correlation_id, tenant="acme")
    assert [each.why for each in replayed if not each.agrees] == []


def test_an_answer_to_one_step_never_counts_for_another(tidy: Office) -> None:
    first = tidy.ask("tidy one and two")
    yes(tidy, first)
    again = yes(tidy, first)
    assert again.outcome.reason_code == "CONFIRMATION_REQUIRED"
    assert "Step 3 of 3" in again.outcome.user_visible_text
    assert tidy.answer(first, "yes").outcome.reason_code == "CONFIRMATION_MISSING"
    assert tidy.answer(first, "yes", step="step-1").outcome.reason_code == "CONFIRMATION_MISSING"
    assert not (tidy.base / "two.txt").exists()


def test_a_completed_goal_is_rolled_back_after_one_confirmation(tidy: Office) -> None:
    ended = yes(tidy, yes(tidy, tidy.ask("tidy one and two")))
    asked = tidy.goals.rollback(ended.goal.correlation_id, user="mia", tenant="acme")
    assert asked.outcome.reason_code == "CONFIRMATION_REQUIRED", asked.outcome
    refused = yes(tidy, asked, "no")
    assert refused.outcome.user_visible_text == "All steps are done."
    assert tidy.archived() == ["one"]
    asked = tidy.goals.rollback(ended.goal.correlation_id, user="mia", tenant="acme")
    back = yes(tidy, asked)
    assert back.outcome.user_visible_text == "All steps were done, and were rolled back later.", back.outcome
    assert tidy.archived() == []
    assert not (tidy.base / "two.txt").exists()
    replayed = tidy.goals.replay(ended.goal.correlation_id, tenant="acme")
    assert [each.why for each in replayed if not each.agrees] == []


def test_a_rollback_simulation_that_changed_since_is_refused_and_the_effect_is_named(tidy: Office) -> None:
    second = yes(tidy, tidy.ask("tidy one and two"))
    changed = [{**each, "title": "Other"} if each["id"] == "undo-archive" else each for each in COMPOSITE_SIMULATIONS]
    tidy.write_catalogue(*changed)
    ended = yes(tidy, second, "no")
    assert ended.outcome.user_visible_text.endswith("The effects of these steps remain: one.")
    assert tidy.events(second.goal.correlation_id)[-2:] == ["REFUSED", "ABORTED_PARTIAL"]
    assert tidy.archived() == ["one"]


def test_a_goal_whose_process_ended_between_two_steps_is_continued_by_another(
    tidy: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tidy.ask("tidy one and two")
    real = StepsDriver._move  # noqa: SLF001 - the process ends there

    def move(self: StepsDriver, *given: Any) -> Any:
        result = real(self, *given)
        if tidy.archived():
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(StepsDriver, "_move", move)
    with pytest.raises(KeyboardInterrupt):
        yes(tidy, first)
    monkeypatch.undo()
    tidy.close()
    tidy.workspace = tidy.opened()
    recovered = tidy.workspace.recover()
    assert [each.key for each in recovered] == [first.goal.correlation_id]
    second = tidy.goals.read_reply(first.goal.correlation_id, user="mia", tenant="acme")
    assert second.outcome.reason_code == "CONFIRMATION_REQUIRED"
    assert yes(tidy, second).outcome.user_visible_text == "All steps are done."
