"""Removes the values of private arguments from every other text about a call."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from remit.calls.checkpoint import HIDDEN, CallRequest

_SHORT: Final = 4
"""Shorter values are hidden only as whole words. Otherwise a private 1 would hide every date."""


def hide_private(text: str, request: CallRequest) -> str:
    """Return the text without the values of private arguments, in every spelling of a message or a JSON tree."""
    private = () if request.function is None else request.function.private
    leaves = [leaf for name in private for leaf in _leaves(request.arguments.get(name))]
    spellings = {spelling for leaf in leaves for spelling in _spellings(leaf)}
    for each in sorted(spellings, key=len, reverse=True):
        if len(each) >= _SHORT:
            text = text.replace(each, HIDDEN)
        else:
            text = re.sub(rf"(?<!\w){re.escape(each)}(?!\w)", HIDDEN, text)
    return text


def _leaves(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            waiting += each
        elif each is not None and not isinstance(each, bool):
            yield str(each)


def _spellings(leaf: str) -> set[str]:
    spellings = {leaf, repr(leaf)[1:-1], json.dumps(leaf)[1:-1], json.dumps(leaf, ensure_ascii=False)[1:-1]}
    return {spelling for spelling in spellings if spelling.strip()}
