"""A plan carried out: wave by wave, new bytes first and then the renames that make them visible; and the way back.

Stage, switch, clear. Staging writes new bytes under names of the plan's own and syncs them. A switch is one rename,
which leaves the old file under such a name. Nothing that was there is removed here: the host does that, when the whole
plan is done, verified and reported. Until then going back needs no space and no copy.

The plan comes as JSON in `given["plan"]`, the folders as spots by the number of the path. Of the inputs,
`run` takes
    wave      only this one; without it, all of them, in order
    steps     of that wave only these: one lane of several
    failed    numbers of steps that failed before this order, and
    skipped   of those that were left out
and asks `{"wave": w}` before the first switch of each; it goes on if the answer has a true `go`. Without it the
steps that have not ended are left to the host to name. `settle` takes
    wave      without `finish`: the one to take back; with it: the only one that may be half done
    not_done  numbers of steps that are known not to be done: told so by a process that came to its end
With `finish` it returns `{"forward": bool}`, changes nothing, and syncs if it is forward. Without, it
returns `{"left": [numbers]}`: steps whose path is not as before, because somebody else's file is there.
"""

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.core.faultpoints import reach
from remit.effects.context import EffectContext, PathHandle
from remit.effects.file_copy import restore_name
from remit.effects.plans.files import (
    beside,
    fresh_name,
    mismatch,
    old_name,
    read_plan,
    remove_temporary,
    require_spot,
    spots_of,
    sync_folders,
)
from remit.effects.plans.handlers import Editors, Handler
from remit.effects.plans.staging import Staged, Staging
from remit.effects.plans.steps import ABOUT_ONE_ACTION, PlanStep, StepEnd, StepPlan
from remit.effects.plans.undo import is_whole, make_durable, undo_wave
from remit.fs.openat import FileIdentity, failure, peek, rename_exchange, rename_noreplace

_NOTHING: Final[Mapping[int, StepEnd]] = MappingProxyType({})


class ApplyEffect:
    """The one effect of plans that changes anything."""

    def __init__(self, editors: Editors, handlers: Mapping[str, Handler]) -> None:
        self._editors = editors
        self._handlers = handlers

    def run(self, work: EffectContext) -> dict[str, Any]:
        _Run(work, read_plan(work), self._editors, self._handlers).run()
        return {}

    def settle(self, work: EffectContext, *, finish: bool) -> dict[str, Any] | None:
        plan = read_plan(work)
        wave = int(work.inputs.get("wave", 0))
        not_done = frozenset(work.inputs.get("not_done", ()))
        if not finish:
            return {"left": undo_wave(work, plan, wave, not_done)}
        forward = is_whole(work, plan, wave, not_done)
        if forward:
            make_durable(work, plan)
        return {"forward": forward}


# --- forward ---------------------------------------------------------------------------------------------------------


