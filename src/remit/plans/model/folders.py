"""The changes that the host itself makes for a plan: it makes and removes folders, and removes old files.

Each is a fixed operation on descriptors opened beneath the root. The host reads no content of a file for it. The
sandboxed process does not make folders, because a process that may make a folder may write everything below it.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.faultpoints import reach
from remit.effects.plans.files import inherited_rights_error
from remit.effects.plans.steps import PlanStep, StepPlan, aside_name, part_name
from remit.fs import openat as beneath
from remit.fs.overlapped import overlap
from remit.fs.paths import Located

Parents = tuple[str, ...]


class ObservedFolder(NamedTuple):
    """The state of a folder of the plan's paths before the run."""

    exists: bool
    writable: bool
    """For a folder that does not exist: whether it can be made."""
    missing: tuple[Parents, ...] = ()
    """The folders to make before the folder can hold files, parents first."""
    has_default_acl: bool = False
    """A default ACL applies to new entries in it. A folder that does not exist would inherit one from its parent."""


@contextmanager
def opened(root: str, parents: Parents, *, where: str = "") -> Iterator[int]:
    """Open the folder beneath the root, for reading and syncing."""
    base = beneath.open_base(root)
    try:
        folder = beneath.open_folder(base, parents, where=where)
    finally:
        os.close(base)
    try:
        yield folder
    finally:
        os.close(folder)


def observe_folders(places: Iterable[Located]) -> dict[Parents, ObservedFolder]:
    """Observe each folder once. Refuses a path in which a component is a link, a mount point, or not a folder."""
    observed: dict[Parents, ObservedFolder] = {}
    for place in places:
        if place.parents not in observed:
            observed[place.parents] = _observe(place)
    return observed


def _observe(place: Located) -> ObservedFolder:
    missing: list[Parents] = []
    for depth in range(len(place.parents), -1, -1):
        parents = place.parents[:depth]
        try:
            with opened(place.base, parents, where=place.path) as folder:
                return ObservedFolder(
                    not missing,
                    beneath.is_writable(folder),
                    tuple(reversed(missing)),
                    beneath.has_default_acl(folder),
                )
        except RefusedError as problem:
            if problem.reason is not Reason.FILE_MISSING or not parents:
                raise
            missing.append(parents)
    raise AssertionError("the root itself was observed last")


def make_folders(root: str, folders: Sequence[str]) -> None:
    """Make the folders, which list parents first. A folder may already exist. Durable when this returns."""
    for parents, names in _by_parents(folders).items():
        with opened(root, parents) as folder:
            if beneath.has_default_acl(folder):  # set since the preview
                raise inherited_rights_error("/".join((*parents, names[0])))
            for name in names:
                beneath.make_folder(folder, name, where="/".join((*parents, name)))
            sync_folder(folder, "/".join(parents) or ".")
    if folders:
        reach("plan.folders_made")


def remove_folders(root: str, folders: Sequence[str]) -> None:
    """Remove those of the folders that are empty, the deepest first. A folder that holds files stays."""
    grouped = _by_parents(folders)
    for parents in reversed(grouped):
        try:
            with opened(root, parents) as folder:
                for name in grouped[parents]:
                    beneath.remove_folder(folder, name, where="/".join((*parents, name)))
                sync_folder(folder, "/".join(parents) or ".")
        except RefusedError as problem:
            if problem.reason is not Reason.FILE_MISSING:
                raise
    if folders:
        reach("plan.folders_removed")


def remove_set_aside(root: str, places: Mapping[int, Located], plan: StepPlan) -> None:
    """Remove the old files that an undo needs, by their temporary names, and make that durable.

    A missing folder holds none. A rollback removes the folders that the plan made, and may be interrupted directly
    after.
    """
    for parents, names in _set_aside_names(places, plan).items():
        try:
            with opened(root, parents) as folder:
                overlap(partial(_unlink, folder), names)
                sync_folder(folder, "/".join(parents) or ".")
        except RefusedError as problem:
            if problem.reason is not Reason.FILE_MISSING:
                raise
    reach("plan.cleared")


def sync_folders(root: str, places: Iterable[Located]) -> None:
    """Sync the folder of each place, once."""
    for parents in dict.fromkeys(place.parents for place in places):
        with opened(root, parents) as folder:
            sync_folder(folder, "/".join(parents) or ".")


def set_aside_name(plan: StepPlan, step: PlanStep) -> str:
    """Return the temporary name of the old file of a modification or a deletion."""
    return (part_name if step.move == "modify" else aside_name)(plan.prefix, step.number)


def sets_aside(plan: StepPlan) -> bool:
    """Whether the plan leaves old files to remove."""
    return any(step.move in {"modify", "delete"} and not step.unchanged for step in plan.steps)


def _set_aside_names(places: Mapping[int, Located], plan: StepPlan) -> dict[Parents, list[str]]:
    by_folder: dict[Parents, list[str]] = {}
    for step in plan.steps:
        if step.move in {"modify", "delete"} and not step.unchanged and step.problem is None:
            by_folder.setdefault(places[step.path].parents, []).append(set_aside_name(plan, step))
    return by_folder


def _unlink(folder: int, name: str) -> None:
    found = beneath.peek(folder, name)
    if found is None or not stat.S_ISREG(found.mode):
        return
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError as problem:
        raise beneath.failure(problem, name, "could not be removed") from None
    reach("plan.cleared_one")


def sync_folder(folder: int, where: str) -> None:
    try:
        os.fsync(folder)
    except OSError as problem:
        raise beneath.failure(problem, where, "could not be made durable") from None


def needed_folders(observed: Mapping[Parents, ObservedFolder], places: Iterable[Located]) -> tuple[str, ...]:
    """Return every folder that must be made before files can be in these places, parents first, each once."""
    wanted = {parents: None for place in places for parents in observed[place.parents].missing}
    return tuple("/".join(parents) for parents in sorted(wanted, key=lambda parents: (len(parents), parents)))


def closed_folder_error(place: Located) -> RemitError:
    return EnvironmentFailureError(
        Reason.PERMISSION_DENIED,
        "files cannot be created or removed in this folder",
        where=place.path,
        next_step="Check who owns the folder and what its mode allows; Remit acts as the user it runs as.",
    )


def check_inherited_rights(
    step: PlanStep, observed: Mapping[Parents, ObservedFolder], places: Mapping[int, Located]
) -> RemitError | None:
    """Return the error of a step whose new file or folder would inherit access rights from a default ACL, or None."""
    place = places[step.path if step.new_path is None else step.new_path]
    folder = observed[place.parents]
    makes = step.move in {"create", "modify"} or (step.move == "rename" and folder.missing)
    return inherited_rights_error(place.path) if makes and folder.has_default_acl else None


def _by_parents(folders: Sequence[str]) -> dict[Parents, list[str]]:
    grouped: dict[Parents, list[str]] = {}
    for path in sorted(folders, key=lambda path: (path.count("/"), path)):
        *parents, name = path.split("/")
        grouped.setdefault(tuple(parents), []).append(name)
    return grouped
