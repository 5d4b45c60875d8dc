"""A pipeline of query files on a DuckDB database: run one after the other on a copy, and kept as one file."""

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
from remit.plans.engines.duckdb import ContentQuestion, DuckdbAnswer, is_of_the_text, sentence, within_list
from remit.plans.policy.sql import SqlFiles
from remit.plans.preparation.database_versions import NOT_THE_ACTIONS, PreparationContext, WorkingCopy, changed_step
from remit.plans.preparation.sql import Bound, read_query, tell_sql


class QueryFiles:
    """Of one action. `told` grows with what was run."""

    def __init__(self, bench: PreparationContext, pipeline: SqlPipeline, action: PipelineAction) -> None:
        self._bench, self._engine = bench, bench.engine
        self._pipeline, self._action = pipeline, action
        self._names = tuple(plain_spelling(path) for path in pipeline.steps)
        self.told: list[ToldStep] = []

    def run(self, step: PlanStep) -> PlanStep:
        """All of them, or nothing is left of it: the next action on the database finds what was there before."""
        path = self._bench.ground.drafted.paths[step.path]
        lineage = self._bench.lineage(path)
        before = lineage.state
        require_hash(step.expected_before, before, path)
        texts = [read_query(self._bench, name) for name in self._names]  # all are bound, before any runs
        seconds = self._bench.seconds_for(step)
        until = time.monotonic() + seconds
        lineage.ensure_file(self._engine.require_wanted)
        answers: list[DuckdbAnswer] = []
        try:
            for number, text in enumerate(texts):
                answers.append(self._one(number, text, lineage, until, seconds))
            answer = merged(answers)
            done = self._kept(step, lineage) if answer.changed else self._unchanged(step, lineage)
        except BaseException:
            lineage.forget_work()
            raise
        query_file = self._names[0] if len(self._names) == 1 else None
        files = SqlFiles(database=path, results=None, query_file=query_file, closed=False)
        by = Bound(self._pipeline.connection, self._action.operation.parameters)
        tell_sql(self._bench, done, files, by, answer, changes_database=not done.unchanged)
        return done

    def _one(self, number: int, text: bytes, lineage: WorkingCopy, until: float, seconds: float) -> DuckdbAnswer:
        name, began = self._names[number], time.monotonic()

        def say() -> None:
            of = f"{number + 1} of {len(self._names)}"
            self._bench.say_how_far(f"{self._action.operation.pipeline}: {name} ({of})")

        say()
        try:
            if until <= began:
                raise EnvironmentFailureError(Reason.TIMED_OUT, "its time was over")
            answer = self._engine.run(
                ContentQuestion(
                    text=text,
                    parameters=self._action.operation.parameters,
                    database=lineage.path,
                    alias=lineage.alias,
                    reads_only=False,
                    expect_results=False,
                    results=None,
                    form=None,
                    seconds=until - began,
                    shared_parameters=True,
                ),
                meanwhile=say,
            )
        except RemitError as problem:
            if problem.reason in NOT_THE_ACTIONS:
                raise
            self.told.append(ToldStep(name=name, state="failed", milliseconds=_since(began)))
            self.told += [ToldStep(name=other, state="skipped") for other in self._names[number + 1 :]]
            raise _of_file(problem, name, seconds) from problem
        self.told.append(
            ToldStep(
                name=name,
                state="done",
                rows=_rows(answer.statements),
                milliseconds=_since(began),
                words=sentence(answer, None)[:1_000],
            )
        )
        return answer

    def _kept(self, step: PlanStep, lineage: WorkingCopy) -> PlanStep:
        require_idle(lineage.place, writes=True)
        before, kept = lineage.state, self._bench.keep_database(step, lineage)
        require_hash(step.expected_after, kept.state, lineage.place.path)
        lineage.left, lineage.state = kept
        return changed_step(step, before, kept.state)

    def _unchanged(self, step: PlanStep, lineage: WorkingCopy) -> PlanStep:
        if lineage.state is None:
            raise missing(lineage.place.path, "there is no such database, and none of the statements makes one")
        require_hash(step.expected_after, lineage.state, lineage.place.path)
        return changed_step(step, lineage.state, lineage.state)


def merged(answers: Sequence[DuckdbAnswer]) -> DuckdbAnswer:
    """Of several texts as if they were one: the statements are numbered through, and the last rows are shown."""
    statements: list[ToldStatement] = []
    texts: list[str] = []
    unseen: list[tuple[int, str]] = []
    total = 0
    for answer in answers:
        if len(texts) == total:  # else one before it is not shown, and this would pass for that
            texts += answer.texts
            unseen += ((total + number, what) for number, what in answer.unseen)
        statements += (one.model_copy(update={"number": total + one.number}) for one in answer.statements)
        total += len(answer.statements) + answer.left_out
    statements_told = within_list(statements)
    told = next((answer for answer in reversed(answers) if answer.columns), answers[-1])
    return told._replace(
        changed=any(answer.changed for answer in answers),
        statements=statements_told,
        left_out=total - len(statements_told),
        texts=tuple(texts[:MAX_STATEMENTS_TOLD]),
        unseen=tuple(unseen),
        findings=tuple(found for answer in answers for found in answer.findings),
        remarks=tuple(dict.fromkeys(remark for answer in answers for remark in answer.remarks)),
    )


def _of_file(problem: RemitError, name: str, seconds: float) -> RemitError:
    """In the words of a pipeline, with the file that it is about."""
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
            "the parameters of the pipeline are too large to be handed over",
            where=where,
            next_step="Put large values into a table first.",
        )
    return EnvironmentFailureError(problem.reason, problem.what, where=where, next_step=problem.next_step)


def _rows(statements: Sequence[ToldStatement]) -> int | None:
    """Those that it changed; of one that only reads, those that it gave."""
    changed = [one.rows_changed for one in statements if one.rows_changed is not None]
    read = [one.rows_read for one in statements if one.rows_read is not None]
    return sum(changed) if changed else sum(read) if read else None


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1_000)
