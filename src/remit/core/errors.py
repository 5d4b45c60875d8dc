"""The base error, its three kinds, the reasons, and the closed table of error codes for tasks.

Every error says what is wrong, where, and what to do next. Its text is masked when the error is made, so no handler,
log or report can leak what the input contained. The sandboxed process sends its errors unmasked to the host, which
makes them again and masks them then. Inside Remit an error carries a `Reason`. At the edge of an operation, a table
turns the reason into one of the codes that this operation may return. A reason that is missing from the table becomes
the catch-all code of that operation, so no other code can leave.
"""

import sys
from enum import StrEnum
from typing import Final, Literal

from remit.core.text import printable

SANDBOX_OPTION: Final = "remit-sandbox"
IN_SANDBOX: Final = SANDBOX_OPTION in sys._xoptions  # noqa: SLF001 - documented, whatever its name
"""Whether this is the process from which sandboxed processes are forked. It is started with `-X remit-sandbox`."""


class Reason(StrEnum):
    """The reason for a refusal or a failure. The code tables of the operations are keyed by it."""

    # hostile or wrong data
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    ARGUMENT_INVALID = "argument_invalid"
    AUTHENTICATION_REQUIRED = "authentication_required"
    AUTHORITY_MALFORMED = "authority_malformed"
    ID_TOKEN_INVALID = "id_token_invalid"  # noqa: S105 - the name of a reason
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
    DATABASE_UNREACHABLE = "database_unreachable"
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
    # rollback
    BACKUP_DAMAGED = "backup_damaged"
    BACKUP_MISSING = "backup_missing"
    DRIFTED = "drifted"
    ROLLBACK_EXPIRED = "rollback_expired"
    ROLLBACK_FAILED = "rollback_failed"
    ROLLBACK_IMPOSSIBLE = "rollback_impossible"
    # the caller's bug
    MISUSE = "misuse"
    # the environment's failure
    CONFIG_INVALID = "config_invalid"
    STATE_UNSAFE = "state_unsafe"
    STATE_MISSING = "state_missing"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_OUTDATED = "store_outdated"
    IDENTITY_PROVIDER_UNAVAILABLE = "identity_provider_unavailable"
    DISK_FULL = "disk_full"
    SANDBOX_UNAVAILABLE = "sandbox_unavailable"
    EFFECT_FAILED = "effect_failed"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    INTERNAL = "internal"


