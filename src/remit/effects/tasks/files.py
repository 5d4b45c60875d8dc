"""The effects FILE_MOVE, FILE_COPY and FILE_DELETE: the code that runs inside the sandbox, on descriptors of the host.

The code never overwrites a name, enters a directory or follows a link. A file to be removed is first set aside under
the task's part name and checked there, so a program that replaces it at the last moment (an editor that saves) loses
nothing. Limit: once the last name of a file is removed, a delete or a move between filesystems can be finished but not
undone.
"""

from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.effects.context import Effect, EffectContext
from remit.effects.file_copy import rename_checked, restore_name, sync
from remit.effects.tasks.file_steps import (
    DESTINATION,
    SOURCE,
    Undoing,
    clear_part,
    duplicate,
    find_made,
    find_source,
    finish_made,
    open_source,
    opened,
    parse_identity,
    publish,
    remove_source,
    remove_untouched,
    require_portable,
    require_ready,
    restore_aside,
    sync_both,
)
from remit.effects.tasks.notes import intended_removal
from remit.fs.openat import FileIdentity, OtherFilesystemError, peek


class Move:
    """One rename where possible. Otherwise copy, sync, verify and rename, and only then remove the source."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        source, destination = work.spots[SOURCE], work.spots[DESTINATION]
        before = require_ready(work)
        old, new = (source.folder, source.name), (destination.folder, destination.name)
        with Undoing(source.path) as undo:
            try:
                rename_checked(old, new, before, where=source.path, where_new=destination.path)
            except OtherFilesystemError:
                _move_across(work, before, undo)
                return move_output(work)
            undo.callback(sync_both, source, destination)
            undo.callback(restore_name, new, old, where=destination.path, where_new=source.path)
            reach("effect.moved")
            sync_both(source, destination)
            reach("effect.move_synced")
        return move_output(work)

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        source, destination = work.spots[SOURCE], work.spots[DESTINATION]
        before = parse_identity(work)
        arrived = peek(destination.folder, destination.name, where=destination.path)
        if arrived is not None and arrived.is_file(before):
            if not finish:
                old, new = (destination.folder, destination.name), (source.folder, source.name)
                restore_name(old, new, where=destination.path, where_new=source.path)
            sync_both(source, destination)
            return move_output(work) if finish else None
        if _is_moved_across(work, before):
            if not finish:
                raise _cannot_move_back_error(destination.path)
            sync_both(source, destination)
            return move_output(work)
        if finish and find_made(work) is not None and _finish_removal(work, before):
            return move_output(work)
        restore_aside(work, before)
        clear_part(work, before)
        if (made := find_made(work)) is not None:
            remove_untouched(destination, *made)
        elif peek(source.folder, source.name, where=source.path) is None:
            raise _lost_error(source.path)
        return None


class Copy:
    """Copies a file byte for byte, with its holes, and verifies it. The copy has the source's permissions, and its
    owner is the user who runs Remit.
    """

    def run(self, work: EffectContext) -> dict[str, Any]:
        before = require_ready(work)
        with opened(open_source(work, before)) as source, Undoing(work.spots[DESTINATION].path) as undo:
            made, digest = duplicate(work, source, before, undo, keep_permissions=False)
            publish(work, made, digest, undo)
        return copy_output(work, digest)

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        digest = finish_made(work, finish=finish)
        return copy_output(work, digest) if digest is not None else None


class Delete:
    """Removes a file of which the host holds a snapshot, if the file is still the one in the snapshot."""

    def run(self, work: EffectContext) -> dict[str, Any]:
        output = delete_output(work)
        before = require_ready(work)
        with Undoing(work.spots[SOURCE].path) as undo:
            remove_source(work, before, undo)
        return output

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        source, before = work.spots[SOURCE], parse_identity(work)
        if find_source(work, before) is None and intended_removal(work):
            if not finish:
                raise _cannot_restore_error(source.path, str(work.checkpoint.get("snapshot")))
            sync(source.folder, where=source.path)
            return delete_output(work)
        # A source under its own name was not removed yet. Another file of that name, or none, comes from another
        # program.
        aside = peek(source.folder, work.part_name, where=source.path)
        if finish and aside is not None and aside.is_file(before) and _finish_removal(work, before):
            return delete_output(work)
        restore_aside(work, before)
        return None


def _move_across(work: EffectContext, before: FileIdentity, undo: Undoing) -> None:
    with opened(open_source(work, before)) as source:
        require_portable(work, source, before)
        made, digest = duplicate(work, source, before, undo, keep_permissions=True)
    publish(work, made, digest, undo)
    remove_source(work, before, undo)


def _is_moved_across(work: EffectContext, before: FileIdentity) -> bool:
    """Whether the source was removed: by the task, or by another program while the file is at its destination."""
    if find_source(work, before) is not None:
        return False
    source = work.spots[SOURCE]
    names = source.name, work.part_name
    nothing = all(peek(source.folder, name, where=source.path) is None for name in names)
    return intended_removal(work) or (nothing and find_made(work) is not None)


def _finish_removal(work: EffectContext, before: FileIdentity) -> bool:
    """Finish the removal under the current name of the source. Return False if the source was changed since."""
    found = find_source(work, before)
    if found is None or not found[1].has_content_of(before):
        return False
    if DESTINATION in work.spots:
        sync(work.spots[DESTINATION].folder, where=work.spots[DESTINATION].path)
    try:
        with Undoing(work.spots[SOURCE].path) as undo:
            remove_source(work, found[1], undo)
    except RefusedError:  # changed at this moment; it has its name again
        return False
    return True


def _lost_error(where: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        "the file is neither at its source nor at its destination: another program moved or removed it since",
        where=where,
        next_step="Put the file at one of the two paths, then run `remit recover` again.",
    )


def _cannot_move_back_error(where: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        "the file was already moved when the task was stopped, and recovery cannot move it back",
        where=where,
        next_step="The file is complete at its destination. If needed, move it back with a new task.",
    )


def _cannot_restore_error(where: str, snapshot: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        "the file was already removed when the task was stopped",
        where=where,
        next_step=f"The file can be restored from {snapshot}.",
    )


# --- outputs --------------------------------------------------------------------------------------------------------


def move_output(work: EffectContext) -> dict[str, Any]:
    source, destination = work.spots[SOURCE].path, work.spots[DESTINATION].path
    return {
        "result_summary": {"source": source, "destination": destination},
        "undo_metadata": {"original_path": source},
    }


def copy_output(work: EffectContext, digest: str) -> dict[str, Any]:
    source, destination = work.spots[SOURCE].path, work.spots[DESTINATION].path
    undo = {"created_path": destination, "sha256": digest} if work.reversible else {}
    return {"result_summary": {"source": source, "destination": destination}, "undo_metadata": undo}


def delete_output(work: EffectContext) -> dict[str, Any]:
    """Return the output of a delete. Raises if there is no snapshot, because no file is deleted without one."""
    recovery = work.checkpoint.get("snapshot")
    if not work.reversible or not isinstance(recovery, str) or not recovery:
        raise RefusedError(
            Reason.EFFECT_FAILED,
            "a file is deleted only if the task is reversible and a snapshot of the file is kept",
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
