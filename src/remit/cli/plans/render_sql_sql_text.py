"""The text of the statements of a plan, as a person reviews it. It was masked and made printable when it was read."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from remit.contracts.plans.sql_report import ShownParameter
from remit.core.text_printable import printable
from remit.core.text_words import counted

_TAB: Final = 4
_NARROWEST: Final = 20


def render_texts(
    texts: Sequence[str], most: int | None, width: int, *, indent: str, gap: str, advice: str = ""
) -> Iterator[str]:
    """Each with its number, at most so many lines of all. `advice`: the option that shows all of them.

    Lines are counted as they were written, and a line is shown whole: how many are left out does not depend on the
    terminal, and no statement hides behind the width of another one.
    """
    digits = len(str(len(texts)))
    room = max(width - len(indent) - digits - len(gap), _NARROWEST)
    lines = [
        (str(number) if first else "", line)
        for number, text in enumerate(texts, start=1)
        for first, line in _numbered(text)
    ]
    for number, line in lines[:most]:
        for first, piece in _pieces(line, room):
            yield f"{indent}{number if first else '':>{digits}}{gap}{piece}".rstrip()
    if cut := len(lines) - len(lines[:most]):
        yield f"{indent}... {counted(cut, 'more line')} of SQL{f': {advice}' if advice else ''}"


def render_parameters(
    parameters: Sequence[ShownParameter], most: int | None, width: int, *, indent: str, advice: str = ""
) -> Iterator[str]:
    """What is bound to the statements, or given to a pipeline: `$status = "open"`, at most so many lines of all."""
    room = max(width - len(indent), _NARROWEST)
    lines = [line for one in parameters for line in _assigned(one).split("\n")]
    yield from (f"{indent}{piece}" for line in lines[:most] for _, piece in _pieces(line, room))
    if cut := len(lines) - len(lines[:most]):
        yield f"{indent}... {counted(cut, 'more line')} of parameters{f': {advice}' if advice else ''}"


def count_text_lines(texts: Iterable[str]) -> int:
    """As they are shown and cut: what a terminal breaks is one line."""
    return sum(text.count("\n") + 1 for text in texts)


def count_parameter_lines(parameters: Iterable[ShownParameter]) -> int:
    return count_text_lines(map(_assigned, parameters))


def _assigned(one: ShownParameter) -> str:
    return f"${one.name} = {one.value}"


def _numbered(text: str) -> Iterator[tuple[bool, str]]:
    """Its lines, and whether one is the first."""
    return ((number == 0, line) for number, line in enumerate(text.split("\n")))


def _pieces(line: str, room: int) -> Iterator[tuple[bool, str]]:
    """One line, broken where it is too long, and whether a piece is the first."""
    shown = printable(line.expandtabs(_TAB))
    for start in range(0, max(len(shown), 1), room):
        yield start == 0, shown[start : start + room]
