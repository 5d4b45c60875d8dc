"""Somebody else's text, made safe to print on one line: no control character, no terminal escape, no fake line."""

import codecs
import re
from typing import Final

# Looked up with this module: a sandboxed process can load nothing later.
_escape: Final = codecs.lookup("unicode_escape").encode

# Printable by Unicode, and nothing to be seen of them: fillers, an empty Braille cell, variation selectors. Two names
# may differ by one of these alone. U+FE0F is left where it makes an emoji of the sign before it.
_EMOJI: Final = r"\u203c-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_UNSEEN: Final = re.compile(
    rf"[\u115f\u1160\u2800\u3164\uffa0\ufe00-\ufe0e\U000e0100-\U000e01ef]|(?<![{_EMOJI}])\ufe0f"
)


def printable(text: str) -> str:
    r"""The same text, with everything that cannot be seen spelled out, such as `\x1b` or `\u202e`."""
    if text.isprintable() and (text.isascii() or not _UNSEEN.search(text)):
        return text
    seen = _UNSEEN.sub(lambda found: _spelled_out(found[0]), text)
    return "".join(c if c.isprintable() else _spelled_out(c) for c in seen)


def _spelled_out(character: str) -> str:
    return _escape(character)[0].decode("ascii")
