"""The plan door's numbers: closed, and each in the range of its category."""

import pytest

from remit.contracts.plans.error_codes import INTERNAL, PLAN_CODES, plan_error
from remit.contracts.plans.error_response import CATEGORY_BY_THOUSAND
from remit.core.errors import Reason

pytestmark = pytest.mark.req("PX-22")


def test_every_number_has_one_name_and_lies_in_the_range_of_a_category() -> None:
    names = {error.code: error.kind for error in PLAN_CODES.values()}
    assert all(names[error.code] == error.kind for error in PLAN_CODES.values())
    assert len(set(names.values())) == len(names)
    assert all(error.category == CATEGORY_BY_THOUSAND[error.code // 1000] for error in PLAN_CODES.values())


def test_a_reason_that_the_table_does_not_know_leaves_as_an_internal_error() -> None:
    of_browsers = {
        Reason.ELEMENT_MISSING,
        Reason.PAGE_CHANGED,
        Reason.FATE_UNKNOWN,
    }
    of_goals = {
        Reason.GOAL_CONFLICT,
        Reason.SIMULATION_UNKNOWN,
        Reason.SIMULATION_INACTIVE,
        Reason.CONFIRMATION_MISSING,
        Reason.ACCESS_DENIED,
        Reason.ACCESS_NEEDS_APPROVAL,
        Reason.ROLLBACK_MISSING,
        Reason.REPLAY_FAILED,
    }
    unknown = {reason for reason in Reason if reason not in PLAN_CODES}
    of_requests = {Reason.AUTHENTICATION_REQUIRED}  # refused before there is a plan
    assert unknown == {*of_requests, *of_browsers, *of_goals}
    assert {plan_error(reason) for reason in unknown} == {INTERNAL}


@pytest.mark.parametrize(
    "reason, code",
    [
        (Reason.FILE_MISSING, 2001),
        (Reason.HASH_MISMATCH, 2003),
        (Reason.PERMISSION_DENIED, 3001),
        (Reason.DEPENDENCY_INVALID, 4001),
        (Reason.TIMED_OUT, 5001),
        (Reason.MALFORMED, 1001),
    ],
)
def test_the_numbers_that_people_know(reason: Reason, code: int) -> None:
    assert plan_error(reason).code == code
