"""Invitations and sessions: once, in time, and only as long as the person is who logged in."""

import json
import os
import stat
import threading
from datetime import timedelta

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.identity.models import NewSession
from remit.identity.people import IDLE_LIFE, LINK_LIFE, SESSION_LIFE, SESSIONS_EACH, People
from remit.identity.people_file import PeopleStore
from remit.identity.person import Person
from tests.web.guarded_server import Place

ADMIN = "os:test"


def invited(place: Place, name: str, **more: object) -> str:
    given = {"role": "viewer", "actor": ADMIN, **more}
    return place.workspace.people.invite(name, **given).code  # type: ignore[arg-type]


def test_a_link_lets_in_once_and_everything_is_on_record(place: Place) -> None:
    people = place.workspace.people
    link = people.invite("ada", "approver", actor=ADMIN, user="ada", tenant="acme")
    assert link.path == f"/login#{link.code}"
    session = people.redeem(link.code)
    found = people.session(session.cookie)
    assert found is not None
    assert (found.person.id, found.role, found.user, found.tenant) == ("link:ada", "approver", "ada", "acme")
    assert found.csrf == session.csrf != session.cookie
    with pytest.raises(RefusedError) as refused:
        people.redeem(link.code)
    assert refused.value.reason is Reason.EXPIRED
    assert people.end(session.cookie)
    assert people.session(session.cookie) is None
    assert not people.end(session.cookie)
    kinds = ("person.invited", "person.logged_in", "person.logged_out")
    assert [place.entries(kind)[-1][:2] for kind in kinds] == [
        ("link:ada", ADMIN),
        ("link:ada", "link:ada"),
        ("link:ada", "link:ada"),
    ]
    assert place.entries("person.invited")[-1][2]["role"] == "approver"
    secrets = [link.code, session.cookie, session.csrf]
    [file] = list((place.workspace.state.people).glob("people.json"))
    recorded = file.read_text() + json.dumps([place.entries(kind) for kind in kinds]) + repr((link, session, found))
    assert not any(secret in recorded for secret in secrets)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_is_over_after_fifteen_minutes(place: Place) -> None:
    code = invited(place, "late")
    place.clock.ahead = LINK_LIFE
    with pytest.raises(RefusedError, match="it has expired"):
        place.workspace.people.redeem(code)
    place.clock.ahead = LINK_LIFE - timedelta(seconds=5)
    assert place.workspace.people.redeem(code).person_id == "link:late"


