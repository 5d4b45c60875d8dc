"""Amounts of money in a text."""

from decimal import Decimal

import pytest

from remit.browser.chromium.amounts import MAX_AMOUNTS, find_amounts


def test_amounts_are_read_as_people_write_them(subtests: pytest.Subtests) -> None:
    for text, amounts in [
        ("Total: $1,234.56", [("1234.56", "USD")]),
        ("Summe 1.234,56 \u20ac", [("1234.56", "EUR")]),
        ("1 234,5\u00a0EUR", [("1234.5", "EUR")]),
        ("CHF 1'200.\u2013 oder CHF 12.50", [("1200", "CHF"), ("12.50", "CHF")]),
        ("\u00a512,000", [("12000", "JPY")]),
        ("USD 5", [("5", "USD")]),
        ("US$ 5.00 and CA$6", [("5.00", "USD"), ("6", "CAD")]),
        ("12 EURBuy", [("12", "EUR")]),
        ("1,234 GBP", [("1234", "GBP")]),
        ("call 555 1234, room 12, EUROPE 5", []),
        ("", []),
    ]:
        with subtests.test(text):
            found = find_amounts(text, in_form=True)
            assert [(amount.value, amount.currency) for amount in found] == [(Decimal(a), b) for a, b in amounts]


def test_a_hostile_text_is_read_in_linear_time_and_bounded() -> None:
    assert len(find_amounts("$1 " * 10_000, in_form=False)) == MAX_AMOUNTS
    assert find_amounts("1.1" * 60_000, in_form=False) == []
