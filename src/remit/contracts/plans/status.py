"""The status of a plan: unsigned updates while it runs, and the signed status at its end."""

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

    envelope_id: Identifier = Field(description="The envelope under which it ran.")
    plan_id: Identifier = Field(description="The plan in the envelope.")
    report_id: Uuid4 = Field(description="The report of this run.")
    status: PlanStatus = Field(description="How the run ended.")
    executor_id: Identifier = Field(
        description="The executor; it ends with `+unsafe-none` if nothing confined the run."
    )
    executor_version: Version = Field(description="The version of Remit.")
    completed_at: Timestamp = Field(description="When the run ended.")
    folder: RelativePath = Field(description="The folder with its report, change log and manifest, below the root.")
    report_digest: Digest = Field(description="The digest of the report's canonical form.")
    change_log_digest: Digest = Field(description="The digest of the change log's canonical form.")
    manifest_digest: Digest | None = Field(
        description="The digest of the manifest's canonical form; null if there is none."
    )
    key_id: KeyId = Field(description="The executor key that signed it.")
    signature: Signature = Field(description="Covers every other field.")


class StatusUpdate(Contract):
    """The progress of a running plan. It is not signed, and kept only in the log."""

    envelope_id: Identifier
    plan_id: Identifier
    phase: Literal["CHECKING", "CHECKPOINT", "RUNNING", "VERIFYING", "ROLLING_BACK", "REPORTING"]
    done: Count
    total: Count
    what: ShortText = Field(default="", description="The current part of the work, such as a step of a pipeline.")
    at: Timestamp
