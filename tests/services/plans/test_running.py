"""What is applied takes its time: followed, stopped, refused; and what is left unused comes to nothing."""

from datetime import timedelta
from typing import Any

import pytest

from remit.contracts.services.plans import ProposalView
from remit.core.errors import Reason, RefusedError
from remit.services.base.jobs import Job, JobRunner
from remit.services.plans.service import PlanService
from tests.services.plans.proposal_workspace import ADMIN, APPROVER, OPERATOR, VIEWER, ProposalWorkspace, refusal_of


def test_a_caller_that_does_not_wait_can_follow_the_run_by_its_id(office: ProposalWorkspace) -> None:
    made, path = office.make_approved()
    begun = office.plans.apply(office.agent, made.proposal_id, wait=0)
    assert begun.state in {"RUNNING", "APPLIED"}
    joined = office.plans.apply(OPERATOR, made.proposal_id, wait=30)
    assert (joined.state, joined.progress) == ("APPLIED", None)
    assert office.project.read(path) == "one\nTWO\nthree\n"
    run = office.plans.read_run(VIEWER, made.proposal_id)
    assert (run.status, run.proposal_id, run.files) == ("SUCCESS", made.proposal_id, 1)
    assert office.plans.list_runs(VIEWER, limit=1).items == (run,)


def test_a_file_changed_after_the_approval_stops_the_run_and_the_approval_stays(office: ProposalWorkspace) -> None:
    made, path = office.make_approved()
    office.project.write(path, "one\ntwo\nsomebody else\n")
    problem = refusal_of(office.plans.apply, office.agent, made.proposal_id, wait=30)
    assert problem.reason is Reason.BINDING_MISMATCH
    now = office.plans.get(office.agent, made.proposal_id)
    assert (now.state, now.refused and now.refused.code) == ("APPROVED", Reason.BINDING_MISMATCH)
    office.project.write(path)
    assert office.plans.apply(office.agent, made.proposal_id, wait=30).state == "APPLIED"


def test_what_is_withdrawn_in_time_is_never_applied(office: ProposalWorkspace) -> None:
    waiting, approved = office.make_proposed()[0], office.make_approved()[0]
    assert office.plans.cancel(office.agent, waiting.proposal_id, reason="no need").reason == (
        "withdrawn by agent:bot: no need"
    )
    assert refusal_of(office.approve, waiting.proposal_id).reason is Reason.TRANSITION_INVALID
    assert office.plans.cancel(APPROVER, approved.proposal_id).state == "VOID"
    assert refusal_of(office.plans.apply, OPERATOR, approved.proposal_id).reason is Reason.REVOKED
    assert approved.envelope_id is not None
    assert office.read_entries(approved.envelope_id)[-1] == ("envelope.cancelled", "os:bob")
    assert refusal_of(office.plans.cancel, office.agent, waiting.proposal_id).reason is Reason.TRANSITION_INVALID


def test_a_plan_whose_envelope_was_cancelled_outside_the_service_is_void(office: ProposalWorkspace) -> None:
    made, _ = office.make_approved()
    assert made.envelope_id is not None
    office.workspace.cancel(made.envelope_id)
    assert office.plans.get(VIEWER, made.proposal_id).state == "VOID"
    assert refusal_of(office.plans.apply, OPERATOR, made.proposal_id, wait=30).reason is Reason.REVOKED


@pytest.mark.parametrize("phase,state", [("CHECKPOINT", "VOID"), ("RUNNING", "CANCELLED")])
def test_a_running_plan_can_be_stopped_and_is_undone(office: ProposalWorkspace, phase: str, state: str) -> None:
    made, path = office.make_approved()
    stopped: list[ProposalView] = []

    def stop(job: Job[Any]) -> None:
        if not stopped and job.progress is not None and job.progress.phase == phase:
            stopped.append(office.plans.cancel(OPERATOR, made.proposal_id))

    office.work.on_progress = stop
    try:
        office.plans.apply(office.agent, made.proposal_id, wait=30)
    except RefusedError as problem:
        assert problem.reason is Reason.CANCELLED  # noqa: PT017 - whether it is raised depends on the phase
    finally:
        office.work.on_progress = lambda _: None
    assert stopped
    assert office.project.read(path) == "one\ntwo\nthree\n"
    assert office.plans.get(VIEWER, made.proposal_id).state == state


def test_another_process_gives_the_same_answers_about_a_plan(office: ProposalWorkspace) -> None:
    made, _ = office.make_applied()
    waiting, _ = office.make_proposed()
    with office.project.opened() as workspace:
        other = PlanService(workspace, jobs=JobRunner())
        assert other.get(VIEWER, made.proposal_id).state == "APPLIED"
        assert waiting.proposal_id in {each.proposal_id for each in other.list_pending(ADMIN)}
        assert other.read_report(VIEWER, made.proposal_id) == office.plans.read_report(VIEWER, made.proposal_id)


def test_an_unused_approval_expires_after_an_hour_and_a_proposal_after_a_day(office: ProposalWorkspace) -> None:
    approved, waiting = office.make_approved()[0], office.make_proposed()[0]
    office.clock.offset += timedelta(hours=1, minutes=1)
    assert office.plans.get(VIEWER, approved.proposal_id).state == "EXPIRED"
    assert refusal_of(office.plans.apply, OPERATOR, approved.proposal_id, wait=30).reason is Reason.EXPIRED
    assert office.plans.get(VIEWER, waiting.proposal_id).state == "PENDING"
    office.clock.offset += timedelta(hours=23)
    assert office.plans.get(VIEWER, waiting.proposal_id).state == "EXPIRED"
    assert waiting.proposal_id not in {each.proposal_id for each in office.plans.list_pending(VIEWER)}
    assert refusal_of(office.plans.read_preview, APPROVER, waiting.proposal_id).reason is Reason.TRANSITION_INVALID
