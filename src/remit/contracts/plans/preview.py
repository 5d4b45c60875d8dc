"""The preview of a plan, for people and programs. `remit preview --json` prints it."""

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
    Timestamp,
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
    before: Digest | None = Field(description="The digest of the current bytes; null if the file does not exist.")
    after: Digest | None = Field(
        description="The digest of the bytes after the change; null if the file would be gone."
    )
    mode_before: FileMode | None = Field(
        default=None, description="The current permissions of the file; null if it does not exist."
    )
    mode_after: FileMode | None = Field(
        default=None, description="The permissions of the file after the change; null if it would be gone."
    )
    size_before: Count | None = Field(default=None, description="In bytes; null if the file does not exist.")
    size_after: Count | None = Field(default=None, description="In bytes; null if the file would be gone.")
    lines_added: Count
    lines_removed: Count
    diff: LongText = Field(description="Unified and masked. For a binary file, a sentence instead.")
    diff_left_out: Count = Field(description="The number of lines of the diff that are not shown.")


class PreviewedFinding(Contract):
    """Something in the content that needs its own approval."""

    path: RelativePath
    rule: FindingRule
    where: ShortText
    what: Text


class PreviewedRemark(Contract):
    """Something in the content that a reader should know. It needs no approval."""

    path: RelativePath
    what: Text


class NeededApprovals(Contract):
    """The names that an approval must give beyond the plan."""

    protected: Many[RelativePath]
    executable: Many[RelativePath]
    content: Many[RelativePath]
    irreversible: Many[Identifier]


class PipelinePreviewed(PipelineTold):
    """The report on a pipeline with the masked values of its parameters, which a report on a run does not have."""

    parameters: Annotated[tuple[ShownParameter, ...], Field(strict=False, max_length=MAX_PARAMETERS_TOLD)] = ()


class PreparedOutput(Contract):
    """A file that SQL or a pipeline made when the preview was computed. `apply` puts exactly these bytes in place."""

    action_id: Identifier
    path: RelativePath
    output_digest: Digest = Field(alias="digest")
    size: Count = Field(description="In bytes.")


class ActionCost(Contract):
    """The time that one action took when the preview was computed."""

    action_id: Identifier
    milliseconds: Count


class PreviewCosts(Contract):
    """What computing the preview cost."""

    milliseconds: Count = Field(description="The time for the whole preview.")
    actions: Many[ActionCost] = Field(default=(), description="The actions that ran SQL or a pipeline.")
    output_bytes: Count = Field(default=0, description="The size of all `outputs`, which Remit keeps until it applies.")


class PlanPreviewDocument(Contract):
    """The exact effect of a plan on the files as they are now. An approval is bound to `digest`.

    It is computed once and stored under `digest`, which covers the plan, the configuration, every input and every
    output. People, programs and `apply` use the stored document.
    """

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    plan_id: Identifier
    plan_digest: Digest
    config_digest: Digest
    preview_digest: Digest = Field(alias="digest")
    status: Literal["READY", "NEEDS_APPROVAL", "WOULD_FAIL", "WITHHELD"] = Field(
        description="WITHHELD: the reader is an agent, and whether the plan would succeed depends on the files."
    )
    risk: RiskLevel
    risk_reasons: Many[ShortText] = Field(
        default=(), description="Why the risk is not lower: each cause of this level, in a few words."
    )
    inputs: Many[ApprovedInput]
    files: Many[PreviewedFile]
    sql: Many[SqlPreviewed] = Field(
        default=(), description="The effect of each action that runs SQL, on a copy of its database."
    )
    pipelines: Many[PipelinePreviewed] = Field(
        default=(), description="The effect of each action that runs a pipeline, on copies of its files."
    )
    needs: NeededApprovals
    findings: Annotated[tuple[PreviewedFinding, ...], Field(strict=False, max_length=MAX_FINDINGS)]
    remarks: Many[PreviewedRemark] = ()
    problems: Many[ErrorResponse] = Field(description="The expected failures, action by action.")
    doomed: bool = Field(
        default=False, description="The plan stops at errors and has one, so no action of it would start."
    )
    would_end: PlanStatus | None = Field(
        default="SUCCESS", description="The status of a run on the files as they are now; null: withheld."
    )
    consequence: Text = Field(
        default="", description="The consequence of the problems for the whole plan, in a sentence; empty if none."
    )
    rules: Many[Text] = Field(description="The checks after the run, one sentence for each rule.")
    folders: Many[RelativePath] = Field(description="Folders that would be created.")
    backup_bytes: Count
    outputs: Many[PreparedOutput] = Field(
        default=(), description="The files that SQL and pipelines made for this preview, as `apply` puts them in place."
    )
    costs: PreviewCosts | None = Field(
        default=None, description="What computing the preview cost; null if an earlier version computed it."
    )
    undo: Text = Field(
        default="", description="What can be undone after the run, and how; empty if nothing would change."
    )
    computed_at: Timestamp | None = Field(default=None, description="When the preview was computed.")
    expires_at: Timestamp | None = Field(
        default=None,
        description="Until when it can be approved. An approval keeps it, and what it refers to, until the approval"
        " expires.",
    )
    free_of_credentials: bool = Field(
        default=False,
        description="Whether every file that the plan changes or runs was searched in full, before and after, and holds"
        " nothing that looks like a credential. An agent is shown no other preview.",
    )
    withheld: Text | None = Field(
        default=None,
        description="Why an agent sees less than a person; null: nothing is withheld. An agent's preview has null for"
        " each withheld value.",
    )

    @property
    def would_change(self) -> bool:
        """Whether changes of the plan would stay."""
        return self.would_end in {"SUCCESS", "PARTIAL"}

    @property
    def breaks_rule(self) -> bool:
        """Whether every action could be done, and then a rule would not hold, so that all of them would be undone."""
        return any(problem.details.action_id is None for problem in self.problems)

    @property
    def cannot_be_approved(self) -> bool:
        """Whether the plan would stop at an error, or a rule would not hold. Then no change of it would stay."""
        return self.doomed or self.breaks_rule
