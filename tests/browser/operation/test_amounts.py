"""What a request costs, however it writes that: a price that nobody can read is never a small one."""

import time
from decimal import Decimal

import pytest

from remit.browser.amounts import FoundPrice, find_amounts, judge_amounts, parse_amount
from remit.browser.model.form_fields import Field
from remit.browser.model.requests import OutgoingRequest
from remit.browser.price_policy import require_price
from remit.browser.request_preview import Context, ParsedRequest, preview_request, read_request
from remit.contracts.browser.browser import Amount
from remit.core.errors import RefusedError

pytestmark = pytest.mark.req("VX-04")
FORM, JSON, TEXT, XML = "application/x-www-form-urlencoded", "application/json", "text/plain", "application/xml"
LIMIT = Amount(value=60, currency="EUR")


def read(content_type: str, body: bytes, query: str = "") -> ParsedRequest:
    headers = (("content-type", content_type),)
    return read_request(OutgoingRequest("r1", "request", "POST", f"https://shop.test/pay{query}", headers, body))


def test_prices_are_read_as_people_write_them(subtests: pytest.Subtests) -> None:
    for text, value, currency in [
        ("49.99", "49.99", None),
        ("$49.99", "49.99", "USD"),
        ("49,99 €", "49.99", "EUR"),
        ("1,234.50", "1234.50", None),
        ("1.234,50", "1234.50", None),
        ("1.234", "1234", None),
        ("0.125", "0.125", None),
        ("49.9900", "49.9900", None),
        ("1 234", "1234", None),
        ("EUR\u00a01'234.00", "1234.00", "EUR"),
        ("+4999", "4999", None),
        ("1" + "0" * 30, "1" + "0" * 30, None),
        ("twelve", None, None),
        ("5 k", None, None),
        ("-5", None, None),
        ("1.2.3", None, None),
        ("1" * 1_000_000, None, None),
        ("", None, None),
    ]:
        with subtests.test(text):
            assert parse_amount(text) == (None if value is None else (Decimal(value), currency))


def test_no_way_to_write_a_number_gets_around_a_limit(subtests: pytest.Subtests) -> None:
    for content_type, body in [
        (FORM, b"amount=500"),
        (FORM, b"amount=500.0000000"),
        (FORM, b"amount=5e2"),
        (FORM, b"amount=500+Euro+in+total"),
        (FORM, b"amount=EUR%C2%A0%C2%A0%C2%A0%C2%A0%C2%A0%C2%A0500"),
        (FORM, b"amount=1_000"),
        (FORM, b"amount=1.000"),
        (FORM, b"amount=1%202345"),
        (FORM, b"amount=0x1F4"),
        (FORM, b"amount=%EF%BC%95%EF%BC%90%EF%BC%90"),
        (FORM, b"amount=500;x=1"),
        (FORM, b"amount%5B%5D=500"),
        (FORM, b"amount=1000000000000000000"),
        (FORM, b"amount=12,345,67"),
        (FORM, b"amount=1,000.000"),
        (FORM, b"amount=500/1"),
        (FORM, b"amount=%2B500"),
        (FORM, b"amount=500,"),
        (FORM, b"amount=+++++++++++500"),
        (FORM, b"amount=5k"),
        (FORM, b"amount=40+USD"),
        (FORM, b"amount=1&amount=500"),
        (FORM, b"payment=5e2"),
        (FORM, b"cart=" + b'{"total":500}'),
        (FORM, b"&".join(b"f%d=1" % number for number in range(2_100)) + b"&amount=500"),
        (JSON, b'{"amount":500.12345678}'),
        (JSON, b'{"amount":5e2}'),
        (JSON, b'{"amount":5e200}'),
        (JSON, b'{"amount":1,"amount":500}'),
        (JSON, b'{"amount":500,"amount":1}'),
        (JSON, b'{"\\u0061mount":500,"a":1,"a":1}'),
        (JSON, b'{"amount":[1,500]}'),
        (JSON, b'{"price":{"value":"500.00000000"}}'),
        (JSON, b'{"price":{"value":"5e2"}}'),
        (JSON, b'\xef\xbb\xbf{"amount":500}'),
        (JSON, b'{"amount":500,}'),
        (JSON, b'{"totalEUR":500}'),
        (JSON, b'{"TOTALPRICE":500}'),
        (JSON, b'{"totals":500}'),
        (JSON, b'{"prices":500}'),
        (JSON, b'{"amount2":500}'),
        (JSON, b'{"shippingcost":500}'),
        (JSON, b'{"cart":"{\\"total\\": 500}"}'),
        (TEXT, b"amount=500\r\nx=1\r\n"),
        (TEXT, b"x=1\r\namount=1,000.00\r\n"),
        (XML, b"<amount>500</amount>"),
        (XML, b'<order><TotalPrice currency="EUR">\n 500</TotalPrice></order>'),
        (XML, b"<p:amount><![CDATA[500]]></p:amount>"),
        (XML, b"<amount>&#53;00</amount>"),
        (XML, b'<pay amount="500"/>'),
        (TEXT, b"amount=1 " * 3_000),
    ]:
        with subtests.test(content_type):
            amounts = read(content_type, body).amounts
            for declared in (None, Amount(value=49.9, currency="EUR")):
                with pytest.raises(RefusedError, match="Amount exceeds limit"):
                    require_price(declared, LIMIT, amounts, ())


