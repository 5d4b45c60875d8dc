"""Finds steps that the file system would refuse because a file belongs to another user, before the plan runs."""

import os
import stat
from collections.abc import Mapping, Sequence

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.effects.plans.steps import PlanStep
from remit.fs import openat as beneath
from remit.fs.paths import Located
from remit.plans.model.folders import opened


def find_permission_problems(
    steps: Sequence[PlanStep], existing: Mapping[int, Located], *, preserve_permissions: bool
) -> dict[int, RemitError]:
    """Return the problems by the number of the step.

    `existing` are the paths whose folder exists. `preserve_permissions` is the setting. This checks only the first step
    on a path: a file that a step leaves belongs to the user who runs Remit. No problem found is no guarantee.
    """
    if os.geteuid() == 0:
        return {}
    found: dict[int, RemitError] = {}
    touched: set[int] = set()
    for step in steps:
        if step.path in existing and step.path not in touched and step.move != "create":
            problem = _check_ownership(step, existing[step.path], preserve_permissions=preserve_permissions)
            if problem is not None:
                found[step.number] = problem
        touched |= {step.path} if step.new_path is None else {step.path, step.new_path}
    return found


def _check_ownership(step: PlanStep, place: Located, *, preserve_permissions: bool) -> RemitError | None:
    with opened(place.base, place.parents, where=place.path) as folder:
        file, around = beneath.peek(folder, place.name, where=place.path), os.fstat(folder)
    user = os.geteuid()
    if file is None:
        return None
    if around.st_mode & stat.S_ISVTX and user not in {file.uid, around.st_uid}:
        return _denied_error("this folder is sticky, so only the owner of the file may replace or rename it", place)
    groups = {os.getegid(), *os.getgroups()}
    if step.move == "modify" and preserve_permissions and (file.uid != user or file.gid not in groups):
        return _denied_error("the owner of this file cannot be preserved: the new file would belong to you", place)
    return None


def _denied_error(what: str, place: Located) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.PERMISSION_DENIED,
        what,
        where=place.path,
        next_step="Run Remit as the owner of the file; or set preserve_permissions to false to own the new file.",
    )
