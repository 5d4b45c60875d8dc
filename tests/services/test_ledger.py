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


def all_of(services: Services, limit: int, **filters: str) -> list[int]:
    found: list[int] = []
    cursor = None
    for _ in range(200):
        page = services.ledger.list_entries(VIEWER, "globex", EntryFilter(**filters), cursor, limit)
        found += [each.entry.seq for each in page.items]
        cursor = page.next
        if cursor is None:
            return found
    raise AssertionError("it has no end")


def test_entries_are_found_a_page_at_a_time(
    services: Services, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = written[::-1]
    for room in (20_000, 7):  # however little each answer looks through
        monkeypatch.setattr(searching, "LOOKED_THROUGH", room)
        assert all_of(services, 200) == newest
        assert all_of(services, 3) == newest
        assert all_of(services, 2, kind="test.r") == [seq for seq in newest if seq % 10 == 1]
        assert all_of(services, 4, kind="test.rare", actor="os:p1") == []
        assert all_of(services, 4, correlation_id="c3", actor="os:p1") == [seq for seq in newest if (seq - 1) % 4 == 3]
        assert all_of(services, 4, text="tea 100%_39") == [newest[0]]
        assert all_of(services, 4, text="tea 100%%") == []
        assert all_of(services, 4, kind="test_") == []
    at = [services.ledger.read_entry(VIEWER, "globex", seq).entry.created_at for seq in written]
    assert all_of(services, 9, since=at[30]) == newest[: 40 - at.index(at[30])]
    assert all_of(services, 9, until=at[5]) == [seq for seq in newest if at[seq - 1] < at[5]]
    assert all_of(services, 9, since=at[-1], until=at[0]) == []


def test_an_invalid_cursor_or_position_is_refused(services: Services, written: list[int]) -> None:
    for cursor in ("x", "-1", "9" * 17, "٣", ""):
        with pytest.raises(RefusedError) as refused:
            services.ledger.list_entries(VIEWER, "globex", None, cursor)
        assert refused.value.reason is Reason.MALFORMED, cursor
    assert services.ledger.list_entries(VIEWER, "globex", None, "1").items == ()
    assert services.ledger.list_entries(VIEWER, "nobody").items == ()
    for tenant, seq in (("globex", 9_999), ("nobody", 1), ("a\nb", 1)):
        with pytest.raises(RefusedError) as refused:
            services.ledger.read_entry(VIEWER, tenant, seq)
        assert refused.value.reason is Reason.STATE_MISSING


def test_several_callers_can_wait_for_the_same_check_of_the_ledger(services: Services, written: list[int]) -> None:
    answers = []

    def ask() -> None:
        answers.append(services.ledger.verify(VIEWER, wait=30.0))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.state for each in answers] == ["done"] * 4
    verdict = answers[0].verdict
    assert verdict is not None
    assert verdict.holds, verdict.findings
    assert services.ledger.verify(VIEWER, again=False).checked_at in {each.checked_at for each in answers}
    with pytest.raises(RefusedError, match="no entries"):
        services.ledger.verify(VIEWER, "nobody", wait=30.0)


def test_evidence_is_exported_and_holds(services: Services, office: Office, written: list[int]) -> None:
    keyring = load_keyring(office.workspace.state.keys)
    heads = {each.tenant_id: each for each in services.ledger.list_heads(VIEWER)}
    chains = {each.tenant_id: each for each in services.ledger.list_chains(VIEWER)}
    assert (heads["globex"].seq, chains["globex"].entries, chains["globex"].configured) == (40, 40, True)
    with services.ledger.open_bundle(VIEWER, "globex", "c1") as bundle:
        verdict = verify_bundle(bundle, keyring, source="bundle", known_heads=(heads["globex"],))
    assert verdict.holds, verdict.findings
    assert verdict.entries == 39
    with pytest.raises(RefusedError):
        services.ledger.open_bundle(VIEWER, "globex", "none")


