"""Asked to end, or killed: what a signal does to a run, and what the next command says of what was left."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.conftest import Remit, approve
from tests.cli.test_plan_commands import AFTER, BEFORE, SLOW, applied, create, interrupted, project, put, update

__all__ = ["project"]

SLOW_ROLLBACK = """
import sys, time
from remit.plans.rollback.operation import RollbackOperation
original = RollbackOperation.effect
def slowly(self, granted, begun, note):
    print("running", file=sys.stderr, flush=True)
    time.sleep(5)
    return original(self, granted, begun, note)
RollbackOperation.effect = slowly
from remit.cli import main
main(["rollback", "last"])
"""


def test_sigterm_cancels_a_plan_as_ctrl_c_does(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update(), create("new/file.txt")), "-o", "envelope.json")
    code, out, err = interrupted(project, SLOW, signal.SIGTERM)
    assert code == 1, (out, err)
    assert "Cancelling; if it is not too late, all changes will be undone." in err
    assert out.startswith("CANCELLED  plan-1")
    assert (project / "settings.json").read_text() == BEFORE
    assert not list(project.rglob(".remit-*"))
    assert remit("recover").out == "Nothing was left unfinished.\n"


def test_sigterm_during_a_rollback_leaves_nothing_half_done(remit: Remit, project: Path) -> None:
    assert applied(remit, put(project, update())).code == 0
    code, out, err = interrupted(project, SLOW_ROLLBACK, signal.SIGTERM)
    assert code == 1, (out, err)
    assert "failed: interrupted" in err
    assert (project / "settings.json").read_text() == AFTER
    assert not list(project.rglob(".remit-*"))
    assert remit("rollback", "last").code == 0
    assert (project / "settings.json").read_text() == BEFORE


def test_a_run_cancelled_early_advises_to_run_again_and_not_to_apply(remit: Remit, project: Path) -> None:
    plan = put(project, update())
    words = f'["run", "{plan}", "--yes"]'
    early = SLOW.replace('"RUNNING"', '"CHECKING"').replace('["apply", "envelope.json"]', words)
    code, out, err = interrupted(project, early, signal.SIGTERM)
    assert code == 1, (out, err)
    assert "  next      To run the plan after all: remit run plan.json --yes" in out
    assert "apply it again" not in out
    assert remit("run", plan, "--yes").code == 0


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("point, state", [("road.effect_done", "finished"), ("road.intent_recorded", "cleared")])
@pytest.mark.parametrize("as_json", [False, True])
def test_apply_reports_an_interrupted_plan_that_it_recovered_first(
    remit: Remit, project: Path, point: str, state: str, *, as_json: bool
) -> None:
    approve(remit, put(project, update()), "-o", "first.json")
    approve(remit, put(project, create("other.txt"), plan_id="plan-2"), "-o", "second.json")
    assert remit("apply", "first.json", REMIT_FAULT=point).code == -signal.SIGKILL
    told = remit("apply", "second.json", *(["--json"] if as_json else []))
    assert told.code == 0, told
    name = json.loads((project / "first.json").read_text())["envelope_id"]
    if as_json:
        (settled,) = told.document["settled"]
        assert (settled["id"], settled["kind"], settled["state"]) == (name, "plan", state)
        return
    end = "It had taken effect" if state == "finished" else "everything is as before"
    (line,) = [line for line in told.err.splitlines() if line.startswith("Interrupted before: plan plan-1 ")]
    assert name in line
    assert end in line


def test_a_rollback_reports_an_interrupted_plan_that_it_recovered_first(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    assert remit("apply", "envelope.json", REMIT_FAULT="road.intent_recorded").code == -signal.SIGKILL
    told = remit("rollback", "last")
    assert told.code == 2, told
    assert told.err.startswith("Interrupted before: plan plan-1 ")
    assert (project / "settings.json").read_text() == BEFORE


def test_a_refusal_names_the_interrupted_plan_that_was_recovered_before_it(remit: Remit, project: Path) -> None:
    approve(remit, put(project, update()), "-o", "envelope.json")
    assert remit("apply", "envelope.json", REMIT_FAULT="road.intent_recorded").code == -signal.SIGKILL
    document = remit("rollback", "last", "--json").document
    assert document["error"]["reason"]
    assert [each["state"] for each in document["settled"]] == ["cleared"]
