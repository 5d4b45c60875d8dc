"""Undo of a partially executed plan or rollback, and verification of file states by the host.

An undo only renames files, wave by wave, the last wave first. It can be interrupted at any point and resumed.
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
from remit.plans.model.folders import Parents, observe_folders, opened, remove_folders, set_aside_name
from remit.plans.model.remote_part import RowBackup
from remit.plans.runtime.runner import PlanRunner, paths_of
from remit.plans.storage.backups import Original
from remit.sandbox.orders import Usage

NOT_RESTORED: Final = "is not as before the run"
_PERMISSIONS: Final = 0o777


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of the steps of a run."""

    status: PlanStatus
    results: tuple[Result, ...]
    verified: bool = False
    """Verification already succeeded in an earlier process, which then began to remove old files."""
    problem: RemitError | None = None
    """The error that ended the run, unless only a step failed."""
    warnings: tuple[str, ...] = ()
    used: Usage | None = None
    rows: RowBackup | None = None
    """The row changes on a database server, and their before-images."""

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
    """Folders made for the run, parents first."""

    def places(self) -> dict[int, Located]:
        return {number: locate_below(self.root, path) for number, path in enumerate(self.plan.paths)}

    def existing_places(self) -> dict[int, Located]:
        """Return the places whose folder exists. A folder may not be made yet, or may be removed again."""
        places = self.places()
        observed = observe_folders(places.values())
        return {path: place for path, place in places.items() if observed[place.parents].exists}


class ObservedFile(NamedTuple):
    """The state of a path as the host finds it. `other` names what no step leaves: a link, a folder, a second name."""

    state: State | None
    mtime_ns: int = 0
    other: str = ""


def observe_files(places: Mapping[int, Located], *, hashed: bool = True) -> dict[int, ObservedFile]:
    """Observe each path once, and open each folder once. Without `hashed` the states have no hash."""
    by_folder: dict[Parents, list[int]] = {}
    for path, place in places.items():
        by_folder.setdefault(place.parents, []).append(path)
    observed: dict[int, ObservedFile] = {}
    for parents, paths in by_folder.items():
        first = places[paths[0]]
        try:
            with opened(first.base, parents, where=first.path) as folder:
                observed.update((path, _observe(folder, places[path], hashed=hashed)) for path in paths)
        except RefusedError as problem:
            missing = problem.reason is Reason.FILE_MISSING
            observed.update((path, ObservedFile(None, other="" if missing else problem.what)) for path in paths)
    return observed


def _observe(folder: int, place: Located, *, hashed: bool) -> ObservedFile:
    try:
        if not hashed:
            identity = beneath.inspect_file(folder, place.name, where=place.path)
            return ObservedFile(State("", identity.size, identity.mode & _PERMISSIONS), identity.mtime_ns)
        descriptor = beneath.open_file(folder, place.name, where=place.path)
    except RefusedError as problem:
        return ObservedFile(None, other="" if problem.reason is Reason.FILE_MISSING else problem.what)
    try:
        found = os.fstat(descriptor)
        state = State(sha256_of(descriptor), found.st_size, found.st_mode & _PERMISSIONS)
    except OSError as problem:
        raise beneath.failure(problem, place.path, "could not be read") from None
    finally:
        os.close(descriptor)
    return ObservedFile(state, found.st_mtime_ns)


def require_as_planned(
    run: RunPlan, done: Collection[int], originals: Mapping[int, Original], *, hashed: bool
) -> dict[int, ObservedFile]:
    """Require every changed file to be as the simulation predicted, and every file set aside to be unchanged."""
    steps = [step for step in run.plan.steps if step.number in done]
    places = run.places()
    wanted = final_states(run.plan, run.first, frozenset(done))
    observed = observe_files({path: places[path] for path in sorted(paths_of(steps))}, hashed=hashed)
    for path, file in observed.items():
        if file.other or not _matches(file.state, wanted.get(path), hashed=hashed):
            raise _verification_error(file.other or "the file is not as the plan left it", places[path].path)
    require_originals_unchanged(run, done, originals)
    return observed


def _matches(found: State | None, wanted: State | None, *, hashed: bool) -> bool:
    if found is None or wanted is None:
        return found is wanted
    return found.is_alike(wanted) if hashed else (found.size, found.mode) == (wanted.size, wanted.mode)


def require_originals_unchanged(run: RunPlan, done: Collection[int], originals: Mapping[int, Original]) -> None:
    """Raise `VerificationFailedError` if a file that was set aside has changed.

    Another process that had the original open may have written to it. Removing the file would lose these bytes; an undo
    keeps them. A file with a backup is compared by size and time, any other by its hash.
    """
    set_aside, places = _set_aside_files(run, done), run.places()
    with_backup = {path: place for path, place in set_aside.items() if path in originals}
    observed = observe_files(with_backup, hashed=False)
    observed |= observe_files({path: place for path, place in set_aside.items() if path not in originals})
    for path, file in observed.items():
        original, before = originals.get(path), run.first.get(path)
        is_unchanged = file.state is not None and (
            file.state.is_alike(before)
            if original is None
            else (file.state.size, file.mtime_ns) == (original.state.size, original.mtime_ns)
        )
        if not is_unchanged:
            raise _verification_error("another process wrote to the old file while it was replaced", places[path].path)


