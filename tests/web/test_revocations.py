"""Whoever was removed or logged out is so at once and for good, and the record says so once, whoever died meanwhile."""

from pathlib import Path

import pytest

from remit.core.errors import Reason, RefusedError
from remit.core.faultpoints import InjectedFaultError
from remit.identity.models import LoggedIn
from remit.identity.person import Person
from remit.identity.revocations import Revocations
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.web.guarded_server import Place

ACTING = Path(__file__).with_name("admin_process.py")
ADMIN = "os:test"
# Of the two changes of the file, the second one begins with its own writing.
POINTS = ("people.ended", "append.before_commit", "append.committed", "people.recorded", "durable.renamed:2")


def logged_in(place: Place, name: str, role: str = "viewer") -> str:
    people = place.workspace.people
    return people.redeem(people.invite(name, role, actor=ADMIN).code).cookie  # type: ignore[arg-type]


def of(place: Place, name: str) -> LoggedIn:
    found = place.workspace.people.session(logged_in(place, name, "admin"))
    assert found is not None
    return found


@pytest.mark.parametrize("what, kind", [("remove", "person.removed"), ("end", "person.logged_out")])
def test_killed_at_any_step_it_is_in_force_and_is_recorded_once(place: Place, what: str, kind: str) -> None:
    people = place.workspace.people
    for number, point in enumerate(POINTS):
        name = f"{what}{number}"
        cookie = logged_in(place, name)
        said, _, count = point.partition(":")
        command = [
            preloaded.python(),
            str(ACTING),
            str(place.workspace.root),
            what,
            name if what == "remove" else cookie,
        ]
        ended = run_child(command, fault=Fault(said, int(count or 1)), environment=place.environ)
        assert ended.killed, f"{point}: {ended.output}"
        assert people.session(cookie) is None, point
        place.workspace.recover()
        people.listed()
        assert [each[0] for each in place.entries(kind)].count(f"link:{name}") == 1, point
        assert place.workspace.people.record_pending() == 0
        assert (f"link:{name}" in [each.id for each in people.listed()]) == (what == "end"), point


def test_what_is_ended_stays_so_where_nothing_can_be_recorded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    people, cookie = place.workspace.people, logged_in(place, "full")
    ledger = place.workspace.ledger
    with monkeypatch.context() as broken:

        def refuse(_work: object) -> None:
            raise InjectedFaultError(28, "no space")

        broken.setattr(ledger, "transact", refuse)
        with pytest.raises(OSError, match="no space"):
            people.remove("full", actor=ADMIN)
        assert people.session(cookie) is None
    assert people.record_pending() == 1
    assert [each[0] for each in place.entries("person.removed")].count("link:full") == 1


def test_what_was_ended_is_on_record_before_whatever_comes_next(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the ledger would have somebody removed who is in."""
    people = place.workspace.people
    provider = Person("oidc:bob")

    def steps(person_id: str) -> list[str]:
        query = "SELECT kind FROM ledger_entries WHERE correlation_id = ? ORDER BY seq"
        with place.workspace.store.reading() as connection:
            return [kind for (kind,) in connection.rows(query, (person_id,))]

    def remove_and_die(name: str) -> None:
        with monkeypatch.context() as dying:
            dying.setattr(Revocations, "record_pending", _die)
            with pytest.raises(KeyboardInterrupt):
                people.remove(name, actor=ADMIN)

    logged_in(place, "back")
    remove_and_die("back")
    logged_in(place, "back", "admin")
    assert steps("link:back")[2:] == ["person.removed", "person.invited", "person.logged_in"]
    people.admit(provider, "viewer")
    remove_and_die(provider.id)
    people.admit(provider, "viewer")
    assert steps(provider.id) == ["person.logged_in", "person.removed", "person.logged_in"]
    code = people.invite("waiting", "viewer", actor=ADMIN).code
    remove_and_die("back")
    people.redeem(code)
    assert steps("link:back")[-1] == "person.removed"
    assert people.record_pending() == 0


def _die(_: Revocations) -> None:
    raise KeyboardInterrupt


def test_a_person_who_is_removed_during_a_request_removes_and_invites_no_person(place: Place) -> None:
    people, ada = place.workspace.people, of(place, "ada")
    victim = logged_in(place, "victim")
    actor = ada.person.actor
    assert (actor, ada.person.id) == ("link:ada", "link:ada")
    people.remove("ada", actor=ADMIN)
    for ask in (
        lambda: people.remove("victim", actor=actor),
        lambda: people.end_all("victim", actor=actor),
        lambda: people.invite("friend", "admin", actor=actor),
    ):
        with pytest.raises(RefusedError) as refused:
            ask()
        assert refused.value.reason is Reason.REVOKED
    assert people.session(victim) is not None
    assert "link:friend" not in [each.id for each in people.listed()]
    assert Person("os:test").actor == "os:test"
