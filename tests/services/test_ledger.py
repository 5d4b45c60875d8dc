"""The record at the desk: searched a page at a time, checked, traced and exported; and tokens and the catalogue."""

import threading
from typing import Final

import pytest

from remit.contracts.services.admin import TokenWish
from remit.contracts.services.ledger import EntryFilter
from remit.core.errors import Reason, RefusedError
from remit.crypto.keyring import load_keyring
from remit.identity.models import Role
from remit.ledger import search as searching
from remit.ledger.bundle import verify_bundle
from remit.ledger.entry import NewEntry
from remit.services.services import Services
from tests.goals.goal_office import Office
from tests.services.conftest import agent, person

VIEWER = person("viewer")
OTHERS: Final[tuple[Role, ...]] = ("viewer", "approver", "operator")


@pytest.fixture(scope="module")
def written(office: Office) -> list[int]:
    """Of a tenant that had nothing: 40 entries, every tenth of another kind."""
    found = []
    for number in range(40):
        kind = "test.rare" if number % 10 == 0 else "test.often"
        event = NewEntry("globex", kind, f"c{number % 4}", {"word": f"Tea 100%_{number}"}, actor=f"os:p{number % 2}")
        found.append(office.workspace.ledger.append(event).seq)
    return found


def all_of(desk: Services, limit: int, **filters: str) -> list[int]:
    found: list[int] = []
    cursor = None
    for _ in range(200):
        page = desk.ledger.list_entries(VIEWER, "globex", EntryFilter(**filters), cursor, limit)
        found += [each.entry.seq for each in page.items]
        cursor = page.next
        if cursor is None:
            return found
    raise AssertionError("it has no end")


def test_entries_are_found_a_page_at_a_time(
    desk: Services, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = written[::-1]
    for room in (20_000, 7):  # however little each answer looks through
        monkeypatch.setattr(searching, "LOOKED_THROUGH", room)
        assert all_of(desk, 200) == newest
        assert all_of(desk, 3) == newest
        assert all_of(desk, 2, kind="test.r") == [seq for seq in newest if seq % 10 == 1]
        assert all_of(desk, 4, kind="test.rare", actor="os:p1") == []
        assert all_of(desk, 4, correlation_id="c3", actor="os:p1") == [seq for seq in newest if (seq - 1) % 4 == 3]
        assert all_of(desk, 4, text="tea 100%_39") == [newest[0]]
        assert all_of(desk, 4, text="tea 100%%") == []
        assert all_of(desk, 4, kind="test_") == []
    at = [desk.ledger.read_entry(VIEWER, "globex", seq).entry.created_at for seq in written]
    assert all_of(desk, 9, since=at[30]) == newest[: 40 - at.index(at[30])]
    assert all_of(desk, 9, until=at[5]) == [seq for seq in newest if at[seq - 1] < at[5]]
    assert all_of(desk, 9, since=at[-1], until=at[0]) == []


def test_what_is_no_place_is_refused(desk: Services, written: list[int]) -> None:
    for cursor in ("x", "-1", "9" * 17, "٣", ""):
        with pytest.raises(RefusedError) as refused:
            desk.ledger.list_entries(VIEWER, "globex", None, cursor)
        assert refused.value.reason is Reason.MALFORMED, cursor
    assert desk.ledger.list_entries(VIEWER, "globex", None, "1").items == ()
    assert desk.ledger.list_entries(VIEWER, "nobody").items == ()
    for tenant, seq in (("globex", 9_999), ("nobody", 1), ("a\nb", 1)):
        with pytest.raises(RefusedError) as refused:
            desk.ledger.read_entry(VIEWER, tenant, seq)
        assert refused.value.reason is Reason.STATE_MISSING


def test_the_record_is_checked_while_others_wait_for_the_same(desk: Services, written: list[int]) -> None:
    answers = []

    def ask() -> None:
        answers.append(desk.ledger.verify(VIEWER, wait=30.0))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.state for each in answers] == ["done"] * 4
    verdict = answers[0].verdict
    assert verdict is not None
    assert verdict.holds, verdict.findings
    assert desk.ledger.verify(VIEWER, again=False).checked_at in {each.checked_at for each in answers}
    with pytest.raises(RefusedError, match="no entries"):
        desk.ledger.verify(VIEWER, "nobody", wait=30.0)


def test_evidence_is_exported_and_holds(desk: Services, office: Office, written: list[int]) -> None:
    keyring = load_keyring(office.workspace.state.keys)
    heads = {each.tenant_id: each for each in desk.ledger.list_heads(VIEWER)}
    chains = {each.tenant_id: each for each in desk.ledger.list_chains(VIEWER)}
    assert (heads["globex"].seq, chains["globex"].entries, chains["globex"].configured) == (40, 40, True)
    with desk.ledger.open_bundle(VIEWER, "globex", "c1") as bundle:
        verdict = verify_bundle(bundle, keyring, source="bundle", known_heads=(heads["globex"],))
    assert verdict.holds, verdict.findings
    assert verdict.entries == 39
    with pytest.raises(RefusedError):
        desk.ledger.open_bundle(VIEWER, "globex", "none")


