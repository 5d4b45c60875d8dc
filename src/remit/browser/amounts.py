"""Prices: the amounts that a request names, compared with the amount that the agent declared. Pure.

A page and its requests are not trusted. Anything in them that reads as a price above the declared one stops the
purchase. A price that cannot be read stops it too, because the server may be able to read it. If no price is found, the
approver sees that, and nothing stops.

A request may name a price in its query, in its body, and in a text that contains another document.

The approver sees a body with its fields parted in the usual way, or as plain text. The server may read fields in that
text nevertheless, and of two fields with the same name it may take the first or the last. So all of them are compared.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Decimal
from html import unescape
from typing import Any, Final, NamedTuple

from remit.browser.chromium.amounts import MONEY, currency_of
from remit.browser.model.form_fields import JSON_BOUNDS, Field
from remit.contracts.browser.browser import Amount

_PRICES: Final = ("amount", "total", "price", "charge", "betrag", "cost")
"""Also as the beginning or the end of a word: `TOTALPRICE`, `shippingcost`."""
_SUM: Final = "sum"
_HINTS: Final = frozenset({"payment", "payable", "due"})
"""Such a field may hold something else, such as a card or a date. It is a price only if the value is a number, or if
one of these words ends the name.
"""
_MINOR_WORDS: Final = frozenset({"cent", "minor", "pence", "minorunit"})
_NOT_MONEY: Final = frozenset(
    {"id", "method", "type", "status", "token", "currency", "count", "item", "quantity", "qty", "page", "date"}
)
_LONGEST_NUMBER: Final = 400
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_GROUPED: Final = re.compile(r"[1-9]\d{0,2}(?:([ ,.'\u00a0])\d{3})(?:\1\d{3})*(?:([.,])\d{1,2})?", re.ASCII)
_COMMA: Final = re.compile(r"\d+,\d{1,2}", re.ASCII)
_GAP: Final = r"[\s\u00a0\u202f]*"
_SIGN: Final = re.compile(rf"\+?(?P<before>{MONEY})?{_GAP}(?P<number>\d(?:.*\d)?){_GAP}(?P<after>{MONEY})?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].{1,20})?", re.ASCII)


class FoundPrice(NamedTuple):
    """A price that was found: its place, its value, its currency if that is known, and whether it is in cents.

    Without a value, the price is there but cannot be read.
    """

    where: str
    value: Decimal | None
    currency: str | None = None
    minor: bool = False

    def is_above(self, limit: Amount) -> bool:
        """Whether the price is above the limit. True if it cannot be compared: unreadable, or in another currency."""
        if self.value is None or self.currency not in {None, limit.currency}:
            return True
        return (self.value / 100 if self.minor else self.value) > Decimal(str(limit.value))


class PriceJudgement(NamedTuple):
    """The comparison with the declared amount. `too_much` is the first price above it, `agreeing` are the others."""

    too_much: FoundPrice | None
    agreeing: tuple[FoundPrice, ...]


def find_amounts(fields: Iterable[Field]) -> tuple[FoundPrice, ...]:
    """Return the prices: fields whose name says that they hold a price, and that hold a number in any notation."""
    found = []
    for field in fields:
        words = _split_words(field.name)
        is_price, is_hint = any(map(_is_price, words)), not _HINTS.isdisjoint(words)
        if not (is_price or is_hint) or words[-1] in _NOT_MONEY or not any(map(str.isnumeric, field.value)):
            continue
        value, currency = parse_amount(field.value) or (None, None)
        if value is None and not _is_near(field, words):
            continue
        found.append(FoundPrice(field.name, value, currency, minor=not _MINOR_WORDS.isdisjoint(words)))
    return tuple(found)


def _is_near(field: Field, words: list[str]) -> bool:
    """Whether a value that is not a number must be a price. In `totals.items[0].name`, `totals` does not make a price
    of `name`.
    """
    if words[-1] in _HINTS:
        return _DATE.fullmatch(field.value.strip()) is None
    members = [member for member in re.split(r"[.\[\]]+", field.name) if _split_words(member)]
    return any(map(_is_price, _split_words("_".join(members[-2:]))))


def _is_price(word: str) -> bool:
    return word == _SUM or word.startswith(_PRICES) or word.endswith(_PRICES)


def _split_words(name: str) -> list[str]:
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", unicodedata.normalize("NFKC", name)).casefold()
    return [re.sub(r"(?<![su])s$", "", word) for word in re.split(r"[^a-z]+", spelled) if word]


def parse_amount(text: str) -> tuple[Decimal, str | None] | None:
    """Parse a number as people write prices: `49.99`, `1,234.50`, `1.234,50`, `49,99`. Return it with its currency, if
    there is one.

    Where people read a number in two ways, such as `1.000`, it is the greater number.
    """
    parted = _SIGN.fullmatch(text.strip()[:_LONGEST_NUMBER])
    if parted is None or (parted["before"] and parted["after"]) or len(text.strip()) > _LONGEST_NUMBER:
        return None
    bare, sign = parted["number"], parted["before"] or parted["after"]
    if grouped := _GROUPED.fullmatch(bare):
        thousands, point = grouped[1], grouped[2]
        if thousands == point:
            return None
        bare = bare.replace(thousands, "").replace(point or "\0", ".")
    elif _COMMA.fullmatch(bare):
        bare = bare.replace(",", ".")
    elif not _PLAIN.fullmatch(bare):
        return None
    return Decimal(bare), currency_of(sign) if sign else None


def find_above(limit: Amount, found: Iterable[FoundPrice]) -> FoundPrice | None:
    """Return the first price above a limit. No price was declared, so a number is in cents only if its name says so."""
    return next((each for each in found if each.is_above(limit)), None)


def judge_amounts(declared: Amount, found: Iterable[FoundPrice]) -> PriceJudgement:
    """Compare prices with the declared amount. A whole number is read as cents only if that is exactly the amount."""
    agreeing = []
    for each in found:
        in_cents = each.currency in {None, declared.currency} and each.value == Decimal(str(declared.value)) * 100
        if each.is_above(declared) and not in_cents:
            return PriceJudgement(each, ())
        agreeing.append(each)
    return PriceJudgement(None, tuple(agreeing))


_NAME: Final = r"(?P<name>(?:amount|total|price|charge|betrag|cost|(?<![a-z])sum)[\w.:\[\]-]{0,40})"
_VALUE: Final = r"[\s\"'\\\[{(]{0,20}(?P<value>(?:[^\"'\\<>&\s,;}\]]|[ ,](?=\d|[A-Z]{3})){1,100})"
_PAIR: Final = re.compile(rf"{_NAME}[\"'\\]{{0,4}}\s{{0,20}}[=:]{_VALUE}", re.IGNORECASE)
_ELEMENT: Final = re.compile(rf"<[\w:.-]{{0,40}}{_NAME}(?:\s[^<>]{{0,500}})?>{_VALUE}", re.IGNORECASE)
_STRUCTURED: Final = ("{", "[", "<", "\ufeff")
_MOST: Final = 2_000


def priced_fields(fields: Iterable[Field]) -> Iterator[Field]:
    """The fields, and the fields inside of a text or of a field that is a document itself."""
    for field in fields:
        yield field
        if field.is_ours or field.value.lstrip().startswith(_STRUCTURED):
            yield from _inner(field.value)


def _inner(text: str) -> Iterator[Field]:
    leaves = _json(text)
    if leaves is not None:
        yield from leaves
        return
    plain = unescape(text.replace("<![CDATA[", "")) if "<" in text else text
    count = 0
    for pattern in (_PAIR, _ELEMENT):
        for found in pattern.finditer(plain):
            count += 1
            if count > _MOST:  # a page must not keep Remit busy, so this is reported as an unreadable price
                yield Field("total", f"more than {_MOST} in one text")
                return
            yield Field(found["name"], found["value"])


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object, with repeated names."""


def _json(text: str) -> list[Field] | None:
    """The fields of a JSON text, with each number as it is written. None if it is not JSON, or too long."""
    if len(text) > JSON_BOUNDS.max_bytes:
        return None
    try:
        tree = json.loads(text.lstrip("\ufeff"), object_pairs_hook=_Members, parse_int=str, parse_float=str)
        return list(_leaves(tree, ""))
    except (ValueError, RecursionError):
        return None


def _leaves(tree: Any, path: str) -> Iterator[Field]:
    if isinstance(tree, _Members):
        for name, child in tree:
            yield from _leaves(child, f"{path}.{name}")
    elif isinstance(tree, list):
        for child in tree:
            yield from _leaves(child, f"{path}[]")
    else:
        yield Field(path.removeprefix("."), str(tree))
