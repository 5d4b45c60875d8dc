"""The versions of files during a preview: what the last action left is what the next one finds.

A database is copied when an action needs it first. Several actions on it work on the result of the action before. The
result of an action is hashed, opened and unlinked. It is then a *prepared file*, which has no name any more.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.envelope import ApprovedInput
from remit.contracts.plans.plan import Plan
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.effects.plans.database_files import LOG
from remit.effects.plans.files import mismatch
from remit.effects.plans.handlers import HANDLERS
from remit.effects.plans.steps import PlanStep, State, StepPlan
from remit.fs.paths import Located, locate_below
from remit.plans.engines.database_files import (
    OpenCopy,
    WorkFolder,
    backup_too_large_error,
    clone,
    copy_database,
    detach_file,
)
from remit.plans.engines.input_files import folder_is_missing
from remit.plans.preparation.prepared import Engines, PreparedAll
from remit.plans.runtime.runner import StepTimes

FATAL_REASONS: Final = frozenset(
    {
        Reason.CANCELLED,
        Reason.SANDBOX_UNAVAILABLE,
        Reason.CAPABILITY_UNSUPPORTED,
        Reason.STATE_UNSAFE,
        Reason.DISK_FULL,
        Reason.MISUSE,
        Reason.INTERNAL,
    }
)
"""The reasons that do not concern one action. With one of them there is no preview at all."""


class DraftedPlan(NamedTuple):
    """A plan with its steps, its places and its configuration."""

    steps: StepPlan
    places: Mapping[int, Located]
    config: SystemConfig
    root: str
    plan: Plan


class WorkingCopy:
    """The current version of one database during a preview: the file that the next action works on, and its state."""

    def __init__(self, place: Located, path: Path, most: int) -> None:
        self.place = place
        self.path = path
        """The path of the copy, in its own folder. The file may not exist yet."""
        self.state: State | None = None
        """None if there is no such database, or not yet."""
        self.output: int | None = None
        """The prepared file of the last action that changed it. It stays as it is: the next action changes a copy."""
        self._most = most

    @property
    def alias(self) -> str:
        """The name that the engine itself would give a database in a file of this name."""
        return self.place.name.partition(".")[0] or "database"

    def begin(self, check_cancelled: Callable[[], None]) -> None:
        if not folder_is_missing(self.place):
            self.state = copy_database(self.place, self.path, self._most, check_cancelled)

    def ensure_file(self, check_cancelled: Callable[[], None]) -> None:
        """Make a copy that an action can change. Does nothing if there is no such database."""
        if self.path.exists() or self.state is None:
            return
        if self.output is not None:
            clone(self.output, self.path, check_cancelled)
        elif copy_database(self.place, self.path, self._most, check_cancelled) != self.state:
            raise mismatch("another process changed the database during the preview", self.place.path)

    def discard_work(self) -> None:
        """Remove the unfinished work on the copy. The next action starts from the version before it."""
        for path in (self.path, self.path.with_name(self.path.name + LOG)):
            path.unlink(missing_ok=True)


class PreparationContext:
    """The state that all actions of one preview share."""

    def __init__(
        self, drafted_plan: DraftedPlan, engines: Engines, times: StepTimes, folder: WorkFolder, prepared: PreparedAll
    ) -> None:
        self.drafted_plan, self.engines, self.folder, self.prepared = drafted_plan, engines, folder, prepared
        self.config, self.root, self.engine = drafted_plan.config, drafted_plan.root, engines.engine
        self.inputs: dict[str, ApprovedInput] = {}
        """The files that are only read and that the approval binds, by path."""
        self.outputs: dict[str, OpenCopy] = {}
        """The files, except databases, that an action has left, by path."""
        self.done = self.total = 0
        self._times, self._deadline = times, time.monotonic() + (times.seconds or float(self.config.timeouts.task))
        self._working_copies: dict[str, WorkingCopy] = {}
        self._numbers = itertools.count()
        self._problems: dict[int, str] = {}
        """The steps that cannot be done, with the ids of their actions."""

    def report_progress(self, what: str = "") -> None:
        self.engines.on_progress(self.done, self.total, what)

    def seconds_for(self, step: PlanStep) -> float:
        """Return the time that is left for an action. Raises TIMED_OUT if none is left."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise EnvironmentFailureError(
                Reason.TIMED_OUT,
                "the actions before it used all the time of the plan",
                next_step="Give it less to do, or more time: `timeout_seconds` of the plan, or timeouts.task.",
            )
        return min(self._times.paces[step.number], left)

    def require_needed(self, step: PlanStep) -> None:
        """Raise DEPENDENCY_FAILED if an action that this one needs cannot be done."""
        for number in step.needs:
            if number in self._problems:
                action_id = self._problems[number]
                raise RefusedError(
                    Reason.DEPENDENCY_FAILED,
                    f"this action needs {action_id}, which cannot be done",
                    where=self.drafted_plan.steps.paths[step.path],
                    next_step=f"Fix {action_id} first.",
                )

    def remember_problem(self, step: PlanStep) -> None:
        self._problems[step.number] = step.action_id

    # --- databases

    def working_copy(self, name: str) -> WorkingCopy:
        """Return the working copy of the database at this path. The first call copies the database."""
        if name not in self._working_copies:
            folder = self.folder.folder(f"database-{next(self._numbers)}")
            working_copy = WorkingCopy(
                locate_below(self.root, name), folder / "database", self.config.limits.max_backup_bytes
            )
            working_copy.begin(self.engine.require_not_cancelled)
            self._working_copies[name] = working_copy
            if working_copy.state is not None:
                # If an action changes it, the approval binds it as a path of the plan instead.
                self.bind(name, working_copy.state.sha256)
        return self._working_copies[name]

    def find_working_copy(self, name: str) -> WorkingCopy | None:
        """Return the working copy of the database at this path, if there is one."""
        return self._working_copies.get(name)

    def find_state(self, name: str) -> State | None:
        """Return the state of a database, if it was read."""
        return self._working_copies[name].state if name in self._working_copies else None

    def detach_database(self, step: PlanStep, working_copy: WorkingCopy) -> OpenCopy:
        if working_copy.path.with_name(working_copy.path.name + LOG).exists():
            raise EnvironmentFailureError(
                Reason.EFFECT_FAILED,
                "the engine did not write all changes to the database",
                where=working_copy.place.path,
                next_step="This is a bug in Remit. Nothing was changed.",
            )
        most, mode = self.config.limits.max_backup_bytes, self.mode(step, working_copy.state)
        detached = detach_file(
            working_copy.path, mode, most, where=working_copy.place.path, too_large=backup_too_large_error
        )
        self.prepared.descriptors[source_of(step)] = detached.descriptor
        return detached

    # --- shared by all actions

    def bind(self, path: str, digest: str) -> None:
        self.inputs[path] = ApprovedInput.from_tree({"path": path, "digest": digest})

    def mode(self, step: PlanStep, before: State | None) -> int:
        """Return the mode of the file that the step leaves."""
        old = before.mode if before is not None else None
        return HANDLERS[step.action_type].mode(old, {}, keep_permissions=self.drafted_plan.steps.keep_permissions)


def source_of(step: PlanStep) -> str:
    return f"prepared-{step.number}"


def changed_step(step: PlanStep, before: State | None, after: State) -> PlanStep:
    """Return the step with its states, and with a source for its bytes if they changed."""
    step = step._replace(move="create" if before is None else "modify", before=before, after=after)
    if after.is_alike(before):
        return step._replace(unchanged=True)
    return step._replace(source=source_of(step))
