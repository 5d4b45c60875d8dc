"""Which actions of a plan run a program or statements, and are not just edits of files. Pure."""

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import PipelineAction, Plan, SqlAction
from remit.plans.policy.remote_sql import is_remote, server_of


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