def require_idle_databases(run: RunPlan, done: Collection[int]) -> None:
    """Raise `VerificationFailedError` if another process has a new or an old database file open.

    Its writes to one of the files would be lost, or mixed with the other file.
    """
    places = run.places()
    for step in run.plan.steps:
        if step.number in done and is_marked(step) and not step.unchanged:
            checked = [places[path] for path in paths_of([step])]
            if step.move in {"modify", "delete"}:
                checked.append(places[step.path]._replace(name=set_aside_name(run.plan, step)))
            try:
                for place in checked:
                    require_idle(place, writes=True)
            except RemitError as problem:
                raise as_verification_error(problem) from problem


def _require_no_writers(run: RunPlan) -> None:
    """Refuse an undo while another program writes to a database that a step left.

    The undo puts the old file in its place again. SQLite and DuckDB would then take the log of that program for the log
    of the old file. A program that has the old file open is allowed: the undo restores the name of its file.
    """
    places = run.places()
    for step in run.plan.steps:
        if not is_marked(step) or step.unchanged or step.problem is not None:
            continue
        try:
            require_idle(places[step.path], writes=False)
        except EnvironmentFailureError:
            is_old = observe_files({0: places[step.path]})[0].state == run.first.get(step.path)
            if not is_old and not _is_in_use(places[step.path]._replace(name=set_aside_name(run.plan, step))):
                raise


def _is_in_use(place: Located) -> bool:
    try:
        require_idle(place, writes=True)
    except RemitError:
        return True
    return False


def _set_aside_files(run: RunPlan, done: Collection[int]) -> dict[int, Located]:
    """Return where the files are now that existed before the first step on them."""
    places = run.places()
    touched: set[int] = set()
    set_aside: dict[int, Located] = {}
    for step in run.plan.steps:
        if step.number not in done or step.unchanged:
            continue
        if step.path not in touched and step.move in {"modify", "delete"}:
            set_aside[step.path] = places[step.path]._replace(name=set_aside_name(run.plan, step))
        touched |= paths_of([step])
    return set_aside


def undo_run(run: RunPlan, runner: PlanRunner, progress: StepProgress, note: Note) -> tuple[str, ...]:
    """Undo the started waves. Return a line for each file that is not restored because another process changed it.

    Raises `IncompleteError` if the undo does not complete now. No data is lost, and the undo can be tried again.
    """
    try:
        left: list[int] = []
        _require_no_writers(run)
        places = run.existing_places()
        started_waves = progress.wave + 1 if progress.undone is None else progress.undone
        for wave in reversed(range(min(started_waves, len(run.plan.waves)))):
            left += runner.undo(run.plan, places, wave, progress.not_done)
            if wave > 0:
                note(note_undone(wave))
        remove_folders(run.root, run.folders)
        return _find_unrestored(run, left, progress.not_done)
    except BaseException as problem:  # an interrupt also leaves the undo incomplete
        raise incomplete_error(run, problem) from problem


def _find_unrestored(run: RunPlan, left: Collection[int], not_done: Collection[int]) -> tuple[str, ...]:
    steps = [step for step in run.plan.steps if step.problem is None and not step.unchanged]
    places = run.places()
    unrestored: list[str] = []
    for path, file in observe_files({path: places[path] for path in sorted(paths_of(steps))}).items():
        before = run.first.get(path)
        if not file.other and _matches(file.state, before, hashed=True):
            continue
        # Another process may have made the same change. A step that was not done here has nothing to undo.
        ours = [step for step in steps if step.number not in not_done]
        is_of_plan = not file.other and before is not None and _is_of_plan(file.state, path, ours)
        if is_of_plan and not _is_left(path, steps, left):
            raise EnvironmentFailureError(
                Reason.ROLLBACK_FAILED,
                "this file is still as the plan left it, and its old content is no longer beside it",
                where=places[path].path,
                next_step="Restore it from its backup in the report folder, which rollback_manifest.json names.",
            )
        unrestored.append(f"{run.plan.paths[path]} {NOT_RESTORED}: another process changed it, so it was kept")
    return tuple(unrestored)


def _is_of_plan(state: State | None, path: int, steps: Sequence[PlanStep]) -> bool:
    made = [ends(step)[path] for step in steps if path in ends(step)]
    return any(_matches(state, one, hashed=True) for one in made)


def _is_left(path: int, steps: Sequence[PlanStep], left: Collection[int]) -> bool:
    return any(step.number in left and path in paths_of([step]) for step in steps)


def as_verification_error(problem: RemitError) -> VerificationFailedError:
    """Return the problem as an error of verification, so that the engine undoes the effect."""
    return VerificationFailedError(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)


def _verification_error(what: str, where: str) -> VerificationFailedError:
    return VerificationFailedError(
        Reason.HASH_MISMATCH,
        f"the plan was carried out, and then {what}",
        where=where,
        next_step="Find out who else works in this folder, then approve the plan again.",
    )


def incomplete_error(run: RunPlan, problem: BaseException) -> IncompleteError:
    """Return the error of a run that is neither complete nor undone. Its notes say how to go on."""
    if isinstance(problem, IncompleteError):
        return problem
    interrupted = EnvironmentFailureError(Reason.EFFECT_FAILED, "the process was interrupted")
    error = as_remit_error(problem) if isinstance(problem, Exception) else interrupted
    return IncompleteError(
        Reason.ROLLBACK_FAILED,
        f"the undo is not complete: {error.what}",
        where=error.where or run.root,
        next_step=f"{error.next_step or 'Fix the cause.'} Then run: remit recover",
    )
