"""Display of text that mixes right-to-left and left-to-right words.

On a terminal, each right-to-left run is isolated, so that neither direction moves the words of the other. In a sentence
that itself runs from right to left, each left-to-right run is. In a file, for another program and in JSON the text is
unchanged.
"""

import re
import sys
from typing import Final

from remit.core.text import (
    END_OF_ISOLATE,
    ISOLATE,
    RIGHT_TO_LEFT,
    RIGHT_TO_LEFT_ISOLATE,
    printable,
    speaks_unicode,
)
from remit.core.text import isolated as isolated_name

_RUN: Final = re.compile(f"[{RIGHT_TO_LEFT}](?:[{RIGHT_TO_LEFT} ]*[{RIGHT_TO_LEFT}])?")
# Words, ids and numbers that run from left to right. Brackets and quotation marks stay outside, with their partners.
_OTHER_RUN: Final = re.compile(rf"[^\W{RIGHT_TO_LEFT}](?:[^()“”«»{RIGHT_TO_LEFT}]*[^\W{RIGHT_TO_LEFT}])?")


def display_text(text: str) -> str:
    """Return text from a user or an agent, printable. Control characters that move text are spelled out."""
    safe = printable(text)
    return isolated(safe) if not safe.isascii() and _is_for_eyes() else safe


def display_sentence(text: str, *, right_to_left: bool) -> str:
    """Return a sentence of Remit itself, in the user's language. Its values are isolated in both directions."""
    if not right_to_left or not _is_for_eyes():
        return display_text(text)
    inner = _OTHER_RUN.sub(lambda run: f"{ISOLATE}{run[0]}{END_OF_ISOLATE}", printable(text))
    return f"{RIGHT_TO_LEFT_ISOLATE}{inner}{END_OF_ISOLATE}"


def display_name(text: str) -> str:
    """Return a path, an id, or the name of a table or field, to show among other words. Not for a command to copy."""
    safe = printable(text)
    return isolated_name(safe) if not safe.isascii() and _is_for_eyes() else safe


def isolated(text: str) -> str:
    return _RUN.sub(lambda run: f"{ISOLATE}{run[0]}{END_OF_ISOLATE}", text)


def _is_for_eyes() -> bool:
    return sys.stdout.isatty() and speaks_unicode()
