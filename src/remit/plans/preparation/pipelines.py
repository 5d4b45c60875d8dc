"""Runs a pipeline action on copies before any decision. The action becomes a change of each of its files.

Nothing reaches the project before the intent. Only the files that the configuration names for the pipeline ever reach
it. A pipeline on files runs once, for the preview. Its outputs are kept, and are put in place when the plan is applied.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from remit.contracts.config.config import DbtPipeline, Pipeline, PythonPipeline, SqlPipeline
from remit.contracts.plans.pipeline_report import MAX_LOG_LINES, MAX_STEPS_TOLD, PipelineTold, ToldStep
from remit.contracts.plans.plan import PipelineAction
from remit.contracts.plans.preview import PreviewedRemark
from remit.core.errors import EnvironmentFailureError, Reason, RemitError, UsageError, mask_for_review
from remit.core.faultpoints import reach
from remit.effects.plans.database_files import MARK
from remit.effects.plans.files import require_hash
from remit.effects.plans.steps import PlanStep, State
from remit.fs.paths import locate_below, plain_spelling
from remit.plans.engines.database_files import require_idle
from remit.plans.engines.pipeline import DbtCall, PipelineResult, Program, StepReport
from remit.plans.policy.pipelines import is_reversible, packages_of, pipeline_files, pipeline_of
from remit.plans.preparation.database_versions import FATAL_REASONS, PreparationContext, changed_step, source_of
from remit.plans.preparation.pipeline_queries import QueryFiles
from remit.plans.preparation.pipeline_scratch import PipelineOutput, PipelineScratch

DBT_EXCLUDED: Final = frozenset({"target", "logs", "profiles.yml"})
"""Names in the folder of a dbt project that are left out: what dbt wrote, and credentials. Remit makes a new profile.
"""
_MAX_PARTS: Final = 6


class PipelinesOnCopies:
    """Prepares the actions of one plan that run a pipeline."""

    def __init__(self, context: PreparationContext) -> None:
        self._context, self._config = context, context.config

    def prepare(self, steps: tuple[PlanStep, ...], action: PipelineAction) -> tuple[PlanStep, ...]:
        """Return the steps of the action, one for each file. Raises if it cannot be done, but still records the steps
        that ran.
        """
        pipeline = pipeline_of(action, self._config)
        try:
            match pipeline:
                case SqlPipeline():
                    return self._sql(steps[0], action, pipeline)
                case PythonPipeline() | DbtPipeline():
                    return self._program(steps, action, pipeline)
        except RemitError as problem:
            if problem.reason in FATAL_REASONS:
                raise
            raise _locate_problem(problem, action) from problem
        raise UsageError(Reason.MISUSE, "the policy did not refuse an unknown pipeline")

    # --- query files

    def _sql(self, step: PlanStep, action: PipelineAction, pipeline: SqlPipeline) -> tuple[PlanStep, ...]:
        files = QueryFiles(self._context, pipeline, action)
        try:
            done = files.run(step)
        finally:
            self._record_summary(action, pipeline, files.step_reports, ())
        self._note_changes(action, (done,))
        return (done._replace(summary=_summarize(action, files.step_reports)),)

    # --- programs

    def _program(
        self, steps: tuple[PlanStep, ...], action: PipelineAction, pipeline: PythonPipeline | DbtPipeline
    ) -> tuple[PlanStep, ...]:
        scratch = PipelineScratch(self._context, self._context.folder.folder(f"pipeline-{steps[0].number}"))
        try:
            before = self._fill(scratch, steps, action, pipeline)
            reach("pipeline.filled")
            result = self._context.engines.programs.run(
                self._program_of(action, pipeline, steps[0]),
                scratch.path,
                on_step=lambda number, total, what: self._report_progress(action, number, total, what),
            )
            step_reports = tuple(_report_step(one) for one in result.steps)
            self._record_summary(action, pipeline, step_reports, result.log)
            if result.problem is not None:
                raise _with_step(result)
            outputs = [self._collect_output(scratch, step, state) for step, state in zip(steps, before, strict=True)]
            if isinstance(pipeline, PythonPipeline):  # dbt always writes files of its own
                self._remark_discarded(scratch, steps)
        finally:
            scratch.clear()
        reach("pipeline.taken")
        done = tuple(self._store_output(*each)._replace(summary=_summarize(action, step_reports)) for each in outputs)
        self._note_changes(action, done)
        return done

    def _remark_discarded(self, scratch: PipelineScratch, steps: Sequence[PlanStep]) -> None:
        """Say which new files of the pipeline never reach the project."""
        kept = {self._context.drafted_plan.steps.paths[step.path] for step in steps}
        what = "the pipeline wrote this file; it is discarded, because `writes` does not name it"
        for path in scratch.list_discarded(kept):
            with suppress(RemitError):  # a name that cannot be shown
                self._context.prepared.remarks.append(
                    PreviewedRemark.from_tree({"path": mask_for_review(path), "what": what})
                )

    def _fill(
        self,
        scratch: PipelineScratch,
        steps: Sequence[PlanStep],
        action: PipelineAction,
        pipeline: PythonPipeline | DbtPipeline,
    ) -> list[State | None]:
        """Fill the folder. Return the state of each file that the pipeline may change."""
        if isinstance(pipeline, DbtPipeline):
            scratch.add(plain_spelling(pipeline.project), without=DBT_EXCLUDED)
        else:
            for package in packages_of(self._config):
                scratch.add(package)
            for path in pipeline_files(action, self._config).reads:
                if path not in packages_of(self._config):
                    scratch.add(plain_spelling(path))
        states = []
        for step in steps:
            path = self._context.drafted_plan.steps.paths[step.path]
            state = scratch.add_written(path)
            require_hash(step.expected_before, state, path)
            states.append(state)
        return states

    def _program_of(self, action: PipelineAction, pipeline: PythonPipeline | DbtPipeline, step: PlanStep) -> Program:
        seconds, parameters = self._context.seconds_for(step), action.operation.parameters
        if isinstance(pipeline, PythonPipeline):
            return Program("python", pipeline.steps, parameters, None, seconds)
        database = self._context.drafted_plan.steps.paths[step.path]
        call = DbtCall(plain_spelling(pipeline.project), database, pipeline.command, pipeline.select)
        return Program("dbt", (), parameters, call, seconds)

    def _collect_output(
        self, scratch: PipelineScratch, step: PlanStep, before: State | None
    ) -> tuple[PlanStep, State | None, PipelineOutput]:
        path = self._context.drafted_plan.steps.paths[step.path]
        if self._context.find_working_copy(path) is not None:
            require_idle(locate_below(self._context.root, path), writes=True)
        output = scratch.collect_output(path, self._context.mode(step, before))
        self._context.prepared.descriptors[source_of(step)] = output.file.descriptor
        require_hash(step.expected_after, output.file.state, path)
        return step, before, output

    def _store_output(self, step: PlanStep, before: State | None, output: PipelineOutput) -> PlanStep:
        """Store an output for later actions. Only after all outputs were collected: some of them alone are useless."""
        path, file = self._context.drafted_plan.steps.paths[step.path], output.file
        if (working_copy := self._context.find_working_copy(path)) is not None:
            working_copy.discard_work()
            working_copy.output, working_copy.state = file
        else:
            self._context.outputs[path] = file
        if output.is_database:  # the process that installs it must check that no other process has it open
            step = step._replace(operation=dict(MARK))
        return changed_step(step, before, file.state)

    # --- reports

    def _report_progress(self, action: PipelineAction, number: int, total: int, what: str) -> None:
        of = f" ({number} of {total})" if total else ""
        self._context.report_progress(f"{action.operation.pipeline}: {what}{of}")

    def _record_summary(
        self, action: PipelineAction, pipeline: Pipeline, step_reports: Sequence[ToldStep], log: Sequence[str]
    ) -> None:
        self._context.prepared.pipelines[action.action_id] = PipelineTold(
            action_id=action.action_id,
            pipeline=action.operation.pipeline,
            description=pipeline.description,
            kind=pipeline.type,
            reversible=is_reversible(action, self._config),
            steps=tuple(step_reports[:MAX_STEPS_TOLD]),
            left_out=max(len(step_reports) - MAX_STEPS_TOLD, 0),
            log=tuple(log[-MAX_LOG_LINES:]),
        )

    def _note_changes(self, action: PipelineAction, steps: Sequence[PlanStep]) -> None:
        paths = self._context.drafted_plan.steps.paths
        summary = self._context.prepared.pipelines[action.action_id]
        changes = tuple(paths[step.path] for step in steps if not step.unchanged)
        self._context.prepared.pipelines[action.action_id] = summary.model_copy(update={"changes": changes})


def _report_step(one: StepReport) -> ToldStep:
    return ToldStep(
        name=one.name, state=one.state, rows=one.rows, milliseconds=round(one.seconds * 1_000), words=one.words
    )


def _with_step(result: PipelineResult) -> RemitError:
    """Return why the pipeline failed, with its step."""
    problem = result.problem or EnvironmentFailureError(Reason.PIPELINE_FAILED, "it failed without a reason")
    failed = next((one.name for one in result.steps if one.state == "failed"), "")
    where = ", ".join(dict.fromkeys(part for part in (f"step {failed}" if failed else "", problem.where) if part))
    return EnvironmentFailureError(problem.reason, problem.what, where=where, next_step=problem.next_step)


def _locate_problem(problem: RemitError, action: PipelineAction) -> RemitError:
    """Return the problem with the name of its pipeline, unless it names a file."""
    if problem.where and not problem.where.startswith("step "):
        return problem
    where = ", ".join(part for part in (f"pipeline {action.operation.pipeline}", problem.where) if part)
    return EnvironmentFailureError(problem.reason, problem.what, where=where, next_step=problem.next_step)


def _summarize(action: PipelineAction, step_reports: Sequence[ToldStep]) -> str:
    """Return a summary such as `Pipeline nightly: etl.load:run 120 rows; etl.report:run`."""
    parts = [f"{one.name}{'' if one.rows is None else f' {one.rows:,} rows'}" for one in step_reports]
    shown = parts if len(parts) <= _MAX_PARTS else [*parts[: _MAX_PARTS - 2], "...", parts[-1]]
    return f"Pipeline {action.operation.pipeline}: {'; '.join(shown)}"
