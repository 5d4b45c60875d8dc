"""What the ledger knows of the runs of plans: found by any of their names, and as it vouches for them."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from remit.authority.rollback_order import rollback_key
from remit.authority.signing import Keyring
from remit.checkpoint.manifest import fold
from remit.checkpoint.outputs import STATUS, ReportFolder, list_reports
from remit.checkpoint.pruning import KnownStatus
from remit.contracts.outcome import PlanOutcome, RollbackOutcome
from remit.doors.plan_outcome import load_plan_outcome
from remit.doors.plan_setting import PlanRules
from remit.doors.rollback_look import Taken
from remit.doors.rollback_papers import load_rollback_outcome
from remit.doors.task import DEFAULT_TENANT
from remit.errors import Reason, Refused, RemitError
from remit.journal import Journal, Trace
from remit.ledger.append import Ledger
from remit.store.claims import ClaimKey, Done, Running, read_claim

MANY_ATTEMPTS: Final = 1_000
_NEWEST: Final = """SELECT key FROM claims WHERE tenant_id = ? AND scope = 'plan' AND state = 'DONE'
  ORDER BY finished_at DESC, key DESC LIMIT 1"""
_ALL: Final = "SELECT key FROM claims WHERE tenant_id = ? AND scope = 'plan'"
_RECORDED: Final = "SELECT 1 FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND kind = ? LIMIT 1"
_LOG: Final = logging.getLogger("remit.plans")


class PastRuns:
    """Of one workspace. `hosts` is where each process that runs plans keeps its lock."""

    def __init__(
        self, ledger: Callable[[], Ledger], keyring: Callable[[], Keyring], rules: PlanRules, hosts: Path
    ) -> None:
        self._ledger = ledger
        self._keyring = keyring
        self._rules = rules
        self._hosts = hosts

    def find(self, report: str) -> str:
        """The envelope's id. Whatever a folder says only points to what the ledger has."""
        if report == "last":
            with self._ledger().store.reading() as connection:
                row = connection.one(_NEWEST, (DEFAULT_TENANT,))
            if row is not None:
                return str(row[0])
        elif self.claim(report) is not None:
            return report
        named = report.rstrip("/").rpartition("/")[2]
        for name in list_reports(self._rules.root()):
            said = self._said_in(name)
            if said and (name == named or said.get("report_id") == report):
                return str(said.get("envelope_id", ""))
        raise Refused(
            Reason.STATE_MISSING,
            "no run of a plan is known by this name",
            where=report,
            next_step="Name a folder below agent_outputs/reports, a report's or an envelope's id, or `last`.",
        )

    def _said_in(self, name: str) -> dict[str, Any]:
        try:
            with ReportFolder.open(self._rules.root(), name) as folder:
                said = json.loads(folder.read(STATUS) or b"{}")
        except (RemitError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def taken(self, envelope_id: str) -> Taken:
        found = self.claim(envelope_id)
        if not isinstance(found, Done):
            raise Refused(
                Reason.STATE_MISSING,
                "this plan has no recorded outcome" if found is None else "this plan has not ended yet",
                where=f"envelope {envelope_id}",
                next_step="`remit recover` ends what a crash has left.",
            )
        outcome = self.outcome_of(found)
        if outcome.manifest is None or outcome.status.status not in {"SUCCESS", "PARTIAL"}:
            raise Refused(
                Reason.MISUSE,
                f"there is nothing to take back: the plan ended as {outcome.status.status}",
                where=f"envelope {envelope_id}",
                next_step="Its report tells why.",
            )
        return Taken(outcome, fold(outcome.manifest, self.rollbacks_of(outcome), self._rules.clock()))

    def rollbacks_of(self, outcome: PlanOutcome) -> list[RollbackOutcome]:
        """Every rollback of this run that has an outcome, in their order."""
        found: list[RollbackOutcome] = []
        manifest_id = outcome.manifest.manifest_id if outcome.manifest else ""
        for attempt in range(1, MANY_ATTEMPTS):
            claimed = self.claim(rollback_key(manifest_id, attempt), "rollback")
            if not isinstance(claimed, Done):
                return found
            trace = Trace(DEFAULT_TENANT, claimed.correlation_id, "rollback", claimed.key.key, claimed.request_digest)
            stored = Journal(self._ledger(), trace, self._hosts, 0).checked(claimed)
            found.append(load_rollback_outcome(stored.text, self._keyring()))
        raise Refused(
            Reason.LIMIT_EXCEEDED,
            f"{MANY_ATTEMPTS:,} rollbacks of this run have been tried",
            where=f"envelope {outcome.status.envelope_id}",
            next_step="`remit ledger show` tells why they failed; the stand-alone script needs none of this.",
        )

    def known_folders(self) -> dict[str, KnownStatus]:
        """Every report folder that a claim speaks of, and whether its backups may still be needed."""
        known: dict[str, KnownStatus] = {}
        with self._ledger().store.reading() as connection:
            keys = [str(row[0]) for row in connection.rows(_ALL, (DEFAULT_TENANT,))]
        for key in keys:
            claimed = self.claim(key)
            if isinstance(claimed, Done):
                folder, status = self._status_of(claimed)
                known[folder] = status
            elif claimed is not None:
                known[str(json.loads(claimed.checkpoint).get("folder", ""))] = "ACTIVE"
        return known

    def _status_of(self, done: Done) -> tuple[str, KnownStatus]:
        folder = str(json.loads(done.result)["status"]["folder"]).rpartition("/")[2]
        try:
            outcome = self.outcome_of(done)
            if outcome.manifest is None:
                return folder, "NONE"
            return folder, fold(outcome.manifest, self.rollbacks_of(outcome), self._rules.clock()).status
        except RemitError as problem:  # what cannot be vouched for is not removed
            _LOG.warning("a run cannot be vouched for", extra={"key": done.key.key, "why": str(problem)})
            return folder, "ACTIVE"

    def outcome_of(self, done: Done) -> PlanOutcome:
        """As the ledger vouches for it."""
        trace = Trace(DEFAULT_TENANT, done.correlation_id, "plan", done.key.key, done.request_digest)
        stored = Journal(self._ledger(), trace, self._hosts, 0).checked(done)
        return load_plan_outcome(stored.text, self._keyring())

    def claim(self, key: str, scope: str = "plan") -> Done | Running | None:
        with self._ledger().store.reading() as connection:
            return read_claim(connection, ClaimKey(DEFAULT_TENANT, scope, key))

    def is_recorded(self, envelope_id: str, kind: str) -> bool:
        """Whether the ledger has an entry of this kind about the envelope."""
        with self._ledger().store.glancing() as connection:
            return connection.one(_RECORDED, (DEFAULT_TENANT, envelope_id, kind)) is not None
