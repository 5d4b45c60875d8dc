"""The answers about plans that an agent receives: those for people, field by field, with null for withheld values.

A zero or an empty list would be a statement, such as "nothing was changed" or "nothing would fail". Null says that the
value is withheld. These models are used for answers only. Stored and signed documents use the contracts for people,
which have no nulls in these fields.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from remit.contracts.base import (
    LARGE,
    Contract,
    Count,
    Digest,
    Identifier,
    LongText,
    Many,
    Name,
    RelativePath,
    RiskLevel,
    ShortText,
    Text,
    Timestamp,
    Uuid,
    Uuid4,
)
from remit.contracts.plans.change_log import FileOperation
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.preview import (
    MAX_FINDINGS,
    NeededApprovals,
    PreviewedFile,
    PreviewedFinding,
    PreviewedRemark,
)
from remit.contracts.plans.report import Version
from remit.contracts.plans.sql_report import MAX_PARAMETERS_TOLD, ShownParameter, SqlPreviewed, StatementText
from remit.contracts.plans.status import PlanStatus
from remit.contracts.services.common import ErrorTold
from remit.contracts.services.plans import UndoTold
from remit.parsing import Bounds

Parameters = Annotated[tuple[ShownParameter, ...], Field(strict=False, max_length=MAX_PARAMETERS_TOLD)]


class AgentPreviewedFile(Contract):
    """One action on a file. Lines, a digest and a size are there only if the agent sent the whole file."""

    action_id: Identifier
    path: RelativePath
    new_path: RelativePath | None
    operation: FileOperation
    before: None = None
    after: Digest | None = Field(description="The digest of the content that the agent sent; null: withheld.")
    mode_before: None = None
    mode_after: None = None
    size_before: None = None
    size_after: Count | None = Field(description="The bytes of the content that the agent sent; null: withheld.")
    lines_added: Count | None = Field(description="The lines of the content that the agent sent; null: withheld.")
    lines_removed: None = None
    diff: LongText | None = Field(description="The agent's own lines, masked; null: withheld.")
    diff_left_out: Count | None = Field(description="The agent's own lines that are not shown; null: withheld.")


class AgentPreviewedSql(Contract):
    """One action that runs SQL: the agent's own statements and values."""

    action_id: Identifier
    connection: Name
    database: None = None
    changes_database: None = None
    statements: None = None
    left_out: None = None
    result_rows: None = None
    columns: None = None
    saved_to: RelativePath | None
    query_file: RelativePath | None
    rows: None = None
    texts: Annotated[tuple[StatementText, ...], Field(strict=False, max_length=1)] | None = Field(
        description="The statements that the agent sent; null: they are in a file and withheld."
    )
    parameters: Parameters
    unseen: None = None
    replaces: None = None


class AgentPreviewedPipeline(Contract):
    """One action that runs a pipeline: its name and the agent's own values."""

    action_id: Identifier
    pipeline: Name
    kind: Literal["sql", "python", "dbt"] | None
    reversible: bool
    steps: None = None
    left_out: None = None
    changes: None = None
    log: None = None
    parameters: Parameters


class AgentNeededApprovals(Contract):
    """The names that an approval must give beyond the plan, as far as its text shows them."""

    protected: Many[RelativePath]
    executable: Many[RelativePath]
    content: Many[RelativePath]
    irreversible: Many[Identifier] | None = Field(
        description="The actions that cannot be rolled back; null: unknown, because it depends on the tables."
    )


