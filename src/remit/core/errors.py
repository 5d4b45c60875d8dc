"""One base error, three kinds, and one closed code table per door.

Every error says what was wrong, where, and what to do next; the text is masked when the error is made, so no handler,
log or report can leak what the input held. (The sandboxed process sends its errors as they are to the host, which makes
them anew, and masks them then.) Inside Remit an error carries a `Reason`; at a door's edge a table turns the
reason into one of the codes that this door may emit, and a reason missing from the table becomes the door's own
catch-all: no other code can leave.
"""

import sys
from enum import StrEnum
from typing import Final, Literal

from remit.core.text import printable

SANDBOX_OPTION: Final = "remit-sandbox"
IN_SANDBOX: Final = SANDBOX_OPTION in sys._xoptions  # noqa: SLF001 - documented, whatever its name
"""Whether this is the process that sandboxed ones are forked from: started with `-X remit-sandbox`."""


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
    IRREVERSIBLE = "irreversible"
    CAPABILITY_UNSUPPORTED = "capability_unsupported"
    PATH_REFUSED = "path_refused"
    FILE_CONFLICT = "file_conflict"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    IN_PROGRESS = "in_progress"
    TRANSITION_INVALID = "transition_invalid"
    EVIDENCE_INVALID = "evidence_invalid"
    # a plan and its files
    FILE_MISSING = "file_missing"
    PERMISSION_DENIED = "permission_denied"
    HASH_MISMATCH = "hash_mismatch"
    PROTECTED = "protected"
    CONTENT_REFUSED = "content_refused"
    EXECUTABLE_REFUSED = "executable_refused"
    LIMIT_EXCEEDED = "limit_exceeded"
    DEPENDENCY_INVALID = "dependency_invalid"
    DEPENDENCY_FAILED = "dependency_failed"
    EDIT_NO_MATCH = "edit_no_match"
    EDIT_OUT_OF_RANGE = "edit_out_of_range"
    EDIT_AMBIGUOUS = "edit_ambiguous"
    EDIT_CONFLICT = "edit_conflict"
    EDIT_UNSUPPORTED = "edit_unsupported"
    NOT_TEXT = "not_text"
    SYNTAX_BROKEN = "syntax_broken"
    SCHEMA_INVALID = "schema_invalid"
    SQL_REFUSED = "sql_refused"
    SQL_FAILED = "sql_failed"
    DATABASE_BUSY = "database_busy"
    PIPELINE_FAILED = "pipeline_failed"
    RULE_FAILED = "rule_failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    # a browser and its requests
    CAPABILITY_MISSING = "capability_missing"
    CONSTRAINT_VIOLATED = "constraint_violated"
    APPROVAL_PENDING = "approval_pending"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_TIMEOUT = "approval_timeout"
    ELEMENT_MISSING = "element_missing"
    PAGE_CHANGED = "page_changed"
    FATE_UNKNOWN = "fate_unknown"
    # a goal and the simulation that reaches it
    GOAL_CONFLICT = "goal_conflict"
    SIMULATION_UNKNOWN = "simulation_unknown"
    SIMULATION_INACTIVE = "simulation_inactive"
    CONFIRMATION_MISSING = "confirmation_missing"
    ACCESS_DENIED = "access_denied"
    ACCESS_NEEDS_APPROVAL = "access_needs_approval"
    ROLLBACK_MISSING = "rollback_missing"
    REPLAY_FAILED = "replay_failed"
    # the way back
    BACKUP_DAMAGED = "backup_damaged"
    BACKUP_MISSING = "backup_missing"
    DRIFTED = "drifted"
    ROLLBACK_EXPIRED = "rollback_expired"
    ROLLBACK_FAILED = "rollback_failed"
    # the caller's bug
    MISUSE = "misuse"
    # the environment's failure
    STATE_UNSAFE = "state_unsafe"
    STATE_MISSING = "state_missing"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_OUTDATED = "store_outdated"
    DISK_FULL = "disk_full"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    EFFECT_FAILED = "effect_failed"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    INTERNAL = "internal"


