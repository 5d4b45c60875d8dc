"""FILE_MOVE, FILE_COPY and FILE_DELETE: the code that runs inside the sandbox, on the descriptors it was given.

No name is ever overwritten, no directory entered, nothing followed. A file that goes away is first set aside under the
task's part name and looked at there: whoever replaces it at the last moment (an editor that saves) loses nothing.
Limit: from the instant its last name is removed, a delete or a move between filesystems can be finished but not undone.
"""

from contextlib import ExitStack
from typing import Any, Final

from remit.confine.beneath import Identity, OtherFilesystem, peek
from remit.confine.beneath import rename_noreplace as rename
from remit.effects.duplicate import remove_if_same, rename_checked, sync
from remit.effects.steps import (
    DESTINATION,
    SOURCE,
    clear_part,
    digest_at,
    duplicate,
    edited_since,
    find_source,
    has_same_bytes,
    has_traits,
    identity_before,
    open_source,
    opened,
    publish,
    put_back,
    require_portable,
    require_ready,
    sync_both,
    take_away,
    undoing,
    was_made,
)
from remit.effects.work import Effect, Work
from remit.errors import EnvironmentFailed, Reason, Refused
from remit.faultpoints import reach


class Move:
    """One rename where it can be; else copy, sync, verify, rename, and only then remove the source."""

    def run(self, work: Work) -> dict[str, Any]:
        source, destination = work.spots[SOURCE], work.spots[DESTINATION]
        before = require_ready(work)
        old, new = (source.folder, source.name), (destination.folder, destination.name)
        with undoing(source.path) as undo:
            try:
                rename_checked(old, new, before, where=source.path, where_new=destination.path)
            except OtherFilesystem:
                _move_across(work, before, undo)
                return move_output(work)
            undo.callback(sync_both, source, destination)
            undo.callback(rename, *new, *old, where=destination.path, where_new=source.path)
            reach("effect.moved")
            sync_both(source, destination)
            reach("effect.move_synced")
        return move_output(work)

    def settle(self, work: Work, *, finish: bool) -> dict[str, Any] | None:
        source, destination = work.spots[SOURCE], work.spots[DESTINATION]
        before = identity_before(work)
        arrived = peek(destination.folder, destination.name, where=destination.path)
        if arrived is not None and arrived.is_file(before):
            if not finish:
                old, new = (destination.folder, destination.name), (source.folder, source.name)
                rename(*old, *new, where=destination.path, where_new=source.path)
            sync_both(source, destination)
            return move_output(work) if finish else None
        # A part that is still there was not renamed: then whatever is at the destination is somebody else's.
        unfinished = clear_part(work, destination, before)
        still = find_source(work, before)
        if still is None:
            return _settle_without_source(work, arrived, finish=finish)
        name, kept = still
        same = arrived is not None and not unfinished and has_same_bytes(work, name)
        if same and finish:
            sync(destination.folder, where=destination.path)
            with undoing(source.path) as undo:
                take_away(work, kept, undo)
            return move_output(work)
        put_back(work, before)
        if arrived is not None and not unfinished and was_made(work, arrived):
            if not same:
                raise edited_since(destination.path)
            remove_if_same(destination.folder, destination.name, arrived, where=destination.path)
        return None


class Copy:
    """Byte for byte, holes kept, verified. The copy belongs to whoever runs Remit; its permissions are the source's."""

    def run(self, work: Work) -> dict[str, Any]:
        before = require_ready(work)
        with opened(open_source(work, before)) as source, undoing(work.spots[DESTINATION].path) as undo:
            made, digest = duplicate(work, source, before, undo, keep=False)
            publish(work, made, undo)
        return copy_output(work, digest)

    def settle(self, work: Work, *, finish: bool) -> dict[str, Any] | None:
        destination, before = work.spots[DESTINATION], identity_before(work)
        unfinished = clear_part(work, destination, before)
        arrived = peek(destination.folder, destination.name, where=destination.path)
        if arrived is None or unfinished:
            return None
        still = find_source(work, before)
        same = still is not None and has_same_bytes(work, still[0])
        if same and finish:
            sync(destination.folder, where=destination.path)
            return copy_output(work, digest_at(destination) if work.reversible else "")
        if same and was_made(work, arrived):
            remove_if_same(destination.folder, destination.name, arrived, where=destination.path)
        elif not same and was_made(work, arrived):
            raise edited_since(destination.path)
        elif finish and (still is None or not still[1].has_content_of(before)):
            raise EnvironmentFailed(
                Reason.EFFECT_FAILED,
                "whether this is the finished copy cannot be told: its source was changed since",
                where=destination.path,
                next_step="Look at it, move it away, then run `remit recover` again.",
            )
        return None


