"""Proposed plans in the answers of the services: pending proposals, previews, and the progress and outcome of runs."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from remit.contracts.base import (
    LARGE,
    Contract,
    Count,
    Digest,
    Identifier,
    Many,
    RelativePath,
    RiskLevel,
    ShortText,
    Text,
    Timestamp,
    Uuid,
)
from remit.contracts.plans.change_log import ChangeLog
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.plans.proposal import MAX_NOTE
from remit.contracts.plans.report import ExecutionReport
from remit.contracts.plans.rollback import RollbackManifest
from remit.contracts.plans.status import CompletionStatus
from remit.contracts.services.common import ErrorTold, Link, Page, PreviewProblem, PreviewState, Progress
from remit.parsing import Bounds

MAX_PAGE: Final = 200

ProposalState = Literal[
    "PENDING",
    "APPROVED",
    "DENIED",
    "EXPIRED",
    "VOID",
    "RUNNING",
    "UNFINISHED",
    "APPLIED",
    "PARTIAL",
    "FAILED",
    "ROLLED_BACK",
    "CANCELLED",
    "UNDONE",
    "NOT_VOUCHED_FOR",
]
"""UNFINISHED: the process that ran the plan is gone. `remit recover` or the next run recovers it. NOT_VOUCHED_FOR: the
stored row differs from the ledger, so the run cannot be verified."""
UndoState = Literal["POSSIBLE", "PARTLY_DONE", "DONE", "EXPIRED", "NOTHING", "STAYS", "UNKNOWN"]
"""STAYS: the rest of the run cannot be rolled back."""
Note = Annotated[str, Field(max_length=MAX_NOTE)]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class PlanErrorTold(ErrorTold):
    """The reason why a request about plans was refused, also in the error format of plans."""

    errors: tuple[ErrorResponse, ...] = ()


class UndoTold(Contract):
    """Whether a run can be rolled back, and until when."""

    state: UndoState
    until: Timestamp | None = None


class ProposalView(Contract):
    """One proposed plan: its proposer, the decision about it, and its outcome."""

    proposal_id: Uuid
    state: ProposalState
    plan_id: Identifier
    plan_digest: Digest
    title: ShortText = Field(description="The effect of the plan at the time of the proposal, in one line.")
    risk: RiskLevel = Field(description="The risk at the time of the proposal. The preview has the current risk.")
    proposed_by: Identifier
    token_jti: Identifier | None
    note: Note | None = Field(description="The proposer's comment. It has no influence on any decision of Remit.")
    created_at: Timestamp
    expires_at: Timestamp = Field(description="The time after which no person can approve or deny the proposal.")
    decided_by: ShortText | None
    decided_at: Timestamp | None
    reason: ShortText | None
    envelope_id: Identifier | None
    apply_until: Timestamp | None = Field(default=None, description="The time at which an unused approval expires.")
    report_folder: RelativePath | None = None
    undo: UndoTold | None = None
    progress: Progress | None = Field(default=None, description="The progress of a run in this process. Not stored.")
    refused: ErrorTold | None = Field(
        default=None,
        description="Why the last attempt to apply it changed nothing. For an agent, as far as this process knows.",
    )
    preview_state: PreviewState | None = Field(
        default=None,
        description="For people, while the plan waits for a decision: whether its preview is stored. Otherwise null.",
    )
    preview_note: ShortText | None = Field(
        default=None, description="Why the preview is not computed, and who computes it. Null: nothing to say."
    )
    preview_problem: PreviewProblem | None = Field(
        default=None,
        description="For people: why the stored preview of a pending plan cannot be approved, by records alone. Files"
        " are compared when the preview is read.",
    )
    link: Link | None = None


class ProposalPage(Page[ProposalView]):
    """Proposed plans, the newest first."""

    bounds: ClassVar[Bounds] = LARGE


class ChangedSince(Contract):
    """An input that changed since the plan was approved or, before an approval, since its preview was computed."""

    path: RelativePath
    how: ShortText


class ProposalPreview(Contract):
    """The stored preview of a proposed plan. An approval names this `preview_digest`."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (2 << 20))

    proposal_id: Uuid
    preview_digest: Digest
    document: PlanPreviewDocument
    changed_since: Many[ChangedSince] = Field(
        default=(),
        description="For an approved plan: the inputs that changed since the approval; then it cannot be applied. For a"
        " pending plan: the inputs that changed since the preview was computed; then it cannot be approved until the"
        " preview is computed again. Rows on a database server are not compared here.",
    )
    computed_at: Timestamp | None = Field(default=None, description="The time at which this preview was computed.")
    computed_by: ShortText | None = Field(
        default=None, description="The proposer, or the caller who requested to compute the preview again."
    )


class DriftedFile(Contract):
    """A file that changed after the run."""

    path: RelativePath
    exists: bool = Field(description="Whether the file exists now.")
    changed_by: Identifier | None = Field(
        default=None, description="The envelope of the later run that left the file in its current state."
    )


class UndoAnswer(Contract):
    """The outcome of the rollback of a run. REFUSED: nothing was changed, and `refused` and `drifted` say why."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    status: Literal["EXECUTED", "PARTIAL", "FAILED", "REFUSED", "NOTHING"]
    envelope_id: Identifier
    stored: bool = Field(default=False, description="The run was rolled back by an earlier call; nothing was done now.")
    restored: Many[RelativePath] = ()
    kept: Many[ShortText] = ()
    drifted: Many[DriftedFile] = ()
    drift_digest: Digest | None = Field(
        default=None,
        description="The digest of all changed files in their current state. A forced rollback must name it.",
    )
    refused: ErrorTold | None = None
    errors: Many[ErrorResponse] = ()
    set_aside: Many[RelativePath] = Field(
        default=(), description="The copies of changed files that this rollback overwrote."
    )
    withheld: Text | None = Field(
        default=None, description="Why an agent gets less information than a person. Null: nothing is withheld."
    )


class RunView(Contract):
    """One run of a plan, or of its rollback. The plan was proposed here, or approved at the command line."""

    at: Timestamp
    what: Literal["plan", "rollback"]
    plan_id: ShortText
    envelope_id: Identifier
    proposal_id: Uuid | None
    status: ShortText
    files: Count | None
    undo: UndoTold
    report_folder: RelativePath | None


class RunPage(Page[RunView]):
    """Runs, the newest first."""

    bounds: ClassVar[Bounds] = LARGE


class RunDocuments(Contract):
    """All stored documents of one run, verified against the ledger."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=2 * LARGE.max_bytes)

    status: CompletionStatus | None = Field(description="The signed status; null: withheld.")
    report: ExecutionReport
    change_log: ChangeLog
    manifest: RollbackManifest | None
    errors: Many[ErrorResponse]
    rollbacks: Many[RollbackOutcome]
    withheld: Text | None = Field(
        default=None, description="Why an agent gets less information than a person. Null: nothing is withheld."
    )


class UndoLook(Contract):
    """The conditions for a rollback of a run at this time. Nothing was changed."""

    envelope_id: Identifier
    undo: UndoTold
    drifted: Many[DriftedFile] = ()
    drift_digest: Digest | None = Field(
        default=None,
        description="The digest of all changed files in their current state. A forced rollback must name it.",
    )
    set_aside: Many[RelativePath] = Field(
        default=(), description="The copies of changed files that earlier forced rollbacks of this run overwrote."
    )
    withheld: Text | None = Field(
        default=None, description="Why an agent gets less information than a person. Null: nothing is withheld."
    )
