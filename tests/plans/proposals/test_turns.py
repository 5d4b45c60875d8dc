"""Which turn a proposal gets, by the times and the number of the proposals before it."""

from datetime import UTC, datetime, timedelta

import pytest

from remit.plans.proposals.turns import (
    FIELD,
    MOST_AHEAD,
    MOST_AT_A_TIME,
    LiveTurn,
    Turn,
    allot_turn,
    live_turns,
    parse_turn,
)
from remit.services.base.jobs import MAX_PER_OWNER

pytestmark = pytest.mark.req("PV-04")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LENGTH = timedelta(seconds=10)


def start(live: list[LiveTurn], owner: str, now: float = 0) -> float | None:
    """Give the owner a turn, and return its start in seconds."""
    turn = allot_turn(live, owner, NOW + timedelta(seconds=now), LENGTH)
    if turn is None:
        return None
    assert (turn.ends_at - turn.starts_at, turn.ends_at - turn.stops_at) == (LENGTH, timedelta(seconds=2))
    live.append(LiveTurn(owner, turn))
    return (turn.starts_at - NOW).total_seconds()


def test_turns_of_one_owner_follow_each_other_and_a_few_are_at_the_same_time() -> None:
    live: list[LiveTurn] = []
    assert [start(live, "a"), start(live, "a", 3), start(live, "a", 25)] == [0, 10, 25]
    assert [start(live, "b", 25), start(live, "c", 26)] == [25, 26]
    assert start(live, "d", 27) == 35, "three are at work until then"
    assert start(live, "e", 27) == 35
    assert start(live, "f", 27) == 36
    for each in live:
        beside = [
            one for one in live if one.turn.starts_at < each.turn.ends_at and each.turn.starts_at < one.turn.ends_at
        ]
        assert len({one.owner for one in beside}) == len(beside), "of each owner one"
        at_its_start = [one for one in live if one.turn.starts_at <= each.turn.starts_at < one.turn.ends_at]
        assert len(at_its_start) <= MOST_AT_A_TIME


def test_a_proposal_waits_for_a_bounded_number_of_turns() -> None:
    live: list[LiveTurn] = []
    found = [start(live, "a") for _ in range(MOST_AHEAD + 2)]
    assert found == [*(number * 10.0 for number in range(MOST_AHEAD)), None, None]
    assert MOST_AHEAD < MAX_PER_OWNER
    assert start(live, "b") == 0, "another owner does not wait for them"


def test_turns_from_before_the_clock_was_accepted_are_not_waited_for() -> None:
    later = NOW + timedelta(days=1)
    live = [LiveTurn("a", Turn(later, later + LENGTH, later + LENGTH))]
    assert start(live, "a") == 0


def test_a_turn_is_read_from_the_entry_of_the_proposal_and_from_nothing_else() -> None:
    turn = Turn(NOW, NOW + timedelta(seconds=8), NOW + LENGTH)
    text = str(turn.tree()).replace("'", '"')
    assert parse_turn(f'{{"{FIELD}": {text}}}') == turn
    for payload in (
        "{}",
        f'{{"{FIELD}": null}}',
        f'{{"{FIELD}": {{"starts_at": "soon"}}}}',
        f'["{FIELD}"]',
        f"{FIELD}",
    ):
        assert parse_turn(payload) is None
    assert live_turns([("a", "{}"), ("b", f'{{"{FIELD}": {text}}}')]) == [LiveTurn("b", turn)]
