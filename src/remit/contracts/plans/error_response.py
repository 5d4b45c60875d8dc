"""The errors of plans, as documents report them."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from remit.contracts.base import Contract, Identifier, RelativePath, Text, Timestamp, Uuid
from remit.contracts.plans.plan import ActionType
from remit.contracts.plans.report import ErrorCode

ErrorCategory = Literal[
    "VALIDATION_ERROR", "FILE_SYSTEM_ERROR", "PERMISSION_ERROR", "DEPENDENCY_ERROR", "INTERNAL_ERROR"
]

CATEGORY_BY_THOUSAND: Final[dict[int, ErrorCategory]] = {
    1: "VALIDATION_ERROR",
    2: "FILE_SYSTEM_ERROR",
    3: "PERMISSION_ERROR",
    4: "DEPENDENCY_ERROR",
    5: "INTERNAL_ERROR",
}


class ErrorDetails(Contract):
    """The action that failed, and its target; null if the error is not about one action."""

    action_id: Identifier | None = None
    target: RelativePath | None = None
    operation: ActionType | None = None


class ErrorResponse(Contract):
    """One error of a plan. The first digit of its code gives its category."""

    error_id: Uuid
    error_code: ErrorCode
    error_category: ErrorCategory
    error_type: Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
    message: Text
    details: ErrorDetails
    recovery_action: Literal["SKIPPED", "ROLLED_BACK", "MANUAL_REQUIRED"]
    timestamp: Timestamp

    @model_validator(mode="after")
    def _check_category(self) -> Self:
        if CATEGORY_BY_THOUSAND[self.error_code // 1000] != self.error_category:
            raise ValueError("error_category does not fit the range of error_code")
        return self
