"""Somebody else's text, made safe to print on one line: no control character, no terminal escape, no fake line."""

import codecs
from typing import Final

# Looked up with this module: a sandboxed process can load nothing later.
_escape: Final = codecs.lookup("unicode_escape").encode


def printable(text: str) -> str:
    r"""The same text, with everything that is not printable spelled out, such as `\x1b` or `\u202e`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c)[0].decode("ascii") for c in text)
