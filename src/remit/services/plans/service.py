"""The service for plans. Agents and people propose them; people approve or deny them; then they are applied.

This module makes no decisions of its own. The table of `remit.services.base.permissions` says who may call each method.
`Plans.approve` decides which plan can be approved. A plan is applied only with a signed envelope.
"""

import json
from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final, overload

from remit.authority.envelope import DEFAULT_LIFE
from remit.contracts.base import RiskLevel
from remit.contracts.plans.agent_views import AgentPlanPreview, AgentProposalPreview
from remit.contracts.plans.envelope import Approvals, Envelope
from remit.contracts.plans.outcome import PlanOutcome, PlanRefusal
from remit.contracts.plans.plan import Action, Plan
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.plans.proposal import StoredProposalState
from remit.contracts.services.common import PreviewProblem
from remit.contracts.services.plans import MAX_PAGE, ProposalPage, ProposalPreview, ProposalState, ProposalView
from remit.core.errors import Reason, RefusedError, RemitError, mask_for_review
from remit.core.faultpoints import reach
from remit.execution.refusals import already_recorded
from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.identity.own_requests import require_other_person
from remit.identity.person import Person, agent_cannot_decide
from remit.plans.approval_checks import OutdatedPreviewError, require_applicable
from remit.plans.model.callbacks import PlanHooks
from remit.plans.policy.plan import decide_plan
from remit.plans.preview.planned_effect import digest_of_preview
from remit.plans.proposals.draft import ProposalDraft
from remit.plans.proposals.errors import already_closed_error, changed_since_approval_error, outdated_digest_error
from remit.plans.proposals.previews import ComputedPreview, ListedEffect, PreviewNotStoredError
from remit.plans.service import preview_outdated_error
from remit.services.base.context import ConsoleUrl, require_wait
from remit.services.base.jobs import Job, JobRunner
from remit.services.base.permissions import Right, has_right, require
from remit.services.base.run_list import find_run_of_envelope, project_root
from remit.services.plans.agent_preview import agent_document, agent_risk, agent_title, text_for_person
from remit.services.plans.agent_views import agent_error, agent_preview, agent_proposal
from remit.services.plans.changes import Inputs
from remit.services.plans.later_previews import LaterPreview, LaterPreviews, subject_of, to_computed_preview
from remit.services.plans.next_steps import advise_after_apply
from remit.services.plans.preview_computation import (
    FOR_AGENT,
    describe_missing_preview,
    find_execution,
    find_reason_not_computed,
)
from remit.services.plans.preview_reads import PreviewReads
from remit.services.plans.preview_turns import TurnRules
from remit.services.plans.read_grants import (
    MAY_BE_READ,
    ReadGrant,
    is_plan_readable,
    read_document,
    read_note,
    subjects_of,
)
from remit.services.plans.refusal_records import records_refusals, records_refusals_of_plan
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
"""The most queries for one page, because most rows may have other states than the caller wants."""

MAX_TITLES: Final = 2_000
"""The most titles for agents that are kept in memory."""
PREVIEW_WAIT_SECONDS: Final = 10.0
"""Seconds that a person who opens a preview waits for it while it is being computed."""
_NOT_COMPUTED: Final = ", not computed"
"""Added to the title of a pending plan for people: its effect is not known."""

Ended = tuple[PlanOutcome | PlanRefusal, list[RefusedError]]


