"""The preview of a rollback on the current files, and the backup of files that changed since the run."""

import os
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from remit.contracts.plans.outcome import PlanOutcome
from remit.contracts.plans.rollback import Checkpoint, RollbackManifest, RollbackOrder, RowsCheckpoint
from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import Reason, RefusedError, RemitError
from remit.effects.plans.database_files import MARK, is_marked
from remit.effects.plans.steps import PlanStep, State, StepPlan
from remit.execution.engine import Preview
from remit.fs import openat as beneath
from remit.fs.paths import locate_below
from remit.plans.engines.database_files import closing, require_idle
from remit.plans.engines.postgres import DriftedRows
from remit.plans.model.folders import check_inherited_rights, needed_folders, observe_folders, opened
from remit.plans.rollback.checkpoint import RollbackCheckpoint, digest_of_order
from remit.plans.runtime.runner import paths_of as paths_of_steps
from remit.plans.storage.backups import (
    back_up_drifted,
    backup_name,
    find_backed_up_databases,
    require_space,
    verify_backups,
)
from remit.plans.storage.drift import (
    drift_digest,
    drifted_files,
    find_databases,
    find_restorable_rows,
    judge,
    paths_of,
    read_states,
    select,
)
from remit.plans.storage.manifest import inverse_steps, made_folders, note_other_owner, note_untouched
from remit.plans.storage.pruning import in_use
from remit.plans.storage.row_images import open_rows
from remit.plans.storage.run_folder import DRIFTED, ReportFolder

_DRIFTED_FROM: Final = 5_000
"""The first number for copies of drifted files. No backup has so high a number."""
ROWS_CHANGED: Final = "rows were changed since the plan ran"
"""How a refusal begins that is about rows on a server. No page shows these rows."""


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """A run that is verified against the ledger, and its manifest as earlier rollbacks left it."""

    outcome: PlanOutcome
    manifest: RollbackManifest

    @property
    def folder(self) -> str:
        """The name of its report folder."""
        return self.outcome.status.folder.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class RollbackPreview(Preview):
    """The current states, and the steps from them to the states before the plan."""

    steps: StepPlan
    """There is no step for a file that is already as before: the stand-alone script may have restored it."""
    first: tuple[State | None, ...]
    folders: tuple[str, ...]
    """Folders that are missing now and needed again."""
    states: Mapping[str, State | None]


FindDriftedRows = Callable[[RowsCheckpoint, int], Sequence[DriftedRows]]
"""Returns the rows on the server that are not as the run left them. Takes the open file of their before-images."""


def preview_rollback(
    order: RollbackOrder, target: RollbackTarget, root: str, find_drifted: FindDriftedRows
) -> RollbackPreview:
    """Compute the preview of a rollback.

    Refuses if a needed backup is damaged, if a database is in use, or if its server cannot be reached. Refuses if a
    file or a row changed since, unless `force` was given for the files as they are now. The current limits do not
    apply: the backups have the sizes that the manifest records.
    """
    checkpoints = select(target.manifest, order.checkpoints)
    states = read_states(root, paths_of(checkpoints))
    if order.drift is not None and drift_digest(drifted_files(checkpoints, states)) != order.drift:
        raise drift_changed_error(order.envelope_id)
    due = [one for one in _files(checkpoints) if judge(one, states) != "before"]
    with ReportFolder.open(root, target.folder) as folder:
        verify_backups(folder, due)  # a file that is already as before needs no backup
        databases = find_databases(root, paths_of(due)) | find_backed_up_databases(folder, due)
        if (rows := find_restorable_rows(target.manifest, order.checkpoints)) is not None:
            _require_rows_unchanged(rows, folder, find_drifted, order, has_files=bool(target.manifest.checkpoints))
    steps = inverse_steps(target.manifest, order.checkpoints, states, secrets.token_hex(10), force=order.force)
    steps = _mark_databases(steps, databases)
    places = {number: locate_below(root, path) for number, path in enumerate(steps.paths)}
    observed = observe_folders(places.values())
    for step in steps.steps:
        for path in paths_of_steps([step]) if is_marked(step) else ():
            if observed[places[path].parents].exists:
                require_idle(places[path], writes=True)
        if problem := check_inherited_rights(step, observed, places):
            raise problem
    new_places = [places[_target_path(step)] for step in steps.steps if step.move in {"create", "rename"}]
    state_lists = {path: list(state) if state else None for path, state in states.items()}
    return RollbackPreview(
        summary=f"roll back envelope {order.envelope_id}: {len(checkpoints):,} checkpoints",
        digest=digest_bytes(canonical_bytes({"order": digest_of_order(order), "states": state_lists})),
        steps=steps,
        first=tuple(states[path] for path in steps.paths),
        folders=needed_folders(observed, new_places),
        states=states,
    )


def drift_changed_error(envelope_id: str, what: str = "they changed again after they were reviewed") -> RefusedError:
    return RefusedError(
        Reason.DRIFTED,
        f"files were changed since the run, and {what}; nothing was touched",
        where=f"envelope {envelope_id}",
        next_step="Review what changed since the run, and confirm again that it is to be replaced.",
    )


