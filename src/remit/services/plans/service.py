"""Plans at the desk: proposed by an agent or a person, looked at, answered by a person, applied, and taken back.

Nothing is decided here that the rooms below do not decide themselves: who may ask is the table of
`remit.services.base.permissions`, what is worth a yes is said by `Plans.approve`, and what is carried out is an
envelope that somebody signed.
"""

import json
import logging
import time
from collections.abc import Collection
from typing import Any, Final, overload

from remit.authority.envelope import DEFAULT_LIFE
from remit.contracts.base import RiskLevel
from remit.contracts.plans.agent_views import AgentPlanPreview, AgentProposalPreview
from remit.contracts.plans.envelope import Approvals, Envelope
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.contracts.plans.plan import Action, Plan
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.plans.proposal import StoredProposalState
from remit.contracts.services.plans import MAX_PAGE, ProposalPage, ProposalPreview, ProposalState, ProposalView
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.identity.person import Person, agent_cannot_decide
from remit.plans.approval_checks import require_applicable
from remit.plans.model.callbacks import PlanHooks
from remit.plans.policy.plan import decide_plan
from remit.plans.preview.build import digest_of_preview
from remit.plans.preview.document import PlanPreview
from remit.plans.proposals.draft import ProposalDraft
from remit.plans.proposals.errors import already_closed_error, changed_since_approval_error, outdated_digest_error
from remit.plans.proposals.previews import ComputedPreview, PreviewNotStoredError
from remit.plans.service import preview_outdated_error
from remit.services.base.context import ConsoleUrl, require_wait
from remit.services.base.jobs import Job, JobRunner
from remit.services.base.permissions import Right, has_right, require
from remit.services.base.run_list import find_run_of_envelope, project_root
from remit.services.plans.agent_preview import agent_document, agent_risk, agent_title
from remit.services.plans.agent_views import agent_error, agent_preview, agent_proposal
from remit.services.plans.changes import Inputs
from remit.services.plans.next_steps import advise_after_apply
from remit.services.plans.runs import PlanRuns
from remit.services.plans.views import (
    APPROVED_STATES,
    STORED_STATES,
    Views,
    decode_cursor,
    encode_cursor,
    find_refusal,
    view_unverified_row,
)
from remit.store.proposals import NEWEST_FIRST_START, ProposalRow
from remit.workspace.workspace import Workspace

NO_ALLOWANCES: Final = Approvals(protected=(), executable=(), content=(), irreversible=())
MAX_BATCHES: Final = 10
"""How often more rows are fetched for one page, where most of them are in other states than asked for."""

MAX_PREVIEWS: Final = 3
"""Computed at the same time."""
PREVIEW_WAIT_SECONDS: Final = 10.0
"""Seconds that a person who looks waits for a preview that is being computed."""
_LOG: Final = logging.getLogger("remit.plans")

Ended = tuple[PlanOutcome | PlanRefusal, list[RefusedError]]


