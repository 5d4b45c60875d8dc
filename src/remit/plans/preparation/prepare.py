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
from remit.plans.preparation.database_versions import NOT_THE_ACTIONS, Ground, PreparationContext
from remit.plans.preparation.pipelines import PipelinesOnCopies
from remit.plans.preparation.prepared import Engines, PreparedAll
from remit.plans.preparation.sql import SqlOnCopies
from remit.plans.preparation.validation_rules import Trial, try_rules
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
    trial = Trial(places, lambda _: None, engines.engine, RuleTimes.of(config)) if engines.tries_rules else None
    actions = {one.action_id: one for one in plan.action_plan if isinstance(one, SqlAction | PipelineAction)}
    if any(uses_duckdb(one, config) for one in actions.values()) or any(rule["type"] == ROWS for rule in drafted.rules):
        require_duckdb()  # before anything is changed, not when rules are checked
    if not actions:
        return PreparedAll(drafted.steps, broken_rule=try_rules(drafted, drafted.steps, trial) if trial else None)
    sweep(engines.work)
    prepared = PreparedAll()
    try:
        with WorkFolder.make(engines.work) as folder:
            bench = PreparationContext(Ground(drafted, places, config, root, plan), engines, times, folder, prepared)
            steps = _Preparing(bench).all(actions)
            trial = trial and trial._replace(known=bench.known, meanwhile=bench.say_how_far)
            broken_rule = try_rules(drafted, steps, trial) if trial else None
    except BaseException:
        prepared.close()
        raise
    inputs = tuple(bench.inputs[path] for path in sorted(bench.inputs))
    return replace(prepared, steps=steps, inputs=inputs, broken_rule=broken_rule)


class _Preparing:
    def __init__(self, bench: PreparationContext) -> None:
        self._bench = bench
        self._sql, self._pipelines = SqlOnCopies(bench), PipelinesOnCopies(bench)

    def all(self, actions: Mapping[str, SqlAction | PipelineAction]) -> tuple[PlanStep, ...]:
        bench, steps = self._bench, list[PlanStep]()
        bench.total = len(actions)
        for action_id, group in groupby(bench.ground.drafted.steps, key=lambda step: step.action_id):
            mine, action = tuple(group), actions.get(action_id)
            if action is None:
                steps += mine
                continue
            bench.say_how_far()
            bench.engine.require_wanted()
            steps += self._one(mine, action)
            bench.done += 1
        bench.say_how_far()
        return tuple(steps)

    def _one(self, steps: tuple[PlanStep, ...], action: SqlAction | PipelineAction) -> tuple[PlanStep, ...]:
        """All steps of one action: there is one for each file that it changes."""
        try:
            self._bench.require_needed(steps[0])
            if isinstance(action, PipelineAction):
                return self._pipelines.prepare(steps, action)
            return (self._sql.prepare(steps[0], action),)
        except RemitError as problem:
            if problem.reason in NOT_THE_ACTIONS:
                raise
            told = self._sql.placed(problem, action) if isinstance(action, SqlAction) else problem
            return tuple(self._failed(step, told) for step in steps)

    def _failed(self, step: PlanStep, problem: RemitError) -> PlanStep:
        self._bench.remember_problem(step)
        # Whatever is there is bound by the approval all the same.
        before = self._bench.known_state(self._bench.ground.drafted.paths[step.path])
        return step._replace(before=before, problem=problem.as_json())
