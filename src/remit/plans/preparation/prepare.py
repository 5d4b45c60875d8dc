"""The actions of a plan that run SQL or a pipeline, run on copies before anything is decided.

Each becomes a change of the files that it leaves. Several actions on one file work on what the one before left. If the
process dies, so does what it had prepared.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import PipelineAction, Plan, SqlAction
from remit.core.errors import RemitError
from remit.effects.plans.steps import PlanStep, StepPlan
from remit.effects.plans.validate import ROWS
from remit.fs.paths import Located
from remit.plans.engines.database_files import WorkFolder, sweep
from remit.plans.engines.duckdb import require_duckdb
from remit.plans.engines.row_rules import RuleTimes
from remit.plans.policy.pipelines import uses_duckdb
from remit.plans.preparation.database_versions import FATAL_REASONS, DraftedPlan, PreparationContext
from remit.plans.preparation.pipelines import PipelinesOnCopies
from remit.plans.preparation.prepared import Engines, PreparedAll
from remit.plans.preparation.sql import SqlOnCopies
from remit.plans.preparation.validation_rules import RuleTrial, try_rules
from remit.plans.runtime.runner import StepTimes


def prepare_all(
    plan: Plan,
    drafted: StepPlan,
    places: Mapping[int, Located],
    config: SystemConfig,
    root: str,
    engines: Engines,
    times: StepTimes,
) -> PreparedAll:
    """Run what is SQL or a pipeline, in the order of the steps. What cannot be done is a problem of its step."""
    trial = RuleTrial(places, lambda _: None, engines.engine, RuleTimes.of(config)) if engines.tries_rules else None
    actions = {one.action_id: one for one in plan.action_plan if isinstance(one, SqlAction | PipelineAction)}
    if any(uses_duckdb(one, config) for one in actions.values()) or any(rule["type"] == ROWS for rule in drafted.rules):
        require_duckdb()  # before anything is changed, not when rules are checked
    if not actions:
        return PreparedAll(drafted.steps, broken_rule=try_rules(drafted, drafted.steps, trial) if trial else None)
    sweep(engines.work)
    prepared = PreparedAll()
    try:
        with WorkFolder.make(engines.work) as folder:
            context = PreparationContext(
                DraftedPlan(drafted, places, config, root, plan), engines, times, folder, prepared
            )
            steps = _Preparation(context).prepare(actions)
            trial = trial and trial._replace(
                find_working_copy=context.find_working_copy, meanwhile=context.report_progress
            )
            broken_rule = try_rules(drafted, steps, trial) if trial else None
    except BaseException:
        prepared.close()
        raise
    inputs = tuple(context.inputs[path] for path in sorted(context.inputs))
    return replace(prepared, steps=steps, inputs=inputs, broken_rule=broken_rule)


class _Preparation:
    def __init__(self, context: PreparationContext) -> None:
        self._context = context
        self._sql, self._pipelines = SqlOnCopies(context), PipelinesOnCopies(context)

    def prepare(self, actions: Mapping[str, SqlAction | PipelineAction]) -> tuple[PlanStep, ...]:
        context, steps = self._context, list[PlanStep]()
        context.total = len(actions)
        for action_id, group in groupby(context.drafted_plan.steps.steps, key=lambda step: step.action_id):
            steps_of_action, action = tuple(group), actions.get(action_id)
            if action is None:
                steps += steps_of_action
                continue
            context.report_progress()
            context.engine.require_not_cancelled()
            steps += self._prepare_action(steps_of_action, action)
            context.done += 1
        context.report_progress()
        return tuple(steps)

    def _prepare_action(self, steps: tuple[PlanStep, ...], action: SqlAction | PipelineAction) -> tuple[PlanStep, ...]:
        """All steps of one action: there is one for each file that it changes."""
        try:
            self._context.require_needed(steps[0])
            if isinstance(action, PipelineAction):
                return self._pipelines.prepare(steps, action)
            return (self._sql.prepare(steps[0], action),)
        except RemitError as problem:
            if problem.reason in FATAL_REASONS:
                raise
            located = self._sql.locate_problem(problem, action) if isinstance(action, SqlAction) else problem
            return tuple(self._failed(step, located) for step in steps)

    def _failed(self, step: PlanStep, problem: RemitError) -> PlanStep:
        self._context.remember_problem(step)
        # Whatever is there is bound by the approval all the same.
        before = self._context.find_state(self._context.drafted_plan.steps.paths[step.path])
        return step._replace(before=before, problem=problem.as_json())
