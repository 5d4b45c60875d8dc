"""An action that runs a pipeline, run on copies before anything is decided: it becomes a change of each of its files.

Nothing of it reaches the project before the intent, and nothing but the files that the configuration names for it ever
does. It runs for the preview and again when the plan is applied, so what asks for the time or for chance may then leave
something else than was seen.
"""

from collections.abc import Sequence
from typing import Final

from remit.contracts.config.config import DbtPipeline, Pipeline, PythonPipeline, SqlPipeline
from remit.contracts.plans.pipeline_report import MAX_LOG_LINES, MAX_STEPS_TOLD, PipelineTold, ToldStep
from remit.contracts.plans.plan import PipelineAction
from remit.core.errors import EnvironmentFailureError, Reason, RemitError, UsageError
from remit.core.faultpoints import reach
from remit.effects.plans.database_files import MARK
from remit.effects.plans.files import require_hash
from remit.effects.plans.steps import PlanStep, State
from remit.fs.paths import locate_below, plain_spelling
from remit.plans.engines.database_files import require_idle
from remit.plans.engines.pipeline import DbtCall, PipelineRan, Program, StepReport
from remit.plans.policy.pipelines import is_reversible, packages_of, pipeline_files, pipeline_of
from remit.plans.preparation.database_versions import NOT_THE_ACTIONS, PreparationContext, changed_step, source_of
from remit.plans.preparation.pipeline_queries import QueryFiles
from remit.plans.preparation.pipeline_scratch import PipelineOutput, PipelineScratch

NOT_DBTS: Final = frozenset({"target", "logs", "profiles.yml"})
"""In the folder of a dbt project: what dbt itself wrote, and credentials. Its profile is made anew."""
_MOST_PARTS: Final = 6


