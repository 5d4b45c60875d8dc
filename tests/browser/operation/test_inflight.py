"""Who is told what of an action that is under way, and by whom it is not begun again."""

import threading
from typing import Any

import pytest

from remit.browser.inflight import BrowseHooks, InflightAction, InflightActions
from remit.contracts.browser.browser import Approval
from remit.core.errors import Reason, RefusedError
from tests.contracts.operation_examples import BROWSER


def approval(number: int, state: str) -> Approval:
    tree: dict[str, Any] = {**BROWSER["approval"], "state": state}
    return Approval.from_tree({**tree, "approvalId": f"{tree['approvalId'][:-1]}{number}"})


def heard_by_joining(*states: str) -> tuple[list[str], list[str]]:
    """What somebody hears who joins when the questions stand like this."""
    now = {each.approval_id: each for each in (approval(number, state) for number, state in enumerate(states))}
    flight = InflightAction()
    for number in range(len(states)):
        flight.notify_waiting(approval(number, "PENDING"))
    waiting: list[str] = []
    answered: list[str] = []
    hooks = BrowseHooks(
        on_waiting=lambda each: waiting.append(each.approval_id[-1]),
        on_answered=lambda each: answered.append(each.approval_id[-1] + each.state),
    )
    flight.join(hooks, lambda approval_id: now[approval_id])
    return waiting, answered


@pytest.mark.req("VX-09")
@pytest.mark.parametrize(
    "states, waiting, answered",
    [
        ((), [], []),
        (("PENDING",), ["0"], []),
        (("USED", "PENDING"), ["1"], []),
        (("PENDING", "PENDING"), ["0", "1"], []),
        (("APPROVED",), [], ["0APPROVED"]),
        (("USED", "USED"), [], ["1USED"]),
    ],
)
def test_a_caller_who_joins_is_notified_of_the_pending_approval_request_and_of_no_other(
    states: tuple[str, ...], waiting: list[str], answered: list[str]
) -> None:
    assert heard_by_joining(*states) == (waiting, answered)


def test_an_action_at_work_is_not_begun_under_another_token() -> None:
    flights = InflightActions()
    first, is_mine = flights.register("action", "token-1")
    assert is_mine
    assert flights.register("action", "token-1") == (first, False)
    second, _ = flights.register("action", "token-2")
    flights.require_exclusive("action", first)  # the second is not verified yet, and keeps nobody
    with pytest.raises(RefusedError) as refused:
        flights.require_exclusive("action", second)
    assert refused.value.reason is Reason.IDEMPOTENCY_CONFLICT
    flights.unregister("action", "token-1")
    flights.require_exclusive("action", second)
    assert second.is_at_work


def test_an_approval_request_that_arises_while_a_caller_joins_reaches_that_caller() -> None:
    flight, heard = InflightAction(), threading.Event()
    flight.join(BrowseHooks(on_waiting=lambda _: heard.set()), lambda _: approval(0, "PENDING"))
    flight.notify_waiting(approval(0, "PENDING"))
    assert heard.is_set()
