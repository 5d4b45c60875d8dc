"""How a task in a sandboxed process can end, as the caller hears of it."""

import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.sandbox.orders import Quotas, Usage
from remit.sandbox.quotas import write_breach

Note = Mapping[str, Any]

KINDS: Final[dict[str, type[RemitError]]] = {
    "Refused": RefusedError,
    "Misuse": UsageError,
    "EnvironmentFailed": EnvironmentFailureError,
}
# An effect has no say on these: who may ask, what was recorded, whether the store works.
_RESERVED_REASONS: Final = frozenset(
    {
        Reason.AUTHORITY_MALFORMED,
        Reason.SIGNATURE_INVALID,
        Reason.KEY_UNKNOWN,
        Reason.KEY_RETIRED,
        Reason.BINDING_MISMATCH,
        Reason.EXPIRED,
        Reason.NOT_YET_VALID,
        Reason.REVOKED,
        Reason.IRREVERSIBLE,
        Reason.IDEMPOTENCY_CONFLICT,
        Reason.IN_PROGRESS,
        Reason.TRANSITION_INVALID,
        Reason.SANDBOX_UNAVAILABLE,
        Reason.STORE_UNAVAILABLE,
        Reason.STORE_OUTDATED,
        # what was approved, how long it took, whether somebody cancelled it, and what becomes of the way back
        Reason.PROTECTED,
        Reason.TIMED_OUT,
        Reason.CANCELLED,
        Reason.BACKUP_DAMAGED,
        Reason.BACKUP_MISSING,
        Reason.ROLLBACK_EXPIRED,
        Reason.ROLLBACK_FAILED,
    }
)


class InterruptedTaskError(EnvironmentFailureError):
    """The task did not come to its end, and its process is certainly dead. What it left must be settled.

    `reason` is RESOURCE_EXHAUSTED for a quota, TIMED_OUT for a time that the order had set, and EFFECT_FAILED where it
    died or did not keep to its contract. `step` is the one whose clock ran, if any.
    """

    def __init__(
        self,
        reason: Reason,
        what: str,
        *,
        where: str = "",
        next_step: str = "",
        notes: Sequence[Note],
        usage: Usage,
        step: int | None = None,
    ) -> None:
        super().__init__(reason, what, where=where, next_step=next_step)
        self.notes = tuple(notes)
        self.usage = usage
        self.step = step


class CancelledError(InterruptedTaskError):
    """By the caller, at one of the looks. `reason` is CANCELLED."""


class EffectResult(NamedTuple):
    """What the effect returned, what it had noted, and what it used."""

    output: dict[str, Any] | None
    notes: tuple[Note, ...]
    usage: Usage


def reason_of(code: object) -> Reason:
    """An effect's own reason, as far as it is its to give."""
    try:
        reason = Reason(str(code))
    except ValueError:
        return Reason.EFFECT_FAILED
    return Reason.EFFECT_FAILED if reason in _RESERVED_REASONS else reason


def describe_status(status: int | None) -> tuple[str, bool]:
    """How a process ended, in words, and whether that was a limit of the kernel's."""
    if status is None:
        return "the task's process died", False
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = next((known.name for known in signal.Signals if known == number), f"signal {number}")
        return f"the task's process was ended by {name}", number == signal.SIGXFSZ
    return f"the task's process ended by itself ({os.WEXITSTATUS(status)})", False


def explain_death(cut: InterruptedTaskError, status: int | None, quotas: Quotas) -> InterruptedTaskError:
    """The same, with what the zygote knows of the end."""
    what, too_large = describe_status(status)
    known: dict[str, Any] = {"notes": cut.notes, "usage": cut.usage, "step": cut.step}
    if too_large:
        breach = write_breach(quotas)
        return InterruptedTaskError(breach.reason, breach.what, next_step=breach.next_step, **known)
    return InterruptedTaskError(cut.reason, what, where=cut.where, **known)
