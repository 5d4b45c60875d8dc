"""Views of proposed plans and of runs. The view of a proposal also shows the run of its envelope."""

import base64
import binascii
import json
from typing import Any, Final

from remit.contracts.plans.outcome import PlanRefusal
from remit.contracts.plans.proposal import StoredProposalState
from remit.contracts.services.common import ErrorTold, describe_error
from remit.contracts.services.plans import ProposalState, ProposalView, RunView, UndoTold
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT, render_time
from remit.ledger.search import SearchFilter, find_entries
from remit.services.base.context import ConsoleUrl, link_to
from remit.services.base.jobs import Job
from remit.services.base.run_list import NOT_VOUCHED_FOR, KnownRun, find_run_of_envelope
from remit.services.plans.next_steps import advise_after_apply
from remit.store.proposals import ProposalRow
from remit.workspace.workspace import Workspace

_OF_RUN: Final[dict[str, ProposalState]] = {
    "SUCCESS": "APPLIED",
    "PARTIAL": "PARTIAL",
    "FAILED": "FAILED",
    "ROLLED_BACK": "ROLLED_BACK",
    "CANCELLED": "CANCELLED",
    "RUNNING": "RUNNING",
    "UNFINISHED": "UNFINISHED",
    NOT_VOUCHED_FOR: "NOT_VOUCHED_FOR",
}
STORED_STATES: Final[dict[ProposalState, tuple[StoredProposalState, ...]]] = {
    "PENDING": ("PENDING",),
    "DENIED": ("DENIED",),
    "EXPIRED": ("EXPIRED", "APPROVED"),
    "VOID": ("VOID", "APPROVED"),
    "NOT_VOUCHED_FOR": ("PENDING", "APPROVED", "DENIED", "EXPIRED", "VOID"),
}
"""The states of the row for each state in an answer. A state that is missing here needs an approval."""
APPROVED_STATES: Final[tuple[StoredProposalState, ...]] = ("APPROVED", "VOID")
_NO_DIGEST: Final = "sha256:" + "0" * 64
_CANCELLED: Final = """SELECT 1 FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind = 'envelope.cancelled' LIMIT 1"""


class Views:
    """Builds the views of one workspace. `console_url` is the address of the console, for links."""

    def __init__(self, workspace: Workspace, console_url: ConsoleUrl) -> None:
        self._workspace = workspace
        self._console_url = console_url

    def proposal(
        self, row: ProposalRow, job: Job[Any] | None = None, *, with_recorded_refusal: bool = True
    ) -> ProposalView:
        """Build the view of a proposal. The row must be verified.

        `with_recorded_refusal`: if this process does not know why the last apply changed nothing, read the ledger.
        """
        run = find_run_of_envelope(self._workspace, row.envelope_id) if row.envelope_id is not None else None
        until = _apply_until(row)
        state = self._state(row, run, until)
        is_running = job is not None and job.is_running
        if is_running and state == "APPROVED":
            state = "RUNNING"  # the job has started, and has no claim yet
        return ProposalView(
            proposal_id=row.proposal_id,
            state=state,
            plan_id=row.plan_id,
            plan_digest=row.plan_digest,
            title=row.title,
            risk=row.risk,  # type: ignore[arg-type]  # checked by the model
            proposed_by=row.proposed_by,
            token_jti=row.token_jti,
            note=row.note,
            created_at=row.created_at,
            expires_at=row.expires_at,
            decided_by=row.decided_by,
            decided_at=row.decided_at,
            reason=row.reason,
            envelope_id=row.envelope_id,
            apply_until=until if state == "APPROVED" else None,
            report_folder=run.report if run is not None else None,
            undo=view_undo(run) if run is not None else None,
            progress=job.progress if job is not None and is_running else None,
            refused=self._find_refusal(row, job, is_recorded=with_recorded_refusal) if state == "APPROVED" else None,
            link=self._link_to_proposal(row),
        )

    def run(self, run: KnownRun) -> RunView:
        try:
            proposal = self._workspace.proposals.find_by_envelope(run.envelope_id)
        except EnvironmentFailureError:  # the row of the proposal fails verification, but the run itself is verified
            proposal = None
        return RunView(
            at=run.at,
            what=run.what,
            plan_id=run.plan_id,
            envelope_id=run.envelope_id,
            proposal_id=proposal.proposal_id if proposal is not None else None,
            status=run.status,
            files=run.files,
            undo=view_undo(run),
            report_folder=run.report,
        )

    def _state(self, row: ProposalRow, run: KnownRun | None, until: str | None) -> ProposalState:
        """Return the state of a proposal. The state of a run comes first, even if the proposal was withdrawn later."""
        if run is not None:
            state = _OF_RUN.get(run.status, "NOT_VOUCHED_FOR")
            return "UNDONE" if state in {"APPLIED", "PARTIAL"} and run.undo == "DONE" else state
        if row.state != "APPROVED":
            return row.state
        if until is not None and until <= render_time(self._workspace.clock()):
            return "EXPIRED"
        with self._workspace.store.reading_pooled() as connection:
            is_void = connection.one(_CANCELLED, (DEFAULT_TENANT, row.envelope_id)) is not None
        return "VOID" if is_void else "APPROVED"

    def _find_refusal(self, row: ProposalRow, job: Job[Any] | None, *, is_recorded: bool) -> ErrorTold | None:
        """Return why the last apply changed nothing, from this process, or from the ledger if another one tried."""
        if (found := _find_refusal(job)) is not None or not is_recorded or row.envelope_id is None:
            return found
        wanted = SearchFilter(kind="plan.refused", correlation_id=row.envelope_id)
        with self._workspace.store.reading_pooled() as connection:
            entries = find_entries(connection, DEFAULT_TENANT, wanted, None, 1).entries
        return _parse_refusal(entries[0].payload) if entries else None

    def _link_to_proposal(self, row: ProposalRow) -> str | None:
        path = ("inbox", "plan") if row.envelope_id is None else ("runs",)
        return link_to(self._console_url, *path, row.proposal_id)

    def link_of_run(self, name: str) -> str | None:
        return link_to(self._console_url, "runs", name)


