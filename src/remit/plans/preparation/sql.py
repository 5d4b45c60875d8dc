"""An action that runs SQL, run on a copy before anything is decided: it becomes a change of a file.

The step then has its states before and after, and takes its new bytes from the descriptor of a prepared file, as a file
that is restored does. If the process dies, so does what it had prepared.
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
from remit.plans.engines.database_files import keep, require_idle
from remit.plans.engines.duckdb import ContentQuestion, DuckdbAnswer, is_of_the_text, sentence
from remit.plans.engines.input_files import look_at_results, read_below
from remit.plans.policy.remote_sql import server_of
from remit.plans.policy.sql import SqlFiles, format_of, sql_files
from remit.plans.preparation.database_versions import PreparationContext, source_of
from remit.plans.preparation.remote_sql import Scene, save_rows
from remit.plans.preparation.sql_preview import told_of_text

MAX_QUERY_BYTES: Final = 4 << 20

_READ_ONLY: Final = "this text is to read only"
"""The engine's words for a statement that may change what it must not."""


class SqlOnCopies:
    """The actions of one plan that run SQL."""

    def __init__(self, bench: PreparationContext) -> None:
        self._bench, self._config, self._engine = bench, bench.config, bench.engine
        self._servers: dict[str, str] = {}
        """By action: the address of the server that its rows are of."""

    def prepare(self, step: PlanStep, action: SqlAction) -> PlanStep:
        """Raises what the action cannot be done for."""
        files = sql_files(action, self._config)
        if files.results is None:
            return self._change_database(step, action, files)
        return self._save_results(step, action, files)

    def placed(self, problem: RemitError, action: SqlAction) -> RemitError:
        """With the place in the plan, or the file, where the process that ran the text could not know it."""
        return _placed(problem, action, sql_files(action, self._config))

    # --- the two kinds

    def _change_database(self, step: PlanStep, action: SqlAction, files: SqlFiles) -> PlanStep:
        lineage = self._bench.lineage(files.database or "")
        before = lineage.state
        require_hash(step.expected_before, before, lineage.place.path)
        if files.reads_only and before is None:
            raise missing(lineage.place.path, "there is no such database")
        lineage.ensure_file(self._engine.require_wanted)
        try:
            answer = self._run(step, action, files, lineage.path, lineage.alias, reads_only=files.reads_only)
        except RemitError as problem:
            raise problem if before is not None else _began_empty(problem) from None
        if not answer.changed:
            if before is None:
                raise missing(lineage.place.path, "there is no such database, and none of the statements makes one")
            require_hash(step.expected_after, before, lineage.place.path)
            return self._told(step._replace(move="modify", before=before, after=before, unchanged=True), action, answer)
        require_idle(lineage.place, writes=True)
        kept = self._bench.keep_database(step, lineage)
        require_hash(step.expected_after, kept.state, lineage.place.path)
        lineage.left, lineage.state = kept
        after = kept.state
        if after.is_alike(before):
            return self._told(step._replace(move="modify", before=before, after=after, unchanged=True), action, answer)
        changed = step._replace(
            move="create" if before is None else "modify", before=before, after=after, source=source_of(step)
        )
        return self._told(changed, action, answer)

    def _save_results(self, step: PlanStep, action: SqlAction, files: SqlFiles) -> PlanStep:
        place = self._bench.ground.places[step.path]
        most = self._config.limits.max_file_bytes
        before = look_at_results(place, most)
        require_hash(step.expected_before, before, place.path)
        form = format_of(files.results or "") or ""
        made = self._bench.folder.folder(f"results-{step.number}") / f"results.{form}"
        saving = _Saving(made, self._bench.mode(step, before))
        if server_of(action, self._config) is not None:
            answer = self._rows_of_server(step, action, made)
        elif files.database is None:
            scratch = self._bench.folder.folder(f"memory-{step.number}") / "memory"
            answer = self._run(step, action, files, scratch, "memory", reads_only=files.closed, saving=saving)
        else:
            lineage = self._bench.lineage(files.database)
            if lineage.state is None:
                raise missing(lineage.place.path, "there is no such database")
            lineage.ensure_file(self._engine.require_wanted)
            answer = self._run(step, action, files, lineage.path, lineage.alias, reads_only=True, saving=saving)
        kept = keep(made, saving.mode, most, where=place.path, too_large=too_large)
        self._bench.prepared.descriptors[source_of(step)] = kept.descriptor
        require_hash(step.expected_after, kept.state, place.path)
        self._bench.left[files.results or ""] = kept
        saved = step._replace(move="create" if before is None else "modify", before=before, after=kept.state)
        if kept.state.is_alike(before):
            return self._told(saved._replace(unchanged=True), action, answer, changes_database=False)
        return self._told(saved._replace(source=source_of(step)), action, answer, changes_database=False)

    def _rows_of_server(self, step: PlanStep, action: SqlAction, made: Path) -> DuckdbAnswer:
        bench = self._bench
        scene = Scene(bench.ground.plan, self._config, bench.root)
        saved = save_rows(scene, action, bench.engines.servers, bench.folder, made, bench.seconds_for(step))
        for path, digest in saved.read.items():
            bench.bind(path, digest)
        self._servers[action.action_id] = saved.server
        return saved.answer

    # --- what both need

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
                seconds=self._bench.seconds_for(step),
                results_mode=NEW_FILE if saving is None else saving.mode,
            ),
            meanwhile=self._bench.say_how_far,
        )

    def _text(self, action: SqlAction, files: SqlFiles) -> bytes:
        """Read by us, so that what runs is what the approval binds."""
        if files.query_file is None:
            return (action.operation.query or "").encode("utf-8", "surrogatepass")
        return read_query(self._bench, files.query_file)

    def _told(
        self, step: PlanStep, action: SqlAction, answer: DuckdbAnswer, *, changes_database: bool | None = None
    ) -> PlanStep:
        files = sql_files(action, self._config)
        changes = not step.unchanged if changes_database is None else changes_database
        operation = action.operation
        by = Bound(operation.connection, operation.parameters)
        tell_sql(self._bench, step, files, by, answer, changes_database=changes)
        if (server := self._servers.get(action.action_id)) is not None:
            told = self._bench.prepared.told
            told[step.number] = told[step.number].model_copy(update={"server": server})
        return step._replace(said=sentence(answer, files.results))


