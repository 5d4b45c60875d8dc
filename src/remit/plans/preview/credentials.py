"""Decides whether a preview may be shown to an agent at all: no file of it may hold what looks like a credential.

The findings of a preview are about new content, and a person approves them. This is about whole files, before and after
each step, because a diff quotes old lines, and an error quotes what it found. What was not searched counts as found.
"""

from collections.abc import Iterable, Mapping, Sequence

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.envelope import ApprovedInput
from remit.contracts.plans.plan import PipelineAction, Plan, SqlAction
from remit.contracts.plans.preview import PreviewedRemark
from remit.core.errors import RemitError
from remit.effects.plans.credential_search import MAX_FILE, PARTLY_SEARCHED, is_query_free_of_credentials
from remit.effects.plans.steps import PlanStep
from remit.plans.engines.input_files import read_below
from remit.plans.model.simulation_result import SimulatedStep
from remit.plans.policy.required_approvals import PathFinding
from remit.plans.policy.sql import sql_files


def is_preview_free_of_credentials(
    plan: Plan,
    config: SystemConfig,
    steps: Iterable[tuple[PlanStep, SimulatedStep]],
    findings: Iterable[PathFinding],
    remarks: Iterable[PreviewedRemark],
) -> bool:
    """Whether every file that the plan changes was searched in full, before and after, and holds no credential.

    A database is not searched: rows are shown by the authority to read its connection. A plan with a pipeline is never
    searched in full, since a pipeline may read whole folders.
    """
    if any(isinstance(action, PipelineAction) for action in plan.action_plan):
        return False
    if any(found.rule == "credential" for found in findings):
        return False
    if any(remark.what.startswith(PARTLY_SEARCHED) for remark in remarks):
        return False
    actions = {action.action_id: action for action in plan.action_plan if isinstance(action, SqlAction)}
    return all(_is_searched(step, one, actions.get(step.action_id), config) for step, one in steps)


def _is_searched(step: PlanStep, simulated: SimulatedStep, action: SqlAction | None, config: SystemConfig) -> bool:
    if action is None:
        return simulated.searched
    # The rows were searched when they were saved. A file that they replace was not.
    return sql_files(action, config).results is None or step.before is None


def are_query_files_clean(plan: Plan, config: SystemConfig, root: str, inputs: Sequence[ApprovedInput]) -> bool:
    """Whether the query files that the preview read were searched and hold no credential. Reads them once more."""
    digests: Mapping[str, str] = {item.path: item.input_digest for item in inputs}
    sql = (action for action in plan.action_plan if isinstance(action, SqlAction))
    paths = {path for action in sql if (path := sql_files(action, config).query_file) is not None}
    return all(_is_query_file_clean(root, path, digests.get(path)) for path in paths)


def _is_query_file_clean(root: str, path: str, digest: str | None) -> bool:
    try:
        text, found = read_below(root, path, MAX_FILE)
    except RemitError:
        return False
    return found == digest and is_query_free_of_credentials(text)
