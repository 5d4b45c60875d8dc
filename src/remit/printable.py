"""Somebody else's text, made safe to print on one line: no control character, no terminal escape, no fake line."""


def printable(text: str) -> str:
    r"""The same text, with everything that is not printable spelled out, such as `\x1b` or `\u202e`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
