"""Drift before a rollback: the files that changed since the run, and the later run of a plan that changed them."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from remit.contracts.plans.change_log import Change
from remit.core.errors import RemitError
from remit.effects.plans.steps import State
from remit.plans.rollback.preview import RollbackTarget
from remit.plans.storage.drift import (
    changed_nothing,
    drift_digest,
    drifted_files,
    is_folder,
    judge,
    paths_of,
    read_states,
    resolve_checkpoints,
    select,
)
from remit.plans.storage.run_folder import BACKUPS, DRIFTED, REPORTS
from remit.services.base.run_list import KnownRun, list_runs, open_run_queries, project_root
from remit.store.claims import ClaimCompleted
from remit.workspace.workspace import Workspace


class DriftReport(NamedTuple):
    """The files of a run shortly before its rollback. For display only: the rollback inspects the files again."""

    target: RollbackTarget | None = None
    already_restored: frozenset[str] = frozenset()
    """Checkpoints whose file or folder is already as it was before the run."""
    drifted: Mapping[str, State | None] = {}
    """The paths that changed since the run, each with its current state."""

    @property
    def digest(self) -> str | None:
        """The digest of all drifted files in their current state, or None if no file drifted."""
        return self.order_digest if self.drifted else None

    @property
    def order_digest(self) -> str:
        """The digest for the rollback order. It binds the order also if no file drifted."""
        return drift_digest(self.drifted)

    @property
    def has_rows(self) -> bool:
        """Whether the run changed rows on a server. This report does not inspect them."""
        return self.target is not None and self.target.manifest.rows is not None

    @property
    def is_empty(self) -> bool:
        """Whether the run is known and changed nothing."""
        return self.target is not None and changed_nothing(self.target.manifest)


def detect_drift(workspace: Workspace, name: str, chosen: Collection[str]) -> DriftReport:
    """Compare the files of a run with its manifest.

    The report is empty if the run has to be recovered first or is refused. The rollback then reports the reason.
    """
    runs = open_run_queries(workspace)
    try:
        target = runs.rollback_target(runs.find(name))
        ids = resolve_checkpoints(target.manifest, chosen, target.folder)
        selected = select(target.manifest, ids)
        files = [one for one in selected if one.file_kind == "file"]
        root = project_root(workspace)
        states = read_states(root, paths_of(files))
        gone = [one for one in selected if one.file_kind == "directory" and not is_folder(root, one.file_path)]
    except RemitError:
        return DriftReport()
    verdicts = {one.checkpoint_id: judge(one, states) for one in files}
    as_before = (checkpoint_id for checkpoint_id, verdict in verdicts.items() if verdict == "before")
    already_restored = frozenset((*as_before, *(one.checkpoint_id for one in gone)))
    return DriftReport(target, already_restored, drifted_files(files, states))


def find_later_run(workspace: Workspace, drift: DriftReport) -> KnownRun | None:
    """Find the newest run since this one that left one of the drifted files as it is now."""
    if drift.target is None:
        return None
    runs, envelope_id = open_run_queries(workspace), drift.target.outcome.status.envelope_id
    for run in list_runs(workspace):
        if run.what == "plan" and run.envelope_id == envelope_id:
            return None
        found = runs.claim(run.envelope_id) if run.what == "plan" and run.can_be_undone else None
        if isinstance(found, ClaimCompleted) and any(
            _is_left_by(change, drift.drifted) for change in runs.outcome_of(found).change_log.changes
        ):
            return run
    return None


def _is_left_by(change: Change, drifted: Mapping[str, State | None]) -> bool:
    path = change.new_path or change.file_path
    state = drifted.get(path)
    return path in drifted and change.after_state.file_hash == (state.sha256 if state else None)


def find_set_aside_copies(workspace: Workspace, folder: str = "*") -> list[str]:
    """List the copies of drifted files that forced rollbacks kept, as paths below the root.

    `folder` is the report folder of one run. Without it, the copies of all runs are listed.
    """
    root = Path(project_root(workspace))
    reports = folder.rpartition("/")[2]
    return sorted(
        str(path.relative_to(root)) for path in root.joinpath(*REPORTS).glob(f"{reports}/{BACKUPS}/*{DRIFTED}*")
    )
