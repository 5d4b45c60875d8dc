"""Right-to-left words among left-to-right ones: each run set apart, so that neither moves the other about.

Only on a terminal. In a file, for another program and in JSON the text is as it is.
"""

import re
import sys
from typing import Final

from remit.core.text import END_OF_ISOLATE, ISOLATE, RIGHT_TO_LEFT, printable, speaks_unicode
from remit.core.text import isolated as isolated_name

_RUN: Final = re.compile(f"[{RIGHT_TO_LEFT}](?:[{RIGHT_TO_LEFT} ]*[{RIGHT_TO_LEFT}])?")


def display_text(text: str) -> str:
    """Somebody's words, made printable first: what they bring along to move text about is spelled out, not obeyed."""
    safe = printable(text)
    return isolated(safe) if not safe.isascii() and _is_for_eyes() else safe


def display_name(text: str) -> str:
    """A path, an id, a name of a table or a field, among other words. Not for a command that is to be copied."""
    safe = printable(text)
    return isolated_name(safe) if not safe.isascii() and _is_for_eyes() else safe


def isolated(text: str) -> str:
    return _RUN.sub(lambda run: f"{ISOLATE}{run[0]}{END_OF_ISOLATE}", text)


def _is_for_eyes() -> bool:
    return sys.stdout.isatty() and speaks_unicode()
