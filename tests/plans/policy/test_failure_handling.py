"""What becomes of a plan: the table of errors, flags and what had been done."""

import itertools

import pytest

from remit.contracts.plans.error_codes import plan_error
from remit.contracts.plans.plan import ExecutionInstructions
from remit.core.errors import Reason
from remit.plans.policy.failure_handling import JudgedStep, PlanFate, StepFate, decide_fate, fate_of, recovery_action

KEEP = ExecutionInstructions(rollback_on_failure=False)
BACK = ExecutionInstructions()

DONE = JudgedStep(0, "done")
SKIPPED = JudgedStep(2, "skipped", Reason.DEPENDENCY_FAILED)
STOPPED = JudgedStep(2, "skipped")


def failed(reason: Reason | None) -> JudgedStep:
    return JudgedStep(1, "failed", reason)


@pytest.mark.req("PX-22", "PX-35")
def test_only_a_failure_of_one_action_leaves_it_to_the_flags(subtests: pytest.Subtests) -> None:
    """By the codes of the plan door: 2001, 2002, 2011, 3001, 4003, 11xx, and 1008 for one file that is too large.

    Not 1110: a text that tries what is not for a plan is refused, and the plan with it.
    """
    for reason in list(Reason):
        with subtests.test(reason=reason):
            code = plan_error(reason).code
            about_one = code in {1008, 2001, 2002, 2011, 3001, 4003} or (1100 <= code < 1200 and code != 1110)
            assert (fate_of(reason) is StepFate.FLAGS_DECIDE) == about_one


@pytest.mark.req("PX-10", "PX-13")
def test_all_done_is_good_whatever_the_flags() -> None:
    for flags in (KEEP, BACK):
        assert decide_fate([DONE, DONE], flags) == PlanFate("GOOD", "SUCCESS")


@pytest.mark.req("PX-10", "PX-13")
@pytest.mark.parametrize("rest", [(), (SKIPPED,), (STOPPED,), (DONE,)])
def test_a_failed_action_after_a_done_one_is_for_the_flags_to_decide(rest: tuple[JudgedStep, ...]) -> None:
    results = [DONE, failed(Reason.FILE_MISSING), *rest]
    assert decide_fate(results, BACK) == PlanFate("BACK", "ROLLED_BACK")
    assert decide_fate(results, KEEP) == PlanFate("KEEP", "PARTIAL")


@pytest.mark.req("PX-22", "PX-35")
def test_a_grave_failure_undoes_the_plan_whatever_the_flags_say(subtests: pytest.Subtests) -> None:
    for reason in [
        Reason.HASH_MISMATCH,
        Reason.DISK_FULL,
        Reason.EFFECT_FAILED,
        Reason.PATH_REFUSED,
        Reason.EXPIRED,
        Reason.REVOKED,
        Reason.TIMED_OUT,
        Reason.INTERNAL,
        Reason.RULE_FAILED,
        None,
    ]:
        with subtests.test(reason=reason):
            assert decide_fate([DONE, failed(reason)], KEEP) == PlanFate("BACK", "ROLLED_BACK")
            assert decide_fate([DONE, failed(Reason.FILE_MISSING), failed(reason)], KEEP).verdict == "BACK"


@pytest.mark.req("PX-13")
@pytest.mark.parametrize("reason", [Reason.FILE_MISSING, Reason.HASH_MISMATCH])
def test_where_nothing_was_done_the_plan_has_failed_and_nothing_is_rolled_back(reason: Reason) -> None:
    for flags, rest in itertools.product((KEEP, BACK), ((), (SKIPPED,))):
        assert decide_fate([failed(reason), *rest], flags) == PlanFate("BACK", "FAILED")
    assert decide_fate([], KEEP) == PlanFate("BACK", "FAILED")


@pytest.mark.req("PX-13")
def test_a_cancelled_plan_is_undone_whatever_was_done() -> None:
    for flags in (KEEP, BACK):
        for results in (
            [DONE, failed(Reason.CANCELLED)],
            [failed(Reason.CANCELLED)],
            [DONE, JudgedStep(1, "skipped", Reason.CANCELLED)],
        ):
            assert decide_fate(results, flags) == PlanFate("BACK", "CANCELLED")


def test_a_plan_of_which_something_was_left_out_is_never_good() -> None:
    assert decide_fate([DONE, STOPPED], BACK) == PlanFate("BACK", "ROLLED_BACK")
    assert decide_fate([DONE, STOPPED], KEEP) == PlanFate("KEEP", "PARTIAL")


@pytest.mark.req("PX-22", "PX-35")
def test_the_recovery_action_says_what_was_done_about_it(subtests: pytest.Subtests) -> None:
    for reason, status, action in [
        (Reason.FILE_MISSING, "ROLLED_BACK", "ROLLED_BACK"),
        (Reason.FILE_MISSING, "PARTIAL", "SKIPPED"),
        (Reason.FILE_MISSING, "FAILED", "SKIPPED"),
        (Reason.DEPENDENCY_FAILED, "ROLLED_BACK", "SKIPPED"),
        (Reason.DEPENDENCY_FAILED, "PARTIAL", "SKIPPED"),
        (Reason.DISK_FULL, "ROLLED_BACK", "ROLLED_BACK"),
        (Reason.RULE_FAILED, "ROLLED_BACK", "ROLLED_BACK"),
        (Reason.CANCELLED, "CANCELLED", "ROLLED_BACK"),
        (Reason.PATH_REFUSED, None, "SKIPPED"),
        (Reason.SIGNATURE_INVALID, None, "SKIPPED"),
        (Reason.ROLLBACK_FAILED, None, "MANUAL_REQUIRED"),
        (Reason.ROLLBACK_FAILED, "ROLLED_BACK", "MANUAL_REQUIRED"),
    ]:
        with subtests.test(action):
            assert recovery_action(reason, status) == action  # type: ignore[arg-type]


@pytest.mark.req("PX-13", "PX-21")
def test_of_an_action_with_several_files_no_part_stays() -> None:
    """A pipeline leaves files that belong together."""
    one = JudgedStep(0, "done", action_id="a")
    two = JudgedStep(1, "failed", Reason.FILE_CONFLICT, "a")
    other = JudgedStep(2, "done", action_id="b")
    assert decide_fate([one, two, other], KEEP) == PlanFate("BACK", "ROLLED_BACK")
    assert decide_fate([one, two._replace(state="skipped", reason=None), other], KEEP).verdict == "BACK"
    assert decide_fate([one._replace(state="failed", reason=Reason.FILE_CONFLICT), two, other], KEEP).verdict == "KEEP"
