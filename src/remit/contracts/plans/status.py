"""What the protocol layer is told about a plan: while it runs, and when it has ended."""

from typing import Literal

from pydantic import Field

from remit.contracts.base import (
    Contract,
    Count,
    Digest,
    Identifier,
    KeyId,
    RelativePath,
    ShortText,
    Signature,
    Timestamp,
    Uuid4,
)
from remit.contracts.plans.report import Version

PlanStatus = Literal["SUCCESS", "PARTIAL", "FAILED", "ROLLED_BACK", "CANCELLED"]


class CompletionStatus(Contract):
    """How the run of an approved plan ended, signed by the executor. The signature covers every other field."""

    envelope_id: Identifier = Field(description="The approval that was used up.")
    plan_id: Identifier = Field(description="The plan in it.")
    report_id: Uuid4 = Field(description="The report of this run.")
    status: PlanStatus = Field(description="How it ended.")
    executor_id: Identifier = Field(description="Who ran it; `+unsafe-none` at the end if nothing confined it.")
    executor_version: Version = Field(description="The version of Remit.")
    completed_at: Timestamp = Field(description="When it ended.")
    folder: RelativePath = Field(description="Where its report, change log and manifest lie, below the root.")
    report_digest: Digest = Field(description="Of the report's canonical form.")
    change_log_digest: Digest = Field(description="Of the change log's canonical form.")
    manifest_digest: Digest | None = Field(description="Of the manifest's canonical form; null if there is none.")
    key_id: KeyId = Field(description="The executor key that signed it.")
    signature: Signature = Field(description="Covers every other field.")


class StatusUpdate(Contract):
    """Where a plan is while it runs. Not signed, and kept nowhere but in the log."""

    envelope_id: Identifier
    plan_id: Identifier
    phase: Literal["CHECKING", "CHECKPOINT", "RUNNING", "VERIFYING", "ROLLING_BACK", "REPORTING"]
    done: Count
    total: Count
    what: ShortText = Field(default="", description="What is being worked on, such as a step of a pipeline.")
    at: Timestamp
