"""What a token allows, and the nine errors that the browser door answers with."""

from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from remit.authority.capability_token import Token
from remit.browser.policy import (
    CAPABILITY_OF,
    browser_error,
    browser_reason,
    decide_browser,
    require_host,
    require_within_limit,
)
from remit.contracts.browser.browser import Action, ActionType, Amount, TokenConstraints
from remit.contracts.browser.errors import EXECUTOR_ERROR, RETRYABLE_CODES, Capability
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError

NINE = {
    "TOKEN_INVALID",
    "TOKEN_EXPIRED",
    "TOKEN_REVOKED",
    "CAPABILITY_MISSING",
    "CONSTRAINT_VIOLATED",
    "APPROVAL_DENIED",
    "APPROVAL_TIMEOUT",
    "KERNEL_ERROR",
    "ELEMENT_NOT_FOUND",
}
FIELDS: dict[str, dict[str, Any]] = {
    "click": {"selector": "#a"},
    "type": {"selector": "#a", "value": "x"},
    "submit": {"ref": "e1"},
    "purchase": {"ref": "e1", "amount": {"value": 10, "currency": "USD"}},
}


def token(*caps: Capability, **constraints: Any) -> Token:
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    limits = TokenConstraints.from_tree({"domains": ["shop.example"], **constraints})
    return Token("agent-1", "t1", frozenset(caps), limits, start, start, end, "k1", "sha256:" + "0" * 64)


def action(kind: ActionType, target: str = "https://shop.example/", **more: Any) -> Action:
    return Action.from_tree({"action_id": "a", "type": kind, "target": target, **FIELDS.get(kind, {}), **more})


def refused(asked: Action, held: Token, currency: str = "USD") -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        decide_browser(held, asked, currency).require()
    return caught.value


@pytest.mark.req("VX-03")
@pytest.mark.parametrize("kind", get_args(ActionType))
def test_each_action_needs_its_own_capability_and_no_other_helps(kind: ActionType) -> None:
    needed = CAPABILITY_OF[kind]
    others = [one for one in get_args(Capability) if one != needed]
    decision = decide_browser(token(needed, max_purchase=50), action(kind), "USD")
    assert decision.allowed
    assert any(needed in reason for reason in decision.granted_by)
    problem = refused(action(kind), token(*others, max_purchase=50))
    assert browser_error(problem).tree() == {"code": "CAPABILITY_MISSING", "required": needed}


@pytest.mark.req("VX-04", "VX-14")
@pytest.mark.parametrize("kind", get_args(ActionType))
def test_a_token_without_domains_allows_no_place_for_any_action(kind: ActionType) -> None:
    problem = refused(action(kind), token(CAPABILITY_OF[kind], domains=None, max_purchase=50))
    assert browser_error(problem).tree() == {"code": "CONSTRAINT_VIOLATED", "constraint": "domains"}
    assert browser_reason(problem).startswith("Domain not allowed: the token allows no host at all, and not shop.")


@pytest.mark.req("VX-04", "VX-14")
def test_another_place_is_refused_in_the_specified_words_and_then_in_exact_ones(subtests: pytest.Subtests) -> None:
    for target, says in [
        ("https://other.example/", "the token allows shop.example, and not other.example. To allow it, "),
        ("https://shop.example@other.example/", "the target contains credentials, "),
        ("file:///etc/passwd", "a file: address cannot be opened; only http: and https: addresses can. Give "),
        ("javascript:alert(1)", "a javascript: address cannot be opened; "),
        ("/cart", "the target begins neither with https:// nor with http://. Write the whole address."),
        ("shop.example/cart", "the target begins neither with https:// nor with http://. "),
        ("shop.example:8443/cart", "the target begins neither with https:// nor with http://. "),
        ("https:/shop.example/", "the target has no host after exactly two slashes. "),
        ("https://shop.example:0/", "the port of the target is not a plain number from 1 to 65535. "),
    ]:
        with subtests.test(target):
            problem = refused(action("navigate", target), token("browser.navigate"))
            assert browser_error(problem).tree() == {"code": "CONSTRAINT_VIOLATED", "constraint": "domains"}
            assert browser_reason(problem).startswith(f"Domain not allowed: {says}")


def test_the_proxy_asks_by_host_alone() -> None:
    require_host(token().constraints, "SHOP.example.")
    with pytest.raises(RefusedError, match="Domain not allowed"):
        require_host(token().constraints, "other.example")


