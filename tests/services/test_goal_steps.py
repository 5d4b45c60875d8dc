"""Goals with several steps through the services: one state of the whole, and answers that name their step."""

from collections.abc import Iterator

import pytest

from remit.contracts.services.common import Decision, GoalAnswer
from remit.core.errors import Reason, RefusedError
from remit.services.services import Services
from tests.goals.composite.composites import COMPOSITE_POLICY, COMPOSITE_SIMULATIONS
from tests.goals.goal_office import Office
from tests.services.conftest import CONSOLE, person
from tests.support.task_workspace import MovableClock

WAIT = 30.0
MIA = person("operator", "mia", user="mia")
LEO = person("operator", "leo", user="leo")
BOB = person("approver", "bob")
LEO_ASKS = """
@id("leo-tidies")
permit (principal == User::"acme/leo", action == Action::"tidy", resource);
@id("leo-asks-to-archive")
@verdict("approval_required")
permit (principal == User::"acme/leo", action == Action::"archive_note", resource);
"""


@pytest.fixture(scope="module")
def tidy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    made = Office(
        tmp_path_factory.mktemp("steps"),
        clock=MovableClock(),
        simulations=COMPOSITE_SIMULATIONS,
        policy=COMPOSITE_POLICY + LEO_ASKS,
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def desk(tidy: Office) -> Iterator[Services]:
    with Services(tidy.workspace, console_url=CONSOLE) as made:
        yield made


def states(answer: GoalAnswer) -> dict[str, str]:
    assert answer.steps is not None
    return {each.name: each.state for each in answer.steps.steps}


@pytest.mark.req("AC-30")
def test_every_answer_names_its_step_and_only_the_end_makes_the_goal_done(desk: Services, tidy: Office) -> None:
    asked = desk.goals.ask(MIA, "tidy one and two", wait=WAIT)
    name = asked.correlation_id
    assert asked.steps is not None
    assert asked.waiting is not None
    assert (asked.state, asked.event, asked.steps.outcome) == ("waiting", "CONFIRMATION_REQUESTED", "WAITING")
    assert states(asked) == {"look": "done", "one": "waiting", "two": "not started"}
    first, second = (each.step_id for each in asked.steps.steps[1:])
    assert asked.waiting.step == first == asked.steps.waiting.step_id  # type: ignore[union-attr]
    assert [each.fields for each in asked.steps.steps] == [{}, {"note": "one"}, {"name": "two"}]
    with pytest.raises(RefusedError, match=first) as unnamed:
        desk.goals.answer(MIA, name, "yes")
    assert unnamed.value.reason is Reason.MALFORMED
    [line] = [each for each in desk.inbox.list_open(MIA) if each.id == name]
    assert (line.kind, line.step) == ("confirmation", first)
    view = desk.inbox.show(MIA, "confirmation", name, tenant="acme").goal
    assert view is not None
    assert (view.simulation_id, view.fields, view.step, view.place) == (
        "archive-note",
        {"note": "one"},
        "one",
        "2 of 3",
    )
    with pytest.raises(RefusedError):
        desk.inbox.decide(MIA, "confirmation", name, Decision(answer="yes"))
    unused = desk.goals.answer(MIA, name, "yes", step=second)
    assert (unused.state, tidy.archived()) == ("refused", [])
    decided = desk.inbox.decide(MIA, "confirmation", name, Decision(answer="yes", step=first))
    assert (decided.state, tidy.archived()) == ("APPROVED", ["one"])
    between = desk.goals.get(MIA, "acme", name)
    assert (between.state, states(between)["one"], between.can_take_back) == ("waiting", "done", False)
    done = desk.goals.answer(MIA, name, "yes", step=second)
    assert done.steps is not None
    assert (done.state, done.event, done.steps.outcome) == ("done", "COMPLETED", "COMPLETED")
    assert (done.can_take_back, done.steps.remaining) == (True, ("one", "two"))
    lines = [each for each in desk.goals.list_goals(MIA, "acme") if each.correlation_id == name]
    assert [each.event for each in lines] == ["COMPLETED"]
    back = desk.goals.undo(MIA, name, wait=WAIT)
    assert (back.correlation_id, back.waiting_for) == (name, "confirmation")
    assert back.waiting is not None
    gone = desk.goals.answer(MIA, name, "yes", step=back.waiting.step)
    assert gone.steps is not None
    assert (gone.state, gone.event, tidy.archived()) == ("done", "ROLLED_BACK", [])
    assert {each.rollback for each in gone.steps.steps if each.impact != "read_only"} == {"done"}


@pytest.mark.req("AC-30", "AC-32")
def test_the_approval_of_one_step_counts_for_no_other(desk: Services, tidy: Office) -> None:
    asked = desk.goals.ask(LEO, "tidy three and four", wait=WAIT)
    name = asked.correlation_id
    assert asked.steps is not None
    first, second = (each.step_id for each in asked.steps.steps[1:])
    waits = desk.goals.answer(LEO, name, "yes", step=first)
    assert (waits.waiting_for, states(waits)["one"]) == ("approval", "waiting")
    [line] = [each for each in desk.inbox.list_open(BOB) if each.id == name]
    assert (line.step, line.title) == (
        first,
        "Step 2 of 3 of “Tidy up”, one: Archive a note (archive-note 1): note = three",
    )
    for step in (None, second):
        with pytest.raises(RefusedError, match=first):
            desk.inbox.decide(BOB, "goal", name, Decision(approved=True, step=step), tenant="acme")
    approved = desk.inbox.decide(BOB, "goal", name, Decision(approved=True, step=first), tenant="acme")
    assert (approved.state, approved.step) == ("APPROVED", first)
    asked = desk.goals.resume(LEO, name, WAIT)
    assert (asked.waiting_for, tidy.archived()) == ("confirmation", ["three"])
    waits = desk.goals.answer(LEO, name, "yes", step=second)
    assert (waits.waiting_for, (tidy.base / "four.txt").exists()) == ("approval", False)
    assert desk.goals.resume(LEO, name, WAIT).waiting_for == "approval"  # the approval of the first step is used up
    desk.inbox.decide(BOB, "goal", name, Decision(approved=False, step=second), tenant="acme")
    stopped = desk.goals.resume(LEO, name, WAIT)
    assert stopped.steps is not None
    assert stopped.waiting is not None
    back = f"{first}-rollback"  # its access action needs an approval too
    assert (stopped.state, stopped.waiting_for, stopped.waiting.step) == ("waiting", "approval", back)
    assert (stopped.steps.steps[1].state, stopped.steps.steps[1].rollback) == ("done", "waiting")
    assert stopped.steps.steps[2].reason == "a person was asked to approve it, and denied it"
    desk.inbox.decide(BOB, "goal", name, Decision(approved=True, step=back), tenant="acme")
    ended = desk.goals.resume(LEO, name, WAIT)
    assert (ended.state, ended.event, tidy.archived()) == ("failed", "ABORTED_ROLLED_BACK", [])
    closed = [(each.step, each.state) for each in desk.inbox.list_recent(BOB) if each.id == name]
    assert closed == [(back, "APPROVED"), (second, "DENIED"), (first, "APPROVED")]
