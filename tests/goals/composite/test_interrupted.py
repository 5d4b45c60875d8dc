"""A goal whose process ended: recovery alone brings it to the next question or to its end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.goals.composite.driver import StepsDriver
from tests.goals.composite.composites import COMPOSITE_POLICY, COMPOSITE_SIMULATIONS
from tests.goals.goal_office import Office


@pytest.fixture
def tidy(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path, simulations=COMPOSITE_SIMULATIONS, policy=COMPOSITE_POLICY)
    yield made
    made.close()


@pytest.mark.req("AC-32", "AC-33")
def test_a_rollback_of_a_whole_goal_that_was_allowed_is_completed_by_recovery(
    tidy: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = tidy.ask("tidy one and two")
    while reply.outcome.reason_code == "CONFIRMATION_REQUIRED":
        reply = tidy.answer(reply, step=reply.outcome.step_id)
    asked = tidy.goals.rollback(reply.goal.correlation_id, user="mia", tenant="acme")
    real = StepsDriver._move  # noqa: SLF001 - the process ends there

    def move(self: StepsDriver, *given: Any) -> Any:
        result = real(self, *given)
        if not (tidy.base / "two.txt").exists():  # the last step is rolled back, and the first is not
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patched:
        patched.setattr(StepsDriver, "_move", move)
        with pytest.raises(KeyboardInterrupt):
            tidy.answer(asked, step=asked.outcome.step_id)
    assert tidy.archived() == ["one"]
    tidy.close()
    tidy.workspace = tidy.opened()
    assert [each.key for each in tidy.workspace.recover()] == [reply.goal.correlation_id]
    assert tidy.archived() == []
    assert tidy.events(reply.goal.correlation_id)[-1] == "ROLLED_BACK"
    assert tidy.workspace.recover() == []
    replayed = tidy.goals.replay(reply.goal.correlation_id, tenant="acme")
    assert [each.why for each in replayed if not each.agrees] == []
