"""The bound action, made from a simulation and the values of its fields. Pure.

A text that is exactly `{field}` becomes the typed value. Inside a longer text, the value appears as text. `{{` and `}}`
are braces. Values are never parsed again, so the input of a user is always data. The structure of the action, with its
keys, comes from the simulation's author alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from pydantic import JsonValue

from remit.contracts.browser.browser import Amount
from remit.contracts.goals.simulation import (
    BrowserBinding,
    CompositeBinding,
    PlanBinding,
    Simulation,
    SqlBinding,
    TaskBinding,
)
from remit.core.errors import Reason, UsageError
from remit.goals.binding.fields import render_value, require_fields
from remit.goals.binding.slots import Slot, SlotPlace, Where, classify_slot, pieces_of

SQL_ACTION_ID: Final = "query"
READING_ACTIONS: Final = frozenset({"navigate", "screenshot", "snapshot"})
"""The browser actions that only read."""


@dataclass(frozen=True, slots=True)
class TaskAction:
    """A task manifest without its id."""

    capability_id: str
    inputs: dict[str, Any]
    reversible: bool

    def manifest(self, task_id: str) -> dict[str, Any]:
        return {
            "task_id": task_id,
            "capability_id": self.capability_id,
            "inputs": self.inputs,
            "constraints": {"reversible": self.reversible},
        }


@dataclass(frozen=True, slots=True)
class PlanAction:
    """A plan without its id."""

    tree: dict[str, Any]

    def plan(self, plan_id: str) -> dict[str, Any]:
        return {**self.tree, "plan_id": plan_id}


@dataclass(frozen=True, slots=True)
class BrowserAction:
    """A browser action without its id, and the constraints of the token that it needs."""

    tree: dict[str, Any]
    domains: tuple[str, ...]
    max_purchase: float | dict[str, Any] | None

    def action(self, action_id: str) -> dict[str, Any]:
        return {**self.tree, "action_id": action_id}


@dataclass(frozen=True, slots=True)
class UndoAction:
    """The undo of another dispatch. The ledger entry of that dispatch says which one."""


BoundAction = TaskAction | PlanAction | BrowserAction | UndoAction


def fill(simulation: Simulation, fields: Mapping[str, JsonValue]) -> BoundAction:
    """Build the action for these values.

    Refuses a field that is missing, invalid or unknown to the simulation, and a composite simulation: only its steps
    have actions.
    """
    require_fields(simulation, fields)
    binding = simulation.binding
    if isinstance(binding, TaskBinding):
        return TaskAction(binding.capability_id, _fill_tree(simulation, binding.inputs, fields), binding.reversible)
    if isinstance(binding, PlanBinding):
        return PlanAction(_fill_tree(simulation, _template(binding), fields))
    if isinstance(binding, SqlBinding):
        return PlanAction(_sql_plan(simulation, binding, fields))
    if isinstance(binding, BrowserBinding):
        limit = binding.max_purchase
        most = limit.tree() if isinstance(limit, Amount) else limit
        return BrowserAction(_fill_tree(simulation, binding.action, fields), tuple(binding.domains), most)
    if isinstance(binding, CompositeBinding):
        raise UsageError(
            Reason.MISUSE,
            "a composite simulation has no action of its own",
            where=f"simulation {simulation.id}",
            next_step="Dispatch its steps, each with its own simulation.",
        )
    return UndoAction()


def open_tree(simulation: Simulation) -> dict[str, Any]:
    """Return the part of the binding whose texts may contain slots."""
    binding = simulation.binding
    if isinstance(binding, TaskBinding):
        return binding.inputs
    if isinstance(binding, PlanBinding):
        return _template(binding)
    if isinstance(binding, SqlBinding):
        saved = {} if binding.save_results_to is None else {"save_results_to": binding.save_results_to}
        return {"parameters": binding.parameters, **saved}
    return binding.action if isinstance(binding, BrowserBinding) else {}


def walk(tree: Any, visit: Callable[[Where, str], Any], where: Where = ()) -> Any:
    """Return the tree with each text replaced by the result of `visit`. Keys do not change."""
    if isinstance(tree, dict):
        return {key: walk(value, visit, (*where, key)) for key, value in tree.items()}
    if isinstance(tree, list):
        return [walk(value, visit, (*where, number)) for number, value in enumerate(tree)]
    return visit(where, tree) if isinstance(tree, str) else tree


def _fill_tree(simulation: Simulation, tree: dict[str, Any], fields: Mapping[str, JsonValue]) -> dict[str, Any]:
    def visit(where: Where, text: str) -> Any:
        place = classify_slot(simulation, where, tree)
        return text if place is SlotPlace.LITERAL else _fill_text(place, text, fields)

    filled: dict[str, Any] = walk(tree, visit)
    return filled


def _fill_text(place: SlotPlace, text: str, fields: Mapping[str, JsonValue]) -> Any:
    pieces = pieces_of(text)
    if len(pieces) == 1 and isinstance(pieces[0], Slot):
        value = _value(pieces[0], fields)
        if place is SlotPlace.AMOUNT and isinstance(value, dict):
            return {"value": float(str(value["value"])), "currency": value["currency"]}  # the form of browser actions
        if place in {SlotPlace.DATA, SlotPlace.AMOUNT} or value is None:
            return value
    return "".join(piece if isinstance(piece, str) else _text(place, _value(piece, fields)) for piece in pieces)


def _value(slot: Slot, fields: Mapping[str, JsonValue]) -> JsonValue:
    value = fields.get(slot.name)
    return value[slot.part] if slot.part and isinstance(value, dict) else value


def _text(place: SlotPlace, value: JsonValue) -> str:
    rendered = "" if value is None else render_value(value)
    return quote(rendered, safe="") if place is SlotPlace.URL else rendered


def _sql_plan(simulation: Simulation, binding: SqlBinding, fields: Mapping[str, JsonValue]) -> dict[str, Any]:
    filled = _fill_tree(simulation, open_tree(simulation), fields)
    operation = {
        "type": "sql_execute",
        "query": binding.query,
        "connection": binding.connection,
        "expect_results": binding.expect_results,
        **filled,
    }
    action = {
        "action_id": SQL_ACTION_ID,
        "action_type": "SQL_EXECUTE",
        "reversible": binding.reversible,
        "risk_level": simulation.risk,
        "operation": operation,
    }
    return {"action_plan": [action]}


def _template(binding: PlanBinding) -> dict[str, Any]:
    if binding.template is None:
        raise UsageError(
            Reason.MISUSE,
            "the plan of this simulation is in a file that was not read",
            where=str(binding.template_file),
            next_step="Read definitions with remit.goals.catalogue.catalogue.read_definitions.",
        )
    return binding.template
