"""Values that a plan binds to SQL or passes to a pipeline, as the approver sees them. No report has them. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from remit.contracts.plans.pipeline_report import PipelineTold
from remit.contracts.plans.plan import PipelineAction, Plan
from remit.contracts.plans.sql_report import MAX_PARAMETERS_TOLD, MAX_SQL_SHOWN, ShownParameter, UnseenSql
from remit.core.text import printable
from remit.masking import mask_json, mask_shown
from remit.plans.policy.required_approvals import PathFinding
from remit.plans.reports.truncate import truncate_pipelines

_LONGEST_VALUE: Final = 8_000
_LONGEST_NAME: Final = 200


class ShownParameters(NamedTuple):
    parameters: tuple[ShownParameter, ...]
    unseen: tuple[UnseenSql, ...]
    """Values that are too long, or too many, to be shown in full."""


def show_parameters(parameters: Mapping[str, Any]) -> ShownParameters:
    """Render the values as JSON, so that the text `"5"` differs from a number.

    Each value is masked by its own name and form before it is cut, because a cut secret may not be recognised.
    """
    shown: list[ShownParameter] = []
    unseen: list[UnseenSql] = []
    remaining = MAX_SQL_SHOWN
    for name, value in list(parameters.items())[:MAX_PARAMETERS_TOLD]:
        masked = mask_json(value, name=name, mask=mask_shown, whole_labels=True)
        text = printable(json.dumps(masked, ensure_ascii=False))
        masked_name = printable(mask_shown(name))[:_LONGEST_NAME]
        if (remaining := remaining - min(len(text), _LONGEST_VALUE)) < 0:
            break
        if len(text) > _LONGEST_VALUE:
            unseen.append(UnseenSql(where=f"parameter {masked_name}", what="its end is not shown here: it is too long"))
            text = text[:_LONGEST_VALUE] + "..."
        shown.append(ShownParameter(name=masked_name, value=text))
    if more := len(parameters) - len(shown):
        many = "1 more parameter is" if more == 1 else f"{more:,} more parameters are"
        unseen.insert(0, UnseenSql(where="parameters", what=f"{many} not shown here"))
    return ShownParameters(tuple(shown), tuple(unseen))


def previewed_pipelines(plan: Plan, summaries: Iterable[PipelineTold]) -> Iterator[dict[str, Any]]:
    parameters = _pipeline_parameters(plan)
    for one in truncate_pipelines([*summaries]):
        shown = show_parameters(parameters.get(one.action_id, {})).parameters
        yield {**one.tree(), "parameters": [each.tree() for each in shown]}


def findings_of_pipelines(plan: Plan, summaries: Iterable[PipelineTold]) -> Iterator[PathFinding]:
    """Yield findings for values that are not shown in full. Those of query files are reported with their SQL."""
    parameters = _pipeline_parameters(plan)
    for one in summaries:
        unseen = show_parameters(parameters.get(one.action_id, {})).unseen if one.kind != "sql" else ()
        for each in unseen:
            where = f"action {one.action_id}, {each.where}"
            yield PathFinding(f"pipeline:{one.pipeline}", "not_shown", where, each.what)


def _pipeline_parameters(plan: Plan) -> dict[str, Mapping[str, Any]]:
    actions = (action for action in plan.action_plan if isinstance(action, PipelineAction))
    return {action.action_id: action.operation.parameters for action in actions}
