"""The results and errors of a task in a sandboxed process."""

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
# An effect must not use these reasons. They are about authority, about the records, and about the store.
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
        Reason.ID_TOKEN_INVALID,
        Reason.IDENTITY_PROVIDER_UNAVAILABLE,
        # about the approval, the time limit, a cancellation, and the rollback
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
    """Raised if a task did not complete. Its process is dead, and its unfinished work must be settled.

    `reason` is RESOURCE_EXHAUSTED for a quota, TIMED_OUT for a time limit of the order, and EFFECT_FAILED if the
    process died or broke the protocol. `step` is the step that was running, if any.
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
    """Raised if the caller cancelled the task. `reason` is CANCELLED."""


class EffectResult(NamedTuple):
    """The output of the effect, its notes, and the resources that it used."""

    output: dict[str, Any] | None
    notes: tuple[Note, ...]
    usage: Usage


def reason_of(code: object) -> Reason:
    """Return the reason that an effect gave, or EFFECT_FAILED if an effect must not give it."""
    try:
        reason = Reason(str(code))
    except ValueError:
        return Reason.EFFECT_FAILED
    return Reason.EFFECT_FAILED if reason in _RESERVED_REASONS else reason


def describe_status(status: int | None) -> tuple[str, bool]:
    """Return how a process ended, as a text, and whether the kernel's limit on file sizes ended it."""
    if status is None:
        return "the task's process died", False
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = next((known.name for known in signal.Signals if known == number), f"signal {number}")
        return f"the task's process was ended by {name}", number == signal.SIGXFSZ
    return f"the task's process ended by itself ({os.WEXITSTATUS(status)})", False


def explain_death(cut: InterruptedTaskError, status: int | None, quotas: Quotas) -> InterruptedTaskError:
    """Return the error with the exit status that the zygote has."""
    what, too_large = describe_status(status)
    known: dict[str, Any] = {"notes": cut.notes, "usage": cut.usage, "step": cut.step}
    if too_large:
        breach = write_breach(quotas)
        return InterruptedTaskError(breach.reason, breach.what, next_step=breach.next_step, **known)
    return InterruptedTaskError(cut.reason, what, where=cut.where, **known)
