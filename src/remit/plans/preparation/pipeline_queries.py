"""Runs a pipeline of query files on a copy of a DuckDB database, one after the other. The result is one file."""

import time
from collections.abc import Sequence

from remit.contracts.config.config import SqlPipeline
from remit.contracts.plans.pipeline_report import ToldStep
from remit.contracts.plans.plan import PipelineAction
from remit.contracts.plans.sql_report import MAX_STATEMENTS_TOLD, ToldStatement
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.effects.plans.files import missing, require_hash
from remit.effects.plans.steps import PlanStep
from remit.fs.paths import plain_spelling
from remit.plans.engines.database_files import require_idle
from remit.plans.engines.duckdb import ContentQuestion, DuckdbAnswer, is_of_the_text, limit_statements, summarize_answer
from remit.plans.policy.sql import SqlFiles
from remit.plans.preparation.database_versions import FATAL_REASONS, PreparationContext, WorkingCopy, changed_step
from remit.plans.preparation.sql import TextInputs, read_query, record_sql_preview


class QueryFiles:
    """The query files of one action. `step_reports` grows with each file that was run."""

    def __init__(self, context: PreparationContext, pipeline: SqlPipeline, action: PipelineAction) -> None:
        self._context, self._engine = context, context.engine
        self._pipeline, self._action = pipeline, action
        self._names = tuple(plain_spelling(path) for path in pipeline.steps)
        self.step_reports: list[ToldStep] = []

    def run(self, step: PlanStep) -> PlanStep:
        """Run all files, or leave no change: after a failure the next action finds the version before."""
        path = self._context.drafted_plan.steps.paths[step.path]
        working_copy = self._context.working_copy(path)
        before = working_copy.state
        require_hash(step.expected_before, before, path)
        texts = [read_query(self._context, name) for name in self._names]  # the approval binds all before one runs
        seconds = self._context.seconds_for(step)
        deadline = time.monotonic() + seconds
        working_copy.ensure_file(self._engine.require_not_cancelled)
        answers: list[DuckdbAnswer] = []
        try:
            for number, text in enumerate(texts):
                answers.append(self._run_one(number, text, working_copy, deadline, seconds))
            answer = merge_answers(answers)
            done = self._detach_result(step, working_copy) if answer.changed else self._unchanged(step, working_copy)
        except BaseException:
            working_copy.discard_work()
            raise
        query_file = self._names[0] if len(self._names) == 1 else None
        files = SqlFiles(database=path, results=None, query_file=query_file, closed=False)
        inputs = TextInputs(self._pipeline.connection, self._action.operation.parameters)
        record_sql_preview(self._context, done, files, inputs, answer, changes_database=not done.unchanged)
        return done

    def _run_one(
        self, number: int, text: bytes, working_copy: WorkingCopy, deadline: float, seconds: float
    ) -> DuckdbAnswer:
        name, began = self._names[number], time.monotonic()

        def report() -> None:
            of = f"{number + 1} of {len(self._names)}"
            self._context.report_progress(f"{self._action.operation.pipeline}: {name} ({of})")

        report()
        try:
            if deadline <= began:
                raise EnvironmentFailureError(Reason.TIMED_OUT, "no time was left for it")
            answer = self._engine.run(
                ContentQuestion(
                    text=text,
                    parameters=self._action.operation.parameters,
                    database=working_copy.path,
                    alias=working_copy.alias,
                    reads_only=False,
                    expect_results=False,
                    results=None,
                    form=None,
                    seconds=deadline - began,
                    shared_parameters=True,
                ),
                meanwhile=report,
            )
        except RemitError as problem:
            if problem.reason in FATAL_REASONS:
                raise
            self.step_reports.append(ToldStep(name=name, state="failed", milliseconds=_milliseconds_since(began)))
            self.step_reports += [ToldStep(name=other, state="skipped") for other in self._names[number + 1 :]]
            raise _with_file(problem, name, seconds) from problem
        self.step_reports.append(
            ToldStep(
                name=name,
                state="done",
                rows=_rows(answer.statements),
                milliseconds=_milliseconds_since(began),
                words=summarize_answer(answer, None)[:1_000],
            )
        )
        return answer

    def _detach_result(self, step: PlanStep, working_copy: WorkingCopy) -> PlanStep:
        require_idle(working_copy.place, writes=True)
        before, detached = working_copy.state, self._context.detach_database(step, working_copy)
        require_hash(step.expected_after, detached.state, working_copy.place.path)
        working_copy.output, working_copy.state = detached
        return changed_step(step, before, detached.state)

    def _unchanged(self, step: PlanStep, working_copy: WorkingCopy) -> PlanStep:
        if working_copy.state is None:
            raise missing(working_copy.place.path, "there is no such database, and no statement creates one")
        require_hash(step.expected_after, working_copy.state, working_copy.place.path)
        return changed_step(step, working_copy.state, working_copy.state)


def merge_answers(answers: Sequence[DuckdbAnswer]) -> DuckdbAnswer:
    """Merge the answers of several texts into one. Statements are numbered on, and the last rows are shown."""
    statements: list[ToldStatement] = []
    texts: list[str] = []
    unseen: list[tuple[int, str]] = []
    total = 0
    for answer in answers:
        if len(texts) == total:  # otherwise an earlier text is not shown, and this one would appear in its place
            texts += answer.texts
            unseen += ((total + number, what) for number, what in answer.unseen)
        statements += (one.model_copy(update={"number": total + one.number}) for one in answer.statements)
        total += len(answer.statements) + answer.left_out
    listed_statements = limit_statements(statements)
    last_with_rows = next((answer for answer in reversed(answers) if answer.columns), answers[-1])
    return last_with_rows._replace(
        changed=any(answer.changed for answer in answers),
        statements=listed_statements,
        left_out=total - len(listed_statements),
        texts=tuple(texts[:MAX_STATEMENTS_TOLD]),
        unseen=tuple(unseen),
        findings=tuple(found for answer in answers for found in answer.findings),
        remarks=tuple(dict.fromkeys(remark for answer in answers for remark in answer.remarks)),
    )


def _with_file(problem: RemitError, name: str, seconds: float) -> RemitError:
    """Return the problem as a problem of the pipeline, with the file that it concerns."""
    where = f"step {name}" if is_of_the_text(problem.where) else problem.where
    if problem.reason is Reason.TIMED_OUT:
        return EnvironmentFailureError(
            Reason.TIMED_OUT,
            f"its pipeline took longer than {seconds:g} seconds",
            where=where,
            next_step="Give it less to do, or more time: `timeout_seconds` of the action, or of the pipeline.",
        )
    if problem.reason is Reason.SQL_FAILED:
        return EnvironmentFailureError(
            Reason.PIPELINE_FAILED, f"step {name} failed: {problem.what}", where=where, next_step=problem.next_step
        )
    if problem.reason is Reason.TOO_LARGE:
        return EnvironmentFailureError(
            Reason.LIMIT_EXCEEDED,
            "the parameters of the pipeline are too large to be sent to the engine",
            where=where,
            next_step="Put large values into a table first.",
        )
    return EnvironmentFailureError(problem.reason, problem.what, where=where, next_step=problem.next_step)


def _rows(statements: Sequence[ToldStatement]) -> int | None:
    """Return the number of changed rows, or of rows read if the statements only read."""
    changed = [one.rows_changed for one in statements if one.rows_changed is not None]
    read = [one.rows_read for one in statements if one.rows_read is not None]
    return sum(changed) if changed else sum(read) if read else None


def _milliseconds_since(began: float) -> int:
    return round((time.monotonic() - began) * 1_000)
