"""Tokens of a workspace: recorded when issued, void as soon as they are revoked, used no oftener than they say."""

import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from remit.authority.capability_token import Token, TokenRequest
from remit.browser.policy import browser_error
from remit.contracts.browser.browser import TokenClaims, TokenConstraints
from remit.contracts.config.browser import Browser
from remit.core.errors import Reason, RefusedError
from remit.identity.tokens import Tokens
from remit.ledger.writer import Batch
from tests.identity.conftest import made_tokens
from tests.support.store_fixtures import World


def wish(**constraints: Any) -> TokenRequest:
    limits = TokenConstraints.from_tree({"domains": ["shop.example"], **constraints})
    return TokenRequest("agent-1", ("browser.navigate", "browser.submit"), limits, timedelta(hours=1))


def use(world: World, tokens: Tokens, token: Token, action_id: str) -> None:
    def work(batch: Batch) -> None:
        tokens.use(batch.store, token, action_id, batch.time_in("default"))

    world.ledger.transact(work)


def entries(world: World, kind: str) -> list[tuple[Any, ...]]:
    query = "SELECT correlation_id, actor, payload FROM ledger_entries WHERE kind = ? ORDER BY seq"
    return world.attacker.run(query, (kind,))


@pytest.mark.req("VX-01")
def test_an_issued_token_is_recorded_and_valid_and_its_text_is_stored_nowhere(world: World, tokens: Tokens) -> None:
    issued = tokens.issue(wish(max_purchase={"value": 50, "currency": "EUR"}), actor="os:ada")
    token = tokens.verify(issued.text)
    assert (token.agent_id, token.jti, token.digest) == ("agent-1", issued.claims.jti, issued.digest)
    [row] = tokens.listed()
    assert (row.jti, row.sub, row.token_digest, row.uses, row.revoked_at) == (
        token.jti,
        "agent-1",
        token.digest,
        0,
        None,
    )
    [(correlation, actor, payload)] = entries(world, "token.issued")
    assert (correlation, actor) == (token.jti, "os:ada")
    assert token.digest in payload
    everything = repr([world.attacker.run(f"SELECT * FROM {table}") for table in ("browser_tokens", "ledger_entries")])
    assert not any(part in everything for part in issued.text.split("."))
    assert world.verify().holds


@pytest.mark.req("VX-02")
def test_a_revoked_token_is_at_once_invalid_in_every_process(world: World, tokens: Tokens, policy_key: Path) -> None:
    elsewhere = made_tokens(world, policy_key)
    issued = tokens.issue(wish())
    token = elsewhere.verify(issued.text)
    assert tokens.revoke(issued.claims.jti[:20], actor="os:ada", reason="left the company") == issued.claims.jti
    for place in (tokens, elsewhere):
        with pytest.raises(RefusedError) as caught:
            place.verify(issued.text)
        assert browser_error(caught.value).code == "TOKEN_REVOKED"
    with pytest.raises(RefusedError) as caught:
        use(world, elsewhere, token, "a1")  # verified before, and no longer alive inside the intent
    assert caught.value.reason is Reason.REVOKED
    assert tokens.listed()[0].uses == 0
    assert tokens.revoke(issued.claims.jti, actor="os:ada") == issued.claims.jti
    assert len(entries(world, "token.revoked")) == 1
    assert tokens.listed()[0].revoked_why == "left the company"


@pytest.mark.req("VX-02")
def test_an_unknown_token_can_be_revoked_before_its_first_use(world: World, tokens: Tokens) -> None:
    issued = tokens.issue(wish())
    world.attacker.tamper("DELETE FROM browser_tokens")  # as if another workspace had issued it
    tokens.revoke(issued.claims.jti, actor="os:ada")
    assert [one.jti for one in tokens.foreign_revocations()] == [issued.claims.jti]
    with pytest.raises(RefusedError, match="was revoked"):
        tokens.verify(issued.text)


@pytest.mark.req("VX-02")
def test_the_whole_id_of_a_foreign_token_is_not_taken_for_the_beginning_of_an_own_id(
    world: World, tokens: Tokens
) -> None:
    ours = tokens.issue(wish())
    foreign = replace(tokens.verify(ours.text), jti=ours.claims.jti[:8])
    use(world, tokens, foreign, "a1")
    assert tokens.revoke(foreign.jti, actor="os:ada") == foreign.jti
    with pytest.raises(RefusedError) as caught:
        use(world, tokens, foreign, "a2")
    assert caught.value.reason is Reason.REVOKED
    assert tokens.verify(ours.text).jti == ours.claims.jti


@pytest.mark.req("VX-02")
def test_removing_the_row_of_a_revocation_does_not_make_the_token_valid(world: World, tokens: Tokens) -> None:
    issued = tokens.issue(wish())
    tokens.revoke(issued.claims.jti, actor="os:ada")
    world.attacker.tamper("DELETE FROM browser_token_revocations")
    with pytest.raises(RefusedError, match="was revoked"):
        tokens.verify(issued.text)


def test_a_second_key_is_trusted_and_a_revoked_key_is_not(world: World, tokens: Tokens) -> None:
    old = tokens.issue(wish())
    token = tokens.verify(old.text)
    tokens.rotate_key()
    assert tokens.verify(old.text).jti == token.jti
    new = tokens.issue(wish())
    assert new.kid != old.kid
    tokens.rotate_key(revoke=True)
    assert tokens.verify(old.text).jti == token.jti
    with pytest.raises(RefusedError) as caught:
        tokens.verify(new.text)
    assert caught.value.reason is Reason.REVOKED
    tokens.revoke_key(old.kid, actor="os:ada")
    with pytest.raises(RefusedError, match="key of this token was revoked"):
        use(world, tokens, token, "a1")
    kinds = [
        row[0] for row in world.attacker.run("SELECT kind FROM ledger_entries WHERE kind LIKE 'key.%' ORDER BY seq")
    ]
    assert kinds == ["key.rotation_intended", "key.rotated", "key.rotation_intended", "key.revoked", "key.revoked"]


