"""Pipelines of query files on a database server, as they are told: they run with the plan's part elsewhere. Pure."""

from collections.abc import Iterator, Sequence

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.pipeline_report import PipelineTold, ToldStep
from remit.contracts.plans.plan import PipelineAction, Plan
from remit.plans.model.remote_part import RemotePart
from remit.plans.policy.remote_sql import texts_of
from remit.plans.reports.run_data import RemoteAction


def summarize_remote_pipelines(plan: Plan, config: SystemConfig, part: RemotePart) -> dict[str, PipelineTold]:
    """By the ids of their actions. The rows stand with the tables, under `sql`: a server counts them together."""
    actions = {action.action_id: action for action in plan.action_plan if isinstance(action, PipelineAction)}
    return {
        acted.action_id: PipelineTold(
            action_id=acted.action_id,
            pipeline=actions[acted.action_id].operation.pipeline,
            description=config.pipelines[actions[acted.action_id].operation.pipeline].description,
            kind="sql",
            reversible=not acted.irreversible,
            server=part.server[:1_000],
            steps=tuple(_steps([one.name for one in texts_of(actions[acted.action_id], config)], acted)),
        )
        for acted in part.actions
        if acted.action_id in actions
    }


def _steps(names: Sequence[str], acted: RemoteAction) -> Iterator[ToldStep]:
    """All done; or up to the one that the problem is about. One that is about none of them is the first one's."""
    where = (acted.problem or {}).get("where", "")
    failed = None if acted.problem is None else names.index(where) if where in names else 0
    for number, name in enumerate(names):
        if failed is None or number < failed:
            yield ToldStep(name=name[:1_000], state="done")
        else:
            yield ToldStep(name=name[:1_000], state="failed" if number == failed else "skipped")
