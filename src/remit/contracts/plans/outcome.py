"""What is stored of a plan that ran, and of one that was taken back."""

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
    """All that came of a plan: enough to write every one of its papers again."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    status: CompletionStatus = Field(description="The signed word of it.")
    report: ExecutionReport
    change_log: ChangeLog
    manifest: RollbackManifest | None = Field(description="The way back; null where nothing was to be kept.")
    errors: Many[ErrorResponse]


class PlanRefusal(Contract):
    """Nothing was claimed, and nothing was done."""

    status: Literal["REFUSED", "CANCELLED"] = Field(
        default="REFUSED", description="CANCELLED: somebody cancelled it before anything was begun."
    )
    envelope_id: Identifier = Field(description="The approval, if it could be read; else `unknown`.")
    errors: Some[ErrorResponse]


class Kept(Contract):
    """What a rollback left as it was, and why."""

    checkpoint_id: Uuid
    reason: ShortText


class RollbackOutcome(Contract):
    """How it ended to take back a plan. The signature covers every other field."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    order_id: Identifier
    envelope_id: Identifier
    manifest_id: Uuid4
    status: Literal["EXECUTED", "PARTIAL", "FAILED", "REFUSED"] = Field(
        description="EXECUTED: all that was asked for is restored. PARTIAL: some of it was kept. REFUSED: untouched."
    )
    restored: Many[Uuid] = Field(description="The checkpoints that this one restored.")
    kept: Many[Kept]
    manifest: RollbackManifest = Field(description="The manifest as it stands now.")
    errors: Many[ErrorResponse]
    executed_at: Timestamp
    key_id: KeyId
    signature: Signature
