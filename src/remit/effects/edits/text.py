"""The edit text_replace without a pattern: replaces the bytes of one text with the bytes of another."""

from collections.abc import Mapping
from typing import Any, Final

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.splice import Edited, Splice, counted, read_text, spliced

MAX_SPLICES: Final = 100_000
"""With more occurrences, a literal replacement is done in one step and shown as new content."""


def replace_text(raw: bytes, pattern: str, replacement: str, count: int | None) -> Edited:
    """Replace occurrences from left to right, not overlapping: all, or the first `count`. Line ends match exactly."""
    text = read_text(raw)
    old, new = pattern.encode(), replacement.encode()
    if not old:
        raise RefusedError(
            Reason.EDIT_UNSUPPORTED, "the text to be replaced is empty", next_step="Name the text to be replaced."
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
        next_step="Write the edit for the current content of the file.",
    )


def text_replace(raw: bytes, operation: Mapping[str, Any]) -> Edited:
    """The editor of text_replace for literal texts. A pattern needs `FULL_EDITORS`."""
    if operation.get("regex"):
        raise RefusedError(
            Reason.EDIT_UNSUPPORTED,
            "this process cannot replace patterns",
            next_step="Use a literal text, or run the plan with all editors.",
        )
    return replace_text(raw, operation["pattern"], operation["replacement"], operation.get("count"))
