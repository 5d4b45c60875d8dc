"""Money: what a request says it costs, against what the agent declared. Pure.

A page and a request are somebody else's. Whatever in them reads as a price above the declared one stops the purchase;
that none is found is said to the person who is asked, and stops nothing.
"""

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from remit.browser.fields import Field
from remit.contracts.browser import Amount

_PRICE_WORDS: Final = frozenset(
    {
        "amount",
        "total",
        "price",
        "sum",
        "cost",
        "subtotal",
        "grandtotal",
        "charge",
        "payment",
        "payable",
        "due",
        "betrag",
    }
)
_MINOR_WORDS: Final = frozenset({"cents", "cent", "minor", "pence", "minorunits"})
_NOT_MONEY: Final = frozenset(
    {"id", "method", "type", "status", "token", "currency", "count", "items", "quantity", "qty"}
)
_PLAIN: Final = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_GROUPED: Final = re.compile(r"\d{1,3}(?:([ ,.'\u00a0])\d{3})(?:\1\d{3})*(?:([.,])\d{1,2})?")
_COMMA: Final = re.compile(r"\d{1,15},\d{1,2}")
_AROUND: Final = re.compile(r"^[^\d-]{0,8}|[^\d]{0,8}$")


class Found(NamedTuple):
    """A price that was found: where, how much, in which currency if that was told, and whether cents are meant."""

    where: str
    value: Decimal
    currency: str | None = None
    minor: bool = False


class Judged(NamedTuple):
    """`too_much` is the first one above what was declared; `agreeing`, those that are not."""

    too_much: Found | None
    agreeing: tuple[Found, ...]


def amounts_in(fields: Iterable[Field]) -> tuple[Found, ...]:
    """Fields whose name says that they hold a price, and that hold a number."""
    found = []
    for field in fields:
        words = [word for word in re.split(r"[^a-z]+", _spelled(field.name)) if word]
        if not words or _PRICE_WORDS.isdisjoint(words) or words[-1] in _NOT_MONEY:
            continue
        value = parse_amount(field.value)
        if value is not None:
            found.append(Found(field.name, value, minor=not _MINOR_WORDS.isdisjoint(words)))
    return tuple(found)


def _spelled(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def parse_amount(text: str) -> Decimal | None:
    """A number as people write prices: `49.99`, `1,234.50`, `1.234,50`, `49,99`, with a sign of currency around it."""
    bare = _AROUND.sub("", text.strip())
    if _PLAIN.fullmatch(bare):
        return _decimal(bare)
    if found := _GROUPED.fullmatch(bare):
        thousands, point = found[1], found[2]
        bare = bare.replace(thousands, "") if thousands != point else bare
        return _decimal(bare.replace(point or "\0", "."))
    return _decimal(bare.replace(",", ".")) if _COMMA.fullmatch(bare) else None


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def first_above(limit: Amount, found: Iterable[Found]) -> Found | None:
    """The first price above a limit. Without a declared price to go by, a number counts as cents only if it says so."""
    most = Decimal(str(limit.value))
    for each in found:
        value = each.value / 100 if each.minor else each.value
        if value > most or each.currency not in {None, limit.currency}:
            return each
    return None


def judge_amounts(declared: Amount, found: Iterable[Found]) -> Judged:
    """In doubt it is too much: a bare whole number counts as cents only if that is exactly the declared price.

    One in another currency cannot be compared, and is too much as well.
    """
    limit = Decimal(str(declared.value))
    agreeing = []
    for each in found:
        if each.currency not in {None, declared.currency}:
            return Judged(each, ())
        value = each.value / 100 if each.minor else each.value
        if value > limit and each.value != limit * 100:
            return Judged(each, ())
        agreeing.append(each)
    return Judged(None, tuple(agreeing))