def test_the_ledger_the_catalogue_and_tokens_are_for_people_only(services: Services, office: Office) -> None:
    bot = agent(office.workspace)
    for look in (
        lambda: services.ledger.list_chains(bot),
        lambda: services.ledger.list_heads(bot),
        lambda: services.ledger.list_entries(bot, "default"),
        lambda: services.ledger.read_entry(bot, "default", 1),
        lambda: services.ledger.trace(bot, "default", "x"),
        lambda: services.ledger.verify(bot),
        lambda: services.ledger.open_bundle(bot, "default"),
        lambda: services.catalogue.list_simulations(bot, "acme"),
        lambda: services.catalogue.show(bot, "acme", "ping"),
        lambda: services.catalogue.promote(bot, "acme", "ping", digest="sha256:" + "0" * 64),
        lambda: services.catalogue.retire(bot, "acme", "ping"),
        lambda: services.tokens.issue(bot, TokenWish(sub="x", caps=("task.run",))),
        lambda: services.tokens.revoke(bot, bot.token.jti),
    ):
        with pytest.raises(RefusedError) as refused:
            look()
        assert refused.value.reason is Reason.PERMISSION_DENIED


def test_tokens_are_issued_listed_and_revoked_by_an_admin(services: Services, office: Office) -> None:
    wish = {"sub": "clerk", "caps": ["goal.ask"], "constraints": {"user": "mia", "tenant": "acme"}}
    raw = (
        b'{"sub": "clerk", "caps": ["goal.ask"], "constraints": {"user": "mia", "tenant": "acme"}, "life_seconds": 60}'
    )
    issued = services.tokens.issue(person(), raw)
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
            services.tokens.issue(person(), TokenWish.from_tree(each))
        assert refused.value.reason is Reason.MALFORMED
    for role in OTHERS:
        with pytest.raises(RefusedError):
            services.tokens.issue(person(role), raw)
        with pytest.raises(RefusedError):
            services.tokens.revoke(person(role), issued.jti)
    more = [services.tokens.issue(person(), raw).jti for _ in range(4)]
    listed: list[str] = []
    cursor = None
    while True:
        page = services.tokens.list_tokens(VIEWER, cursor, 2)
        listed += [each.jti for each in page.items if each.sub == "clerk"]
        cursor = page.next
        if cursor is None:
            break
    assert sorted(listed) == sorted([issued.jti, *more])
    other = agent(office.workspace, sub="somebody")
    assert {each.sub for each in services.tokens.list_tokens(other).items} == {"somebody"}
    services.tokens.revoke(person(), issued.jti, "lost")
    [seen] = [each for each in services.tokens.list_tokens(VIEWER, limit=200).items if each.jti == issued.jti]
    assert (seen.state, seen.revoked_why) == ("revoked", "lost")
    with pytest.raises(RefusedError):
        services.tokens.list_tokens(VIEWER, "nothing")


def test_the_catalogue_is_changed_by_an_admin_who_has_read_it(services: Services) -> None:
    assert {each.simulation_id: each.state for each in services.catalogue.list_simulations(VIEWER, "acme").simulations}[
        "ping"
    ] == "ACTIVE"
    shown = services.catalogue.show(VIEWER, "globex", "ping")
    assert (shown.line.state, shown.said) == ("DRAFT", None)
    for role in OTHERS:
        with pytest.raises(RefusedError):
            services.catalogue.promote(person(role), "globex", "ping", digest=shown.line.definition_digest)
    with pytest.raises(RefusedError) as refused:
        services.catalogue.promote(person(), "globex", "ping", digest="sha256:" + "0" * 64)
    assert refused.value.reason is Reason.BINDING_MISMATCH
    promoted = services.catalogue.promote(
        person(), "globex", "ping", digest=shown.line.definition_digest, reason="useful"
    )
    assert promoted.said is not None
    assert (promoted.line.state, promoted.said.by) == ("ACTIVE", "login:ann")
    assert services.catalogue.retire(person(), "globex", "ping").state == "RETIRED"
    with pytest.raises(RefusedError) as refused:
        services.catalogue.show(VIEWER, "acme", "nothing")
    assert refused.value.reason is Reason.STATE_MISSING
