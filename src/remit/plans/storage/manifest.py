"""The rollback manifest of a plan: the net change of each path, and the steps that reverse it.

A checkpoint records the *net* change of a path. A file that was created and then edited is one CREATE. Ids are derived
from the manifest's id and the path, so a manifest that is built again after a crash is the same.
"""

import functools
import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from remit.contracts.plans.change_log import FileOperation
from remit.contracts.plans.outcome import RollbackOutcome
from remit.contracts.plans.rollback import Checkpoint, RollbackManifest, RowsCheckpoint
from remit.core.errors import Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import parse_time
from remit.effects.plans.steps import Ids, Move, PlanStep, State, StepPlan, final_states, make_waves
from remit.plans.storage.backups import Original
from remit.plans.storage.drift import judge, original_state, select
from remit.plans.storage.run_folder import BACKUPS, MANIFEST, REPORTS, SCRIPT, ReportFolder, render_report_file

NOTES: Final = (
    "To roll back: `remit rollback {name}`, or without Remit `python3 -I {script}` in the root of the project. "
    "Both verify all backups first and do not change files that were changed since, unless --force is given. "
    "By hand: follow restore_command of each checkpoint, in the order of rollback_order."
)
ROWS_BY_REMIT: Final = (
    "Rows of connection {rows.connection} ({rows.server}) are restored by `remit rollback` only, never by the script."
)
UNTOUCHED_NOTE: Final = "were as before already and were not touched:"
OWNER_NOTE: Final = "have another owner or group than before:"
"""How two notes begin. The command line finds notes by these. Notes in older outcomes go on in other words."""
AS_BEFORE: Final = f"{UNTOUCHED_NOTE} they were restored without `remit rollback`."
OTHER_OWNER: Final = f"{OWNER_NOTE} the user who restored them may not give files away."
_NAMED: Final = 20
_LONGEST_COMMAND: Final = 1_000
_ACTIONS: Final[dict[Move, str]] = {
    "create": "FILE_CREATE",
    "modify": "FILE_MODIFY",
    "delete": "FILE_DELETE",
    "rename": "FILE_RENAME",
}


C = TypeVar("C", Checkpoint, RowsCheckpoint)


class NetChange(NamedTuple):
    """The change of a plan to one path, or to the two paths of a rename."""

    operation: FileOperation
    path: int
    new_path: int | None
    before: State | None
    after: State | None
    last_step: int
    """The last step that changed it. Files are restored in reverse order."""


def net_changes(plan: StepPlan, first: Mapping[int, State | None], done: Collection[int]) -> list[NetChange]:
    """Return the net changes of the completed steps, in order of execution."""
    steps = [step for step in plan.steps if step.number in done and not step.unchanged]
    touched: dict[int, list[PlanStep]] = defaultdict(list)
    for step in steps:
        for path in (step.path, step.new_path):
            if path is not None:
                touched[path].append(step)
    final = final_states(plan, first, frozenset(step.number for step in steps))
    changes: list[NetChange] = []
    paired: set[int] = set()
    for step in steps:
        # If only this step touched both paths, the net change is a rename.
        if step.new_path is not None and len(touched[step.path]) == len(touched[step.new_path]) == 1:
            before, after = first.get(step.path), final[step.new_path]
            changes.append(NetChange("RENAME", step.path, step.new_path, before, after, step.number))
            paired |= {step.path, step.new_path}
    for path in sorted(touched.keys() - paired):
        operation = _operation(first.get(path), final[path])
        if operation is not None:
            last = touched[path][-1].number
            changes.append(NetChange(operation, path, None, first.get(path), final[path], last))
    return sorted(changes, key=lambda change: change.last_step)