MEANING: Final[dict[Reason, str]] = {
    Reason.MALFORMED: "the input breaks its contract: invalid JSON, a wrong type, a missing field or an unknown field",
    Reason.TOO_LARGE: "the input has more bytes or items than Remit reads",
    Reason.TOO_DEEP: "the input is nested deeper than Remit reads",
    Reason.AUTHENTICATION_REQUIRED: "the request carries no credential, or its session has ended",
    Reason.ARGUMENT_INVALID: "an argument or option of the command cannot be used like this",
    Reason.AUTHORITY_MALFORMED: "the lease or token that was sent is not a lease or token, or is incomplete",
    Reason.ID_TOKEN_INVALID: "the ID token of a login is forged or expired, or is for another login or client",
    Reason.SIGNATURE_INVALID: "the signature does not match the document, or was made for another kind of document",
    Reason.KEY_UNKNOWN: "the document is signed with a key that is not in this keyring",
    Reason.KEY_RETIRED: "the document was signed with a key that was already retired",
    Reason.BINDING_MISMATCH: "the authority is genuine, but for another task, capability, executor or content",
    Reason.EXPIRED: "the authority has expired",
    Reason.NOT_YET_VALID: "the authority is dated in the future; probably a clock is wrong",
    Reason.REVOKED: "the authority, or the key that signed it, is revoked",
    Reason.IRREVERSIBLE: "an action cannot be undone, and the approval does not name it",
    Reason.CAPABILITY_UNSUPPORTED: "no registered executor offers this capability",
    Reason.PATH_REFUSED: "the path is outside the allowed directories, leads through a link, or is not a regular file",
    Reason.FILE_CONFLICT: "a file is missing, already exists, or has changed since the preview",
    Reason.IDEMPOTENCY_CONFLICT: "the id belongs to a request with other content, or to one without an outcome yet",
    Reason.IN_PROGRESS: "another process is working on this request and has not finished",
    Reason.TRANSITION_INVALID: "the current state does not allow this step",
    Reason.EVIDENCE_INVALID: "a bundle, a head or a stored record contradicts itself or its signature",
    Reason.FILE_MISSING: "a file that should exist does not exist",
    Reason.PERMISSION_DENIED: "this caller, or this user of the operating system, has no permission for that",
    Reason.HASH_MISMATCH: "a file does not have the expected content",
    Reason.PROTECTED: "the file is protected, and the approval does not name it",
    Reason.CONTENT_REFUSED: "the new content has broken syntax, a credential or a command, and needs its own approval",
    Reason.EXECUTABLE_REFUSED: "the new content can be executed, and the approval does not name that file",
    Reason.LIMIT_EXCEEDED: "the plan is larger than a limit in remit.yaml, or than any plan may be",
    Reason.DEPENDENCY_INVALID: "an action depends on itself, or on an action that is not in the plan",
    Reason.DEPENDENCY_FAILED: "an action was skipped, because an action that it depends on was not carried out",
    Reason.EDIT_NO_MATCH: "the text or value that an edit looks for is not in the file",
    Reason.EDIT_OUT_OF_RANGE: "an edit names a line that the file does not have",
    Reason.EDIT_AMBIGUOUS: "an edit matches more than one place, or its place is shared with another",
    Reason.EDIT_CONFLICT: "the value that an edit would add already exists",
    Reason.EDIT_UNSUPPORTED: "an edit of this kind cannot be made in this place",
    Reason.NOT_TEXT: "the file of a text edit is not UTF-8 text",
    Reason.SYNTAX_BROKEN: "the file of an edit is not valid JSON or YAML",
    Reason.SCHEMA_INVALID: "the file would not be a valid JSON Schema after the edit",
    Reason.SQL_REFUSED: "a plan may not contain this statement: it may only read and change the tables of one database",
    Reason.SQL_FAILED: "a statement failed on a copy of the database, or returned no rows where some were expected",
    Reason.DATABASE_BUSY: "another program is using the database",
    Reason.DATABASE_UNREACHABLE: "the database server cannot be reached, or the connection to it was lost",
    Reason.PIPELINE_FAILED: "a step of a pipeline failed when it was run on copies",
    Reason.RULE_FAILED: "a validation rule of the plan does not hold after the plan was carried out",
    Reason.TIMED_OUT: "the work took longer than its time limit",
    Reason.CANCELLED: "the work was cancelled",
    Reason.CAPABILITY_MISSING: "the token does not have the capability that this kind of action needs",
    Reason.CONSTRAINT_VIOLATED: "a constraint of the token forbids the host, the amount or one more action",
    Reason.APPROVAL_PENDING: "this waits for an approval",
    Reason.APPROVAL_DENIED: "an approver denied this, or the approval request is closed",
    Reason.APPROVAL_TIMEOUT: "no approver answered in time",
    Reason.ELEMENT_MISSING: "the page has no such element, has more than one, or another element covers it",
    Reason.PAGE_CHANGED: "the browser shows another page than the action names, or that page has changed",
    Reason.FATE_UNKNOWN: "it was sent or called, and whether it took effect is unknown; Remit does not repeat it",
    Reason.GOAL_CONFLICT: "the correlation id belongs to another goal, or the dispatch is not the decided one",
    Reason.SIMULATION_UNKNOWN: "the catalogue has no such simulation",
    Reason.SIMULATION_INACTIVE: "the simulation is not ACTIVE for this tenant, or has changed since it was promoted",
    Reason.CONFIRMATION_MISSING: "the simulation needs the user's explicit confirmation, and this step has none",
    Reason.ACCESS_DENIED: "no policy allows this to this user, a policy forbids it, or no policy could be evaluated",
    Reason.ACCESS_NEEDS_APPROVAL: "a policy allows this to this user only with another person's approval",
    Reason.ROLLBACK_MISSING: "the simulation changes something, and names no simulation that would roll it back",
    Reason.REPLAY_FAILED: "a decision cannot be repeated from its stored evidence, or the repeated decision differs",
    Reason.BACKUP_DAMAGED: "a backup is damaged, so nothing was restored",
    Reason.BACKUP_MISSING: "a backup is missing, so nothing was restored",
    Reason.DRIFTED: "a file has changed since the plan ran",
    Reason.ROLLBACK_EXPIRED: "the time in which the plan could be rolled back is over",
    Reason.ROLLBACK_FAILED: "changes that were made could not be undone yet",
    Reason.ROLLBACK_IMPOSSIBLE: "nothing can be rolled back: it changed nothing, did not run, or was abandoned",
    Reason.MISUSE: "the calling program broke a rule of the API; fix the program",
    Reason.CONFIG_INVALID: "remit.yaml, or a variable or file that it names, is invalid or missing",
    Reason.STATE_UNSAFE: "keys, ledger or settings are accessible to other users, would be, or cannot be read",
    Reason.STATE_MISSING: "nothing exists under this id, there is no workspace, or a part of its state is missing",
    Reason.STORE_UNAVAILABLE: "the database cannot be reached, opened or used",
    Reason.STORE_OUTDATED: "the tables are of another version of Remit; `remit migrate` updates older ones",
    Reason.IDENTITY_PROVIDER_UNAVAILABLE: "the identity provider cannot be reached, or gave no usable answer",
    Reason.DISK_FULL: "the disk or a disk quota is full; Remit has reported nothing as done that is not on disk",
    Reason.SANDBOX_UNAVAILABLE: "no sandboxed process could be started on this machine, so nothing was tried",
    Reason.EFFECT_FAILED: "the effect was tried and failed",
    Reason.RESOURCE_EXHAUSTED: "the work used more time, memory or disk traffic than its quota",
    Reason.INTERNAL: "an unexpected error: a bug in Remit or in an executor",
}


