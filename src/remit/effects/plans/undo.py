"""A plan taken back, wave by wave and step by step, whether a step was done or not: told by the tree, by renames only.

A step knows the state of its path before and after it. Whatever is in neither state is somebody else's: it is never
lost, and where it stands in the way of an old file, both are left where they are and named. Taking back may be cut
short itself and done again: each of its calls leaves one of the rows below.

P is the path, Q the new path of a rename; T the part name, S the aside name. B and A are the states before and after,
X anything else, - nothing.

    modify  P any, T -             nothing to do; S, unfinished bytes, is removed in every case
            P B,   T A or B        remove T; with B, somebody put the same bytes back himself
            P A,   T B             exchange, remove T
            P A,   T X             T was caught at the last moment: exchange, remove T
            P A,   T A             P is somebody's, made alike: remove T
            P X,   T A             P is somebody's, never switched: remove T
            P -,   T B             somebody removed P: T gets its name
            P -,   T A             remove T
            all others             refused, nothing is touched
    create  T there                not switched: remove T
            P any, S A             was cut short: remove S
            P A,   S -             P is set aside as S, remove S
            P -,   S X             S was caught at the last moment: S gets its name
            P X,   S -             somebody's: left alone
            P -,   S -             nothing to do
            all others             refused, nothing is touched
    delete  P any, S -             nothing to do
            P -,   S there         S gets its name
            P B,   S B             somebody put the same bytes back himself: remove S
            all others             refused, nothing is touched
    rename  P -,   Q B             Q gets its name
            P B                    nothing to do; what is at Q is somebody's
            P X,   Q B             refused, nothing is touched
            all others             somebody's: left alone
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
    """Take it back. False: a file of somebody else's was left where it is, so the path is not as before.

    Raises `EnvironmentFailureError(DRIFTED)`, with nothing touched, where only a person can say what is right.
    """
    if not is_done_on_disk(step):
        return True
    if spot_of(work, step.path) is None:  # somebody removed the folder, and all that was in it
        return step.move == "create"
    return _UNDO[step.move](work, plan, step)


def clear_unswitched(work: EffectContext, plan: StepPlan, step: PlanStep) -> bool:
    """For a step that is known not to be done: what it may have left, and no look at what only seems to be its work."""
    if not is_done_on_disk(step) or spot_of(work, step.path) is None:
        return True
    if step.move in {"modify", "delete"}:  # what they set aside is proof of them
        return _UNDO[step.move](work, plan, step)
    clear_fresh(work, plan, step)
    return True


def clear_fresh(work: EffectContext, plan: StepPlan, step: PlanStep) -> None:
    """For a step whose wave was never begun: it can only have left new bytes."""
    spot = spot_of(work, step.path)
    if spot is not None and step.move in {"create", "modify"}:
        remove_temporary(spot, fresh_name(plan, step))


def is_switched(work: EffectContext, step: PlanStep) -> bool:
    """Whether the path is in the state after the step, whatever is set aside."""
    if not is_done_on_disk(step):
        return True
    here = find_path(work, step.path, step.before, step.after)
    if step.move == "delete":
        return here.likeness == "absent"
    if step.move == "rename" and step.new_path is not None:
        return here.likeness != "before" and find_path(work, step.new_path, step.before).likeness == "before"
    return here.likeness == "after"


def is_done_on_disk(step: PlanStep) -> bool:
    """Whether it is one that does something, as far as the simulation could tell."""
    return not step.unchanged and step.problem is None


# --- waves -----------------------------------------------------------------------------------------------------------


def is_whole(work: EffectContext, plan: StepPlan, wave: int, not_done: Collection[int]) -> bool:
    """Whether the last wave was begun and all of it, and all before it, is there."""
    return (
        wave == len(plan.waves) - 1
        and not not_done
        and all(step.problem is None for step in plan.steps)
        and all(is_switched(work, step) for step in _in_wave(plan, wave))
    )


def make_durable(work: EffectContext, plan: StepPlan) -> None:
    """Sync what is to stay."""
    sync_folders(spots_of(work, plan.steps))


def undo_wave(work: EffectContext, plan: StepPlan, wave: int, not_done: Collection[int]) -> list[int]:
    """The steps of one wave, the last one first. The wave after it may have been staged, and no more.

    No two steps of a wave have to do with each other: one that cannot be taken back does not keep the others from it.
    Gives the numbers of those whose path is not as before.
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
            f"the file was renamed to {target.path}, and somebody put another in its old place", spot.path, target.path
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
    """Rename the file that was looked at. If another was put in its place meanwhile, that one gets its name back."""
    where, where_new = beside(old, old_as), beside(new, new_as)
    rename_noreplace(old.folder, old_as, new.folder, new_as, where=where, where_new=where_new)
    found = peek(new.folder, new_as, where=where_new)
    if found is not None and found.has_content_of(expected):
        return
    rename_noreplace(new.folder, new_as, old.folder, old_as, where=where_new, where_new=where)
    raise _drifted_error("somebody exchanged the file while it was taken back", where, where_new)


def _exchange_found(spot: PathHandle, old: str, aside: FileIdentity, here: FoundFile) -> None:
    """Exchange the two files that were looked at. If either is another by now, they are exchanged again."""
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
    what = "somebody changed this file while the plan was under way, so it is left as it is"
    return _drifted_error(what, spot.path, beside(spot, aside))


def _drifted_error(what: str, where: str, other: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.DRIFTED,
        what,
        where=where,
        next_step=f"Compare it with {other}, give the right one its name, remove the other, and run `remit recover`.",
    )