class PlanService(PlanRuns):
    """Of one workspace; safe to use from several threads. `jobs` does what takes longer than its caller waits."""

    def __init__(self, workspace: Workspace, *, jobs: JobRunner | None = None, console_url: ConsoleUrl = None) -> None:
        super().__init__(workspace, Views(workspace, console_url))
        self._jobs = jobs if jobs is not None else JobRunner()
        self._previews = JobRunner(MAX_PREVIEWS, one_per_owner=True)
        """Of what agents proposed, apart from all other work: nothing of it can be told by how busy that is."""
        self._inputs = Inputs()

    # --- before anybody is asked --------------------------------------------------------------------------------------

    @overload
    def preview(self, caller: PersonCaller, plan: bytes) -> PlanPreviewDocument: ...
    @overload
    def preview(self, caller: Caller, plan: bytes) -> PlanPreviewDocument | AgentPlanPreview: ...
    def preview(self, caller: Caller, plan: bytes) -> PlanPreviewDocument | AgentPlanPreview:
        """What it would do to the files as they are. Nothing is stored. An agent sees what it sent itself."""
        require(caller, Right.PREVIEW)
        if isinstance(caller, AgentCaller):
            return agent_document(self._parse_allowed(plan), self._workspace.config)
        return self._workspace.preview(plan).document

    def propose(self, caller: Caller, plan: bytes, *, note: str | None = None, key: str | None = None) -> ProposalView:
        """Have it wait for a person's answer. The same `key` and plan again is the same proposal.

        Refuses a plan that could not be approved as the files are now. What an agent proposes is refused only for
        what stands in the plan: whether it fits the files is shown to people, and the agent is not told.
        """
        require(caller, Right.PROPOSE)
        proposed = self._parse_allowed(plan) if isinstance(caller, AgentCaller) else Plan.parse(plan)
        text = proposed.canonical()
        token = caller.token if isinstance(caller, AgentCaller) else None
        if key is not None:
            found = self._workspace.proposals.find_by_key(caller.id, key, proposed.digest())
            if found is not None:
                return self._view(caller, found)
        title, risk, computed = self._describe(caller, proposed, text)
        draft = ProposalDraft(
            text,
            proposed.plan_id,
            title,
            risk,
            caller.actor,
            token_jti=token.jti if token is not None else None,
            note=note,
            key=key,
            not_after=token.expires_at if token is not None else None,
            preview=computed,
        )
        row = self._workspace.proposals.propose(draft)
        if computed is None:
            self._compute_later(row, text, caller.actor)
        return self._view(caller, row)

    def _parse_allowed(self, plan: bytes) -> Plan:
        """A plan that could be applied, as far as its text and the configuration tell. No file is looked at."""
        parsed = Plan.parse(plan)
        decide_plan(parsed, self._workspace.config, project_root(self._workspace), None).require()
        return parsed

    def _describe(self, caller: Caller, plan: Plan, text: bytes) -> tuple[str, RiskLevel, ComputedPreview | None]:
        """The title, the risk and the preview of a proposal.

        What an agent proposes is described by its text alone, and its preview is computed after the answer: how long
        that takes depends on what the files and rows hold.
        """
        if isinstance(caller, AgentCaller):
            return agent_title(plan), agent_risk(plan, self._workspace.config), None
        preview = self._workspace.preview(text)
        require_applicable(preview, even_if_it_fails=True)
        return preview.summary, preview.document.risk, _to_computed_preview(preview)

    def _compute_later(self, row: ProposalRow, text: bytes, actor: str) -> None:
        """For people. If it cannot be computed, or this process ends before, a person has it computed.

        A plan that was withdrawn or denied meanwhile is not looked at any more: its SQL would hold locks for nothing.
        """

        def compute_preview(job: Job[None]) -> None:
            found = self._workspace.proposals.find(row.proposal_id)
            if found is None or found.state != "PENDING" or job.is_cancelled:
                return
            preview = self._workspace.plans.preview(text, PlanHooks(is_cancelled=lambda: job.is_cancelled))
            self._workspace.proposals.replace_preview(row.proposal_id, _to_computed_preview(preview), actor)

        subject = _subject(row)
        try:
            self._previews.start(f"preview:{subject}", compute_preview, subject=subject, owner=row.proposed_by)
        except RefusedError as problem:  # the agent is not told: that would say how long its other previews take
            _LOG.warning("a preview is not computed yet", extra={"why": str(problem)})

    def _stop_computing(self, row: ProposalRow) -> None:
        if (job := self._previews.find(_subject(row))) is not None:
            job.cancel()

    def finish_previews(self, seconds: float) -> bool:
        """Wait for the previews that are being computed here, for a process that is about to end. Whether all ended."""
        deadline = time.monotonic() + seconds
        return all(job.wait_until_ended(deadline - time.monotonic()) for job in self._previews.active_jobs())

    def close(self) -> None:
        self._previews.close()

    def compute_preview(self, caller: Caller, proposal_id: str) -> ProposalPreview:
        """Compute the preview of a proposed plan again, and store it: a deliberate act, recorded with the caller.

        It runs the plan's SQL and pipelines as the first preview did. So it needs the right to propose. Refused for a
        plan that was applied or is closed; of one that was approved, also if it would not be what was approved.
        """
        require(caller, Right.PROPOSE)
        row = self._require_row(caller, proposal_id)
        if isinstance(caller, AgentCaller):
            raise RefusedError(
                Reason.PERMISSION_DENIED,
                "an agent does not have previews computed: how long that takes depends on what the files hold",
                where=f"proposal {row.proposal_id}",
                next_step="It was begun when the plan was proposed. A person can have it computed again.",
            )
        proposals = self._workspace.proposals
        if self._view(caller, row).state not in {"PENDING", "APPROVED"}:
            raise already_closed_error(row, row.decided_at or row.created_at)
        proposals.preview_of(row)  # a stored one that is not as recorded is evidence: it stays as it is
        preview = self._workspace.preview(proposals.plan_of(row))
        if row.state == "APPROVED" and preview.digest != _approved_digest(proposals.envelope_of(row)):
            raise changed_since_approval_error(row)
        return self._read_stored_preview(
            proposals.replace_preview(row.proposal_id, _to_computed_preview(preview), caller.actor)
        )

    # --- looking ------------------------------------------------------------------------------------------------------

    def list_proposals(
        self, caller: Caller, *, states: Collection[ProposalState] = (), cursor: str | None = None, limit: int = 50
    ) -> ProposalPage:
        """The newest first: an agent's own, or everybody's for a person."""
        require(caller, Right.SEE_OWN)
        proposed_by = None if has_right(caller, Right.SEE) else caller.id
        stored_states: set[StoredProposalState] = {
            each for state in states for each in STORED_STATES.get(state, APPROVED_STATES)
        }
        position, limit = decode_cursor(cursor, NEWEST_FIRST_START), max(1, min(limit, MAX_PAGE))
        items: list[ProposalView] = []
        for _ in range(MAX_BATCHES):
            rows = self._workspace.proposals.newest(
                proposed_by=proposed_by, states=stored_states, before=position, most=limit
            )
            for row in rows:
                position = (row.created_at, row.proposal_id)
                view = self._listed_view(caller, row)
                if view is not None and (not states or view.state in states):
                    items.append(view)
                if len(items) == limit:
                    return ProposalPage(items=tuple(items), next=encode_cursor(position))
            if len(rows) < limit:
                return ProposalPage(items=tuple(items))
        return ProposalPage(items=tuple(items), next=encode_cursor(position))

    def list_pending(self, caller: Caller) -> list[ProposalView]:
        """Those that wait for an answer, the newest first."""
        require(caller, Right.SEE_OWN)
        rows = self._workspace.proposals.pending()
        visible = [row for row in rows if has_right(caller, Right.SEE) or row.proposed_by == caller.id]
        return [self._view(caller, row) for row in visible if self._workspace.proposals.is_verified(row)]

    def get(self, caller: Caller, proposal_id: str) -> ProposalView:
        require(caller, Right.SEE_OWN)
        return self._view(caller, self._require_row(caller, proposal_id))

    @overload
    def read_preview(self, caller: PersonCaller, proposal_id: str) -> ProposalPreview: ...
    @overload
    def read_preview(self, caller: Caller, proposal_id: str) -> ProposalPreview | AgentProposalPreview: ...
    def read_preview(self, caller: Caller, proposal_id: str) -> ProposalPreview | AgentProposalPreview:
        """What it would do, as it was computed and stored, and which of its files were changed since.

        Nothing is executed. An approval names its digest. Raises `PreviewNotStoredError` if there is none. An agent
        sees what it sent itself.
        """
        require(caller, Right.LOOK)
        row = self._require_row(caller, proposal_id)
        if isinstance(caller, AgentCaller):
            plan = Plan.parse(self._workspace.proposals.plan_of(row))
            return agent_preview(row.proposal_id, plan, self._workspace.config)
        return self._read_stored_preview(row)

    def list_actions(self, caller: Caller, proposal_id: str) -> tuple[Action, ...]:
        """The actions of a proposed plan, in its order: for a picture of it."""
        require(caller, Right.SEE_OWN)
        return Plan.parse(self._workspace.proposals.plan_of(self._require_row(caller, proposal_id))).action_plan

    # --- the answer ---------------------------------------------------------------------------------------------------

    def decide(
        self,
        caller: Caller,
        proposal_id: str,
        *,
        approved: bool,
        preview_digest: str | None = None,
        allow: Approvals = NO_ALLOWANCES,
        reason: str | None = None,
        even_if_it_fails: bool = False,
    ) -> ProposalView:
        """A person's answer; the first one counts. A yes is to the preview that he saw, and signs an envelope."""
        require(caller, Right.DECIDE)
        if isinstance(caller, AgentCaller):  # no table of rights may ever say otherwise
            raise agent_cannot_decide("a capability token is not a person")
        proposals, who = self._workspace.proposals, caller.person
        row = self._require_row(caller, proposal_id)
        if not approved:
            denied = proposals.deny(row.proposal_id, who, reason)
            self._stop_computing(row)
            return self._view(caller, denied)
        if preview_digest is None:
            raise RefusedError(
                Reason.MALFORMED,
                "a yes must say to which preview it is",
                where="preview_digest",
                next_step="Look at the proposal, and give the digest of what was shown.",
            )
        self.require_unanswered(caller, row.proposal_id)
        self._require_as_shown(row, preview_digest)
        self._approve(row, who, allow, preview_digest, reason, even_if_it_fails=even_if_it_fails)
        reach("proposal.answered")
        proposals.change_signal.notify()
        return self._view(caller, self._require_row(caller, proposal_id))

    def require_unanswered(self, caller: Caller, proposal_id: str) -> ProposalRow:
        """Refused if a person has answered: what else could be wrong with an answer does not matter then."""
        row = self._require_row(caller, proposal_id)
        if row.state in {"APPROVED", "DENIED"}:
            raise already_closed_error(row, row.decided_at or row.created_at)
        return row

    def _require_as_shown(self, row: ProposalRow, preview_digest: str) -> None:
        """That the approval names the stored preview, and no file changed since. `Plans.approve` computes it once more
        and compares; what can be told without executing anything is told before that.
        """
        shown = self._read_stored_preview(row)
        if shown.changed_since:
            raise preview_outdated_error(row.plan_id, shown.changed_since[0].path)
        if shown.preview_digest != preview_digest:
            raise outdated_digest_error(row)

    def _approve(
        self,
        row: ProposalRow,
        who: Person,
        allow: Approvals,
        preview_digest: str,
        reason: str | None,
        *,
        even_if_it_fails: bool,
    ) -> None:
        """The envelope and the proposal's new state are recorded in one transaction, or neither is."""
        proposals = self._workspace.proposals
        self._workspace.plans.approve(
            proposals.plan_of(row),
            allow,
            DEFAULT_LIFE,
            who.signature,
            even_if_it_fails=even_if_it_fails,
            as_seen=preview_digest,
            also=lambda batch, envelope: _ignore(
                proposals.approve(batch, row.proposal_id, envelope, who, reason, preview_digest)
            ),
        )

    def cancel(self, caller: Caller, proposal_id: str, *, reason: str | None = None) -> ProposalView:
        """Withdraw one that waits, void one that was approved and not begun, stop one that runs: then it is taken back.

        Whoever may propose may, and whoever may approve; an agent, what is its own.
        """
        require(caller, Right.CANCEL)
        row = self._require_row(caller, proposal_id)
        run = find_run_of_envelope(self._workspace, row.envelope_id) if row.envelope_id is not None else None
        if run is None or row.envelope_id is None:
            who = None if isinstance(caller, AgentCaller) else caller.person
            by = caller.actor if who is None else who.acting_as(who.signature)
            withdrawn = self._workspace.proposals.withdraw(row.proposal_id, by, reason)
            self._stop_computing(row)
            return self._view(caller, withdrawn)
        if run.status not in {"RUNNING", "UNFINISHED"}:
            raise RefusedError(
                Reason.TRANSITION_INVALID,
                f"it is too late: the plan has run, and ended as {run.status}",
                where=f"proposal {row.proposal_id}",
                next_step="What it did can be taken back: undo it.",
            )
        try:
            self._workspace.plans.cancel(row.envelope_id, caller.actor, patience=0)
        except RemitError as problem:
            if problem.reason is not Reason.IN_PROGRESS:  # it ends soon, and the view will say so
                raise
        if (job := self._find_job(row)) is not None:
            job.cancel()  # heard at once here; what was recorded, by whichever process runs it
        return self._view(caller, row)

    # --- carrying out -------------------------------------------------------------------------------------------------

    def apply(self, caller: Caller, proposal_id: str, wait: float = 0) -> ProposalView:
        """Carry out what was approved, once: by its proposer, or by an operator. Answers after `wait` seconds at most.

        Raises why nothing was touched, if that is known by then; later, `refused` of the proposal says it.
        """
        require(caller, Right.APPLY)
        require_wait(wait)
        row = self._require_row(caller, proposal_id)
        job: Job[Ended] | None = self._find_job(row)
        if job is None or not job.is_running:
            run = find_run_of_envelope(self._workspace, row.envelope_id) if row.envelope_id is not None else None
            if run is not None and run.status != "UNFINISHED":
                return self._view(caller, row)
            envelope = self._workspace.proposals.envelope_of(row)
            subject = _subject(row)
            job = self._jobs.start(
                f"apply:{subject}",
                lambda job: self._apply_envelope(job, envelope, caller.actor),
                subject=subject,
                owner=caller.id,
            )
        if job.wait(wait) and (refused := _refusal_for(caller, job)) is not None:
            raise refused
        return self._view(caller, self._require_row(caller, proposal_id))

    def read_envelope(self, caller: Caller, proposal_id: str) -> bytes:
        """What was signed for it, for a person who may apply it and does so himself, such as a command at a terminal.

        It holds digests of files, so an agent does not get it: its plan is carried out by `apply`.
        """
        require(caller, Right.APPLY)
        if isinstance(caller, AgentCaller):
            raise RefusedError(
                Reason.PERMISSION_DENIED,
                "a signed approval holds digests of files, so it is not handed to an agent",
                where=f"proposal {proposal_id}",
                next_step="Apply the proposal by its id.",
            )
        return self._workspace.proposals.envelope_of(self._require_row(caller, proposal_id))

    def _apply_envelope(self, job: Job[Ended], envelope: bytes, actor: str) -> Ended:
        refusals: list[RefusedError] = []
        outcome = self._workspace.apply(
            envelope,
            on_refusal=refusals.append,
            on_status=lambda update: job.report_progress(update.phase, update.done, update.total),
            is_cancelled=lambda: job.is_cancelled,
            actor=actor,
        )
        self._workspace.proposals.change_signal.notify()
        return outcome, refusals

    # --- inside -------------------------------------------------------------------------------------------------------

    def _find_job(self, row: ProposalRow) -> Job[Any] | None:
        return self._jobs.find(_subject(row))

    def _read_stored_preview(self, row: ProposalRow) -> ProposalPreview:
        found = self._workspace.proposals.preview_of(row)
        if found is None and (job := self._previews.find(_subject(row))) is not None:
            job.wait(PREVIEW_WAIT_SECONDS)
            found = self._workspace.proposals.preview_of(row)
        if found is None:
            raise PreviewNotStoredError(row.proposal_id)
        document = PlanPreviewDocument.from_tree(json.loads(found.document), source="the stored preview")
        return ProposalPreview(
            proposal_id=row.proposal_id,
            preview_digest=found.preview_digest,
            document=document,
            changed_since=self._inputs.changed_since(self._workspace, row, document),
            computed_at=found.computed_at,
            computed_by=found.computed_by,
        )

    def _view(self, caller: Caller, row: ProposalRow) -> ProposalView:
        if isinstance(caller, AgentCaller):
            return agent_proposal(self._views.proposal(row, self._find_job(row)))
        title, risk = self._workspace.proposals.title_and_risk_of(row)
        return self._views.proposal(row._replace(title=title, risk=risk), self._find_job(row))

    def _listed_view(self, caller: Caller, row: ProposalRow) -> ProposalView | None:
        """People are told of a row that was changed; an agent is not told that there is one."""
        if self._workspace.proposals.is_verified(row):
            return self._view(caller, row)
        return None if isinstance(caller, AgentCaller) else view_unverified_row(row)


def _subject(row: ProposalRow) -> str:
    return f"plan:{row.proposal_id}"


def _to_computed_preview(preview: PlanPreview) -> ComputedPreview:
    return ComputedPreview(preview.digest, preview.document.canonical(), preview.summary, preview.document.risk)


def _approved_digest(envelope: bytes) -> str:
    """Of the preview that this envelope was signed for."""
    signed = Envelope.parse(envelope)
    return digest_of_preview(signed.plan_digest, signed.config_digest, signed.inputs)


def _refusal_for(caller: Caller, job: Job[Ended]) -> RemitError | None:
    """Why a job that has ended changed nothing, in the words for this caller. None: it did change something, or may."""
    if not isinstance(caller, AgentCaller):
        refused = find_refusal(job)
        return None if refused is None else advise_after_apply(refused)
    try:
        refused = find_refusal(job)
    except RemitError as problem:
        raise agent_error(problem) from None
    return None if refused is None else agent_error(advise_after_apply(refused))


def _ignore(_: object) -> None:
    """What was recorded is read again afterwards."""
