"""Runs the SQL and pipeline actions of a plan on copies before any decision.

Each action becomes a change of the files that it leaves. Several actions on one file work on the result of the action
before. The prepared files have no name. `plans/preview/kept_outputs.py` keeps copies of them until the plan is applied.

Rules about rows are tried on the databases as the actions would leave them. So a faulty rule, or one that would not
hold, is known before a person approves the plan. They are checked again after the plan has run.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import PipelineAction, Plan, SqlAction
from remit.core.errors import RemitError
from remit.effects.plans.steps import PlanStep, StepPlan
from remit.effects.plans.validate import ROWS
from remit.fs.paths import Located, plain_spelling
from remit.plans.engines.database_files import WorkFolder, sweep
from remit.plans.engines.duckdb import Engine, require_duckdb
from remit.plans.engines.input_files import folder_is_missing
from remit.plans.engines.row_rules import (
    RuleTimes,
    check_rule_on_file,
    no_database_error,
    remaining_seconds,
    run_rule_query,
    with_rule,
)
from remit.plans.policy.pipelines import uses_duckdb
from remit.plans.preparation.database_versions import FATAL_REASONS, DraftedPlan, PreparationContext, WorkingCopy
from remit.plans.preparation.pipelines import PipelinesOnCopies
from remit.plans.preparation.prepared import Engines, PreparedAll
from remit.plans.preparation.sql import SqlOnCopies
from remit.plans.runtime.runner import StepTimes, paths_of


def prepare_all(
    plan: Plan,
    drafted: StepPlan,
    places: Mapping[int, Located],
    config: SystemConfig,
    root: str,
    engines: Engines,
    times: StepTimes,
) -> PreparedAll:
    """Run the SQL and pipeline actions in the order of the steps. A failure becomes the problem of its step."""
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
            began = time.monotonic()
            steps += self._prepare_action(steps_of_action, action)
            context.prepared.milliseconds[action.action_id] = round((time.monotonic() - began) * 1000)
            context.done += 1
        context.report_progress()
        return tuple(steps)

    def _prepare_action(self, steps: tuple[PlanStep, ...], action: SqlAction | PipelineAction) -> tuple[PlanStep, ...]:
        """Prepare all steps of one action. It has one step for each file that it changes."""
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
        # The approval binds the existing database even if the action fails.
        before = self._context.find_state(self._context.drafted_plan.steps.paths[step.path])
        return step._replace(before=before, problem=problem.as_json())


# --- rules about rows -------------------------------------------------------------------------------------------------


class RuleTrial(NamedTuple):
    """The databases and the engine with which rules are tried."""

    places: Mapping[int, Located]
    find_working_copy: Callable[[str], WorkingCopy | None]
    """Returns the working copy of the database at this path, if an action of the plan has one."""
    engine: Engine
    times: RuleTimes
    meanwhile: Callable[[], None] = lambda: None


def try_rules(drafted: StepPlan, steps: Sequence[PlanStep], trial: RuleTrial) -> RemitError | None:
    """Return the error of the first rule that would not hold or cannot be checked.

    Tries no rule of a plan that would fail anyway, and no rule about a file that another action changes, since its new
    bytes do not exist yet.
    """
    if any(step.problem is not None for step in steps):
        return None
    deadline = time.monotonic() + trial.times.together
    for number, rule in enumerate(drafted.rules, start=1):
        if rule["type"] != ROWS or rule.get("path") is None:  # a server has no path
            continue
        try:
            _try_one(rule, drafted, steps, trial, deadline)
        except RemitError as problem:
            if problem.reason in FATAL_REASONS:
                raise
            return with_rule(problem, number, len(drafted.rules), rule)
    return None


def _try_one(
    rule: Mapping[str, Any], drafted: StepPlan, steps: Sequence[PlanStep], trial: RuleTrial, deadline: float
) -> None:
    seconds = min(trial.times.each, remaining_seconds(deadline))
    working_copy = trial.find_working_copy(plain_spelling(rule["path"]))
    if working_copy is not None:
        if working_copy.state is None:
            raise no_database_error(rule["path"])
        working_copy.ensure_file(trial.engine.require_not_cancelled)
        run_rule_query(rule, working_copy.path, working_copy.alias, trial.engine, seconds, trial.meanwhile)
        return
    number = drafted.paths.index(rule["path"])
    if number in paths_of(steps):
        return
    place = trial.places.get(number)
    existing = place if place is not None and not folder_is_missing(place) else None
    check_rule_on_file(rule, existing, trial.engine, seconds, trial.meanwhile)
