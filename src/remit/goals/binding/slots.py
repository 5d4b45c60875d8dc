"""The places of a bound action where the value of a field may be, and the field types allowed there. Pure.

A value is data. It may fill a text, a bound parameter or a part of a path. It may not fill a key, a query, a pattern, a
JSONPath, a host, or a word that selects the operation. Every place that is not listed here is taken literally.
"""

import re
from enum import Enum
from typing import Any, Final, NamedTuple

from remit.contracts.goals.simulation import (
    AmountField,
    ChoiceField,
    DateField,
    FieldSpec,
    IdentifierField,
    IntegerField,
    PathField,
    Simulation,
)
from remit.contracts.tasks.task import INPUTS_BY_CAPABILITY

_PIECE: Final = re.compile(r"\{\{|\}\}|\{(?P<slot>[^{}]*)\}|[{}]|[^{}]+")
_SLOT: Final = re.compile(r"(?P<name>[a-z][a-z0-9_]{0,39})(?:\.(?P<part>value|currency))?")
# The host is the author's: it ends before the first slot.
_URL_START: Final = re.compile(r"https?://[^/?#{}\s]+/[^{}]*")

# Values of these types never begin with a dot or contain `..` as a component; paths are checked for it.
_IN_PATHS: Final = (IdentifierField, IntegerField, DateField, ChoiceField, PathField)
# Before the query of an address `..` is not encoded, so free text is not allowed there.
_IN_URLS: Final = (IdentifierField, IntegerField, DateField)


class SlotPlace(Enum):
    LITERAL = "literal"
    DATA = "data"
    PATH = "path"
    ABSOLUTE = "absolute path"
    URL = "address"
    SELECTOR = "selector"
    AMOUNT = "amount"


class Slot(NamedTuple):
    """A place that a field fills. For an amount, it can be one part."""

    name: str
    part: str = ""


Piece = str | Slot
Where = tuple[str | int, ...]


def pieces_of(text: str) -> tuple[Piece, ...]:
    """Split a text into its slots and the text between them. Raises ValueError for a brace that is neither."""
    found: list[Piece] = []
    for piece in _PIECE.finditer(text):
        slot = piece["slot"]
        if slot is None:
            if piece[0] in {"{", "}"}:
                raise ValueError("a single brace is not allowed; write {{ or }} for a brace")
            found.append(piece[0][0] if piece[0] in {"{{", "}}"} else piece[0])
            continue
        parsed = _SLOT.fullmatch(slot)
        if parsed is None:
            raise ValueError("the text between braces is not the name of a field; write {{ and }} for braces")
        found.append(Slot(parsed["name"], parsed["part"] or ""))
    return tuple(found)


def classify_slot(simulation: Simulation, where: Where, tree: Any) -> SlotPlace:
    """Say which values are allowed at `where` in the binding's own tree (inputs, template, parameters, action)."""
    kind = simulation.binding.type
    if kind == "plan":
        return _classify_in_plan(where, tree)
    if kind == "sql":
        return SlotPlace.PATH if where == ("save_results_to",) else SlotPlace.DATA
    if kind == "browser":
        return _PLACES_IN_BROWSER.get(where[0], SlotPlace.LITERAL) if where else SlotPlace.LITERAL
    if kind == "task":
        return _classify_in_task(simulation, where)
    return SlotPlace.LITERAL


def problem_at(simulation: Simulation, place: SlotPlace, text: str) -> str:
    """Say why the slots of this text cannot be filled at this place. Empty if they can."""
    if place is SlotPlace.LITERAL:
        named = find_slot_name(simulation, text)
        return f"the value of a field is not allowed here: {named}" if named else ""
    try:
        pieces = pieces_of(text)
    except ValueError as problem:
        return str(problem)
    slots = [piece for piece in pieces if isinstance(piece, Slot)]
    for slot in slots:
        why = _problem_with_slot(simulation, place, slot, is_whole=len(pieces) == 1)
        if why:
            return f"{{{slot.name}}}: {why}"
    return _problem_with_text(simulation, place, pieces) if slots else ""


