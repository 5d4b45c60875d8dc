"""text_replace without a pattern: the bytes of a text for the bytes of another."""

from collections.abc import Mapping
from typing import Any, Final

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.splice import Edited, Splice, counted, read_text, spliced

MAX_SPLICES: Final = 100_000
"""Past so many, a literal replacement is made in one go, and shown as a new content."""


def replace_text(raw: bytes, pattern: str, replacement: str, count: int | None) -> Edited:
    """Left to right, not overlapping; all, or the first `count`. Line ends mean themselves."""
    text = read_text(raw)
    old, new = pattern.encode(), replacement.encode()
    if not old:
        raise RefusedError(
            Reason.EDIT_UNSUPPORTED, "an empty text is everywhere", next_step="Say which text is to be replaced."
        )
    found = text.body.count(old)
    if found == 0:
        raise no_match("the text")
    wanted = found if count is None else min(found, count)
    summary = f"Replaced {counted(wanted, 'occurrence')}"
    if wanted > MAX_SPLICES:
        return Edited(text.bom + text.body.replace(old, new, wanted), None, summary)
    return spliced(raw, _occurrences(raw, len(text.bom), old, new, wanted), summary)


def _occurrences(raw: bytes, first: int, old: bytes, new: bytes, wanted: int) -> list[Splice]:
    splices = []
    done = first
    for _ in range(wanted):
        start = raw.find(old, done)
        done = start + len(old)
        splices.append(Splice(start, done, new))
    return splices


def no_match(what: str) -> RefusedError:
    return RefusedError(
        Reason.EDIT_NO_MATCH,
        f"{what} to be replaced is not in the file",
        next_step="Look at the file as it is now, and write the edit for that.",
    )


def text_replace(raw: bytes, operation: Mapping[str, Any]) -> Edited:
    """The editor. A pattern needs the rich table."""
    if operation.get("regex"):
        raise RefusedError(
            Reason.EDIT_UNSUPPORTED,
            "patterns are not at hand in this process",
            next_step="Give a literal text, or run the plan with all editors.",
        )
    return replace_text(raw, operation["pattern"], operation["replacement"], operation.get("count"))
