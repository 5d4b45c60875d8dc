"""What was looked at, or who asks, is another by the time that it counts."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from remit.core.errors import Reason
from remit.identity.callers import AgentCaller, PersonCaller
from remit.services.base.context import ServiceContext
from remit.services.base.drift import DriftReport, detect_drift
from remit.services.base.jobs import Job
from remit.services.people import PeopleService
from remit.services.tokens import TokenService
from tests.services.plans.proposal_workspace import ADMIN, CONSOLE, OPERATOR, ProposalWorkspace, refusal_of

BEFORE = "one\ntwo\nthree\n"


def _drifted(office: ProposalWorkspace) -> tuple[str, str]:
    made, path = office.make_applied()
    office.project.write(path, "mine\n")
    return made.proposal_id, path


def test_a_forced_undo_is_refused_if_a_file_changed_after_its_drift_was_shown(
    office: ProposalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, path = _drifted(office)
    looks: list[DriftReport] = []

    def and_then_somebody_writes(*asked: Any) -> DriftReport:
        found = detect_drift(*asked)
        looks.append(found)
        if len(looks) == 1:
            office.project.write(path, "hers\n")
        return found

    digest = office.plans.preview_undo(OPERATOR, name).drift_digest
    monkeypatch.setattr("remit.services.plans.runs.detect_drift", and_then_somebody_writes)
    answer = office.plans.undo(OPERATOR, name, force=True, drift_digest=digest)
    assert (answer.status, office.project.read(path)) == ("REFUSED", "hers\n")
    assert answer.refused is not None
    assert answer.refused.code is Reason.DRIFTED
    assert answer.drift_digest not in {None, digest}, "told anew"
    again = office.plans.undo(OPERATOR, name, force=True, drift_digest=answer.drift_digest)
    assert (again.status, office.project.read(path)) == ("EXECUTED", BEFORE)


def test_a_forced_undo_is_refused_if_a_file_changed_after_no_drift_was_found(
    office: ProposalWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path = office.make_applied()

    def and_then_somebody_writes(*asked: Any) -> DriftReport:
        found = detect_drift(*asked)
        office.project.write(path, "mine\n")
        return found

    monkeypatch.setattr("remit.services.plans.runs.detect_drift", and_then_somebody_writes)
    assert office.plans.undo(OPERATOR, made.proposal_id, force=True).status == "REFUSED"
    assert office.project.read(path) == "mine\n"


def test_a_forced_rollback_without_a_preview_overwrites_any_content(office: ProposalWorkspace) -> None:
    _, path = _drifted(office)
    outcome = office.workspace.rollback("last", force=True)
    assert (outcome.status, office.project.read(path)) == ("EXECUTED", BEFORE)


# --- who asks --------------------------------------------------------------------------------------------------------


def _session(office: ProposalWorkspace, name: str) -> PersonCaller:
    people = office.workspace.people
    found = people.session(people.redeem(people.invite(name, "admin", actor="os:ada").code).cookie)
    assert found is not None
    return PersonCaller(found.person, found.role, found.user, found.tenant)


def _verbs(office: ProposalWorkspace, name: str) -> dict[str, Callable[[PersonCaller], Any]]:
    room = ServiceContext(office.workspace, office.work, None)  # type: ignore[arg-type]  # no verb here tells anybody
    tokens, people = TokenService(room), PeopleService(room)
    applied, approved, proposed = (
        made[0].proposal_id for made in (office.make_applied(), office.make_approved(), office.make_proposed())
    )
    document, _ = office.make_plan()
    wish = b'{"sub": "x", "caps": ["plan.propose"], "life_seconds": 60}'
    jti = office.issue_token(f"bot-of-{name}").token.jti
    return {
        "apply": lambda who: office.plans.apply(who, approved, wait=30),
        "undo": lambda who: office.plans.undo(who, applied),
        "cancel": lambda who: office.plans.cancel(who, proposed),
        "void": lambda who: office.plans.cancel(who, approved),
        "propose": lambda who: office.plans.propose(who, document),
        "issue": lambda who: tokens.issue(who, wish),
        "revoke": lambda who: tokens.revoke(who, jti),
        "invite": lambda who: people.invite(who, f"friend-of-{name}", "admin"),
        "remove": lambda who: people.remove(who, f"victim-of-{name}"),
    }


@pytest.mark.parametrize("meanwhile", ["removed", "demoted", "logged out"])
def test_a_person_who_lost_their_session_or_role_can_do_nothing_more(office: ProposalWorkspace, meanwhile: str) -> None:
    """Identified a moment ago: every verb has been let in by then, and none may leave a trace but a refusal."""
    people, name = office.workspace.people, meanwhile.replace(" ", "")
    who = _session(office, name)
    people.invite(f"victim-of-{name}", "viewer", actor="os:ada")
    verbs = _verbs(office, name)
    assert office.plans.finish_previews(60)
    if meanwhile == "removed":
        people.remove(name, actor="os:ada")
    elif meanwhile == "demoted":
        people.invite(name, "viewer", actor="os:ada")
    else:
        people.end_all(name, actor="os:ada")
    before = office.project.kinds()
    for verb, ask in verbs.items():
        assert refusal_of(ask, who).reason is Reason.REVOKED, verb
    new = office.project.kinds()[len(before) :]
    assert set(new) <= {"plan.refused", "rollback.refused", "request.refused"}, new
    assert f"link:victim-of-{name}" in [each.id for each in people.listed()]
    for verb, ask in verbs.items():  # and with somebody who counts they do what they say
        if verb != "void":
            ask(ADMIN)


def _agents_verbs(office: ProposalWorkspace) -> dict[str, Callable[[AgentCaller], Any]]:
    applied, approved, unused, proposed = (
        made[0].proposal_id
        for made in (office.make_applied(), office.make_approved(), office.make_approved(), office.make_proposed())
    )
    document, _ = office.make_plan()
    keyed, key = office.make_plan()
    return {
        "propose": lambda who: office.plans.propose(who, document),
        "propose under a key": lambda who: office.plans.propose(who, keyed, key=key),
        "apply": lambda who: office.plans.apply(who, approved, wait=30),
        "undo": lambda who: office.plans.undo(who, applied),
        "cancel": lambda who: office.plans.cancel(who, proposed),
        "void": lambda who: office.plans.cancel(who, unused),
    }


@pytest.mark.parametrize("meanwhile", ["revoked", "expired", "its key revoked"])
def test_an_agent_whose_token_is_no_longer_valid_can_do_nothing_more(office: ProposalWorkspace, meanwhile: str) -> None:
    """By another token of the same agent, so that all of it is its own."""
    verbs, late = _agents_verbs(office), office.issue_token("bot", life=timedelta(minutes=10))
    assert office.plans.finish_previews(60)
    if meanwhile == "revoked":
        office.workspace.tokens.revoke(late.token.jti, actor="os:ada")
    elif meanwhile == "expired":
        office.clock.offset += timedelta(minutes=15)
    else:
        office.workspace.tokens.rotate_key(revoke=True)
    before = office.project.kinds()
    why = Reason.EXPIRED if meanwhile == "expired" else Reason.REVOKED
    for verb, ask in verbs.items():
        problem = refusal_of(ask, late)
        assert (problem.reason, problem.where.partition(",")[0]) == (why, "token"), verb
    assert set(office.project.kinds()[len(before) :]) <= {"plan.refused", "rollback.refused", "request.refused"}
    office.agent = office.issue_token("bot")
    for ask in verbs.values():  # and with a token that counts they do what they say
        ask(office.agent)


def test_a_caller_who_lost_access_cannot_stop_a_running_plan(office: ProposalWorkspace) -> None:
    made, _ = office.make_approved()
    late, person = office.issue_token("bot"), _session(office, "late")
    office.workspace.tokens.revoke(late.token.jti, actor="os:ada")
    office.workspace.people.remove("late", actor="os:ada")
    tried: list[Reason] = []

    def stop(job: Job[Any]) -> None:
        if not tried and job.progress is not None and job.progress.phase == "RUNNING":
            tried.extend(refusal_of(office.plans.cancel, who, made.proposal_id).reason for who in (late, person))

    office.work.on_progress = stop
    try:
        state = office.plans.apply(office.agent, made.proposal_id, wait=30).state
    finally:
        office.work.on_progress = lambda _: None
    assert (tried, state) == ([Reason.REVOKED] * 2, "APPLIED")


def test_after_the_approval_a_view_names_changed_files_and_apply_says_what_to_do_next(
    office: ProposalWorkspace,
) -> None:
    made, path = office.make_approved()
    assert office.plans.read_preview(OPERATOR, made.proposal_id).changed_since == ()
    office.project.write(path, "one\nTWO and two\nthree\n")
    (changed,) = office.plans.read_preview(OPERATOR, made.proposal_id).changed_since
    assert (changed.path, changed.how) == (path, "this file was changed since the plan was approved")
    problem = refusal_of(office.plans.apply, OPERATOR, made.proposal_id, 30)
    assert (problem.reason, problem.where) == (Reason.BINDING_MISMATCH, path)
    assert ("remit" in problem.next_step, "propose it again" in problem.next_step) == (False, True)
    told = office.plans.get(OPERATOR, made.proposal_id).refused
    assert told is not None
    assert told.next_step == problem.next_step
    problem = refusal_of(office.plans.apply, office.agent, made.proposal_id, 30)
    assert (problem.reason, problem.where) == (Reason.BINDING_MISMATCH, ""), "which file it is is for people"
    told = office.plans.get(office.agent, made.proposal_id).refused
    assert told is not None
    assert told.next_step == problem.next_step
    (office.project.root / path).unlink()
    assert "does not exist now" in office.plans.read_preview(OPERATOR, made.proposal_id).changed_since[0].how
    office.project.write(path, BEFORE)
    assert office.plans.read_preview(OPERATOR, made.proposal_id).changed_since == ()
    assert office.plans.apply(office.agent, made.proposal_id, 30).state == "APPLIED"


def test_the_undo_of_a_plan_that_was_never_applied_is_refused_as_too_early_and_not_as_unknown(
    office: ProposalWorkspace,
) -> None:
    for made in (office.make_proposed()[0], office.make_approved()[0]):
        problem = refusal_of(office.plans.undo, office.agent, made.proposal_id)
        assert (problem.reason, "not applied yet" in problem.what) == (Reason.TRANSITION_INVALID, True)
        stranger = refusal_of(office.plans.undo, office.issue_token("stranger"), made.proposal_id)
        assert stranger.reason is Reason.STATE_MISSING


def test_a_report_of_drift_says_where_a_person_overwrites_and_where_the_replaced_text_is_kept(
    office: ProposalWorkspace,
) -> None:
    name, path = _drifted(office)
    to_agent = office.plans.undo(office.agent, name).refused
    to_person = office.plans.undo(OPERATOR, name).refused
    assert to_agent is not None
    assert to_person is not None
    assert f"Only a person can overwrite the later changes, in the console at {CONSOLE}/runs/" in to_agent.next_step
    assert f"remit rollback {office.plans.get(OPERATOR, name).envelope_id} --force" in to_agent.next_step
    assert "forced rollback overwrites it" in to_person.next_step
    assert "--" not in to_person.next_step
    assert office.plans.preview_undo(OPERATOR, name).set_aside == ()
    digest = office.plans.preview_undo(OPERATOR, name).drift_digest
    answer = office.plans.undo(OPERATOR, name, force=True, drift_digest=digest)
    (kept,) = answer.set_aside
    assert (office.project.read(kept), office.project.read(path)) == ("mine\n", BEFORE)
    assert office.plans.preview_undo(OPERATOR, name).set_aside == (kept,)
