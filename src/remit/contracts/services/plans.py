"""Proposed plans as every way in tells of them: what waits, what a person is shown, how a run goes, what came of it."""

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
from remit.contracts.services.common import ErrorTold, Link, Page, Progress
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
"""UNFINISHED: the process that ran it is gone, and `remit recover`, or the next run, settles it. NOT_VOUCHED_FOR: the
store says something of the run that the ledger does not."""
UndoState = Literal["POSSIBLE", "PARTLY_DONE", "DONE", "EXPIRED", "NOTHING", "STAYS", "UNKNOWN"]
"""STAYS: what is left of it cannot be taken back."""
Note = Annotated[str, Field(max_length=MAX_NOTE)]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]


class UndoTold(Contract):
    """Whether a run can be taken back, and until when."""

    state: UndoState
    until: Timestamp | None = None


class ProposalView(Contract):
    """One proposed plan: who wants it, what was answered, and what came of it."""

    proposal_id: Uuid
    state: ProposalState
    plan_id: Identifier
    plan_digest: Digest
    title: ShortText = Field(description="What the plan would have done when it was proposed, in a line.")
    risk: RiskLevel = Field(description="When it was proposed; a look at it says what it is now.")
    proposed_by: Identifier
    token_jti: Identifier | None
    note: Note | None = Field(description="What the proposer says of it. Nothing is decided by it.")
    created_at: Timestamp
    expires_at: Timestamp = Field(description="When nobody can answer any more.")
    decided_by: ShortText | None
    decided_at: Timestamp | None
    reason: ShortText | None
    envelope_id: Identifier | None
    apply_until: Timestamp | None = Field(default=None, description="When the approval ends, if it is not used.")
    report_folder: RelativePath | None = None
    undo: UndoTold | None = None
    progress: Progress | None = Field(default=None, description="How far a run of this process is. Kept nowhere.")
    refused: ErrorTold | None = Field(
        default=None, description="Why the last try to apply it changed nothing, as far as this process knows."
    )
    link: Link | None = None


class ProposalPage(Page[ProposalView]):
    """Proposed plans, the newest first."""

    bounds: ClassVar[Bounds] = LARGE


class ChangedSince(Contract):
    """An input that is not as it was when the plan was approved or, before that, when its preview was computed."""

    path: RelativePath
    how: ShortText


class ProposalPreview(Contract):
    """What a proposed plan would do, as it was computed and stored. An approval names this `preview_digest`."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (2 << 20))

    proposal_id: Uuid
    preview_digest: Digest
    document: PlanPreviewDocument
    changed_since: Many[ChangedSince] = Field(
        default=(),
        description="Inputs that are not as they were when the plan was approved: then applying it is refused. Of a"
        " plan that waits, when the preview was computed: then approving it is refused until it is computed again."
        " Rows on a database server are not looked at here.",
    )
    computed_at: Timestamp | None = Field(default=None, description="When this preview was computed.")
    computed_by: ShortText | None = Field(
        default=None, description="Who had it computed: the proposer, or the caller who had it computed again."
    )


class DriftedFile(Contract):
    """A file that somebody changed after the run."""

    path: RelativePath
    exists: bool = Field(description="Whether there is a file now.")
    changed_by: Identifier | None = Field(default=None, description="The envelope of the later run that left it so.")


class UndoAnswer(Contract):
    """How it ended to take back a run; REFUSED: nothing was touched, and `refused` and `drifted` say why."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=LARGE.max_bytes + (1 << 20))

    status: Literal["EXECUTED", "PARTIAL", "FAILED", "REFUSED", "NOTHING"]
    envelope_id: Identifier
    stored: bool = Field(default=False, description="It was taken back before; nothing was done now.")
    restored: Many[RelativePath] = ()
    kept: Many[ShortText] = ()
    drifted: Many[DriftedFile] = ()
    drift_digest: Digest | None = Field(
        default=None, description="Of the files that were changed since, as they are now; a forced undo names it."
    )
    refused: ErrorTold | None = None
    errors: Many[ErrorResponse] = ()
    set_aside: Many[RelativePath] = Field(
        default=(), description="Where what stood in the place of overwritten files is kept."
    )
    withheld: Text | None = Field(
        default=None, description="Why an agent is shown less than a person; null: nothing is withheld."
    )


class RunView(Contract):
    """One run of a plan, or of what took it back; proposed here or approved at the command line."""

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
    """All that is on record of one run, as the ledger vouches for it."""

    bounds: ClassVar[Bounds] = LARGE._replace(max_bytes=2 * LARGE.max_bytes)

    status: CompletionStatus | None = Field(description="The signed status; null: withheld.")
    report: ExecutionReport
    change_log: ChangeLog
    manifest: RollbackManifest | None
    errors: Many[ErrorResponse]
    rollbacks: Many[RollbackOutcome]
    withheld: Text | None = Field(
        default=None, description="Why an agent is shown less than a person; null: nothing is withheld."
    )


class UndoLook(Contract):
    """What taking a run back would meet now. Nothing was touched."""

    envelope_id: Identifier
    undo: UndoTold
    drifted: Many[DriftedFile] = ()
    drift_digest: Digest | None = Field(
        default=None, description="Of the files that were changed since, as they are now; a forced undo names it."
    )
    set_aside: Many[RelativePath] = Field(
        default=(), description="Where what earlier forced undos of this run have overwritten is kept."
    )
    withheld: Text | None = Field(
        default=None, description="Why an agent is shown less than a person; null: nothing is withheld."
    )
