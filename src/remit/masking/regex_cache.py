"""Regular expressions, compiled at first use: importing the masks costs no compilation.

Every pattern of this package scans in linear time: a run of characters starts only where the run starts (a lookbehind)
and, once taken, is not given back (possessive quantifiers).
"""

import re
from functools import cache


@cache
def pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(source, flags)


def vocabulary(words: str) -> frozenset[str]:
    return frozenset(words.split())


def without_punctuation(value: str) -> str:
    """The value without what may close the sentence or bracket around it: four characters at most."""
    return value[:-4] + value[-4:].rstrip(")]}>,;.!?:\\")


# What may stand directly before a secret although it ends in a letter or digit: an escaped line break, a
# percent-encoded character, the end of a terminal colour.
_AFTER_ESCAPE = r"(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\[[0-9]m)|(?<=[\[;][0-9]{2}m)|(?<=;[0-9]m)"
EDGE = rf"(?:(?<![A-Za-z0-9])|{_AFTER_ESCAPE})"
RUN_EDGE = rf"(?:(?<![A-Za-z0-9_-])|{_AFTER_ESCAPE})"

QUOTE = r"""(?:\\{0,8}["'`]|%22|%27|&quot;|&\#3[49];)"""
