"""A plan from its proposal to its undo."""

from remit.core.errors import Reason
from tests.services.plans.proposal_workspace import APPROVER, CONSOLE, OPERATOR, VIEWER, ProposalWorkspace, refusal_of


def test_an_agent_proposes_a_person_approves_the_agent_applies_and_undoes_it(office: ProposalWorkspace) -> None:
    made, path = office.make_proposed(note="please")
    assert (made.state, made.proposed_by, made.note) == ("PENDING", "agent:bot", "please")
    assert made.token_jti == office.agent.token.jti
    assert made.link == f"{CONSOLE}/inbox/plan/{made.proposal_id}"
    shown = office.plans.read_preview(APPROVER, made.proposal_id)
    assert "+TWO" in shown.document.files[0].diff
    assert office.project.read(path) == "one\ntwo\nthree\n"

    approved = office.plans.decide(
        APPROVER, made.proposal_id, approved=True, preview_digest=shown.preview_digest, reason="looks good"
    )
    assert (approved.state, approved.decided_by, approved.reason) == ("APPROVED", "os:bob", "looks good")
    assert approved.envelope_id is not None
    assert approved.apply_until is not None
    steps = [("proposal.made", "agent:bot"), ("proposal.previewed", "agent:bot"), ("proposal.approved", "os:bob")]
    assert office.read_entries(made.proposal_id) == steps
    assert office.read_entries(approved.envelope_id) == [("envelope.issued", "os:bob")]

    applied = office.plans.apply(office.agent, made.proposal_id, wait=30)
    assert (applied.state, office.project.read(path)) == ("APPLIED", "one\nTWO\nthree\n")
    assert applied.undo is not None
    assert applied.undo.state == "POSSIBLE"
    report = office.plans.read_report(OPERATOR, made.proposal_id)
    assert report.status is not None
    assert (report.status.folder, report.status.status) == (applied.report_folder, "SUCCESS")

    answer = office.plans.undo(office.agent, made.proposal_id)
    assert (answer.status, answer.restored, office.project.read(path)) == ("EXECUTED", None, "one\ntwo\nthree\n")
    assert answer.withheld, "which files they were is for people"
    assert office.plans.get(office.agent, made.proposal_id).state == "UNDONE"
    assert office.plans.undo(office.agent, made.proposal_id).stored


def test_what_is_applied_twice_is_done_once(office: ProposalWorkspace) -> None:
    made, path = office.make_applied()
    office.project.write(path, "changed since\n")
    again = office.plans.apply(OPERATOR, made.proposal_id, wait=30)
    assert (again.state, office.project.read(path)) == ("APPLIED", "changed since\n")
    assert office.plans.preview_undo(VIEWER, made.proposal_id).drifted[0].path == path
    answer = office.plans.undo(OPERATOR, made.proposal_id)
    assert (answer.status, [file.path for file in answer.drifted]) == ("REFUSED", [path])
    assert answer.refused is not None
    assert answer.refused.code is Reason.DRIFTED
    assert refusal_of(office.plans.undo, office.agent, made.proposal_id, force=True).reason is Reason.PERMISSION_DENIED
    assert office.plans.undo(OPERATOR, made.proposal_id, force=True).status == "REFUSED", "of which look?"
    assert answer.drift_digest is not None
    forced = office.plans.undo(OPERATOR, made.proposal_id, force=True, drift_digest=answer.drift_digest)
    assert forced.status == "EXECUTED"
    assert office.project.read(path) == "one\ntwo\nthree\n"
