"""Untrusted text has no effect on a terminal, and two texts that differ look different."""

import sys
import unicodedata

import pytest

from remit.core.text import BLANK, DEFAULT_IGNORABLE, UNICODE, isolated, printable, spelled_name

pytestmark = pytest.mark.req("PV-10")

UNSEEN = "\u034f\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\U0001d159"
UNSEEN += "\u115f\u1160\u2800\u3164\uffa0\ufe00\ufe0e\U000e0100\U000e01ef"
# Named in reports of attacks, each with the range of the property that it is in.
KNOWN = (
    0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010),
    *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0,
    *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000),
)  # fmt: skip
# Format characters with a glyph of their own (prepended number signs, ligature and hieroglyph controls), which the
# property leaves out: https://www.unicode.org/Public/16.0.0/ucd/PropList.txt, Prepended_Concatenation_Mark.
SEEN_FORMATS = {*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD}
SEEN_FORMATS |= {*range(0xFFF9, 0xFFFC), *range(0x13430, 0x13440)}


def ignorable() -> set[int]:
    return {point for first, last in DEFAULT_IGNORABLE for point in range(first, last + 1)}


def test_the_list_of_ignorable_characters_is_the_property_of_the_stated_version() -> None:
    assert UNICODE == "16.0.0"
    assert ignorable() == set(KNOWN)
    assert len(ignorable()) == 4_174, "as DerivedCoreProperties.txt counts them"
    formats = {point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) == "Cf"}
    assert formats - ignorable() == {point for point in SEEN_FORMATS if unicodedata.category(chr(point)) == "Cf"}


def test_every_character_without_a_glyph_is_spelled_out_wherever_it_is() -> None:
    """Also noncharacters, surrogates, private and unassigned characters, whatever their category."""
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
    unseen = ignorable() | {point for first, last in BLANK for point in range(first, last + 1)}
    listed = [point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) in hidden - {"Co", "Cn"}]
    some = range(0, sys.maxunicode, 997)  # a sample of the many that are private or unassigned
    loose = [point for point in some if unicodedata.category(chr(point)) in hidden]
    ends = [plane + last for plane in range(0xFFFE, sys.maxunicode, 0x10000) for last in (0, 1)]
    for point in {*unseen, *listed, *loose, *ends, *range(0xFDD0, 0xFDF0)} - {0x20}:
        for before in ("a", "\u26a0", "\u4e2d"):
            shown = printable(f"{before}{chr(point)}b")
            assert shown[0] == before, hex(point)
            assert shown[1:].isascii(), hex(point)
            assert shown[1:-1].encode().decode("unicode_escape", "surrogatepass") == chr(point), hex(point)


def test_invisible_characters_are_spelled_out(subtests: pytest.Subtests) -> None:
    for character in [*UNSEEN, "\ufe0f", "\u200b", "\u202e", "\x1b", "\n", "\x9b", "\xad", "\ud800"]:
        with subtests.test(ascii(character)):
            shown = printable(f"a{character}b")
            assert shown.isascii()
            assert shown.startswith("a\\")
            assert shown.endswith("b")
            assert shown[1:-1].encode().decode("unicode_escape") == character


@pytest.mark.parametrize("text", ["", "plain", "caf\u00e9", "\u4e2d\u6587", "\u26a0 careful", "\U0001f600", "e\u0301"])
def test_visible_characters_are_unchanged(text: str) -> None:
    assert printable(text) == text


def test_a_name_that_runs_from_right_to_left_moves_nothing_beside_it() -> None:
    hebrew = "\u05d0\u05d1/10"
    assert isolated(hebrew) == f"\u2068{hebrew}\u2069"
    for plain in ("docs/a.txt", "caf\u00e9/\u4e2d.txt", ""):
        assert isolated(plain) == plain, "nothing is added to text that can be copied"
    assert spelled_name(hebrew) == "\\u05d0\\u05d1/10"
    assert printable(isolated(hebrew)) == f"\\u2068{hebrew}\\u2069", "marks in the input are spelled out"


def test_every_letter_that_runs_from_right_to_left_is_noticed() -> None:
    strong = [
        chr(point) for point in range(sys.maxunicode + 1) if unicodedata.bidirectional(chr(point)) in {"R", "AL", "AN"}
    ]
    unnoticed = [hex(ord(c)) for c in strong if c.isprintable() and printable(c) == c and isolated(c) == c]
    assert unnoticed == []
