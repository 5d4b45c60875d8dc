"""Right-to-left words among left-to-right ones: each run set apart, so that neither moves the other about.

Only on a terminal. In a file, for another program and in JSON the text is as it is.
"""

import re
import sys
from typing import Final

from remit.desk.words import speaks_unicode
from remit.printable import printable

_ISOLATE: Final = "\u2068{}\u2069"  # first strong isolate, and its end
# Hebrew, Arabic, Syriac, Thaana, N'Ko and their neighbours; presentation forms; the scripts of the upper plane.
_LETTERS: Final = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_RUN: Final = re.compile(f"[{_LETTERS}](?:[{_LETTERS} ]*[{_LETTERS}])?")


def shown_words(text: str) -> str:
    """Somebody's words, made printable first: what they bring along to move text about is spelled out, not obeyed."""
    safe = printable(text)
    if safe.isascii() or not (sys.stdout.isatty() and speaks_unicode()):
        return safe
    return isolated(safe)


def isolated(text: str) -> str:
    return _RUN.sub(lambda run: _ISOLATE.format(run[0]), text)