def build_manifest(  # noqa: PLR0913, PLR0917 - each argument is a part of the manifest
    ids: Ids,
    plan_id: str,
    paths: Sequence[str],
    changes: Sequence[NetChange],
    originals: Mapping[int, Original],
    folders: Sequence[str],
    folder: str,
    created_at: str,
    expires_at: str | None,
    rows: RowsCheckpoint | None = None,
) -> RollbackManifest:
    """Build an ACTIVE manifest. `folders` are those that the plan makes, parents first. `folder` holds the reports."""
    files = [_file_checkpoint(ids, paths, change, originals, folder) for change in changes]
    made = [_folder_checkpoint(ids, path) for path in folders]
    deepest_first = sorted(made, key=lambda checkpoint: checkpoint.file_path.count("/"), reverse=True)
    backwards = [files[index] for index in sorted(range(len(files)), key=lambda i: -changes[i].last_step)]
    script = f"{folder}/{SCRIPT}"
    notes = NOTES.format(name=folder.removeprefix("/".join(REPORTS) + "/"), script=script)
    return RollbackManifest(
        manifest_id=ids.manifest_id,
        plan_id=plan_id,
        created_at=created_at,
        expires_at=expires_at,
        executed_at=None,
        status="ACTIVE",
        checkpoints=(*files, *made),
        rollback_order=tuple(checkpoint.checkpoint_id for checkpoint in (*backwards, *deepest_first)),
        auto_rollback_script=script,
        notes=notes if rows is None else f"{notes} {ROWS_BY_REMIT.format(rows=rows)}",
        rows=rows,
    )


def write_rollback_files(folder: ReportFolder, manifest: RollbackManifest) -> None:
    """Write the manifest, and the script that needs only it and the backups. Both are durable on return."""
    folder.write({MANIFEST: render_report_file(manifest), SCRIPT: read_script()})
    reach("backup.manifest_written")


@functools.cache
def read_script() -> bytes:
    """Return the text of the stand-alone script, which is the same for every run."""
    return Path(__file__).with_name("standalone_rollback.py").read_bytes()


def mark_executed(manifest: RollbackManifest, at: str) -> RollbackManifest:
    """Mark the manifest of an undone run as executed: there is nothing left to restore."""
    checkpoints = tuple(
        checkpoint.model_copy(update={"restored_at": checkpoint.restored_at or at})
        for checkpoint in manifest.checkpoints
    )
    changed = {"status": "EXECUTED", "executed_at": at, "checkpoints": checkpoints, "rows": None}
    return _with(manifest, changed)  # the change on a server was never committed


def fold(manifest: RollbackManifest, outcomes: Sequence[RollbackOutcome], now: datetime) -> RollbackManifest:
    """Return the manifest after these rollbacks, at this time. Pure."""
    if manifest.status == "EXECUTED":
        return manifest
    restored: dict[str, tuple[str, str]] = {}
    for outcome in sorted(outcomes, key=lambda outcome: parse_time(outcome.executed_at)):
        if outcome.manifest_id == manifest.manifest_id:
            for checkpoint_id in outcome.restored:
                restored.setdefault(checkpoint_id, (outcome.executed_at, outcome.order_id))
    checkpoints = tuple(_restored(checkpoint, restored) for checkpoint in manifest.checkpoints)
    rows = manifest.rows if manifest.rows is None else _restored(manifest.rows, restored)
    times = [checkpoint.restored_at for checkpoint in checkpoints]
    times += [] if rows is None else [rows.restored_at]
    changed: dict[str, Any] = {"status": "ACTIVE", "checkpoints": checkpoints, "rows": rows}
    if outcomes and all(times):
        last = max((time for time in times if time is not None), key=parse_time, default=outcomes[-1].executed_at)
        changed |= {"status": "EXECUTED", "executed_at": last}
    elif manifest.expires_at is not None and now >= parse_time(manifest.expires_at):
        changed["status"] = "EXPIRED"
    return _with(manifest, changed)


def note_untouched(manifest: RollbackManifest, untouched: Sequence[Checkpoint]) -> RollbackManifest:
    """Add a note on the files that a rollback found as they were before the plan, if there are any."""
    if not untouched:
        return manifest
    files = sum(checkpoint.file_kind == "file" for checkpoint in manifest.checkpoints)
    return _with(manifest, {"notes": f"{manifest.notes} {len(untouched)} of {files} files {AS_BEFORE}"})


