"""kill -9 while a person accepts the clock: all chains go on from it or none does, and it can be done again."""

from contextlib import closing
from datetime import timedelta

import pytest

from remit.core.ids import parse_time, render_time, system_clock
from remit.ledger.clock import ACCEPTED
from remit.ledger.clock_acceptance import accept_clock
from tests.crash.store.cases import APPEND_POINTS, BOTH, CLOCK_POINTS, MakePlace, faults, run
from tests.crash.store.crash_workspace import event, what_was_lost
from tests.support.child_process import Fault
from tests.support.sampling import some

AHEAD = timedelta(days=366)


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize("fault", [*faults(CLOCK_POINTS), *some(faults(dict.fromkeys(APPEND_POINTS, (1,))), 2)])
def test_an_acceptance_is_whole_or_not_there(make_place: MakePlace, dialect: str, fault: Fault) -> None:
    place = make_place(dialect)
    place.prepare()
    with closing(place.ledger(lambda: system_clock() + AHEAD)) as ledger:
        for number in range(2):
            ledger.append(event(number))
    ended = run(place, "accept", fault)
    entries = place.entries()
    accepted = [entry for entry in entries.values() if entry.kind == ACCEPTED]
    assert len(accepted) in {0, 2}, "one transaction for both chains"
    is_durable = fault.point in {"clock.accepted", "append.committed", "append.anchored"}
    assert bool(accepted) is is_durable
    assert ended.acknowledged == ()
    assert place.verdict().findings == []

    with closing(place.ledger()) as ledger:
        again = accept_clock(ledger, "os:ada", "os:ada", system_clock())
        assert len(again) == (0 if is_durable else 2)
        after = [ledger.append(event(number)) for number in range(2)]
    assert all(parse_time(entry.created_at) < system_clock() + timedelta(minutes=1) for entry in after)
    assert what_was_lost(place, ended.acknowledged) == []


def test_an_acceptance_that_was_acknowledged_is_there(make_place: MakePlace) -> None:
    place = make_place("sqlite")
    place.prepare()
    with closing(place.ledger(lambda: system_clock() + AHEAD)) as ledger:
        ledger.append(event(0))
    ended = run(place, "accept")
    (word,) = ended.acknowledged
    (accepted,) = (entry for entry in place.entries().values() if entry.kind == ACCEPTED)
    assert word == f"{accepted.tenant_id} {accepted.seq} {accepted.hash}"
    assert accepted.created_at < render_time(system_clock())
    assert what_was_lost(place, ended.acknowledged) == []
