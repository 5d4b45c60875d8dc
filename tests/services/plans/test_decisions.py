"""Who may answer, to what, and what of it counts."""

from collections.abc import Callable

import pytest

from remit.contracts.plans.envelope import Approvals
from remit.contracts.services.plans import ProposalState, ProposalView
from remit.core.errors import Reason
from remit.identity.callers import AgentCaller
from remit.services.base.permissions import RULES, Right
from tests.plans.project import create, plan_of, replace
from tests.services.plans.proposal_workspace import (
    ADMIN,
    APPROVER,
    CAPS,
    OPERATOR,
    VIEWER,
    ProposalWorkspace,
    refusal_of,
)


def test_only_an_approver_or_an_admin_can_approve_or_deny(office: ProposalWorkspace) -> None:
    made, _ = office.make_proposed()
    digest = office.plans.read_preview(APPROVER, made.proposal_id).preview_digest
    for approved in (True, False):
        for caller in (office.agent, office.issue_token("bot"), VIEWER, OPERATOR):
            problem = refusal_of(
                office.plans.decide, caller, made.proposal_id, approved=approved, preview_digest=digest
            )
            assert problem.reason is Reason.PERMISSION_DENIED, caller
    assert office.plans.get(VIEWER, made.proposal_id).state == "PENDING"
    said = office.plans.decide(ADMIN, made.proposal_id, approved=False, reason="no")
    assert (said.state, said.reason, said.decided_by) == ("DENIED", "no", "os:ada")
    assert refusal_of(office.plans.apply, office.agent, made.proposal_id).reason is Reason.APPROVAL_DENIED


