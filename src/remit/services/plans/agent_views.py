"""Answers for an agent about its proposals and their runs: how each one ended, and nothing about files or rows. Pure.

`PlanService` passes every answer for an `AgentCaller` through these functions, and through
`remit.services.plans.agent_preview`. People see everything. After a person approved a plan, its agent learns how the
run ended, and whether it was refused. The approval includes that.
"""

from typing import Final

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.agent_views import (
    AgentActionsSummary,
    AgentChangeLog,
    AgentProposalPreview,
    AgentReadPreview,
    AgentReport,
    AgentRunDocuments,
    AgentUndoAnswer,
    AgentUndoLook,
)
from remit.contracts.plans.plan import Plan
from remit.contracts.services.common import describe_error
from remit.contracts.services.plans import ProposalView, RunDocuments, RunView, UndoAnswer, UndoTold
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.services.base.run_list import KnownRun
from remit.services.plans.agent_preview import WITHHELD, agent_document

DISCLOSED_REASONS: Final = frozenset(
    {
        Reason.EXPIRED,
        Reason.REVOKED,
        Reason.CANCELLED,
        Reason.IN_PROGRESS,
        Reason.TRANSITION_INVALID,
        Reason.STATE_MISSING,
        Reason.STORE_UNAVAILABLE,
        Reason.SANDBOX_UNAVAILABLE,
        Reason.CAPABILITY_MISSING,
        Reason.ROLLBACK_EXPIRED,
    }
)
"""Reasons that depend on the approval, the token and the machine, and never on the content of files or rows."""
RUN_WITHHELD: Final = (
    "An agent sees how the run of its plan ended. A person sees the changes, the failures and their reasons. Null means"
    " that a value is withheld. It does not mean none."
)
UNDO_WITHHELD: Final = (
    "An agent sees whether its plan was rolled back. A person sees which files were restored, and which changed since."
    " Null means that a value is withheld. It does not mean none."
)
_CAN_BE_UNDONE: Final = frozenset({"APPLIED", "PARTIAL", "SUCCESS"})
_ENDED_WITHOUT_SUCCESS: Final = frozenset({"FAILED", "ROLLED_BACK", "CANCELLED"})


def agent_preview(
    proposal_id: str, plan: Plan, config: SystemConfig, read: AgentReadPreview | None = None
) -> AgentProposalPreview:
    """Return the preview of a proposal. `read` is what the agent may read of the stored one, if it may read all."""
    return AgentProposalPreview(proposal_id=proposal_id, document=read or agent_document(plan, config))


def agent_proposal(view: ProposalView, title: str) -> ProposalView:
    """Return a proposal without counts and progress. `title` is made of the plan's text. Refusals name no file."""
    refused = view.refused
    if refused is not None and refused.code not in DISCLOSED_REASONS:
        refused = describe_error(_withheld_reason(refused.code))
    return view.model_copy(
        update={
            "title": title,
            "undo": None if view.undo is None else _undo_view(view.state),
            "progress": None,
            "refused": refused,
        }
    )


def agent_run(view: RunView) -> RunView:
    status = "UNDONE" if view.undo.state == "DONE" else view.status
    return view.model_copy(update={"files": None, "undo": _undo_view(status)})


def agent_report(documents: RunDocuments) -> AgentRunDocuments:
    """Return how the run ended. Only people see which action failed, the changes, and the duration."""
    report, log = documents.report, documents.change_log
    total = report.actions_summary.total
    is_success = report.status == "SUCCESS"  # a SUCCESS implies that every action was completed
    return AgentRunDocuments(
        report=AgentReport(
            report_id=report.report_id,
            plan_id=report.plan_id,
            executor_version=report.executor_version,
            status=report.status,
            completed_at=report.completed_at,
            actions_summary=AgentActionsSummary(
                total=total,
                completed=total if is_success else None,
                failed=0 if is_success else None,
                skipped=0 if is_success else None,
            ),
            # The progress of a run before it was cancelled depends on the content of files and rows.
            rollback_performed=None if report.status == "CANCELLED" else report.rollback_performed,
            rollback_manifest_id=report.rollback_manifest_id if report.status == "ROLLED_BACK" else None,
        ),
        change_log=AgentChangeLog(
            log_id=log.log_id,
            plan_id=log.plan_id,
            execution_report_id=log.execution_report_id,
            created_at=log.created_at,
        ),
        withheld=RUN_WITHHELD,
    )