def forces_rows(order: RollbackOrder) -> bool:
    """Whether the order replaces rows that changed. An order for reviewed files does not: the person did not see the
    rows, and Remit keeps no copy of them.
    """
    return order.force and order.drift is None


def _require_rows_unchanged(
    rows: RowsCheckpoint, folder: ReportFolder, find_drifted: FindDriftedRows, order: RollbackOrder, *, has_files: bool
) -> None:
    with closing(open_rows(folder, rows)) as images:
        drifted = find_drifted(rows, images)
    if drifted and not forces_rows(order):
        named = ", ".join(f"{one.table} ({one.rows:,} {'row' if one.rows == 1 else 'rows'})" for one in drifted[:20])
        raise RefusedError(
            Reason.DRIFTED,
            f"{ROWS_CHANGED}, and nothing was restored: {named}",
            where=rows.server,
            next_step="Restore only the files with --checkpoint, or the rows too with --force. Their current values are"
            " lost then."
            if has_files
            else "Review these rows. To restore them nevertheless, use --force. Their current values are lost then.",
        )


def back_up_drifted_files(order: RollbackOrder, target: RollbackTarget, root: str, preview: RollbackPreview) -> None:
    """Check that there is space, and copy each file that changed since the run before it is replaced."""
    with ReportFolder.open(root, target.folder) as folder:
        restored = (step.after for step in preview.steps.steps if step.source)
        current_sizes = (state.size for state in preview.states.values() if state is not None) if order.force else ()
        require_space(folder, sum(state.size for state in restored if state is not None) + sum(current_sizes))
        checkpoints = _files(select(target.manifest, order.checkpoints))
        drifted = [one for one in checkpoints if judge(one, preview.states) == "drifted"]
        if drifted:
            with in_use(folder.descriptor):
                _copy_drifted(root, folder, order.attempt, drifted, preview.states)


def manifest_with_notes(checkpoint: RollbackCheckpoint) -> RollbackManifest:
    """Return the manifest from before with the notes about a completed rollback."""
    return note_other_owner(
        note_untouched(checkpoint.manifest, checkpoint.already_restored()), _files_of_other_owners(checkpoint)
    )


def _files_of_other_owners(checkpoint: RollbackCheckpoint) -> list[str]:
    """Return the files that were restored from backups by a user who may not give them to their former owner."""
    restored = {step.source for step in checkpoint.steps.steps if step.source}
    found: list[str] = []
    for file in checkpoint.chosen():
        if file.checkpoint_id in restored and file.original_owner is not None:
            place = locate_below(checkpoint.root, file.file_path)
            present = None
            with suppress(RemitError), opened(place.base, place.parents, where=place.path) as folder:
                present = beneath.peek(folder, place.name, where=place.path)
            if present is not None and f"{present.uid}:{present.gid}" != file.original_owner:
                found.append(file.file_path)
    return found


def _copy_drifted(
    root: str,
    folder: ReportFolder,
    attempt: int,
    drifted: Sequence[Checkpoint],
    states: Mapping[str, State | None],
) -> None:
    existing = os.listdir(folder.backups)
    while any(name.endswith(f"{DRIFTED}{attempt}.bak") for name in existing):
        attempt += 1
    paths = [path for checkpoint in drifted for path in (checkpoint.file_path, checkpoint.new_path) if path]
    for number, path in enumerate(path for path in paths if states[path] is not None):
        place = locate_below(root, path)
        location = folder.location(f"backups/{backup_name(_DRIFTED_FROM + number, place.name)}")
        back_up_drifted(place, folder, drifted[0].model_copy(update={"backup_location": location}), attempt)


def _mark_databases(steps: StepPlan, databases: Collection[str]) -> StepPlan:
    """Mark each step on a database, so that it is checked again directly before it is changed."""
    marked = (
        step._replace(operation=MARK)
        if any(steps.paths[path] in databases for path in paths_of_steps([step]))
        else step
        for step in steps.steps
    )
    return steps._replace(steps=tuple(marked))


def _files(checkpoints: Sequence[Checkpoint]) -> list[Checkpoint]:
    return [checkpoint for checkpoint in checkpoints if checkpoint.file_kind == "file"]


def _target_path(step: PlanStep) -> int:
    return step.path if step.new_path is None else step.new_path


def find_remaining_folders(checkpoint: RollbackCheckpoint) -> dict[str, str]:
    """Return the folders that the plan made and that will not be empty, with the reason. Checks the deepest first.

    It runs before the files of the plan are removed, so it ignores the plan's own names in the folders.
    """
    remaining: dict[str, str] = {}
    folders = made_folders(checkpoint.manifest, checkpoint.order.checkpoints)
    removable = set()
    for checkpoint_id, path in folders.items():
        inside = _list_folder(checkpoint.root, path)
        others = [name for name in inside if checkpoint.steps.prefix not in name and f"{path}/{name}" not in removable]
        if others:
            remaining[checkpoint_id] = f"The folder {path} is not empty, so it stays"
        else:
            removable.add(path)
    return remaining


def _list_folder(root: str, path: str) -> list[str]:
    try:
        with opened(root, tuple(path.split("/"))) as folder:
            return os.listdir(folder)
    except RefusedError:  # gone already
        return []
