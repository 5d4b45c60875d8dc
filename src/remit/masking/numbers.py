"""Card numbers and social security numbers in free text.

A card number has 13 to 19 digits that pass the Luhn check and start as those of issued cards do, in one piece or in
groups with one kind of separator. Beside the name `card`, `cc` or `pan`, the check is not needed, since a card number
with one wrong digit is still sensitive. Limit: one number in ten passes Luhn by chance, so a long decimal id may be
masked as a card. Digests, UUIDs, decimal fractions, epoch times and dates are not.
"""

import re
import unicodedata
from itertools import accumulate

from remit.masking.masks import card_mask, ssn_mask
from remit.masking.regex_cache import pattern

_SHORTEST, _LONGEST = 13, 19
_UATP = 15  # the only cards that start with 1; epoch times in milli-, micro- and nanoseconds have 13, 16 or 19 digits

_HEX = "[0-9A-Fa-f]"
_ESCAPES = (("%", 2), (r"\\x", 2), (r"\\u", 4))  # %22, \x1b, \u0022: their digits do not belong to the number
# The first digit of a number. A pattern that starts with a digit is many times faster than one that starts with a
# lookbehind, so the digit is matched first and the lookbehind follows it.
_IS_FIRST = (
    r"(?<!\*\*-\d)"  # the visible end of a number that is masked already
    + "".join(rf"(?<!{mark}{_HEX}{{{n}}}\d)" for mark, size in _ESCAPES for n in range(size))
    + r"(?:(?<!\d\d)"
    + "".join(rf"|(?<={mark}{_HEX}{{{size}}}\d)" for mark, size in _ESCAPES)
    + ")"
)
_DASH = r"[-\u2010-\u2015\u2212]"
_SPACE = r"[ \t\u00a0\u2007-\u200a\u202f]"
_SEPARATOR = (
    rf"(?:{_SPACE}?{_DASH}{_SPACE}?|{_SPACE}{{1,2}}|[_+.]|"
    rf"%20|%2[Dd]|%C2%A0|%E2%80%{_HEX}{{2}}|\\{{1,4}}(?:t|xa0|u00a0|u20{_HEX}{{2}}))"
)
_RUN = rf"\d{_IS_FIRST}\d*+(?>(?:{_SEPARATOR}\d++)*)"
_GROUP = rf"(\d+)({_SEPARATOR})?"
_UUID = r"((?<![0-9A-Fa-f])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Fa-f]))"
_HEX_DIGITS = "0123456789abcdefABCDEF"
_HEX_REACH = 64
_SPAN_ID, _OBJECT_ID = 16, 20  # hexadecimal ids of 16 characters, and digests and ids of 20 and more

# The sizes of the groups of digits on printed cards.
_LAYOUTS = frozenset({
    (4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 5), (4, 8, 4), (4, 4, 8),
    *((4, 4, 4, 4, n) for n in (1, 2, 3)), *((4, 4, 4, n) for n in (1, 2, 3)),
    *((n,) for n in range(_SHORTEST, _LONGEST + 1)),
})  # fmt: skip
_USUAL_GROUP = 4
_LAYOUT_LENGTHS = (3, 4, 5)
_DOTTED_LAYOUT = (4, 4, 4, 4)  # any other dotted number is more likely a decimal fraction or a version
_SMALLEST_GROUP = 3

_NAMED_CARD = r"(?i)((?<![a-z0-9])(?:card|cc|pan)[\"']?[ \t]?[:=][ \t]?[\"']?)([0-9](?:[ -]?[0-9]){11,18})(?![ -]?\d)"

_LUHN_DOUBLED = str.maketrans("0123456789", "0246813579")

_SSN = rf"(\d(?=\d\d{_DASH}){_IS_FIRST}\d\d){_DASH}(\d\d){_DASH}(\d{{4}})(?!\d)"
_FIRST_UNUSED_AREA = 900


_Group = tuple[str, str]  # digits, and the separator after them