MEANING: Final[dict[Reason, str]] = {
    Reason.MALFORMED: "the input breaks its contract: not JSON, a wrong type, a field too many or too few",
    Reason.TOO_LARGE: "the input has more bytes or items than are read",
    Reason.TOO_DEEP: "the input is nested deeper than is read",
    Reason.AUTHORITY_MALFORMED: "what was handed in as a lease or a token is none",
    Reason.SIGNATURE_INVALID: "the signature does not fit the document: one was changed, or made for another kind",
    Reason.KEY_UNKNOWN: "it was signed with a key that this keyring does not hold",
    Reason.KEY_RETIRED: "it was signed with a key after that key had been retired",
    Reason.BINDING_MISMATCH: "the authority is real, but for another task, capability, executor or content",
    Reason.EXPIRED: "the authority was valid, and its time is over",
    Reason.NOT_YET_VALID: "the authority is dated in the future: most likely a clock is wrong",
    Reason.REVOKED: "it was revoked, or the key that signed it was; nothing that such a key signed counts any more",
    Reason.IRREVERSIBLE: "an action cannot be undone, and the approval does not name it",
    Reason.CAPABILITY_UNSUPPORTED: "no registered executor offers this capability",
    Reason.PATH_REFUSED: "the path is outside of the allowed directories, behind a link, or not of a regular file",
    Reason.FILE_CONFLICT: "a file is missing, exists already, or is not as it was when the task was looked at",
    Reason.IDEMPOTENCY_CONFLICT: "the id is taken: by a request with another content, or by one without an outcome yet",
    Reason.IN_PROGRESS: "another process is at work on this request and has not finished",
    Reason.TRANSITION_INVALID: "the ledger does not allow this step after the one before it",
    Reason.EVIDENCE_INVALID: "a bundle, head or stored record contradicts itself or its signature",
    Reason.FILE_MISSING: "a file that should be there is not",
    Reason.PERMISSION_DENIED: "this caller, or this user of the operating system, may not do that",
    Reason.HASH_MISMATCH: "a file does not have the content that was expected of it",
    Reason.PROTECTED: "the file is protected, and the approval does not name it",
    Reason.CONTENT_REFUSED: "the new content needs an approval of its own: broken syntax, a credential, a command",
    Reason.EXECUTABLE_REFUSED: "the new content can be executed, and the approval does not name that file",
    Reason.LIMIT_EXCEEDED: "the plan is larger than a limit in remit.yaml, or than any plan may be",
    Reason.DEPENDENCY_INVALID: "an action depends on one that the plan does not have, or on itself",
    Reason.DEPENDENCY_FAILED: "an action was left out, because one that it depends on was not done",
    Reason.EDIT_NO_MATCH: "what an edit looks for is not in the file",
    Reason.EDIT_OUT_OF_RANGE: "an edit names a line that the file does not have",
    Reason.EDIT_AMBIGUOUS: "an edit fits in more than one place, or its place is shared with another",
    Reason.EDIT_CONFLICT: "what an edit would add is there already",
    Reason.EDIT_UNSUPPORTED: "an edit of this kind cannot be made in this place",
    Reason.NOT_TEXT: "a text edit was asked for, and the file is not UTF-8 text",
    Reason.SYNTAX_BROKEN: "the file that an edit is for is not valid JSON or YAML",
    Reason.SCHEMA_INVALID: "after the edit the file would not be a valid JSON Schema",
    Reason.SQL_REFUSED: "a statement is not for a plan: only reading and changing the tables of one database is",
    Reason.SQL_FAILED: "a statement was run on a copy and did not succeed, or gave no rows where some were expected",
    Reason.DATABASE_BUSY: "another program has the database open",
    Reason.PIPELINE_FAILED: "a pipeline was run on copies, and one of its steps did not succeed",
    Reason.RULE_FAILED: "a rule of the plan does not hold after it was carried out",
    Reason.TIMED_OUT: "it took longer than it may",
    Reason.CANCELLED: "somebody cancelled it",
    Reason.CAPABILITY_MISSING: "the token does not have the capability that this kind of action needs",
    Reason.CONSTRAINT_VIOLATED: "a constraint of the token forbids it: another host, too much money, too many actions",
    Reason.APPROVAL_PENDING: "a person has to say yes first, and nobody has answered yet",
    Reason.APPROVAL_DENIED: "a person was asked and said no, or the question can no longer be answered",
    Reason.APPROVAL_TIMEOUT: "a person was asked and did not answer in time",
    Reason.ELEMENT_MISSING: "the page has no such element, or more than one, or another one covers it",
    Reason.PAGE_CHANGED: "the browser is at another page than the action names, or that page is not as it was",
    Reason.FATE_UNKNOWN: "it was sent or called, and whether that took effect is not known; it is not done again",
    Reason.GOAL_CONFLICT: "the correlation id is another goal's, or the dispatch is not the one that was decided",
    Reason.SIMULATION_UNKNOWN: "the catalogue has no such simulation",
    Reason.SIMULATION_INACTIVE: "the simulation is not ACTIVE for this tenant, or was changed since it was promoted",
    Reason.CONFIRMATION_MISSING: "the simulation needs a person's explicit yes, and there is none for this step",
    Reason.ACCESS_DENIED: "no policy lets this user do that, or a policy forbids it, or none could be asked",
    Reason.ACCESS_NEEDS_APPROVAL: "a policy lets this user do that only with the approval of somebody else",
    Reason.ROLLBACK_MISSING: "the simulation changes something, and names none that would take it back",
    Reason.REPLAY_FAILED: "a decision cannot be made again from what was kept of it, or comes out differently",
    Reason.BACKUP_DAMAGED: "a backup is not what was kept, so nothing was restored",
    Reason.BACKUP_MISSING: "a backup is gone, so nothing was restored",
    Reason.DRIFTED: "a file was changed since the plan ran",
    Reason.ROLLBACK_EXPIRED: "the time in which the plan could be taken back is over",
    Reason.ROLLBACK_FAILED: "what had been done could not be taken back yet",
    Reason.MISUSE: "the calling program broke a rule of the API: a bug to mend there",
    Reason.STATE_UNSAFE: "keys, ledger or settings are, or would be, within reach of somebody else, or cannot be read",
    Reason.STATE_MISSING: "there is no such thing: nothing under this id, no workspace, or a part of its state is gone",
    Reason.STORE_UNAVAILABLE: "the database cannot be reached, opened or used",
    Reason.STORE_OUTDATED: "the database's tables are of another version of Remit; `remit migrate` updates older ones",
    Reason.DISK_FULL: "the disk, or a quota on it, is full; nothing was acknowledged that is not on disk",
    Reason.SANDBOX_UNAVAILABLE: "no confined process could be had on this machine, so nothing was tried",
    Reason.EFFECT_FAILED: "the effect was tried and did not succeed",
    Reason.RESOURCE_EXHAUSTED: "the task used more time, memory or disk traffic than it may",
    Reason.INTERNAL: "something that should not happen: a bug in Remit or in an executor",
}


