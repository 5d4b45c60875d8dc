"""Applies the steps of a plan, and undoes them.

Steps run wave by wave. A wave first stages its new bytes and then switches. Staging writes new bytes under names that
belong to the plan. They are durable before the first switch: the host syncs each file while the next one is written,
and this process syncs those that the host did not. A switch is one rename, which makes the new file visible and leaves
the old file under such a name. Nothing that existed before is removed here. The host removes the old files when the
whole plan is done, verified and reported. Until then an undo needs no space and no copy.

The plan comes as JSON in `given["plan"]`, and the folders as spots by the number of the path. `run` has these inputs:
    wave      run only this wave; without it, run all waves in order
    steps     of that wave run only these: one lane of several
    failed    numbers of steps that failed before this order
    skipped   numbers of steps that were skipped before this order
`run` asks `{"wave": w}` before the first switch of each wave, and continues if the answer has a true `go`. Otherwise
the host reports the steps that have not ended. `durable` in the answer lists the steps whose new file is synced.
`settle` has these inputs:
    wave      without `finish`: the wave to undo; with it: the only wave that may be partly done
    not_done  numbers of steps that are known not to be done, from a process that ended properly
With `finish` it returns `{"forward": bool}`, changes nothing, and syncs if `forward` is true. Without `finish` it
returns `{"left": [numbers]}`: the steps whose path is not as before, because another program's file is there.
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
    """The only effect of plans that changes files."""

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
            if place > 0:  # the host notes the next wave, and that note means that this one is complete
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
        """Run one wave. Return whether the next one may follow."""
        staged = self._stage_all(steps)
        try:
            if any(one.problem is None for one in staged):
                answer = self._work.ask({"wave": number})
                if not answer.get("go"):
                    return False
                self._sync_all(staged, frozenset(answer.get("durable", ())))
            return self._switch_all(staged)
        finally:
            self._clear(staged)

    # --- stage

    def _stage_all(self, steps: Sequence[PlanStep]) -> list[Staged]:
        """Stage the steps up to the first failure that ends the plan. A failure is reported later, in its turn."""
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
            self._report(step, "staged", **({} if one.fresh is None else {"inode": one.fresh.ino}))
            if one.problem is not None and self._ends_plan(one.problem):
                break
        return staged

    def _sync_all(self, staged: Sequence[Staged], durable: frozenset[int]) -> None:
        """Sync the new files, so that no name outlives a power cut without the bytes that belong to it.

        The host has synced those that it names as durable.
        """
        for one in staged:
            if one.part is not None and one.step.number not in durable:
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
        """Put the new file in the place of the old one. If the old one is not the file that was read, exchange back."""
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
                f"another program replaced this file twice during the change; an older version is {old} in its folder",
                where=spot.path,
                next_step="Compare the two files, and rename the right one to the name of the file.",
            )
        raise _replaced_error(spot.path)

    # --- inside

    def _clear(self, staged: Sequence[Staged]) -> None:
        """Remove the new files that did not become visible. Checks the file itself, since its name may be reused."""
        for one in staged:
            if one.part is not None:
                os.close(one.part)
                one.part = None
            if one.fresh is not None and self._ended.get(one.step.number) != "done":
                spot = require_spot(self._work, self._plan, one.step.path)
                for name in {fresh_name(self._plan, one.step), old_name(self._plan, one.step)}:
                    remove_temporary(spot, name, one.fresh)

    def _unmet_needs(self, step: PlanStep, foreseen: Mapping[int, StepEnd] = _NOTHING) -> str:
        """Return which needed step was not done, as a sentence for the report; empty if none."""
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
    """Rename the file. If it is not the file that was read, rename it back and raise."""
    rename_noreplace(spot.folder, spot.name, folder, name, where=spot.path, where_new=where)
    target = PathHandle(where, folder, name)
    if not _is_unchanged(target, name, one.observed):
        restore_name((folder, name), (spot.folder, spot.name), where=where, where_new=spot.path)
        raise _replaced_error(spot.path)


def _is_unchanged(spot: PathHandle, name: str, expected: FileIdentity | None) -> bool:
    found = peek(spot.folder, name, where=spot.path)
    return found is not None and expected is not None and found.has_content_of(expected) and found.mode == expected.mode


def _replaced_error(where: str) -> RemitError:
    return mismatch("another program replaced or changed the file at the last moment; it is left unchanged", where)