NEXT_STEPS: Final[dict[Reason, str]] = {
    Reason.MALFORMED: "Correct the input at the named place. `remit schema` lists the contracts.",
    Reason.TOO_LARGE: "Send less at once.",
    Reason.TOO_DEEP: "Send a flatter document.",
    Reason.ARGUMENT_INVALID: "Read the help of the command: remit COMMAND --help",
    Reason.AUTHORITY_MALFORMED: "Send the lease or token exactly as it was issued.",
    Reason.ID_TOKEN_INVALID: "Log in again. If this continues, check `web.oidc` in remit.yaml and the clocks.",
    Reason.SIGNATURE_INVALID: "Use the document exactly as it was signed, or have it signed again.",
    Reason.KEY_UNKNOWN: "Have the document signed by this workspace. `remit keys list` shows its keys.",
    Reason.KEY_RETIRED: "Have the document signed again, with the current key.",
    Reason.BINDING_MISMATCH: "Request a new authority for exactly this request.",
    Reason.EXPIRED: "Request a new lease, approval or token.",
    Reason.NOT_YET_VALID: "Check the clocks of both machines: remit clock show",
    Reason.REVOKED: "Ask a person for a new lease, approval or token.",
    Reason.IRREVERSIBLE: "Approve the action by name, if you accept that it cannot be undone: --allow-irreversible",
    Reason.CAPABILITY_UNSUPPORTED: "Use a capability of a registered executor.",
    Reason.PATH_REFUSED: "Name a regular file inside the allowed directories.",
    Reason.FILE_CONFLICT: "Look at the file, correct the request and send it again.",
    Reason.IDEMPOTENCY_CONFLICT: "Use a new id for a new request.",
    Reason.IN_PROGRESS: "Wait for the other process. If it has crashed, run: remit recover",
    Reason.TRANSITION_INVALID: "Look at the current state, and decide again.",
    Reason.EVIDENCE_INVALID: "Do not change the database. Run: remit ledger verify",
    Reason.FILE_MISSING: "Create the file, or correct the path.",
    Reason.PERMISSION_DENIED: "Ask a person with this permission. Run: remit doctor",
    Reason.AUTHENTICATION_REQUIRED: "Send a valid token, or log in again.",
    Reason.HASH_MISMATCH: "Look at the current content, and preview the plan again.",
    Reason.PROTECTED: "Approve the file by name, if the plan may change it: --allow-protected",
    Reason.CONTENT_REFUSED: "Correct the content, or approve the file by name: --allow-content",
    Reason.EXECUTABLE_REFUSED: "Approve the file by name, if it may be executed: --allow-executable",
    Reason.LIMIT_EXCEEDED: "Split the plan, or raise the limit in remit.yaml.",
    Reason.DEPENDENCY_INVALID: "Correct `depends_on` of the action.",
    Reason.DEPENDENCY_FAILED: "Look at the error of the action that it depends on.",
    Reason.EDIT_NO_MATCH: "Read the file, and correct the edit.",
    Reason.EDIT_OUT_OF_RANGE: "Read the file, and correct the line numbers.",
    Reason.EDIT_AMBIGUOUS: "Name the place more exactly.",
    Reason.EDIT_CONFLICT: "Change the existing value instead of adding one.",
    Reason.EDIT_UNSUPPORTED: "Use another kind of edit for this place.",
    Reason.NOT_TEXT: "Use `replace_content` with `content_base64` for a binary file.",
    Reason.SYNTAX_BROKEN: "Fix the syntax of the file first.",
    Reason.SCHEMA_INVALID: "Correct the edit, so that the file is a valid JSON Schema.",
    Reason.SQL_REFUSED: "Leave the statement out.",
    Reason.SQL_FAILED: "Correct the statement, and preview the plan again.",
    Reason.DATABASE_BUSY: "Wait until the other program has finished, and try again.",
    Reason.DATABASE_UNREACHABLE: "Check that the server runs, and check the URL of the connection.",
    Reason.PIPELINE_FAILED: "Correct the step of the pipeline, and preview the plan again.",
    Reason.RULE_FAILED: "Correct the plan or its rule, and have it approved again.",
    Reason.TIMED_OUT: "Do less at once, or raise the time limit.",
    Reason.CANCELLED: "Send the request again if it is still wanted.",
    Reason.CAPABILITY_MISSING: "Ask a person for a token with it: remit token issue --sub AGENT --cap CAPABILITY",
    Reason.CONSTRAINT_VIOLATED: "Stay within the constraint, or ask a person for another token.",
    Reason.APPROVAL_PENDING: "Wait for an approver: remit approvals",
    Reason.APPROVAL_DENIED: "Read the approver's reason before you ask again.",
    Reason.APPROVAL_TIMEOUT: "Ask again when an approver is available.",
    Reason.ELEMENT_MISSING: "Take a new snapshot of the page, and name an element of it.",
    Reason.PAGE_CHANGED: "Look at the page again before the next action.",
    Reason.FATE_UNKNOWN: "Check at the receiver whether it took effect. Do not send it again before that.",
    Reason.GOAL_CONFLICT: "Use a new correlation id for another goal.",
    Reason.SIMULATION_UNKNOWN: "`remit catalogue list` shows all simulations.",
    Reason.SIMULATION_INACTIVE: "A person promotes it after a review: remit catalogue promote",
    Reason.CONFIRMATION_MISSING: "Ask the user for a confirmation.",
    Reason.ACCESS_DENIED: "Ask the owner of the policies for access.",
    Reason.ACCESS_NEEDS_APPROVAL: "Another person must approve it: remit approvals",
    Reason.ROLLBACK_MISSING: "Name a simulation that rolls it back in the catalogue.",
    Reason.REPLAY_FAILED: "Keep the evidence as it is. Run: remit ledger verify",
    Reason.BACKUP_DAMAGED: "Restore the file from another backup.",
    Reason.BACKUP_MISSING: "Restore the file from another backup.",
    Reason.DRIFTED: "Look at the change. To replace it: remit rollback --force",
    Reason.ROLLBACK_EXPIRED: "If the backups still exist: remit rollback --force",
    Reason.ROLLBACK_FAILED: "Fix the cause. Then run: remit recover",
    Reason.ROLLBACK_IMPOSSIBLE: "See the report of the run: remit runs",
    Reason.MISUSE: "Fix the calling program.",
    Reason.CONFIG_INVALID: "Correct the setting. `remit doctor` checks all settings.",
    Reason.STATE_UNSAFE: "Restrict access to the state directory. `remit doctor` says how.",
    Reason.STATE_MISSING: "Check the id and the folder. `remit doctor` checks the workspace.",
    Reason.STORE_UNAVAILABLE: "Check that the database runs. Then run: remit doctor",
    Reason.STORE_OUTDATED: "Run: remit migrate",
    Reason.IDENTITY_PROVIDER_UNAVAILABLE: "Try again, or log in with a link: remit people invite NAME --role ROLE",
    Reason.DISK_FULL: "Free some disk space, and try again.",
    Reason.SANDBOX_UNAVAILABLE: "Run: remit doctor",
    Reason.EFFECT_FAILED: "Fix the cause, and send the request again.",
    Reason.RESOURCE_EXHAUSTED: "Do less at once, or raise the limit in remit.yaml.",
    Reason.INTERNAL: "Run again with REMIT_DEBUG=1, and report what it prints.",
}
"""The next step after an error that has no more exact one."""