MAX_MESSAGE: Final = 2_000
RECOVER_ADVICE: Final = (
    "Fix what stands in the way, then end this process and run: remit recover. Do not ask for it under another id."
)
"""The next step after an effect that was begun, and of which it is not known whether it is done."""
GOAL_ADVICE: Final = "Look in a moment at how the goal stands, by its id: remit ledger trace; or run: remit recover"
"""The same for a goal."""
SESSION_GONE: Final = "The session is gone. Navigate, and look at what the site shows before you do anything else."
"""The same for an action in a browser that has ended."""
MAX_MASKED: Final = 10 * MAX_MESSAGE


def render_line(text: str) -> str:
    """Masked, on one line, no terminal escapes, of bounded length: names in it may be an attacker's."""
    # Masked before it is cut or escaped: half a secret no longer looks like one.
    shown = printable(mask_text(text[:MAX_MASKED]))
    return shown if len(shown) <= MAX_MESSAGE else shown[:MAX_MESSAGE] + "..."


def mask_for_review(text: str) -> str:
    """As `render_line`, for what somebody says yes or no to: in doubt it is shown, and never is a host hidden."""
    shown = printable(mask_shown(text[:MAX_MASKED]))
    return shown if len(shown) <= MAX_MESSAGE else shown[:MAX_MESSAGE] + "..."


def _as_it_is(text: str) -> str:
    # Not escaped: an escape sequence in front of a secret would hide where it begins. Half a character no frame takes.
    return text[:MAX_MASKED].encode("utf-8", "replace").decode()


# Each fork of the sandbox pays for all that is loaded there. Nobody sees its errors before the host has made them anew,
# and masked them. Everywhere else masking is loaded with this module: an error must not depend on what can be loaded
# at the moment it is made.
if IN_SANDBOX:
    _render = _as_it_is
else:
    from remit.masking import mask_shown, mask_text

    _render = render_line


class RemitError(Exception):
    """What was wrong, where, and the next step. Masked on construction; safe to print anywhere."""

    exit_code = 1

    def __init__(self, reason: Reason, what: str, *, where: str = "", next_step: str = "") -> None:
        self.reason = reason
        self.what = _render(what)
        self.where = _render(where)
        self.next_step = _render(next_step)
        super().__init__(self.what)

    def __str__(self) -> str:
        place = f" (at {self.where})" if self.where else ""
        advice = f". {self.next_step}" if self.next_step else ""
        return f"{self.what}{place}{advice}"

    def with_changes(
        self, *, what: str | None = None, where: str | None = None, next_step: str | None = None
    ) -> "RemitError":
        """The same problem, with other words or another place; of its plain kind, since a subclass may want more."""
        kinds: tuple[type[RemitError], ...] = (RefusedError, UsageError, EnvironmentFailureError)
        kind = next(kind for kind in kinds if isinstance(self, kind))
        what, where = self.what if what is None else what, self.where if where is None else where
        return kind(self.reason, what, where=where, next_step=self.next_step if next_step is None else next_step)

    def as_json(self) -> dict[str, str]:
        return {"reason": self.reason.value, "what": self.what, "where": self.where, "next_step": self.next_step}


class RefusedError(RemitError):
    """Hostile or wrong data: nothing was touched."""

    exit_code = 2


class UsageError(RemitError):
    """The caller broke a rule of the API: a bug to fix, not an input to handle."""

    exit_code = 2


class EnvironmentFailureError(RemitError):
    """The machine, the store or the disk could not do its part."""

    exit_code = 1


def as_remit_error(problem: Exception) -> RemitError:
    """Our own errors as they are; anything else as an internal failure, named and masked."""
    if isinstance(problem, RemitError):
        return problem
    return EnvironmentFailureError(
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
    Reason.IRREVERSIBLE: "INVALID_LEASE",
    Reason.EXPIRED: "LEASE_EXPIRED",
    Reason.CAPABILITY_UNSUPPORTED: "UNSUPPORTED_CAPABILITY",
    Reason.RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
}


def task_code(reason: Reason) -> TaskCode:
    return TASK_CODES.get(reason, "EXECUTION_FAILED")
