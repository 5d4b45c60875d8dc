"""Waivers: a builder's word, by name and with an end, that a breach is let pass. Pure but for reading the file."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from remit.contracts.goals.slo import NEVER_WAIVED, FigureName, SloWaiver, SloWaivers
from remit.core.errors import Reason, Refused
from remit.parsing import read_bounded
from remit.parsing.yaml import parse_yaml


def read_waivers(file: Path) -> tuple[SloWaiver, ...]:
    """All of them, or a refusal: one that cannot be read waives nothing, and is not passed over in silence."""
    try:
        with file.open("rb") as stream:
            raw = read_bounded(stream, SloWaivers.bounds, source=str(file))
    except OSError as problem:
        raise Refused(
            Reason.PERMISSION_DENIED,
            f"the waivers cannot be read: {problem.strerror}",
            where=str(file),
            next_step="Make it a file that you may read, or take it away: then nothing is waived.",
        ) from problem
    return SloWaivers.from_tree(parse_yaml(raw, SloWaivers.bounds, source=str(file)), source=str(file)).waivers


def find_waiver(
    figure: FigureName, value: float, waivers: Sequence[SloWaiver], now: datetime
) -> tuple[SloWaiver | None, str]:
    """One that lets this value pass today, or why none does."""
    if figure == NEVER_WAIVED:
        return None, "this figure cannot be waived"
    why = "no waiver names this figure"
    today = now.astimezone(UTC).date()
    for waiver in waivers:
        if waiver.figure != figure:
            continue
        problem = _problem(waiver, value, today)
        if not problem:
            return waiver, f"let pass by {waiver.approved_by} until {waiver.ends}: {waiver.reason}"
        why = f"the waiver of {waiver.approved_by} {problem}"
    return None, why


def _problem(waiver: SloWaiver, value: float, today: date) -> str:
    if today < date.fromisoformat(waiver.issued):
        return f"begins on {waiver.issued}"
    if today > date.fromisoformat(waiver.ends):
        return f"ended on {waiver.ends}"
    if value > waiver.limit:
        return f"goes up to {waiver.limit:g} only"
    return ""