class _Run:
    def __init__(self, work: EffectContext, plan: StepPlan, editors: Editors, handlers: Mapping[str, Handler]) -> None:
        self._work, self._plan = work, plan
        self._staging = Staging(work, plan, editors, handlers)
        self._steps = {step.number: step for step in plan.steps}
        self._ended: dict[int, StepEnd] = dict.fromkeys(work.inputs.get("failed", ()), "failed")
        self._ended.update((number, "skipped") for number in work.inputs.get("skipped", ()))
        self._stopped_by: PlanStep | None = None

    def run(self) -> None:
        waves = self._waves()
        touched: list[PlanStep] = []
        for place, (number, steps) in enumerate(waves):
            if place > 0:  # the host notes the next wave, which says that this one is whole
                sync_folders(spots_of(self._work, touched))
                touched.clear()
            touched += steps
            if not self._run_wave(number, steps):
                break
        sync_folders(spots_of(self._work, touched))
        reach("plan.synced")
        if self._stopped_by is not None:
            self._skip([step for _, steps in waves for step in steps], self._stopped_by)

    def _waves(self) -> list[tuple[int, list[PlanStep]]]:
        only, lane = self._work.inputs.get("wave"), self._work.inputs.get("steps")
        return [
            (number, [self._steps[step] for step in steps if lane is None or step in lane])
            for number, steps in enumerate(self._plan.waves)
            if only is None or number == only
        ]

    def _run_wave(self, number: int, steps: Sequence[PlanStep]) -> bool:
        """Whether the next one may follow."""
        staged = self._stage_all(steps)
        try:
            self._sync_all(staged)
            if any(one.problem is None for one in staged) and not self._work.ask({"wave": number}).get("go"):
                return False
            return self._switch_all(staged)
        finally:
            self._clear(staged)

    # --- stage

    def _stage_all(self, steps: Sequence[PlanStep]) -> list[Staged]:
        """Up to the first one that ends the plan. A failure is told later, in its turn."""
        staged: list[Staged] = []
        foreseen: dict[int, StepEnd] = {}
        for step in steps:
            one = Staged(step)
            staged.append(one)
            if self._unmet_needs(step, foreseen):
                foreseen[step.number] = "skipped"
                continue
            self._report(step, "begun")
            try:
                self._staging.stage(one)
            except RemitError as problem:
                one.problem = problem
                foreseen[step.number] = "failed"
            self._report(step, "staged")
            if one.problem is not None and self._ends_plan(one.problem):
                break
        return staged

    def _sync_all(self, staged: Sequence[Staged]) -> None:
        """What a new name stands for must outlive a power cut that the name outlives."""
        for one in staged:
            if one.part is not None:
                try:
                    os.fsync(one.part)
                except OSError as problem:
                    where = self._plan.paths[one.step.path]
                    one.problem = failure(problem, where, "could not be written to the disk for good")
        reach("plan.stage_synced")

    # --- switch

    def _switch_all(self, staged: Sequence[Staged]) -> bool:
        for one in staged:
            if reason := self._unmet_needs(one.step):
                self._report(one.step, "skipped", reason=reason)
                self._ended[one.step.number] = "skipped"
                continue
            problem = one.problem or self._switch(one)
            if problem is None:
                state = None if one.step.move == "delete" else one.step.before if one.step.unchanged else one.step.after
                self._report(one.step, "done", at=state)
                self._ended[one.step.number] = "done"
                continue
            self._report(one.step, "failed", error=problem.as_json())
            self._ended[one.step.number] = "failed"
            if self._ends_plan(problem):
                self._stopped_by = one.step
                return False
        return True

    def _switch(self, one: Staged) -> RemitError | None:
        if one.step.unchanged:
            return None
        spot = require_spot(self._work, self._plan, one.step.path)
        try:
            match one.step.move:
                case "modify":
                    self._exchange(one, spot)
                case "create":
                    name = fresh_name(self._plan, one.step)
                    rename_noreplace(spot.folder, name, spot.folder, spot.name, where_new=spot.path)
                case "delete":
                    _rename(one, spot, spot.folder, old_name(self._plan, one.step), where=spot.path)
                case "rename" if one.step.new_path is not None:
                    target = require_spot(self._work, self._plan, one.step.new_path)
                    _rename(one, spot, target.folder, target.name, where=target.path)
        except RemitError as problem:
            return problem
        reach("plan.switched")
        return None

    def _exchange(self, one: Staged, spot: PathHandle) -> None:
        """The new file for the old one, which must be the file that was read; else both have their names again."""
        new, old = fresh_name(self._plan, one.step), old_name(self._plan, one.step)
        rename_noreplace(spot.folder, new, spot.folder, old, where=spot.path, where_new=beside(spot, old))
        rename_exchange(spot.folder, old, spot.name, where=spot.path)
        if _is_unchanged(spot, old, one.observed):
            return
        rename_exchange(spot.folder, old, spot.name, where=spot.path)
        found = peek(spot.folder, old, where=spot.path)
        if found is None or one.fresh is None or not found.is_file(one.fresh):
            raise EnvironmentFailureError(
                Reason.EFFECT_FAILED,
                f"somebody replaced this file twice while it was exchanged; an older one is {old} beside it",
                where=spot.path,
                next_step="Compare the two, and give the right one its name.",
            )
        raise _replaced_error(spot.path)

    # --- inside

    def _clear(self, staged: Sequence[Staged]) -> None:
        """What was written and did not become visible, by the file itself: a name may stand for another by now."""
        for one in staged:
            if one.part is not None:
                os.close(one.part)
                one.part = None
            if one.fresh is not None and self._ended.get(one.step.number) != "done":
                spot = require_spot(self._work, self._plan, one.step.path)
                for name in {fresh_name(self._plan, one.step), old_name(self._plan, one.step)}:
                    remove_temporary(spot, name, one.fresh)

    def _unmet_needs(self, step: PlanStep, foreseen: Mapping[int, StepEnd] = _NOTHING) -> str:
        """Which step that this one needs was not done, in words."""
        for number in step.needs:
            end = self._ended.get(number) or foreseen.get(number)
            if end in {"failed", "skipped"}:
                how = "failed" if end == "failed" else "was skipped"
                return f"Dependency {self._steps[number].action_id} {how}"
        return ""

    def _skip(self, steps: Sequence[PlanStep], after: PlanStep) -> None:
        for step in steps:
            if step.number not in self._ended:
                reason = self._unmet_needs(step) or f"Stopped after {after.action_id} failed"
                self._report(step, "skipped", reason=reason)
                self._ended[step.number] = "skipped"

    def _ends_plan(self, problem: RemitError) -> bool:
        return self._plan.stop_on_error or problem.reason not in ABOUT_ONE_ACTION

    def _report(self, step: PlanStep, phase: str, **more: Any) -> None:
        self._work.step({"number": step.number, "phase": phase, **more})


def _rename(one: Staged, spot: PathHandle, folder: int, name: str, *, where: str) -> None:
    """Give the file another name; if it is not the one that was read, it gets its own again."""
    rename_noreplace(spot.folder, spot.name, folder, name, where=spot.path, where_new=where)
    target = PathHandle(where, folder, name)
    if not _is_unchanged(target, name, one.observed):
        restore_name((folder, name), (spot.folder, spot.name), where=where, where_new=spot.path)
        raise _replaced_error(spot.path)


def _is_unchanged(spot: PathHandle, name: str, expected: FileIdentity | None) -> bool:
    found = peek(spot.folder, name, where=spot.path)
    return found is not None and expected is not None and found.has_content_of(expected) and found.mode == expected.mode


def _replaced_error(where: str) -> RemitError:
    return mismatch("somebody replaced or changed the file at the last moment; it is left as he made it", where)
