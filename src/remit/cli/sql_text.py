"""The text of the statements of a plan, as a person reviews it. It was masked and made printable when it was read."""

from collections.abc import Iterator, Sequence
from typing import Final

from remit.contracts.sql_told import ShownParameter
from remit.desk.words import counted
from remit.printable import printable

_TAB: Final = 4
_NARROWEST: Final = 20


def render_texts(
    texts: Sequence[str], most: int | None, width: int, *, indent: str, gap: str, advice: str = ""
) -> Iterator[str]:
    """Each with its number, at most so many lines of all. `advice`: the option that shows all of them."""
    digits = len(str(len(texts)))
    room = max(width - len(indent) - digits - len(gap), _NARROWEST)
    lines = [
        f"{indent}{str(number) if first else '':>{digits}}{gap}{piece}".rstrip()
        for number, text in enumerate(texts, start=1)
        for first, piece in _pieces(text, room)
    ]
    yield from lines[:most]
    if cut := len(lines) - len(lines[:most]):
        yield f"{indent}... {counted(cut, 'more line')} of SQL{f': {advice}' if advice else ''}"


def render_parameters(
    parameters: Sequence[ShownParameter], most: int | None, width: int, *, indent: str, advice: str = ""
) -> Iterator[str]:
    """What is bound to the statements, or given to a pipeline: `$status = "open"`, at most so many lines of all."""
    room = max(width - len(indent), _NARROWEST)
    lines = [f"{indent}{piece}" for one in parameters for _, piece in _pieces(f"${one.name} = {one.value}", room)]
    yield from lines[:most]
    if cut := len(lines) - len(lines[:most]):
        yield f"{indent}... {counted(cut, 'more line')} of parameters{f': {advice}' if advice else ''}"


def count_text_lines(texts: Sequence[str]) -> int:
    """About as many as are shown: what a terminal breaks is not counted."""
    return sum(text.count("\n") + 1 for text in texts)


def _pieces(text: str, room: int) -> Iterator[tuple[bool, str]]:
    """Its lines, broken where they are too long, and whether one is the first."""
    first = True
    for line in text.split("\n"):
        shown = printable(line.expandtabs(_TAB))
        for start in range(0, max(len(shown), 1), room):
            yield first, shown[start : start + room]
            first = False
