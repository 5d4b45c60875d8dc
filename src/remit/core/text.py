"""Untrusted text made safe to print on one line: no control character, no terminal escape, no fake line.

Two texts that differ look different: a character that cannot be seen is spelled out. A name in letters that run from
right to left moves nothing beside it.

Also small functions for texts that people read: counts with their noun, and cut text.
"""

import codecs
import re
import sys
from typing import Final


def speaks_unicode() -> bool:
    """Return whether standard output accepts any character."""
    return (sys.stdout.encoding or "").lower().startswith("utf")


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun, such as `1 entry` or `2,000 entries`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def render_size(size: int) -> str:
    """Return a number of bytes, such as `1 byte` or `1.2 KB`."""
    if size < 1_000:
        return counted(size, "byte")
    for unit in ("KB", "MB"):
        size_in_unit = size / {"KB": 1_000, "MB": 1_000_000}[unit]
        if size_in_unit < 1_000:
            return f"{size_in_unit:.1f} {unit}"
    return f"{size / 1e9:.1f} GB"


def shortened(text: str, most: int) -> str:
    mark = "…" if speaks_unicode() else "..."
    return text if len(text) <= most else text[: most - len(mark)] + mark


# Looked up when this module is loaded: a sandboxed process can load nothing later.
_escape: Final = codecs.lookup("unicode_escape").encode

UNICODE: Final = "16.0.0"
"""The version of Unicode that the two lists below are taken from."""

# Default_Ignorable_Code_Point, from https://www.unicode.org/Public/16.0.0/ucd/DerivedCoreProperties.txt. A renderer
# that has no glyph for one of these shows nothing. Code points without an assigned character are included.
DEFAULT_IGNORABLE: Final = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x115F, 0x1160),  # Hangul fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors and vowel separator
    (0x200B, 0x200F),  # zero width space, joiners, direction marks
    (0x202A, 0x202E),  # direction embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, direction isolates
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors
    (0xFEFF, 0xFEFF),  # zero width no-break space
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF0, 0xFFF8),  # not assigned
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical format controls
    (0xE0000, 0xE0FFF),  # tags, and more variation selectors
)
# Not in that property, but also invisible: letters and signs that are drawn as an empty space.
BLANK: Final = (
    (0x2800, 0x2800),  # Braille pattern blank
    (0x13441, 0x13442),  # Egyptian hieroglyph blanks
    (0x16FE4, 0x16FE4),  # Khitan small script filler
    (0x1D159, 0x1D159),  # musical symbol null notehead
)
_UNSEEN: Final = re.compile(
    "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in (*DEFAULT_IGNORABLE, *BLANK)) + "]"
)

RIGHT_TO_LEFT: Final = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
"""Hebrew, Arabic, Syriac, Thaana, N'Ko and their neighbours; presentation forms; the scripts of the upper plane."""
_RIGHT_TO_LEFT: Final = re.compile(f"[{RIGHT_TO_LEFT}]")
ISOLATE, END_OF_ISOLATE = "\u2068", "\u2069"
RIGHT_TO_LEFT_ISOLATE: Final = "\u2067"


def printable(text: str) -> str:
    r"""Return the text with each invisible character spelled out, such as `\x1b` or `\u202e`."""
    if text.isprintable() and (text.isascii() or not _UNSEEN.search(text)):
        return text
    seen = _UNSEEN.sub(lambda found: _spelled_out(found[0]), text)
    return "".join(c if c.isprintable() else _spelled_out(c) for c in seen)


def isolated(shown: str) -> str:
    """Put printable text between marks of direction if a letter of it runs from right to left.

    The marks have no width and are in no other text. So a line without such letters can be copied unchanged.
    """
    is_mixed = not shown.isascii() and _RIGHT_TO_LEFT.search(shown) is not None
    return f"{ISOLATE}{shown}{END_OF_ISOLATE}" if is_mixed else shown


def spelled_name(text: str) -> str:
    """Return a name for a sentence that is stored.

    Letters that run from right to left are spelled out, since marks would be.
    """
    return _RIGHT_TO_LEFT.sub(lambda found: _spelled_out(found[0]), printable(text))


def _spelled_out(character: str) -> str:
    return _escape(character)[0].decode("ascii")