def note_other_owner(manifest: RollbackManifest, paths: Sequence[str]) -> RollbackManifest:
    """Add a note on the restored files whose owner could not be restored, if there are any."""
    if not paths:
        return manifest
    more = f" and {len(paths) - _NAMED:,} more" if len(paths) > _NAMED else ""
    named = ", ".join(paths[:_NAMED]) + more
    return _with(manifest, {"notes": f"{manifest.notes} {len(paths)} restored files {OTHER_OWNER} {_cut(named)}"})


def inverse_steps(
    manifest: RollbackManifest,
    chosen: Collection[str],
    current: Mapping[str, State | None],
    prefix: str,
    *,
    force: bool,
) -> StepPlan:
    """Return the steps from `current` (see `drift.read_states`) to the originals. Restored files need no step.

    `source` of a step is the id of the checkpoint whose backup has the bytes. Folders are not steps: see
    `made_folders`. Without `force`, this refuses if a file was changed since, and names each one.
    """
    checkpoints = [checkpoint for checkpoint in select(manifest, chosen) if checkpoint.file_kind == "file"]
    drifted = [checkpoint.file_path for checkpoint in checkpoints if judge(checkpoint, current) == "drifted"]
    if drifted and not force:
        raise drift_refusal(drifted)
    paths: dict[str, int] = {}
    steps: list[PlanStep] = []
    for checkpoint in checkpoints:
        for step in _reverse_steps(checkpoint, current, paths):
            steps.append(step._replace(number=len(steps)))
    sizes = {step.number: step.after.size for step in steps if step.after is not None and step.source}
    return StepPlan(prefix, tuple(paths), tuple(steps), make_waves(steps, sizes))


def made_folders(manifest: RollbackManifest, chosen: Collection[str]) -> dict[str, str]:
    """Return the folders that the plan made, by checkpoint, the deepest first. A rollback removes those that are
    empty.
    """
    return {
        checkpoint.checkpoint_id: checkpoint.file_path
        for checkpoint in select(manifest, chosen)
        if checkpoint.file_kind == "directory"
    }


def drift_refusal(paths: Sequence[str]) -> RefusedError:
    many = f"{len(paths)} files were" if len(paths) > 1 else "this file was"
    return RefusedError(
        Reason.DRIFTED,
        f"{many} changed since the plan ran, and nothing was restored",
        where=", ".join(paths[:50]) + (", ..." if len(paths) > 50 else ""),
        next_step="Restore the others with --checkpoint, or these too with --force: their current versions are kept.",
    )


def _operation(before: State | None, after: State | None) -> FileOperation | None:
    if before is None:
        return None if after is None else "CREATE"
    if after is None:
        return "DELETE"
    return None if before.is_alike(after) else "MODIFY"


def _file_checkpoint(
    ids: Ids, paths: Sequence[str], change: NetChange, originals: Mapping[int, Original], folder: str
) -> Checkpoint:
    path = paths[change.path]
    new_path = None if change.new_path is None else paths[change.new_path]
    after = None if change.after is None else change.after.sha256
    mode_after = None if change.after is None else f"{change.after.mode:04o}"
    if change.operation == "CREATE":
        return Checkpoint(
            checkpoint_id=checkpoint_id(ids.manifest_id, path),
            file_path=path,
            backup_location=None,
            original_hash=None,
            original_size=None,
            operation_to_reverse="CREATE",
            hash_after=after,
            mode_after=mode_after,
            restore_command=_cut(f"Remove {path}"),
        )
    original = originals[change.path]
    backup = f"{folder}/{BACKUPS}/{original.backup}"
    mode = f"{original.state.mode:04o}"
    command = f"Rename {new_path} to {path}" if new_path else f"Copy {backup} to {path} and set mode {mode}"
    return Checkpoint(
        checkpoint_id=checkpoint_id(ids.manifest_id, path),
        file_path=path,
        backup_location=backup,
        original_hash=original.state.sha256,
        original_size=original.state.size,
        original_mode=mode,
        original_mtime_ns=str(original.mtime_ns),
        original_owner="{}:{}".format(*original.owner),
        original_attributes=dict(original.attributes),
        operation_to_reverse=change.operation,
        new_path=new_path,
        hash_after=after,
        mode_after=mode_after,
        restore_command=_cut(command),
    )


