"""The order of the steps of a composite simulation, and the values of their fields. Pure.

A step runs when all steps that it depends on have succeeded. Of several such steps, the first one of the file runs. So
the same definition always has the same sequence.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pydantic import JsonValue

from remit.contracts.goals.simulation import CompositeBinding, CompositeStep, FieldSpec, StepValue, TextField
from remit.goals.binding.fields import render_value

_SOURCE: Final = re.compile(r"\{(?P<name>[a-z][a-z0-9_]{0,39})(?:\.(?P<output>[a-z][a-z0-9_]{0,39}))?\}")


class ValueSource(NamedTuple):
    """Where the value of a step's field comes from: a field of the goal, or an output of the step `name`."""

    name: str
    output: str = ""


def source_of(value: StepValue) -> ValueSource | None:
    """Return what a value names if the whole text is a slot. None for a fixed value."""
    found = _SOURCE.fullmatch(value) if isinstance(value, str) else None
    return ValueSource(found["name"], found["output"] or "") if found else None


def dependencies(binding: CompositeBinding) -> dict[str, tuple[str, ...]]:
    """Return the steps that each step waits for, in the order of the file. Without `depends_on`: the step before."""
    found: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    for step in binding.steps:
        found[step.id] = before if step.depends_on is None else tuple(step.depends_on)
        before = (step.id,)
    return found


def ordered_steps(binding: CompositeBinding) -> tuple[CompositeStep, ...]:
    """Return the steps in the order in which Remit runs them.

    Args:
        binding: The composite binding.

    Returns:
        The steps, each one after all steps that it depends on.

    Raises:
        ValueError: Two steps have the same id, a step depends on an unknown one, or the steps of a cycle wait for each
            other. The text names them.
    """
    waits = dependencies(binding)
    if len(waits) < len(binding.steps):
        raise ValueError(f"two steps have the id {_first_repeated(binding)}")
    for name, needed in waits.items():
        for other in needed:
            if other not in waits:
                raise ValueError(f"the step {name} depends on {other}, and there is no such step")
    left = {step.id: step for step in binding.steps}
    found: list[CompositeStep] = []
    while left:
        ready = next((step for name, step in left.items() if not any(other in left for other in waits[name])), None)
        if ready is None:
            raise ValueError(f"these steps wait for each other: {' -> '.join(_cycle(waits, left))}")
        found.append(left.pop(ready.id))
    return tuple(found)


def earlier_steps(binding: CompositeBinding, step_id: str) -> frozenset[str]:
    """Return the steps that a step depends on, directly or not. Only their outputs can be used in it."""
    waits = dependencies(binding)
    found: set[str] = set()
    open_steps = list(waits[step_id])
    while open_steps:
        name = open_steps.pop()
        if name not in found:
            found.add(name)
            open_steps += waits.get(name, ())
    return frozenset(found)


def resolve_fields(
    step: CompositeStep,
    goal_fields: Mapping[str, JsonValue],
    outputs: Mapping[str, Mapping[str, JsonValue]],
    specs: Mapping[str, FieldSpec],
) -> dict[str, JsonValue]:
    """Return the values of the fields of a step.

    A value that does not exist is left out: an optional field of the goal, or an output that its step did not give. If
    the step needs it, the check of its fields refuses the step.

    Args:
        step: The step.
        goal_fields: The values of the fields of the goal.
        outputs: The outputs of the steps that succeeded, by step.
        specs: The fields of the step's simulation. A number for a text field becomes text.

    Returns:
        The values by field, to be checked with `require_fields`.
    """
    return dict(_resolved(step, goal_fields, outputs, specs))


def _resolved(
    step: CompositeStep,
    goal_fields: Mapping[str, JsonValue],
    outputs: Mapping[str, Mapping[str, JsonValue]],
    specs: Mapping[str, FieldSpec],
) -> Iterator[tuple[str, JsonValue]]:
    for name, given in step.fields.items():
        source = source_of(given)
        value: JsonValue = given
        if source is not None:
            values = outputs.get(source.name, {}) if source.output else goal_fields
            value = values.get(source.output or source.name)
        if value is None:
            continue
        is_number = isinstance(value, int) and not isinstance(value, bool)
        yield name, render_value(value) if is_number and isinstance(specs.get(name), TextField) else value


def _first_repeated(binding: CompositeBinding) -> str:
    return next(name for name, count in Counter(step.id for step in binding.steps).items() if count > 1)


def _cycle(waits: Mapping[str, tuple[str, ...]], left: Mapping[str, CompositeStep]) -> list[str]:
    """Follow the dependencies of the steps that cannot run until one comes again. Each of them has one in `left`."""
    path = [next(iter(left))]
    while path.count(path[-1]) == 1:
        path.append(next(name for name in waits[path[-1]] if name in left))
    return path[path.index(path[-1]) :]
