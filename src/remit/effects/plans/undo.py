"""Undoes the steps of a plan, wave by wave and step by step, by renames only.

The files themselves show whether a step was done, because a step knows the state of its path before and after it. A
file in neither state belongs to another program. It is never lost. If it occupies the name of an old file, both stay
where they are, and the error names them. An undo may be interrupted and repeated: each of its system calls leaves one
of the rows below.

P is the path, Q the new path of a rename, T the part name, S the aside name. B and A are the states before and after,
X is any other state, - means no file, and "foreign" means that the file belongs to another program.

    modify  P any, T -             nothing to do; S (unfinished bytes) is removed in every case
            P B,   T A or B        remove T; with B, another program restored the same bytes
            P A,   T B             exchange, remove T
            P A,   T X             T was changed at the last moment: exchange, remove T
            P A,   T A             P is foreign and equal to the new file: remove T
            P X,   T A             P is foreign and was never switched: remove T
            P -,   T B             another program removed P: rename T to P
            P -,   T A             remove T
            all others             refuse, change nothing
    create  T exists               not switched: remove T
            P any, S A             the undo was interrupted: remove S
            P A,   S -             rename P to S, remove S
            P -,   S X             S was changed at the last moment: rename S to P
            P X,   S -             P is foreign: leave it unchanged
            P -,   S -             nothing to do
            all others             refuse, change nothing
    delete  P any, S -             nothing to do
            P -,   S exists        rename S to P
            P B,   S B             another program restored the same bytes: remove S
            all others             refuse, change nothing
    rename  P -,   Q B             rename Q to P
            P B                    nothing to do; a file at Q is foreign
            P X,   Q B             refuse, change nothing
            all others             the files are foreign: leave them unchanged
"""

from collections.abc import Callable, Collection
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.core.faultpoints import reach
from remit.effects.context import EffectContext, PathHandle
from remit.effects.plans.files import (
    FoundFile,
    beside,
    find,
    find_path,
    fresh_name,
    old_name,
    remove_temporary,
    require_spot,
    spot_of,
    spots_of,
    sync_folders,
)
from remit.effects.plans.steps import PlanStep, StepPlan, aside_name, part_name
from remit.fs.openat import FileIdentity, peek, rename_exchange, rename_noreplace


def undo_step(work: EffectContext, plan: StepPlan, step: PlanStep) -> bool:
    """Undo one step. Return False if another program's file stays at the path, so that the path is not as before.

    Raises `EnvironmentFailureError(DRIFTED)`, and changes nothing, where only a person can decide which file is right.
    """
    if not is_done_on_disk(step):
        return True
    if spot_of(work, step.path) is None:  # another program removed the folder with its content
        return step.move == "create"
    return _UNDO[step.move](work, plan, step)


def clear_unswitched(work: EffectContext, plan: StepPlan, step: PlanStep) -> bool:
    """Remove the temporary files of a step that is known not to be done.

    A file at the path that only looks like the result of the step stays.
    """
    if not is_done_on_disk(step) or spot_of(work, step.path) is None:
        return True
    if step.move in {"modify", "delete"}:  # the file that they set aside proves that they were done
        return _UNDO[step.move](work, plan, step)
    clear_fresh(work, plan, step)
    return True


def clear_fresh(work: EffectContext, plan: StepPlan, step: PlanStep) -> None:
    """Remove the new bytes of a step whose wave never began. The step can have left no other file."""
    spot = spot_of(work, step.path)
    if spot is not None and step.move in {"create", "modify"}:
        remove_temporary(spot, fresh_name(plan, step))


def is_switched(work: EffectContext, step: PlanStep) -> bool:
    """Whether the path is in the state after the step. Files that are set aside do not matter."""
    if not is_done_on_disk(step):
        return True
    here = find_path(work, step.path, step.before, step.after)
    if step.move == "delete":
        return here.likeness == "absent"
    if step.move == "rename" and step.new_path is not None:
        return here.likeness != "before" and find_path(work, step.new_path, step.before).likeness == "before"
    return here.likeness == "after"


def is_done_on_disk(step: PlanStep) -> bool:
    """Whether the step changes a file, according to the simulation."""
    return not step.unchanged and step.problem is None


# --- waves -----------------------------------------------------------------------------------------------------------


def is_whole(work: EffectContext, plan: StepPlan, wave: int, not_done: Collection[int]) -> bool:
    """Whether the last wave began, and all of its steps and all earlier steps are done."""
    return (
        wave == len(plan.waves) - 1
        and not not_done
        and all(step.problem is None for step in plan.steps)
        and all(is_switched(work, step) for step in _in_wave(plan, wave))
    )


def make_durable(work: EffectContext, plan: StepPlan) -> None:
    """Sync the folders of all files that stay."""
    sync_folders(spots_of(work, plan.steps))


def undo_wave(work: EffectContext, plan: StepPlan, wave: int, not_done: Collection[int]) -> list[int]:
    """Undo the steps of one wave, the last step first. The next wave may have been staged, but not switched.

    The steps of a wave are independent, so a step that cannot be undone does not stop the others. Return the numbers of
    the steps whose path is not as before.
    """
    left: list[int] = []
    first_problem: RemitError | None = None
    next_wave = _in_wave(plan, wave + 1)
    for step in next_wave:
        clear_fresh(work, plan, step)
    steps = _in_wave(plan, wave)
    for step in reversed(steps):
        undo = clear_unswitched if step.number in not_done else undo_step
        try:
            if not undo(work, plan, step):
                left.append(step.number)
        except RemitError as problem:
            first_problem = first_problem or problem
        reach("plan.step_undone")
    sync_folders(spots_of(work, (*steps, *next_wave)))
    if first_problem is not None:
        raise first_problem
    reach("plan.undone")
    return sorted(left)