class PipelinesOnCopies:
    """The actions of one plan that run a pipeline."""

    def __init__(self, bench: PreparationContext) -> None:
        self._bench, self._config = bench, bench.config

    def prepare(self, steps: tuple[PlanStep, ...], action: PipelineAction) -> tuple[PlanStep, ...]:
        """Its steps, one for each file. Raises why it cannot be done; how far it came is told all the same."""
        pipeline = pipeline_of(action, self._config)
        try:
            match pipeline:
                case SqlPipeline():
                    return self._sql(steps[0], action, pipeline)
                case PythonPipeline() | DbtPipeline():
                    return self._program(steps, action, pipeline)
        except RemitError as problem:
            if problem.reason in NOT_THE_ACTIONS:
                raise
            raise _placed(problem, action) from problem
        raise UsageError(Reason.MISUSE, "a pipeline that is not known was not refused")

    # --- query files

    def _sql(self, step: PlanStep, action: PipelineAction, pipeline: SqlPipeline) -> tuple[PlanStep, ...]:
        files = QueryFiles(self._bench, pipeline, action)
        try:
            done = files.run(step)
        finally:
            self._tell(action, pipeline, files.told, ())
        self._note_changes(action, (done,))
        return (done._replace(said=_sentence(action, files.told)),)

    # --- programs

    def _program(
        self, steps: tuple[PlanStep, ...], action: PipelineAction, pipeline: PythonPipeline | DbtPipeline
    ) -> tuple[PlanStep, ...]:
        scratch = PipelineScratch(self._bench, self._bench.folder.folder(f"pipeline-{steps[0].number}"))
        try:
            before = self._fill(scratch, steps, action, pipeline)
            reach("pipeline.filled")
            ran = self._bench.engines.programs.run(
                self._program_of(action, pipeline, steps[0]),
                scratch.path,
                on_step=lambda number, total, what: self._say(action, number, total, what),
            )
            told = tuple(_told_step(one) for one in ran.steps)
            self._tell(action, pipeline, told, ran.log)
            if ran.problem is not None:
                raise _at_step(ran)
            taken = [self._take(scratch, step, state) for step, state in zip(steps, before, strict=True)]
        finally:
            scratch.clear()
        reach("pipeline.taken")
        done = tuple(self._keep(*each)._replace(said=_sentence(action, told)) for each in taken)
        self._note_changes(action, done)
        return done

    def _fill(
        self,
        scratch: PipelineScratch,
        steps: Sequence[PlanStep],
        action: PipelineAction,
        pipeline: PythonPipeline | DbtPipeline,
    ) -> list[State | None]:
        """What was there of each file that it may change."""
        if isinstance(pipeline, DbtPipeline):
            scratch.add(plain_spelling(pipeline.project), without=NOT_DBTS)
        else:
            for package in packages_of(self._config):
                scratch.add(package)
            for path in pipeline_files(action, self._config).reads:
                if path not in packages_of(self._config):
                    scratch.add(plain_spelling(path))
        states = []
        for step in steps:
            path = self._bench.ground.drafted.paths[step.path]
            state = scratch.add_written(path)
            require_hash(step.expected_before, state, path)
            states.append(state)
        return states

    def _program_of(self, action: PipelineAction, pipeline: PythonPipeline | DbtPipeline, step: PlanStep) -> Program:
        seconds, parameters = self._bench.seconds_for(step), action.operation.parameters
        if isinstance(pipeline, PythonPipeline):
            return Program("python", pipeline.steps, parameters, None, seconds)
        database = self._bench.ground.drafted.paths[step.path]
        call = DbtCall(plain_spelling(pipeline.project), database, pipeline.command, pipeline.select)
        return Program("dbt", (), parameters, call, seconds)

    def _take(
        self, scratch: PipelineScratch, step: PlanStep, before: State | None
    ) -> tuple[PlanStep, State | None, PipelineOutput]:
        path = self._bench.ground.drafted.paths[step.path]
        if self._bench.known(path) is not None:
            require_idle(locate_below(self._bench.root, path), writes=True)
        left = scratch.take(path, self._bench.mode(step, before))
        self._bench.prepared.descriptors[source_of(step)] = left.kept.descriptor
        require_hash(step.expected_after, left.kept.state, path)
        return step, before, left

    def _keep(self, step: PlanStep, before: State | None, left: PipelineOutput) -> PlanStep:
        """For the actions after it. Not before all of its files could be taken: of some of them nobody knows more."""
        path, kept = self._bench.ground.drafted.paths[step.path], left.kept
        if (lineage := self._bench.known(path)) is not None:
            lineage.forget_work()
            lineage.left, lineage.state = kept
        else:
            self._bench.left[path] = kept
        if left.is_database:  # whoever puts it in its place must look whether somebody has it open
            step = step._replace(operation=dict(MARK))
        return changed_step(step, before, kept.state)

    # --- what is told

    def _say(self, action: PipelineAction, number: int, total: int, what: str) -> None:
        of = f" ({number} of {total})" if total else ""
        self._bench.say_how_far(f"{action.operation.pipeline}: {what}{of}")

    def _tell(self, action: PipelineAction, pipeline: Pipeline, told: Sequence[ToldStep], log: Sequence[str]) -> None:
        self._bench.prepared.pipelines[action.action_id] = PipelineTold(
            action_id=action.action_id,
            pipeline=action.operation.pipeline,
            description=pipeline.description,
            kind=pipeline.type,
            reversible=is_reversible(action, self._config),
            steps=tuple(told[:MAX_STEPS_TOLD]),
            left_out=max(len(told) - MAX_STEPS_TOLD, 0),
            log=tuple(log[-MAX_LOG_LINES:]),
        )

    def _note_changes(self, action: PipelineAction, steps: Sequence[PlanStep]) -> None:
        paths = self._bench.ground.drafted.paths
        told = self._bench.prepared.pipelines[action.action_id]
        changes = tuple(paths[step.path] for step in steps if not step.unchanged)
        self._bench.prepared.pipelines[action.action_id] = told.model_copy(update={"changes": changes})


def _told_step(one: StepReport) -> ToldStep:
    return ToldStep(
        name=one.name, state=one.state, rows=one.rows, milliseconds=round(one.seconds * 1_000), words=one.words
    )


def _at_step(ran: PipelineRan) -> RemitError:
    """Why it failed, with the step."""
    problem = ran.problem or EnvironmentFailureError(Reason.PIPELINE_FAILED, "it failed, and did not say why")
    failed = next((one.name for one in ran.steps if one.state == "failed"), "")
    where = ", ".join(dict.fromkeys(word for word in (f"step {failed}" if failed else "", problem.where) if word))
    return EnvironmentFailureError(problem.reason, problem.what, where=where, next_step=problem.next_step)


def _placed(problem: RemitError, action: PipelineAction) -> RemitError:
    """With the pipeline, unless it is a file that it is about."""
    if problem.where and not problem.where.startswith("step "):
        return problem
    where = ", ".join(word for word in (f"pipeline {action.operation.pipeline}", problem.where) if word)
    return EnvironmentFailureError(problem.reason, problem.what, where=where, next_step=problem.next_step)


def _sentence(action: PipelineAction, told: Sequence[ToldStep]) -> str:
    """`Pipeline nightly: etl.load:run 120 rows; etl.report:run`."""
    parts = [f"{one.name}{'' if one.rows is None else f' {one.rows:,} rows'}" for one in told]
    shown = parts if len(parts) <= _MOST_PARTS else [*parts[: _MOST_PARTS - 2], "...", parts[-1]]
    return f"Pipeline {action.operation.pipeline}: {'; '.join(shown)}"
