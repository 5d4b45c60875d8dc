"""The closed set of error codes of plans: a table from Remit's reasons to their numbers."""

from typing import Final, NamedTuple

from remit.contracts.plans.error_response import CATEGORY_BY_THOUSAND, ErrorCategory
from remit.core.errors import Reason


class PlanError(NamedTuple):
    code: int
    kind: str
    """The value of `error_type` in documents."""

    @property
    def category(self) -> ErrorCategory:
        return CATEGORY_BY_THOUSAND[self.code // 1000]


_MALFORMED: Final = PlanError(1001, "PLAN_MALFORMED")
_NOT_APPROVED: Final = PlanError(1002, "NOT_APPROVED")
_BINDING: Final = PlanError(1003, "BINDING_MISMATCH")
_UNAVAILABLE: Final = PlanError(5005, "STATE_UNAVAILABLE")
INTERNAL: Final = PlanError(5000, "INTERNAL_ERROR")

PLAN_CODES: Final[dict[Reason, PlanError]] = {
    Reason.MALFORMED: _MALFORMED,
    Reason.TOO_LARGE: _MALFORMED,
    Reason.TOO_DEEP: _MALFORMED,
    Reason.AUTHORITY_MALFORMED: _MALFORMED,
    Reason.MISUSE: _MALFORMED,
    Reason.ID_TOKEN_INVALID: _NOT_APPROVED,
    Reason.SIGNATURE_INVALID: _NOT_APPROVED,
    Reason.KEY_UNKNOWN: _NOT_APPROVED,
    Reason.KEY_RETIRED: _NOT_APPROVED,
    Reason.REVOKED: _NOT_APPROVED,
    Reason.IRREVERSIBLE: _NOT_APPROVED,
    Reason.NOT_YET_VALID: _NOT_APPROVED,
    Reason.APPROVAL_PENDING: _NOT_APPROVED,
    Reason.APPROVAL_DENIED: _NOT_APPROVED,
    Reason.APPROVAL_TIMEOUT: _NOT_APPROVED,
    Reason.BINDING_MISMATCH: _BINDING,
    Reason.IDEMPOTENCY_CONFLICT: _BINDING,
    Reason.EXPIRED: PlanError(1004, "AUTHORITY_EXPIRED"),
    Reason.PATH_REFUSED: PlanError(1005, "PATH_REFUSED"),
    Reason.PROTECTED: PlanError(1006, "PROTECTED_FILE"),
    Reason.CONTENT_REFUSED: PlanError(1007, "CONTENT_REFUSED"),
    Reason.LIMIT_EXCEEDED: PlanError(1008, "LIMIT_EXCEEDED"),
    Reason.CAPABILITY_UNSUPPORTED: PlanError(1010, "UNSUPPORTED_OPERATION"),
    Reason.EXECUTABLE_REFUSED: PlanError(1011, "EXECUTABLE_CONTENT"),
    Reason.ROLLBACK_EXPIRED: PlanError(1012, "ROLLBACK_EXPIRED"),
    Reason.CONFIG_INVALID: PlanError(1013, "CONFIG_INVALID"),
    Reason.ROLLBACK_IMPOSSIBLE: PlanError(1014, "ROLLBACK_IMPOSSIBLE"),
    Reason.ARGUMENT_INVALID: PlanError(1015, "ARGUMENT_INVALID"),
    Reason.TRANSITION_INVALID: PlanError(1016, "TRANSITION_INVALID"),
    Reason.EDIT_NO_MATCH: PlanError(1101, "NO_MATCH"),
    Reason.EDIT_OUT_OF_RANGE: PlanError(1102, "OUT_OF_RANGE"),
    Reason.EDIT_AMBIGUOUS: PlanError(1103, "AMBIGUOUS"),
    Reason.EDIT_CONFLICT: PlanError(1104, "EDIT_CONFLICT"),
    Reason.EDIT_UNSUPPORTED: PlanError(1106, "EDIT_UNSUPPORTED"),
    Reason.NOT_TEXT: PlanError(1107, "NOT_TEXT"),
    Reason.SYNTAX_BROKEN: PlanError(1108, "SYNTAX_BROKEN"),
    Reason.SCHEMA_INVALID: PlanError(1109, "SCHEMA_INVALID"),
    Reason.SQL_REFUSED: PlanError(1110, "SQL_REFUSED"),
    Reason.SQL_FAILED: PlanError(1111, "SQL_FAILED"),
    Reason.PIPELINE_FAILED: PlanError(1112, "PIPELINE_FAILED"),
    Reason.RULE_FAILED: PlanError(1201, "RULE_FAILED"),
    Reason.FILE_MISSING: PlanError(2001, "FILE_NOT_FOUND"),
    Reason.FILE_CONFLICT: PlanError(2002, "FILE_EXISTS"),
    Reason.HASH_MISMATCH: PlanError(2003, "HASH_MISMATCH"),
    Reason.DISK_FULL: PlanError(2004, "DISK_FULL"),
    Reason.EFFECT_FAILED: PlanError(2005, "FILE_SYSTEM_FAILED"),
    Reason.BACKUP_DAMAGED: PlanError(2008, "BACKUP_DAMAGED"),
    Reason.DRIFTED: PlanError(2009, "FILE_DRIFTED"),
    Reason.BACKUP_MISSING: PlanError(2010, "BACKUP_MISSING"),
    Reason.DATABASE_BUSY: PlanError(2011, "DATABASE_BUSY"),
    Reason.DATABASE_UNREACHABLE: PlanError(2012, "DATABASE_UNREACHABLE"),
    Reason.PERMISSION_DENIED: PlanError(3001, "PERMISSION_DENIED"),
    Reason.CAPABILITY_MISSING: _NOT_APPROVED,
    Reason.CONSTRAINT_VIOLATED: _NOT_APPROVED,
    Reason.DEPENDENCY_INVALID: PlanError(4001, "DEPENDENCY_INVALID"),
    Reason.DEPENDENCY_FAILED: PlanError(4003, "DEPENDENCY_FAILED"),
    Reason.INTERNAL: INTERNAL,
    Reason.TIMED_OUT: PlanError(5001, "TIMED_OUT"),
    Reason.RESOURCE_EXHAUSTED: PlanError(5002, "RESOURCE_EXHAUSTED"),
    Reason.SANDBOX_UNAVAILABLE: PlanError(5003, "SANDBOX_UNAVAILABLE"),
    Reason.ROLLBACK_FAILED: PlanError(5004, "ROLLBACK_FAILED"),
    Reason.STATE_UNSAFE: _UNAVAILABLE,
    Reason.STATE_MISSING: _UNAVAILABLE,
    Reason.STORE_UNAVAILABLE: _UNAVAILABLE,
    Reason.STORE_OUTDATED: _UNAVAILABLE,
    Reason.IDENTITY_PROVIDER_UNAVAILABLE: _UNAVAILABLE,
    Reason.EVIDENCE_INVALID: _UNAVAILABLE,
    Reason.IN_PROGRESS: _UNAVAILABLE,
    Reason.CANCELLED: PlanError(5006, "CANCELLED"),
}


def plan_error(reason: Reason) -> PlanError:
    return PLAN_CODES.get(reason, INTERNAL)
