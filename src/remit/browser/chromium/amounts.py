"""Amounts of money in what a page shows. Pure: text in, values out."""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from remit.browser.chromium.types import PageAmount
from remit.masking.regex_cache import vocabulary

MAX_AMOUNTS: Final = 200

_SYMBOLS: Final = {
    "US$": "USD", "CA$": "CAD", "AU$": "AUD", "NZ$": "NZD", "HK$": "HKD", "R$": "BRL", "$": "USD", "€": "EUR",
    "£": "GBP", "¥": "JPY", "₹": "INR", "₩": "KRW", "₽": "RUB", "₺": "TRY", "₴": "UAH", "₪": "ILS", "zł": "PLN",
    "Kč": "CZK", "Fr.": "CHF",
}  # fmt: skip
_CODES: Final = vocabulary(
    "AED AUD BGN BRL CAD CHF CLP CNY COP CZK DKK EUR GBP HKD HUF IDR ILS INR ISK JPY KRW KWD MXN MYR NOK NZD PHP PLN "
    "RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD VND ZAR"
)

MONEY: Final = "|".join(map(re.escape, [*sorted(_SYMBOLS, key=len, reverse=True), *sorted(_CODES)]))
"""A pattern that matches every currency sign that Remit knows."""
_GAP: Final = "[ \u00a0\u202f]"
_NUMBER: Final = rf"\d{{1,12}}(?:(?:[.,'\u2019]|{_GAP}(?=\d{{3}}(?!\d)))\d{{1,3}}){{0,5}}"
# The texts of two elements may have no space between them ("12 EURBuy"), so a word may follow directly.
_AMOUNT: Final = re.compile(
    rf"(?<![A-Z0-9$])(?P<before>{MONEY}){_GAP}?(?P<first>{_NUMBER})(?!\d)"
    rf"|(?<![\w.,])(?P<last>{_NUMBER}){_GAP}?(?P<after>{MONEY})"
)


def find_amounts(text: str, *, in_form: bool) -> list[PageAmount]:
    """Return the amounts in the order of the text. `$` alone is read as USD and `¥` as JPY."""
    found = []
    for match in _AMOUNT.finditer(text):
        written = match["first"] or match["last"]
        value = read_number(written)
        if value is not None:
            money = match["before"] or match["after"]
            found.append(PageAmount(value, currency_of(money), match[0], in_form))
        if len(found) == MAX_AMOUNTS:
            break
    return found


def currency_of(sign: str) -> str:
    return _SYMBOLS.get(sign, sign)


def read_number(written: str) -> Decimal | None:
    """Read both 1,234.56 and 1.234,56. The last separator is the decimal point if one or two digits follow it."""
    plain = re.sub(rf"{_GAP}|['\u2019]", "", written)
    separators = [character for character in plain if character in ".,"]
    whole, decimals = plain, ""
    if separators and len(plain) - 1 - plain.rindex(separators[-1]) in (1, 2):
        whole, _, decimals = plain.rpartition(separators[-1])
    digits = re.sub("[.,]", "", whole)
    try:
        return Decimal(f"{digits}.{decimals}" if decimals else digits)
    except InvalidOperation:
        return None