def _folder_checkpoint(ids: Ids, path: str) -> Checkpoint:
    return Checkpoint(
        checkpoint_id=checkpoint_id(ids.manifest_id, path),
        file_path=path,
        file_kind="directory",
        backup_location=None,
        original_hash=None,
        original_size=None,
        operation_to_reverse="CREATE",
        restore_command=_cut(f"Remove the folder {path} if it is empty"),
    )


def rows_id(manifest_id: str) -> str:
    """Return the checkpoint id of the rows on a server. A path is never empty, so no file has the same id."""
    return checkpoint_id(manifest_id, "")


def checkpoint_id(manifest_id: str, path: str) -> str:
    return str(uuid.uuid5(uuid.UUID(manifest_id), f"checkpoint {path}"))


def _with(manifest: RollbackManifest, changed: Mapping[str, Any]) -> RollbackManifest:
    """Return a changed manifest. It is validated again, which `model_copy` would not do."""
    return RollbackManifest.model_validate({**dict(manifest), **changed})


def _restored(checkpoint: C, restored: Mapping[str, tuple[str, str]]) -> C:
    if checkpoint.restored_at is not None or checkpoint.checkpoint_id not in restored:
        return checkpoint
    at, order = restored[checkpoint.checkpoint_id]
    return checkpoint.model_copy(update={"restored_at": at, "restored_by": order})


def _reverse_steps(
    checkpoint: Checkpoint, current: Mapping[str, State | None], paths: dict[str, int]
) -> list[PlanStep]:
    """Return the steps for one checkpoint. A renamed file that was moved or changed since needs two."""
    original = original_state(checkpoint)
    old, new = current[checkpoint.file_path], current.get(checkpoint.new_path or "")
    if old is None and new is not None and new.is_alike(original):
        step = _step(checkpoint, "rename", checkpoint.new_path or "", paths)
        return [step._replace(new_path=_index(checkpoint.file_path, paths), before=new, after=new)]
    steps = []
    if original is None:
        if old is not None:
            steps.append(_step(checkpoint, "delete", checkpoint.file_path, paths)._replace(before=old))
    elif old is None or not old.is_alike(original):
        step = _step(checkpoint, "create" if old is None else "modify", checkpoint.file_path, paths)
        source, metadata = checkpoint.checkpoint_id, _ownership_of(checkpoint, original)
        steps.append(step._replace(before=old, after=original, source=source, metadata=metadata))
    if new is not None:
        steps.append(_step(checkpoint, "delete", checkpoint.new_path or "", paths)._replace(before=new))
    return steps


def _step(checkpoint: Checkpoint, move: Move, path: str, paths: dict[str, int]) -> PlanStep:
    return PlanStep(0, checkpoint.checkpoint_id, _ACTIONS[move], move, _index(path, paths))


def _index(path: str, paths: dict[str, int]) -> int:
    return paths.setdefault(path, len(paths))


def _ownership_of(checkpoint: Checkpoint, original: State) -> dict[str, Any]:
    """Return the metadata that `effects.plans.files` sets. The access time was not recorded, so it is not restored."""
    ownership: dict[str, Any] = {"mode": original.mode, "xattrs": dict(checkpoint.original_attributes)}
    if checkpoint.original_owner is not None:
        user, _, group = checkpoint.original_owner.partition(":")
        ownership |= {"uid": int(user), "gid": int(group)}
    if checkpoint.original_mtime_ns is not None:
        ownership |= dict.fromkeys(("atime_ns", "mtime_ns"), checkpoint.original_mtime_ns)
    return ownership


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_COMMAND else text[: _LONGEST_COMMAND - 3] + "..."
