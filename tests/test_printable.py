"""Nothing that somebody wrote does anything to a terminal, and two texts that differ look different."""

import pytest

from remit.printable import printable

UNSEEN = "\u115f\u1160\u2800\u3164\uffa0\ufe00\ufe0e\U000e0100\U000e01ef"


@pytest.mark.parametrize("character", [*UNSEEN, "\ufe0f", "\u200b", "\u202e", "\x1b", "\n", "\x9b", "\xad", "\ud800"])
def test_what_cannot_be_seen_is_spelled_out(character: str) -> None:
    shown = printable(f"a{character}b")
    assert shown.isascii()
    assert shown.startswith("a\\")
    assert shown.endswith("b")
    assert shown[1:-1].encode().decode("unicode_escape") == character


@pytest.mark.parametrize("text", ["", "plain", "caf\u00e9", "\u4e2d\u6587", "\u26a0\ufe0f careful", "\U0001f600"])
def test_what_can_be_seen_is_left(text: str) -> None:
    assert printable(text) == text


def test_an_emoji_hides_no_second_selector_and_a_letter_none_at_all() -> None:
    assert printable("\u26a0\ufe0f\ufe0f") == "\u26a0\ufe0f\\ufe0f"
    assert printable("\u4e2d\ufe0f") == "\u4e2d\\ufe0f"