class _Saving(NamedTuple):
    """Where rows are saved to, and the mode that the file will have."""

    path: Path
    mode: int


class Bound(NamedTuple):
    """What a text runs with."""

    connection: str
    parameters: Mapping[str, Any]


def tell_sql(
    bench: PreparationContext,
    step: PlanStep,
    files: SqlFiles,
    by: Bound,
    answer: DuckdbAnswer,
    *,
    changes_database: bool,
) -> None:
    """What a preview tells of it, and what in its results a person has to approve."""
    saves = files.results is not None and not step.unchanged
    if saves:
        bench.prepared.findings.extend((files.changed, found) for found in answer.findings)
    bench.prepared.remarks.extend(PreviewedRemark(path=files.changed, what=said) for said in answer.remarks)
    bench.prepared.told[step.number] = SqlPreviewed(
        action_id=step.action_id,
        connection=by.connection,
        database=files.database,
        changes_database=changes_database,
        statements=answer.statements,
        left_out=answer.left_out,
        result_rows=answer.result_rows,
        columns=answer.columns,
        saved_to=files.results,
        query_file=files.query_file,
        rows=answer.rows,
        **told_of_text(answer, by.parameters),
        replaces=saves and step.before is not None,
    )


def read_query(bench: PreparationContext, path: str) -> bytes:
    """The text of a query file, bound by the approval."""
    text, digest = read_below(bench.root, path, min(bench.config.limits.max_file_bytes, MAX_QUERY_BYTES))
    bench.bind(path, digest)
    return text


def _placed(problem: RemitError, action: SqlAction, files: SqlFiles) -> RemitError:
    what, next_step = problem.what, problem.next_step
    if problem.reason is Reason.TOO_LARGE:  # the text has a way of its own, so it is they that do not fit
        what, where = "its parameters are too large to be handed over", f"action {action.action_id}, parameters"
        next_step = "Put large values into the text, or into a table first."
    elif is_of_the_text(problem.where):
        where = files.query_file or f"action {action.action_id}, query"
    else:
        inside = {"the database": files.database or "", "the file of the results": files.results or ""}
        where = inside.get(problem.where, problem.where)
    if _READ_ONLY in what:
        next_step = (
            f"Leave it out: the connection {action.operation.connection} is read_only in remit.yaml."
            if files.closed
            else "Make two actions of it: one that changes the database, and one that saves rows of it."
        )
    return EnvironmentFailureError(problem.reason, what, where=where, next_step=next_step)


def _began_empty(problem: RemitError) -> RemitError:
    """A wrong path in remit.yaml reads like a wrong statement else."""
    if problem.reason is not Reason.SQL_FAILED:
        return problem
    what = f"{problem.what}; there is no such database yet, so it began empty"
    return problem.with_changes(what=what)
