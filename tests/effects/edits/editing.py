"""Edits as the executor makes them, by the table; and the promise that every edit must keep."""

from typing import Any

import pytest

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.registry_full import FULL_EDITORS
from remit.effects.edits.splice import Edited


def edit(kind: str, before: str | bytes, **parameters: Any) -> Edited:
    """The edit, with the promise checked that it changed nothing else."""
    raw = before.encode() if isinstance(before, str) else before
    edited = FULL_EDITORS[kind](raw, {"type": kind, **parameters})
    assert_rest_is_untouched(raw, edited)
    return edited


def text_after(kind: str, before: str | bytes, **parameters: Any) -> str:
    return edit(kind, before, **parameters).content.decode()


def refusal_of(kind: str, before: str | bytes, **parameters: Any) -> RefusedError:
    with pytest.raises(RefusedError) as refusal:
        edit(kind, before, **parameters)
    return refusal.value


def reason_of(kind: str, before: str | bytes, **parameters: Any) -> Reason:
    return refusal_of(kind, before, **parameters).reason


def assert_rest_is_untouched(before: bytes, edited: Edited) -> None:
    """Walks both contents side by side: what lies between the splices is the same, byte for byte, in the same order."""
    assert edited.splices is not None
    old = new = 0
    for splice in edited.splices:
        assert old <= splice.start <= splice.end <= len(before)
        same = splice.start - old
        assert edited.content[new : new + same] == before[old : splice.start]
        new += same
        assert edited.content[new : new + len(splice.new)] == splice.new
        new += len(splice.new)
        old = splice.end
    assert edited.content[new:] == before[old:]
