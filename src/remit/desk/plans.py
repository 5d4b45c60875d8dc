"""Plans at the desk: proposed by an agent or a person, looked at, answered by a person, applied, and taken back.

Nothing is decided here that the rooms below do not decide themselves: who may ask is the table of `remit.desk.rights`,
what is worth a yes is said by `Plans.approve`, and what is carried out is an envelope that somebody signed.
"""

from collections.abc import Collection
from typing import Any, Final

from remit.approval.people import Person, agent_cannot_decide
from remit.approval.proposal_drafts import Draft
from remit.approval.proposal_refusals import closed
from remit.authority.envelope import DEFAULT_LIFE
from remit.contracts.desk_plans import (
    MAX_PAGE,
    ProposalPage,
    ProposalPreview,
    ProposalState,
    ProposalView,
)
from remit.contracts.envelope import Approvals
from remit.contracts.outcome import PlanOutcome, PlanRefusal
from remit.contracts.plan import Action, Plan
from remit.contracts.plan_preview import PlanPreviewDocument
from remit.contracts.proposal import KeptState
from remit.desk.callers import AgentCaller, Caller
from remit.desk.plan_advice import after_apply
from remit.desk.plan_changes import changed_since
from remit.desk.plan_runs import PlanRuns
from remit.desk.plan_views import AFTER_YES, KEPT_AS, Views, cursor_of, not_vouched_for, outcome_or_refusal, place_of
from remit.desk.rights import Right, may, require
from remit.desk.room import ConsoleUrl, require_wait
from remit.desk.runs import known_run
from remit.desk.work import Job, Work
from remit.doors.approving import require_worth_approving
from remit.errors import Reason, Refused, RemitError
from remit.faultpoints import reach
from remit.store.proposals import AFTER_ALL, ProposalRow
from remit.workspace import Workspace

NO_ALLOWANCES: Final = Approvals(protected=(), executable=(), content=(), irreversible=())
MOST_LOOKS: Final = 10
"""How often more rows are fetched for one page, where most of them are in other states than asked for."""

Ended = tuple[PlanOutcome | PlanRefusal, list[Refused]]