@pytest.mark.req("VX-04", "VX-14")
def test_a_purchase_stays_within_its_limit(subtests: pytest.Subtests) -> None:
    for limit, value, currency, allowed in [
        (50, 50, "USD", True),
        (50, 50.01, "USD", False),
        (50, 1, "EUR", False),
        ({"value": 50, "currency": "EUR"}, 50, "EUR", True),
        ({"value": 50, "currency": "EUR"}, 1, "USD", False),
        (None, 0, "USD", False),
        (0, 0, "USD", True),
        (0.3, 0.3, "USD", True),
        (0.3, 0.30000000000000004, "USD", False),
        (1e12, 1e12, "USD", True),
    ]:
        with subtests.test(currency):
            held = token("browser.purchase", max_purchase=limit)
            asked = action("purchase", amount={"value": value, "currency": currency})
            assert decide_browser(held, asked, "USD").allowed is allowed
            if not allowed:
                problem = refused(asked, held)
                assert browser_error(problem).tree() == {"code": "CONSTRAINT_VIOLATED", "constraint": "max_purchase"}
                declared, most = (
                    f"{amount:.2f}" if amount == round(amount, 2) else f"{amount}" for amount in (value, 50)
                )
                assert browser_reason(problem).startswith(
                    f"Amount exceeds limit: {declared} {currency} was declared; the token"
                )
                assert limit is None or limit == 0.3 or f"allows {most} " in browser_reason(problem)


def test_a_bare_number_is_in_the_configured_currency() -> None:
    held = token("browser.purchase", max_purchase=50)
    asked = action("purchase", amount={"value": 50, "currency": "EUR"})
    assert decide_browser(held, asked, "EUR").allowed
    assert not decide_browser(held, asked, "USD").allowed
    with pytest.raises(RefusedError, match="Amount exceeds limit"):
        require_within_limit(held.constraints, Amount(value=51, currency="USD"), "USD")


def test_all_that_is_wrong_is_in_the_decision_and_the_capability_comes_first() -> None:
    decision = decide_browser(token(max_purchase=1), action("purchase", "https://other.example/"), "USD")
    assert [one.reason for one in decision.denials] == [
        Reason.CAPABILITY_MISSING,
        Reason.CONSTRAINT_VIOLATED,
        Reason.CONSTRAINT_VIOLATED,
    ]


@pytest.mark.req("VX-11")
@pytest.mark.parametrize("kind", [RefusedError, EnvironmentFailureError])
@pytest.mark.parametrize("where", ["", "browser.click", "constraints.domains", "x" * 5_000])
def test_every_reason_becomes_one_of_the_nine(kind: type[RemitError], where: str) -> None:
    for reason in Reason:
        error = browser_error(kind(reason, "what" * 1_000, where=where, next_step="next"))
        assert error.code in NINE, reason
        assert EXECUTOR_ERROR.from_tree(error.tree()) == error, reason


@pytest.mark.req("VX-11", "VX-14")
def test_the_message_of_an_error_says_what_was_wrong(subtests: pytest.Subtests) -> None:
    for reason, code in [
        (Reason.AUTHORITY_MALFORMED, "TOKEN_INVALID"),
        (Reason.SIGNATURE_INVALID, "TOKEN_INVALID"),
        (Reason.KEY_UNKNOWN, "TOKEN_INVALID"),
        (Reason.KEY_RETIRED, "TOKEN_INVALID"),
        (Reason.BINDING_MISMATCH, "TOKEN_INVALID"),
        (Reason.NOT_YET_VALID, "TOKEN_INVALID"),
        (Reason.EXPIRED, "TOKEN_EXPIRED"),
        (Reason.REVOKED, "TOKEN_REVOKED"),
        (Reason.APPROVAL_DENIED, "APPROVAL_DENIED"),
        (Reason.APPROVAL_TIMEOUT, "APPROVAL_TIMEOUT"),
        (Reason.FATE_UNKNOWN, "KERNEL_ERROR"),
        (Reason.STORE_UNAVAILABLE, "KERNEL_ERROR"),
        (Reason.IDEMPOTENCY_CONFLICT, "KERNEL_ERROR"),
    ]:
        with subtests.test(code):
            problem = RefusedError(reason, "what was wrong", where="here", next_step="Do this.")
            assert browser_error(problem).tree() == {"code": code, "message": "what was wrong (at here). Do this."}
            assert browser_reason(problem) == "what was wrong"


@pytest.mark.req("VX-08", "VX-14")
def test_an_element_that_is_missing_is_named_and_its_secrets_are_masked() -> None:
    problem = RefusedError(Reason.ELEMENT_MISSING, "no such element", where="#buy")
    assert browser_error(problem).tree() == {"code": "ELEMENT_NOT_FOUND", "selector": "#buy"}
    named = browser_error(problem, selector="[value='ada@example.com']")
    assert named.tree() == {"code": "ELEMENT_NOT_FOUND", "selector": "[value='a***@example.com']"}
    assert named.code in RETRYABLE_CODES


@pytest.mark.req("VX-14")
def test_where_an_error_has_no_message_the_reason_says_what_to_do() -> None:
    for reason in (Reason.ELEMENT_MISSING, Reason.CONSTRAINT_VIOLATED, Reason.CAPABILITY_MISSING):
        assert browser_reason(RefusedError(reason, "not so", next_step="Do this.")) == "not so. Do this."
    assert browser_reason(RefusedError(Reason.EXPIRED, "too late", next_step="Do this.")) == "too late"