MAX_MESSAGE: Final = 2_000
RECOVER_ADVICE: Final = (
    "Fix the cause, then end this process and run: remit recover. Do not send the request again under another id."
)
"""The next step after an effect that was started and whose result is unknown."""
GOAL_ADVICE: Final = "Look up the goal by its id in a moment: remit ledger trace. Or run: remit recover"
"""The next step after a goal whose result is unknown."""
SESSION_GONE: Final = "The session has ended. Navigate, and check what the site shows before you do anything else."
"""The next step after an action in a browser session that has ended."""
MAX_MASKED: Final = 10 * MAX_MESSAGE


def render_line(text: str) -> str:
    """Return the text masked, on one line, without terminal escapes, of bounded length.

    It may come from an attacker.
    """
    # Masked before it is cut or escaped: a half secret no longer looks like a secret.
    shown = printable(mask_text(text[:MAX_MASKED]))
    return shown if len(shown) <= MAX_MESSAGE else shown[:MAX_MESSAGE] + "..."


def mask_for_review(text: str) -> str:
    """As `render_line`, for text that a person approves. A doubtful text is shown, and a host is never hidden."""
    shown = printable(mask_shown(text[:MAX_MASKED]))
    return shown if len(shown) <= MAX_MESSAGE else shown[:MAX_MESSAGE] + "..."


