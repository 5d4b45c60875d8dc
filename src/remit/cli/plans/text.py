"""Text formatting for plans: quoted names, problems, sizes, times and rows."""

from typing import Final

import click

from remit.cli.common.bidi import display_name
from remit.contracts.plans.error_codes import PLAN_CODES
from remit.contracts.plans.error_response import ErrorResponse
from remit.core.errors import Reason

STATUS_COLOURS: Final = {"SUCCESS": "green", "EXECUTED": "green", "PARTIAL": "yellow", "CANCELLED": "yellow"}


def flag_for(kind: str) -> str:
    return f"--allow-{kind}"


def quoted(name: str) -> str:
    """Quote a name for a shell, on one line."""
    if not name.isprintable():  # control characters are escaped in the way of bash
        return "$'" + "".join(_spelled(character) for character in name) + "'"
    plain = name and all(c.isalnum() or c in "/._-+:@%" for c in name) and not name.startswith("-")
    return name if plain else "'" + name.replace("'", "'\\''") + "'"


def _spelled(character: str) -> str:
    if character.isprintable():
        return f"\\{character}" if character in "\\'" else character
    return f"\\U{ord(character):08x}"


def render_problem(problem: ErrorResponse) -> str:
    """Return `a002 src/x.py: 2001 FILE_NOT_FOUND, there is no such file`."""
    details = problem.details
    about = " ".join(display_name(part) for part in (details.action_id, details.target) if part)
    message = f"{problem.error_code} {problem.error_type}, {display_name(problem.message)}"
    by_hand = " (by hand)" if problem.recovery_action == "MANUAL_REQUIRED" else ""
    return f"{about}: {message}{by_hand}" if about else f"{message}{by_hand}"


def is_skipped(problem: ErrorResponse) -> bool:
    """Whether the action was skipped because an action that it depends on failed."""
    return problem.error_code == PLAN_CODES[Reason.DEPENDENCY_FAILED].code


def render_wait(seconds: float) -> str:
    return f"{seconds * 1_000:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def render_status(status: str) -> str:
    return click.style(status, fg=STATUS_COLOURS.get(status, "red"), bold=True)


def row(label: str, text: str, *, width: int | None = None) -> str:
    """Render a row. `width` is the visible width of a label that contains colour codes."""
    gap = " " * max(10 - (len(label) if width is None else width), 1)
    return f"  {label}{gap}{text}"
