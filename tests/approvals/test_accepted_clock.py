"""Approval requests while the clock is wrong: none is lost, and none lives longer than it may."""

from datetime import timedelta

import pytest

from remit.core.errors import Reason, RefusedError
from remit.ledger.clock_acceptance import accept_clock
from tests.approvals.conftest import ADA, Desk

AHEAD = timedelta(days=366)


def accept(desk: Desk) -> None:
    clock = desk.world.clock
    assert accept_clock(desk.world.ledger, ADA.id, ADA.signature, clock.now)


def test_an_approval_is_refused_with_the_cause_and_stays_pending_until_the_clock_is_accepted(desk: Desk) -> None:
    asked = desk.ask()
    right = desk.world.clock.now
    desk.world.clock.now += AHEAD
    desk.world.append("default", 1)
    desk.world.clock.now = right

    for _ in range(2):
        with pytest.raises(RefusedError, match="behind the ledger's newest entry") as caught:
            desk.yes(asked.approval_id)
        assert caught.value.reason is Reason.APPROVAL_TIMEOUT
        assert "remit clock accept" in caught.value.next_step
        assert desk.approvals.show(asked.approval_id).state == "PENDING", "looking at it expires nothing"
    accept(desk)
    assert desk.yes(asked.approval_id).state == "APPROVED"
    assert desk.world.verify().findings == []


def test_a_request_recorded_as_expired_stays_expired(desk: Desk) -> None:
    asked = desk.ask()
    right = desk.world.clock.now
    desk.world.clock.now += AHEAD
    assert [one.state for one in desk.approvals.expire_due()] == ["EXPIRED"]
    desk.world.clock.now = right
    accept(desk)
    with pytest.raises(RefusedError) as caught:
        desk.yes(asked.approval_id)
    assert caught.value.reason is Reason.TRANSITION_INVALID
    assert desk.approvals.show(asked.approval_id).state == "EXPIRED"


@pytest.mark.parametrize("answered", [False, True])
def test_a_request_made_while_the_clock_was_ahead_is_not_pending_for_a_year(desk: Desk, *, answered: bool) -> None:
    right = desk.world.clock.now
    desk.world.clock.now += AHEAD
    asked = desk.ask()
    if answered:
        desk.yes(asked.approval_id)
    desk.world.clock.now = right
    accept(desk)
    with pytest.raises(RefusedError) as caught:
        desk.use(asked.approval_id) if answered else desk.yes(asked.approval_id)
    assert caught.value.reason is Reason.APPROVAL_TIMEOUT
    assert desk.approvals.show(asked.approval_id).state == "EXPIRED"
    assert desk.ask().state == "PENDING", "it can be asked again"
    assert desk.world.verify().findings == []
