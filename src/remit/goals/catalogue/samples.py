"""Sample actions of a simulation, with invented values for its fields. They are checked and never run. Pure."""

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from remit.contracts.goals.simulation import (
    AmountField,
    ChoiceField,
    CompositeBinding,
    FieldSpec,
    IdentifierField,
    IntegerField,
    Simulation,
    TextField,
)
from remit.goals.binding.binding import BoundAction, fill

_SAMPLES: Final[dict[str, JsonValue]] = {
    "text": "x",
    "identifier": "x1",
    "date": "2026-01-31",
    "email": "somebody@example.org",
    "path": "x/y.txt",
}


def sample_actions(simulation: Simulation) -> Iterator[BoundAction]:
    """Build the action with every optional field, and without. A composite simulation has none.

    Raises the errors of `fill`.
    """
    if isinstance(simulation.binding, CompositeBinding):
        return
    if any(isinstance(spec, TextField | IdentifierField) and spec.pattern for spec in simulation.fields.values()):
        simulation = _without_patterns(simulation)
    for names in (simulation.field_order, simulation.required):
        yield fill(simulation, {name: _sample(simulation.fields[name]) for name in names})


def _without_patterns(simulation: Simulation) -> Simulation:
    """Remove the patterns: no value can be invented for one, and the contract of the action does not depend on it."""
    tree = simulation.tree()
    for spec in tree["fields"].values():
        spec.pop("pattern", None)
    return Simulation.from_tree(tree)


def _sample(spec: FieldSpec) -> JsonValue:
    if isinstance(spec, IntegerField):
        return next((bound for bound in (spec.minimum, spec.maximum) if bound is not None), 1)
    if isinstance(spec, AmountField):
        return {"value": "1.00", "currency": spec.currencies[0] if spec.currencies else "EUR"}
    if isinstance(spec, ChoiceField):
        return spec.choices[0]
    return _SAMPLES[spec.type]
