"""kill -9 of the program during a call. The call is never made twice, and the record is right."""

from pathlib import Path
from typing import Any

import pytest

from remit.workspace.workspace import Workspace
from tests.governed_functions.customer_workspace import ADA, Place, code_of, result_of
from tests.governed_functions.killed_program import Killed, again
from tests.governed_functions.register import declare
from tests.support.sampling import some

# The fault point, the number of values set by then, and the outcome for each kind of function.
POINTS = [
    ("road.checkpoint_made", 1, {"undoable": "not begun", "final": "not begun", "repeatable": "not begun"}),
    ("road.intent_recorded", 1, {"undoable": "undone", "final": "unknown", "repeatable": "repeated"}),
    ("call.begun", 1, {"undoable": "undone", "final": "unknown", "repeatable": "repeated"}),
    ("call.returned", 2, {"undoable": "undone", "final": "unknown", "repeatable": "repeated"}),
    ("road.effect_done", 2, {"undoable": "undone", "final": "unknown", "repeatable": "repeated"}),
    ("road.outcome_recorded", 2, {"undoable": "done", "final": "done", "repeatable": "done"}),
]
CASES = [
    pytest.param(kind, point, writes, said, id=f"{kind} at {point}")
    for kind in ("undoable", "final", "repeatable")
    for point, writes, saying in POINTS
    for said in (saying[kind],)
]


@pytest.mark.parametrize("kind, point, writes, said", some(CASES, 4))
def test_a_killed_program_never_calls_twice_and_its_record_is_right(
    place: Place, tmp_path: Path, kind: str, point: str, writes: int, said: str
) -> None:
    one = Killed(place, tmp_path, kind, point)
    assert one.ended.killed, one.ended
    assert len(one.written()) == writes
    answer = again(one)
    result, written = result_of(answer), one.written()
    if said == "unknown":
        assert (result.effect, code_of(answer)) == ("unknown", "fate_unknown")
        assert len(written) == writes, "it was called again"
        assert again(one).stored
        return
    assert (result.status, answer.stored) == ("SUCCESS", said == "done")
    since = {"done": [], "undone": [1, 2], "repeated": [2], "not begun": [2]}
    assert written[writes:] == since[said], "not undone before it was called again, or called once too often"


@pytest.mark.parametrize("kind, said", [("undoable", "undone"), ("final", "unknown"), ("repeatable", "open")])
def test_recovery_undoes_or_records_unknown_and_repeats_nothing_without_a_token(
    place: Place, tmp_path: Path, kind: str, said: str
) -> None:
    one = Killed(place, tmp_path, kind, "call.returned")
    [unsettled] = place.workspace.recover()
    assert unsettled.problem is not None, "it was recovered without its function"
    with Workspace.open(place.workspace.root, environ=place.workspace.environ) as workspace:
        declare(workspace, str(one.file))
        [report] = workspace.recover()
        if said == "open":
            assert report.outcome is None
            assert "the same call" in str(report.problem)
            [report] = workspace.recover(abandoned=[one.key])
            assert report.unknown
        assert report.outcome is not None
        assert report.outcome.effect == ("undone" if said == "undone" else "unknown")
        assert '"agent_id":"agent-1"' in place.payloads(one.key).splitlines()[-1], "the agent is not recorded"
        assert one.written() == ([1, 2, 1] if said == "undone" else [1, 2])
        assert workspace.recover() == []
        assert workspace.verify_ledger().holds


def test_a_program_killed_while_it_waits_leaves_one_approval_request_for_the_next(place: Place, tmp_path: Path) -> None:
    one = Killed(place, tmp_path, "asking", "call.asked")
    assert one.ended.killed
    [question] = place.pending()
    waiting = again(one)
    assert waiting.waiting is not None
    assert waiting.waiting.approval_id == question.approval_id
    place.workspace.approvals.decide(question.approval_id, approved=True, who=ADA)
    done: Any = result_of(again(one))
    assert (done.status, one.written()) == ("SUCCESS", [1, 2])
