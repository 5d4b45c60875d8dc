"""Checks of the simulations of a catalogue: of each with its action, and of one with the others. Pure.

The declared impact of a simulation must be true for its action. The action of a read-only simulation must be unable to
write. If the rollback is an undo, Remit must be able to undo the action.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from remit.contracts.browser.browser import Action
from remit.contracts.goals.simulation import (
    UNDOES,
    BrowserBinding,
    ChoiceField,
    CompositeBinding,
    FieldSpec,
    IdentifierField,
    PlanBinding,
    Simulation,
    SqlBinding,
    TaskBinding,
    TextField,
    UndoBinding,
)
from remit.contracts.plans.plan import Plan
from remit.contracts.tasks.task import NO_EFFECT, TaskManifest
from remit.core.errors import RemitError
from remit.goals.binding.binding import (
    READING_ACTIONS,
    BoundAction,
    BrowserAction,
    PlanAction,
    TaskAction,
    open_tree,
    walk,
)
from remit.goals.binding.fields import compile_pattern
from remit.goals.binding.slots import Where, classify_slot, find_slot_name, problem_at
from remit.goals.catalogue.composite_check import composite_problems, output_problems
from remit.goals.catalogue.files import CatalogueFinding, Definition, Problem
from remit.goals.catalogue.phrases import phrase_problem, phrase_shape
from remit.goals.catalogue.samples import sample_actions
from remit.goals.confirmation.parser import load_lexicon

MAX_ID: Final = 200


def check_definitions(definitions: Sequence[Definition], read_only: Collection[str]) -> tuple[CatalogueFinding, ...]:
    """Return all problems, in the order of the files."""
    counts = Counter(each.simulation.id for each in definitions)
    known = {each.simulation.id: each.simulation for each in definitions}
    phrases = _phrases(definitions)
    findings: list[CatalogueFinding] = []
    for each in definitions:
        problems = _problems(each.simulation, known, phrases, read_only)
        if counts[each.simulation.id] > 1:
            problems.insert(0, ("id", "another simulation has the same id", "Give one of them another id."))
        findings += [CatalogueFinding(each.file, each.simulation.id, *problem) for problem in problems]
    return tuple(findings)


def _problems(
    simulation: Simulation,
    known: dict[str, Simulation],
    phrases: dict[tuple[str, str], list[str]],
    read_only: Collection[str],
) -> list[Problem]:
    binding = list(_binding_problems(simulation))
    return [
        *_field_problems(simulation),
        *_phrase_problems(simulation, phrases),
        *binding,
        *([] if binding else _contract_problems(simulation)),
        *_impact_problems(simulation, read_only),
        *([] if isinstance(simulation.binding, CompositeBinding) else _rollback_problems(simulation, known)),
        *composite_problems(simulation, known),
        *output_problems(simulation),
    ]


# --- fields and phrases ---------------------------------------------------------------------------------------------


def _field_problems(simulation: Simulation) -> Iterator[Problem]:
    for name, spec in simulation.fields.items():
        pattern = spec.pattern if isinstance(spec, TextField | IdentifierField) else None
        if pattern is not None:
            try:
                compile_pattern(pattern)
            except ValueError as problem:
                advice = "Use the syntax of RE2, which has no look-around and no back-references."
                yield f"fields.{name}.pattern", f"the pattern cannot be used: {problem}", advice
        if isinstance(spec, ChoiceField) and len({choice.casefold() for choice in spec.choices}) != len(spec.choices):
            yield f"fields.{name}.choices", "two choices differ only in upper and lower case", "Keep one of the two."


def _phrases(definitions: Sequence[Definition]) -> dict[tuple[str, str], list[str]]:
    """Return the ids of the simulations by language and shape of a phrase."""
    ids_by_shape: dict[tuple[str, str], list[str]] = {}
    for each in definitions:
        for tag, listed in each.simulation.phrases.items():
            for shape in {phrase_shape(each.simulation, phrase) for phrase in listed}:
                ids_by_shape.setdefault((tag.lower(), shape), []).append(each.simulation.id)
    return ids_by_shape


def _phrase_problems(simulation: Simulation, phrases: dict[tuple[str, str], list[str]]) -> Iterator[Problem]:
    tags = Counter(tag.lower() for tag in simulation.phrases)
    if simulation.phrases and isinstance(simulation.binding, UndoBinding):
        yield "phrases", "an undo is not a goal of its own, so users cannot ask for it", "Remove the phrases."
    for tag, listed in simulation.phrases.items():
        where = f"phrases.{tag}"
        if tags[tag.lower()] > 1:
            yield where, "the language is listed twice, in two spellings", "Put the phrases under one of them."
        yield from _lexicon_problems(simulation, tag)
        for phrase in listed:
            problem = phrase_problem(simulation, phrase)
            if problem:
                yield where, problem, "A placeholder is the name of a field in braces, among words of the language."
                continue
            others = sorted(set(phrases[tag.lower(), phrase_shape(simulation, phrase)]) - {simulation.id})
            if others:
                yield where, f"{others[0]} has the same phrase", "Use other words in one of them."


def _lexicon_problems(simulation: Simulation, tag: str) -> Iterator[Problem]:
    """Users confirm a change in the language of their request, so the lexicon must have that language."""
    lexicon = load_lexicon()
    if simulation.impact == "read_only" or lexicon.find_words(tag) is not None:
        return
    known = ", ".join(lexicon.languages())
    what = f"Remit has no words for yes and no in {tag}, so users could never confirm a request in it"
    yield f"phrases.{tag}", what, f"Remove these phrases, or use one of these languages: {known}."


# --- the action -----------------------------------------------------------------------------------------------------


def _binding_problems(simulation: Simulation) -> list[Problem]:
    found: list[Problem] = []
    tree = open_tree(simulation)

    def visit(where: Where, text: str) -> str:
        problem = problem_at(simulation, classify_slot(simulation, where, tree), text)
        if problem:
            found.append((_render_location(where), problem, "Use a field that fits there, or write a fixed value."))
        return text

    walk(tree, visit)
    if any(find_slot_name(simulation, key) for key in _keys(tree)):
        found.append(("binding", "a member name cannot be the value of a field", "Write a fixed name."))
    if isinstance(simulation.binding, TaskBinding) and find_slot_name(simulation, simulation.binding.capability_id):
        found.append(
            ("binding.capability_id", "the capability cannot be the value of a field", "Write a fixed capability.")
        )
    if isinstance(simulation.binding, SqlBinding) and find_slot_name(simulation, simulation.binding.query):
        name = find_slot_name(simulation, simulation.binding.query)
        advice = f"Write ${name} in the query, and `{name}: '{{{name}}}'` under parameters."
        found.append(("binding.query", "the text of a query cannot contain the value of a field", advice))
    generated_id = {"plan": "plan_id", "browser": "action_id"}.get(simulation.binding.type, "")
    if isinstance(simulation.binding, UndoBinding) and simulation.required != (UNDOES,):
        advice = f"Give it the field {UNDOES}, which holds the id of the goal, and no other."
        found.append(("fields", "an undo reads from the ledger what to roll back, and needs no other field", advice))
    if generated_id and generated_id in tree:
        found.append((f"binding.{generated_id}", "Remit makes this id at the dispatch", "Remove it."))
    return found


def _render_location(where: Where) -> str:
    return "binding" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)


def _keys(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from _keys(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _keys(value)


def _contract_problems(simulation: Simulation) -> Iterator[Problem]:
    """Fill the action with sample values, with and without the optional fields. Its operation must accept both."""
    try:
        for action in sample_actions(simulation):
            _require_contract(action)
    except RemitError as problem:
        yield "binding", f"the action of this simulation is refused: {problem.what}", f"Look at {problem.where}."


def _require_contract(action: BoundAction) -> None:
    if isinstance(action, TaskAction):
        TaskManifest.from_tree(action.manifest("x"))
    elif isinstance(action, PlanAction):
        Plan.from_tree(action.plan("x"))
    elif isinstance(action, BrowserAction):
        Action.from_tree(action.action("x"))


# --- what it promises -----------------------------------------------------------------------------------------------


def _impact_problems(simulation: Simulation, read_only: Collection[str]) -> Iterator[Problem]:
    if simulation.impact == "read_only" and not _only_reads(simulation, read_only):
        yield (
            "impact",
            "it is declared read_only, but its action can change something",
            "Declare the real impact. For a query, use a connection with `read_only: true` and no save_results_to.",
        )


def _only_reads(simulation: Simulation, read_only: Collection[str]) -> bool:
    binding = simulation.binding
    if isinstance(binding, TaskBinding):
        return binding.capability_id == NO_EFFECT
    if isinstance(binding, SqlBinding):
        return binding.connection in read_only and binding.save_results_to is None
    if isinstance(binding, CompositeBinding):
        return True  # its impact is compared with that of each step
    return isinstance(binding, BrowserBinding) and binding.action.get("type") in READING_ACTIONS


def _rollback_problems(simulation: Simulation, known: dict[str, Simulation]) -> Iterator[Problem]:
    if simulation.rollback is None:
        if simulation.impact != "read_only":
            advice = "Name the simulation that rolls it back. For an undo, name the one that makes the change again."
            yield "rollback", "it changes something, but names no simulation that rolls it back", advice
        return
    other = known.get(simulation.rollback)
    if simulation.rollback == simulation.id:
        yield "rollback", "it names itself", "Name another simulation."
    elif other is None:
        yield "rollback", "it names a simulation that the catalogue does not have", "Add it, or name another."
    elif isinstance(other.binding, CompositeBinding):
        yield "rollback", f"{other.id} has several steps, so it cannot be a rollback", "Name one with its own action."
    elif other.impact == "read_only" != simulation.impact:
        yield "rollback", f"{other.id} is read_only, so it cannot roll back anything", "Name one that changes it back."
    elif isinstance(simulation.binding, UndoBinding) or UNDOES in simulation.fields:
        return  # a rollback itself: users request the rolled back change again as a goal of its own
    elif not _names_its_goal(other):
        advice = f"Give {other.id} a field `{UNDOES}: {{type: text, ...}}`, which is filled with the id of the goal."
        yield "rollback", f"{other.id} has no field for the id of the goal that it rolls back", advice
    elif isinstance(other.binding, UndoBinding):
        yield from _undo_problems(simulation)
    else:
        yield from _compensation_problems(simulation, other)


def _names_its_goal(simulation: Simulation) -> bool:
    spec = simulation.fields.get(UNDOES)
    return isinstance(spec, TextField) and spec.pattern is None and spec.max_length >= MAX_ID


def _undo_problems(simulation: Simulation) -> Iterator[Problem]:
    if simulation.impact == "irreversible" or not _can_be_undone(simulation):
        yield (
            "rollback",
            "an undo cannot reverse this action",
            "Name a simulation that compensates for it with an action of its own, not an undo.",
        )


def _can_be_undone(simulation: Simulation) -> bool:
    binding = simulation.binding
    if isinstance(binding, TaskBinding | SqlBinding):
        return binding.reversible
    if isinstance(binding, PlanBinding):
        actions = (binding.template or {}).get("action_plan")
        listed = actions if isinstance(actions, list) else []
        return all(isinstance(action, dict) and action.get("reversible", True) is True for action in listed)
    return False


def _compensation_problems(simulation: Simulation, other: Simulation) -> Iterator[Problem]:
    """A compensation runs with the values of the goal that it compensates for, without any question to the user."""
    for name in (name for name in other.required if name != UNDOES):
        ours, needed = simulation.fields.get(name), other.fields[name]
        if ours is None or ours.optional or _values_of(ours) != _values_of(needed):
            what = f"{other.id} needs the field {name}, which is missing or optional here, or takes other values"
            yield "rollback", what, f"Give this simulation a required field {name} with the same definition."


def _values_of(spec: FieldSpec) -> dict[str, Any]:
    return {name: value for name, value in spec.tree().items() if name not in {"question", "optional"}}
