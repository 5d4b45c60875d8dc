"""The actions of a plan as steps: in order, on numbered paths, each with its time. Reads no file."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from remit.contracts.config.config import SystemConfig
from remit.contracts.plans.plan import Action, FileRename, PipelineAction, Plan, SchemaUpdate, SqlAction
from remit.contracts.plans.validation_rules import JsonPathEquals, MatchesJsonSchema, SqlExpect, ValidationRule
from remit.core.canonical import MAX_SAFE_INTEGER
from remit.effects.plans.database_files import MARK
from remit.effects.plans.steps import Move, PlanStep, StepPlan
from remit.fs.paths import Located, locate_below
from remit.plans.model.folders import Parents
from remit.plans.policy.dependencies import levels, needs_of, order_actions
from remit.plans.policy.pipelines import database_files, expected_hashes
from remit.plans.policy.sql import changed_paths, rule_database, touched_by
from remit.plans.policy.timeouts import plan_seconds, seconds_for
from remit.plans.runtime.runner import StepTimes

_MOVES: Final[dict[str, Move]] = {
    "FILE_CREATE": "create",
    "FILE_MODIFY": "modify",
    "SCHEMA_UPDATE": "modify",
    "FILE_DELETE": "delete",
    "FILE_RENAME": "rename",
    "SQL_EXECUTE": "modify",  # or "create"; the preparation decides that
    "PIPELINE_RUN": "modify",
}
_PARSED: Final = ("json_", "yaml_")


def draft_steps(plan: Plan, config: SystemConfig, root: str, *, diffs: str) -> tuple[StepPlan, dict[int, Located]]:
    """Return the actions in order, on numbered paths. No file is read yet."""
    numbered: dict[tuple[Parents, str], int] = {}
    places: dict[int, Located] = {}

    def number(path: str) -> int:
        place = locate_below(root, path)
        known = numbered.setdefault((place.parents, place.name), len(numbered))
        places[known] = place
        return known

    actions, touched = plan.action_plan, touched_by(config)
    needs, order = needs_of(actions, touched), order_actions(actions, touched)
    turns = _turns(plan, config, order)
    steps = tuple(
        _step(turn, actions[index], path, _steps_of(needs[index], turns), number, config)
        for index in order
        for turn, path in zip(turns[index], changed_paths(actions[index], config), strict=False)
    )
    rules = tuple(_rule(_rule_tree(rule, config), number, places) for rule in plan.validation_rules)
    instructions = plan.execution_instructions
    drafted = StepPlan(
        prefix=secrets.token_hex(10),
        paths=tuple(_relative(places[path]) for path in range(len(places))),
        steps=steps,
        waves=(tuple(range(len(steps))),),
        stop_on_error=instructions.stop_on_error,
        keep_permissions=instructions.preserve_permissions,
        max_file_bytes=config.limits.max_file_bytes,
        diffs="full" if diffs == "full" else "summary",
        rules=rules,
    )
    return drafted, places


def _turns(plan: Plan, config: SystemConfig, order: Sequence[int]) -> dict[int, range]:
    """Return the step numbers of each action, by its index: one for each file that it changes.

    Most actions have one. A pipeline may have several. An action on a remote database has none.
    """
    turns, last = {}, 0
    for index in order:
        action = plan.action_plan[index]
        count = 1 if isinstance(action, FileRename) else len(changed_paths(action, config))
        turns[index] = range(last, last + count)
        last += count
    return turns


def _steps_of(needs: Sequence[int], turns: Mapping[int, range]) -> tuple[int, ...]:
    return tuple(sorted(step for need in needs for step in turns[need]))


def _step(
    number: int,
    action: Action,
    path: str,
    needs: tuple[int, ...],
    path_number: Callable[[str], int],
    config: SystemConfig,
) -> PlanStep:
    before, after = action.expected_hash_before, action.expected_hash_after
    operation = operation_of(action)
    if isinstance(action, PipelineAction):
        before, after = expected_hashes(action, path, config)
        operation = dict(MARK) if path in database_files(config) else {}
    return PlanStep(
        number=number,
        action_id=action.action_id,
        action_type=action.action_type,
        move=_MOVES[action.action_type],
        path=path_number(path),
        new_path=path_number(action.operation.new_path) if isinstance(action, FileRename) else None,
        operation=operation,
        needs=needs,
        expected_before=before,
        expected_after=after,
    )


def operation_of(action: Action) -> dict[str, Any]:
    """Return the operation as a step has it. The numbers 2.0 and 2 have one digest, so they must write the same bytes.

    For SQL, which runs before there are steps, it only says whether the file is a database. A pipeline may change
    several
    files, so its steps say that themselves.
    """
    if isinstance(action, PipelineAction):
        return {}
    if isinstance(action, SqlAction):
        return dict(MARK) if action.operation.save_results_to is None else {}
    tree = action.operation.tree()
    return {**tree, "value": _plain_numbers(tree["value"])} if "value" in tree else tree


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_SAFE_INTEGER:
        return int(value)
    return value


def _rule_tree(rule: ValidationRule, config: SystemConfig) -> dict[str, Any]:
    """Return the rule as a tree. A rule about rows gets its database path now, because recovery has only a later
    config.
    """
    return {**rule.tree(), "path": rule_database(rule, config)} if isinstance(rule, SqlExpect) else rule.tree()


def _rule(tree: dict[str, Any], path_number: Callable[[str], int], places: Mapping[int, Located]) -> dict[str, Any]:
    """Return the rule with its paths spelled as in the plan's list of paths."""
    named = {name: tree[name] for name in ("path", "schema_file") if tree.get(name) is not None}
    return {**tree, **{name: _relative(places[path_number(path)]) for name, path in named.items()}}


def needs_parsers(plan: Plan, config: SystemConfig) -> bool:
    """Whether edits or rules need parsers beyond the standard library. The process that runs them then needs them
    too.
    """

    def is_rich(action: Action) -> bool:
        operation: Any = action.operation
        left = changed_paths(action, config) if isinstance(action, PipelineAction) else ()
        paths = (action.target or "", getattr(operation, "new_path", ""), *left)
        return (
            isinstance(action, SchemaUpdate)
            or operation.type.startswith(_PARSED)
            or getattr(operation, "regex", False)
            or any(path.casefold().endswith((".yaml", ".yml")) for path in paths)
        )

    rules = (isinstance(rule, MatchesJsonSchema | JsonPathEquals) for rule in plan.validation_rules)
    return any(map(is_rich, plan.action_plan)) or any(rules)


def times_of(plan: Plan, config: SystemConfig) -> StepTimes:
    """Seconds for each step, in the order of the steps, and for the whole plan."""
    actions = plan.action_plan
    order = order_actions(actions, touched_by(config))
    turns = _turns(plan, config, order)
    paces = tuple(float(seconds_for(actions[index], config)) for index in order for _ in turns[index])
    return StepTimes(paces, float(plan_seconds(plan, config)))


def levels_of(plan: Plan, config: SystemConfig) -> list[list[int]] | None:
    """Which steps may run at the same time; None: none."""
    if plan.execution_instructions.execution_order == "sequential":
        return None
    touched = touched_by(config)
    order = order_actions(plan.action_plan, touched)
    turns = _turns(plan, config, order)
    grouped = levels(order, needs_of(plan.action_plan, touched))
    return [steps for level in grouped if (steps := [turn for index in level for turn in turns[index]])]


def _relative(place: Located) -> str:
    return "/".join((*place.parents, place.name))