def find_slot_name(simulation: Simulation, text: str) -> str:
    """Return the first field that a text names between braces, as if it were a slot."""
    return next((name for name in simulation.field_order if re.search(rf"\{{\s*{name}\s*(\.|\}})", text)), "")


def _problem_with_slot(simulation: Simulation, place: SlotPlace, slot: Slot, *, is_whole: bool) -> str:
    spec = simulation.fields.get(slot.name)
    if spec is None:
        return "there is no such field"
    if slot.part and not isinstance(spec, AmountField):
        return f"only an amount has a .{slot.part}"
    if spec.optional and not is_whole:
        return "an optional field may be missing, so it cannot be inside a longer text"
    return _problem_with_type(place, slot, spec)


def _problem_with_type(place: SlotPlace, slot: Slot, spec: FieldSpec) -> str:
    if place in {SlotPlace.PATH, SlotPlace.ABSOLUTE} and not isinstance(spec, _IN_PATHS):
        return "a path can contain only an identifier, an integer, a date, a choice or a path"
    if place is SlotPlace.SELECTOR and not isinstance(spec, IntegerField):
        return "a selector can contain only an integer"
    if place is SlotPlace.AMOUNT and (not isinstance(spec, AmountField) or slot.part):
        return "only a whole amount is allowed here"
    return ""


def _problem_with_text(simulation: Simulation, place: SlotPlace, pieces: tuple[Piece, ...]) -> str:
    first = pieces[0]
    if place is SlotPlace.ABSOLUTE and not (isinstance(first, str) and first.startswith("/") and len(first) > 1):
        return "the path must begin with a fixed folder, such as /srv/data/{name}"
    if place is SlotPlace.AMOUNT and len(pieces) > 1:
        return "only a whole amount is allowed here"
    if place is not SlotPlace.URL:
        return ""
    if not (isinstance(first, str) and _URL_START.fullmatch(first)):
        return "the address must begin with its host, such as https://shop.example/orders/{order_id}"
    before_query = True
    for piece in pieces:
        if isinstance(piece, str):
            before_query = before_query and "?" not in piece and "#" not in piece
        elif before_query and not isinstance(simulation.fields[piece.name], _IN_URLS):
            return f"{{{piece.name}}}: before the ? only an identifier, an integer or a date is allowed"
    return ""


_PLACES_IN_BROWSER: Final[dict[str | int, SlotPlace]] = {
    "target": SlotPlace.URL,
    "value": SlotPlace.DATA,
    "amount": SlotPlace.AMOUNT,
    "selector": SlotPlace.SELECTOR,
}


def _classify_in_task(simulation: Simulation, where: Where) -> SlotPlace:
    if where in {("source_path",), ("destination_path",)}:
        return SlotPlace.ABSOLUTE
    is_ours = getattr(simulation.binding, "capability_id", "") in INPUTS_BY_CAPABILITY
    return SlotPlace.LITERAL if is_ours else SlotPlace.DATA


def _classify_in_plan(where: Where, tree: Any) -> SlotPlace:
    match where:
        case ("action_plan", int(), "target") | ("validation_rules", int(), "path"):
            return SlotPlace.PATH
        case ("validation_rules", int(), "expected" | "parameters", *_):
            return SlotPlace.DATA
        case ("action_plan", int(number), "operation", "details", *inside):
            return _classify_in_operation(tuple(inside), tree["action_plan"][number]["operation"]["details"])
        case ("action_plan", int(number), "operation", *inside):
            return _classify_in_operation(tuple(inside), tree["action_plan"][number]["operation"])
    return SlotPlace.LITERAL


def _classify_in_operation(inside: Where, operation: dict[str, Any]) -> SlotPlace:
    match inside:
        case ("new_path" | "save_results_to",):
            return SlotPlace.PATH
        case ("content",) | ("value" | "parameters", *_):
            return SlotPlace.DATA
        case ("pattern" | "replacement",):
            # In a pattern, and in its replacement, a backslash has a meaning.
            return SlotPlace.DATA if operation.get("regex", False) is False else SlotPlace.LITERAL
    return SlotPlace.LITERAL