class PlanService(PlanRuns):
    """The plans of one workspace. Safe to use from several threads.

    `jobs` runs the work that may take longer than its caller waits. `turns`: for previews that agents read.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        jobs: JobRunner | None = None,
        console_url: ConsoleUrl = None,
        turns: TurnRules | None = None,
    ) -> None:
        super().__init__(workspace, Views(workspace, console_url))
        self._jobs = jobs if jobs is not None else JobRunner()
        self._previews = LaterPreviews(workspace, turns if turns is not None else TurnRules())
        self._inputs = Inputs()
        self._reads = PreviewReads(workspace)
        self._agent_titles: dict[str, str] = {}
        """The titles for agents by the digests of the plans, since a list would parse each plan each time."""

    # --- before an approval -------------------------------------------------------------------------------------------

    @overload
    def preview(self, caller: PersonCaller, plan: bytes) -> PlanPreviewDocument: ...
    @overload
    def preview(self, caller: Caller, plan: bytes) -> PlanPreviewDocument | AgentPlanPreview: ...
    @records_refusals_of_plan("preview")
    def preview(self, caller: Caller, plan: bytes) -> PlanPreviewDocument | AgentPlanPreview:
        """Compute what a plan would do to the files as they are now. Nothing is stored.

        An agent gets a preview of its own text only, whatever its token lets it read: nothing is computed for it. The
        ledger records that it asked.
        """
        require(caller, Right.PREVIEW)
        if isinstance(caller, AgentCaller):
            return self.preview_of_text(plan, caller)
        return self._workspace.preview(plan, actor=caller.actor).document

    def preview_of_text(self, plan: bytes, agent: AgentCaller | None) -> AgentPlanPreview:
        """Return the preview for an agent that is made of the plan's text alone. None: an agent without a token."""
        parsed = self._parse_allowed(plan)
        self._reads.record(agent, parsed)
        return agent_document(parsed, self._workspace.config)

    @records_refusals_of_plan("propose")
    def propose(self, caller: Caller, plan: bytes, *, note: str | None = None, key: str | None = None) -> ProposalView:
        """Store a plan for a person to decide. The same plan with the same `key` returns the same proposal.

        Refuses the plan of a person if it could not be approved with the files as they are now. Refuses the plan of an
        agent only for its text and the configuration. Whether it fits the files is shown to people, not to the agent.
        """
        require(caller, Right.PROPOSE)
        proposed = self._parse_allowed(plan) if isinstance(caller, AgentCaller) else Plan.parse(plan)
        text = proposed.canonical()
        token = caller.token if isinstance(caller, AgentCaller) else None
        if key is not None:
            found = self._workspace.proposals.find_by_key(caller.id, key, proposed.digest())
            if found is not None:
                return self._view(caller, found)
        title, risk, computed = self._describe(caller, proposed)
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
            execution=find_execution(caller, proposed, self._workspace.config),
            turn_length=self._turn_length(caller, proposed),
        )
        row, is_new, turn = self._workspace.proposals.propose(draft)
        if is_new and computed is None and self._workspace.proposals.deferral_of(row) is None:
            later = LaterPreview(row, proposed, caller.actor, executes=draft.execution != "nothing")
            self._previews.start(later, turn)
        return self._view(caller, row)

    def _parse_allowed(self, plan: bytes) -> Plan:
        """Parse a plan, and refuse it if its text or the configuration forbids it. Reads no file that it names."""
        parsed = Plan.parse(plan)
        decide_plan(parsed, self._workspace.config, project_root(self._workspace), None).require()
        return parsed

    def _describe(self, caller: Caller, plan: Plan) -> tuple[str, RiskLevel, ComputedPreview | None]:
        """Return the title, the risk and the preview of a proposal.

        The proposal of an agent is described by its text and the configuration alone. Its preview is computed after the
        agent has its answer, because the duration depends on the content of files and rows.
        """
        if isinstance(caller, AgentCaller):
            return agent_title(plan), agent_risk(plan, self._workspace.config), None
        preview = self._workspace.plans.preview(plan, PlanHooks(actor=caller.actor))
        require_applicable(preview, even_if_it_fails=True)
        return preview.summary, preview.document.risk, to_computed_preview(preview)

    def _stop_computing(self, row: ProposalRow) -> None:
        if (job := self._previews.find(row)) is not None:
            job.cancel()

    def finish_previews(self, seconds: float) -> bool:
        """Wait for the previews that this process is computing, before it ends. Return whether all of them ended."""
        return self._previews.jobs.wait_until_ended(seconds)

    def close(self) -> None:
        self._previews.jobs.close()

    @records_refusals("compute")
    def compute_preview(self, caller: Caller, proposal_id: str) -> ProposalPreview:
        """Compute the preview of a proposed plan again, and store it. The ledger records the caller.

        This needs the right to compute, because it runs the plan's SQL and pipelines again. Refuses a plan that was
        applied or is closed. Refuses an approved plan if the new preview differs from the approved one.
        """
        if isinstance(caller, AgentCaller):
            raise RefusedError(
                Reason.PERMISSION_DENIED,
                "an agent cannot have a preview computed, because the duration would tell what the files contain",
                where=f"proposal {proposal_id}",
                next_step="Remit computes it when the plan is proposed. A person can have it computed again.",
            )
        require(caller, Right.COMPUTE)
        row = self._require_row(caller, proposal_id)
        proposals = self._workspace.proposals
        if self._view(caller, row).state not in {"PENDING", "APPROVED"}:
            raise already_closed_error(row, row.decided_at or row.created_at)
        proposals.preview_of(row)  # raises if the stored preview is not as recorded: it is evidence and must stay
        preview = self._workspace.plans.preview(
            proposals.plan_of(row), PlanHooks(actor=caller.actor), fresh=row.state == "PENDING"
        )
        if row.state == "APPROVED" and preview.digest != _approved_digest(proposals.envelope_of(row)):
            raise changed_since_approval_error(row)
        return self._read_stored_preview(
            proposals.replace_preview(row.proposal_id, to_computed_preview(preview), caller.actor)
        )

    # --- reading ------------------------------------------------------------------------------------------------------

    def list_proposals(
        self, caller: Caller, *, states: Collection[ProposalState] = (), cursor: str | None = None, limit: int = 50
    ) -> ProposalPage:
        """List proposals, the newest first. An agent gets its own, a person those of all callers."""
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
        """List the proposals that wait for a decision, the newest first."""
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
        """Return the stored preview of a proposal, and the inputs that changed since.

        Nothing is executed. An approval names the digest of this preview. Raises `PreviewNotStoredError` if no preview
        is stored. An agent gets the stored preview if its token lets it read the whole plan (`read_grants`), and
        otherwise a preview of its own text, whether one is stored or not. The ledger records that it asked.
        """
        if isinstance(caller, AgentCaller):
            return self._read_as_agent(caller, proposal_id)
        require(caller, Right.LOOK)
        return self._read_stored_preview(self._require_row(caller, proposal_id))

    @records_refusals("preview")
    def _read_as_agent(self, agent: AgentCaller, proposal_id: str) -> AgentProposalPreview:
        """Return the preview for the agent. The stored one is looked up only if the whole plan may be read.

        Otherwise the answer, and the time that it takes, would depend on a document that depends on other files. For
        the same reason this does not wait for a preview that is being computed, and shows none before its turn has
        ended: when it was stored depends on the load, and so on the other plans of the agent.
        """
        require(agent, Right.LOOK)
        row = self._require_row(agent, proposal_id)
        plan, config = Plan.parse(self._workspace.proposals.plan_of(row)), self._workspace.config
        grant, read = ReadGrant.of(agent.token), None
        if is_plan_readable(plan, config, grant):
            stored = self._workspace.proposals.preview_in_turn_of(row)
            if stored is not None and MAY_BE_READ in stored.document:
                document = PlanPreviewDocument.from_tree(json.loads(stored.document), source="the stored preview")
                read = read_document(document, plan, config, grant)
        shown = subjects_of(plan, config) if read is not None else None
        self._reads.record(agent, plan, proposal_id=row.proposal_id, shown=shown)
        return agent_preview(row.proposal_id, plan, config, read)

    def list_actions(self, caller: Caller, proposal_id: str) -> tuple[Action, ...]:
        """Return the actions of a proposed plan in their order, to draw a graph of them."""
        require(caller, Right.SEE_OWN)
        return Plan.parse(self._workspace.proposals.plan_of(self._require_row(caller, proposal_id))).action_plan

    def read_text(self, caller: Caller, proposal_id: str) -> AgentPlanPreview | None:
        """Return what the text of a pending plan says, for a person, as long as no preview of it is stored.

        Nothing is computed, and no file that the plan names is read.
        """
        require(caller, Right.SEE_OWN)
        row = self._require_row(caller, proposal_id)
        if isinstance(caller, AgentCaller) or self._view(caller, row).preview_state in {None, "computed"}:
            return None
        return text_for_person(Plan.parse(self._workspace.proposals.plan_of(row)), self._workspace.config)

    # --- deciding -----------------------------------------------------------------------------------------------------

    @records_refusals(lambda given: "approve" if given.get("approved") else "deny")
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
        """Record a person's decision. Only the first decision is valid.

        An approval names the preview that the person saw, and signs an envelope. It is by another person than the one
        who proposed the plan, unless `approvals.allow_own` allows it.
        """
        require(caller, Right.DECIDE)
        if isinstance(caller, AgentCaller):  # a second check: no table of rights can allow it
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
                "an approval must name the digest of the preview that was shown",
                where="preview_digest",
                next_step="Read the preview of the proposal, and give its digest.",
            )
        self.require_unanswered(caller, row.proposal_id)
        require_other_person(caller, row.proposed_by, self._workspace.config, where=f"proposal {row.proposal_id}")
        self._require_as_shown(row, preview_digest)
        try:
            self._approve(row, who, allow, preview_digest, reason, even_if_it_fails=even_if_it_fails)
        except OutdatedPreviewError as problem:
            raise preview_outdated_error(row.plan_id, problem.path, _compute_command(row), problem.how) from None
        reach("proposal.answered")
        proposals.change_signal.notify()
        return self._view(caller, self._require_row(caller, proposal_id))

    def require_unanswered(self, caller: Caller, proposal_id: str) -> ProposalRow:
        """Refuse if a person has already decided, whatever else may be wrong with the new decision."""
        row = self._require_row(caller, proposal_id)
        if row.state in {"APPROVED", "DENIED"}:
            raise already_closed_error(row, row.decided_at or row.created_at)
        return row

    def _require_as_shown(self, row: ProposalRow, preview_digest: str) -> None:
        """Refuse if the approval does not name the stored preview, or an input changed since. Executes nothing."""
        shown = self._read_stored_preview(row)
        if shown.changed_since:
            first = shown.changed_since[0]
            raise preview_outdated_error(row.plan_id, first.path, _compute_command(row), first.how)
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
        """Sign the envelope. One transaction records both the envelope and the new state of the proposal."""
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

    @records_refusals("cancel")
    def cancel(self, caller: Caller, proposal_id: str, *, reason: str | None = None) -> ProposalView:
        """Withdraw a pending plan, make an unused approval void, or stop a running plan, which undoes its changes.

        Everyone who may propose or approve may do this. An agent may do it for its own plans only.
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
                f"it is too late to cancel the plan: it has run, with the status {run.status}",
                where=f"proposal {row.proposal_id}",
                next_step="If it left changes, roll them back.",
            )
        try:
            self._workspace.plans.cancel(row.envelope_id, caller.actor, patience=0)
        except RemitError as problem:
            if problem.reason is not Reason.IN_PROGRESS:  # IN_PROGRESS: it ends soon, and a later view shows that
                raise
        if (job := self._find_job(row)) is not None:
            job.cancel()  # stops a run of this process at once; any other process reads the recorded cancellation
        return self._view(caller, row)

    # --- applying -----------------------------------------------------------------------------------------------------

    @records_refusals("apply")
    def apply(self, caller: Caller, proposal_id: str, wait: float = 0) -> ProposalView:
        """Apply an approved plan, once, for its proposer or an operator. Returns after `wait` seconds at most.

        Raises the refusal if it is known by then. A later refusal is in `refused` of the proposal.
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
            subject = subject_of(row)
            job = self._jobs.start(
                f"apply:{subject}",
                lambda job: self._apply_envelope(job, envelope, caller.actor),
                subject=subject,
                owner=caller.id,
            )
        if job.wait(wait) and (refused := _refusal_for(caller, job)) is not None:
            raise refused
        return self._view(caller, self._require_row(caller, proposal_id))

    @records_refusals("apply")
    def read_envelope(self, caller: Caller, proposal_id: str) -> bytes:
        """Return the signed envelope to a person who applies it without this service, such as by a command.

        An agent does not get the envelope, because it contains digests of files. An agent uses `apply`.
        """
        require(caller, Right.APPLY)
        if isinstance(caller, AgentCaller):
            raise RefusedError(
                Reason.PERMISSION_DENIED,
                "an agent cannot read a signed approval, because it contains digests of files",
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
        return self._jobs.find(subject_of(row))

    def _read_stored_preview(self, row: ProposalRow) -> ProposalPreview:
        found = self._workspace.proposals.preview_of(row)
        if found is None and (job := self._previews.find(row)) is not None:
            job.wait(PREVIEW_WAIT_SECONDS)
            found = self._workspace.proposals.preview_of(row)
        if found is None:
            failed = self._workspace.proposals.failed_preview_of(row)
            status = self._workspace.proposals.preview_status_of(row, lambda: self._is_computing(row))
            raise PreviewNotStoredError(row.proposal_id, failed, find_reason_not_computed(status) or "")
        document = PlanPreviewDocument.from_tree(json.loads(found.document), source="the stored preview")
        return ProposalPreview(
            proposal_id=row.proposal_id,
            preview_digest=found.preview_digest,
            document=document,
            changed_since=self._inputs.changed_since(self._workspace, row, document, found.computed_at),
            computed_at=found.computed_at,
            computed_by=found.computed_by,
        )

    def _view(self, caller: Caller, row: ProposalRow) -> ProposalView:
        proposals = self._workspace.proposals
        if isinstance(caller, AgentCaller):
            is_deferred = row.state == "PENDING" and proposals.deferral_of(row) == "capability"
            view = self._views.proposal(row, self._find_job(row), with_recorded_refusal=False)
            shown = agent_proposal(view, self._agent_title(row))
            note = FOR_AGENT if is_deferred else self._read_note(caller, row)
            return shown.model_copy(update={"preview_note": note})
        effect = proposals.listed_effect_of(row)
        view = self._views.proposal(row._replace(title=effect.title, risk=effect.risk), self._find_job(row))
        if row.state != "PENDING":
            return view
        status = proposals.preview_status_of(row, lambda: self._is_computing(row))
        note = describe_missing_preview(row, status)
        title = view.title if status.state in {"computed", "computing"} else f"{view.title}{_NOT_COMPUTED}"
        problem = self._find_preview_problem(row, effect) if status.state == "computed" else None
        update = {"title": title, "preview_state": status.state, "preview_note": note, "preview_problem": problem}
        return view.model_copy(update=update)

    def _find_preview_problem(self, row: ProposalRow, effect: ListedEffect) -> PreviewProblem | None:
        """Return why the stored preview cannot be approved, from records alone: a list must not cost more for large
        files. A changed file is named when the preview is read.
        """
        then = self._workspace.proposals.previewed_config_of(row)
        try:
            is_same_config = then is None or then == self._workspace.config.digest()
        except RemitError:  # it cannot be read now, so it is another one
            is_same_config = False
        if not is_same_config:
            return "configuration_changed"
        return "would_fail" if effect.cannot_be_approved else None

    def _read_note(self, agent: AgentCaller, row: ProposalRow) -> str | None:
        """Return when the agent may read the preview, by plan, configuration, tokens and times of proposals alone."""
        grant = ReadGrant.of(agent.token)
        if row.state != "PENDING" or grant == ReadGrant():
            return None
        plan = Plan.parse(self._workspace.proposals.plan_of(row))
        turn = self._workspace.proposals.turn_of(row)
        return read_note(turn) if turn is not None and is_plan_readable(plan, self._workspace.config, grant) else None

    def _turn_length(self, caller: Caller, plan: Plan) -> timedelta | None:
        """Return how long the turn of a new proposal is. None if the token that proposes it may not read the plan."""
        if not isinstance(caller, AgentCaller):
            return None
        is_readable = is_plan_readable(plan, self._workspace.config, ReadGrant.of(caller.token))
        return self._previews.rules.length if is_readable else None

    def _is_computing(self, row: ProposalRow) -> bool:
        job = self._previews.find(row)
        return job is not None and job.is_running

    def _agent_title(self, row: ProposalRow) -> str:
        """Return the title for the agent of a proposal. It is made of the plan, and not of the title for people."""
        if row.state in {"EXPIRED", "VOID"}:  # the text of the plan is gone
            return f"plan {mask_for_review(row.plan_id)}"
        title = self._agent_titles.get(row.plan_digest)
        if title is None:
            title = agent_title(Plan.parse(self._workspace.proposals.plan_of(row)))
            if len(self._agent_titles) >= MAX_TITLES:
                self._agent_titles.clear()
            self._agent_titles[row.plan_digest] = title
        return title

    def _listed_view(self, caller: Caller, row: ProposalRow) -> ProposalView | None:
        """Return the view for a list. People see that a row fails verification; an agent does not see the row."""
        if self._workspace.proposals.is_verified(row):
            return self._view(caller, row)
        return None if isinstance(caller, AgentCaller) else view_unverified_row(row)


def _compute_command(row: ProposalRow) -> str:
    return f'remit approvals compute {row.proposal_id}, or "Compute again" in the console'


def _approved_digest(envelope: bytes) -> str:
    """Return the digest of the preview that this envelope was signed for."""
    signed = Envelope.parse(envelope)
    return signed.preview_digest or digest_of_preview(signed.plan_digest, signed.config_digest, signed.inputs)


def _refusal_for(caller: Caller, job: Job[Ended]) -> RemitError | None:
    """Return why an ended job changed nothing, in the words for this caller. None if it changed something, or may have.

    The engine has recorded this refusal, in words for people. Raises the error of a job that failed.
    """
    if not isinstance(caller, AgentCaller):
        refused = find_refusal(job)
        return None if refused is None else already_recorded(advise_after_apply(refused))
    try:
        refused = find_refusal(job)
    except RemitError as problem:
        raise agent_error(problem) from None
    return None if refused is None else already_recorded(agent_error(advise_after_apply(refused)))


def _ignore(_: object) -> None:
    """Ignore the new row: the caller reads the recorded row again."""