@pytest.mark.parametrize("body", [b"x=1", b'{"a": 1}', b""])
def test_the_query_counts_beside_any_body(body: bytes) -> None:
    with pytest.raises(RefusedError):
        require_price(None, LIMIT, read(FORM, body, "?amount=500").amounts, ())


@pytest.mark.parametrize(
    "content_type, body",
    [
        (FORM, b"amount=49.90&total=49%2C90+%E2%82%AC&cent_amount=4990&quantity=70"),
        (FORM, b"amount=&price=free&total_items=900&price_id=price_1Mow&payment_status=3ds&due=2026-12-01"),
        (FORM, b"note=the+total%3A+500&due_date=2026-12-01&payment_intent=pi_3NxQ"),
        (JSON, b'{"payment": {"card": {"brand": "visa3"}}, "totals": {"items": [{"name": "Shirt 2"}]}}'),
        (TEXT, b"checksum=1ff9, consumer: 700, a summary: 900"),
    ],
)
def test_what_is_within_the_limit_or_no_price_at_all_is_asked_about(content_type: str, body: bytes) -> None:
    require_price(Amount(value=49.9, currency="EUR"), LIMIT, read(content_type, body).amounts, ())


def test_a_price_field_that_cannot_be_read_as_an_amount_is_reported_as_a_price() -> None:
    request = read(FORM, b"amount=1.00&amount=5e2")
    told = preview_request(request, Context()).estimated_effect
    assert "It names a price (amount cannot be read as an amount, amount = 1.00)" in told
    with pytest.raises(RefusedError) as refused:
        require_price(None, LIMIT, request.amounts, ())
    assert "something that cannot be read as an amount in the field `amount` of the request" in str(refused.value)


def test_a_request_that_costs_more_than_declared_is_found(subtests: pytest.Subtests) -> None:
    for fields, is_too_much in [
        ({"amount": "49.99"}, False),
        ({"total_price": "50.00"}, True),
        ({"order.totalAmount": "49.98"}, False),
        ({"amount_cents": "4999"}, False),
        ({"amount_cents": "5000"}, True),
        ({"amount": "4999"}, False),
        ({"amount": "4998"}, True),
        ({"amount": "10.00", "total": "1,000.00"}, True),
        ({"payment_method": "3", "price_id": "900", "quantity": "70"}, False),
    ]:
        with subtests.test(fields=fields, is_too_much=is_too_much):
            found = find_amounts(Field(*pair) for pair in fields.items())
            judged = judge_amounts(Amount(value=49.99, currency="EUR"), found)
            assert (judged.too_much is not None) is is_too_much


def test_a_price_in_another_currency_is_too_much() -> None:
    declared = Amount(value=49.99, currency="EUR")
    assert judge_amounts(declared, [FoundPrice("page", Decimal(1), "USD")]).too_much is not None
    assert judge_amounts(declared, [FoundPrice("page", Decimal(1), "EUR")]).too_much is None


def test_a_hostile_text_is_read_in_linear_time() -> None:
    for body in (b"amount" * 100_000, b"<amount " * 60_000, b"amount=" + b"[" * 300_000, b'{"total":' * 50_000):
        started = time.process_time()
        read(TEXT, body).amounts  # noqa: B018 - only its cost matters
        assert time.process_time() - started < 2