def test_the_record_is_for_people(desk: Services, office: Office) -> None:
    bot = agent(office.workspace)
    for look in (
        lambda: desk.ledger.list_chains(bot),
        lambda: desk.ledger.list_heads(bot),
        lambda: desk.ledger.list_entries(bot, "default"),
        lambda: desk.ledger.read_entry(bot, "default", 1),
        lambda: desk.ledger.trace(bot, "default", "x"),
        lambda: desk.ledger.verify(bot),
        lambda: desk.ledger.open_bundle(bot, "default"),
        lambda: desk.catalogue.list_simulations(bot, "acme"),
        lambda: desk.catalogue.show(bot, "acme", "ping"),
        lambda: desk.catalogue.promote(bot, "acme", "ping", digest="sha256:" + "0" * 64),
        lambda: desk.catalogue.retire(bot, "acme", "ping"),
        lambda: desk.tokens.issue(bot, TokenWish(sub="x", caps=("task.run",))),
        lambda: desk.tokens.revoke(bot, bot.token.jti),
    ):
        with pytest.raises(RefusedError) as refused:
            look()
        assert refused.value.reason is Reason.PERMISSION_DENIED


def test_tokens_are_issued_listed_and_revoked_by_an_admin(desk: Services, office: Office) -> None:
    wish = {"sub": "clerk", "caps": ["goal.ask"], "constraints": {"user": "mia", "tenant": "acme"}}
    raw = (
        b'{"sub": "clerk", "caps": ["goal.ask"], "constraints": {"user": "mia", "tenant": "acme"}, "life_seconds": 60}'
    )
    issued = desk.tokens.issue(person(), raw)
    token = office.workspace.tokens.verify(issued.token)
    assert (token.agent_id, token.constraints.user, token.jti) == ("clerk", "mia", issued.jti)
    assert issued.token not in repr(issued)
    senseless = (
        {**wish, "constraints": {}},
        {**wish, "caps": ["browser.purchase"], "constraints": {"domains": ["shop.test"]}},
        {**wish, "caps": ["browser.click"]},
    )
    for each in senseless:
        with pytest.raises(RefusedError) as refused:
            desk.tokens.issue(person(), TokenWish.from_tree(each))
        assert refused.value.reason is Reason.MALFORMED
    for role in OTHERS:
        with pytest.raises(RefusedError):
            desk.tokens.issue(person(role), raw)
        with pytest.raises(RefusedError):
            desk.tokens.revoke(person(role), issued.jti)
    more = [desk.tokens.issue(person(), raw).jti for _ in range(4)]
    listed: list[str] = []
    cursor = None
    while True:
        page = desk.tokens.list_tokens(VIEWER, cursor, 2)
        listed += [each.jti for each in page.items if each.sub == "clerk"]
        cursor = page.next
        if cursor is None:
            break
    assert sorted(listed) == sorted([issued.jti, *more])
    other = agent(office.workspace, sub="somebody")
    assert {each.sub for each in desk.tokens.list_tokens(other).items} == {"somebody"}
    desk.tokens.revoke(person(), issued.jti, "lost")
    [seen] = [each for each in desk.tokens.list_tokens(VIEWER, limit=200).items if each.jti == issued.jti]
    assert (seen.state, seen.revoked_why) == ("revoked", "lost")
    with pytest.raises(RefusedError):
        desk.tokens.list_tokens(VIEWER, "nothing")


def test_the_catalogue_is_changed_by_an_admin_who_has_read_it(desk: Services) -> None:
    assert {each.simulation_id: each.state for each in desk.catalogue.list_simulations(VIEWER, "acme").simulations}[
        "ping"
    ] == "ACTIVE"
    shown = desk.catalogue.show(VIEWER, "globex", "ping")
    assert (shown.line.state, shown.said) == ("DRAFT", None)
    for role in OTHERS:
        with pytest.raises(RefusedError):
            desk.catalogue.promote(person(role), "globex", "ping", digest=shown.line.definition_digest)
    with pytest.raises(RefusedError) as refused:
        desk.catalogue.promote(person(), "globex", "ping", digest="sha256:" + "0" * 64)
    assert refused.value.reason is Reason.BINDING_MISMATCH
    promoted = desk.catalogue.promote(person(), "globex", "ping", digest=shown.line.definition_digest, reason="useful")
    assert promoted.said is not None
    assert (promoted.line.state, promoted.said.by) == ("ACTIVE", "login:ann")
    assert desk.catalogue.retire(person(), "globex", "ping").state == "RETIRED"
    with pytest.raises(RefusedError) as refused:
        desk.catalogue.show(VIEWER, "acme", "nothing")
    assert refused.value.reason is Reason.STATE_MISSING