def _as_it_is(text: str) -> str:
    # Not escaped: an escape sequence in front of a secret would hide where it begins. A lone surrogate fits in no
    # frame.
    return text[:MAX_MASKED].encode("utf-8", "replace").decode()


# Each fork of the sandbox pays for all that is loaded there. Its errors are not shown before the host has made them
# again and masked them. Everywhere else masking is loaded with this module: an error must not depend on what can be
# loaded at the moment it is made.
if IN_SANDBOX:
    _render = _as_it_is
else:
    from remit.masking import mask_shown, mask_text

    _render = render_line


class RemitError(Exception):
    """The base of all errors of Remit: what is wrong, where, and the next step.

    The text is masked when the error is made, so it can be printed anywhere.

    Args:
        reason: The reason for the refusal or the failure.
        what: What is wrong.
        where: The file, field or object that is concerned.
        next_step: What to do next.
    """

    exit_code = 1
    is_recorded = False
    """Whether the ledger has this refusal. A copy with other words has to be marked again."""

    def __init__(self, reason: Reason, what: str, *, where: str = "", next_step: str = "") -> None:
        self.reason = reason
        self.what = _render(what)
        self.where = _render(where)
        self.next_step = _render(next_step)
        super().__init__(self.what)

    @property
    def advice(self) -> str:
        """What to do next: the next step of this error, or the one of its reason."""
        return self.next_step or NEXT_STEPS[self.reason]

    def __str__(self) -> str:
        place = f" (at {self.where})" if self.where else ""
        advice = f". {self.next_step}" if self.next_step else ""
        return f"{self.what}{place}{advice}"

    def with_changes(
        self, *, what: str | None = None, where: str | None = None, next_step: str | None = None
    ) -> "RemitError":
        """Return the same problem with another text or place.

        The returned error has one of the three base classes, because a subclass may need more arguments.

        Args:
            what: The new text about what is wrong; the same if omitted.
            where: The new place; the same if omitted.
            next_step: The new next step; the same if omitted.

        Returns:
            The new error.
        """
        kinds: tuple[type[RemitError], ...] = (RefusedError, UsageError, EnvironmentFailureError)
        kind = next(kind for kind in kinds if isinstance(self, kind))
        what, where = self.what if what is None else what, self.where if where is None else where
        return kind(self.reason, what, where=where, next_step=self.next_step if next_step is None else next_step)

    def as_json(self) -> dict[str, str]:
        """Return the error as plain JSON values.

        Returns:
            A dictionary with `reason`, `what`, `where` and `next_step`.
        """
        return {"reason": self.reason.value, "what": self.what, "where": self.where, "next_step": self.next_step}


class RefusedError(RemitError):
    """A request was refused, because of hostile or wrong data. Nothing was changed."""

    exit_code = 2


class UsageError(RemitError):
    """The program broke a rule of this API. This is a bug to fix in the program, not an input to handle."""

    exit_code = 2


class EnvironmentFailureError(RemitError):
    """The machine, the store or the disk could not do its part."""

    exit_code = 1


def as_remit_error(problem: Exception) -> RemitError:
    """Return an error of Remit as it is, and any other exception as an internal failure with its name, masked."""
    if isinstance(problem, RemitError):
        return problem
    return EnvironmentFailureError(
        Reason.INTERNAL,
        f"{type(problem).__name__}: {problem}",
        next_step="This is a bug in Remit or in an executor. Run again with REMIT_DEBUG=1 and report what it prints.",
    )


# --- the closed set of codes for tasks --------------------------------------------------------------------------------

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
