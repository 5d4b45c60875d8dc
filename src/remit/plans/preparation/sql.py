"""Runs a SQL action on a copy before any decision. The action becomes a change of a file.

The step then has its states before and after. It takes its new bytes from the descriptor of a prepared file, like a
file that is restored. If the process dies, the prepared file is gone too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.contracts.plans.plan import SqlAction
from remit.contracts.plans.preview import PreviewedRemark
from remit.contracts.plans.sql_report import SqlPreviewed
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.effects.plans.files import missing, require_hash, too_large
from remit.effects.plans.handlers import NEW_FILE
from remit.effects.plans.steps import PlanStep
from remit.plans.engines.database_files import detach_file, require_idle
from remit.plans.engines.duckdb import ContentQuestion, DuckdbAnswer, is_of_the_text, summarize_answer
from remit.plans.engines.input_files import read_below, read_results_state
from remit.plans.policy.remote_sql import server_of
from remit.plans.policy.sql import SqlFiles, format_of, sql_files
from remit.plans.preparation.database_versions import PreparationContext, source_of
from remit.plans.preparation.remote_sql import PlanContext, save_server_rows
from remit.plans.preparation.sql_preview import describe_text

MAX_QUERY_BYTES: Final = 4 << 20

_READ_ONLY: Final = "this text may only read"
"""The words of the engine for a statement that may change the database and must not."""


class SqlOnCopies:
    """Prepares the actions of one plan that run SQL."""

    def __init__(self, context: PreparationContext) -> None:
        self._context, self._config, self._engine = context, context.config, context.engine
        self._servers: dict[str, str] = {}
        """The address of the server whose rows an action saves, by action."""

    def prepare(self, step: PlanStep, action: SqlAction) -> PlanStep:
        """Return the step with its states. Raises if the action cannot be done."""
        files = sql_files(action, self._config)
        if files.results is None:
            return self._change_database(step, action, files)
        return self._save_results(step, action, files)

    def locate_problem(self, problem: RemitError, action: SqlAction) -> RemitError:
        """Return the problem with its place in the plan or its file, where the process that ran the text could not
        know it.
        """
        return _locate_problem(problem, action, sql_files(action, self._config))

    # --- the two kinds

    def _change_database(self, step: PlanStep, action: SqlAction, files: SqlFiles) -> PlanStep:
        working_copy = self._context.working_copy(files.database or "")
        before = working_copy.state
        require_hash(step.expected_before, before, working_copy.place.path)
        if files.reads_only and before is None:
            raise missing(working_copy.place.path, "there is no such database")
        working_copy.ensure_file(self._engine.require_not_cancelled)
        try:
            answer = self._run(step, action, files, working_copy.path, working_copy.alias, reads_only=files.reads_only)
        except RemitError as problem:
            raise problem if before is not None else _explain_missing_database(problem) from None
        if not answer.changed:
            if before is None:
                raise missing(working_copy.place.path, "there is no such database, and no statement creates one")
            require_hash(step.expected_after, before, working_copy.place.path)
            return self._record_preview(
                step._replace(move="modify", before=before, after=before, unchanged=True), action, answer
            )
        require_idle(working_copy.place, writes=True)
        detached = self._context.detach_database(step, working_copy)
        require_hash(step.expected_after, detached.state, working_copy.place.path)
        working_copy.output, working_copy.state = detached
        after = detached.state
        if after.is_alike(before):
            return self._record_preview(
                step._replace(move="modify", before=before, after=after, unchanged=True), action, answer
            )
        changed = step._replace(
            move="create" if before is None else "modify", before=before, after=after, source=source_of(step)
        )
        return self._record_preview(changed, action, answer)

    def _save_results(self, step: PlanStep, action: SqlAction, files: SqlFiles) -> PlanStep:
        place = self._context.drafted_plan.places[step.path]
        most = self._config.limits.max_file_bytes
        before = read_results_state(place, most)
        require_hash(step.expected_before, before, place.path)
        form = format_of(files.results or "") or ""
        results_path = self._context.folder.folder(f"results-{step.number}") / f"results.{form}"
        saving = _Saving(results_path, self._context.mode(step, before))
        if server_of(action, self._config) is not None:
            answer = self._save_server_rows(step, action, results_path)
        elif files.database is None:
            scratch = self._context.folder.folder(f"memory-{step.number}") / "memory"
            answer = self._run(step, action, files, scratch, "memory", reads_only=files.closed, saving=saving)
        else:
            working_copy = self._context.working_copy(files.database)
            if working_copy.state is None:
                raise missing(working_copy.place.path, "there is no such database")
            working_copy.ensure_file(self._engine.require_not_cancelled)
            answer = self._run(
                step, action, files, working_copy.path, working_copy.alias, reads_only=True, saving=saving
            )
        detached = detach_file(results_path, saving.mode, most, where=place.path, too_large=too_large)
        self._context.prepared.descriptors[source_of(step)] = detached.descriptor
        require_hash(step.expected_after, detached.state, place.path)
        self._context.outputs[files.results or ""] = detached
        saved = step._replace(move="create" if before is None else "modify", before=before, after=detached.state)
        if detached.state.is_alike(before):
            return self._record_preview(saved._replace(unchanged=True), action, answer, changes_database=False)
        return self._record_preview(saved._replace(source=source_of(step)), action, answer, changes_database=False)

    def _save_server_rows(self, step: PlanStep, action: SqlAction, results_path: Path) -> DuckdbAnswer:
        context = self._context
        plan_context = PlanContext(context.drafted_plan.plan, self._config, context.root)
        saved = save_server_rows(
            plan_context, action, context.engines.servers, context.folder, results_path, context.seconds_for(step)
        )
        for path, digest in saved.read.items():
            context.bind(path, digest)
        self._servers[action.action_id] = saved.server
        return saved.answer

    # --- shared by both kinds

    def _run(
        self,
        step: PlanStep,
        action: SqlAction,
        files: SqlFiles,
        database: Path,
        alias: str,
        *,
        reads_only: bool,
        saving: "_Saving | None" = None,
    ) -> DuckdbAnswer:
        operation = action.operation
        return self._engine.run(
            ContentQuestion(
                text=self._text(action, files),
                parameters=operation.parameters,
                database=database,
                alias=alias,
                reads_only=reads_only,
                expect_results=operation.expect_results,
                results=None if saving is None else saving.path,
                form=None if saving is None else format_of(files.results or ""),
                seconds=self._context.seconds_for(step),
                results_mode=NEW_FILE if saving is None else saving.mode,
            ),
            meanwhile=self._context.report_progress,
        )

    def _text(self, action: SqlAction, files: SqlFiles) -> bytes:
        """Return the text. The host reads it, so that what runs is what the approval binds."""
        if files.query_file is None:
            return (action.operation.query or "").encode("utf-8", "surrogatepass")
        return read_query(self._context, files.query_file)

    def _record_preview(
        self, step: PlanStep, action: SqlAction, answer: DuckdbAnswer, *, changes_database: bool | None = None
    ) -> PlanStep:
        files = sql_files(action, self._config)
        changes = not step.unchanged if changes_database is None else changes_database
        operation = action.operation
        inputs = TextInputs(operation.connection, operation.parameters)
        record_sql_preview(self._context, step, files, inputs, answer, changes_database=changes)
        if (server := self._servers.get(action.action_id)) is not None:
            previews = self._context.prepared.sql
            previews[step.number] = previews[step.number].model_copy(update={"server": server})
        return step._replace(summary=summarize_answer(answer, files.results))


class _Saving(NamedTuple):
    """The file that rows are saved to, and its mode."""

    path: Path
    mode: int


class TextInputs(NamedTuple):
    """The connection and the parameters that a text runs with."""

    connection: str
    parameters: Mapping[str, Any]


def record_sql_preview(
    context: PreparationContext,
    step: PlanStep,
    files: SqlFiles,
    inputs: TextInputs,
    answer: DuckdbAnswer,
    *,
    changes_database: bool,
) -> None:
    """Record what the preview shows of the action, and the findings in its results that a person must approve."""
    saves = files.results is not None and not step.unchanged
    if saves:
        context.prepared.findings.extend((files.changed, found) for found in answer.findings)
    context.prepared.remarks.extend(PreviewedRemark(path=files.changed, what=remark) for remark in answer.remarks)
    context.prepared.sql[step.number] = SqlPreviewed(
        action_id=step.action_id,
        connection=inputs.connection,
        database=files.database,
        changes_database=changes_database,
        statements=answer.statements,
        left_out=answer.left_out,
        result_rows=answer.result_rows,
        columns=answer.columns,
        saved_to=files.results,
        query_file=files.query_file,
        rows=answer.rows,
        **describe_text(answer, inputs.parameters),
        replaces=saves and step.before is not None,
    )


def read_query(context: PreparationContext, path: str) -> bytes:
    """Return the text of a query file, which the approval binds."""
    text, digest = read_below(context.root, path, min(context.config.limits.max_file_bytes, MAX_QUERY_BYTES))
    context.bind(path, digest)
    return text


def _locate_problem(problem: RemitError, action: SqlAction, files: SqlFiles) -> RemitError:
    what, next_step = problem.what, problem.next_step
    if problem.reason is Reason.TOO_LARGE:  # the text is sent separately, so the parameters are too large
        what, where = "its parameters are too large to be sent to the engine", f"action {action.action_id}, parameters"
        next_step = "Put large values into the text, or into a table first."
    elif is_of_the_text(problem.where):
        where = files.query_file or f"action {action.action_id}, query"
    else:
        inside = {"the database": files.database or "", "the file of the results": files.results or ""}
        where = inside.get(problem.where, problem.where)
    if _READ_ONLY in what:
        next_step = (
            f"Leave it out: the connection {action.operation.connection} has `read_only: true` in remit.yaml."
            if files.closed
            else "Split it into two actions: one that changes the database, and one that saves rows of it."
        )
    return EnvironmentFailureError(problem.reason, what, where=where, next_step=next_step)


def _explain_missing_database(problem: RemitError) -> RemitError:
    """Add that the database is missing. Otherwise a wrong path in remit.yaml looks like a wrong statement."""
    if problem.reason is not Reason.SQL_FAILED:
        return problem
    what = f"{problem.what}; the database does not exist yet, so it started empty"
    return problem.with_changes(what=what)