def view_unverified_row(row: ProposalRow) -> ProposalView | None:
    """Return a view of a row that fails verification. It shows only its id and its time of creation."""
    try:
        return ProposalView(
            proposal_id=row.proposal_id,
            state="NOT_VOUCHED_FOR",
            plan_id="unknown",
            plan_digest=_NO_DIGEST,
            title="This row differs from the ledger: run `remit ledger verify`.",
            risk="HIGH",
            proposed_by="unknown",
            token_jti=None,
            note=None,
            created_at=row.created_at,
            expires_at=row.created_at,
            decided_by=None,
            decided_at=None,
            reason=None,
            envelope_id=None,
        )
    except ValueError:  # the id or a time of the row is not valid either
        return None


def view_undo(run: KnownRun) -> UndoTold:
    return UndoTold(state=run.undo, until=run.until)


def find_refusal(job: Job[Any]) -> RemitError | None:
    """Return why an ended job changed nothing. None if it changed something, or may have."""
    outcome, refusals = job.result()
    if not isinstance(outcome, PlanRefusal):
        return None
    return refusals[0] if refusals else RefusedError(Reason.CANCELLED, outcome.errors[0].message)


def encode_cursor(position: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode_cursor(cursor: str | None, default: tuple[str, str]) -> tuple[str, str]:
    """Return the position where a list continues. A caller that invents one sees another part of the same list."""
    if cursor is None:
        return default
    try:
        at, key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(at, str) and isinstance(key, str) and (at + key).isascii() and (at + key).isprintable():
            return at, key
    except (ValueError, binascii.Error, TypeError, RecursionError):
        pass
    raise RefusedError(
        Reason.MALFORMED, "this cursor is not a position in a list", where="cursor", next_step="Start without one."
    )


def _apply_until(row: ProposalRow) -> str | None:
    """Return the expiry of the approval from the row, for display. Apply uses only the signed envelope."""
    try:
        until = json.loads(row.envelope or "{}").get("expires_at")
    except (ValueError, AttributeError):
        return None
    return until if isinstance(until, str) else None


def _parse_refusal(payload: str) -> ErrorTold | None:
    try:
        tree = json.loads(payload)
        problem = RefusedError(
            Reason(tree["reason"]),
            str(tree["what"]),
            where=str(tree.get("where", "")),
            next_step=str(tree.get("next_step", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return describe_error(advise_after_apply(problem))


def _find_refusal(job: Job[Any] | None) -> ErrorTold | None:
    if job is None or job.is_running:
        return None
    try:
        problem = find_refusal(job)
    except RemitError as raised:
        problem = raised
    except Exception:  # noqa: BLE001 - the caller that waited got this error
        return None
    return describe_error(advise_after_apply(problem)) if problem is not None else None
