"""The time limits for the parts of a plan. Pure.

The config limits each kind of work. A plan may ask for less time and never for more. Remit refuses a plan that asks for
more. In addition, every deadline is computed from the smaller of the two values.
"""

from collections.abc import Iterator
from typing import NamedTuple

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import Action, PipelineAction, Plan, SchemaUpdate, SqlAction
from remit.core.errors import Reason
from remit.execution.decision import Denial


class Allowed(NamedTuple):
    """The time that the config allows, and the setting that says so."""

    seconds: int
    setting: str


def allowed_seconds(action: Action, config: SystemConfig) -> Allowed:
    timeouts = config.timeouts
    match action:
        case SqlAction():
            return Allowed(timeouts.sql, "timeouts.sql")
        case PipelineAction():
            name = action.operation.pipeline
            pipeline = config.pipelines.get(name)
            if pipeline is not None and pipeline.timeout_seconds is not None:
                return Allowed(pipeline.timeout_seconds, f"pipelines.{name}.timeout_seconds")
            return Allowed(timeouts.pipeline, "timeouts.pipeline")
        case SchemaUpdate():
            return Allowed(timeouts.schema_update, "timeouts.schema_update")
        case _:
            return Allowed(timeouts.file_operation, "timeouts.file_operation")


def seconds_for(action: Action, config: SystemConfig) -> int:
    """Return the time limit of one action: what the plan asks for, at most what the config allows."""
    return _shortest(action.timeout_seconds, allowed_seconds(action, config).seconds)


def plan_seconds(plan: Plan, config: SystemConfig) -> int:
    """Return the time limit of the whole plan: what it asks for, at most what the config allows."""
    return _shortest(plan.execution_instructions.timeout_seconds, config.timeouts.task)


def find_timeout_denials(plan: Plan, config: SystemConfig) -> Iterator[Denial]:
    """Yield a denial for each request for more time than the config allows. It is refused before anything runs."""
    for action in plan.action_plan:
        allowed = allowed_seconds(action, config)
        if action.timeout_seconds is not None and action.timeout_seconds > allowed.seconds:
            yield _too_long(action.timeout_seconds, allowed, f"action {action.action_id}, timeout_seconds")
    whole = plan.execution_instructions.timeout_seconds
    if whole is not None and whole > config.timeouts.task:
        allowed = Allowed(config.timeouts.task, "timeouts.task")
        yield _too_long(whole, allowed, "execution_instructions, timeout_seconds")


def _shortest(requested: int | None, allowed: int) -> int:
    return allowed if requested is None else min(requested, allowed)


def _too_long(requested: int, allowed: Allowed, where: str) -> Denial:
    return Denial(
        Reason.LIMIT_EXCEEDED,
        f"the plan asks for {requested:,} seconds, and {allowed.setting} in remit.yaml allows {allowed.seconds:,}",
        where=where,
        next_step=f"Ask for at most {allowed.seconds:,} seconds, or have a person raise {allowed.setting}.",
    )