class AgentPlanPreview(Contract):
    """The preview of a plan for its agent, with the content that the agent sent. Null: withheld, shown to people."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    plan_id: Identifier
    plan_digest: Digest
    config_digest: None = None
    preview_digest: None = Field(default=None, alias="digest")
    status: Literal["WITHHELD"] = Field(
        description="Withheld, because whether the plan would succeed depends on the content of files."
    )
    risk: RiskLevel = Field(
        description="The risk by the text of the plan and the configuration. The content of files may raise it."
    )
    inputs: None = None
    files: Many[AgentPreviewedFile]
    sql: Many[AgentPreviewedSql] = ()
    pipelines: Many[AgentPreviewedPipeline] = ()
    needs: AgentNeededApprovals = Field(
        description="The approvals that the text of the plan needs. The content of files may add to them."
    )
    findings: Annotated[tuple[PreviewedFinding, ...], Field(strict=False, max_length=MAX_FINDINGS)] = Field(
        description="Findings in files whose whole content the agent sent."
    )
    remarks: None = None
    problems: None = Field(default=None, description="Whether anything would fail is withheld.")
    doomed: None = None
    would_end: None = None
    consequence: None = None
    rules: Many[Text]
    folders: None = None
    backup_bytes: None = None
    withheld: Text = Field(description="Why an agent sees less than a person.")


class AgentReadPreview(Contract):
    """The preview of a plan for an agent that may read all of it (`plan.read`), as people see it.

    It is shown from the end of its turn, about 5 seconds after the proposal. It has the fields of the preview for
    people without digests of inputs, also as part of other digests.
    """

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    plan_id: Identifier
    plan_digest: Digest
    config_digest: None = None
    preview_digest: None = Field(default=None, alias="digest")
    status: Literal["READY", "NEEDS_APPROVAL", "WOULD_FAIL"]
    risk: RiskLevel
    risk_reasons: Many[ShortText] = ()
    inputs: None = None
    files: Many[PreviewedFile]
    sql: Many[SqlPreviewed] = ()
    pipelines: None = Field(default=None, description="A plan with a pipeline is never shown so.")
    needs: NeededApprovals
    findings: Annotated[tuple[PreviewedFinding, ...], Field(strict=False, max_length=MAX_FINDINGS)]
    remarks: Many[PreviewedRemark] = ()
    problems: Many[ErrorResponse] = Field(description="The expected failures, action by action.")
    doomed: bool
    would_end: PlanStatus | None
    consequence: Text
    rules: Many[Text]
    folders: Many[RelativePath]
    backup_bytes: Count
    withheld: Text = Field(description="Why an agent sees it, and what it does not see.")


def _document_kind(value: Any) -> str:
    status = value.get("status") if isinstance(value, dict) else getattr(value, "status", None)
    return "text" if status == "WITHHELD" else "read"


AgentDocument = Annotated[
    Annotated[AgentPlanPreview, Tag("text")] | Annotated[AgentReadPreview, Tag("read")], Discriminator(_document_kind)
]
"""The status says which one it is: WITHHELD for the document that is made of the plan's text."""


class AgentProposalPreview(Contract):
    """The preview of a proposed plan for its agent."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (2 << 20))

    proposal_id: Uuid
    preview_digest: None = None
    document: AgentDocument
    changed_since: None = None
    computed_at: None = None
    computed_by: None = None


class AgentActionsSummary(Contract):
    """The numbers of actions. `total` is that of the plan. The others are given for a SUCCESS only, which implies
    them.
    """

    total: Count
    completed: Count | None
    failed: Count | None
    skipped: Count | None


class AgentReport(Contract):
    """How the run of a plan ended. Null: withheld, and shown to people."""

    report_id: Uuid4
    plan_id: Identifier
    executor_version: Version
    status: PlanStatus
    started_at: None = None
    completed_at: Timestamp
    duration_ms: None = None
    actions_summary: AgentActionsSummary
    actions_completed: None = None
    actions_failed: None = None
    actions_skipped: None = None
    rollback_performed: bool | None = Field(description="Null for a CANCELLED run: withheld.")
    rollback_manifest_id: Uuid4 | None
    warnings: None = None


class AgentChangeLog(Contract):
    """The ids of a change log. Its content is shown to people."""

    log_id: Uuid4
    plan_id: Identifier
    execution_report_id: Uuid4
    created_at: Timestamp
    changes: None = None
    files_affected_count: None = None
    total_lines_changed: None = None


class AgentRunDocuments(Contract):
    """The documents of a run, for the agent of its plan. Null: withheld, and shown to people."""

    status: None = None
    report: AgentReport
    change_log: AgentChangeLog
    manifest: None = None
    errors: None = None
    rollbacks: None = None
    withheld: Text = Field(description="Why an agent sees less than a person.")


class AgentUndoAnswer(Contract):
    """How the undo of a run ended. Null: withheld, and shown to people. REFUSED: nothing was changed."""

    status: Literal["EXECUTED", "PARTIAL", "FAILED", "REFUSED"]
    envelope_id: Identifier
    stored: bool = Field(default=False, description="The run was undone before; nothing was changed now.")
    restored: None = None
    kept: None = None
    drifted: None = None
    drift_digest: None = None
    refused: ErrorTold | None = None
    errors: None = None
    set_aside: None = None
    withheld: Text = Field(description="Why an agent sees less than a person.")


class AgentUndoLook(Contract):
    """Whether a run can be undone, by its status alone. Null: withheld, and shown to people."""

    envelope_id: Identifier
    undo: UndoTold
    drifted: None = None
    drift_digest: None = None
    set_aside: None = None
    withheld: Text = Field(description="Why an agent sees less than a person.")