def test_a_token_that_expires_between_verification_and_intent_is_refused(world: World, tokens: Tokens) -> None:
    token = tokens.verify(tokens.issue(wish()).text)
    world.clock.now += timedelta(hours=1)
    world.append("default", 1)
    world.clock.now -= timedelta(hours=1)  # set back: the ledger remembers
    with pytest.raises(RefusedError) as caught:
        use(world, tokens, token, "a1")
    assert caught.value.reason is Reason.EXPIRED


def test_another_issuer_or_audience_in_the_settings_makes_old_tokens_invalid(world: World, tokens: Tokens) -> None:
    issued = tokens.issue(wish())
    for other in (Browser(issuer="somebody"), Browser(audience="somebody")):
        place = Tokens(world.keys, lambda other=other: other, lambda: world.ledger, (), world.clock)  # type: ignore[misc]
        with pytest.raises(RefusedError) as caught:
            place.verify(issued.text)
        assert browser_error(caught.value).code == "TOKEN_INVALID"


@pytest.mark.req("VX-04")
def test_a_token_is_used_for_at_most_max_actions_and_a_repeated_action_is_not_a_second_use(
    world: World, tokens: Tokens
) -> None:
    token = tokens.verify(tokens.issue(wish(max_actions=2)).text)
    for action_id in ("a1", "a1", "a2", "a2", "a1"):
        use(world, tokens, token, action_id)
    with pytest.raises(RefusedError) as caught:
        use(world, tokens, token, "a3")
    assert browser_error(caught.value).tree() == {"code": "CONSTRAINT_VIOLATED", "constraint": "max_actions"}
    assert tokens.listed()[0].uses == 2
    use(world, tokens, token, "a2")


@pytest.mark.req("VX-04")
def test_of_many_concurrent_actions_exactly_max_actions_begin(world: World, tokens: Tokens) -> None:
    token = tokens.verify(tokens.issue(wish(max_actions=5)).text)
    barrier, begun = threading.Barrier(20), []

    def act(number: int) -> None:
        barrier.wait()
        try:
            use(world, tokens, token, f"a{number}")
        except RefusedError:
            return
        begun.append(number)

    threads = [threading.Thread(target=act, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == 5
    assert tokens.listed()[0].uses == 5


@pytest.mark.parametrize("table", ["browser_tokens", "browser_token_revocations", "browser_token_uses"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET jti = 'x'", "INSERT OR REPLACE"])
def test_the_database_refuses_changes_of_written_rows(world: World, tokens: Tokens, table: str, statement: str) -> None:
    token = tokens.verify(tokens.issue(wish()).text)
    use(world, tokens, token, "a1")
    tokens.revoke(token.jti, actor="os:ada")
    before = world.attacker.run(f"SELECT * FROM {table}")
    assert len(before) == 1
    if statement.startswith("INSERT"):
        verb = "INSERT OR REPLACE" if world.attacker.dialect == "sqlite" else "INSERT"
        statement = f"{verb} INTO {{0}} SELECT * FROM {{0}}"
    with pytest.raises(Exception, match=r"append-only|duplicate key"):
        world.attacker.run(statement.format(table))
    assert world.attacker.run(f"SELECT * FROM {table}") == before


@pytest.mark.parametrize("jti", ["", "x" * 201, "a\x1bb"])
def test_a_malformed_id_is_not_revoked(world: World, tokens: Tokens, jti: str) -> None:
    with pytest.raises(RefusedError, match="printable"):
        tokens.revoke(jti, actor="os:ada")
    assert entries(world, "token.revoked") == []


def test_a_beginning_that_fits_two_tokens_is_refused(tokens: Tokens) -> None:
    first, second = (tokens.issue(wish()).claims.jti for _ in range(2))
    shared = next(first[:end] for end in range(36, 3, -1) if second.startswith(first[:end]))
    with pytest.raises(RefusedError, match="more than one") as caught:
        tokens.revoke(shared, actor="os:ada")
    assert first in caught.value.next_step
    assert second in caught.value.next_step
    assert [row.revoked_at for row in tokens.listed()] == [None, None]
    tokens.revoke(first, actor="os:ada")
    assert tokens.revoke(shared, actor="os:ada") == second, "one that is revoked already is not meant"


def test_capabilities_of_the_other_operations_and_the_user_of_an_agent() -> None:
    base = {"iss": "i", "aud": "a", "sub": "bot", "jti": "j", "iat": 1, "exp": 2}
    known = ["plan.propose", "plan.apply", "plan.undo", "task.run", "goal.ask", "call.crm.set_discount"]
    whose = {"user": "ana", "tenant": "acme"}
    claims = TokenClaims.from_tree({**base, "caps": known, "constraints": whose})
    assert (claims.caps, claims.constraints.user) == (tuple(known), "ana")
    unknown = (
        "plan.approve",
        "plan",
        "call.",
        "call.A",
        "call.a/b",
        "call.a.b.c.d.e",
        "browser.anything",
        "task.run ",
        "",
    )
    for capability in unknown:
        with pytest.raises(RefusedError):
            TokenClaims.from_tree({**base, "caps": [capability]})
    halves = ({"user": "ana"}, {"tenant": "acme"})
    for constraints in (*halves, {"max_actions": 3}):  # which counts actions in the browser alone
        with pytest.raises(RefusedError):
            TokenClaims.from_tree({**base, "caps": ["browser.click", "plan.apply"], "constraints": constraints})
