"""The stored outcome of a plan, and of its rollback."""

from typing import ClassVar, Literal

from pydantic import Field

from remit.contracts.base import (
    LARGE,
    Contract,
    Identifier,
    KeyId,
    Many,
    ShortText,
    Signature,
    Some,
    Timestamp,
    Uuid,
    Uuid4,
)
from remit.contracts.plans.change_log import ChangeLog
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.report import ExecutionReport
from remit.contracts.plans.rollback import RollbackManifest
from remit.contracts.plans.status import CompletionStatus
from remit.parsing import Bounds


class PlanOutcome(Contract):
    """The outcome of a plan. All its reports can be written again from it."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    status: CompletionStatus = Field(description="The signed status.")
    report: ExecutionReport
    change_log: ChangeLog
    manifest: RollbackManifest | None = Field(
        description="The checkpoints for a rollback; null if there was nothing to keep."
    )
    errors: Many[ErrorResponse]


class PlanRefusal(Contract):
    """The refusal of a plan. Nothing was claimed, and nothing was changed."""

    status: Literal["REFUSED", "CANCELLED"] = Field(
        default="REFUSED", description="CANCELLED: a person or the proposer cancelled the plan before it started."
    )
    envelope_id: Identifier = Field(description="The id of the envelope, if it could be read; otherwise `unknown`.")
    errors: Some[ErrorResponse]


class Kept(Contract):
    """A file or rows that a rollback did not restore, and why."""

    checkpoint_id: Uuid
    reason: ShortText


class RollbackOutcome(Contract):
    """How the rollback of a plan ended. The signature covers every other field."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    order_id: Identifier
    envelope_id: Identifier
    manifest_id: Uuid4
    status: Literal["EXECUTED", "PARTIAL", "FAILED", "REFUSED"] = Field(
        description="EXECUTED: everything that was requested is restored. PARTIAL: some of it is. REFUSED: nothing was"
        " changed."
    )
    restored: Many[Uuid] = Field(description="The checkpoints that this rollback restored.")
    kept: Many[Kept]
    manifest: RollbackManifest = Field(description="The manifest after this rollback.")
    errors: Many[ErrorResponse]
    executed_at: Timestamp
    key_id: KeyId
    signature: Signature
