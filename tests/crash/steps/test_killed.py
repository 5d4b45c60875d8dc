"""kill -9 at each durable step that only goals with several steps have: another process goes on, or recovery alone."""

import itertools
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.steps.checking import check_steps
from tests.crash.steps.office import StepsOffice, make_office
from tests.crash.steps.scripts import KINDS, Kind, Script
from tests.crash.steps.turns import run_to_end
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.postgres_databases import fresh_database
from tests.support.sampling import some

CHILD = """
import pickle, sys
from pathlib import Path
from tests.crash.steps.turns import clear_before_attempts, run_to_end
office, script = pickle.loads(Path(sys.argv[1]).read_bytes())
clear_before_attempts(office, {script.correlation_id: script})
with office.scratch.open() as workspace:
    run_to_end(workspace, office, script)
"""
NUMBERS = itertools.count(1)
RETRIED = next(each for each in KINDS if each.free_from == 2)
NO = Kind("no at the third step", "again", "ABORTED_ROLLED_BACK", no_at="log")
UNDONE = next(each for each in KINDS if each.undo == "yes" and each.composite == "pair")


@dataclass(frozen=True)
class Moment:
    """A fault point, the how-manieth time, and the goal that comes by there."""

    point: str
    count: int
    kind: Kind

    def __str__(self) -> str:
        return f"{self.point}:{self.count} {self.kind.name}"


MOMENTS = [
    Moment("goal.step_begun", 1, RETRIED),
    Moment("goal.step_begun", 2, RETRIED),  # the decision about a later step
    Moment("goal.documents_kept", 4, RETRIED),
    Moment("goal.decided", 3, RETRIED),
    Moment("simulation.retried", 1, RETRIED),  # in the transaction of the intent of the second attempt
    Moment("simulation.ran", 3, RETRIED),  # the second attempt
    Moment("goal.ending", 1, RETRIED),
    Moment("goal.ended", 1, RETRIED),
    Moment("goal.step_begun", 4, NO),  # the first rollback
    Moment("simulation.rolled_back", 1, NO),
    Moment("simulation.rolled_back", 2, NO),
    Moment("goal.ending", 1, NO),
    Moment("goal.step_begun", 3, UNDONE),  # the question whether the whole is rolled back
    Moment("goal.step_begun", 5, UNDONE),  # the second rollback of it
    Moment("simulation.rolled_back", 2, UNDONE),
    Moment("goal.ending", 2, UNDONE),
    Moment("goal.ended", 2, UNDONE),
]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def office(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StepsOffice]:
    """One for all moments: each goal has names of its own."""
    folder = tmp_path_factory.mktemp("steps")
    if request.param == "sqlite":
        yield make_office(folder, goals=1, lanes=1)
        return
    with fresh_database(request.getfixturevalue("postgres_admin_url")) as url:
        yield make_office(folder, goals=1, lanes=1, url=url)


def killed(office: StepsOffice, moment: Moment, folder: Path) -> Script:
    """A goal that a process died at."""
    number = next(NUMBERS)
    script = Script(number, f"killed-{number}", moment.kind, office.lanes[0])
    script.prepare(office)
    given = folder / "given.pickle"
    given.write_bytes(pickle.dumps((office, script)))
    command = [preloaded.python(), "-c", CHILD, str(given)]
    ended = run_child(command, fault=Fault(moment.point, moment.count), environment=office.scratch.environ)
    assert ended.killed, f"{moment} was never reached: {ended}"
    return script


@pytest.mark.req("AC-19", "AC-31", "AC-32", "AC-33")
@pytest.mark.parametrize("moment", some(MOMENTS, 4), ids=str)
def test_a_goal_whose_process_was_killed_is_gone_on_with_by_another(
    office: StepsOffice, moment: Moment, tmp_path: Path
) -> None:
    script = killed(office, moment, tmp_path)
    script.before_attempt(office, script.kind.free_from)
    with office.scratch.open() as workspace:
        run_to_end(workspace, office, script)
        run_to_end(workspace, office, script)
    assert check_steps(office, {script.correlation_id: script}, strangers=True).problems == []


@pytest.mark.req("AC-33")
@pytest.mark.parametrize("moment", some(MOMENTS, 3), ids=str)
def test_a_goal_whose_process_was_killed_is_brought_to_rest_by_recovery_alone(
    office: StepsOffice, moment: Moment, tmp_path: Path
) -> None:
    script = killed(office, moment, tmp_path)
    left = {script.correlation_id}
    assert check_steps(office, {script.correlation_id: script}, left, strangers=True).problems == []
    script.before_attempt(office, script.kind.free_from)
    with office.scratch.open() as workspace:
        run_to_end(workspace, office, script)
    assert check_steps(office, {script.correlation_id: script}, strangers=True).problems == []
