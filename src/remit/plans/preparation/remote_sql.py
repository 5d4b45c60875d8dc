"""Previews the effect of a plan on its database server, in the way that its connection allows (`preview`).

`execute` runs the statements in one transaction, and rolls that back. So the preview reports tables and rows as the
server counted them, and an approval binds a digest of what the actions found. While the preview runs, the rows that it
changes are locked, as they are when the plan is applied. `explain` lets the server plan the statements. `off` contacts
no server. Without a run, an approval binds the texts, and with `explain` also the definitions of the tables.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.contracts.config.config import PostgresqlConnection, SystemConfig
from remit.contracts.plans.envelope import ApprovedInput
from remit.contracts.plans.pipeline_report import PipelineTold, ToldStep
from remit.contracts.plans.plan import Action, PipelineAction, Plan, SqlAction
from remit.contracts.plans.sql_report import MAX_TABLES_TOLD, SqlPreviewed
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.plans.engines.database_files import WorkFolder
from remit.plans.engines.duckdb import DuckdbAnswer, is_of_the_text, summarize_answer
from remit.plans.engines.input_files import read_below
from remit.plans.engines.postgres import ActionResult, PostgresEngine, PostgresResult, SqlText
from remit.plans.engines.postgres_messages import bound_of_texts
from remit.plans.engines.postgres_servers import PostgresServer
from remit.plans.model.remote_part import RemotePart, changed_table
from remit.plans.policy.dependencies import order_actions
from remit.plans.policy.remote_sql import is_remote, server_of, texts_of
from remit.plans.policy.sql import touched_by
from remit.plans.policy.timeouts import seconds_for
from remit.plans.preparation.sql_preview import describe_text
from remit.plans.preparation.unexecuted_sql import COMPUTED, notes_of, read_texts
from remit.plans.reports.run_data import RemoteAction

MAX_QUERY_BYTES: Final = 4 << 20
_NAMED: Final = 5
_READ_ONLY: Final = ("the transaction is read-only", "this text may only read")


class Servers(NamedTuple):
    """The engines and addresses for database servers."""

    engine: PostgresEngine
    uncancellable: PostgresEngine
    """An engine that cannot be cancelled. It finds out how a transaction ended."""
    find: Callable[[str], PostgresServer]
    """Returns the server of a connection by its name. Refuses an unknown connection or address."""
    work: Path
    """The folder in which work folders are made."""
    on_progress: Callable[[int, int], None] = lambda _done, _total: None


class PlanContext(NamedTuple):
    """A plan with its configuration and root."""

    plan: Plan
    config: SystemConfig
    root: str


class PreparedStatements(NamedTuple):
    """The statements to run when the plan is applied: exactly the texts of the preview. Kept in memory only."""

    server: PostgresServer
    texts: tuple[SqlText, ...]
    reads_only: bool
    seconds: float
    preview: str = "execute"
    """What a preview does on the server: `execute`, `explain` or `off`, as the connection says."""
    most_backup_bytes: int | None = None
    """The limit for all backups of the plan, before-images of rows included. None: no limit."""


class RemotePreview(NamedTuple):
    part: RemotePart
    statements: PreparedStatements
    inputs: tuple[ApprovedInput, ...]
    """The query files, and the state that was found on the server."""


class SavedRows(NamedTuple):
    """Rows of a server, saved to a file."""

    answer: DuckdbAnswer
    read: Mapping[str, str]
    """The files that hold the texts, with their digests."""
    server: str


def preview_remote_part(
    plan_context: PlanContext, servers: Servers, first_number: int, seconds: float, *, in_earnest: bool
) -> RemotePreview | None:
    """Preview the remote part of a plan, or return None for a plan without one.

    The failure of an action becomes its problem and is not raised. A lock that another session holds is raised, since
    nothing is known about the plan then. `in_earnest` means that the plan is about to be applied.
    """
    plan, config, _ = plan_context
    found = prepare_statements(plan_context, servers, seconds, first_number=first_number)
    if found is None:
        return None
    statements, read = found
    bound, server = dict(read), statements.server
    actions = _ordered_actions(plan, config)
    name = server_of(actions[0], config) or ""
    servers.on_progress(0, len(actions))
    found_out = _find_out(servers, statements, in_earnest=in_earnest)
    servers.on_progress(len(actions), len(actions))
    results = {one.number: one for one in found_out.actions}
    acted = tuple(
        _build_action(number, action, results.get(number), found_out, server, config)
        for number, action in enumerate(actions, start=first_number)
    )
    acted = _mark_all_irreversible(acted)
    size = 0 if any(one.irreversible for one in acted) else found_out.image_bytes
    part = RemotePart(name, server.where, acted, found_out.bound, size, found_out.computed)
    _require_declared_irreversible(actions, part)
    bound[bound_as(name)] = found_out.bound
    inputs = [ApprovedInput.from_tree({"path": path, "digest": digest}) for path, digest in sorted(bound.items())]
    return RemotePreview(part, statements, tuple(inputs))


def prepare_statements(
    plan_context: PlanContext, servers: Servers, seconds: float, *, first_number: int
) -> tuple[PreparedStatements, Mapping[str, str]] | None:
    """Return the statements of the remote part, and the digests of the query files by their paths.

    None for a plan without a remote part. Contacts no server and runs nothing: it reads the query files below the root,
    and the URL of the connection. `seconds`: the time of the whole plan. `first_number`: the number of the first
    action as the preview counted it, which is `RemotePart.actions[0].number`, or how many steps the plan has.
    """
    plan, config, root = plan_context
    actions = _ordered_actions(plan, config)
    if not actions:
        return None
    read: dict[str, str] = {}
    texts = [
        text
        for number, action in enumerate(actions, start=first_number)
        for text in _texts(number, action, config, root, read)
    ]
    name = server_of(actions[0], config) or ""
    connection = config.connections.get(name)
    reads_only = isinstance(connection, PostgresqlConnection) and connection.read_only
    how = connection.preview if isinstance(connection, PostgresqlConnection) else "off"
    most = min(seconds, float(sum(seconds_for(each, config) for each in actions)))
    most_bytes = config.limits.max_backup_bytes
    return PreparedStatements(servers.find(name), tuple(texts), reads_only, most, how, most_bytes), read


def bound_as(connection: str) -> str:
    """Return the name under which an approval binds the state of a server. It ends with a slash, as no file does."""
    return f"connection:{connection}/"


def is_bound_server(path: str) -> bool:
    return path.startswith("connection:") and path.endswith("/")


def save_server_rows(
    plan_context: PlanContext,
    action: SqlAction,
    servers: Servers,
    folder: WorkFolder,
    results_path: Path,
    seconds: float,
) -> SavedRows:
    """Run an action that saves rows of a server to a new file, and reads only.

    The rows are as the actions before it would leave them: those are run first, and rolled back.
    """
    plan, config, root = plan_context
    _require_execution(config, action)
    bound: dict[str, str] = {}
    earlier = _ordered_actions(plan, config, before=action)
    texts = [text for number, each in enumerate(earlier) for text in _texts(number, each, config, root, bound)]
    (last_text,) = _texts(len(earlier), action, config, root, bound)
    texts.append(last_text._replace(results=results_path, form=results_path.suffix[1:]))
    server = servers.find(action.operation.connection)
    result = servers.engine.preview(
        server, texts, reads_only=not earlier, seconds=seconds, stop_on_error=False, folder=folder
    )
    _discard_images(result)
    if result.definitions is not None:
        raise RefusedError(
            Reason.CAPABILITY_UNSUPPORTED,
            f"rows are saved before the approval, and {result.why}",
            next_step="Leave out what a rollback does not undo, or make a separate plan for it.",
        )
    for one in result.actions:
        if one.problem is not None and one.number < len(earlier):
            raise _earlier_failed_error(earlier[one.number], action)
        if one.problem is not None:
            raise _error_of(one.problem)
    last = result.actions[-1]
    if last.answer is None or last.number != len(earlier):
        raise EnvironmentFailureError(Reason.EFFECT_FAILED, "the server's rows were not saved, for an unknown reason")
    if last.tables or last.irreversible:
        raise EnvironmentFailureError(
            Reason.SQL_REFUSED,
            "this text is to read only, and changes something",
            next_step="Split it into two actions: one that changes the database, and one that saves rows of it.",
        )
    return SavedRows(last.answer, bound, server.where)


def summarize_remote_pipelines(plan: Plan, config: SystemConfig, part: RemotePart) -> dict[str, PipelineTold]:
    """Return the reports of remote pipelines by the ids of their actions. Row counts are with the tables under `sql`,
    since a server counts the rows of all actions together.
    """
    actions = {action.action_id: action for action in plan.action_plan if isinstance(action, PipelineAction)}
    return {
        acted.action_id: PipelineTold(
            action_id=acted.action_id,
            pipeline=actions[acted.action_id].operation.pipeline,
            description=config.pipelines[actions[acted.action_id].operation.pipeline].description,
            kind="sql",
            reversible=not acted.irreversible,
            server=part.server[:1_000],
            steps=tuple(_report_steps([one.name for one in texts_of(actions[acted.action_id], config)], acted)),
        )
        for acted in part.actions
        if acted.action_id in actions
    }


# --- inside ----------------------------------------------------------------------------------------------------------


def _ordered_actions(plan: Plan, config: SystemConfig, before: Action | None = None) -> list[Action]:
    """Return the actions of the remote part in the order of execution; with `before`, only those that run before it."""
    if not any(is_remote(action, config) for action in plan.action_plan):
        return []
    ordered = [plan.action_plan[index] for index in order_actions(plan.action_plan, touched_by(config))]
    end = len(ordered) if before is None else ordered.index(before)
    return [action for action in ordered[:end] if is_remote(action, config)]


def _texts(number: int, action: Action, config: SystemConfig, root: str, bound: dict[str, str]) -> list[SqlText]:
    """Return the texts of an action. The host reads them, so that what runs is what the approval binds."""
    operation: Any = action.operation
    most = min(config.limits.max_file_bytes, MAX_QUERY_BYTES)
    texts = []
    for one in texts_of(action, config):
        text = (one.query or "").encode("utf-8", "surrogatepass")
        if one.query_file is not None:
            text, bound[one.query_file] = read_below(root, one.query_file, most)
        parameters = dict(operation.parameters)
        if isinstance(action, PipelineAction):  # each file takes the parameters that it names
            parameters = {name: value for name, value in parameters.items() if _mentions_parameter(text, name)}
        expects = isinstance(action, SqlAction) and action.operation.expect_results
        texts.append(SqlText(number, one.name, text, parameters, expects, None, None))
    return texts


def _mentions_parameter(text: bytes, name: str) -> bool:
    return re.search(rb"\$" + re.escape(name.encode()) + rb"(?!\w)", text) is not None


class _FoundOut(NamedTuple):
    """What a preview found out about the remote part, in one of the three ways."""

    computed: str
    actions: tuple[ActionResult, ...]
    bound: str
    image_bytes: int = 0
    why: str = ""
    """The reason why the server ran nothing although it was allowed to."""


def _find_out(servers: Servers, statements: PreparedStatements, *, in_earnest: bool) -> _FoundOut:
    if statements.preview == "off":
        actions = read_texts(statements.texts, reads_only=statements.reads_only)
        return _FoundOut("off", actions, bound_of_texts("off", statements.server.where, statements.texts))
    try:
        result = _try_statements(servers, statements, in_earnest=in_earnest)
    except EnvironmentFailureError as problem:
        if problem.reason is not Reason.DATABASE_BUSY or not statements.server.lock_seconds_left:
            raise
        # If two transactions wait for each other's locks, the server stops one. After the other it can succeed.
        result = _try_statements(servers, statements, in_earnest=in_earnest)
    if result.definitions is None:
        return _FoundOut("execute", result.actions, result.bound, _discard_images(result))
    bound = bound_of_texts("explain", statements.server.where, statements.texts, result.definitions)
    return _FoundOut("explain", result.actions, bound, why=result.why)


def _try_statements(servers: Servers, statements: PreparedStatements, *, in_earnest: bool) -> PostgresResult:
    """Run or explain all statements, and report the failure of each action, not only of the first one."""
    try:
        with WorkFolder.make(servers.work) as folder:
            if statements.preview != "execute":
                return servers.engine.explain(
                    statements.server,
                    statements.texts,
                    reads_only=statements.reads_only,
                    seconds=statements.seconds,
                    folder=folder,
                )
            return servers.engine.preview(
                statements.server,
                statements.texts,
                reads_only=statements.reads_only,
                seconds=statements.seconds,
                stop_on_error=False,
                folder=folder,
                in_earnest=in_earnest,
            )
    except RemitError as problem:  # it concerns all actions together
        where = statements.server.where if is_of_the_text(problem.where) else problem.where
        raise problem.with_changes(where=where) from None


def _discard_images(result: PostgresResult) -> int:
    """Close the before-images of a transaction that was rolled back. Return their size."""
    if result.images is None:
        return 0
    os.close(result.images.descriptor)
    return result.images.state.size


def _build_action(
    number: int,
    action: Action,
    result: ActionResult | None,
    found_out: _FoundOut,
    server: PostgresServer,
    config: SystemConfig,
) -> RemoteAction:
    if result is None or result.answer is None:
        problem = None if result is None or result.problem is None else _locate_problem(result.problem, action, config)
        return RemoteAction(number, action.action_id, action.action_type, "", None, problem)
    operation: Any = action.operation
    answer = result.answer
    files = {one.query_file for one in texts_of(action, config)}
    preview = SqlPreviewed(
        action_id=action.action_id,
        connection=server.name,
        database=None,
        changes_database=bool(answer.changed or result.tables or result.irreversible),
        statements=answer.statements,
        left_out=answer.left_out,
        result_rows=answer.result_rows,
        columns=answer.columns,
        query_file=next(iter(files)) if len(files) == 1 else None,  # a pipeline with several files names none
        rows=answer.rows,
        **describe_text(answer, operation.parameters),
        server=server.where[:1_000],
        tables=tuple(changed_table(*table) for table in result.tables[:MAX_TABLES_TOLD]),
        irreversible=result.irreversible[:10_000] or None,
        computed=COMPUTED[found_out.computed],
        notes=notes_of(found_out.computed, found_out.why, result.notes),
    )
    problem = None if result.problem is None else _locate_problem(result.problem, action, config)
    return RemoteAction(number, action.action_id, action.action_type, summarize_answer(answer, None), preview, problem)


def _mark_all_irreversible(actions: tuple[RemoteAction, ...]) -> tuple[RemoteAction, ...]:
    """Mark all actions irreversible if one is: rows are rolled back together or not at all, since a half may be
    inconsistent.
    """
    irreversible = [one.action_id for one in actions if one.irreversible]
    if not irreversible:
        return actions
    why = f"rows are rolled back together with those of {', '.join(irreversible[:_NAMED])}, which cannot be"
    return tuple(
        one._replace(told=one.told.model_copy(update={"irreversible": why}))
        if one.told is not None and one.told.changes_database and not one.irreversible
        else one
        for one in actions
    )


def _require_execution(config: SystemConfig, action: SqlAction) -> None:
    """Refuse to save rows of a server whose statements a preview may not run. An approval is of the saved bytes."""
    name = action.operation.connection
    connection = config.connections.get(name)
    if isinstance(connection, PostgresqlConnection) and connection.preview != "execute":
        raise RefusedError(
            Reason.CAPABILITY_UNSUPPORTED,
            f"rows of a server are saved to a file before the plan is approved, and the connection {name} has"
            f" `preview: {connection.preview}`, so no statement runs before",
            next_step="Ask a person to set `preview: execute` for the connection in remit.yaml, or leave out "
            "`save_results_to`.",
        )


def _locate_problem(problem: Mapping[str, str], action: Action, config: SystemConfig) -> dict[str, str]:
    """Return the problem with its place in the plan, where the process that ran the text could not know it."""
    files = {one.query_file for one in texts_of(action, config)}
    where = problem.get("where", "")
    if where not in files:
        inside = f"action {action.action_id}, query"
        where = next(iter(file for file in files if file), inside) if len(files) == 1 else inside
    if isinstance(action, PipelineAction) and _has_reason(problem, Reason.SQL_FAILED):
        problem = {**problem, "reason": Reason.PIPELINE_FAILED.value}
    name = server_of(action, config) or ""
    connection = config.connections.get(name)
    is_closed = isinstance(connection, PostgresqlConnection) and connection.read_only
    if is_closed and any(text in problem.get("what", "") for text in _READ_ONLY):
        advice = f"Leave it out: the connection {name} has `read_only: true` in remit.yaml."
        problem = {**problem, "next_step": advice}
    return {**problem, "where": where}


def _require_declared_irreversible(actions: Sequence[Action], part: RemotePart) -> None:
    """Refuse a pipeline that the plan calls reversible and that is not."""
    for action, acted in zip(actions, part.actions, strict=True):
        if isinstance(action, PipelineAction) and action.reversible and acted.irreversible:
            raise RefusedError(
                Reason.MALFORMED,
                f"the plan calls this pipeline reversible, and it is not: {acted.irreversible}",
                where=f"action {action.action_id}, reversible",
                next_step=f'Write `"reversible": false`, and approve it: --allow-irreversible {action.action_id!r}',
            )


def _has_reason(problem: Mapping[str, str], reason: Reason) -> bool:
    return problem.get("reason") == reason.value


def _earlier_failed_error(earlier: Action, action: SqlAction) -> RemitError:
    """Return the error for an action whose rows depend on an earlier one. The earlier one has the error itself."""
    return RefusedError(
        Reason.DEPENDENCY_FAILED,
        f"this action reads what {earlier.action_id} would change, and {earlier.action_id} cannot be done",
        where=action.operation.save_results_to or "",
        next_step=f"Fix {earlier.action_id} first.",
    )


def _error_of(problem: Mapping[str, str]) -> RemitError:
    details = {name: problem.get(name, "") for name in ("where", "next_step")}
    return EnvironmentFailureError(Reason(problem["reason"]), problem.get("what", ""), **details)


def _report_steps(names: Sequence[str], acted: RemoteAction) -> Iterator[ToldStep]:
    """Yield the steps: all done, or done up to the failed one. A problem without a step belongs to the first one."""
    where = (acted.problem or {}).get("where", "")
    failed = None if acted.problem is None else names.index(where) if where in names else 0
    for number, name in enumerate(names):
        if failed is None or number < failed:
            yield ToldStep(name=name[:1_000], state="done")
        else:
            yield ToldStep(name=name[:1_000], state="failed" if number == failed else "skipped")
