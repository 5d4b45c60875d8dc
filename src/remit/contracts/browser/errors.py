"""The nine errors of browser actions, each with its own payload, and the codes that may be tried again."""

from typing import Annotated, Final, Literal

from pydantic import Field

from remit.contracts.base import Contract, OneOf, ShortText, Text

Capability = Literal[
    "browser.navigate",
    "browser.click",
    "browser.type",
    "browser.screenshot",
    "browser.snapshot",
    "browser.submit",
    "browser.purchase",
]

DOMAIN_NOT_ALLOWED: Final = "Domain not allowed"
AMOUNT_EXCEEDS_LIMIT: Final = "Amount exceeds limit"
USER_DENIED: Final = "User denied"
NOT_SENT: Final = "not sent"
"""The beginning of the reason of a KERNEL_ERROR if it is certain that nothing was sent after the action started."""

MAX_RETRIES: Final = 3
RETRYABLE_CODES: Final = frozenset({"KERNEL_ERROR", "ELEMENT_NOT_FOUND"})
BACKOFF_INITIAL_MS: Final = 1_000
BACKOFF_MULTIPLIER: Final = 2
BACKOFF_MAX_MS: Final = 10_000


class TokenInvalid(Contract):
    code: Literal["TOKEN_INVALID"]
    message: Text


class TokenExpired(Contract):
    code: Literal["TOKEN_EXPIRED"]
    message: Text


class TokenRevoked(Contract):
    code: Literal["TOKEN_REVOKED"]
    message: Text


class CapabilityMissing(Contract):
    code: Literal["CAPABILITY_MISSING"]
    required: Capability


class ConstraintViolated(Contract):
    code: Literal["CONSTRAINT_VIOLATED"]
    constraint: ShortText


class ApprovalDenied(Contract):
    code: Literal["APPROVAL_DENIED"]
    message: Text


class ApprovalTimeout(Contract):
    code: Literal["APPROVAL_TIMEOUT"]
    message: Text


class KernelError(Contract):
    code: Literal["KERNEL_ERROR"]
    message: Text


class ElementNotFound(Contract):
    code: Literal["ELEMENT_NOT_FOUND"]
    selector: ShortText


AnyExecutorError = (
    TokenInvalid
    | TokenExpired
    | TokenRevoked
    | CapabilityMissing
    | ConstraintViolated
    | ApprovalDenied
    | ApprovalTimeout
    | KernelError
    | ElementNotFound
)

ExecutorError = Annotated[AnyExecutorError, Field(discriminator="code")]

EXECUTOR_ERROR: Final[OneOf[AnyExecutorError]] = OneOf(
    ExecutorError, "ExecutorError", "Why a browser action was refused or failed, with the known details."
)
