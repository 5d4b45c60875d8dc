"""A slice of the load with kills; `python -m tests.crash.steps` runs the whole. And the checks find what is wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from remit.core.errors import RemitError
from remit.goals import recording, simulation_executor
from remit.goals.composite import driver
from remit.goals.composite.driver import StepsDriver
from remit.goals.composite.progress import Move, RunStep, next_move
from remit.goals.ports import BoundActionResult
from remit.goals.simulation_executor import SimulationOperation
from tests.crash.steps.checking import check_steps
from tests.crash.steps.office import StepsOffice, make_office
from tests.crash.steps.scripts import KINDS, Kind, Script
from tests.crash.steps.turns import MORE, take_turn
from tests.support import preloaded

ROOT: Final = Path(__file__).resolve().parents[3]
PAIR, AGAIN = (next(each for each in KINDS if each.name == f"{name} completes") for name in ("pair", "again"))
NO = Kind("no at the second step", "pair", "ABORTED_ROLLED_BACK", no_at="log")


@pytest.mark.req("AC-19", "AC-33")
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def test_goals_with_several_steps_whose_workers_are_killed_end_as_they_should(
    request: pytest.FixtureRequest, store: str
) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    if store == "postgresql":
        environ["REMIT_TEST_POSTGRES_URL"] = request.getfixturevalue("postgres_admin_url")
    sizes = ["--goals=8", "--workers=2", "--lanes=1", "--pause", "0.4", "1.2", "--kills=4"]
    command = [preloaded.python(), "-m", "tests.crash.steps", f"--store={store}", *sizes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environ, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert figures["duplicate_side_effects"] == figures["lost_goals"] == figures["problems"] == 0
    assert 0 < figures["killed"] <= 4
    assert figures["decisions_replayed"] > 12


# --- the checks ------------------------------------------------------------------------------------------------------


class Planted(NamedTuple):
    """A fault, a goal that meets it, and a part of a problem that the checks then name."""

    plant: Callable[[pytest.MonkeyPatch], None]
    kind: Kind
    found: str


def other_order(patch: pytest.MonkeyPatch) -> None:
    """The second step is left out until the third has run, and nothing stops that."""

    def wrong(steps: Any, rows: Any, *, keep: bool) -> Move:
        move = next_move(steps, rows, keep=keep)
        done = {each.row.step_id for each in rows if each.row.event == "SUCCEEDED"}
        early = isinstance(move, RunStep) and move.step == steps[1] and steps[2].step_id not in done
        return RunStep(steps[2]) if early else move

    patch.setattr(driver, "next_move", wrong)
    patch.setattr(simulation_executor, "require_in_sequence", lambda *_: None)
    begin = recording._begin_step  # noqa: SLF001 - without its check

    def begin_unchecked(batch: Any, tenant_id: str, decision: Any, sequence: Any) -> None:
        if not sequence:
            begin(batch, tenant_id, decision, sequence)

    patch.setattr(recording, "_begin_step", begin_unchecked)


def no_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(driver, "record_ending", lambda *_: None)
    patch.setattr(driver, "MAX_MOVES", 4)


def rollback_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(simulation_executor, "record_rollback", lambda *_: None)


def lie_about_a_failure(patch: pytest.MonkeyPatch) -> None:
    """What succeeded is recorded as a failure without an effect, so that it is tried again."""
    succeed = SimulationOperation.succeed

    def lie(self: Any, request: Any, checkpoint: Any, made: BoundActionResult) -> Any:
        if made.payload["type"] == "plan" and request.attempt == 1:
            made = BoundActionResult(False, made.payload, made.audit_refs, effect="NONE")
        return succeed(self, request, checkpoint, made)

    patch.setattr(SimulationOperation, "succeed", lie)


def any_answer(patch: pytest.MonkeyPatch) -> None:
    """The answer to one step counts for whichever step waits."""

    def taken(self: StepsDriver, situation: Any) -> str | None:
        return situation.decisive.step_id if self._goal.confirm_state.answer else None

    patch.setattr(StepsDriver, "_require_answer_for_open_step", taken, raising=True)


PLANTED: Final = (
    Planted(other_order, AGAIN, "its steps ran in this order: copy, log, other"),
    Planted(other_order, AGAIN, "lead to another step"),
    Planted(no_end, PAIR, "it is STARTED, and asks 0 questions"),
    Planted(rollback_forgotten, NO, "its step copy is SUCCEEDED, and has 0 effects"),
    Planted(lie_about_a_failure, AGAIN, "2 effects of log"),
    Planted(any_answer, NO, "it is COMPLETED"),
)


class Trial:
    """One office for all faults: each goal has names of its own."""

    def __init__(self, office: StepsOffice) -> None:
        self.office = office
        self.scripts: dict[str, Script] = {}

    def run(self, kind: Kind) -> str:
        number = 3 * len(self.scripts)  # of every third goal the user clicks twice
        script = Script(number, f"trial-{number}", kind, self.office.lanes[0])
        self.scripts[script.correlation_id] = script
        script.prepare(self.office)
        with self.office.scratch.open() as workspace:
            for _ in range(8):
                try:
                    if take_turn(workspace, self.office, script) != MORE:
                        break
                except RemitError:
                    pass
        return script.correlation_id

    def problems(self, correlation_id: str) -> str:
        found = check_steps(self.office, self.scripts).problems
        return "\n".join(each for each in found if each.startswith(correlation_id))


@pytest.mark.req("AC-30", "AC-33")
def test_the_checks_find_what_is_planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    trial = Trial(make_office(tmp_path, goals=100, lanes=1))
    clean = [trial.run(kind) for kind in (PAIR, AGAIN, NO)]
    assert check_steps(trial.office, trial.scripts).problems == []
    for each in PLANTED:
        with subtests.test(fault=each.plant.__name__, found=each.found), monkeypatch.context() as patched:
            each.plant(patched)
            assert each.found in trial.problems(trial.run(each.kind))
    assert [trial.problems(each) for each in clean] == ["", "", ""]
    (trial.office.scratch.base / "stray.txt").write_text("form\n")
    assert "stray: a file that no goal requested" in check_steps(trial.office, trial.scripts).problems
