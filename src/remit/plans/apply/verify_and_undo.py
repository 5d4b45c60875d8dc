"""The way back from whatever is done in steps, a plan or the rollback of one; and the host's own look at the files.

Going back is renames only, wave by wave, the last one first; it can be cut short anywhere and taken up again.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from remit.contracts.plans.status import PlanStatus
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, as_remit_error
from remit.effects.file_copy import sha256_of
from remit.effects.plans.database_files import is_marked
from remit.effects.plans.steps import PlanStep, Result, State, StepPlan, StepProgress, ends, final_states, note_undone
from remit.execution.engine import IncompleteError, Note, VerificationFailedError
from remit.fs import openat as beneath
from remit.fs.paths import Located, locate_below
from remit.plans.engines.database_files import require_idle
from remit.plans.model.folders import Parents, look_at_folders, opened, remove_folders, set_aside_name
from remit.plans.model.remote_part import KeptRows
from remit.plans.runtime.runner import PlanRunner, paths_of
from remit.plans.storage.backups import Original
from remit.sandbox.orders import Usage

NOT_AS_BEFORE: Final = "is not as before the run"
_PERMISSIONS: Final = 0o777


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of the steps."""

    status: PlanStatus
    results: tuple[Result, ...]
    verified: bool = False
    """An old file was removed already, in an earlier life: so the world had been looked at, and found right."""
    problem: RemitError | None = None
    """What ended it, where that was no failure of a step alone."""
    warnings: tuple[str, ...] = ()
    used: Usage | None = None
    rows: KeptRows | None = None
    """What it changed on a database server."""

    @property
    def done(self) -> frozenset[int]:
        return frozenset(result.number for result in self.results if result.state == "done")


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The steps of one run, and the files as they were before it."""

    root: str
    plan: StepPlan
    first: Mapping[int, State | None]
    folders: tuple[str, ...] = ()
    """Made for it, parents first."""

    def places(self) -> dict[int, Located]:
        return {number: locate_below(self.root, path) for number, path in enumerate(self.plan.paths)}

    def places_there(self) -> dict[int, Located]:
        """Those whose folder exists: it may not have been made yet, or have been removed again."""
        places = self.places()
        looks = look_at_folders(places.values())
        return {path: place for path, place in places.items() if looks[place.parents].exists}


class FileLook(NamedTuple):
    """A path, as the host finds it. `other` is what no step of a plan leaves: a link, a folder, a second name."""

    state: State | None
    mtime_ns: int = 0
    other: str = ""


def look_at_files(places: Mapping[int, Located], *, hashed: bool = True) -> dict[int, FileLook]:
    """Each path once, each folder opened once. Without `hashed` the states have no hash."""
    by_folder: dict[Parents, list[int]] = {}
    for path, place in places.items():
        by_folder.setdefault(place.parents, []).append(path)
    looks: dict[int, FileLook] = {}
    for parents, paths in by_folder.items():
        first = places[paths[0]]
        try:
            with opened(first.base, parents, where=first.path) as folder:
                looks.update((path, _look(folder, places[path], hashed=hashed)) for path in paths)
        except RefusedError as problem:
            missing = problem.reason is Reason.FILE_MISSING
            looks.update((path, FileLook(None, other="" if missing else problem.what)) for path in paths)
    return looks


def _look(folder: int, place: Located, *, hashed: bool) -> FileLook:
    try:
        if not hashed:
            seen = beneath.look(folder, place.name, where=place.path)
            return FileLook(State("", seen.size, seen.mode & _PERMISSIONS), seen.mtime_ns)
        descriptor = beneath.open_file(folder, place.name, where=place.path)
    except RefusedError as problem:
        return FileLook(None, other="" if problem.reason is Reason.FILE_MISSING else problem.what)
    try:
        found = os.fstat(descriptor)
        state = State(sha256_of(descriptor), found.st_size, found.st_mode & _PERMISSIONS)
    except OSError as problem:
        raise beneath.failure(problem, place.path, "could not be read") from None
    finally:
        os.close(descriptor)
    return FileLook(state, found.st_mtime_ns)


def require_as_planned(
    course: RunPlan, done: Collection[int], originals: Mapping[int, Original], *, hashed: bool
) -> dict[int, FileLook]:
    """Every file that was to change is as the simulation said; and nobody wrote to an old file that was set aside."""
    steps = [step for step in course.plan.steps if step.number in done]
    places = course.places()
    wanted = final_states(course.plan, course.first, frozenset(done))
    looks = look_at_files({path: places[path] for path in sorted(paths_of(steps))}, hashed=hashed)
    for path, look in looks.items():
        if look.other or not _fits(look.state, wanted.get(path), hashed=hashed):
            raise _contradicted(look.other or "the file is not as the plan left it", places[path].path)
    require_untouched_aside(course, done, originals)
    return looks


def _fits(found: State | None, wanted: State | None, *, hashed: bool) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return found.is_alike(wanted) if hashed else (found.size, found.mode) == (wanted.size, wanted.mode)


def require_untouched_aside(course: RunPlan, done: Collection[int], originals: Mapping[int, Original]) -> None:
    """Whoever had an original open may have written to it since: his bytes would go with it. Going back keeps them.

    Told by size and time where they are known, else by what is in it.
    """
    aside, places = _first_asides(course, done), course.places()
    known = {path: place for path, place in aside.items() if path in originals}
    looks = look_at_files(known, hashed=False)
    looks |= look_at_files({path: place for path, place in aside.items() if path not in originals})
    for path, look in looks.items():
        original, before = originals.get(path), course.first.get(path)
        as_kept = look.state is not None and (
            look.state.is_alike(before)
            if original is None
            else (look.state.size, look.mtime_ns) == (original.state.size, original.mtime_ns)
        )
        if not as_kept:
            raise _contradicted("somebody wrote to the old file while it was being replaced", places[path].path)


def require_idle_databases(course: RunPlan, done: Collection[int]) -> None:
    """`VerificationFailedError` if somebody has a database open by now, the new file or the old one: what he writes to
    the one would be lost, or mixed with the other.
    """
    places = course.places()
    for step in course.plan.steps:
        if step.number in done and is_marked(step) and not step.unchanged:
            looked_at = [places[path] for path in paths_of([step])]
            if step.move in {"modify", "delete"}:
                looked_at.append(places[step.path]._replace(name=set_aside_name(course.plan, step)))
            try:
                for place in looked_at:
                    require_idle(place, writes=True)
            except RemitError as problem:
                raise as_contradiction(problem) from problem


def _require_nobody_at_work(course: RunPlan) -> None:
    """Refuses to go back while another program writes to a database as it is left by a step: with the old file in its
    place again, the log of that program would be taken for that of the old one.

    Who has the old file open is better off with its name back.
    """
    places = course.places()
    for step in course.plan.steps:
        if not is_marked(step) or step.unchanged or step.problem is not None:
            continue
        try:
            require_idle(places[step.path], writes=False)
        except EnvironmentFailureError:
            is_old = look_at_files({0: places[step.path]})[0].state == course.first.get(step.path)
            if not is_old and not _is_held(places[step.path]._replace(name=set_aside_name(course.plan, step))):
                raise


def _is_held(place: Located) -> bool:
    try:
        require_idle(place, writes=True)
    except RemitError:
        return True
    return False


def _first_asides(course: RunPlan, done: Collection[int]) -> dict[int, Located]:
    """The files that were there before the first step on them, where they are now."""
    places = course.places()
    touched: set[int] = set()
    aside: dict[int, Located] = {}
    for step in course.plan.steps:
        if step.number not in done or step.unchanged:
            continue
        if step.path not in touched and step.move in {"modify", "delete"}:
            aside[step.path] = places[step.path]._replace(name=set_aside_name(course.plan, step))
        touched |= paths_of([step])
    return aside


def undo_run(course: RunPlan, runner: PlanRunner, progress: StepProgress, note: Note) -> tuple[str, ...]:
    """Everything as it was before. What is not, because somebody else's file is there by now, is said.

    Raises `IncompleteError` if it cannot be done now: nothing is lost, and it can be tried again.
    """
    try:
        left: list[int] = []
        _require_nobody_at_work(course)
        places = course.places_there()
        begun = progress.wave + 1 if progress.undone is None else progress.undone
        for wave in reversed(range(min(begun, len(course.plan.waves)))):
            left += runner.undo(course.plan, places, wave, progress.not_done)
            if wave > 0:
                note(note_undone(wave))
        remove_folders(course.root, course.folders)
        return _require_as_before(course, left, progress.not_done)
    except BaseException as problem:  # an interrupt, too, leaves it half-way
        raise incomplete_error(course, problem) from problem


def _require_as_before(course: RunPlan, left: Collection[int], not_done: Collection[int]) -> tuple[str, ...]:
    steps = [step for step in course.plan.steps if step.problem is None and not step.unchanged]
    places = course.places()
    others: list[str] = []
    for path, look in look_at_files({path: places[path] for path in sorted(paths_of(steps))}).items():
        before = course.first.get(path)
        if not look.other and _fits(look.state, before, hashed=True):
            continue
        # Somebody else may have made the very same of it; what was not done here is nothing to take back.
        ours = [step for step in steps if step.number not in not_done]
        is_of_plan = not look.other and before is not None and _is_of_plan(look.state, path, ours)
        if is_of_plan and not _is_left(path, steps, left):
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "this file is still as the plan made it, and its old content is no longer beside it",
                where=places[path].path,
                next_step="Its backup lies in the report folder: rollback_manifest.json names it.",
            )
        others.append(f"{course.plan.paths[path]} {NOT_AS_BEFORE}: somebody else has changed it, and it stays")
    return tuple(others)


def _is_of_plan(state: State | None, path: int, steps: Sequence[PlanStep]) -> bool:
    made = [ends(step)[path] for step in steps if path in ends(step)]
    return any(_fits(state, one, hashed=True) for one in made)


def _is_left(path: int, steps: Sequence[PlanStep], left: Collection[int]) -> bool:
    return any(step.number in left and path in paths_of([step]) for step in steps)


def as_contradiction(problem: RemitError) -> VerificationFailedError:
    """The same words, for the road: then what was done is undone."""
    return VerificationFailedError(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)


def _contradicted(what: str, where: str) -> VerificationFailedError:
    return VerificationFailedError(
        Reason.HASH_MISMATCH,
        f"the plan was carried out, and then {what}",
        where=where,
        next_step="Find out who else works in this folder, then approve the plan again.",
    )


def incomplete_error(course: RunPlan, problem: BaseException) -> IncompleteError:
    """It is neither whole nor undone. What was noted says how to go on."""
    if isinstance(problem, IncompleteError):
        return problem
    interrupted = EnvironmentFailureError(Reason.EFFECT_FAILED, "it was interrupted")
    told = as_remit_error(problem) if isinstance(problem, Exception) else interrupted
    return IncompleteError(
        Reason.ROLLBACK_FAILED,
        f"what had been done could not be taken back yet: {told.what}",
        where=told.where or course.root,
        next_step=f"{told.next_step or 'Mend what stands in the way.'} Then run: remit recover",
    )
