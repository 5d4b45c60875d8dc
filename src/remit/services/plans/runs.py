"""Runs at the desk: what came of plans, proposed here or approved elsewhere, and the way back."""

from collections.abc import Collection, Mapping, Sequence
from typing import overload

from remit.contracts.plans.agent_views import AgentRunDocuments, AgentUndoAnswer, AgentUndoLook
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.services.common import describe_error
from remit.contracts.services.plans import MAX_PAGE, DriftedFile, RunDocuments, RunPage, RunView, UndoAnswer, UndoLook
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.identity.person import agent_cannot_decide
from remit.plans.proposals.errors import not_found_error
from remit.plans.rollback.preview import drift_changed_error
from remit.services.base.drift import DriftReport, detect_drift, later_run, set_aside
from remit.services.base.permissions import Right, may, require
from remit.services.base.run_list import AFTER_ALL, full_name, known_run, list_runs, open_past_runs
from remit.services.plans.agent_views import agent_report, agent_run, agent_undo, agent_undo_error, agent_undo_look
from remit.services.plans.next_steps import after_undo
from remit.services.plans.views import Views, cursor_of, place_of, undo_told
from remit.store.claims import ClaimCompleted
from remit.store.proposals import ProposalRow
from remit.workspace.workspace import Workspace


class PlanRuns:
    """What has become of plans. An agent sees what it proposed itself; a person, all."""

    def __init__(self, workspace: Workspace, views: Views) -> None:
        self._workspace = workspace
        self._views = views

    def runs(self, caller: Caller, *, cursor: str | None = None, limit: int = 50) -> RunPage:
        """The newest first, those of the command line too, and what took them back."""
        require(caller, Right.SEE)
        limit = max(1, min(limit, MAX_PAGE))
        found = list(list_runs(self._workspace, limit, place_of(cursor, AFTER_ALL)))
        following = cursor_of((found[-1].at, found[-1].key)) if len(found) == limit else None
        return RunPage(items=tuple(self._views.run(run) for run in found), next=following)

    def run(self, caller: Caller, name: str) -> RunView:
        """By the id of its proposal or of its envelope."""
        require(caller, Right.SEE_OWN)
        envelope_id = self._envelope(caller, name)
        run = known_run(self._workspace, envelope_id)
        if run is None:
            raise _never_ran(name)
        view = self._views.run(run)
        return agent_run(view) if isinstance(caller, AgentCaller) else view

    @overload
    def report(self, caller: PersonCaller, name: str) -> RunDocuments: ...
    @overload
    def report(self, caller: Caller, name: str) -> RunDocuments | AgentRunDocuments: ...
    def report(self, caller: Caller, name: str) -> RunDocuments | AgentRunDocuments:
        """All that is on record of a run, as the ledger vouches for it. An agent is told how it ended."""
        require(caller, Right.SEE_OWN)
        envelope_id = self._envelope(caller, name)
        runs = open_past_runs(self._workspace)
        found = runs.claim(envelope_id)
        if not isinstance(found, ClaimCompleted):
            raise _never_ran(name)
        outcome = runs.outcome_of(found)
        documents = RunDocuments(
            status=outcome.status,
            report=outcome.report,
            change_log=outcome.change_log,
            manifest=outcome.manifest,
            errors=outcome.errors,
            rollbacks=tuple(runs.rollbacks_of(outcome)),
        )
        return agent_report(documents) if isinstance(caller, AgentCaller) else documents

    @overload
    def undo_look(self, caller: PersonCaller, name: str) -> UndoLook: ...
    @overload
    def undo_look(self, caller: Caller, name: str) -> UndoLook | AgentUndoLook: ...
    def undo_look(self, caller: Caller, name: str) -> UndoLook | AgentUndoLook:
        """What taking it back would meet now: whether it can be, and which files were changed since."""
        require(caller, Right.SEE_OWN)
        envelope_id = self._envelope(caller, name)
        run = known_run(self._workspace, envelope_id)
        if run is None:
            raise _never_ran(name)
        if isinstance(caller, AgentCaller):
            return agent_undo_look(envelope_id, run)
        standing = detect_drift(self._workspace, envelope_id, ())
        standing = standing if run.can_be_undone else DriftReport()
        return UndoLook(
            envelope_id=envelope_id,
            undo=undo_told(run),
            drifted=self._drifted(standing),
            drift_digest=standing.digest,
            set_aside=tuple(set_aside(self._workspace, run.report)[:1_000]) if run.report else (),
        )

    @overload
    def undo(
        self,
        caller: PersonCaller,
        name: str,
        *,
        force: bool = False,
        drift_digest: str | None = None,
        checkpoints: Collection[str] = (),
    ) -> UndoAnswer: ...
    @overload
    def undo(
        self,
        caller: Caller,
        name: str,
        *,
        force: bool = False,
        drift_digest: str | None = None,
        checkpoints: Collection[str] = (),
    ) -> UndoAnswer | AgentUndoAnswer: ...
    def undo(
        self,
        caller: Caller,
        name: str,
        *,
        force: bool = False,
        drift_digest: str | None = None,
        checkpoints: Collection[str] = (),
    ) -> UndoAnswer | AgentUndoAnswer:
        """Take back a run, by the id of its proposal or envelope, or by whatever else it is called.

        Where files were changed since, nothing is touched, and they are named; `force` is for a person, who has looked
        at them, and says so with the digest of that look: what stands there is kept aside. The signed order carries it,
        so whatever is changed until then is looked at anew.
        """
        if isinstance(caller, AgentCaller):
            return self._undo_for_agent(caller, name, force=force, checkpoints=checkpoints)
        return self._undo(caller, name, force=force, drift_digest=drift_digest, checkpoints=checkpoints)

    def _undo_for_agent(
        self, caller: AgentCaller, name: str, *, force: bool, checkpoints: Collection[str]
    ) -> AgentUndoAnswer:
        """An agent is told whether it was undone. Which files were restored or changed since is for people."""
        envelope_id = self.undoable(caller, name, force=force)
        try:
            answer = self._undo(caller, name, force=force, drift_digest=None, checkpoints=checkpoints)
        except RemitError as problem:
            raise agent_undo_error(problem, self._views.link_of_run(envelope_id)) from None
        return agent_undo(answer, self._views.link_of_run(envelope_id))

    def _undo(
        self, caller: Caller, name: str, *, force: bool, drift_digest: str | None, checkpoints: Collection[str]
    ) -> UndoAnswer:
        envelope_id = self.undoable(caller, name, force=force)
        standing = detect_drift(self._workspace, envelope_id, checkpoints)
        # What an agent undoes is recorded, also if nothing was changed: else its later views would tell which it was.
        if standing.is_empty and not isinstance(caller, AgentCaller):
            return UndoAnswer(status="NOTHING", envelope_id=envelope_id)
        if force and standing.drifted and drift_digest != standing.digest:
            what = "it is not said which look at them this is a yes to"
            problem = (
                drift_changed_error(envelope_id, what) if drift_digest is None else drift_changed_error(envelope_id)
            )
            return self._drift_told(envelope_id, standing, problem)
        stored: list[bool] = []
        refusals: list[RefusedError] = []
        before = set(set_aside(self._workspace)) if force else set()
        outcome = self._workspace.rollback(
            envelope_id,
            checkpoints=checkpoints,
            force=force,
            drift=standing.bound if force else None,
            on_refusal=refusals.append,
            on_stored=lambda: stored.append(True),
            actor=caller.actor,
        )
        self._workspace.proposals.bell.ring()
        if outcome.status == "REFUSED" and refusals and not stored:
            return self._refused(caller, envelope_id, outcome, refusals[0], checkpoints)
        aside = [each for each in set_aside(self._workspace) if each not in before] if force else []
        return _told(outcome, aside, stored=bool(stored))

    def undoable(self, caller: Caller, name: str, *, force: bool) -> str:
        """The envelope of a run that this caller may take back, for whoever does that himself, such as a command."""
        require(caller, Right.UNDO)
        if force and isinstance(caller, AgentCaller):
            raise agent_cannot_decide("what somebody changed since the run is not an agent's to replace")
        row = self._workspace.proposals.find(name)
        if row is not None and _is_for(caller, row) and not self._was_begun(row):
            raise _not_applied_yet(name)
        return self._envelope(caller, name)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _row(self, caller: Caller, proposal_id: str) -> ProposalRow:
        """An agent's own; that there is another's is none of its business."""
        row = self._workspace.proposals.find(proposal_id)
        if row is None or not _is_for(caller, row):
            raise not_found_error(proposal_id)
        return row

    def _was_begun(self, row: ProposalRow) -> bool:
        return row.envelope_id is not None and known_run(self._workspace, row.envelope_id) is not None

    def _envelope(self, caller: Caller, name: str) -> str:
        """Of the run that is meant."""
        proposals = self._workspace.proposals
        row = proposals.find(name)
        if row is None:
            try:
                row = proposals.find_by_envelope(name)
            except EnvironmentFailureError:  # a changed row is nobody's; people need none to get at a run
                if not may(caller, Right.SEE):
                    raise
        if row is not None and _is_for(caller, row):
            if row.envelope_id is None:
                raise _never_ran(name)
            return row.envelope_id
        if not may(caller, Right.SEE) or not name.isprintable():
            raise not_found_error(name)
        return open_past_runs(self._workspace).find(full_name(self._workspace, name))

    def _refused(
        self,
        caller: Caller,
        envelope_id: str,
        outcome: RollbackOutcome,
        problem: RefusedError,
        checkpoints: Collection[str],
    ) -> UndoAnswer:
        """Told with the files, if that is why; all else is refused as everywhere."""
        told = after_undo(problem, caller, self._views.link_of_run(envelope_id))
        if problem.reason is not Reason.DRIFTED:
            raise told
        standing = detect_drift(self._workspace, envelope_id, checkpoints)
        return self._drift_told(envelope_id, standing, told, outcome.errors)

    def _drift_told(
        self, envelope_id: str, standing: DriftReport, problem: RemitError, errors: tuple[ErrorResponse, ...] = ()
    ) -> UndoAnswer:
        return UndoAnswer(
            status="REFUSED",
            envelope_id=envelope_id,
            drifted=self._drifted(standing),
            drift_digest=standing.digest,
            refused=describe_error(problem),
            errors=errors,
        )

    def _drifted(self, standing: DriftReport) -> tuple[DriftedFile, ...]:
        if not standing.drifted:
            return ()
        later = later_run(self._workspace, standing)
        by = later.envelope_id if later is not None else None
        return tuple(
            DriftedFile(path=path, exists=state is not None, changed_by=by)
            for path, state in list(standing.drifted.items())[:1_000]
        )


