"""What a held request costs, by its own fields and its page: never more than was declared, never more than allowed."""

from decimal import Decimal

import pytest

from remit.browser.amounts import FoundPrice
from remit.browser.policy import browser_error, browser_reason
from remit.browser.price_policy import require_price
from remit.contracts.browser.browser import Amount
from remit.core.errors import RefusedError

pytestmark = pytest.mark.req("VX-04")
LIMIT = Amount(value=50, currency="EUR")
PRICE = Amount(value=49.9, currency="EUR")


def found(value: str, name: str = "total", *, currency: str | None = None, minor: bool = False) -> FoundPrice:
    return FoundPrice(name, Decimal(value), currency, minor)


@pytest.mark.parametrize(
    "declared, limit, in_request, on_page",
    [
        (None, None, (found("79.90"),), ()),
        (None, LIMIT, (), ()),
        (None, LIMIT, (found("50.00"), found("5000", minor=True)), ()),
        (PRICE, LIMIT, (found("49.90"), found("4990")), (found("49.90", currency="EUR"),)),
    ],
)
def test_what_is_within_bounds_is_asked_about(
    declared: Amount | None, limit: Amount | None, in_request: tuple[FoundPrice, ...], on_page: tuple[FoundPrice, ...]
) -> None:
    require_price(declared, limit, in_request, on_page)


@pytest.mark.parametrize(
    "declared, in_request, on_page, said",
    [
        (None, (found("79.90"),), (), "79.90 in the field `total` of the request; the token allows 50.00 EUR."),
        (None, (found("5000"),), (), "5000 in the field `total` of the request; the token allows 50.00 EUR."),
        (None, (found("7990", "due", minor=True),), (), "7990 cents in the field `due` of the request; the token"),
        (PRICE, (found("50"),), (), "`total` of the request; the agent declared 49.90 EUR, and the token allows 50.00"),
        (PRICE, (), (found("60", currency="EUR"),), "60 EUR in the form; the agent declared 49.90 EUR"),
        (PRICE, (), (found("1", currency="USD"),), "1 USD in the form; the agent declared 49.90 EUR"),
    ],
)
def test_what_costs_more_is_not_sent_whatever_the_action_calls_itself(
    declared: Amount | None, in_request: tuple[FoundPrice, ...], on_page: tuple[FoundPrice, ...], said: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        require_price(declared, LIMIT, in_request, on_page)
    assert browser_error(caught.value).tree() == {"code": "CONSTRAINT_VIOLATED", "constraint": "max_purchase"}
    assert browser_reason(caught.value).startswith("Amount exceeds limit: ")
    assert said in browser_reason(caught.value)
