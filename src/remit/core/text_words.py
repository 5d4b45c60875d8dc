"""Small words for people, wherever they read them: counts, and text that is cut."""

import sys


def speaks_unicode() -> bool:
    """Can standard output take any character?"""
    return (sys.stdout.encoding or "").lower().startswith("utf")


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 entry, 2,000 entries."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def shortened(text: str, most: int) -> str:
    mark = "…" if speaks_unicode() else "..."
    return text if len(text) <= most else text[: most - len(mark)] + mark
