"""Common parts of the benchmarks: a figure with its target, a table of figures, and progress on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the result. `most` or `least` is the target, where there is one."""

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def missed(self) -> bool:
        too_much = self.most is not None and self.value > self.most
        return too_much or (self.least is not None and self.value < self.least)

    @property
    def target(self) -> str:
        if self.most is None and self.least is None:
            return ""
        bound = f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}"
        return f"  target: {bound}{'  MISSED' if self.missed else ''}"


def render(figures: list[Figure]) -> str:
    width = max(len(figure.name) for figure in figures)
    return "\n".join(
        f"{figure.name:<{width}}  {figure.value:>10,.2f} {figure.unit:<9}{figure.target}".rstrip() for figure in figures
    )


def print_step(what: str) -> None:
    """Print progress on standard error, because standard output is for the result."""
    sys.stderr.write(f"{what} ...\n")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Print the progress, at most once a second."""
    began = last = time.monotonic()

    def report(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 1:
            last = now
            sys.stderr.write(f"\r{what}: {done:,} of {total:,}, {now - began:.0f} s ")
            sys.stderr.flush()

    yield report
    if last != began:
        sys.stderr.write(f"\r{what}: {total:,}, {time.monotonic() - began:.0f} s{' ' * 20}\n")


def take_turns(measures: dict[str, Callable[[], float]], rounds: int, what: str) -> dict[str, list[float]]:
    """Return the milliseconds of each. The first round warms caches and starts the sandbox, and is not counted."""
    durations: dict[str, list[float]] = {name: [] for name in measures}
    with progress(what, rounds) as report:
        for number in range(rounds + 1):
            for name, measure_once in measures.items():
                measured = measure_once()
                if number:
                    durations[name].append(measured)
            report(number)
    return durations