def agent_undo_preview(envelope_id: str, run: KnownRun) -> AgentUndoLook:
    status = "UNDONE" if run.undo == "DONE" else run.status
    return AgentUndoLook(envelope_id=envelope_id, undo=_undo_view(status), withheld=WITHHELD)


def agent_undo(answer: UndoAnswer, link: str | None) -> AgentUndoAnswer:
    """Return whether the run was rolled back. A run that changed nothing gets the same answer as a rolled-back one."""
    refused = answer.refused
    return AgentUndoAnswer(
        status="EXECUTED" if answer.status == "NOTHING" else answer.status,
        envelope_id=answer.envelope_id,
        stored=answer.stored,
        refused=None if refused is None else describe_error(_undo_problem(refused.code, answer.envelope_id, link)),
        withheld=UNDO_WITHHELD,
    )


# --- errors ----------------------------------------------------------------------------------------------------------


def agent_error(problem: RemitError) -> RemitError:
    """Return why an approved plan was not applied, in words that do not depend on the content of files."""
    if problem.reason in DISCLOSED_REASONS:
        return problem
    if isinstance(problem, RefusedError):
        return _withheld_reason(problem.reason)
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        "the run of the plan did not end as it should; the reason is shown to people only",
        next_step="Ask a person to look at the page of the plan.",
    )


def agent_undo_error(problem: RemitError, envelope_id: str, link: str | None) -> RemitError:
    """Return why a run was not rolled back, in such words. `link` is the page of the run, for a person."""
    return problem if problem.reason in DISCLOSED_REASONS else _undo_problem(problem.reason, envelope_id, link)


def _undo_problem(reason: Reason, envelope_id: str, link: str | None) -> RemitError:
    link_text = f": {link}" if link else "."
    console = f"in the console at {link}, or " if link else ""
    if reason is Reason.DRIFTED:
        return RefusedError(
            Reason.DRIFTED,
            "something that the plan changed has changed again since",
            next_step=f"Only a person can overwrite the later changes, {console}at a terminal with:"
            f" remit rollback {envelope_id} --force",
        )
    return RefusedError(
        Reason.ROLLBACK_FAILED,
        "the rollback did not succeed; the reason is shown to people only",
        next_step=f"Ask a person to look at the page of the run{link_text}",
    )


def _withheld_reason(reason: Reason) -> RemitError:
    """Return the same error for every cause in the files and rows, because the cause would tell something about them.

    A connection without a valid URL is a cause in the machine. It is found before any file or row is read, so an agent
    may know it. The error names neither the variable nor the file of the URL.
    """
    if reason is Reason.CONFIG_INVALID:
        return RefusedError(
            Reason.CONFIG_INVALID,
            "the process that applies plans has no valid URL for a database connection that the plan uses; nothing was"
            " changed",
            next_step="The approval stays valid. Ask a person of this machine to set the URL of the connection for this"
            " process (`remit doctor` names it), and then apply the plan again.",
        )
    return RefusedError(
        Reason.BINDING_MISMATCH,
        "the plan was not applied and nothing was changed; the reason is shown to people only",
        next_step="Ask a person to look at the page of the plan. To have it approved for the files as they are now,"
        " propose it again with another key.",
    )


def _undo_view(status: str) -> UndoTold:
    """Return the rollback state by the status alone: whether the run changed anything depends on the files."""
    if status in _CAN_BE_UNDONE:
        return UndoTold(state="POSSIBLE")
    if status == "UNDONE":
        return UndoTold(state="DONE")
    return UndoTold(state="NOTHING" if status in _ENDED_WITHOUT_SUCCESS else "UNKNOWN")
