"""The service for runs: the outcomes of plans, whether proposed or approved by a command, and their rollback."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import overload

from remit.contracts.plans.agent_views import AgentRunDocuments, AgentUndoAnswer, AgentUndoLook
from remit.contracts.plans.error_response import ErrorResponse
from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.services.common import describe_error
from remit.contracts.services.plans import MAX_PAGE, DriftedFile, RunDocuments, RunPage, RunView, UndoAnswer, UndoLook
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.execution.refusals import PlanRequest, about_name, already_recorded
from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.identity.person import agent_cannot_decide
from remit.plans.proposals.errors import not_found_error
from remit.plans.rollback.preview import drift_changed_error
from remit.services.base.drift import DriftReport, detect_drift, find_later_run, find_set_aside_copies
from remit.services.base.permissions import Right, has_right, require
from remit.services.base.run_list import (
    NEWEST_FIRST_START,
    find_run_of_envelope,
    list_runs,
    open_run_queries,
    resolve_run_id,
)
from remit.services.plans.agent_views import agent_report, agent_run, agent_undo, agent_undo_error, agent_undo_preview
from remit.services.plans.next_steps import advise_after_undo
from remit.services.plans.refusal_records import about_proposal, records_refusals
from remit.services.plans.views import Views, decode_cursor, encode_cursor, view_undo
from remit.store.claims import ClaimCompleted
from remit.store.proposals import ProposalRow
from remit.workspace.workspace import Workspace


class PlanRuns:
    """The runs of plans. An agent sees the runs of its own proposals, a person sees all runs."""

    def __init__(self, workspace: Workspace, views: Views) -> None:
        self._workspace = workspace
        self._views = views

    def list_runs(self, caller: Caller, *, cursor: str | None = None, limit: int = 50) -> RunPage:
        """List the runs of plans and their rollbacks, the newest first. Includes those of the command line."""
        require(caller, Right.SEE)
        limit = max(1, min(limit, MAX_PAGE))
        found = list(list_runs(self._workspace, limit, decode_cursor(cursor, NEWEST_FIRST_START)))
        following = encode_cursor((found[-1].at, found[-1].key)) if len(found) == limit else None
        return RunPage(items=tuple(self._views.run(run) for run in found), next=following)

    def read_run(self, caller: Caller, name: str) -> RunView:
        """Return a run by the id of its proposal or of its envelope."""
        require(caller, Right.SEE_OWN)
        envelope_id = self._find_envelope_id(caller, name)
        run = find_run_of_envelope(self._workspace, envelope_id)
        if run is None:
            raise _never_ran_error(name)
        view = self._views.run(run)
        return agent_run(view) if isinstance(caller, AgentCaller) else view

    @overload
    def read_report(self, caller: PersonCaller, name: str) -> RunDocuments: ...
    @overload
    def read_report(self, caller: Caller, name: str) -> RunDocuments | AgentRunDocuments: ...
    def read_report(self, caller: Caller, name: str) -> RunDocuments | AgentRunDocuments:
        """Return all stored documents of a run, verified against the ledger. An agent gets only how the run ended."""
        require(caller, Right.SEE_OWN)
        envelope_id = self._find_envelope_id(caller, name)
        runs = open_run_queries(self._workspace)
        found = runs.claim(envelope_id)
        if not isinstance(found, ClaimCompleted):
            raise _never_ran_error(name)
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
    def preview_undo(self, caller: PersonCaller, name: str) -> UndoLook: ...
    @overload
    def preview_undo(self, caller: Caller, name: str) -> UndoLook | AgentUndoLook: ...
    def preview_undo(self, caller: Caller, name: str) -> UndoLook | AgentUndoLook:
        """Return whether a run can be rolled back now, and which files changed since."""
        require(caller, Right.SEE_OWN)
        envelope_id = self._find_envelope_id(caller, name)
        run = find_run_of_envelope(self._workspace, envelope_id)
        if run is None:
            raise _never_ran_error(name)
        if isinstance(caller, AgentCaller):
            return agent_undo_preview(envelope_id, run)
        drift = detect_drift(self._workspace, envelope_id, ())
        drift = drift if run.can_be_undone else DriftReport()
        return UndoLook(
            envelope_id=envelope_id,
            undo=view_undo(run),
            drifted=self._drifted_files(drift),
            drift_digest=drift.digest,
            set_aside=tuple(find_set_aside_copies(self._workspace, run.report)[:1_000]) if run.report else (),
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
    @records_refusals("rollback")
    def undo(
        self,
        caller: Caller,
        name: str,
        *,
        force: bool = False,
        drift_digest: str | None = None,
        checkpoints: Collection[str] = (),
    ) -> UndoAnswer | AgentUndoAnswer:
        """Roll back a run, by the id of its proposal or envelope, or by another name of the run.

        If files changed since the run, nothing is touched, and the answer names them. With `force`, a person overwrites
        them after a review, and `drift_digest` is the digest of the reviewed files. Copies of the overwritten files are
        kept. The signed order contains the digest, so a later change of the files refuses the rollback.
        """
        if isinstance(caller, AgentCaller):
            return self._undo_for_agent(caller, name, force=force, checkpoints=checkpoints)
        return self._undo(caller, name, force=force, drift_digest=drift_digest, checkpoints=checkpoints)

    def _undo_for_agent(
        self, caller: AgentCaller, name: str, *, force: bool, checkpoints: Collection[str]
    ) -> AgentUndoAnswer:
        """Roll back for an agent. It learns whether that succeeded. Only people see which files were affected.

        An agent cannot name a checkpoint by its path: the answer would tell whether the run changed this file.
        """
        envelope_id = self.require_undoable(caller, name, force=force)
        try:
            _require_ids(checkpoints)
            answer = self._undo(caller, name, force=force, drift_digest=None, checkpoints=checkpoints)
        except RemitError as problem:
            shown = agent_undo_error(problem, envelope_id, self._views.link_of_run(envelope_id))
            if isinstance(problem, RefusedError):  # recorded in the words for people
                self._record_refusal(caller, envelope_id, problem)
            raise already_recorded(shown) from None
        return agent_undo(answer, self._views.link_of_run(envelope_id))

    def _undo(
        self, caller: Caller, name: str, *, force: bool, drift_digest: str | None, checkpoints: Collection[str]
    ) -> UndoAnswer:
        envelope_id = self.require_undoable(caller, name, force=force)
        drift = detect_drift(self._workspace, envelope_id, checkpoints)
        # A rollback by an agent is recorded even if the run changed nothing. Otherwise, the later views of the agent
        # would show which of the two cases it was.
        if drift.is_empty and not isinstance(caller, AgentCaller):
            return UndoAnswer(status="NOTHING", envelope_id=envelope_id)
        if force and drift.drifted and drift_digest != drift.digest:
            what = "the request does not give the digest of the reviewed files"
            problem = (
                drift_changed_error(envelope_id, what) if drift_digest is None else drift_changed_error(envelope_id)
            )
            self._record_refusal(caller, envelope_id, problem)
            return self._drift_answer(envelope_id, drift, problem)
        stored: list[bool] = []
        refusals: list[RefusedError] = []
        before = set(find_set_aside_copies(self._workspace)) if force else set()
        outcome = self._workspace.rollback(
            envelope_id,
            checkpoints=checkpoints,
            force=force,
            drift=drift.order_digest if force else None,
            on_refusal=refusals.append,
            on_stored=lambda: stored.append(True),
            actor=caller.actor,
        )
        self._workspace.proposals.change_signal.notify()
        if outcome.status == "REFUSED" and refusals and not stored:
            return self._refusal_answer(caller, envelope_id, outcome, refusals[0], checkpoints)
        set_aside = [each for each in find_set_aside_copies(self._workspace) if each not in before] if force else []
        return _undo_answer(outcome, set_aside, stored=bool(stored))

    def require_undoable(self, caller: Caller, name: str, *, force: bool) -> str:
        """Return the envelope id of a run that this caller may roll back.

        Refuses `force` for an agent, a run that the caller cannot see, and a proposal that was not applied yet.
        """
        require(caller, Right.UNDO)
        if force and isinstance(caller, AgentCaller):
            raise agent_cannot_decide("only a person may overwrite changes that were made after the run")
        row = self._workspace.proposals.find(name)
        if row is not None and _is_visible_to(caller, row) and not self._has_run(row):
            raise _not_applied_error(name)
        return self._find_envelope_id(caller, name)

    def recording_decision(self, caller: Caller, name: str, *, approved: bool) -> AbstractContextManager[None]:
        """Record a refusal of a decision by an interface that has checks of its own before it calls `decide`."""
        operation: PlanRequest = "approve" if approved else "deny"
        return self._workspace.refusals.recording(operation, caller.id, about_proposal(self._workspace, name))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _record_refusal(self, caller: Caller, envelope_id: str, problem: RefusedError) -> None:
        """Record a refusal that the caller gets as an answer, or in other words."""
        self._workspace.refusals.record("rollback", caller.id, about_name(envelope_id), problem)

    def _require_row(self, caller: Caller, proposal_id: str) -> ProposalRow:
        """Return the row of a proposal. To an agent, the proposals of other callers do not exist."""
        row = self._workspace.proposals.find(proposal_id)
        if row is None or not _is_visible_to(caller, row):
            raise not_found_error(proposal_id)
        return row

    def _has_run(self, row: ProposalRow) -> bool:
        return row.envelope_id is not None and find_run_of_envelope(self._workspace, row.envelope_id) is not None

    def _find_envelope_id(self, caller: Caller, name: str) -> str:
        """Return the envelope id of the run with this name."""
        proposals = self._workspace.proposals
        row = proposals.find(name)
        if row is None:
            try:
                row = proposals.find_by_envelope(name)
            except EnvironmentFailureError:  # a changed row proves no owner; a person sees every run without it
                if not has_right(caller, Right.SEE):
                    raise
        if row is not None and _is_visible_to(caller, row):
            if row.envelope_id is None:
                raise _never_ran_error(name)
            return row.envelope_id
        if not has_right(caller, Right.SEE) or not name.isprintable():
            raise not_found_error(name)
        return open_run_queries(self._workspace).find(resolve_run_id(self._workspace, name))

    def _refusal_answer(
        self,
        caller: Caller,
        envelope_id: str,
        outcome: RollbackOutcome,
        problem: RefusedError,
        checkpoints: Collection[str],
    ) -> UndoAnswer:
        """Return an answer that names the drifted files. Raises the refusal if it has another reason than drift."""
        advised = advise_after_undo(problem, caller, self._views.link_of_run(envelope_id))
        if problem.reason is not Reason.DRIFTED:
            raise already_recorded(advised)
        drift = detect_drift(self._workspace, envelope_id, checkpoints)
        return self._drift_answer(envelope_id, drift, advised, outcome.errors)

    def _drift_answer(
        self, envelope_id: str, drift: DriftReport, problem: RemitError, errors: tuple[ErrorResponse, ...] = ()
    ) -> UndoAnswer:
        return UndoAnswer(
            status="REFUSED",
            envelope_id=envelope_id,
            drifted=self._drifted_files(drift),
            drift_digest=drift.digest,
            refused=describe_error(problem),
            errors=errors,
        )

    def _drifted_files(self, drift: DriftReport) -> tuple[DriftedFile, ...]:
        if not drift.drifted:
            return ()
        later = find_later_run(self._workspace, drift)
        by = later.envelope_id if later is not None else None
        return tuple(
            DriftedFile(path=path, exists=state is not None, changed_by=by)
            for path, state in list(drift.drifted.items())[:1_000]
        )


def _require_ids(checkpoints: Collection[str]) -> None:
    for each in checkpoints:
        try:
            uuid.UUID(each)
        except ValueError:
            raise RefusedError(Reason.ARGUMENT_INVALID, "this is not the id of a checkpoint", where=each) from None


def _is_visible_to(caller: Caller, row: ProposalRow) -> bool:
    return has_right(caller, Right.SEE) or row.proposed_by == caller.id


def _undo_answer(outcome: RollbackOutcome, set_aside: Sequence[str], *, stored: bool) -> UndoAnswer:
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
        set_aside=tuple(set_aside[:1_000]),
    )


def _not_applied_error(name: str) -> RefusedError:
    return RefusedError(
        Reason.TRANSITION_INVALID,
        "this plan was not applied yet, so there is nothing to roll back",
        where=name,
        next_step="Cancel it, and it cannot be applied any more.",
    )


def _never_ran_error(name: str) -> RefusedError:
    return RefusedError(
        Reason.STATE_MISSING,
        "this plan has not been applied, so there is no run of it",
        where=name,
        next_step="Apply it first; before that it must be approved.",
    )
