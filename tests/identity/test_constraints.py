"""Every constraint with every capability: a check enforces it, or no such token is issued or believed."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from remit.authority.capability_token import Token, TokenRequest, verify_token
from remit.browser.policy import CAPABILITY_OF, decide_browser
from remit.contracts.browser.browser import Action, ActionType, TokenConstraints
from remit.contracts.browser.capabilities import BROWSER_CAPABILITIES, SERVICE_CAPABILITIES
from remit.contracts.browser.token_rules import CONSTRAINT_RULES
from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import Plan
from remit.contracts.services.admin import TokenWish
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import AgentCaller
from remit.identity.tokens import Tokens
from remit.services.goals.answers import find_user
from remit.services.plans.read_grants import ReadGrant, is_plan_readable
from remit.services.tokens import require_usable
from remit.store.connection import Connection
from tests.cli.conftest import Remit, remit
from tests.identity.forging import AUDIENCE, CLAIMS, HEADER, ISSUER, NOW, signed, trusted
from tests.plans.project import create, plan_of
from tests.support.store_fixtures import World

__all__ = ["remit"]

CAPABILITIES: Final = (*BROWSER_CAPABILITIES, *SERVICE_CAPABILITIES, "call.crm.set_discount")
GIVEN: Final[dict[str, dict[str, Any]]] = {
    "domains": {"domains": ["shop.example"]},
    "max_purchase": {"max_purchase": {"value": 50, "currency": "EUR"}},
    "max_actions": {"max_actions": 1},
    "user": {"user": "ana", "tenant": "acme"},
    "tenant": {"user": "ana", "tenant": "acme"},
    "paths": {"paths": ["docs/**"]},
    "connections": {"connections": ["sales"]},
}
OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "domains": ("--domain", "shop.example"),
    "max_purchase": ("--max-purchase", "50", "EUR"),
    "max_actions": ("--max-actions", "1"),
    "user": ("--user", "ana", "--tenant", "acme"),
    "tenant": ("--user", "ana", "--tenant", "acme"),
    "paths": ("--path", "docs/**"),
    "connections": ("--connection", "sales"),
}
WORKS_WITH: Final = {rule.constraint: rule.works_with for rule in CONSTRAINT_RULES}
NOT_BESIDE: Final = {rule.constraint: rule.not_beside for rule in CONSTRAINT_RULES}
UNCHECKED: Final = [(name, cap) for name in GIVEN for cap in CAPABILITIES if cap not in WORKS_WITH[name]]
KINDS: Final[dict[str, ActionType]] = {cap: kind for kind, cap in CAPABILITY_OF.items()}
FIELDS: Final[dict[str, dict[str, Any]]] = {
    "click": {"selector": "#a"},
    "type": {"selector": "#a", "value": "x"},
    "submit": {"selector": "#a"},
    "purchase": {"selector": "#a", "amount": {"value": 60, "currency": "EUR"}},
}


def wish(caps: tuple[str, ...], constraints: dict[str, Any]) -> TokenRequest:
    return TokenRequest("bot", caps, TokenConstraints.from_tree(constraints), timedelta(hours=1))


@pytest.mark.req("RU-02")
def test_the_table_has_every_constraint_and_only_existing_capabilities() -> None:
    assert set(WORKS_WITH) == set(GIVEN) == set(TokenConstraints.model_fields)
    for rule in CONSTRAINT_RULES:
        assert set(rule.works_with) <= set(CAPABILITIES)
        assert all(any(cap.startswith(each) for cap in CAPABILITIES) for each in rule.not_beside)


@pytest.mark.req("RU-02")
@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_constraint_that_nothing_checks_is_refused_when_the_token_is_issued(tokens: Tokens) -> None:
    for name, cap in UNCHECKED:
        with pytest.raises(RefusedError) as caught:
            tokens.issue(wish((cap,), GIVEN[name]))
        assert caught.value.reason is Reason.MALFORMED
        assert all(each in caught.value.what for each in (cap, *WORKS_WITH[name])), (name, cap)
        assert caught.value.where.startswith("constraints.")
    assert tokens.listed() == []


@pytest.mark.req("RU-02")
@pytest.mark.parametrize("dialect", ["sqlite"])
def test_a_constraint_is_refused_beside_a_capability_that_could_bypass_it(tokens: Tokens) -> None:
    for name, checked in WORKS_WITH.items():
        for other in (cap for cap in CAPABILITIES if cap not in checked):
            both = (checked[0], other)
            if other.startswith(NOT_BESIDE[name]):
                with pytest.raises(RefusedError) as caught:
                    tokens.issue(wish(both, GIVEN[name]))
                assert (other in caught.value.what, "two tokens" in caught.value.next_step) == (True, True)
            else:
                assert tokens.issue(wish(both, GIVEN[name])).claims.caps == both


@pytest.mark.req("RU-02")
def test_a_token_with_an_unchecked_constraint_is_refused_when_it_is_used() -> None:
    for name, cap in UNCHECKED:
        text = signed(HEADER, {**CLAIMS, "caps": [cap], "constraints": GIVEN[name]})
        with pytest.raises(RefusedError) as caught:
            verify_token(text, trusted(), ISSUER, AUDIENCE, NOW)
        assert caught.value.reason is Reason.AUTHORITY_MALFORMED, (name, cap)
    for name, checked in WORKS_WITH.items():
        for cap in checked:
            text = signed(HEADER, {**CLAIMS, "caps": [cap], "constraints": GIVEN[name]})
            assert verify_token(text, trusted(), ISSUER, AUDIENCE, NOW).caps == {cap}


@pytest.mark.req("RU-02")
@pytest.mark.parametrize("name", GIVEN)
def test_the_command_line_names_the_constraint_and_the_capabilities_that_it_works_with(remit: Remit, name: str) -> None:
    assert remit("init").code == 0
    other = next(cap for constraint, cap in UNCHECKED if constraint == name and cap.startswith(("call.", "task.")))
    for cap in dict.fromkeys((other, "call.crm.set_discount")):
        ran = remit("token", "issue", "--sub", "bot", "--cap", cap, *OPTIONS[name])
        assert (ran.code, ran.out) == (2, ""), ran
        shown = " ".join(ran.err.split())
        assert f"works with {', '.join(WORKS_WITH[name]).replace('browser.', '')}" in shown
        assert f"nothing checks it for {cap}" in shown
    assert json.loads(remit("token", "list", "--json").out)["tokens"] == []


@pytest.mark.req("PV-04", "RU-02")
def test_a_token_that_could_read_nothing_is_not_issued(remit: Remit) -> None:
    assert remit("init").code == 0
    ran = remit("token", "issue", "--sub", "bot", "--cap", "plan.read")
    assert (ran.code, "without both, the agent can read nothing" in " ".join(ran.err.split())) == (2, True), ran
    ran = remit("token", "issue", "--sub", "bot", "--cap", "plan.read", "--path", "../x")
    assert (ran.code, "no part . or .." in " ".join(ran.err.split())) == (2, True), ran
    with pytest.raises(RefusedError, match="without both it reads nothing"):
        require_usable(TokenWish.from_tree({"sub": "bot", "caps": ["plan.read"]}, source="a wish"))
    assert json.loads(remit("token", "list", "--json").out)["tokens"] == []
    given = ("--path", "docs/**", "--path", "README.md", "--connection", "sales")
    assert remit("token", "issue", "--sub", "bot", "--cap", "plan.read", *given).code == 0
    (listed,) = json.loads(remit("token", "list", "--json").out)["tokens"]
    assert listed["constraints"]["paths"] == ["docs/**", "README.md"]
    assert listed["constraints"]["connections"] == ["sales"]


# --- what the table calls checked, is checked -------------------------------------------------------------------------


def _held(tokens: Tokens, cap: str, name: str) -> Token:
    return tokens.verify(tokens.issue(wish((cap,), {**GIVEN[name]})).text)


def _is_refused_elsewhere(tokens: Tokens, _: World, cap: str) -> None:
    kind = KINDS[cap]
    tree = {"action_id": "a", "type": kind, "target": "https://other.example/", **FIELDS.get(kind, {})}
    denials = decide_browser(_held(tokens, cap, "domains"), Action.from_tree(tree), "EUR").denials
    assert "constraints.domains" in {denial.where for denial in denials}


def _counts_each_action(tokens: Tokens, world: World, cap: str) -> None:
    held = _held(tokens, cap, "max_actions")

    def use(connection: Connection, action_id: str) -> None:
        tokens.use(connection, held, action_id, world.clock())

    world.ledger.transact(lambda batch: use(batch.store, "first"))
    with pytest.raises(RefusedError) as caught:
        world.ledger.transact(lambda batch: use(batch.store, "second"))
    assert caught.value.where == "constraints.max_actions"


def _asks_for_that_user(tokens: Tokens, _: World, cap: str) -> None:
    caller = AgentCaller.by(tokens, tokens.issue(wish((cap,), GIVEN["user"])).text)
    assert tuple(find_user(caller)) == ("ana", "acme")
    with pytest.raises(RefusedError):
        find_user(AgentCaller.by(tokens, tokens.issue(wish((cap,), {})).text))


def _reads_only_these_files(tokens: Tokens, _: World, cap: str) -> None:
    grant = ReadGrant.of(_held(tokens, cap, "paths"))
    assert is_plan_readable(Plan.parse(plan_of(create("a", "docs/a.md"))), SystemConfig(version=1), grant)
    assert not is_plan_readable(Plan.parse(plan_of(create("a", "other/a.md"))), SystemConfig(version=1), grant)


def _reads_only_these_connections(tokens: Tokens, _: World, cap: str) -> None:
    config = SystemConfig.from_tree(
        {"version": 1, "connections": {name: {"type": "duckdb"} for name in ("sales", "other")}}
    )
    grant = ReadGrant.of(_held(tokens, cap, "connections"))
    for name in ("sales", "other"):
        operation = {"type": "sql_execute", "query": "SELECT 1", "connection": name}
        plan = Plan.parse(plan_of({"action_id": "a", "action_type": "SQL_EXECUTE", "operation": operation}))
        assert is_plan_readable(plan, config, grant) is (name == "sales")


FIRES: Final[dict[str, Callable[[Tokens, World, str], None]]] = {
    "domains": _is_refused_elsewhere,
    "max_actions": _counts_each_action,
    "user": _asks_for_that_user,
    "tenant": _asks_for_that_user,
    "paths": _reads_only_these_files,
    "connections": _reads_only_these_connections,
}
"""`max_purchase` is checked where requests are held: see tests/browser/service/test_price_limits.py."""


@pytest.mark.req("RU-02")
@pytest.mark.parametrize("dialect", ["sqlite"])
@pytest.mark.parametrize("name", FIRES)
def test_every_constraint_of_the_table_is_enforced(tokens: Tokens, world: World, name: str) -> None:
    for cap in WORKS_WITH[name]:
        FIRES[name](tokens, world, cap)


def test_the_tests_of_the_other_check_still_exist() -> None:
    assert set(FIRES) | {"max_purchase"} == set(WORKS_WITH)
    assert (Path(__file__).parent.parent / "browser/service/test_price_limits.py").exists()
