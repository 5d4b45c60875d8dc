"""Compares the inputs of a stored preview with the files as they are now. Opens and hashes files; executes nothing.

Rows on a database server are not compared here. The run compares them before COMMIT.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from remit.contracts.config.config import CONFIG_NAME, SystemConfig
from remit.contracts.plans.envelope import ApprovedInput
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import parse_time
from remit.effects.plans.steps import State
from remit.fs import openat as beneath
from remit.fs.paths import locate_below
from remit.plans.model.folders import Parents, opened
from remit.plans.policy.pipelines import database_files
from remit.plans.preparation.pipeline_scratch import describe_changed_folder, folder_digest
from remit.plans.preparation.remote_sql import is_bound_server
from remit.plans.preview.planned_effect import PlannedEffect
from remit.plans.runtime.runner import paths_of
from remit.plans.storage.backups import state_of

RESTORE_FILE: Final = (
    "Restore it to its approved state and apply again. Or preview the plan again with `remit preview` and approve it"
    " again."
)
StateOf = Callable[[int], State]
_MISSING: Final = Reason.FILE_MISSING.value


class ChangedInput(NamedTuple):
    """An input that is not as it was when the preview was computed, and how it differs."""

    path: str
    how: str
    is_missing: bool = False
    """Whether the file does not exist any more."""
    problem: RemitError | None = None
    """Why it could not be compared, such as a link in its path."""


def find_changed_input(
    planned: PlannedEffect, root: str, config: SystemConfig, when: str, since: str, state_of_open: StateOf = state_of
) -> ChangedInput | None:
    """Return the first input that differs now, or None. `when` and `since` name the time of the comparison.

    Files come first, because a path helps more than a digest of the configuration.
    """
    for changed in _changed_inputs(planned, root, config, when, since, state_of_open):
        return changed
    if planned.config_digest != config.digest():
        return ChangedInput(CONFIG_NAME, f"the configuration was changed since {when}")
    return None


def changed_input_error(changed: ChangedInput) -> RefusedError:
    """Return the refusal of an approval whose input is not as it was approved."""
    if isinstance(changed.problem, RefusedError) and changed.problem.reason is Reason.PATH_REFUSED:
        return changed.problem
    return RefusedError(Reason.BINDING_MISMATCH, changed.how, where=changed.path, next_step=RESTORE_FILE)


def input_differences(
    before: Iterable[ApprovedInput], now: Iterable[ApprovedInput], when: str
) -> Iterator[tuple[str, str]]:
    """Yield each path of `now` that differs from `before`, and how it differs. `when` names the time of `before`."""
    known = {item.path: item for item in before}
    for item in sorted(now, key=lambda item: is_bound_server(item.path)):  # files first: they help more than a digest
        if how := _how_it_differs(known.get(item.path), item, when):
            yield item.path, how


# --- inside ----------------------------------------------------------------------------------------------------------


def _changed_inputs(
    planned: PlannedEffect, root: str, config: SystemConfig, when: str, since: str, state_of_open: StateOf
) -> Iterator[ChangedInput]:
    inputs = {item.path: item for item in planned.inputs if not is_bound_server(item.path)}
    # A step that was not tried, because another one failed, says nothing about its file.
    tried = [step for step in planned.steps.steps if step.problem is None or step.problem["reason"] == _MISSING]
    touched = {planned.steps.paths[path] for path in paths_of(tried)}
    files = [path for path in dict.fromkeys((*touched, *inputs)) if path not in planned.folder_inputs]
    for path, found in _read_states(root, sorted(files), state_of_open):
        approved = inputs.get(path)
        if isinstance(found, RemitError):
            how = f"this file cannot be compared with its state when {when}: {found.what}"
            yield ChangedInput(path, how, problem=found)
        elif found is None and approved is not None:
            yield ChangedInput(path, f"this file existed when {when}, and does not exist now", is_missing=True)
        elif found is not None:
            mode = f"{found.mode:04o}" if approved is None or approved.mode is not None else None
            item = ApprovedInput.model_construct(path=path, input_digest=found.sha256, mode=mode)
            if how := _how_it_differs(approved, item, when):
                yield ChangedInput(path, how)
    yield from _changed_folders(planned, root, config, when, since, state_of_open)


def _changed_folders(
    planned: PlannedEffect, root: str, config: SystemConfig, when: str, since: str, state_of_open: StateOf
) -> Iterator[ChangedInput]:
    bound = {item.path: item for item in planned.inputs}
    for path, scope in planned.folder_inputs.items():
        # A database in the folder is bound by itself. One that did not exist then is bound by nothing.
        inside = {name for name in database_files(config) if name.startswith(f"{path}/")}
        for name, found in _read_states(root, sorted(inside - bound.keys() - scope.made), state_of_open):
            if found is not None:
                yield ChangedInput(name, f"this file did not exist when {when}")
        try:
            digest = folder_digest(root, path, config, scope, lambda file: state_of_open(file).sha256)
        except (RemitError, OSError) as problem:
            yield ChangedInput(path, f"this folder cannot be compared with its state when {when}: {problem}")
            continue
        if path not in bound or bound[path].input_digest != digest:
            yield ChangedInput(path, describe_changed_folder(root, path, config, when, parse_time(since).timestamp()))


def _read_states(
    root: str, paths: Iterable[str], state_of_open: StateOf
) -> Iterator[tuple[str, State | RemitError | None]]:
    """Yield the state of each path. Opens each folder once."""
    by_folder: dict[Parents, list[tuple[str, str]]] = {}
    for path in paths:
        place = locate_below(root, path)
        by_folder.setdefault(place.parents, []).append((path, place.name))
    for parents, names in by_folder.items():
        try:
            with opened(root, parents, where=names[0][0]) as folder:
                for path, name in names:
                    yield path, _read_state(folder, name, path, state_of_open)
        except RefusedError as problem:
            is_missing = problem.reason is Reason.FILE_MISSING
            yield from ((path, None if is_missing else problem) for path, _ in names)


def _read_state(folder: int, name: str, path: str, state_of_open: StateOf) -> State | RemitError | None:
    try:
        if beneath.peek(folder, name, where=path) is None:
            return None
        descriptor = beneath.open_file(folder, name, where=path)
        try:
            return state_of_open(descriptor)
        except OSError as problem:
            return beneath.failure(problem, path, "could not be read")
        finally:
            os.close(descriptor)
    except RemitError as problem:
        return problem


def _how_it_differs(approved: ApprovedInput | None, found: ApprovedInput, when: str) -> str:
    """Return the difference as text, or an empty text."""
    if is_bound_server(found.path) and (approved is None or approved.input_digest != found.input_digest):
        return "the rows that this plan would change are not those that were approved"
    if approved is None:
        return f"this file did not exist when {when}"
    if approved.input_digest != found.input_digest:
        return f"this file was changed since {when}"
    if approved.mode != found.mode:
        then = f"they were {approved.mode}" if approved.mode else "they were not recorded"
        return f"the permissions of this file are {found.mode}; when {when}, {then}"
    return ""