def _is_for(caller: Caller, row: ProposalRow) -> bool:
    return may(caller, Right.SEE) or row.proposed_by == caller.id


def _told(outcome: RollbackOutcome, aside: Sequence[str], *, stored: bool) -> UndoAnswer:
    paths: Mapping[str, str] = {each.checkpoint_id: each.file_path for each in outcome.manifest.checkpoints}
    if (rows := outcome.manifest.rows) is not None:
        paths = {**paths, rows.checkpoint_id: rows.server}
    return UndoAnswer(
        status=outcome.status,
        envelope_id=outcome.envelope_id,
        stored=stored,
        restored=tuple(paths.get(each, each) for each in outcome.restored),
        kept=tuple(
            f"{paths.get(each.checkpoint_id, each.checkpoint_id)}: {each.reason}"[:1_000] for each in outcome.kept
        ),
        errors=outcome.errors,
        set_aside=tuple(aside[:1_000]),
    )


def _not_applied_yet(name: str) -> RefusedError:
    return RefusedError(
        Reason.TRANSITION_INVALID,
        "this plan was not applied yet, so there is nothing to take back",
        where=name,
        next_step="Cancel it, and it never will be.",
    )


def _never_ran(name: str) -> RefusedError:
    return RefusedError(
        Reason.STATE_MISSING,
        "this plan has not been applied, so there is no run of it",
        where=name,
        next_step="Apply it first; before that it must be approved.",
    )
