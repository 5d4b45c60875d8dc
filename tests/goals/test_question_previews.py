"""What the user sees beside a question: the effect of the action, and no other effect is dispatched afterwards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remit.contracts.services.common import GoalAnswer
from remit.services.services import Services
from tests.goals.composite.composites import COMPOSITE_POLICY, COMPOSITE_SIMULATIONS
from tests.goals.goal_office import Office
from tests.services.conftest import agent, person

WAIT = 30.0
MIA = person("operator", "mia", user="mia")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path, simulations=COMPOSITE_SIMULATIONS, policy=COMPOSITE_POLICY)
    yield made
    made.close()


@pytest.fixture
def desk(office: Office) -> Iterator[Services]:
    with Services(office.workspace) as made:
        yield made


def preview_of(answer: GoalAnswer) -> Any:
    assert answer.preview is not None
    return answer.preview


@pytest.mark.req("AC-03", "PV-02")
def test_a_question_shows_its_effect_and_another_effect_is_refused(desk: Services, office: Office) -> None:
    note = office.root / "notes" / "one.txt"
    move = desk.goals.ask(MIA, "archive the note one", wait=WAIT)
    assert preview_of(move).lines[0] == "rename notes/one.txt to archive/one.txt"
    copy = desk.goals.ask(MIA, "copy the form as fresh", wait=WAIT)
    assert "form.txt (5 bytes)" in preview_of(copy).lines[0]
    entries = office.count("SELECT count(*) FROM ledger_entries")
    for name, kind in ((move.correlation_id, "confirmation"), (copy.correlation_id, "confirmation")):
        assert desk.inbox.show(MIA, kind, name, tenant="acme").goal.preview is not None  # type: ignore[arg-type, union-attr]
        assert desk.goals.get(MIA, "acme", name).preview is not None
    assert office.count("SELECT count(*) FROM ledger_entries") == entries  # a view computes nothing

    note.write_text("something else\n")
    (office.base / "form.txt").write_text("another form\n")
    for asked in (move, copy):
        ended = desk.goals.answer(MIA, asked.correlation_id, "yes")
        assert (ended.state, ended.event) == ("refused", "REFUSED")
        assert "has changed since the user confirmed it" in (ended.why or "")
    assert (office.archived(), (office.base / "fresh.txt").exists()) == ([], False)
    again = desk.goals.ask(MIA, "archive the note one", wait=WAIT)
    assert desk.goals.answer(MIA, again.correlation_id, "yes").state == "done"
    assert all(each.agrees for each in office.goals.replay(move.correlation_id, tenant="acme"))
    assert office.workspace.verify_ledger().holds


@pytest.mark.req("AC-30", "PV-02")
def test_each_step_has_a_preview_of_its_own_and_an_agent_has_none(desk: Services, office: Office) -> None:
    bot = agent(office.workspace, "goal.ask", user="mia")
    asked = desk.goals.ask(bot, "tidy two and fresh", wait=WAIT)
    assert asked.waiting is not None
    desk.jobs.find(f"goal-preview:acme:{asked.correlation_id}:{asked.waiting.step}").wait(WAIT)  # type: ignore[union-attr]
    assert desk.goals.get(bot, "acme", asked.correlation_id).preview is None
    assert preview_of(desk.goals.get(MIA, "acme", asked.correlation_id)).lines[0].startswith("rename notes/two.txt")
    second = desk.goals.answer(MIA, asked.correlation_id, "yes", step=asked.waiting.step)
    assert preview_of(second).type == "task"
    (office.base / "form.txt").write_text("another form\n")
    assert second.waiting is not None
    ended = desk.goals.answer(MIA, asked.correlation_id, "yes", step=second.waiting.step)
    assert (ended.event, office.archived()) == ("ABORTED_ROLLED_BACK", [])
