"""Regular expressions that are compiled at first use, so that an import of the masks compiles nothing.

Every pattern of this package scans in linear time. A match begins only at the start of a run of characters (a
lookbehind), and the pattern never backtracks into a run that it has matched (possessive quantifiers).
"""

import re
from functools import cache


@cache
def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(source, flags)


def vocabulary(words: str) -> frozenset[str]:
    return frozenset(words.split())


def without_punctuation(value: str) -> str:
    """Return the value without closing punctuation of the sentence or bracket around it: at most four characters."""
    return value[:-4] + value[-4:].rstrip(")]}>,;.!?:\\")


# Texts that end in a letter or digit and may be directly before a secret: an escaped line break, a percent-encoded
# character, the end of a terminal colour.
_AFTER_ESCAPE = r"(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\[[0-9]m)|(?<=[\[;][0-9]{2}m)|(?<=;[0-9]m)"
EDGE = rf"(?:(?<![A-Za-z0-9])|{_AFTER_ESCAPE})"
RUN_EDGE = rf"(?:(?<![A-Za-z0-9_-])|{_AFTER_ESCAPE})"

QUOTE = r"""(?:\\{0,8}["'`]|%22|%27|&quot;|&\#3[49];)"""
