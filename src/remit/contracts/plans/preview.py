"""What a plan would do, for people and programs: what `remit preview --json` prints."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from remit.contracts.base import (
    LARGE,
    Contract,
    Count,
    Digest,
    Identifier,
    LongText,
    Many,
    RelativePath,
    RiskLevel,
    ShortText,
    Text,
)
from remit.contracts.plans.change_log import FileOperation
from remit.contracts.plans.envelope import ApprovedInput, FileMode
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.sql_report import MAX_PARAMETERS_TOLD, ShownParameter, SqlPreviewed
from remit.contracts.plans.status import PlanStatus
from remit.parsing import Bounds

MAX_FINDINGS: Final = 5_000
MAX_REMARKS: Final = 1_000

FindingRule = Literal["syntax", "object_tag", "command", "credential", "not_shown", "executable"]


class PreviewedFile(Contract):
    """One change that the plan would make."""

    action_id: Identifier
    path: RelativePath
    new_path: RelativePath | None
    operation: FileOperation
    before: Digest | None = Field(description="Of the bytes that are there; null if there is no such file.")
    after: Digest | None = Field(description="Of the bytes that would be there; null if the file would be gone.")
    mode_before: FileMode | None = Field(
        default=None, description="The permissions of the file that is there; null if there is none."
    )
    mode_after: FileMode | None = Field(
        default=None, description="The permissions that the file would have; null if it would be gone."
    )
    size_before: Count | None = Field(default=None, description="In bytes; null if there is no such file.")
    size_after: Count | None = Field(default=None, description="In bytes; null if the file would be gone.")
    lines_added: Count
    lines_removed: Count
    diff: LongText = Field(description="Unified and masked; binary files have a sentence.")
    diff_left_out: Count = Field(description="Lines of the diff that are not shown.")


class PreviewedFinding(Contract):
    """Something in the content that needs an approval of its own."""

    path: RelativePath
    rule: FindingRule
    where: ShortText
    what: Text


class PreviewedRemark(Contract):
    """Something in the content that a reader should know, and that needs no approval."""

    path: RelativePath
    what: Text


class NeededApprovals(Contract):
    """What an approval must name beyond the plan."""

    protected: Many[RelativePath]
    executable: Many[RelativePath]
    content: Many[RelativePath]
    irreversible: Many[Identifier]


class PipelinePreviewed(PipelineTold):
    """With what nobody keeps: the values that the plan gives it, masked."""

    parameters: Annotated[tuple[ShownParameter, ...], Field(strict=False, max_length=MAX_PARAMETERS_TOLD)] = ()


class PlanPreviewDocument(Contract):
    """The exact effect of a plan on the files as they are now. `digest` is what an approval of it binds."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    plan_id: Identifier
    plan_digest: Digest
    config_digest: Digest
    preview_digest: Digest = Field(alias="digest")
    status: Literal["READY", "NEEDS_APPROVAL", "WOULD_FAIL", "WITHHELD"] = Field(
        description="WITHHELD: the reader is an agent, and whether the plan would succeed depends on what files hold."
    )
    risk: RiskLevel
    inputs: Many[ApprovedInput]
    files: Many[PreviewedFile]
    sql: Many[SqlPreviewed] = Field(
        default=(), description="What each action that runs SQL did on a copy of its database."
    )
    pipelines: Many[PipelinePreviewed] = Field(
        default=(), description="What each action that runs a pipeline did on copies of its files."
    )
    needs: NeededApprovals
    findings: Annotated[tuple[PreviewedFinding, ...], Field(strict=False, max_length=MAX_FINDINGS)]
    remarks: Many[PreviewedRemark] = ()
    problems: Many[ErrorResponse] = Field(description="What would fail, action by action.")
    doomed: bool = Field(
        default=False, description="The plan stops at errors, and there is one: nothing of it would be begun."
    )
    would_end: PlanStatus | None = Field(
        default="SUCCESS", description="The status of a run on the files as they are now; null: withheld."
    )
    consequence: Text = Field(
        default="", description="What becomes of the rest if there are problems, in a sentence; else empty."
    )
    rules: Many[Text] = Field(description="What would be checked after the run, one sentence for each rule.")
    folders: Many[RelativePath] = Field(description="Folders that would be made.")
    backup_bytes: Count
    withheld: Text | None = Field(
        default=None,
        description="Why an agent is shown less than a person; null: nothing is withheld. An agent's preview has null"
        " in the place of everything that is withheld.",
    )
