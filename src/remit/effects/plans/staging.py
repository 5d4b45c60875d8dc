"""Prepares one step for its switch: checks that its file is as simulated, and writes all of its new bytes beside it.

New bytes come from an edit, or from a file that comes with the order: a backup, or a prepared file. Only an edit holds
a file in memory, and has a size limit. All other files are hashed and copied in pieces.
"""

from collections.abc import Mapping
from functools import partial

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.core.faultpoints import reach
from remit.effects.context import EffectContext, PathHandle
from remit.effects.plans.database_files import is_marked, require_no_log
from remit.effects.plans.files import (
    Fill,
    as_error,
    fresh_name,
    mismatch,
    read_file,
    require_ordinary,
    require_spot,
    state_of,
    too_large,
    write_fresh,
)
from remit.effects.plans.handlers import Editors, Handler, edit_file
from remit.effects.plans.large_files import copy_expected, observe_state
from remit.effects.plans.steps import PlanStep, State, StepPlan
from remit.fs.atomic_write import write_all
from remit.fs.openat import FileIdentity, already_exists, exists, identify


class Staged:
    """A step that is ready for its switch, or the reason why it is not."""

    __slots__ = ("fresh", "observed", "part", "problem", "step")

    def __init__(self, step: PlanStep) -> None:
        self.step = step
        self.problem: RemitError | None = None
        self.observed: FileIdentity | None = None
        """The identity of the file to be changed, from the time when it was read."""
        self.part: int | None = None
        self.fresh: FileIdentity | None = None
        """The identity of the new file, once its bytes are written."""


class Staging:
    """Stages the steps of one order."""

    def __init__(self, work: EffectContext, plan: StepPlan, editors: Editors, handlers: Mapping[str, Handler]) -> None:
        self._work, self._plan = work, plan
        self._editors, self._handlers = editors, handlers

    def stage(self, one: Staged) -> None:
        """Stage one step. If it raises, nothing of the step is left on the disk."""
        step = one.step
        if step.problem is not None:
            raise as_error(step.problem)
        spot = require_spot(self._work, self._plan, step.path)
        if is_marked(step):
            require_no_log(spot.folder, spot.name, where=spot.path)
        before = self._require_before(one, spot)
        if step.new_path is not None:
            _require_free(require_spot(self._work, self._plan, step.new_path))
        if not _makes_bytes(step):
            return
        if step.after is None:
            raise self._other_content(step)
        fill = self._from_source(step, step.after) if step.source else self._from_edit(step, step.after, before)
        one.part = write_fresh(spot, fresh_name(self._plan, step), fill, step.after.mode, step.metadata)
        one.fresh = identify(one.part)
        reach("plan.staged")

    def _require_before(self, one: Staged, spot: PathHandle) -> bytes | None:
        """Raise unless the file is as in the simulation. Return its bytes if the step edits them."""
        step = one.step
        if step.move == "create":
            _require_free(spot)
            return None
        content = None
        if _makes_bytes(step) and not step.source:
            content, state, observed = read_file(spot, self._plan.max_file_bytes, where=spot.path)
        else:
            state, observed = observe_state(spot, step.before, where=spot.path)
        if not state.is_alike(step.before):
            path = self._plan.paths[step.path]
            raise mismatch(f"{path} has changed since the plan was simulated", spot.path)
        if step.move != "rename":
            require_ordinary(observed, where=spot.path)
        one.observed = observed
        return content

    def _from_source(self, step: PlanStep, after: State) -> Fill:
        where = self._plan.paths[step.path]
        if step.source not in self._work.given:
            raise EnvironmentFailureError(
                Reason.EFFECT_FAILED,
                "the prepared bytes of this file no longer exist, because the process that prepared them has ended",
                where=where,
                next_step="The file was not changed. Have the plan approved again.",
            )
        return partial(copy_expected, self._work.given[step.source], expected=after, where=where)

    def _from_edit(self, step: PlanStep, after: State, before: bytes | None) -> Fill:
        most, path = self._plan.max_file_bytes, self._plan.paths[step.path]
        edited = edit_file(self._handlers[step.action_type], path, before, step.operation, self._editors)
        content = edited.content if edited is not None else b""
        if len(content) > most:
            raise too_large(len(content), most, path)
        if not after.is_alike(state_of(content, after.mode)):
            raise self._other_content(step)
        return partial(write_all, data=content)

    def _other_content(self, step: PlanStep) -> RemitError:
        return EnvironmentFailureError(
            Reason.INTERNAL,
            "the edit produced other content than its preview",
            where=self._plan.paths[step.path],
            next_step="This is a bug in Remit. Report the operation and, if you may share it, the file.",
        )


def _makes_bytes(step: PlanStep) -> bool:
    return not step.unchanged and step.move in {"create", "modify"}


def _require_free(spot: PathHandle) -> None:
    if exists(spot.folder, spot.name):
        raise already_exists(spot.path)