def passes_luhn(digits: str) -> bool:
    weighed = digits[-1::-2] + digits[-2::-2].translate(_LUHN_DOUBLED)
    return (sum(weighed.encode()) - ord("0") * len(weighed)) % 10 == 0


def is_card(digits: str) -> bool:
    """Return whether these ASCII digits could be the number of an issued card."""
    if not _SHORTEST <= len(digits) <= _LONGEST or digits.startswith(("0", "20")):
        return False  # dates start with 20, issued cards do not
    return (digits[0] != "1" or len(digits) == _UATP) and passes_luhn(digits)


def _ascii_digits(run: str) -> str:
    return run if run.isascii() else "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in run)


def _inside_hex(text: str, start: int, end: int) -> bool:
    """Return whether these digits are a part of a digest or hexadecimal id."""
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


def _joined(groups: list[_Group]) -> str:
    return "".join([digits for digits, _ in groups])


def _uniform(groups: list[_Group]) -> bool:
    return len({separator for _, separator in groups[:-1]}) <= 1


def _printed_as_card(groups: list[_Group], *, fraction: bool) -> bool:
    if len(groups) == 1:
        return not fraction and is_card(groups[0][0])
    if groups[0][1] == "." and tuple(len(digits) for digits, _ in groups) != _DOTTED_LAYOUT:
        return False
    return is_card(_joined(groups)) and _uniform(groups)


def _grouped_oddly(groups: list[_Group]) -> bool:
    """Return whether all groups together are one card in unusual groups.

    Lists of small numbers and decimal fractions are not.
    """
    sizes = [len(digits) for digits, _ in groups]
    if len(groups) == 1 or sum(sizes) > _LONGEST or sizes[0] <= _SMALLEST_GROUP or min(sizes[:-1]) < _SMALLEST_GROUP:
        return False
    return groups[0][1] != "." and _uniform(groups) and is_card(_joined(groups))


def _card_spans(groups: list[_Group], *, fraction: bool) -> list[tuple[int, int]]:
    """Return the index ranges of the groups that are cards.

    Usual layouts are searched first, and overlapping ones are joined. Then the rest is searched.
    """
    sizes = tuple([len(digits) for digits, _ in groups])
    spans: list[tuple[int, int]] = []
    for first, size in enumerate(sizes):
        for length in _LAYOUT_LENGTHS if size == _USUAL_GROUP else (1,):
            last = first + length
            if last > len(sizes) or sizes[first:last] not in _LAYOUTS:
                continue
            follows_dot = groups[first - 1][1] == "." if first else fraction
            if not _printed_as_card(groups[first:last], fraction=follows_dot):
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
        start = run.start()
        if run.end() - start < _SHORTEST:
            continue
        groups: list[_Group] = pattern(_GROUP).findall(_ascii_digits(run[0]))
        fraction = start > 1 and text[start - 1] == "." and text[start - 2].isdecimal()
        spans = _card_spans(groups, fraction=fraction)
        offsets = (
            list(accumulate((len(digits) + len(after) for digits, after in groups), initial=start)) if spans else []
        )
        for first, last in spans:
            begin, end = offsets[first], offsets[last] - len(groups[last - 1][1])
            if last - first > 1 or not _inside_hex(text, begin, end):
                out += [text[done:begin], card_mask(_joined(groups[first:last]))]
                done = end
    return "".join(out) + text[done:]


def mask_cards(text: str) -> str:
    if "=" in text or ":" in text:
        text = pattern(_NAMED_CARD).sub(lambda found: found[1] + card_mask(found[2]), text)
    parts = pattern(_UUID).split(text)
    parts[::2] = map(_mask_cards_between_uuids, parts[::2])
    return "".join(parts)


def _ssn(found: re.Match[str]) -> str:
    area, group, serial = (_ascii_digits(part) for part in found.groups())
    unused = area in {"000", "666"} or int(area) >= _FIRST_UNUSED_AREA or group == "00" or serial == "0000"
    return found[0] if unused else ssn_mask(serial)


def mask_ssns(text: str) -> str:
    return pattern(_SSN).sub(_ssn, text)