def test_an_agent_cannot_decide_whatever_the_table_of_rights_says(
    office: ProposalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = office.make_proposed()
    digest = office.plans.read_preview(APPROVER, made.proposal_id).preview_digest
    monkeypatch.setitem(RULES, Right.DECIDE, RULES[Right.DECIDE]._replace(any_token=True))
    problem = refusal_of(office.plans.decide, office.agent, made.proposal_id, approved=True, preview_digest=digest)
    assert problem.reason is Reason.PERMISSION_DENIED
    assert office.plans.get(VIEWER, made.proposal_id).state == "PENDING"


def test_an_approval_is_valid_only_for_the_preview_that_was_shown(office: ProposalWorkspace) -> None:
    made, path = office.make_proposed()
    plans = office.plans
    shown = plans.read_preview(APPROVER, made.proposal_id).preview_digest
    assert refusal_of(plans.decide, APPROVER, made.proposal_id, approved=True).reason is Reason.MALFORMED
    office.project.write(path, "one\ntwo\nsomething else\n")
    problem = refusal_of(plans.decide, APPROVER, made.proposal_id, approved=True, preview_digest=shown)
    assert (problem.reason, "Compute the preview again" in problem.next_step) == (Reason.HASH_MISMATCH, True)
    assert plans.get(APPROVER, made.proposal_id).state == "PENDING"
    assert refusal_of(office.approve, made.proposal_id).reason is Reason.HASH_MISMATCH, (
        "what is stored is what it was before"
    )
    assert plans.compute_preview(OPERATOR, made.proposal_id).preview_digest != shown
    assert office.approve(made.proposal_id).state == "APPROVED"
    again = refusal_of(plans.decide, ADMIN, made.proposal_id, approved=False)
    assert again.reason is Reason.TRANSITION_INVALID
    other, _ = office.make_proposed()
    problem = refusal_of(plans.decide, APPROVER, other.proposal_id, approved=True, preview_digest=shown)
    assert problem.reason is Reason.HASH_MISMATCH, "the digest of another preview is none of this one"


def test_only_the_person_who_approves_names_what_the_plan_needs(office: ProposalWorkspace) -> None:
    office.project.write(".env", "A=1\n")
    made = office.plans.propose(office.agent, plan_of(replace("a", ".env", "A=1", "A=2"), plan_id="secretive"))
    assert made.risk == "HIGH"
    shown = office.plans.read_preview(APPROVER, made.proposal_id)
    assert shown.document.needs.protected == (".env",)
    assert refusal_of(office.approve, made.proposal_id).reason is Reason.PROTECTED
    allow = Approvals(protected=(".env",), executable=(), content=(), irreversible=())
    assert office.approve(made.proposal_id, allow=allow).state == "APPROVED"
    idle, _ = office.make_proposed()
    assert refusal_of(office.approve, idle.proposal_id, allow=allow).reason is Reason.ARGUMENT_INVALID


def test_what_could_not_be_approved_is_not_proposed(office: ProposalWorkspace) -> None:
    before = len(office.plans.list_pending(ADMIN))
    office.project.write("there.txt")
    doomed = plan_of(create("a", "there.txt"), plan_id="doomed")
    assert refusal_of(office.plans.propose, OPERATOR, doomed).reason is Reason.FILE_CONFLICT
    assert refusal_of(office.plans.propose, office.agent, b"{}").reason is Reason.MALFORMED
    outside = plan_of(create("a", "../outside.txt"), plan_id="outside")
    assert refusal_of(office.plans.propose, office.agent, outside).reason is Reason.PATH_REFUSED
    assert len(office.plans.list_pending(ADMIN)) == before


def test_an_agent_sees_and_touches_what_is_its_own(office: ProposalWorkspace) -> None:
    made, _ = office.make_applied()
    other = office.issue_token("stranger")
    plans = office.plans
    calls = [
        plans.get,
        plans.read_preview,
        plans.apply,
        plans.cancel,
        plans.undo,
        plans.read_report,
        plans.read_run,
        plans.preview_undo,
    ]
    for call in calls:
        assert refusal_of(call, other, made.proposal_id).reason is Reason.STATE_MISSING, call
    assert made.envelope_id is not None
    for call in (plans.undo, plans.read_report, plans.read_run, plans.preview_undo):
        assert refusal_of(call, other, made.envelope_id).reason is Reason.STATE_MISSING, call
    assert refusal_of(plans.undo, other, "last").reason is Reason.STATE_MISSING
    assert refusal_of(plans.list_runs, office.agent).reason is Reason.PERMISSION_DENIED
    assert plans.list_proposals(other).items == ()
    assert plans.list_pending(other) == []
    assert plans.get(office.issue_token("bot"), made.proposal_id) == plans.get(office.agent, made.proposal_id)
    assert made.proposal_id in {each.proposal_id for each in plans.list_proposals(VIEWER, limit=200).items}


def test_a_token_without_the_capability_does_none_of_it(office: ProposalWorkspace) -> None:
    made, _ = office.make_approved()
    plans, document = office.plans, office.make_plan()[0]
    needs: dict[str, Callable[[AgentCaller], object]] = {
        "plan.propose": lambda caller: plans.propose(caller, document),
        "plan.apply": lambda caller: plans.apply(caller, made.proposal_id),
        "plan.undo": lambda caller: plans.undo(caller, made.proposal_id),
    }
    for capability, ask in needs.items():
        without = office.issue_token("bot", *(each for each in CAPS if each != capability))
        assert refusal_of(ask, without).reason is Reason.CAPABILITY_MISSING, capability
    bare = office.issue_token("bot", "task.run")
    assert refusal_of(plans.preview, bare, document).reason is Reason.CAPABILITY_MISSING
    assert refusal_of(plans.read_preview, bare, made.proposal_id).reason is Reason.CAPABILITY_MISSING
    assert refusal_of(plans.cancel, bare, made.proposal_id).reason is Reason.CAPABILITY_MISSING
    assert plans.get(bare, made.proposal_id).state == "APPROVED", "what became of it, any token of the agent may ask"
    viewing: tuple[tuple[Callable[..., object], str | bytes], ...] = (
        (plans.propose, document),
        (plans.preview, document),
        (plans.apply, made.proposal_id),
        (plans.undo, made.proposal_id),
        (plans.cancel, made.proposal_id),
    )
    for call, what in viewing:
        assert refusal_of(call, VIEWER, what).reason is Reason.PERMISSION_DENIED, call


def test_a_revoked_token_leaves_nothing_that_waits_or_can_be_applied(office: ProposalWorkspace) -> None:
    caller = office.issue_token("leaver")
    waiting, approved = office.make_proposed(caller)[0], office.make_approved(caller)[0]
    done, path = office.make_applied(caller)
    office.workspace.tokens.revoke(caller.token.jti, actor="os:ada")
    states = {each.proposal_id: each.state for each in office.plans.list_proposals(ADMIN, limit=200).items}
    assert [states[each.proposal_id] for each in (waiting, approved, done)] == ["VOID", "VOID", "APPLIED"]
    assert done.envelope_id is not None
    told = {kind for name in (done.proposal_id, done.envelope_id) for kind, _ in office.read_entries(name)}
    assert not told & {"proposal.voided", "envelope.cancelled"}, "what was done stays, and so does its record"
    assert refusal_of(office.plans.apply, OPERATOR, approved.proposal_id).reason is Reason.REVOKED
    assert refusal_of(office.plans.read_preview, ADMIN, waiting.proposal_id).reason is Reason.TRANSITION_INVALID
    late = refusal_of(office.plans.propose, caller, office.make_plan()[0])
    assert late.reason is Reason.REVOKED, "also where a way in has verified the token a moment before"
    assert office.project.read(path) == "one\nTWO\nthree\n"


def test_pages_of_proposals_are_whole_and_in_order(office: ProposalWorkspace) -> None:
    caller = office.issue_token("prolific")
    made = [office.make_proposed(caller)[0].proposal_id for _ in range(5)]
    office.plans.cancel(caller, made[2])
    seen: list[ProposalView] = []
    cursor = None
    while True:
        page = office.plans.list_proposals(caller, cursor=cursor, limit=2)
        seen += page.items
        if (cursor := page.next) is None:
            break
    assert [each.proposal_id for each in seen] == made[::-1]
    pending: tuple[ProposalState, ...] = ("PENDING",)
    void: tuple[ProposalState, ...] = ("VOID",)
    waiting = office.plans.list_proposals(caller, states=pending, limit=2)
    assert [each.proposal_id for each in waiting.items] == [made[4], made[3]]
    assert [each.state for each in office.plans.list_proposals(caller, states=void).items] == ["VOID"]
    for cursor in ("x", "bnVsbA", "W10", "WzEsMl0"):
        assert refusal_of(office.plans.list_proposals, caller, cursor=cursor).reason is Reason.MALFORMED


def test_a_person_can_propose_too_and_a_key_belongs_to_its_proposer(office: ProposalWorkspace) -> None:
    document, _ = office.make_plan()
    first = office.plans.propose(OPERATOR, document, key="nightly")
    assert (first.proposed_by, first.token_jti) == ("os:oto", None)
    assert office.plans.propose(OPERATOR, document, key="nightly").proposal_id == first.proposal_id
    assert office.plans.propose(office.agent, document, key="nightly").proposal_id != first.proposal_id
    other, _ = office.make_plan()
    assert refusal_of(office.plans.propose, OPERATOR, other, key="nightly").reason is Reason.IDEMPOTENCY_CONFLICT
