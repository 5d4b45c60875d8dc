"""kill -9 at every point of a goal's way: gone on with, it takes effect once; left alone, it is settled by recovery."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from remit.testing.goal_evidence import find_problems, read_evidence
from remit.testing.goal_workspace import GoalWorkspace, complete_goal, make_scratch
from tests.crash.goals.checking import check_all
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.postgres_databases import fresh_database
from tests.support.sampling import some

VARIABLE = "REMIT_TEST_LEDGER_URL"
CHILD = """
import sys
from pathlib import Path
from remit.testing.goal_workspace import complete_goal
from remit.workspace.workspace import Workspace
with Workspace.open(Path(sys.argv[1])) as workspace:
    print(complete_goal(workspace.goals, sys.argv[2], sys.argv[3]).reason_code)
"""
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Moment:
    """A fault point, the how-manieth time, and how far the goal is by then: a dispatch of it, an effect of it."""

    point: str
    count: int
    dispatched: bool
    done: bool = False

    def __str__(self) -> str:
        return f"{self.point}:{self.count}"


MOMENTS = [
    Moment("goal.documents_kept", 1, dispatched=False),  # the question
    Moment("goal.decided", 1, dispatched=False),
    Moment("append.committed", 1, dispatched=False),
    Moment("goal.documents_kept", 2, dispatched=False),  # the answer
    Moment("goal.decided", 2, dispatched=False),
    Moment("append.committed", 2, dispatched=False),
    Moment("road.checkpoint_made", 1, dispatched=False),  # the simulation
    Moment("simulation.dispatched", 1, dispatched=False),
    Moment("claim.before_commit", 2, dispatched=False),
    Moment("append.committed", 3, dispatched=True),
    Moment("road.intent_recorded", 1, dispatched=True),
    Moment("append.committed", 4, dispatched=True),  # the task's intent, with its lease
    Moment("road.checkpoint_made", 2, dispatched=True),  # the task
    Moment("claim.before_commit", 4, dispatched=True),
    Moment("road.intent_recorded", 2, dispatched=True),
    Moment("road.noted", 1, dispatched=True),
    Moment("road.effect_done", 1, dispatched=True, done=True),
    Moment("road.published", 1, dispatched=True, done=True),
    Moment("road.outcome_recorded", 1, dispatched=True, done=True),
    Moment("simulation.ran", 1, dispatched=True, done=True),
    Moment("road.effect_done", 2, dispatched=True, done=True),
    Moment("road.published", 2, dispatched=True, done=True),
    Moment("append.before_commit", 7, dispatched=True, done=True),
    Moment("road.outcome_recorded", 2, dispatched=True, done=True),
]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def scratch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoalWorkspace]:
    """One for all moments: each goal has a name of its own."""
    folder = tmp_path_factory.mktemp("killed")
    if request.param == "sqlite":
        yield make_scratch(folder, environ={})
        return
    with fresh_database(request.getfixturevalue("postgres_admin_url")) as url:
        yield make_scratch(folder, url_variable=VARIABLE, environ={VARIABLE: url})


def killed(scratch: GoalWorkspace, moment: Moment) -> tuple[str, str]:
    """A goal that a process died at, by its correlation and its name."""
    correlation_id = f"killed-{next(NUMBERS)}"
    name = correlation_id.replace("killed", "copy")
    command = [preloaded.python(), "-c", CHILD, str(scratch.root), correlation_id, name]
    ended = run_child(command, fault=Fault(moment.point, moment.count), environment=scratch.environ)
    assert ended.killed, f"{moment} was never reached: {ended}"
    with scratch.open() as workspace:
        evidence = read_evidence(workspace, scratch)
    assert (correlation_id in evidence.dispatched) is moment.dispatched
    assert (name in evidence.files) is moment.done
    return correlation_id, name


@pytest.mark.req("AC-08", "AC-12")
@pytest.mark.parametrize("moment", some(MOMENTS, 3), ids=str)
def test_a_goal_whose_process_was_killed_takes_effect_once_when_it_is_asked_for_again(
    scratch: GoalWorkspace, moment: Moment
) -> None:
    correlation_id, name = killed(scratch, moment)
    with scratch.open() as workspace:
        first = complete_goal(workspace.goals, correlation_id, name)
        again = complete_goal(workspace.goals, correlation_id, name)
        evidence = read_evidence(workspace, scratch)
        assert workspace.recover() == []
    assert first.reason_code == "SIMULATION_SUCCEEDED"
    assert again == first
    assert evidence.files[name] == evidence.intents[correlation_id] == evidence.outcomes[correlation_id] == 1
    assert evidence.duplicates.count == 0


@pytest.mark.req("AC-08", "AC-12")
@pytest.mark.parametrize("moment", some(MOMENTS[9:], 2), ids=str)
def test_a_dispatch_whose_process_was_killed_is_settled_by_recovery_alone(
    scratch: GoalWorkspace, moment: Moment
) -> None:
    correlation_id, name = killed(scratch, moment)
    with scratch.open() as workspace:
        assert [report for report in workspace.recover() if report.problem is not None] == []
        evidence = read_evidence(workspace, scratch)
        assert workspace.recover() == []
        told = complete_goal(workspace.goals, correlation_id, name)
    assert evidence.current_events[correlation_id] == ("SUCCEEDED" if moment.done else "FAILED")
    assert evidence.files.get(name, 0) == moment.done
    assert told.reason_code == ("SIMULATION_SUCCEEDED" if moment.done else "SIMULATION_FAILED")
    others = {wanted: each for wanted, each in [(correlation_id, name)] if wanted in evidence.dispatched}
    problems = [each for each in find_problems(evidence, others) if each.startswith(correlation_id)]
    assert problems == []


@pytest.mark.req("AC-08", "AC-10", "AC-13")
def test_after_all_the_kills_every_record_agrees_and_every_decision_replays(scratch: GoalWorkspace) -> None:
    """Last in this file, so that it has something to look at; alone, it makes one goal."""
    with scratch.open() as workspace:
        complete_goal(workspace.goals, "last-one", "last-copy")
        evidence = read_evidence(workspace, scratch)
    wanted = {one: one.replace("killed", "copy").replace("last-one", "last-copy") for one in evidence.current_events}
    checked = check_all(scratch, wanted)
    assert checked.problems == []
    assert checked.duplicates == 0
    assert checked.decisions >= len(wanted)
