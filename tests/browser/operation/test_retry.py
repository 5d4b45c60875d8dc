"""Trying again: at most three times, at the specified pauses, and only what may be."""

import pytest

from remit.browser.chromium.types import ElementNeverFoundError
from remit.browser.retry import Retries, is_retryable, pause_before
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError

pytestmark = pytest.mark.req("VX-12")

GONE = RefusedError(Reason.ELEMENT_MISSING, "not there")
SLOW = EnvironmentFailureError(Reason.TIMED_OUT, "too slow")


def trying(problems: list[RemitError], *, is_safe: bool = True) -> tuple[object, list[float], list[int]]:
    """What comes of work that fails with these, one after the other, and then succeeds."""
    sleeps: list[float] = []
    recorded: list[int] = []
    retries = Retries(lambda number, _: recorded.append(number), sleeps.append)
    left = list(problems)

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    try:
        return retries.run(work, lambda _: is_safe), sleeps, recorded
    except RemitError as problem:
        return problem, sleeps, recorded


@pytest.mark.parametrize("problem", [GONE, SLOW])
def test_three_further_tries_later_and_later(problem: RemitError) -> None:
    assert trying([problem] * 3) == ("done", [1.0, 2.0, 4.0], [1, 2, 3])
    assert trying([problem] * 4) == (problem, [1.0, 2.0, 4.0], [1, 2, 3])
    assert trying([]) == ("done", [], [])


def test_what_may_have_done_something_is_not_tried_again() -> None:
    assert trying([SLOW], is_safe=False) == (SLOW, [], [])


@pytest.mark.parametrize(
    "reason",
    [
        Reason.APPROVAL_DENIED,
        Reason.APPROVAL_TIMEOUT,
        Reason.EXPIRED,
        Reason.REVOKED,
        Reason.CAPABILITY_MISSING,
        Reason.CONSTRAINT_VIOLATED,
        Reason.FATE_UNKNOWN,
    ],
)
def test_no_other_error_is_tried_again(reason: Reason) -> None:
    for kind in (RefusedError, EnvironmentFailureError):
        problem = kind(reason, "no", where="browser.click")
        assert trying([problem]) == (problem, [], [])


def test_an_element_that_cannot_ever_be_found_is_looked_for_once() -> None:
    wrong = ElementNeverFoundError(Reason.ELEMENT_MISSING, "not a selector")
    assert trying([wrong]) == (wrong, [], [])


def test_the_tries_of_all_steps_of_an_action_are_counted_together() -> None:
    recorded: list[int] = []
    retries = Retries(lambda number, _: recorded.append(number), lambda _: None)
    problems: list[RemitError] = [GONE, GONE]

    def first() -> None:
        if problems:
            raise problems.pop()

    retries.run(first)

    def second() -> None:
        raise SLOW

    with pytest.raises(EnvironmentFailureError):
        retries.run(second)
    assert recorded == [1, 2, 3]


def test_a_pause_is_never_longer_than_ten_seconds() -> None:
    assert [pause_before(number) for number in range(1, 7)] == [1, 2, 4, 8, 10, 10]
    assert is_retryable(SLOW)