class Delete:
    """Removes a file of which the host holds a snapshot, if the file is still the one in the snapshot."""

    def run(self, work: Work) -> dict[str, Any]:
        output = delete_output(work)
        before = require_ready(work)
        with undoing(work.spots[SOURCE].path) as undo:
            take_away(work, before, undo)
        return output

    def settle(self, work: Work, *, finish: bool) -> dict[str, Any] | None:
        source, before = work.spots[SOURCE], identity_before(work)
        still = find_source(work, before)
        if still is not None and still[0] == source.name:
            return None
        if still is not None:
            if not finish:
                put_back(work, before)
                return None
            remove_if_same(source.folder, work.part_name, before, where=source.path)
            return delete_output(work)
        if peek(source.folder, source.name, where=source.path) is not None:
            raise EnvironmentFailed(
                Reason.EFFECT_FAILED,
                "another file has this name now, so it cannot be told whether the task had removed the first one",
                where=source.path,
                next_step="Move the new file away, then run `remit recover` again.",
            )
        if finish:
            sync(source.folder, where=source.path)
            return delete_output(work)
        raise EnvironmentFailed(
            Reason.EFFECT_FAILED,
            "the file had been removed already when the task was stopped",
            where=source.path,
            next_step=f"It can be restored from {work.checkpoint.get('snapshot')}.",
        )


def _move_across(work: Work, before: Identity, undo: ExitStack) -> None:
    with opened(open_source(work, before)) as source:
        require_portable(work, source, before)
        made, _ = duplicate(work, source, before, undo, keep=True)
    publish(work, made, undo)
    take_away(work, before, undo)


def _settle_without_source(work: Work, arrived: Identity | None, *, finish: bool) -> dict[str, Any]:
    source, destination = work.spots[SOURCE], work.spots[DESTINATION]
    if arrived is None or not (was_made(work, arrived) or has_traits(arrived, identity_before(work))):
        raise EnvironmentFailed(
            Reason.EFFECT_FAILED,
            "the file is neither at its source nor at its destination: somebody else took it after the task stopped",
            where=source.path,
            next_step="Put the file back to either place, then run `remit recover` again.",
        )
    if finish:
        sync_both(source, destination)
        return move_output(work)
    raise EnvironmentFailed(
        Reason.EFFECT_FAILED,
        "the file had been moved already when the task was stopped, and cannot be moved back from here",
        where=destination.path,
        next_step="The file is whole at its destination; move it back with a task of its own if need be.",
    )


# --- what the host is told ------------------------------------------------------------------------------------------


def move_output(work: Work) -> dict[str, Any]:
    source, destination = work.spots[SOURCE].path, work.spots[DESTINATION].path
    return {
        "result_summary": {"source": source, "destination": destination},
        "undo_metadata": {"original_path": source},
    }


def copy_output(work: Work, digest: str) -> dict[str, Any]:
    source, destination = work.spots[SOURCE].path, work.spots[DESTINATION].path
    undo = {"created_path": destination, "sha256": digest} if work.reversible else {}
    return {"result_summary": {"source": source, "destination": destination}, "undo_metadata": undo}


def delete_output(work: Work) -> dict[str, Any]:
    """Refuses where there is no snapshot: without one there is no delete, whatever came before."""
    recovery = work.checkpoint.get("snapshot")
    if not work.reversible or not isinstance(recovery, str) or not recovery:
        raise Refused(
            Reason.EFFECT_FAILED,
            "a file is deleted only where the task is reversible and a snapshot of it is kept",
            where=work.spots[SOURCE].path,
            next_step="Set constraints.reversible to true.",
        )
    return {
        "result_summary": {"source": work.spots[SOURCE].path, "destination": None},
        "undo_metadata": {"recovery": recovery},
    }


MOVE: Final[Effect] = Move()
COPY: Final[Effect] = Copy()
DELETE: Final[Effect] = Delete()
