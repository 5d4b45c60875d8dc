"""What policy lets through only with the yes of somebody else."""

from datetime import timedelta

import pytest

from remit.core.errors import Reason, RefusedError
from remit.goals.gates import ApprovalWindow
from remit.identity.person import Person
from remit.services.goals.approvals import list_waiting_goals
from tests.goals.goal_office import ANN, POLICY, TENANT, Office
from tests.support.task_workspace import MovableClock


def waiting(office: Office) -> str:
    reply = office.done("copy the form as mine", user="leo")
    assert reply.outcome.reason_code == "ACCESS_AP_REQUIRED"
    assert not (office.base / "mine.txt").exists()
    return reply.goal.correlation_id


@pytest.mark.req("AC-06")
def test_a_goal_waits_and_continues_once_another_person_has_approved(office: Office) -> None:
    correlation = waiting(office)
    assert (
        office.goals.answer(correlation, "yes", user="leo", tenant=TENANT).outcome.reason_code == "ACCESS_AP_REQUIRED"
    )
    office.goals.approve(correlation, tenant=TENANT, who=ANN, approved=True)
    done = office.goals.answer(correlation, None, user="leo", tenant=TENANT)
    assert done.outcome.reason_code == "SIMULATION_SUCCEEDED"
    assert (office.base / "mine.txt").read_text() == "form\n"
    assert office.events(correlation) == [
        "PLANNED",
        "CONFIRMATION_REQUESTED",
        "CONFIRMED",
        "APPROVAL_REQUESTED",
        "ACCESS_ALLOWED",
        "DISPATCHED",
        "SUCCEEDED",
    ]
    assert all(one.agrees for one in office.goals.replay(correlation, tenant=TENANT))


@pytest.mark.req("AC-06")
def test_a_denied_goal_does_not_run_and_the_first_decision_is_final(desk: Office) -> None:
    correlation = waiting(desk)
    desk.goals.approve(correlation, tenant=TENANT, who=ANN, approved=False, reason="not today")
    with pytest.raises(RefusedError) as second:
        desk.goals.approve(correlation, tenant=TENANT, who=ANN, approved=True)
    assert second.value.reason is Reason.TRANSITION_INVALID
    refused = desk.goals.answer(correlation, None, user="leo", tenant=TENANT)
    assert refused.outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    assert not (desk.base / "mine.txt").exists()
    assert all(one.agrees for one in desk.goals.replay(correlation, tenant=TENANT))


@pytest.mark.req("AC-06")
def test_the_user_who_asks_cannot_approve(desk: Office) -> None:
    correlation = waiting(desk)
    for who in (Person("os:leo"), Person("os:root", "leo")):
        with pytest.raises(RefusedError) as refused:
            desk.goals.approve(correlation, tenant=TENANT, who=who, approved=True)
        assert refused.value.reason is Reason.PERMISSION_DENIED


@pytest.mark.req("AC-06")
def test_an_approval_is_of_no_use_once_the_policy_denies(desk: Office) -> None:
    correlation = waiting(desk)
    desk.goals.approve(correlation, tenant=TENANT, who=ANN, approved=True)
    desk.write_policy('@id("closed")\nforbid (principal, action, resource);')
    refused = desk.goals.answer(correlation, None, user="leo", tenant=TENANT)
    assert refused.outcome.reason_code == "ACCESS_SCOPE_VIOLATION"
    assert not (desk.base / "mine.txt").exists()


@pytest.mark.parametrize("correlation", ["nothing", ""])
def test_only_what_waits_can_be_approved(desk: Office, correlation: str) -> None:
    with pytest.raises(RefusedError):
        desk.goals.approve(correlation, tenant=TENANT, who=ANN, approved=True)


IN_TIME, TOO_LATE = timedelta(minutes=9), timedelta(minutes=11)


@pytest.mark.req("AC-06", "AC-13")
def test_an_approval_that_was_requested_too_long_ago_is_not_valid(office: Office, clock: MovableClock) -> None:
    correlation = waiting(office)
    clock.offset = IN_TIME
    office.goals.approve(correlation, tenant=TENANT, who=ANN, approved=True)
    clock.offset = TOO_LATE
    late = office.goals.answer(correlation, None, user="leo", tenant=TENANT)
    assert late.outcome.reason_code == "ACCESS_AP_REQUIRED"
    assert office.events(correlation)[-2:] == ["APPROVAL_REQUESTED", "REFUSED"]
    assert not (office.base / "mine.txt").exists()
    replayed = office.goals.replay(correlation, tenant=TENANT)
    assert all(one.agrees for one in replayed)
    assert replayed[-1].because.endswith("was not given and used in time")


@pytest.mark.req("AC-06")
def test_an_approval_counts_until_its_time_is_over(desk: Office, clock: MovableClock) -> None:
    correlation = waiting(desk)
    clock.offset = IN_TIME
    desk.goals.approve(correlation, tenant=TENANT, who=ANN, approved=True)
    done = desk.goals.answer(correlation, None, user="leo", tenant=TENANT)
    assert done.outcome.reason_code == "SIMULATION_SUCCEEDED"
    clock.offset = TOO_LATE  # what was done then is as right as it was
    assert all(one.agrees for one in desk.goals.replay(correlation, tenant=TENANT))


@pytest.mark.req("AC-06")
def test_a_goal_that_no_person_approved_in_time_is_refused(desk: Office, clock: MovableClock) -> None:
    correlation = waiting(desk)
    assert [each.correlation_id for each in list_waiting_goals(desk.workspace)] == [correlation]
    clock.offset = TOO_LATE
    assert list_waiting_goals(desk.workspace) == []
    with pytest.raises(RefusedError) as refused:
        desk.goals.approve(correlation, tenant=TENANT, who=ANN, approved=True)
    assert refused.value.reason is Reason.APPROVAL_TIMEOUT
    # Not even if it would need no approval by now: the yes of the user is as old as the question.
    desk.write_policy(POLICY.replace('@verdict("approval_required")\n', ""))
    over = desk.goals.answer(correlation, None, user="leo", tenant=TENANT)
    assert over.outcome.reason_code == "ACCESS_AP_REQUIRED"
    assert desk.events(correlation)[-1] == "REFUSED"
    assert not (desk.base / "mine.txt").exists()
    assert all(one.agrees for one in desk.goals.replay(correlation, tenant=TENANT))


@pytest.mark.parametrize("asked_at, is_over", [("2026-01-01T00:00:00Z", False), ("2027-01-02T00:00:00Z", True)])
def test_an_approval_that_was_asked_for_while_the_clock_was_ahead_is_over(asked_at: str, *, is_over: bool) -> None:
    """After a person accepted an earlier clock it is dated in the future: it must not wait for a year."""
    assert ApprovalWindow(asked_at, None, "2026-01-01T00:00:30Z").is_over is is_over
