"""Checks of folders, owners and inherited rights that the host makes itself, before a plan changes anything."""

from collections.abc import Iterable, Mapping

from remit.core.errors import RemitError
from remit.effects.plans.steps import PlanStep, StepPlan
from remit.fs.paths import Located, locate_below
from remit.plans.model.folders import (
    ObservedFolder,
    Parents,
    check_inherited_rights,
    closed_folder_error,
    needed_folders,
    observe_folders,
)
from remit.plans.preview.ownership import find_permission_problems
from remit.plans.runtime.runner import paths_of


def observe_disk(plan: StepPlan, root: str) -> tuple[tuple[str, ...], RemitError | None]:
    """Return the folders that a simulated plan makes as the disk is now, and why a step could not be done there now.

    Refuses a path through a link. Nothing is read from a file: only folders, owners and inherited rights are checked.
    """
    places = {path: locate_below(root, name) for path, name in enumerate(plan.paths)}
    observed = observe_folders(places.values())
    existing = {path: place for path, place in places.items() if observed[place.parents].exists}
    denied = find_permission_problems(plan.steps, existing, preserve_permissions=plan.keep_permissions)
    planned = [step for step in plan.steps if step.problem is None and not step.unchanged]
    found = (find_obstacle(step, observed, places, denied.get(step.number)) for step in planned)
    folders = needed_folders(observed, (places[path] for path in new_paths(plan.steps)))
    return tuple(folders), next((one for one in found if one is not None), None)


def find_obstacle(
    step: PlanStep,
    observed: Mapping[Parents, ObservedFolder],
    places: Mapping[int, Located],
    denied: RemitError | None,
) -> RemitError | None:
    """Return why this step could not be done: a folder without the right to write, an owner, or inherited rights."""
    closed = [places[path] for path in paths_of([step]) if not observed[places[path].parents].writable]
    return closed_folder_error(closed[0]) if closed else denied or check_inherited_rights(step, observed, places)


def new_paths(steps: Iterable[PlanStep]) -> Iterable[int]:
    for step in steps:
        if step.problem is None and step.move == "create":
            yield step.path
        elif step.problem is None and step.new_path is not None:
            yield step.new_path
