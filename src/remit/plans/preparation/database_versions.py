"""Files on their way through a plan: what the next action that is tried out finds, and what the last one left.

A database is copied when it is asked for first, and several actions on it work on what the one before left. What an
action leaves is hashed, opened and unlinked: a *prepared file*, which no name leads to any more.
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
from remit.plans.engines.database_files import OpenCopy, WorkFolder, clone, copy_database, keep, too_large_to_keep
from remit.plans.engines.input_files import folder_is_missing
from remit.plans.preparation.prepared import Engines, PreparedAll
from remit.plans.runtime.runner import StepTimes

NOT_THE_ACTIONS: Final = frozenset(
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
"""What says nothing of one action: then there is no preview at all."""


class Ground(NamedTuple):
    """What a plan is about, and where."""

    drafted: StepPlan
    places: Mapping[int, Located]
    config: SystemConfig
    root: str
    plan: Plan


class WorkingCopy:
    """One database on its way through the plan: the file that the next action works on, and what it is."""

    def __init__(self, place: Located, path: Path, most: int) -> None:
        self.place = place
        self.path = path
        """Where a copy is, or is to be, in a folder of its own."""
        self.state: State | None = None
        """None: there is no such database, or not yet."""
        self.left: int | None = None
        """What the last action that changed it left. Others rely on it, so it is copied before it is changed again."""
        self._most = most

    @property
    def alias(self) -> str:
        """As the engine itself would call a database in a file of this name."""
        return self.place.name.partition(".")[0] or "database"

    def begin(self, look: Callable[[], None]) -> None:
        if not folder_is_missing(self.place):
            self.state = copy_database(self.place, self.path, self._most, look)

    def ensure_file(self, look: Callable[[], None]) -> None:
        """A copy that can be worked on. None is made of what is not there."""
        if self.path.exists() or self.state is None:
            return
        if self.left is not None:
            clone(self.left, self.path, look)
        elif copy_database(self.place, self.path, self._most, look) != self.state:
            raise mismatch("somebody changed the database since the plan was looked at", self.place.path)

    def forget_work(self) -> None:
        """What was half done on the copy: the next action starts from what was there before."""
        for path in (self.path, self.path.with_name(self.path.name + LOG)):
            path.unlink(missing_ok=True)


class PreparationContext:
    """What all actions of one plan that are tried out have in common."""

    def __init__(
        self, ground: Ground, engines: Engines, times: StepTimes, folder: WorkFolder, prepared: PreparedAll
    ) -> None:
        self.ground, self.engines, self.folder, self.prepared = ground, engines, folder, prepared
        self.config, self.root, self.engine = ground.config, ground.root, engines.engine
        self.inputs: dict[str, ApprovedInput] = {}
        """What the approval binds of what is only read, by path."""
        self.left: dict[str, OpenCopy] = {}
        """Other files than databases that an action has left, by path."""
        self.done = self.total = 0
        self._times, self._deadline = times, time.monotonic() + (times.seconds or float(self.config.timeouts.task))
        self._lineages: dict[str, WorkingCopy] = {}
        self._numbers = itertools.count()
        self._problems: dict[int, str] = {}
        """Steps that cannot be done, with the ids of their actions."""

    def say_how_far(self, what: str = "") -> None:
        self.engines.tell(self.done, self.total, what)

    def seconds_for(self, step: PlanStep) -> float:
        """What is left for an action. TIMED_OUT if that is nothing."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise EnvironmentFailureError(
                Reason.TIMED_OUT,
                "the actions before it took all the time of the plan",
                next_step="Give it less to do, or more time: `timeout_seconds` of the plan, or timeouts.task.",
            )
        return min(self._times.paces[step.number], left)

    def require_needed(self, step: PlanStep) -> None:
        """DEPENDENCY_FAILED if an action that this one needs cannot be done."""
        for number in step.needs:
            if number in self._problems:
                action_id = self._problems[number]
                raise RefusedError(
                    Reason.DEPENDENCY_FAILED,
                    f"this action needs {action_id}, which cannot be done",
                    where=self.ground.drafted.paths[step.path],
                    next_step=f"Mend {action_id} first.",
                )

    def remember_problem(self, step: PlanStep) -> None:
        self._problems[step.number] = step.action_id

    # --- databases

    def lineage(self, name: str) -> WorkingCopy:
        """Of the database of this path; copied when it is asked for first."""
        if name not in self._lineages:
            folder = self.folder.folder(f"database-{next(self._numbers)}")
            lineage = WorkingCopy(
                locate_below(self.root, name), folder / "database", self.config.limits.max_backup_bytes
            )
            lineage.begin(self.engine.require_wanted)
            self._lineages[name] = lineage
            if lineage.state is not None:
                # For an action that changes it, what is bound of the plan's own paths counts instead.
                self.bind(name, lineage.state.sha256)
        return self._lineages[name]

    def known(self, name: str) -> WorkingCopy | None:
        """The database of this path, if it was asked for."""
        return self._lineages.get(name)

    def known_state(self, name: str) -> State | None:
        """Of a database, as far as it was looked at."""
        return self._lineages[name].state if name in self._lineages else None

    def keep_database(self, step: PlanStep, lineage: WorkingCopy) -> OpenCopy:
        if lineage.path.with_name(lineage.path.name + LOG).exists():
            raise EnvironmentFailureError(
                Reason.EFFECT_FAILED,
                "the engine did not write all changes to the database",
                where=lineage.place.path,
                next_step="This is a bug in Remit; nothing was changed.",
            )
        most, mode = self.config.limits.max_backup_bytes, self.mode(step, lineage.state)
        kept = keep(lineage.path, mode, most, where=lineage.place.path, too_large=too_large_to_keep)
        self.prepared.descriptors[source_of(step)] = kept.descriptor
        return kept

    # --- what all need

    def bind(self, path: str, digest: str) -> None:
        self.inputs[path] = ApprovedInput.from_tree({"path": path, "digest": digest})

    def mode(self, step: PlanStep, before: State | None) -> int:
        """Of the file that the step leaves."""
        old = before.mode if before is not None else None
        return HANDLERS[step.action_type].mode(old, {}, keep=self.ground.drafted.keep_permissions)


def source_of(step: PlanStep) -> str:
    return f"prepared-{step.number}"


def changed_step(step: PlanStep, before: State | None, after: State) -> PlanStep:
    """With its states; and with a source for its bytes, if they are others."""
    step = step._replace(move="create" if before is None else "modify", before=before, after=after)
    if after.is_alike(before):
        return step._replace(unchanged=True)
    return step._replace(source=source_of(step))
