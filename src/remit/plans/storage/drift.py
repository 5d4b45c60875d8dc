"""Drift: the state of the files since a plan ran. A file is as the plan left it, as before, or changed since."""

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Literal, TypeVar

from remit.contracts.plans.rollback import Checkpoint, RollbackManifest, RowsCheckpoint
from remit.core.canonical import canonical_bytes, digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.effects.plans.database_files import is_database_file
from remit.effects.plans.steps import State
from remit.fs.openat import open_base, open_file, open_folder, peek
from remit.fs.paths import Located, locate_below, plain_spelling
from remit.plans.storage.backups import state_of

T = TypeVar("T")

FileStatus = Literal["left", "before", "drifted"]
MAX_NAMED: Final = 10
"""Paths in a message about a checkpoint that does not exist."""


def check_files(
    root: str, manifest: RollbackManifest, chosen: Collection[str]
) -> dict[str, tuple[FileStatus, State | None]]:
    """Return for each checkpoint its status and the state of the file that a rollback would replace or remove.

    For a folder, only its existence is checked. `chosen` is as in `select`.
    """
    checkpoints = select(manifest, chosen)
    states = read_states(root, paths_of(checkpoints))
    statuses: dict[str, tuple[FileStatus, State | None]] = {}
    for checkpoint in checkpoints:
        if checkpoint.file_kind == "directory":
            statuses[checkpoint.checkpoint_id] = "left" if is_folder(root, checkpoint.file_path) else "before", None
        else:
            state = states[checkpoint.new_path or checkpoint.file_path]
            statuses[checkpoint.checkpoint_id] = judge(checkpoint, states), state
    return statuses


def select(manifest: RollbackManifest, chosen: Collection[str]) -> list[Checkpoint]:
    """Return the checkpoints of files that are still to be restored, in order of restoring. No `chosen` means all.

    Rows on a server are found by `find_restorable_rows`. Refuses an id that the manifest does not have.
    """
    rows = manifest.rows.checkpoint_id if manifest.rows is not None else ""
    by_id = {checkpoint.checkpoint_id: checkpoint for checkpoint in manifest.checkpoints}
    for checkpoint_id in chosen:
        if checkpoint_id not in by_id and checkpoint_id != rows:
            raise _no_such_checkpoint(checkpoint_id, manifest, "rollback_manifest.json in the report folder")
    wanted = [by_id[checkpoint_id] for checkpoint_id in manifest.rollback_order]
    return [
        checkpoint
        for checkpoint in wanted
        if checkpoint.restored_at is None and (not chosen or checkpoint.checkpoint_id in chosen)
    ]


def resolve_checkpoints(manifest: RollbackManifest, chosen: Collection[str], manifest_path: str) -> tuple[str, ...]:
    """Return the ids of the chosen checkpoints. A person may also name a file or folder by its path in the plan.

    Refuses a name that the manifest does not have, and a path that several checkpoints have. `manifest_path` is for the
    message.
    """
    found = (_find_checkpoint(manifest, name, manifest_path) for name in chosen)
    return tuple(dict.fromkeys(found))


def _find_checkpoint(manifest: RollbackManifest, name: str, manifest_path: str) -> str:
    ids = {checkpoint.checkpoint_id for checkpoint in manifest.checkpoints}
    if name in ids or (manifest.rows is not None and name == manifest.rows.checkpoint_id):
        return name
    path = plain_spelling(name)
    matching = [one.checkpoint_id for one in manifest.checkpoints if path in {one.file_path, one.new_path}]
    if not matching:
        raise _no_such_checkpoint(name, manifest, manifest_path)
    if len(matching) > 1:
        raise RefusedError(
            Reason.ARGUMENT_INVALID,
            f"{len(matching):,} checkpoints of this run have this path",
            where=name,
            next_step=f"Choose by the id of the checkpoint: {', '.join(matching)}. {manifest_path} describes them.",
        )
    return matching[0]


def _no_such_checkpoint(name: str, manifest: RollbackManifest, manifest_path: str) -> RefusedError:
    paths = list(dict.fromkeys(one.new_path or one.file_path for one in manifest.checkpoints))
    more = f" and {len(paths) - MAX_NAMED:,} more" if len(paths) > MAX_NAMED else ""
    named = f"Choose one of {', '.join(paths[:MAX_NAMED])}{more}. " if paths else ""
    return RefusedError(
        Reason.ARGUMENT_INVALID,
        "this run has no such checkpoint",
        where=name,
        next_step=f"{named}All checkpoints are listed in {manifest_path}",
    )


def find_restorable_rows(manifest: RollbackManifest, chosen: Collection[str]) -> RowsCheckpoint | None:
    """Return the rows on a server if they are chosen, not restored yet, and restorable. `chosen` is as in `select`."""
    rows = manifest.rows
    if rows is None or rows.restored_at is not None or rows.irreversible is not None:
        return None
    return rows if not chosen or rows.checkpoint_id in chosen else None


def find_irreversible_rows(manifest: RollbackManifest, chosen: Collection[str]) -> RowsCheckpoint | None:
    """Return the rows on a server if they are chosen and cannot be restored."""
    rows = manifest.rows
    if rows is None or rows.irreversible is None:
        return None
    return rows if not chosen or rows.checkpoint_id in chosen else None


