"""The trace of a goal with several steps as a tree: each step has its own decisions, attempts and rollback. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from remit.goals.composite.layout import WHOLE, PlannedStep, is_undo, rollback_id_of, rolled_back_id
from remit.goals.composite.progress import read_progress
from remit.goals.history_nodes import HistoryNode
from remit.ledger.goal_queries import Recorded

STEP: Final = "step"
STEP_ROLLBACK: Final = "step_rollback"
UNDO: Final = "undo"
Placed = tuple[str | None, HistoryNode]
"""A node, and the step that it belongs to. None: it belongs to the whole goal."""


def group_by_step(
    placed: Sequence[Placed], steps: Sequence[PlannedStep], rows: Sequence[Recorded]
) -> tuple[HistoryNode, ...]:
    """Return the nodes of a goal as a tree.

    Args:
        placed: The nodes, in the order of the chain.
        steps: The steps of the goal. Empty if its catalogue is lost; then each id of a step has a node of its own.
        rows: All rows of the goal.

    Returns:
        The nodes of the whole goal, and one node for each step in the place of its first event.
    """
    groups: dict[str, list[HistoryNode]] = {}
    for step_id, node in placed:
        if step_id is not None and step_id != WHOLE:
            groups.setdefault(step_id, []).append(node)
    states = {each.row.step_id: each.row.event for each in rows}
    facts = _facts_of(steps, rows)
    known = {each.step_id for each in steps}
    found: list[HistoryNode] = []
    seen: set[str] = set()
    for step_id, node in placed:
        if step_id is None or step_id == WHOLE:
            found.append(node)
            continue
        owner = rolled_back_id(step_id) or step_id
        group = step_id if owner not in groups else owner
        if group in seen:
            continue
        seen.add(group)
        found.append(_step_node(group, groups, states, facts, known))
    return tuple(found)


def _step_node(
    step_id: str,
    groups: Mapping[str, list[HistoryNode]],
    states: Mapping[str, str],
    facts: Mapping[str, dict[str, Any]],
    known: set[str],
) -> HistoryNode:
    children = list(groups[step_id])
    own = {"step_id": step_id, "state": states.get(step_id, ""), **facts.get(step_id, {})}
    problem = "" if step_id in known or is_undo(step_id) or not known else "the goal has no such step"
    rollback = groups.get(rollback_id_of(step_id))
    if rollback is not None:
        back = {"step_id": rollback_id_of(step_id), "state": states.get(rollback_id_of(step_id), "")}
        children.append(_with_place(HistoryNode(STEP_ROLLBACK, back, children=tuple(rollback))))
    kind = UNDO if is_undo(step_id) else STEP if rolled_back_id(step_id) is None else STEP_ROLLBACK
    return _with_place(HistoryNode(kind, own, problem=problem, children=tuple(children)))


def _with_place(node: HistoryNode) -> HistoryNode:
    """Name the chain, so that a reader sees that it is the chain of the goal."""
    tenant = node.children[0].tenant_id if node.children else None
    return HistoryNode(node.kind, node.facts, tenant_id=tenant, problem=node.problem, children=node.children)


def _facts_of(steps: Sequence[PlannedStep], rows: Sequence[Recorded]) -> dict[str, dict[str, Any]]:
    return {
        each.step.step_id: {
            "name": each.step.name,
            "place": place,
            "simulation_id": each.step.simulation_id,
            "attempts": each.attempts,
        }
        for place, each in enumerate(read_progress(steps, rows), start=1)
    }
