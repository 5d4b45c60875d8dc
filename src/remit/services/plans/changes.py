"""Finds the inputs of a proposed plan that changed since. For display only: approve and apply check them again.

This module opens and hashes files, and executes nothing. It does not compare rows on a database server.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.plans.envelope import ApprovedInput, Envelope
from remit.contracts.plans.preview import PlanPreviewDocument
from remit.contracts.services.plans import ChangedSince
from remit.core.errors import RemitError
from remit.core.ids import parse_time
from remit.effects.plans.steps import State
from remit.plans.preparation.pipeline_scratch import describe_changed_folder, folder_digest
from remit.plans.preparation.pipelines import DBT_EXCLUDED
from remit.plans.preparation.prepared import FolderInput
from remit.plans.preparation.remote_sql import is_bound_server
from remit.plans.preview.inputs import input_differences
from remit.plans.storage.backups import state_of
from remit.plans.storage.drift import read_states
from remit.services.base.run_list import project_root
from remit.store.proposals import ProposalRow
from remit.workspace.workspace import Workspace

MAX_REMEMBERED: Final = 1_000
STABLE_AFTER: Final = 2_000_000_000
"""Nanoseconds after which the times of a file distinguish two versions of it, on every file system for Remit."""
_MAX_LISTED: Final = 1_000
_APPROVED: Final = "the plan was approved"
_COMPUTED: Final = "this preview was computed"


class Inputs:
    """The current states of the files that previews were computed from. Safe to use from several threads.

    Each version of a file is hashed once, as far as its times and size distinguish versions.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._hashed: OrderedDict[tuple[int, ...], State] = OrderedDict()

    def changed_since(
        self, workspace: Workspace, row: ProposalRow, document: PlanPreviewDocument, computed_at: str | None = None
    ) -> tuple[ChangedSince, ...]:
        """Return the inputs that changed since the approval of an approved plan, else since its preview.

        `computed_at` is the time of the preview.
        """
        try:
            envelope = Envelope.parse(workspace.proposals.envelope_of(row)) if row.state == "APPROVED" else None
        except RemitError:
            return ()
        before = (envelope or document).inputs
        config_digest = (envelope or document).config_digest
        when = _COMPUTED if envelope is None else _APPROVED
        since = computed_at if envelope is None else envelope.issued_at
        found = list(self._changed_files(workspace, before, document, when, since))
        if config_digest != workspace.config.digest():
            found.append((CONFIG_NAME, f"the configuration was changed since {when}"))
        return tuple(ChangedSince(path=path, how=how) for path, how in found[:_MAX_LISTED])

    def _changed_files(
        self,
        workspace: Workspace,
        before: Sequence[ApprovedInput],
        document: PlanPreviewDocument,
        when: str,
        since: str | None,
    ) -> Iterable[tuple[str, str]]:
        files = {item.path: item for item in before if not is_bound_server(item.path)}
        now: list[ApprovedInput] = []
        problems: list[tuple[str, str]] = []
        root = project_root(workspace)
        for path in (*files, *_paths_to_create(document, files)):
            if (Path(root) / path).is_dir() and path in files:
                if not self._is_same_folder(workspace, files[path], document):
                    at = parse_time(since).timestamp() if since else 0.0
                    how = describe_changed_folder(root, path, workspace.config, when, at) if since else ""
                    problems.append((path, how or f"a file in this folder was changed since {when}"))
                continue
            try:
                state = read_states(root, (path,), self._state_of)[path]
            except RemitError as problem:
                problems.append((path, f"this file cannot be compared with its state when {when}: {problem.what}"))
                continue
            if state is not None:
                mode = f"{state.mode:04o}" if path not in files or files[path].mode is not None else None
                now.append(ApprovedInput.from_tree({"path": path, "digest": state.sha256, "mode": mode}))
            elif path in files:
                problems.append((path, f"this file existed when {when}, and does not exist now"))
        yield from input_differences(before, now, when)
        yield from problems

    def _is_same_folder(self, workspace: Workspace, then: ApprovedInput, document: PlanPreviewDocument) -> bool:
        """Whether a folder that a pipeline reads has the same content as then.

        A folder in which the plan itself writes files is not compared here, because its bound content depends on the
        order of the plan's actions.
        """
        if any(
            path.startswith(f"{then.path}/") for file in document.files for path in (file.path, file.new_path or "")
        ):
            return True
        config, root = workspace.config, project_root(workspace)
        try:
            return any(
                folder_digest(root, then.path, config, scope, lambda file: self._state_of(file).sha256)
                == then.input_digest
                for scope in (FolderInput(frozenset(), frozenset()), FolderInput(DBT_EXCLUDED, frozenset()))
            )
        except (RemitError, OSError):
            return False

    def _state_of(self, descriptor: int) -> State:
        before = os.fstat(descriptor)
        key = _version(before)
        with self._lock:
            if key in self._hashed:
                self._hashed.move_to_end(key)
                return self._hashed[key]
        state = state_of(descriptor)
        if _version(os.fstat(descriptor)) == key and time.time_ns() - before.st_ctime_ns > STABLE_AFTER:
            with self._lock:
                self._hashed[key] = state
                while len(self._hashed) > MAX_REMEMBERED:
                    self._hashed.popitem(last=False)
        return state


def _version(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _paths_to_create(document: PlanPreviewDocument, existing: Iterable[str]) -> list[str]:
    """Return the paths where no file existed and the plan would create one."""
    made = [each.path for each in document.files if each.operation == "CREATE"]
    made += [each.new_path for each in document.files if each.new_path is not None]
    return [path for path in dict.fromkeys(made) if path not in set(existing)]
