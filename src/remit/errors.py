"""One base error, three kinds, and one closed code table per door.

Every error says what was wrong, where, and what to do next; the text is masked when the error is made, so no handler,
log or report can leak what the input held. Inside Remit an error carries a `Reason`; at a door's edge a table turns the
reason into one of the codes that this door may emit, and a reason missing from the table becomes the door's own
catch-all: no other code can leave.
"""

from enum import StrEnum
from typing import Final, Literal

from remit.masking import mask_text
from remit.printable import printable


class Reason(StrEnum):
    """Why Remit said no. The doors' code tables below are written in these words."""

    # hostile or wrong data
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    AUTHORITY_MALFORMED = "authority_malformed"
    SIGNATURE_INVALID = "signature_invalid"
    KEY_UNKNOWN = "key_unknown"
    KEY_RETIRED = "key_retired"
    BINDING_MISMATCH = "binding_mismatch"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    REVOKED = "revoked"
    CAPABILITY_UNSUPPORTED = "capability_unsupported"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    TRANSITION_INVALID = "transition_invalid"
    EVIDENCE_INVALID = "evidence_invalid"
    # the caller's bug
    MISUSE = "misuse"
    # the environment's failure
    STATE_UNSAFE = "state_unsafe"
    STATE_MISSING = "state_missing"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_OUTDATED = "store_outdated"
    DISK_FULL = "disk_full"
    EFFECT_FAILED = "effect_failed"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    INTERNAL = "internal"


MAX_MESSAGE: Final = 2_000
LOOKED_AT: Final = 10 * MAX_MESSAGE


def render_line(text: str) -> str:
    """Masked, on one line, no terminal escapes, of bounded length: names in it may be an attacker's."""
    # Masked before it is cut or escaped: half a secret no longer looks like one.
    shown = printable(mask_text(text[:LOOKED_AT]))
    return shown if len(shown) <= MAX_MESSAGE else shown[:MAX_MESSAGE] + "..."


class RemitError(Exception):
    """What was wrong, where, and the next step. Masked on construction; safe to print anywhere."""

    exit_code = 1

    def __init__(self, reason: Reason, what: str, *, where: str = "", next_step: str = "") -> None:
        self.reason = reason
        self.what = render_line(what)
        self.where = render_line(where)
        self.next_step = render_line(next_step)
        super().__init__(self.what)

    def __str__(self) -> str:
        place = f" (at {self.where})" if self.where else ""
        advice = f". {self.next_step}" if self.next_step else ""
        return f"{self.what}{place}{advice}"

    def as_json(self) -> dict[str, str]:
        return {"reason": self.reason.value, "what": self.what, "where": self.where, "next_step": self.next_step}


class Refused(RemitError):
    """Hostile or wrong data: nothing was touched."""

    exit_code = 2


class Misuse(RemitError):
    """The caller broke a rule of the API: a bug to fix, not an input to handle."""

    exit_code = 2


class EnvironmentFailed(RemitError):
    """The machine, the store or the disk could not do its part."""

    exit_code = 1


def as_remit_error(problem: Exception) -> RemitError:
    """Our own errors as they are; anything else as an internal failure, named and masked."""
    if isinstance(problem, RemitError):
        return problem
    return EnvironmentFailed(
        Reason.INTERNAL,
        f"{type(problem).__name__}: {problem}",
        next_step="This is a bug in Remit or in an executor. Run again with REMIT_DEBUG=1 and report what it prints.",
    )


# --- the doors' closed code sets ------------------------------------------------------------------------------------

TaskCode = Literal["INVALID_LEASE", "LEASE_EXPIRED", "UNSUPPORTED_CAPABILITY", "EXECUTION_FAILED", "RESOURCE_EXHAUSTED"]

TASK_CODES: Final[dict[Reason, TaskCode]] = {
    Reason.AUTHORITY_MALFORMED: "INVALID_LEASE",
    Reason.SIGNATURE_INVALID: "INVALID_LEASE",
    Reason.KEY_UNKNOWN: "INVALID_LEASE",
    Reason.KEY_RETIRED: "INVALID_LEASE",
    Reason.BINDING_MISMATCH: "INVALID_LEASE",
    Reason.NOT_YET_VALID: "INVALID_LEASE",
    Reason.REVOKED: "INVALID_LEASE",
    Reason.EXPIRED: "LEASE_EXPIRED",
    Reason.CAPABILITY_UNSUPPORTED: "UNSUPPORTED_CAPABILITY",
    Reason.RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
}


def task_code(reason: Reason) -> TaskCode:
    return TASK_CODES.get(reason, "EXECUTION_FAILED")
