"""Money: what a request says it costs, against what the agent declared. Pure.

A page and a request are somebody else's. Whatever in them reads as a price above the declared one stops the purchase,
and so does a price that cannot be read: its server may read it. That none is found is said to the person who is asked,
and stops nothing.

Where a request may name a price: its query, its body, and a text in it that is not plainly parted. Pure.

People are shown a body as everybody reads it, or as the text that it is. Its server may read that text all the same,
and of two equal names the first or the last: so here all of them count.
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
"""Also where a word begins or ends so: `TOTALPRICE`, `shippingcost`."""
_SUM: Final = "sum"
_HINTS: Final = frozenset({"payment", "payable", "due"})
"""These may hold much else, such as a card or a date: a price only if it is a number, or if they end the name."""
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
    """A price that was found: where, how much, in which currency if that was told, and whether cents are meant.

    Without a value it is there, and cannot be read.
    """

    where: str
    value: Decimal | None
    currency: str | None = None
    minor: bool = False

    def is_above(self, limit: Amount) -> bool:
        """In doubt it is: what cannot be read, or is in another currency, cannot be compared."""
        if self.value is None or self.currency not in {None, limit.currency}:
            return True
        return (self.value / 100 if self.minor else self.value) > Decimal(str(limit.value))


class PriceJudgement(NamedTuple):
    """`too_much` is the first one above what was declared; `agreeing`, those that are not."""

    too_much: FoundPrice | None
    agreeing: tuple[FoundPrice, ...]


def find_amounts(fields: Iterable[Field]) -> tuple[FoundPrice, ...]:
    """Fields whose name says that they hold a price, and that hold a number, in whatever way it is written."""
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
    """Whether what is no number must be a price: in `totals.items[0].name` the first word says nothing of the last."""
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
    """A number as people write prices: `49.99`, `1,234.50`, `1.234,50`, `49,99`; with its currency, if that is there.

    Where people read it differently, such as `1.000`, it is the greater number.
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
    """The first price above a limit. Without a declared price to go by, a number counts as cents only if it says so."""
    return next((each for each in found if each.is_above(limit)), None)


def judge_amounts(declared: Amount, found: Iterable[FoundPrice]) -> PriceJudgement:
    """In doubt it is too much: a bare whole number counts as cents only if that is exactly the declared price."""
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
    """The fields, and those inside of a text or a field that is a document itself."""
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
            if count > _MOST:  # nobody reads so many, and a page must not keep us busy: a price that cannot be read
                yield Field("total", f"more than {_MOST} in one text")
                return
            yield Field(found["name"], found["value"])


class _Members(list[tuple[str, Any]]):
    """Of an object, repeated names too."""


def _json(text: str) -> list[Field] | None:
    """With each number as it is written. None: it is not JSON, or too much of it."""
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
