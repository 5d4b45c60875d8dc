"""Queries for the runs of plans. A run is found by any of its names; its outcome is verified against the ledger."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from remit.authority.rollback_order import rollback_key
from remit.contracts.plans.outcome import PlanOutcome, RollbackOutcome
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.crypto.signing import Keyring
from remit.execution.journal import Journal, RequestIds
from remit.ledger.writer import Ledger
from remit.plans.apply.abandoned import is_of_unknown_effect
from remit.plans.apply.environment import PlanRules
from remit.plans.apply.outcome import EFFECTIVE_STATUSES, load_plan_outcome
from remit.plans.rollback.checkpoint import load_rollback_outcome
from remit.plans.rollback.preview import RollbackTarget
from remit.plans.storage.manifest import fold
from remit.plans.storage.pruning import KnownStatus
from remit.plans.storage.run_folder import REPORTS, SCRIPT
from remit.store.claims import ClaimCompleted, ClaimHeld, ClaimKey, read_claim

MANY_ATTEMPTS: Final = 1_000
_ENDED: Final = """SELECT key, result FROM claims WHERE tenant_id = ? AND scope = 'plan' AND state = 'DONE'
  ORDER BY finished_at DESC, key DESC"""
_ALL: Final = "SELECT key FROM claims WHERE tenant_id = ? AND scope = 'plan'"
_MENTIONING: Final = r"""SELECT key FROM claims WHERE tenant_id = ? AND scope = 'plan'
  AND (result LIKE ? ESCAPE '\' OR (state = 'CLAIMED' AND checkpoint LIKE ? ESCAPE '\'))
  ORDER BY finished_at DESC, key DESC"""
_LONGEST_NAME: Final = 255
_RECORDED: Final = "SELECT 1 FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND kind = ? LIMIT 1"
_LOG: Final = logging.getLogger("remit.plans")


class RunQueries:
    """The runs of one workspace. `hosts` is the folder in which each process that runs plans keeps its lock."""

    def __init__(
        self, ledger: Callable[[], Ledger], keyring: Callable[[], Keyring], rules: PlanRules, hosts: Path
    ) -> None:
        self._ledger = ledger
        self._keyring = keyring
        self._rules = rules
        self._hosts = hosts

    def find(self, report: str) -> str:
        """Return the envelope id of the run with this name. Only names in the ledger are used, never report files."""
        if report == "last":
            if last := self._last():
                return last
        elif self.claim(report) is not None:
            return report
        elif (known := self._find_by_report(report)) is not None:
            return known
        raise RefusedError(
            Reason.STATE_MISSING,
            "no run of a plan has this name",
            where=report,
            next_step="Name a folder below agent_outputs/reports, the id of a report or an envelope, or `last`.",
        )

    def _last(self) -> str:
        """Return the last run that had changed something when it ended; otherwise the last run; otherwise nothing.

        A run that was rolled back since is included. Otherwise a second rollback of `last` would roll back the run
        before it.
        """
        newest = ""
        with self._ledger().store.reading() as connection:
            for key, result in connection.rows(_ENDED, (DEFAULT_TENANT,)):
                newest = newest or str(key)
                if json.loads(result)["status"]["status"] in EFFECTIVE_STATUSES:
                    return str(key)
        return newest

    def _find_by_report(self, report: str) -> str | None:
        """Return the envelope id of the run with this report id or report folder (its name, or a path to it).

        A run that is verified against the ledger is preferred. A run that cannot be verified is returned only if there
        is no other; `rollback_target` refuses it.
        """
        name = self._folder_in(report)
        if not name or len(name) > _LONGEST_NAME or not name.isascii():
            return None
        pattern = "%" + "".join("\\" + c if c in "\\%_" else c for c in name) + "%"
        with self._ledger().store.reading() as connection:
            keys = [str(row[0]) for row in connection.rows(_MENTIONING, (DEFAULT_TENANT, pattern, pattern))]
        doubtful = None
        for key in keys:
            claimed = self.claim(key)
            try:
                if claimed is not None and name in self._names_of(claimed):
                    return key
            except RemitError:
                doubtful = doubtful or key
        return doubtful

    def _folder_in(self, report: str) -> str:
        """Return a plain name as it is, and the last part of a path to a report folder of this project."""
        path, _, name = report.rstrip("/").rpartition("/")
        if "\0" in report:
            return ""
        if not path:
            return name
        root = self._rules.root()
        reports = os.path.realpath(os.path.join(root, *REPORTS))
        starts = (os.path.realpath(report), os.path.realpath(os.path.join(root, report)))
        return next((os.path.basename(start) for start in starts if os.path.dirname(start) == reports), "")

    def _names_of(self, claimed: ClaimCompleted | ClaimHeld) -> set[str]:
        """Return the verified report id and folder of a run; for a run that has not ended, only its folder."""
        if isinstance(claimed, ClaimHeld):
            return {str(json.loads(claimed.checkpoint).get("folder", ""))}
        status = self.outcome_of(claimed).status
        return {status.report_id, status.folder.rpartition("/")[2]}

    def rollback_target(self, envelope_id: str) -> RollbackTarget:
        """Return a run that can be rolled back, verified against the ledger. Refuses any other run."""
        found = self.claim(envelope_id)
        if not isinstance(found, ClaimCompleted):
            raise RefusedError(
                Reason.STATE_MISSING,
                "this plan has no recorded outcome" if found is None else "this plan has not ended yet",
                where=f"envelope {envelope_id}",
                next_step="If its process has crashed, run: remit recover",
            )
        outcome = self.outcome_of(found)
        if is_of_unknown_effect(outcome.report):
            raise RefusedError(
                Reason.ROLLBACK_IMPOSSIBLE,
                "this run was abandoned, so it cannot be rolled back automatically",
                where=f"envelope {envelope_id}",
                next_step=f"Its report lists what is left. To restore the backups: {outcome.status.folder}/{SCRIPT}",
            )
        if outcome.manifest is None or outcome.status.status not in EFFECTIVE_STATUSES:
            raise RefusedError(
                Reason.ROLLBACK_IMPOSSIBLE,
                f"there is nothing to roll back: the plan ended as {outcome.status.status}",
                where=f"envelope {envelope_id}",
                next_step="Read its report, which says why: remit runs",
            )
        return RollbackTarget(outcome, fold(outcome.manifest, self.rollbacks_of(outcome), self._rules.clock()))

    def rollbacks_of(self, outcome: PlanOutcome) -> list[RollbackOutcome]:
        """Return every rollback of this run that has an outcome, in order."""
        found: list[RollbackOutcome] = []
        manifest_id = outcome.manifest.manifest_id if outcome.manifest else ""
        for attempt in range(1, MANY_ATTEMPTS):
            claimed = self.claim(rollback_key(manifest_id, attempt), "rollback")
            if not isinstance(claimed, ClaimCompleted):
                return found
            trace = RequestIds(
                DEFAULT_TENANT, claimed.correlation_id, "rollback", claimed.key.key, claimed.request_digest
            )
            stored = Journal(self._ledger(), trace, self._hosts, 0).verify_stored(claimed)
            found.append(load_rollback_outcome(stored.text, self._keyring()))
        raise RefusedError(
            Reason.LIMIT_EXCEEDED,
            f"this run has reached the limit of {MANY_ATTEMPTS:,} rollback attempts",
            where=f"envelope {outcome.status.envelope_id}",
            next_step="`remit ledger show` shows why they failed. The stand-alone rollback script has no such limit.",
        )

    def known_folders(self) -> dict[str, KnownStatus]:
        """Return every report folder that a claim names, and whether its backups may still be needed."""
        known: dict[str, KnownStatus] = {}
        with self._ledger().store.reading() as connection:
            keys = [str(row[0]) for row in connection.rows(_ALL, (DEFAULT_TENANT,))]
        for key in keys:
            claimed = self.claim(key)
            if isinstance(claimed, ClaimCompleted):
                folder, status = self._status_of(claimed)
                known[folder] = status
            elif claimed is not None:
                known[str(json.loads(claimed.checkpoint).get("folder", ""))] = "ACTIVE"
        return known

    def _status_of(self, done: ClaimCompleted) -> tuple[str, KnownStatus]:
        folder = str(json.loads(done.result)["status"]["folder"]).rpartition("/")[2]
        try:
            outcome = self.outcome_of(done)
            if outcome.manifest is None:
                return folder, "NONE"
            return folder, fold(outcome.manifest, self.rollbacks_of(outcome), self._rules.clock()).status
        except RemitError as problem:  # the backups of a run that cannot be verified are kept
            _LOG.warning("a run cannot be verified", extra={"key": done.key.key, "why": str(problem)})
            return folder, "ACTIVE"

    def outcome_of(self, done: ClaimCompleted) -> PlanOutcome:
        """Return the outcome of a completed claim, verified against the ledger."""
        trace = RequestIds(DEFAULT_TENANT, done.correlation_id, "plan", done.key.key, done.request_digest)
        stored = Journal(self._ledger(), trace, self._hosts, 0).verify_stored(done)
        return load_plan_outcome(stored.text, self._keyring())

    def claim(self, key: str, scope: str = "plan") -> ClaimCompleted | ClaimHeld | None:
        """Return the claim with this key. Its content is not verified."""
        with self._ledger().store.reading() as connection:
            return read_claim(connection, ClaimKey(DEFAULT_TENANT, scope, key))

    def is_recorded(self, envelope_id: str, kind: str) -> bool:
        """Return whether the ledger has an entry of this kind for the envelope."""
        with self._ledger().store.reading_pooled() as connection:
            return connection.one(_RECORDED, (DEFAULT_TENANT, envelope_id, kind)) is not None
