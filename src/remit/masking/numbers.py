"""Card numbers and social security numbers in free text.

A card is 13 to 19 digits that pass the Luhn check and start as an issued card can start, in one piece or in groups set
apart by one kind of separator. Limit: one number in ten passes Luhn by chance, so a long decimal id may be taken for a
card; digests, UUIDs, decimal fractions, epoch times and dates are not.
"""

import re
import unicodedata
from typing import NamedTuple

from remit.masking.patterns import pattern
from remit.masking.table import card_mask, ssn_mask

_SHORTEST, _LONGEST = 13, 19
_UATP = 15  # the only cards that start with 1; epoch times in milli-, micro- and nanoseconds have 13, 16 or 19 digits

_ESCAPED = r"%[0-9A-Fa-f]{2}|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"  # its digits are not the number's
_DASH = r"[-\u2010-\u2015\u2212]"
_SPACE = r"[ \t\u00a0\u2007-\u200a\u202f]"
_SEPARATOR = rf"(?:{_SPACE}?{_DASH}{_SPACE}?|{_SPACE}{{1,2}}|[_+.]|%20|%2[Dd]|\\t|\\xa0|\\u20[0-9a-f]{{2}})"
# A group after `**-` is the shown end of a number that is masked already.
_RUN = rf"(?:{_ESCAPED}|(?<!\d)(?<!\*\*-))(\d++(?:{_SEPARATOR}\d++)*+)"
_GROUP = rf"(\d+)({_SEPARATOR})?"
_UUID = r"((?<![0-9A-Fa-f])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Fa-f]))"
_HEX_DIGITS = "0123456789abcdefABCDEF"
_HEX_REACH = 64
_SPAN_ID, _OBJECT_ID = 16, 20  # hexadecimal ids of 16 characters, and digests and ids of 20 and more

# How cards are printed, as sizes of groups.
_LAYOUTS = frozenset({(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 5), *((4, 4, 4, 4, n) for n in (1, 2, 3)),
                      *((4, 4, 4, n) for n in (1, 2, 3)), *((n,) for n in range(_SHORTEST, _LONGEST + 1))})  # fmt: skip
_LAYOUT_LENGTHS = (1, 3, 4, 5)
_DOTTED_LAYOUT = (4, 4, 4, 4)  # any other dotted number is more likely a decimal fraction or a version
_SMALLEST_GROUP = 3

_LUHN_DOUBLED = str.maketrans("0123456789", "0246813579")

_SSN = rf"({_ESCAPED}|(?<!\d))(\d{{3}}){_DASH}(\d{{2}}){_DASH}(\d{{4}})(?!\d)"
_FIRST_UNUSED_AREA = 900


class _Group(NamedTuple):
    start: int
    end: int
    digits: str
    separator: str  # after it


def passes_luhn(digits: str) -> bool:
    weighed = digits[-1::-2] + digits[-2::-2].translate(_LUHN_DOUBLED)
    return (sum(weighed.encode()) - ord("0") * len(weighed)) % 10 == 0


def is_card(digits: str) -> bool:
    """ASCII digits that could be an issued card's number."""
    if not _SHORTEST <= len(digits) <= _LONGEST or digits.startswith(("0", "20")):
        return False  # dates start with 20, issued cards do not
    return (digits[0] != "1" or len(digits) == _UATP) and passes_luhn(digits)


def _ascii_digits(digits: str) -> str:
    return digits if digits.isascii() else "".join(str(unicodedata.decimal(c)) for c in digits)


def _inside_hex(text: str, start: int, end: int) -> bool:
    """Whether these digits are a part of a digest or hexadecimal id."""
    before = text[max(0, start - _HEX_REACH) : start]
    after = text[end : end + _HEX_REACH]
    before = before[len(before.rstrip(_HEX_DIGITS)) :]
    after = after[: len(after) - len(after.lstrip(_HEX_DIGITS))]
    neighbours = text[start - len(before) - 1 : start - len(before)] + text[end + len(after) : end + len(after) + 1]
    around = before + after
    size = len(around) + end - start
    if not around.strip("0123456789") or any(c.isascii() and c.isalpha() for c in neighbours):
        return False
    return size == _SPAN_ID or size >= _OBJECT_ID


def _is_fraction(text: str, start: int) -> bool:
    return start > 1 and text[start - 1] == "." and text[start - 2].isdecimal()


def _joined(groups: list[_Group]) -> str:
    return "".join(group.digits for group in groups)


def _uniform(groups: list[_Group]) -> bool:
    return len({group.separator for group in groups[:-1]}) <= 1


def _printed_as_card(text: str, groups: list[_Group], layout: tuple[int, ...]) -> bool:
    if len(layout) == 1 and _is_fraction(text, groups[0].start):
        return False
    if len(layout) > 1 and groups[0].separator == "." and layout != _DOTTED_LAYOUT:
        return False
    return _uniform(groups) and is_card(_joined(groups))


def _grouped_oddly(groups: list[_Group]) -> bool:
    """The whole stretch is one card in unusual groups. Lists of small numbers and decimal fractions are not."""
    sizes = [len(group.digits) for group in groups]
    if len(groups) == 1 or sum(sizes) > _LONGEST or sizes[0] <= _SMALLEST_GROUP or min(sizes[:-1]) < _SMALLEST_GROUP:
        return False
    return groups[0].separator != "." and _uniform(groups) and is_card(_joined(groups))


def _card_spans(text: str, groups: list[_Group]) -> list[tuple[int, int]]:
    """Index ranges of the groups that are cards: usual layouts first (overlapping ones as one), then what is left."""
    sizes = tuple(len(group.digits) for group in groups)
    spans: list[tuple[int, int]] = []
    for first in range(len(groups)):
        for length in _LAYOUT_LENGTHS:
            layout = sizes[first : first + length]
            last = first + len(layout)
            if layout not in _LAYOUTS or not _printed_as_card(text, groups[first:last], layout):
                continue
            if spans and spans[-1][1] > first:
                spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
            else:
                spans.append((first, last))
    edges = [0, *(edge for span in spans for edge in span), len(groups)]
    rests = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b and _grouped_oddly(groups[a:b])]
    return sorted(spans + rests)


def _mask_cards_between_uuids(text: str) -> str:
    out, done = [], 0
    for run in pattern(_RUN).finditer(text):
        start, end = run.span(1)
        if end - start < _SHORTEST:
            continue
        found = pattern(_GROUP).finditer(text, start, end)
        groups = [_Group(m.start(1), m.end(1), _ascii_digits(m[1]), m[2] or "") for m in found]
        for first, last in _card_spans(text, groups):
            start, end = groups[first].start, groups[last - 1].end
            if not _inside_hex(text, start, end):
                out += [text[done:start], card_mask(_joined(groups[first:last]))]
                done = end
    return "".join(out) + text[done:]


def mask_cards(text: str) -> str:
    parts = pattern(_UUID).split(text)
    parts[::2] = map(_mask_cards_between_uuids, parts[::2])
    return "".join(parts)


def _ssn(found: re.Match[str]) -> str:
    area, group, serial = (_ascii_digits(part) for part in found.group(2, 3, 4))
    unused = area in {"000", "666"} or int(area) >= _FIRST_UNUSED_AREA or group == "00" or serial == "0000"
    return found[0] if unused else found[1] + ssn_mask(serial)


def mask_ssns(text: str) -> str:
    return pattern(_SSN).sub(_ssn, text)
