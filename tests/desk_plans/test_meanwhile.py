"""What was looked at, or who asks, is another by the time that it counts."""

from collections.abc import Callable
from typing import Any

import pytest

from remit.desk.callers import PersonCaller
from remit.desk.drift import Standing, look_around
from remit.desk.people import PeopleDesk
from remit.desk.room import Room
from remit.desk.tokens import TokenDesk
from remit.errors import Reason
from tests.desk_plans.office import ADMIN, OPERATOR, Office, refused

BEFORE = "one\ntwo\nthree\n"


def _drifted(office: Office) -> tuple[str, str]:
    made, path = office.applied()
    office.project.write(path, "mine\n")
    return made.proposal_id, path


def test_a_forced_undo_is_of_the_files_as_they_were_looked_at(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    name, path = _drifted(office)
    looks: list[Standing] = []

    def and_then_somebody_writes(*asked: Any) -> Standing:
        found = look_around(*asked)
        looks.append(found)
        if len(looks) == 1:
            office.project.write(path, "hers\n")
        return found

    digest = office.plans.undo_look(OPERATOR, name).drift_digest
    monkeypatch.setattr("remit.desk.plan_runs.look_around", and_then_somebody_writes)
    answer = office.plans.undo(OPERATOR, name, force=True, drift_digest=digest)
    assert (answer.status, office.project.read(path)) == ("REFUSED", "hers\n")
    assert answer.refused is not None
    assert answer.refused.code is Reason.DRIFTED
    assert answer.drift_digest not in {None, digest}, "told anew"
    again = office.plans.undo(OPERATOR, name, force=True, drift_digest=answer.drift_digest)
    assert (again.status, office.project.read(path)) == ("EXECUTED", BEFORE)


def test_that_nothing_was_changed_since_is_held_to_as_well(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    made, path = office.applied()

    def and_then_somebody_writes(*asked: Any) -> Standing:
        found = look_around(*asked)
        office.project.write(path, "mine\n")
        return found

    monkeypatch.setattr("remit.desk.plan_runs.look_around", and_then_somebody_writes)
    assert office.plans.undo(OPERATOR, made.proposal_id, force=True).status == "REFUSED"
    assert office.project.read(path) == "mine\n"


def test_an_order_without_a_look_is_for_whatever_stands_there(office: Office) -> None:
    _, path = _drifted(office)
    outcome = office.workspace.rollback("last", force=True)
    assert (outcome.status, office.project.read(path)) == ("EXECUTED", BEFORE)


# --- who asks --------------------------------------------------------------------------------------------------------


def _session(office: Office, name: str) -> PersonCaller:
    people = office.workspace.people
    found = people.session(people.redeem(people.invite(name, "admin", actor="os:ada").code).cookie)
    assert found is not None
    return PersonCaller(found.person, found.role, found.user, found.tenant)


def _verbs(office: Office, name: str) -> dict[str, Callable[[PersonCaller], Any]]:
    room = Room(office.workspace, office.work, None)  # type: ignore[arg-type]  # no verb here tells anybody
    tokens, people = TokenDesk(room), PeopleDesk(room)
    applied, approved, proposed = (
        made[0].proposal_id for made in (office.applied(), office.approved(), office.proposed())
    )
    document, _ = office.plan()
    wish = b'{"sub": "x", "caps": ["plan.propose"], "life_seconds": 60}'
    jti = office.token(f"bot-of-{name}").token.jti
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
def test_whoever_does_not_count_any_more_does_nothing_more(office: Office, meanwhile: str) -> None:
    """Identified a moment ago: every verb has been let in by then, and none may leave a trace but a refusal."""
    people, name = office.workspace.people, meanwhile.replace(" ", "")
    who = _session(office, name)
    people.invite(f"victim-of-{name}", "viewer", actor="os:ada")
    verbs = _verbs(office, name)
    if meanwhile == "removed":
        people.remove(name, actor="os:ada")
    elif meanwhile == "demoted":
        people.invite(name, "viewer", actor="os:ada")
    else:
        people.end_all(name, actor="os:ada")
    before = office.project.kinds()
    for verb, ask in verbs.items():
        assert refused(ask, who).reason is Reason.REVOKED, verb
    new = office.project.kinds()[len(before) :]
    assert set(new) <= {"plan.refused", "rollback.refused"}, new
    assert f"link:victim-of-{name}" in [each.id for each in people.listed()]
    for verb, ask in verbs.items():  # and with somebody who counts they do what they say
        if verb != "void":
            ask(ADMIN)
