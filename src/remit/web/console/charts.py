"""Layout of small bar charts: pure functions from numbers to positions. The page draws them without scripts."""

from collections.abc import Sequence
from typing import Final, NamedTuple

WIDE: Final = 960
NARROW: Final = 340
HEIGHT: Final = 150
TOP: Final = 14
BOTTOM: Final = 22
LEFT: Final = 8
GAP: Final = 0.25
LABEL: Final = 62
"""The width that a name needs. Where there is less space, some names are left out."""


class Value(NamedTuple):
    """One bar: its name, its amount, and the part of the amount that is bad."""

    name: str
    amount: float
    bad: float = 0.0


class Bar(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    bad_y: float
    bad_height: float
    text: str


class Label(NamedTuple):
    x: float
    text: str


class Chart(NamedTuple):
    title: str
    bars: tuple[Bar, ...]
    labels: tuple[Label, ...]
    most: str
    width: int
    height: int = HEIGHT
    base: int = HEIGHT - BOTTOM
    top: int = TOP
    left: int = LEFT


def draw_bars(title: str, values: Sequence[Value], unit: str = "", width: int = NARROW) -> Chart:
    """Place the bars from left to right. The highest bar is as high as the chart."""
    most = max((value.amount for value in values), default=0.0)
    across = (width - 2 * LEFT) / max(len(values), 1)
    space = HEIGHT - BOTTOM - TOP
    bars, labels = [], []
    each = max(-(-LABEL // max(int(across), 1)), 1)
    for index, value in enumerate(values):
        height = space * value.amount / most if most else 0.0
        bad = space * min(value.bad, value.amount) / most if most else 0.0
        x = LEFT + index * across
        text = f"{value.name}: {_format_amount(value.amount, unit)}" + (
            f", {_format_amount(value.bad, '')} failed" if value.bad else ""
        )
        bars.append(
            Bar(
                round(x + across * GAP / 2, 1),
                round(TOP + space - height, 1),
                round(across * (1 - GAP), 1),
                round(height, 1),
                round(TOP + space - bad, 1),
                round(bad, 1),
                text,
            )
        )
        if index % each == 0:
            labels.append(Label(round(x + across / 2, 1), value.name))
    return Chart(title, tuple(bars), tuple(labels), _format_amount(most, unit) if most else "", width)


def _format_amount(amount: float, unit: str) -> str:
    text = f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.3g}"
    return f"{text} {unit}".strip()
