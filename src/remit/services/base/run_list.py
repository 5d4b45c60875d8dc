"""The runs of plans and their rollbacks, newest first, verified against the ledger; and their short names."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.execution.journal import is_orphan
from remit.plans.apply.environment import PlanRules
from remit.plans.run_queries import RunQueries
from remit.plans.storage.drift import changed_nothing
from remit.plans.storage.manifest import fold
from remit.store.claims import ClaimCompleted, ClaimHeld
from remit.workspace.workspace import Workspace

MIN_SHORT_LENGTH: Final = 8
NO_LIMIT: Final = 1_000_000
NEWEST_FIRST_START: Final = ("9999", "")
"""A position later than every run, where a list of the newest runs begins."""
NOT_VOUCHED_FOR: Final = "NOT_VOUCHED_FOR".replace("_", " ")
"""The status of a run that the ledger does not prove. Pages call it "not verified"."""
_NEWEST: Final = """SELECT scope, key, at FROM (
    SELECT scope, key, coalesce(finished_at, claimed_at) AS at FROM claims
    WHERE tenant_id = ? AND scope IN ('plan', 'rollback')) AS runs
  WHERE at < ? OR (at = ? AND key < ?) ORDER BY at DESC, key DESC LIMIT ?"""
_AT: Final = """SELECT coalesce(finished_at, claimed_at) FROM claims
  WHERE tenant_id = ? AND scope = 'plan' AND key = ?"""
_UNUSED: Final = """SELECT e.correlation_id FROM ledger_entries e
  WHERE e.tenant_id = ? AND e.kind = 'envelope.issued'
  AND NOT EXISTS (SELECT 1 FROM ledger_entries c WHERE c.tenant_id = e.tenant_id
    AND c.correlation_id = e.correlation_id AND c.kind IN ('envelope.cancelled', 'plan.intent'))
  ORDER BY e.seq DESC LIMIT ?"""
_IDS: Final = "SELECT key FROM claims WHERE tenant_id = ? AND scope = 'plan' ORDER BY key DESC"
_PROPOSALS: Final = "SELECT proposal_id FROM plan_proposals WHERE tenant_id = ? ORDER BY proposal_id DESC"

Undo = Literal["POSSIBLE", "PARTLY_DONE", "DONE", "EXPIRED", "NOTHING", "STAYS", "UNKNOWN"]
"""STAYS: the rest of the run cannot be rolled back."""


class KnownRun(NamedTuple):
    """One run of a plan, or of the rollback of one."""

    at: str
    what: Literal["plan", "rollback"]
    plan_id: str
    envelope_id: str
    status: str
    files: int | None
    undo: Undo
    until: str | None = None
    report: str | None = None
    key: str = ""
    """The key of the claim: the id of the envelope, or of the rollback order."""

    @property
    def can_be_undone(self) -> bool:
        return self.undo in {"POSSIBLE", "PARTLY_DONE"}

    def tree(self) -> dict[str, Any]:
        command = f"remit rollback {self.envelope_id}" if self.can_be_undone else None
        undo = {"state": self.undo, "until": self.until, "command": command}
        return {name: value for name, value in self._asdict().items() if name not in {"until", "key"}} | {"undo": undo}


def list_runs(
    workspace: Workspace, limit: int = NO_LIMIT, before: tuple[str, str] = NEWEST_FIRST_START
) -> Iterator[KnownRun]:
    """List runs, the newest first. A run that cannot be verified is listed without the details that its row claims.

    `before` is the time and the key of a run that was listed already.
    """
    reader = _RunReader(workspace)
    at, key = before
    with workspace.store.reading() as connection:
        rows = list(connection.rows(_NEWEST, (DEFAULT_TENANT, at, at, key, limit)))
    for scope, key, at in rows:
        found = reader.runs.claim(str(key), str(scope))
        if found is not None:
            run = reader.read_plan_run(found, str(at)) if scope == "plan" else reader.read_rollback(found, str(at))
            yield run._replace(key=str(key))


def find_run_of_envelope(workspace: Workspace, envelope_id: str) -> KnownRun | None:
    """Find the run of one envelope, or None if it was never started."""
    with workspace.store.reading_pooled() as connection:
        row = connection.one(_AT, (DEFAULT_TENANT, envelope_id))
    reader = _RunReader(workspace)
    found = reader.runs.claim(envelope_id) if row is not None else None
    return None if row is None or found is None else reader.read_plan_run(found, str(row[0]))._replace(key=envelope_id)


def shorten_run_id(envelope_id: str) -> str:
    """Return the last part of an id. The first parts of ids from the same minute are the same."""
    return envelope_id.rpartition("-")[2]


def resolve_run_id(workspace: Workspace, name: str) -> str:
    """Return the id of the envelope whose id ends with `name`. Other names of a run are returned unchanged."""
    if name == "last" or len(name) < MIN_SHORT_LENGTH or "/" in name:
        return name
    with workspace.store.reading() as connection:
        ids = [str(row[0]) for row in connection.rows(_IDS, (DEFAULT_TENANT,))]
    matching = [each for each in ids if each.endswith(name)]
    if len(matching) > 1 and name not in matching:
        raise RefusedError(
            Reason.MALFORMED,
            f"{len(matching):,} runs have an envelope id with this ending",
            where=name,
            next_step=f"Give more of the id, such as {matching[0]} or {matching[1]}.",
        )
    return matching[0] if len(matching) == 1 else name


def find_envelope_of_proposal(workspace: Workspace, name: str) -> str | None:
    """Return the envelope id of the proposal with this id, or whose id ends with `name`, as the console shows it.

    None if no proposal, or more than one, has such an id. Refuses a proposal that has no envelope.
    """
    if len(name) < MIN_SHORT_LENGTH or "/" in name:
        return None
    with workspace.store.reading() as connection:
        ids = [str(row[0]) for row in connection.rows(_PROPOSALS, (DEFAULT_TENANT,))]
    matching = [each for each in ids if each == name] or [each for each in ids if each.endswith(name)]
    row = workspace.proposals.find(matching[0]) if len(matching) == 1 else None
    if row is None:
        return None
    if row.envelope_id is None:
        raise RefusedError(
            Reason.STATE_MISSING,
            "this proposed plan was not approved, so it has not run",
            where=f"proposal {row.proposal_id}",
            next_step=f"See its state: remit approvals show {row.proposal_id}",
        )
    return row.envelope_id


def project_root(workspace: Workspace) -> str:
    return str((workspace.root / workspace.config.root).resolve())


def open_run_queries(workspace: Workspace) -> RunQueries:
    """Open the recorded runs for reading only."""
    rules = PlanRules(lambda: project_root(workspace), lambda: workspace.config, workspace.clock)
    return RunQueries(lambda: workspace.ledger, lambda: workspace.keyring, rules, workspace.state.hosts)


def list_unused_envelopes(workspace: Workspace, limit: int) -> list[str]:
    """List the ids of envelopes that were neither used nor cancelled, the newest first. Some may have expired."""
    with workspace.store.reading() as connection:
        return [str(row[0]) for row in connection.rows(_UNUSED, (DEFAULT_TENANT, limit))]


class _RunReader:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.runs = open_run_queries(workspace)
        self._cached_outcomes = cache(self._read_outcomes)

    def read_plan_run(self, found: ClaimCompleted | ClaimHeld, at: str) -> KnownRun:
        envelope_id = found.key.key
        if isinstance(found, ClaimHeld):
            plan_id = _read_checkpoint(found).get("plan_id", "")
            return KnownRun(at, "plan", str(plan_id), envelope_id, self._unfinished_status(found), None, "UNKNOWN")
        stored = self._cached_outcomes(envelope_id)
        if stored is None:
            return KnownRun(at, "plan", "", envelope_id, NOT_VOUCHED_FOR, None, "UNKNOWN")
        outcome, rollbacks = stored
        undo, until = self._undo_state(outcome, rollbacks)
        status, files = outcome.status, outcome.change_log.files_affected_count
        return KnownRun(at, "plan", status.plan_id, envelope_id, status.status, files, undo, until, status.folder)

    def read_rollback(self, found: ClaimCompleted | ClaimHeld, at: str) -> KnownRun:
        envelope_id = found.correlation_id
        if isinstance(found, ClaimHeld):
            plan_id = _read_checkpoint(found).get("manifest", {}).get("plan_id", "")
            return KnownRun(at, "rollback", str(plan_id), envelope_id, self._unfinished_status(found), None, "NOTHING")
        stored = self._cached_outcomes(envelope_id)
        outcome, rollbacks = stored or (None, ())
        this = next((each for each in rollbacks if each.order_id == found.key.key), None)
        if outcome is None or this is None:
            return KnownRun(at, "rollback", "", envelope_id, NOT_VOUCHED_FOR, None, "NOTHING")
        folders = {each.checkpoint_id for each in this.manifest.checkpoints if each.file_kind == "directory"}
        files = len(set(this.restored) - folders)
        status = outcome.status
        return KnownRun(
            at, "rollback", status.plan_id, envelope_id, this.status, files, "NOTHING", report=status.folder
        )

    def _read_outcomes(self, envelope_id: str) -> tuple[PlanOutcome, tuple[RollbackOutcome, ...]] | None:
        try:
            found = self.runs.claim(envelope_id)
            if not isinstance(found, ClaimCompleted):
                return None
            outcome = self.runs.outcome_of(found)
            return outcome, tuple(self.runs.rollbacks_of(outcome))
        except RemitError:  # one row that was changed in the database must not hide the others
            return None

    def _undo_state(self, outcome: PlanOutcome, rollbacks: tuple[RollbackOutcome, ...]) -> tuple[Undo, str | None]:
        if outcome.manifest is None or outcome.status.status not in {"SUCCESS", "PARTIAL"}:
            return "NOTHING", None
        now = fold(outcome.manifest, rollbacks, self._workspace.clock())
        if now.status == "EXECUTED":
            return "DONE", None
        if changed_nothing(outcome.manifest):
            return "NOTHING", None
        if now.status == "EXPIRED":
            return "EXPIRED", now.expires_at
        rows_stay = now.rows is None or now.rows.irreversible is not None or now.rows.restored_at is not None
        if rows_stay and all(each.restored_at for each in now.checkpoints):
            return "STAYS", None
        partly = any(each.restored_at for each in now.checkpoints)
        return "PARTLY_DONE" if partly else "POSSIBLE", now.expires_at

    def _unfinished_status(self, found: ClaimHeld) -> str:
        return "UNFINISHED" if is_orphan(found, self._workspace.store.dialect) else "RUNNING"


def _read_checkpoint(found: ClaimHeld) -> dict[str, Any]:
    """Return a checkpoint, to show the name of the plan. Nothing is decided by its content."""
    try:
        tree = json.loads(found.checkpoint)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}
