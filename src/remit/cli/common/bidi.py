"""Display of text that mixes right-to-left and left-to-right words.

On a terminal, each right-to-left run is isolated, so that neither direction moves the words of the other. In a file,
for another program and in JSON the text is unchanged.
"""

import re
import sys
from typing import Final

from remit.core.text import END_OF_ISOLATE, ISOLATE, RIGHT_TO_LEFT, printable, speaks_unicode
from remit.core.text import isolated as isolated_name

_RUN: Final = re.compile(f"[{RIGHT_TO_LEFT}](?:[{RIGHT_TO_LEFT} ]*[{RIGHT_TO_LEFT}])?")


def display_text(text: str) -> str:
    """Return text from a user or an agent, printable. Control characters that move text are spelled out."""
    safe = printable(text)
    return isolated(safe) if not safe.isascii() and _is_for_eyes() else safe


def display_name(text: str) -> str:
    """Return a path, an id, or the name of a table or field, to show among other words. Not for a command to copy."""
    safe = printable(text)
    return isolated_name(safe) if not safe.isascii() and _is_for_eyes() else safe


def isolated(text: str) -> str:
    return _RUN.sub(lambda run: f"{ISOLATE}{run[0]}{END_OF_ISOLATE}", text)


def _is_for_eyes() -> bool:
    return sys.stdout.isatty() and speaks_unicode()
