"""Checks of a child's messages about the steps of its order: known phases, in the right order, each within its time.

It has state and no I/O; the caller passes the time. The phases are explained at `effects.context.EffectContext.step`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason
from remit.sandbox.quotas import Breach
from remit.sandbox.results import reason_of

_ENDS: Final = frozenset({"done", "failed", "skipped", "seen"})
_ERROR: Final = frozenset({"reason", "what", "where", "next_step"})


class _Rule(NamedTuple):
    """The phases of a step that must come before a phase, and those that must not."""

    after: frozenset[str] = frozenset()
    not_after: frozenset[str] = _ENDS


_RULES: Final[Mapping[str, _Rule]] = {
    "begun": _Rule(not_after=_ENDS | {"begun"}),
    "staged": _Rule(after=frozenset({"begun"}), not_after=_ENDS | {"staged"}),
    "done": _Rule(after=frozenset({"begun"})),
    "failed": _Rule(after=frozenset({"begun"})),
    "skipped": _Rule(),
    "seen": _Rule(),
    "diff": _Rule(not_after=frozenset()),
}


class ProtocolError(Exception):
    """Raised for a step that the order does not have, an unknown phase, or a phase in the wrong order."""


class Paces:
    """The phases of the steps of one order, and the time limit of the running step."""

    def __init__(self, paces: Sequence[float]) -> None:
        self._paces = paces
        self._phases: dict[int, set[str]] = {}
        self._began_at = 0.0
        self.running: int | None = None
        """The step that is running."""

    def check_step(self, message: Mapping[str, Any], now: float) -> Mapping[str, Any]:
        """Return the message without its kind, and with only the reasons that a child may give.

        Raises ProtocolError.
        """
        number, phase = message.get("number"), message.get("phase")
        if type(number) is not int or not 0 <= number < len(self._paces) or not isinstance(phase, str):
            raise ProtocolError
        rule, phases = _RULES.get(phase), self._phases.setdefault(number, set())
        if rule is None or not rule.after <= phases or rule.not_after & phases:
            raise ProtocolError
        checked = {**message, **_errors_of(message, phase)}
        del checked["kind"]
        phases.add(phase)
        self._set_clock(number, phase, now)
        return checked

    def _set_clock(self, number: int, phase: str, now: float) -> None:
        if phase == "begun":
            self.running, self._began_at = number, now
        elif phase != "diff" and number == self.running:
            self.running = None

    def left(self, now: float) -> float | None:
        """Return the seconds that the running step has left, negative if it is late, or None if no step runs."""
        return None if self.running is None else self._paces[self.running] - (now - self._began_at)

    def breach(self, now: float) -> Breach | None:
        left = self.left(now)
        if self.running is None or left is None or left >= 0:
            return None
        return Breach(
            f"step {self.running + 1} took longer than {self._paces[self.running]:g} seconds",
            "Reduce the work, or raise the time limit: `timeout_seconds` of the action, or `timeouts` in remit.yaml.",
            Reason.TIMED_OUT,
        )


def _errors_of(message: Mapping[str, Any], phase: str) -> dict[str, dict[str, str]]:
    """Return the error that the child gives for a failure or problem, with a reason that a child may give."""
    name = {"failed": "error", "seen": "problem"}.get(phase)
    error = None if name is None else message.get(name)
    if name is None or (error is None and phase == "seen"):
        return {}
    if not isinstance(error, dict) or not error.keys() <= _ERROR:
        raise ProtocolError
    if not all(isinstance(text, str) for text in error.values()):
        raise ProtocolError
    return {name: {**dict.fromkeys(_ERROR, ""), **error, "reason": reason_of(error.get("reason")).value}}
