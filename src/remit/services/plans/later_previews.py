"""Computes the previews of agents' proposals after their answers: in a turn if the agent may be shown it, else when a
thread is free.
"""

import logging
import time
from typing import Final, NamedTuple

from remit.contracts.plans.plan import Plan
from remit.core.errors import Reason, RefusedError, RemitError
from remit.plans.model.callbacks import PlanHooks
from remit.plans.preview.planned_effect import RecordedPreview
from remit.plans.proposals.previews import ComputedPreview
from remit.plans.proposals.turns import Turn
from remit.sandbox.processor_time import measure_processor_time
from remit.services.base.jobs import Job
from remit.services.plans.preview_computation import PreviewJobs, wait_for_others
from remit.services.plans.preview_turns import TurnRules, TurnWatch, depends_on_machine, is_too_far, uses_server
from remit.services.plans.read_grants import MAY_BE_READ
from remit.store.proposals import ProposalRow
from remit.workspace.workspace import Workspace

_LOG: Final = logging.getLogger("remit.plans")


class LaterPreview(NamedTuple):
    """A preview to compute for a new proposal. `executes`: computing it runs SQL or a pipeline."""

    row: ProposalRow
    plan: Plan
    actor: str
    executes: bool


class LaterPreviews:
    """The previews that this process computes for agents' proposals of one workspace.

    If computing one fails, or this process ends, a person can compute it later. The preview of a plan that was
    withdrawn or denied meanwhile is not computed: its SQL would hold locks for nothing.
    """

    def __init__(self, workspace: Workspace, rules: TurnRules) -> None:
        self._workspace = workspace
        self.rules = rules
        self.jobs = PreviewJobs()
        """In their own threads, so an agent cannot learn anything about a preview from the delay of other work."""

    def start(self, wanted: LaterPreview, turn: Turn | None) -> None:
        """Compute the preview in its turn. Without a turn, the agent is never shown it, so any time will do."""
        is_usable = turn is not None and not is_too_far(turn, self.rules, self._workspace.clock)
        self._start(wanted, turn if is_usable else None)

    def find(self, row: ProposalRow) -> Job[None] | None:
        """Find the queued or running job for this proposal, or one that ended a short while ago."""
        return self.jobs.find(subject_of(row))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _start(self, wanted: LaterPreview, turn: Turn | None) -> None:
        def work(job: Job[None]) -> None:
            if turn is not None:
                self._compute_in_turn(job, wanted, turn)
            elif wanted.executes:
                with wait_for_others(self._workspace.state.path, wanted.row.proposed_by, lambda: job.is_cancelled):
                    self._compute(job, wanted)
            else:
                self._compute(job, wanted)

        try:
            self.jobs.start(subject_of(wanted.row), work, owner=wanted.row.proposed_by, in_turn=turn is not None)
        except RefusedError as problem:  # not raised: it would tell the agent how long its other previews take
            _LOG.warning("a preview is not computed yet", extra={"why": str(problem)})

    def _compute(self, job: Job[None], wanted: LaterPreview) -> None:
        if not self._is_wanted(job, wanted):
            return
        hooks = PlanHooks(is_cancelled=lambda: job.is_cancelled, actor=wanted.actor)
        try:
            preview = self._workspace.plans.preview(wanted.plan, hooks, readable_if_full=True)
        except RemitError as problem:
            self._record_failure(wanted, problem)
            raise
        self._workspace.proposals.replace_preview(wanted.row.proposal_id, to_computed_preview(preview), wanted.actor)

    def _compute_in_turn(self, job: Job[None], wanted: LaterPreview, turn: Turn) -> None:
        """Compute the preview from the start of its turn to its end at the latest.

        A stored preview of the same plan is not used. Whether there is one depends on the threads without turns.
        """
        watch = TurnWatch(turn, self._workspace.clock, lambda: job.is_cancelled)
        watch.wait_for_start()
        if not self._is_wanted(job, wanted):
            return
        if watch.must_stop():  # this process was busy, or suspended, during all of the turn
            self._start(wanted, None)
            return
        began = time.monotonic()
        preview: RecordedPreview | None = None
        with measure_processor_time() as used:
            try:
                hooks = PlanHooks(is_cancelled=watch.must_stop, actor=wanted.actor)
                preview = self._workspace.plans.preview(wanted.plan, hooks, fresh=True, readable_if_full=True)
            except RemitError as problem:
                if not watch.was_stopped:
                    self._record_failure(wanted, problem)
                    raise
        if preview is None or watch.was_stopped:
            self._stopped(job, wanted)
            return
        is_remote = uses_server(wanted.plan, self._workspace.config)
        seconds = max(used.seconds, time.monotonic() - began) if is_remote else used.seconds
        may_be_shown = self.rules.is_small(seconds) and not depends_on_machine(preview)
        computed = to_computed_preview(preview)
        # Without the flag, the document is never read for the agent: the time would depend on its size.
        may_be_shown = may_be_shown and MAY_BE_READ.encode() in computed.document
        self._workspace.proposals.replace_preview(
            wanted.row.proposal_id,
            computed,
            wanted.actor,
            turn=turn if may_be_shown else None,
        )

    def _stopped(self, job: Job[None], wanted: LaterPreview) -> None:
        """Leave a preview that was stopped to the threads without turns, or to a person if it would run SQL again."""
        if job.is_cancelled:
            return
        if wanted.executes:
            self._workspace.proposals.record_stopped_preview(wanted.row.proposal_id, wanted.actor)
        else:
            self._start(wanted, None)

    def _is_wanted(self, job: Job[None], wanted: LaterPreview) -> bool:
        proposals = self._workspace.proposals
        found = proposals.find(wanted.row.proposal_id)
        is_pending = found is not None and found.state == "PENDING" and not job.is_cancelled
        return is_pending and found is not None and proposals.preview_of(found) is None

    def _record_failure(self, wanted: LaterPreview, problem: RemitError) -> None:
        if problem.reason is not Reason.CANCELLED:
            self._workspace.proposals.record_failed_preview(wanted.row.proposal_id, problem, wanted.actor)


def subject_of(row: ProposalRow) -> str:
    """Return the name of a proposal in job runners."""
    return f"plan:{row.proposal_id}"


def to_computed_preview(preview: RecordedPreview) -> ComputedPreview:
    document = preview.document
    return ComputedPreview(
        preview.digest, document.canonical(), preview.summary, document.risk, document.cannot_be_approved
    )