def test_of_many_who_redeem_one_code_at_once_one_gets_in(place: Place) -> None:
    """Also where they are different processes: each has a file, and a lock, of its own."""
    workspace = place.workspace
    code = invited(place, "race")
    several = [People(workspace.state.people, lambda: workspace.ledger, workspace.clock) for _ in range(8)]
    begin, won, lost = threading.Barrier(8), list[NewSession](), list[RefusedError]()

    def redeem(people: People) -> None:
        begin.wait()
        try:
            won.append(people.redeem(code))
        except RefusedError as problem:
            lost.append(problem)

    threads = [threading.Thread(target=redeem, args=(people,)) for people in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert len([one for one in place.entries("person.logged_in") if one[0] == "link:race"]) == 1


def test_a_session_ends_by_its_time_and_by_going_unused(place: Place) -> None:
    people = place.workspace.people
    cookie = people.redeem(invited(place, "idle")).cookie
    place.clock.ahead = IDLE_LIFE - timedelta(minutes=1)
    assert people.session(cookie, touch=False) is not None
    assert people.session(cookie) is not None  # and this counts as use
    place.clock.ahead = 2 * IDLE_LIFE - timedelta(minutes=2)
    assert people.session(cookie) is not None
    place.clock.ahead = 3 * IDLE_LIFE
    assert people.session(cookie) is None
    place.clock.ahead = timedelta(0)
    busy = people.redeem(invited(place, "busy")).cookie
    for hour in range(1, 12):
        place.clock.ahead = timedelta(hours=hour)
        assert people.session(busy) is not None
    place.clock.ahead = SESSION_LIFE + LINK_LIFE  # what was recorded ahead of the clock moved its begin as well
    assert people.session(busy) is None


def test_a_changed_role_ends_sessions_and_older_links(place: Place) -> None:
    people = place.workspace.people
    cookie = people.redeem(invited(place, "eve", role="admin")).cookie
    as_admin = invited(place, "eve", role="admin")
    assert people.session(cookie) is not None  # one more link of the same role changes nothing
    invited(place, "eve", role="viewer")
    assert people.session(cookie) is None
    with pytest.raises(RefusedError):
        people.redeem(as_admin)
    other_user = people.redeem(invited(place, "eve", role="viewer")).cookie
    invited(place, "eve", role="viewer", user="mallory", tenant="acme")
    assert people.session(other_user) is None


def test_only_the_newest_link_of_a_person_is_valid_until_the_person_is_logged_in(place: Place) -> None:
    people = place.workspace.people
    first, second = invited(place, "ivy"), invited(place, "ivy")
    others = invited(place, "jon")
    with pytest.raises(RefusedError):
        people.redeem(first)
    people.redeem(second)
    assert next(each.open_links for each in people.listed() if each.id == "link:ivy") == 0
    assert people.redeem(others).cookie


def test_removing_a_person_ends_everything(place: Place) -> None:
    people = place.workspace.people
    cookie, unused = people.redeem(invited(place, "gone")).cookie, invited(place, "gone")
    kept = people.redeem(invited(place, "stays")).cookie
    assert people.remove("gone", actor=ADMIN) == "link:gone"
    assert people.session(cookie) is None
    assert people.session(kept) is not None
    invited(place, "gone")
    for _ in range(2):  # not even when he is invited again
        assert people.session(cookie) is None
        with pytest.raises(RefusedError):
            people.redeem(unused)
        people.remove("gone", actor=ADMIN)
        invited(place, "gone")
    people.remove("gone", actor=ADMIN)
    assert place.entries("person.removed")[0][:2] == ("link:gone", ADMIN)
    assert place.entries("person.removed")[0][2].items() >= {"person": "link:gone", "sessions": 1}.items()
    with pytest.raises(RefusedError) as refused:
        people.remove("gone", actor=ADMIN)
    assert refused.value.reason is Reason.STATE_MISSING


def test_all_sessions_of_one_can_be_ended_and_the_oldest_gives_way(place: Place) -> None:
    people = place.workspace.people
    cookies = [people.redeem(invited(place, "many")).cookie for _ in range(SESSIONS_EACH + 1)]
    assert people.session(cookies[0]) is None
    assert all(people.session(cookie) for cookie in cookies[1:])
    assert people.end_all("many", actor=ADMIN) == SESSIONS_EACH
    assert not any(people.session(cookie) for cookie in cookies)


def test_a_new_link_of_the_person_who_starts_the_server_replaces_the_one_before(place: Place) -> None:
    people = place.workspace.people
    first, second = (people.invite_self(Person("os:ada")) for _ in range(2))
    with pytest.raises(RefusedError):
        people.redeem(first.code)
    found = people.session(people.redeem(second.code).cookie)
    assert found is not None
    assert (found.person.id, found.role) == ("os:ada", "admin")


def test_no_person_is_admitted_under_a_name_of_another_kind(place: Place) -> None:
    people = place.workspace.people
    for name in ("", "os:root", "a b", "-x", "x" * 65, "../x", "a\n", "é"):
        with pytest.raises(RefusedError):
            people.invite(name, "admin", actor=ADMIN)
    with pytest.raises(RefusedError):
        people.invite("x", "root", actor=ADMIN)  # type: ignore[arg-type]
    with pytest.raises(RefusedError):
        people.invite("x", "viewer", actor=ADMIN, life=timedelta(days=8))
    with pytest.raises(RefusedError):
        people.invite_self(Person("link:x"))
    with pytest.raises(RefusedError):
        people.admit(Person("os:root"), "admin")
    for text in ("", "x", "é" * 43, "a" * 42, "a" * 44, "a" * 42 + "\n"):
        assert people.session(text) is None
        with pytest.raises(RefusedError):
            people.redeem(text)


def test_a_file_that_others_can_read_or_that_is_garbled_admits_no_person(place: Place) -> None:
    people = place.workspace.people
    cookie = people.redeem(invited(place, "safe")).cookie
    file = place.workspace.state.people / "people.json"
    good = file.read_bytes()
    os.chmod(file, 0o644)
    with pytest.raises(EnvironmentFailureError, match="open to others"):
        PeopleStore(file.parent).read()
    os.chmod(file, 0o600)
    file.write_bytes(good.replace(b'"role":"viewer"', b'"role":"root"'))
    with pytest.raises(RefusedError):
        people.session(cookie)
    file.write_bytes(good)
    assert people.session(cookie) is not None


def test_what_another_process_changed_is_seen_at_the_next_look(place: Place) -> None:
    workspace = place.workspace
    other = People(workspace.state.people, lambda: workspace.ledger, workspace.clock)
    cookie = other.redeem(invited(place, "two")).cookie
    assert workspace.people.session(cookie) is not None
    other.remove("two", actor=ADMIN)
    assert workspace.people.session(cookie) is None
    assert "link:two" not in {one.id for one in workspace.people.listed()}


def test_sessions_of_another_table_of_roles_end(place: Place) -> None:
    people = place.workspace.people
    old = people.admit(Person("oidc:ada", "Ada"), "admin", basis="one").cookie
    new = people.admit(Person("oidc:bob"), "admin", basis="two").cookie
    link = people.redeem(invited(place, "linked")).cookie
    assert people.end_other_basis("oidc", "two") == 1
    assert place.entries("person.logged_out")[-1][:2] == ("oidc:ada", "remit")
    assert [people.session(cookie) is not None for cookie in (old, new, link)] == [False, True, True]
    people.admit(Person("oidc:bob"), "viewer", basis="two")
    assert people.session(new) is None  # he is somebody else now


def test_a_clock_that_is_set_back_revives_nothing(place: Place) -> None:
    """Once the record has an entry of a later time, what was over then is over, whatever the clock says."""
    people, workspace = place.workspace.people, place.workspace
    place.clock.ahead = timedelta(days=2)
    cookie, code, token = people.redeem(invited(place, "then")).cookie, invited(place, "link"), place.token()
    who = people.session(cookie)
    assert who is not None
    assert who.person.is_valid_at is not None
    assert workspace.tokens.verify(token).agent_id == "bot"
    place.clock.ahead += SESSION_LIFE
    place.token()  # recorded, at that time
    place.clock.ahead -= SESSION_LIFE
    assert people.session(cookie) is None
    with pytest.raises(RefusedError, match="it has expired"):
        people.redeem(code)
    with pytest.raises(RefusedError) as refused:
        workspace.tokens.verify(token)
    assert refused.value.reason is Reason.EXPIRED
    new = people.redeem(invited(place, "now")).cookie
    assert people.session(new) is not None, "whoever comes now is let in all the same"


def test_links_and_sessions_of_a_clock_that_was_ahead_do_not_last_for_a_year(place: Place) -> None:
    people, clock = place.workspace.people, place.clock
    here = people.redeem(invited(place, "ida"))
    clock.ahead = timedelta(days=366)
    link = invited(place, "eve")
    there = people.redeem(invited(place, "zoe"))
    assert people.session(there.cookie) is not None
    clock.ahead = timedelta(0)
    assert people.session(here.cookie) is None, "until then the ledger's time counts"
    assert place.workspace.accept_clock(Person(ADMIN))
    assert people.session(there.cookie) is None
    with pytest.raises(RefusedError):
        people.redeem(link)
    again = people.redeem(invited(place, "zoe"))
    assert people.session(again.cookie) is not None


@pytest.mark.parametrize("caller", ["agent:bot", "bot", ""])
def test_only_a_person_accepts_the_clock(place: Place, caller: str) -> None:
    with pytest.raises(RefusedError) as refused:
        place.workspace.accept_clock(Person(caller))
    assert refused.value.reason is Reason.PERMISSION_DENIED
