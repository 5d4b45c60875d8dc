"""Which plans run SQL or pipelines, and whether computing a preview does, by the plan and the configuration. Pure.

Edits of files are computed from their text. SQL and pipelines have to run before their effect can be shown: on copies
of files, or on a server in a transaction that is rolled back. A server connection can be set up so that statements are
explained and not run (`preview`).
"""

from remit.contracts.config.config import PostgresqlConnection, SqlPipeline, SystemConfig
from remit.contracts.plans.plan import PipelineAction, Plan, SqlAction
from remit.contracts.plans.validation_rules import SqlExpect
from remit.plans.policy.pipelines import pipeline_of
from remit.plans.policy.remote_sql import is_remote, server_of


def executes_something(plan: Plan, config: SystemConfig) -> bool:
    """Return whether computing the preview runs SQL or a pipeline. What is not known is taken for something that runs.

    It depends on the text of the plan and on the configuration alone, so an agent may learn it.
    """
    for action in plan.action_plan:
        if isinstance(action, SqlAction) and _runs_on(action.operation.connection, config):
            return True
        if isinstance(action, PipelineAction):
            pipeline = pipeline_of(action, config)
            if not isinstance(pipeline, SqlPipeline) or _runs_on(pipeline.connection, config):
                return True
    return any(isinstance(rule, SqlExpect) and _runs_on(rule.connection, config) for rule in plan.validation_rules)


def _runs_on(name: str, config: SystemConfig) -> bool:
    connection = config.connections.get(name)
    if not isinstance(connection, PostgresqlConnection):
        return True
    return connection.preview == "execute"


def runs_something(plan: Plan) -> bool:
    """Whether an action runs SQL or a pipeline, on files or on a server."""
    return any(isinstance(action, SqlAction | PipelineAction) for action in plan.action_plan)


def runs_on_files(plan: Plan, config: SystemConfig) -> bool:
    """Whether an action runs SQL or a pipeline whose result is a file of the project."""
    return any(
        isinstance(action, SqlAction | PipelineAction) and not is_remote(action, config) for action in plan.action_plan
    )


def uses_server(plan: Plan, config: SystemConfig) -> bool:
    """Whether an action reads or changes rows on a database server. Those rows are inputs that no file shows."""
    return any(server_of(action, config) is not None for action in plan.action_plan)