def is_due(manifest: RollbackManifest, chosen: Collection[str]) -> bool:
    """Whether anything is left to restore. Refuses as `select` does."""
    return bool(select(manifest, chosen)) or find_restorable_rows(manifest, chosen) is not None


def changed_nothing(manifest: RollbackManifest) -> bool:
    """Whether the run changed nothing, so that a rollback restores nothing."""
    return not manifest.checkpoints and manifest.rows is None


def paths_of(checkpoints: Iterable[Checkpoint]) -> list[str]:
    """Return every path of a file that a rollback may change, each once."""
    paths = (
        path
        for checkpoint in checkpoints
        if checkpoint.file_kind == "file"
        for path in (checkpoint.file_path, checkpoint.new_path)
        if path is not None
    )
    return list(dict.fromkeys(paths))


def read_states(
    root: str, paths: Iterable[str], state_of_open: Callable[[int], State] = state_of
) -> dict[str, State | None]:
    """Return the current state of each path. Refuses with DRIFTED if a link, a folder or the like replaces a file.

    `state_of_open` gets the open file. A caller can pass a function that caches hashes.
    """
    return {path: _read_open(locate_below(root, path), path, state_of_open) for path in paths}


def drifted_files(checkpoints: Iterable[Checkpoint], states: Mapping[str, State | None]) -> dict[str, State | None]:
    """Return the paths that changed since the run, with their current states. Pure."""
    files = (one for one in checkpoints if one.file_kind == "file")
    return {path: states[path] for path in paths_of(one for one in files if judge(one, states) == "drifted")}


def drift_digest(drifted: Mapping[str, State | None]) -> str:
    """Return the digest that an approval to replace changed files binds: exactly these files in these states, or
    none.
    """
    states = [[path, state and [state.sha256, state.mode]] for path, state in sorted(drifted.items())]
    return digest_bytes(canonical_bytes(states))


def judge(checkpoint: Checkpoint, states: Mapping[str, State | None]) -> FileStatus:
    """Compare with the manifest. A file is "left" if it has the bytes and permissions that the plan left. Pure."""
    now = states[checkpoint.file_path]
    match checkpoint.operation_to_reverse:
        case "CREATE":
            return "before" if now is None else _left_or_drifted(_matches_run(now, checkpoint))
        case "RENAME":
            return _judge_rename(checkpoint, now, states[checkpoint.new_path or ""])
        case "DELETE":
            return "before" if is_original(now, checkpoint) else _left_or_drifted(now is None)
        case "MODIFY":
            if is_original(now, checkpoint):
                return "before"
            return _left_or_drifted(now is not None and _matches_run(now, checkpoint))


def _matches_run(state: State, checkpoint: Checkpoint) -> bool:
    mode = checkpoint.mode_after  # older manifests have none
    return state.sha256 == checkpoint.hash_after and (mode is None or state.mode == int(mode, 8))


def is_original(state: State | None, checkpoint: Checkpoint) -> bool:
    """Whether the file has the bytes and permissions from before the plan."""
    return state is not None and state.is_alike(original_state(checkpoint))


def original_state(checkpoint: Checkpoint) -> State | None:
    """Return the state from before the plan, or None for a file that the plan created."""
    if checkpoint.original_hash is None or checkpoint.original_size is None:
        return None
    return State(checkpoint.original_hash, checkpoint.original_size, int(checkpoint.original_mode or "0644", 8))


def _judge_rename(checkpoint: Checkpoint, old: State | None, new: State | None) -> FileStatus:
    if new is None and is_original(old, checkpoint):
        return "before"
    return _left_or_drifted(old is None and is_original(new, checkpoint))


def _left_or_drifted(as_left: bool) -> FileStatus:  # noqa: FBT001 - the function maps this flag
    return "left" if as_left else "drifted"


def find_databases(root: str, paths: Iterable[str]) -> set[str]:
    """Return the paths where a database file is now, judged by its first bytes. Refuses as `read_states` does."""
    return {path for path in paths if _read_open(locate_below(root, path), path, is_database_file)}


def _read_open(located: Located, path: str, read: Callable[[int], T]) -> T | None:
    """Open the file and read from it. None if it does not exist."""
    try:
        with contextlib.ExitStack() as stack:
            base = open_base(located.base)
            stack.callback(os.close, base)
            folder = open_folder(base, located.parents, where=path)
            stack.callback(os.close, folder)
            file = open_file(folder, located.name, where=path)
            stack.callback(os.close, file)
            return read(file)
    except RefusedError as problem:
        if problem.reason is Reason.FILE_MISSING:
            return None
        if problem.reason is not Reason.PATH_REFUSED:
            raise
        raise RefusedError(
            Reason.DRIFTED,
            f"another object was put in the place of this file: {problem.what}",
            where=path,
            next_step="Move it away, or name the other checkpoints with --checkpoint. Nothing was restored.",
        ) from None


def is_folder(root: str, path: str) -> bool:
    located = locate_below(root, path)
    try:
        with contextlib.ExitStack() as stack:
            base = open_base(located.base)
            stack.callback(os.close, base)
            folder = open_folder(base, located.parents, where=path)
            stack.callback(os.close, folder)
            found = peek(folder, located.name, where=path)
    except RefusedError:  # behind a link, or missing: the folder that the plan made no longer exists
        return False
    return found is not None and stat.S_ISDIR(found.mode)
