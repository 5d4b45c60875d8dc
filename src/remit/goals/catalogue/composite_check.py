"""Checks of composite simulations, and of the outputs that their steps give to later ones. Pure.

A composite that passes fails at run time only for reasons that no file shows: a value, an effect, or a person's answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from remit.contracts.base import RiskLevel
from remit.contracts.goals.simulation import (
    UNDOES,
    AmountField,
    BrowserBinding,
    ChoiceField,
    CompositeBinding,
    CompositeStep,
    FieldSpec,
    Impact,
    OutputSpec,
    Simulation,
    SqlBinding,
    StepValue,
    TaskBinding,
    TextField,
)
from remit.contracts.tasks.task import INPUTS_BY_CAPABILITY
from remit.goals.binding.binding import READING_ACTIONS
from remit.goals.binding.fields import problem_with
from remit.goals.catalogue.files import Problem
from remit.goals.composite.order import earlier_steps, ordered_steps, source_of
from remit.masking import is_secret_name

_INTO_TEXT: Final = frozenset({"identifier", "choice", "date", "email", "integer"})
"""The types whose values a text field takes too."""
_SLOT_ADVICE: Final = "Write {field} for a field of this simulation, {step.output} for an output of an earlier step."
_BY_STEPS: Final = "a goal with several steps is rolled back step by step"


def composite_problems(simulation: Simulation, known: Mapping[str, Simulation]) -> Iterator[Problem]:
    """Yield the problems of a composite simulation. Nothing for any other simulation.

    Args:
        simulation: The simulation.
        known: All simulations of the catalogue, by id.
    """
    binding = simulation.binding
    if not isinstance(binding, CompositeBinding):
        return
    if simulation.rollback is not None:
        yield "rollback", f"{_BY_STEPS}, so it names no rollback", "Remove it. Each step's simulation names its own."
    if UNDOES in simulation.fields:
        yield f"fields.{UNDOES}", f"this field names a goal that is rolled back; {_BY_STEPS}", "Give it another name."
    if simulation.outputs:
        yield "outputs", "only a simulation with an action of its own has outputs", "Remove them."
    try:
        ordered_steps(binding)
    except ValueError as problem:
        yield "binding.steps", str(problem), "Give each step an id of its own, and let it depend on earlier ones only."
        return
    for number, step in enumerate(binding.steps):
        yield from _step_problems(simulation, f"binding.steps[{number}]", step, known)
    yield from _promise_problems(
        simulation, [known[each.simulation] for each in binding.steps if each.simulation in known]
    )


def _promise_problems(simulation: Simulation, steps: Sequence[Simulation]) -> Iterator[Problem]:
    """The user confirms the whole first, and policies decide on it. So it promises no less than its steps."""
    promises: tuple[tuple[str, tuple[str, ...], str, list[str]], ...] = (
        ("impact", get_args(Impact), simulation.impact, [each.impact for each in steps]),
        ("risk", get_args(RiskLevel), simulation.risk, [each.risk for each in steps]),
    )
    for name, order, declared, of_steps in promises:
        highest = max(of_steps, key=order.index, default=declared)
        if order.index(declared) < order.index(highest):
            yield name, f"it is less than that of a step, which is {highest}", f"Declare {highest}."


def _step_problems(
    simulation: Simulation, where: str, step: CompositeStep, known: Mapping[str, Simulation]
) -> Iterator[Problem]:
    if step.id in simulation.fields:
        yield f"{where}.id", f"{step.id} is also the name of a field", "Give the step or the field another name."
    runs = known.get(step.simulation)
    if runs is None:
        yield f"{where}.simulation", "the catalogue does not have this simulation", "Add it, or name another."
        return
    if isinstance(runs.binding, CompositeBinding):
        yield f"{where}.simulation", f"{runs.id} has several steps itself", "List its steps here instead."
        return
    if UNDOES in runs.fields:
        what = f"{runs.id} rolls back a goal, so it cannot be a step"
        yield f"{where}.simulation", what, "Name the simulation that makes a change."
    if runs.rollback is None:
        advice = f"Name a rollback in {runs.id}. That of a step that only reads may be a task with NO_EFFECT."
        yield f"{where}.simulation", f"{runs.id} names no simulation that rolls it back", advice
    if step.timeout_seconds is not None and step.timeout_seconds > runs.timeout_seconds:
        what = f"it is longer than the {runs.timeout_seconds} seconds of {runs.id}"
        yield f"{where}.timeout_seconds", what, "A step can only have a shorter limit."
    if step.retry is not None and step.retry.max_attempts > 1 and not _failure_can_be_known(runs):
        what = f"whether a failure of {runs.id} had no effect cannot be known, so it is never tried again"
        yield f"{where}.retry", what, "Remove it."
    yield from _mapping_problems(simulation, where, step, runs, known)


def _failure_can_be_known(runs: Simulation) -> bool:
    if isinstance(runs.binding, BrowserBinding):
        return runs.binding.action.get("type") in READING_ACTIONS
    if isinstance(runs.binding, TaskBinding):
        return runs.binding.capability_id in INPUTS_BY_CAPABILITY
    return runs.impact != "irreversible"


# --- values ----------------------------------------------------------------------------------------------------------


def _mapping_problems(
    simulation: Simulation, where: str, step: CompositeStep, runs: Simulation, known: Mapping[str, Simulation]
) -> Iterator[Problem]:
    for name in runs.required:
        if name not in step.fields:
            yield f"{where}.fields", f"{runs.id} needs the field {name}, and no value is given", _SLOT_ADVICE
    for name, value in step.fields.items():
        spec = runs.fields.get(name)
        if spec is None:
            yield f"{where}.fields.{name}", f"{runs.id} has no such field", "Remove it."
            continue
        problem = _value_problem(simulation, step, value, spec, known)
        if problem:
            yield f"{where}.fields.{name}", problem, _SLOT_ADVICE


def _value_problem(
    simulation: Simulation, step: CompositeStep, value: StepValue, spec: FieldSpec, known: Mapping[str, Simulation]
) -> str:
    """Say why a value cannot be the value of this field. Empty if it can."""
    source = source_of(value)
    if source is None:
        return _literal_problem(value, spec)
    if source.output:
        output = _find_output(simulation, step, source.name, source.output, known)
        return output if isinstance(output, str) else _type_problem(output, spec)
    given = simulation.fields.get(source.name)
    if given is None:
        return f"this simulation has no field {source.name}"
    if given.optional and not spec.optional:
        return f"{source.name} is optional, and the step needs a value"
    return _type_problem(given, spec)


def _literal_problem(value: StepValue, spec: FieldSpec) -> str:
    if isinstance(value, str) and set(value) & set("{}"):
        return "a slot must be the whole value, and braces are not allowed in a fixed value"
    return problem_with(spec, str(value) if isinstance(spec, TextField) else value)


def _find_output(
    simulation: Simulation, step: CompositeStep, name: str, output: str, known: Mapping[str, Simulation]
) -> OutputSpec | str:
    """Return the output, or say why the step cannot use it."""
    binding: Any = simulation.binding
    giver = next((each for each in binding.steps if each.id == name), None)
    if giver is None:
        return f"there is no step {name}"
    if name not in earlier_steps(binding, step.id):
        return f"the step does not depend on {name}, so it may run before it"
    gives = known.get(giver.simulation)
    found = gives.outputs.get(output) if gives is not None else None
    return found or f"{giver.simulation} has no output {output}"


def _type_problem(given: FieldSpec | OutputSpec, spec: FieldSpec) -> str:
    if given.type != spec.type and not (isinstance(spec, TextField) and given.type in _INTO_TEXT):
        return f"the value is of type {given.type}, and the field of type {spec.type}"
    if isinstance(given, ChoiceField) and isinstance(spec, ChoiceField) and set(given.choices) - set(spec.choices):
        return "the field does not have all of these choices"
    if isinstance(given, AmountField) and isinstance(spec, AmountField):
        accepted = set(spec.currencies)
        if accepted and (not given.currencies or set(given.currencies) - accepted):
            return "the field does not accept all of these currencies"
    return ""


# --- outputs ---------------------------------------------------------------------------------------------------------


def output_problems(simulation: Simulation) -> Iterator[Problem]:
    """Yield the problems of the outputs of a simulation with an action of its own."""
    if isinstance(simulation.binding, CompositeBinding):
        return
    for name, spec in simulation.outputs.items():
        problem = _output_problem(simulation, name, spec)
        if problem:
            yield f"outputs.{name}", problem, "Change or remove it."


def _output_problem(simulation: Simulation, name: str, spec: OutputSpec) -> str:
    binding = simulation.binding
    if is_secret_name(name) or is_secret_name(spec.source):
        return "this is the name of a secret, and a secret is never passed on"
    if isinstance(binding, SqlBinding):
        return "an e-mail address of a query is always masked" if spec.type == "email" else ""
    if not isinstance(binding, TaskBinding):
        return "only a query and a task have outputs"
    if spec.source not in {"source_path", "destination_path"} or spec.source not in binding.inputs:
        return "a task gives its source_path or its destination_path, if it has one"
    return "" if spec.type == "text" else "the path of a task is absolute, so its type is text"
