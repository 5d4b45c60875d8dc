"""Lines of a diff whose content is masked. Each of them needs an approval of its own.

This covers removed lines as well as added ones, because a removed line may be a check. Two different values may also
have the same mask. A changed line then looks unchanged.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from remit.masking import is_hidden
from remit.plans.reports.diff_lines import DiffLine, hunk_starts, parse_diff

_WORD: Final = re.compile(r"[^\s\"'`<>,;=()\[\]{}]+")
_CHANGED: Final = frozenset({"added", "removed"})


class HiddenLines(NamedTuple):
    """The numbers of hidden lines: added ones in the new file, removed ones in the old file."""

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


class _Placed(NamedTuple):
    number: int
    line: DiffLine
    masked: str


def hidden_lines(text: str, masked: str) -> HiddenLines:
    placed = list(_placed(text, masked))
    alike = _alike(placed)
    hidden: dict[str, list[int]] = {"added": [], "removed": []}
    for number, line, shown in placed:
        if line.kind in _CHANGED and (is_hidden(line.text, shown) or _has_masked_word(line.text, shown, alike)):
            hidden[line.kind].append(number)
    return HiddenLines(tuple(hidden["added"]), tuple(hidden["removed"]))


def _placed(text: str, masked: str) -> Iterator[_Placed]:
    """Yield the lines with masked content and their numbers."""
    before = after = 0
    for line, shown in zip(parse_diff(text), masked.split("\n"), strict=True):
        if line.kind == "hunk":
            before, after = hunk_starts(line.text)
            continue
        if line.kind in {"added", "removed", "same"}:
            if shown != line.text:
                yield _Placed(before if line.kind == "removed" else after, line, shown)
            before, after = before + (line.kind != "added"), after + (line.kind != "removed")


def _alike(placed: Sequence[_Placed]) -> set[str]:
    """Return the masks that hide different values in added and in removed lines."""
    words_of: dict[str, dict[str, set[str]]] = {"added": defaultdict(set), "removed": defaultdict(set)}
    for _, line, shown in placed:
        for word, mask in _words_per_mask(line.text, shown) if line.kind in _CHANGED else ():
            words_of[line.kind][mask].add(word)
    added, removed = words_of["added"], words_of["removed"]
    return {mask for mask in added.keys() & removed.keys() if added[mask] != removed[mask]}


def _has_masked_word(line: str, shown: str, alike: set[str]) -> bool:
    return any(mask in alike for _, mask in _words_per_mask(line, shown))


def _words_per_mask(line: str, shown: str) -> list[tuple[str, str]]:
    words, masks = _WORD.findall(line[1:]), _WORD.findall(shown[1:])
    if len(words) != len(masks):  # for example a number in groups; then compare the whole line
        return [(line[1:], shown[1:])]
    return [(word, mask) for word, mask in zip(words, masks, strict=True) if word != mask]
