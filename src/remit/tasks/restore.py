"""The task that undoes a given result. A restore is a task like any other."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from remit.contracts.tasks.result import CopyOutput, CopyUndo, DeleteOutput, ExecutionResult, MoveOutput
from remit.contracts.tasks.task import FILE_DELETE, FILE_MOVE, FILE_RESTORE, TaskManifest
from remit.core.errors import Reason, RefusedError
from remit.fs.openat import FileIdentity, inspect_file, open_file
from remit.fs.paths import locate
from remit.tasks.inspect import opened_folder

_LONGEST_ID: Final = 200


def restore_task_id(task_id: str, attempt: int) -> str:
    """Derive the id of a restore, so that a second restore is the same task. A further attempt follows a failed one."""
    wanted = f"restore-{task_id}" + (f"-{attempt}" if attempt > 1 else "")
    return wanted if len(wanted) <= _LONGEST_ID else f"restore-{hashlib.sha256(wanted.encode()).hexdigest()}"


def build_restore_task(result: ExecutionResult, task_id: str) -> TaskManifest:
    """Build the task that reverses the effect of this result, from its undo metadata."""
    match result.output:
        case MoveOutput(result_summary=summary, undo_metadata=undo):
            inputs = {"source_path": summary.destination, "destination_path": undo.original_path}
            return _manifest(task_id, FILE_MOVE, inputs)
        case DeleteOutput(result_summary=summary, undo_metadata=undo):
            return _manifest(task_id, FILE_RESTORE, {"recovery": undo.recovery, "destination_path": summary.source})
        case CopyOutput(undo_metadata=CopyUndo(created_path=created)):
            return _manifest(task_id, FILE_DELETE, {"source_path": created})
    raise RefusedError(
        Reason.ROLLBACK_IMPOSSIBLE,
        "this result has nothing to undo, because the task failed, changed nothing, or was not reversible",
        where=f"result of {result.task_id}",
        next_step="`remit ledger show` lists what the task did.",
    )


def require_undoable(result: ExecutionResult, before: Mapping[str, FileIdentity], bases: Sequence[str]) -> None:
    """Check that the file is still the one that the task left there.

    Raises:
        RefusedError: Another file is there now, or the copy was changed.
    """
    match result.output:
        case MoveOutput(result_summary=summary):
            _require_moved_file(summary.destination, before["source_path"], bases)
        case CopyOutput(undo_metadata=CopyUndo() as undo):
            _require_untouched_copy(undo, bases)


def _require_moved_file(path: str, before: FileIdentity, bases: Sequence[str]) -> None:
    """Check that the moved file is still there. An edited file passes, a file that replaced it does not.

    Some editors replace the file when they save. Such a file is another file too.
    """
    place = locate(path, bases)
    with opened_folder(place) as folder:
        found = inspect_file(folder, place.name, where=place.path)
        same = found.is_file(before.seen_from(folder))
    if not same and (found.size, found.mtime_ns) != (before.size, before.mtime_ns):
        raise RefusedError(
            Reason.FILE_CONFLICT,
            "another file has replaced the moved file, and is left unchanged",
            where=place.path,
            next_step="To move it nevertheless, use a new task.",
        )


def _require_untouched_copy(undo: CopyUndo, bases: Sequence[str]) -> None:
    """Check that the copy still has its original bytes. A changed copy holds the work of a user and is kept."""
    place = locate(undo.created_path, bases)
    with opened_folder(place) as folder:
        descriptor = open_file(folder, place.name, where=place.path)
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            found = "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
    if found != undo.sha256:
        raise RefusedError(
            Reason.FILE_CONFLICT,
            "this copy has changed since it was created, and is left unchanged",
            where=place.path,
            next_step="To remove it nevertheless, use a new task.",
        )


def _manifest(task_id: str, capability_id: str, inputs: dict[str, Any]) -> TaskManifest:
    return TaskManifest.from_tree(
        {"task_id": task_id, "capability_id": capability_id, "inputs": inputs, "constraints": {"reversible": True}}
    )
