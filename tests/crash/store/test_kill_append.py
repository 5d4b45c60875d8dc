"""kill -9 while appending: whatever was acknowledged is there, everything verifies, and the ledger goes on."""

import pytest

from tests.crash.store.cases import ANCHOR_POINTS, APPEND_POINTS, BOTH, CLAIM_POINTS, MakePlace, faults, run
from tests.crash.store.crash_workspace import what_was_lost
from tests.support.child_process import Fault
from tests.support.sampling import some


@pytest.mark.parametrize("database", BOTH)
@pytest.mark.parametrize("fault", some(faults(APPEND_POINTS), 2))
def test_no_acknowledged_entry_is_lost(make_place: MakePlace, database: str, fault: Fault) -> None:
    place = make_place(database)
    place.prepare()
    ended = run(place, "append", fault)
    # What comes before the point was acknowledged, and nothing after it.
    assert len(ended.acknowledged) == fault.count - 1
    assert what_was_lost(place, ended.acknowledged) == []


@pytest.mark.parametrize("fault", some(faults(ANCHOR_POINTS), 2))
def test_no_anchor_raises_a_false_alarm(make_place: MakePlace, fault: Fault) -> None:
    place = make_place("sqlite")
    place.prepare()
    ended = run(place, "append", fault)
    assert what_was_lost(place, ended.acknowledged) == []


@pytest.mark.parametrize("database", BOTH)
@pytest.mark.parametrize(
    "fault",
    [Fault("append.inserted", 150), Fault("append.before_commit", 3), Fault("append.committed", 4)],
    ids=lambda fault: fault.setting,
)
def test_no_acknowledged_entry_of_thirty_two_callers_is_lost(
    make_place: MakePlace, database: str, fault: Fault
) -> None:
    place = make_place(database)
    place.prepare()
    ended = run(place, "threads", fault, count=10)
    assert len(ended.acknowledged) < 320
    assert what_was_lost(place, ended.acknowledged) == []


@pytest.mark.req("EI-12")
@pytest.mark.parametrize("database", BOTH)
@pytest.mark.parametrize("fault", some(faults(CLAIM_POINTS), 2))
def test_a_claim_lives_and_dies_with_its_entry(make_place: MakePlace, database: str, fault: Fault) -> None:
    place = make_place(database)
    place.prepare()
    ended = run(place, "claims", fault)
    assert len(ended.acknowledged) == 2 * (fault.count - 1)
    hashes = {entry.hash for entry in place.entries().values()}
    assert {word.split()[2] for word in ended.acknowledged} == hashes, "nothing else was recorded"
    with place.store().reading() as connection:
        rows = set(connection.rows("SELECT key, state, result FROM claims"))
    assert rows == {(f"task-{number}", "DONE", f"result {number}") for number in range(fault.count - 1)}
    assert what_was_lost(place, ()) == []


@pytest.mark.parametrize("database", BOTH)
@pytest.mark.parametrize("point", some(APPEND_POINTS, 2))
def test_an_error_surfaces_and_nothing_acknowledged_is_lost(make_place: MakePlace, database: str, point: str) -> None:
    place = make_place(database)
    place.prepare()
    ended = run(place, "append", Fault(point, 2, "error"), count=5)
    assert ended.exit_code == 0, ended.output
    assert ended.output.count("error at ") == ended.output.count("error at 1: ") == 1, ended.output
    assert len(ended.acknowledged) == 4, "the next append works again"
    assert what_was_lost(place, ended.acknowledged) == []


@pytest.mark.parametrize("point", ["append.inserted", "append.before_commit", "append.committed"])
def test_an_error_reaches_every_caller_of_its_group(make_place: MakePlace, point: str) -> None:
    place = make_place("sqlite")
    place.prepare()
    ended = run(place, "threads", Fault(point, 2, "error"), count=4)
    assert ended.exit_code == 0, ended.output
    errors = ended.output.count("error: ")
    assert errors >= 1
    assert len(ended.acknowledged) + errors == 32 * 4
    assert what_was_lost(place, ended.acknowledged) == []
