"""One check of `remit doctor`: its topic, its finding, and the next step."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from remit.core.errors import RemitError, render_line

Status = Literal["ok", "warn", "fail", "absent"]
"""`warn`: works, but needs attention. `fail`: needed, and wrong. `absent`: optional, and not installed or not set."""


@dataclass(frozen=True, slots=True)
class Check:
    """A finding. Its texts are masked and on one line. Every status other than `ok` has a next step."""

    name: str
    status: Status
    found: str
    next_step: str
    needed_for: str

    def as_json(self) -> dict[str, str]:
        return {
            "name": self.name,
            "status": self.status,
            "found": self.found,
            "next_step": self.next_step,
            "needed_for": self.needed_for,
        }


@dataclass(frozen=True, slots=True)
class Topic:
    """The subject of a check, and the feature that needs it. It creates the findings, so each one has a next step."""

    name: str
    needed_for: str

    def ok(self, found: str) -> Check:
        return Check(self.name, "ok", render_line(found), "", self.needed_for)

    def warn(self, found: str, next_step: str) -> Check:
        return Check(self.name, "warn", render_line(found), render_line(next_step), self.needed_for)

    def fail(self, found: str, next_step: str) -> Check:
        return Check(self.name, "fail", render_line(found), render_line(next_step), self.needed_for)

    def absent(self, found: str, next_step: str) -> Check:
        return Check(self.name, "absent", render_line(found), render_line(next_step), self.needed_for)

    def run(self, check: Callable[[], Check]) -> Check:
        """Run the check. An exception becomes a failed check."""
        try:
            return check()
        except Exception as problem:  # noqa: BLE001 - the check must report each problem, not stop at it
            return self.failed(problem)

    def failed(self, problem: Exception) -> Check:
        if isinstance(problem, RemitError):
            place = f" ({problem.where})" if problem.where else ""
            return self.fail(
                f"{problem.what}{place}", problem.next_step or "Fix this problem, then run remit doctor again."
            )
        if isinstance(problem, OSError):
            place = f" ({os.fsdecode(problem.filename)})" if isinstance(problem.filename, str | bytes) else ""
            advice = "Check that it exists and that you may use it, then run remit doctor again."
            return self.fail(f"{problem.strerror or type(problem).__name__}{place}", advice)
        advice = "Run again with REMIT_DEBUG=1. If it fails again, report it as a bug in Remit."
        return self.fail(f"the check itself failed: {type(problem).__name__}: {_text_of(problem)}", advice)


def _text_of(problem: Exception) -> str:
    try:
        return str(problem)
    except Exception:  # noqa: BLE001 - an exception without a printable text
        return "(no text)"