class PlanDesk(PlanRuns):
    """Of one workspace; safe to use from several threads. `work` does what takes longer than its caller waits."""

    def __init__(self, workspace: Workspace, *, work: Work | None = None, console_url: ConsoleUrl = None) -> None:
        super().__init__(workspace, Views(workspace, console_url))
        self._work = work if work is not None else Work()

    # --- before anybody is asked --------------------------------------------------------------------------------------

    def preview(self, caller: Caller, plan: bytes) -> PlanPreviewDocument:
        """What it would do to the files as they are. Nothing is stored."""
        require(caller, Right.PREVIEW)
        return self._workspace.preview(plan).document

    def propose(self, caller: Caller, plan: bytes, *, note: str | None = None, key: str | None = None) -> ProposalView:
        """Have it wait for a person's answer. The same `key` and plan again is the same proposal.

        Refuses a plan that could not be approved as the files are now: nobody is asked for that.
        """
        require(caller, Right.PROPOSE)
        proposed = Plan.parse(plan)
        text = proposed.canonical()
        token = caller.token if isinstance(caller, AgentCaller) else None
        if key is not None:
            found = self._workspace.proposals.under_key(caller.id, key, proposed.digest())
            if found is not None:
                return self._view(found)
        seen = self._workspace.preview(text)
        require_worth_approving(seen, even_if_it_fails=True)
        draft = Draft(
            text,
            proposed.plan_id,
            seen.summary,
            seen.document.risk,
            caller.actor,
            token_jti=token.jti if token is not None else None,
            note=note,
            key=key,
            not_after=token.expires_at if token is not None else None,
        )
        return self._view(self._workspace.proposals.propose(draft))

    # --- looking ------------------------------------------------------------------------------------------------------

    def listed(
        self, caller: Caller, *, states: Collection[ProposalState] = (), cursor: str | None = None, limit: int = 50
    ) -> ProposalPage:
        """The newest first: an agent's own, or everybody's for a person."""
        require(caller, Right.SEE_OWN)
        whose = None if may(caller, Right.SEE) else caller.id
        kept: set[KeptState] = {each for state in states for each in KEPT_AS.get(state, AFTER_YES)}
        place, limit = place_of(cursor, AFTER_ALL), max(1, min(limit, MAX_PAGE))
        items: list[ProposalView] = []
        for _ in range(MOST_LOOKS):
            rows = self._workspace.proposals.newest(proposed_by=whose, states=kept, before=place, most=limit)
            for row in rows:
                place = (row.created_at, row.proposal_id)
                view = self._listed_view(row, to_people=whose is None)
                if view is not None and (not states or view.state in states):
                    items.append(view)
                if len(items) == limit:
                    return ProposalPage(items=tuple(items), next=cursor_of(place))
            if len(rows) < limit:
                return ProposalPage(items=tuple(items))
        return ProposalPage(items=tuple(items), next=cursor_of(place))

    def waiting(self, caller: Caller) -> list[ProposalView]:
        """Those that wait for an answer, the newest first."""
        require(caller, Right.SEE_OWN)
        rows = self._workspace.proposals.pending()
        mine = [row for row in rows if may(caller, Right.SEE) or row.proposed_by == caller.id]
        return [self._view(row) for row in mine if self._workspace.proposals.is_vouched_for(row)]

    def get(self, caller: Caller, proposal_id: str) -> ProposalView:
        require(caller, Right.SEE_OWN)
        return self._view(self._row(caller, proposal_id))

    def look(self, caller: Caller, proposal_id: str) -> ProposalPreview:
        """What it would do to the files as they are now. A yes is to this, by its digest."""
        require(caller, Right.LOOK)
        row = self._row(caller, proposal_id)
        seen = self._workspace.preview(self._workspace.proposals.plan_of(row))
        return ProposalPreview(
            proposal_id=row.proposal_id,
            preview_digest=seen.digest,
            document=seen.document,
            changed_since=changed_since(self._workspace.proposals, row, seen.document),
        )

    def steps(self, caller: Caller, proposal_id: str) -> tuple[Action, ...]:
        """The actions of a proposed plan, in its order: for a picture of it."""
        require(caller, Right.SEE_OWN)
        return Plan.parse(self._workspace.proposals.plan_of(self._row(caller, proposal_id))).action_plan

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
        row = self._row(caller, proposal_id)
        if not approved:
            return self._view(proposals.deny(row.proposal_id, who, reason))
        if preview_digest is None:
            raise Refused(
                Reason.MALFORMED,
                "a yes must say to which preview it is",
                where="preview_digest",
                next_step="Look at the proposal, and give the digest of what was shown.",
            )
        if row.state in {"APPROVED", "DENIED"}:
            raise closed(row, row.decided_at or row.created_at)
        self._approve(row, who, allow, preview_digest, reason, even_if_it_fails=even_if_it_fails)
        reach("proposal.answered")
        proposals.bell.ring()
        return self._view(self._row(caller, proposal_id))

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
            also=lambda batch, envelope: _ignore(proposals.approve(batch, row.proposal_id, envelope, who, reason)),
        )

    def cancel(self, caller: Caller, proposal_id: str, *, reason: str | None = None) -> ProposalView:
        """Withdraw one that waits, void one that was approved and not begun, stop one that runs: then it is taken back.

        Whoever may propose may, and whoever may approve; an agent, what is its own.
        """
        require(caller, Right.CANCEL)
        row = self._row(caller, proposal_id)
        run = known_run(self._workspace, row.envelope_id) if row.envelope_id is not None else None
        if run is None or row.envelope_id is None:
            who = None if isinstance(caller, AgentCaller) else caller.person
            by = caller.actor if who is None else who.acting_as(who.signature)
            return self._view(self._workspace.proposals.withdraw(row.proposal_id, by, reason))
        if run.status not in {"RUNNING", "UNFINISHED"}:
            raise Refused(
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
        if (job := self._job(row)) is not None:
            job.cancel()  # heard at once here; what was recorded, by whichever process runs it
        return self._view(row)

    # --- carrying out -------------------------------------------------------------------------------------------------

    def apply(self, caller: Caller, proposal_id: str, wait: float = 0) -> ProposalView:
        """Carry out what was approved, once: by its proposer, or by an operator. Answers after `wait` seconds at most.

        Raises why nothing was touched, if that is known by then; later, `refused` of the proposal says it.
        """
        require(caller, Right.APPLY)
        require_wait(wait)
        row = self._row(caller, proposal_id)
        job: Job[Ended] | None = self._job(row)
        if job is None or not job.is_running:
            run = known_run(self._workspace, row.envelope_id) if row.envelope_id is not None else None
            if run is not None and run.status != "UNFINISHED":
                return self._view(row)
            envelope = self._workspace.proposals.envelope_of(row)
            subject = _subject(row)
            job = self._work.begin(
                f"apply:{subject}",
                lambda job: self._carry_out(job, envelope, caller.actor),
                subject=subject,
                owner=caller.id,
            )
        if job.wait(wait) and (refused := outcome_or_refusal(job)) is not None:
            raise after_apply(refused)
        return self._view(self._row(caller, proposal_id))

    def envelope(self, caller: Caller, proposal_id: str) -> bytes:
        """What was signed for it, for whoever may apply it and does so himself, such as a command at a terminal."""
        require(caller, Right.APPLY)
        return self._workspace.proposals.envelope_of(self._row(caller, proposal_id))

    def _carry_out(self, job: Job[Ended], envelope: bytes, actor: str) -> Ended:
        refusals: list[Refused] = []
        outcome = self._workspace.apply(
            envelope,
            on_refusal=refusals.append,
            on_status=lambda update: job.say(update.phase, update.done, update.total),
            is_cancelled=lambda: job.is_cancelled,
            actor=actor,
        )
        self._workspace.proposals.bell.ring()
        return outcome, refusals

    # --- inside -------------------------------------------------------------------------------------------------------

    def _job(self, row: ProposalRow) -> Job[Any] | None:
        return self._work.about(_subject(row))

    def _view(self, row: ProposalRow) -> ProposalView:
        return self._views.proposal(row, self._job(row))

    def _listed_view(self, row: ProposalRow, *, to_people: bool) -> ProposalView | None:
        """People are told of a row that somebody has changed; to an agent it is nobody's."""
        if self._workspace.proposals.is_vouched_for(row):
            return self._view(row)
        return not_vouched_for(row) if to_people else None


def _subject(row: ProposalRow) -> str:
    return f"plan:{row.proposal_id}"


def _ignore(_: object) -> None:
    """What was recorded is read again afterwards."""