def _in_wave(plan: StepPlan, wave: int) -> list[PlanStep]:
    if not 0 <= wave < len(plan.waves):
        return []
    numbers = frozenset(plan.waves[wave])
    return [step for step in plan.steps if step.number in numbers]


# --- the table -------------------------------------------------------------------------------------------------------


def _undo_modify(work: EffectContext, plan: StepPlan, step: PlanStep) -> bool:
    spot, old = require_spot(work, plan, step.path), old_name(plan, step)
    remove_temporary(spot, fresh_name(plan, step))
    aside = find(spot, old, step.before, step.after)
    if aside.identity is None:
        return True
    here = find(spot, spot.name, step.before, step.after)
    match here.likeness, aside.likeness:
        case ("absent", "before"):
            _rename_found(spot, old, spot, spot.name, aside.identity)
        case ("after", "before" | "other"):
            _exchange_found(spot, old, aside.identity, here)
            remove_temporary(spot, old, here.identity)
        case ("before", "before") | (_, "after"):
            remove_temporary(spot, old, aside.identity)
            return here.likeness == "before"
        case _:
            raise _doubt_error(spot, old)
    return True


def _undo_create(work: EffectContext, plan: StepPlan, step: PlanStep) -> bool:
    spot = require_spot(work, plan, step.path)
    part, aside_as = part_name(plan.prefix, step.number), aside_name(plan.prefix, step.number)
    here = find(spot, spot.name, None, step.after)
    if peek(spot.folder, part, where=spot.path) is not None:
        remove_temporary(spot, part)
        return here.identity is None
    aside = find(spot, aside_as, None, step.after)
    match here.likeness, aside.likeness:
        case (_, "after"):
            remove_temporary(spot, aside_as, aside.identity)
        case ("after", "absent") if here.identity is not None:
            _rename_found(spot, spot.name, spot, aside_as, here.identity)
            remove_temporary(spot, aside_as, here.identity)
            return True
        case ("absent", "other") if aside.identity is not None:
            _rename_found(spot, aside_as, spot, spot.name, aside.identity)
            return False
        case (_, "other"):
            raise _doubt_error(spot, aside_as)
    return here.identity is None


def _undo_delete(work: EffectContext, plan: StepPlan, step: PlanStep) -> bool:
    spot, old = require_spot(work, plan, step.path), old_name(plan, step)
    aside = find(spot, old, step.before, None)
    if aside.identity is None:
        return True
    here = find(spot, spot.name, step.before, None)
    match here.likeness, aside.likeness:
        case ("absent", _):
            _rename_found(spot, old, spot, spot.name, aside.identity)
        case ("before", "before"):
            remove_temporary(spot, old, aside.identity)
        case _:
            raise _doubt_error(spot, old)
    return True


def _undo_rename(work: EffectContext, plan: StepPlan, step: PlanStep) -> bool:
    spot = require_spot(work, plan, step.path)
    target = spot_of(work, step.path if step.new_path is None else step.new_path)
    here = find(spot, spot.name, step.before, None)
    moved = FoundFile("absent", None) if target is None else find(target, target.name, step.before, None)
    if here.likeness == "before":
        return moved.identity is None
    if target is None or moved.identity is None or moved.likeness != "before":
        return False
    if here.likeness != "absent":
        raise _drifted_error(
            f"the file was renamed to {target.path}, and another file is at its old path now", spot.path, target.path
        )
    _rename_found(target, target.name, spot, spot.name, moved.identity)
    return True


_UNDO: Final[dict[str, Callable[[EffectContext, StepPlan, PlanStep], bool]]] = {
    "modify": _undo_modify,
    "create": _undo_create,
    "delete": _undo_delete,
    "rename": _undo_rename,
}


# --- inside ----------------------------------------------------------------------------------------------------------


def _rename_found(old: PathHandle, old_as: str, new: PathHandle, new_as: str, expected: FileIdentity) -> None:
    """Rename the expected file. If another file has replaced it, give that one its old name again and raise."""
    where, where_new = beside(old, old_as), beside(new, new_as)
    rename_noreplace(old.folder, old_as, new.folder, new_as, where=where, where_new=where_new)
    found = peek(new.folder, new_as, where=where_new)
    if found is not None and found.has_content_of(expected):
        return
    rename_noreplace(new.folder, new_as, old.folder, old_as, where=where_new, where_new=where)
    raise _drifted_error("another program replaced the file during the undo", where, where_new)


def _exchange_found(spot: PathHandle, old: str, aside: FileIdentity, here: FoundFile) -> None:
    """Exchange the two expected files. If either of them has been replaced, exchange them again and raise."""
    rename_exchange(spot.folder, old, spot.name, where=spot.path)
    now_here, now_aside = (peek(spot.folder, name, where=spot.path) for name in (spot.name, old))
    if (
        now_here is not None
        and now_aside is not None
        and here.identity is not None
        and now_here.has_content_of(aside)
        and now_aside.has_content_of(here.identity)
    ):
        return
    rename_exchange(spot.folder, old, spot.name, where=spot.path)
    raise _doubt_error(spot, old)


def _doubt_error(spot: PathHandle, aside: str) -> EnvironmentFailureError:
    what = "another program changed this file during the plan, so it is left unchanged"
    return _drifted_error(what, spot.path, beside(spot, aside))


def _drifted_error(what: str, where: str, other: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.DRIFTED,
        what,
        where=where,
        next_step=f"Compare it with {other}, keep the right one here, remove the other, and run `remit recover`.",
    )
