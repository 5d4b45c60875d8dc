"""Layout of the graph of a plan: its actions in layers from left to right.

Pure, and bounded: a graph with more than `MOST_NODES` boxes is not readable, and the page lists the actions instead.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

MOST_NODES: Final = 60
WIDTH, HEIGHT = 176, 46
ACROSS, DOWN = 56, 18
MARGIN: Final = 6
SWEEPS: Final = 4
MOST_LETTERS: Final = 23


class GraphBox(NamedTuple):
    """The text and state of one box."""

    name: str
    label: str
    below: str
    state: str
    after: tuple[str, ...]


class Placed(NamedTuple):
    box: GraphBox
    x: int
    y: int

    @property
    def title(self) -> str:
        return _cut(self.box.label)

    @property
    def subtitle(self) -> str:
        return _cut(self.box.below)


class Arrow(NamedTuple):
    path: str


class Graph(NamedTuple):
    boxes: tuple[Placed, ...]
    arrows: tuple[Arrow, ...]
    width: int
    height: int


def lay_out(boxes: Sequence[GraphBox]) -> Graph | None:
    """Place the boxes. Return None if there are too many, or if they wait for each other in a circle."""
    if not boxes or len(boxes) > MOST_NODES:
        return None
    layers = _layers(boxes)
    if layers is None:
        return None
    rows = _ordered(boxes, layers)
    tallest = max(len(row) for row in rows)
    placed: dict[str, Placed] = {}
    for column, row in enumerate(rows):
        top = MARGIN + (tallest - len(row)) * (HEIGHT + DOWN) // 2
        for line, box in enumerate(row):
            placed[box.name] = Placed(box, MARGIN + column * (WIDTH + ACROSS), top + line * (HEIGHT + DOWN))
    arrows = tuple(
        _arrow(placed[before], placed[box.name]) for box in boxes for before in box.after if before in placed
    )
    width = 2 * MARGIN + len(rows) * WIDTH + (len(rows) - 1) * ACROSS
    height = 2 * MARGIN + tallest * HEIGHT + (tallest - 1) * DOWN
    return Graph(tuple(placed[box.name] for box in boxes), arrows, width, height)


def _layers(boxes: Sequence[GraphBox]) -> dict[str, int] | None:
    """Return the number of boxes before each box, on the longest path."""
    names = {box.name for box in boxes}
    waiting = {box.name: [name for name in box.after if name in names] for box in boxes}
    layers: dict[str, int] = {}
    while waiting:
        ready = [name for name, before in waiting.items() if all(each in layers for each in before)]
        if not ready:
            return None
        for name in ready:
            layers[name] = max((layers[each] + 1 for each in waiting[name]), default=0)
        for name in ready:
            del waiting[name]
    return layers


def _ordered(boxes: Sequence[GraphBox], layers: Mapping[str, int]) -> list[list[GraphBox]]:
    """Order each layer from top to bottom by the mean position of the boxes before, so that few arrows cross."""
    rows: list[list[GraphBox]] = [[] for _ in range(max(layers.values()) + 1)]
    for box in boxes:
        rows[layers[box.name]].append(box)
    for _ in range(SWEEPS):
        for column in range(1, len(rows)):
            positions = {box.name: position for row in rows[:column] for position, box in enumerate(row)}
            rows[column].sort(key=partial(_middle_before, positions))
    return rows


def _middle_before(positions: Mapping[str, int], box: GraphBox) -> float:
    known = [positions[name] for name in box.after if name in positions]
    return sum(known) / len(known) if known else 0.0


def _arrow(start: Placed, end: Placed) -> Arrow:
    x, y = start.x + WIDTH, start.y + HEIGHT // 2
    to_x, to_y = end.x - 6, end.y + HEIGHT // 2
    bend = (to_x - x) // 2
    return Arrow(f"M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}")


def _cut(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"
