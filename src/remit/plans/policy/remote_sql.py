"""Actions of a plan on a PostgreSQL server, and the rules for such a plan. Pure.

An action that changes rows on a server changes no file, so it has no step. All such actions together are the *remote
part* of the plan: one transaction, which is committed after everything else is done. Therefore a plan has at most one
such server, and is applied as a whole or not at all. Rows that are saved to a file are a change of that file, like the
rows of any other query.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from remit.contracts.config.config import PostgresqlConnection, SqlPipeline, SystemConfig
from remit.contracts.plans.plan import Action, PipelineAction, Plan, SqlAction
from remit.core.errors import Reason
from remit.execution.decision import Denial
from remit.fs.paths import plain_spelling

FORMATS: Final = ("csv", "json")
"""The formats in which rows of a server can be saved to a file."""

_ALL_OR_NOTHING: Final = ("stop_on_error", "rollback_on_failure")


class TextOf(NamedTuple):
    """One SQL text that an action runs: its name for people, and the text or its file."""

    name: str
    query: str | None
    query_file: str | None
    """The file, in its normal spelling."""


def server_of(action: Action, config: SystemConfig) -> str | None:
    """Return the connection of an action that runs on a server, and None for any other action."""
    name = _connection(action, config)
    return name if isinstance(config.connections.get(name or ""), PostgresqlConnection) else None


def is_remote(action: Action, config: SystemConfig) -> bool:
    """Whether the action changes rows on a server. Then it has no step."""
    if server_of(action, config) is None:
        return False
    return not isinstance(action, SqlAction) or action.operation.save_results_to is None


def order_mark(action: Action, config: SystemConfig) -> Sequence[str]:
    """Return the mark that represents its server among the files that order actions. No file has such a name."""
    name = server_of(action, config)
    return [] if name is None else [f"connection:{name}/"]


def texts_of(action: Action, config: SystemConfig) -> tuple[TextOf, ...]:
    """Return the SQL texts that the action runs on the server, in order."""
    if isinstance(action, SqlAction):
        operation = action.operation
        file = None if operation.query_file is None else plain_spelling(operation.query_file)
        return (TextOf(file or "the query", operation.query, file),)
    pipeline = config.pipelines.get(action.operation.pipeline) if isinstance(action, PipelineAction) else None
    if not isinstance(pipeline, SqlPipeline):
        return ()
    return tuple(TextOf(file, None, file) for file in map(plain_spelling, pipeline.steps))


def find_remote_denials(plan: Plan, config: SystemConfig) -> Iterator[Denial]:
    """Yield a denial for each broken rule about actions on a server, except the rules about paths."""
    named = dict.fromkeys(name for action in plan.action_plan if (name := server_of(action, config)) is not None)
    if len(named) > 1:
        yield Denial(
            Reason.CAPABILITY_UNSUPPORTED,
            f"the plan uses {len(named)} PostgreSQL connections ({', '.join(named)}), and one is allowed",
            where="action_plan",
            next_step="Make a plan for each. Changes on two servers cannot be committed together.",
        )
    actions = [action for action in plan.action_plan if is_remote(action, config)]
    for action in actions:
        yield from _check_fields(action)
    for flag in _ALL_OR_NOTHING if actions else ():
        if not getattr(plan.execution_instructions, flag):
            yield Denial(
                Reason.CAPABILITY_UNSUPPORTED,
                f"a plan that changes a PostgreSQL database is applied as a whole or not at all, and {flag} is false",
                where=f"execution_instructions, {flag}",
                next_step=f"Leave {flag} out, or make a separate plan for action {actions[0].action_id}.",
            )


def _check_fields(action: Action) -> Iterator[Denial]:
    if action.target is not None:
        yield Denial(
            Reason.MALFORMED,
            "a target is a file, and an action on a PostgreSQL database changes no file",
            where=f"action {action.action_id}, target",
            next_step="Leave the target out.",
        )
    for field in ("expected_hash_before", "expected_hash_after"):
        if getattr(action, field) is not None:
            yield Denial(
                Reason.MALFORMED,
                "a hash belongs to a file, and an action on a PostgreSQL database changes no file",
                where=f"action {action.action_id}, {field}",
                next_step="Leave it out. The approval binds the current rows.",
            )


def _connection(action: Action, config: SystemConfig) -> str | None:
    if isinstance(action, SqlAction):
        return action.operation.connection
    pipeline = config.pipelines.get(action.operation.pipeline) if isinstance(action, PipelineAction) else None
    return pipeline.connection if isinstance(pipeline, SqlPipeline) else None
