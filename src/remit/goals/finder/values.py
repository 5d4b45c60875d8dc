"""Finds field values in the text of a user: pairs like `field=value`, values in a phrase, and evident values. Pure.

It never guesses. If a field has two possible values, or a value two possible fields, the field stays open and the user
is asked.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from pydantic import JsonValue

from remit.contracts.goals.simulation import ChoiceField, FieldSpec, Simulation
from remit.core.canonical import digest
from remit.goals.binding.fields import read_text
from remit.goals.binding.tokenizer import (
    Reading,
    TextToken,
    fold,
    is_letter,
    is_without_spaces,
    locate_words,
    read,
    tokens,
)
from remit.goals.catalogue.phrases import CompiledPhrase

_PAIR: Final = re.compile(
    r"(?:(?<=[ ,;])|^)(?P<name>[a-z][a-z0-9_]{0,39})=(?:\"(?P<quoted>[^\"]*)\"|(?P<bare>[^ \"]+))"
)
_QUOTED: Final = re.compile(r"\"([^\"]+)\"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|「([^」]+)」")
# From the most specific type to the types that match nearly every word.
_ORDER: Final = ("email", "date", "amount", "path", "choice", "integer", "identifier", "text")
# A number may be of either type.
_FAMILY: Final = {"integer": "number", "identifier": "number"}
_EXTENSION: Final = re.compile(r".*[A-Za-z].*\.[A-Za-z0-9]{1,5}")


Found = tuple[int, int, JsonValue]
"""A value with its place in the text."""


@dataclass(slots=True)
class Gathered:
    """Values by field, fields whose given value cannot be read (`unclear`), and the positions of the values."""

    values: dict[str, JsonValue] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)
    spans: list[tuple[int, int]] = field(default_factory=list)

    def copy(self) -> "Gathered":
        return Gathered(dict(self.values), set(self.unclear), list(self.spans))

    def add(self, simulation: Simulation, name: str, text: str) -> None:
        """Add a value that belongs to this field. A second, different value makes the field unclear."""
        value = read_text(simulation.fields[name], text)
        if value is None or self.values.get(name, value) != value:
            self.values.pop(name, None)
            self.unclear.add(name)
        elif name not in self.unclear:
            self.values[name] = value

    def covers(self, start: int, end: int) -> bool:
        return any(start < used_end and used_start < end for used_start, used_end in self.spans)


@dataclass(frozen=True, slots=True)
class FieldCandidate:
    name: str
    text: str
    start: int
    end: int


class ParsedUtterance:
    """The parts of a text, computed once for all simulations: its words, its pairs, and its values of each type."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.words = locate_words(reading)
        self.vocabulary = frozenset(word.text for word in self.words)
        self.pairs = parse_pairs(reading)
        self._tokens = tokens(reading)
        self._values: dict[str, list[Found]] = {}

    def values(self, spec: FieldSpec) -> list[Found]:
        """Return the evident values for this field. Fields with the same definition share the result."""
        key = spec.model_dump_json(exclude={"question", "optional"})
        if key not in self._values:
            self._values[key] = _plain_values(spec, self.reading, self._tokens)
        return self._values[key]

    def words_outside(self, gathered: Gathered) -> tuple[str, ...]:
        return tuple(word.text for word in self.words if not gathered.covers(word.start, word.end))


def parse_pairs(reading: Reading) -> tuple[FieldCandidate, ...]:
    found = []
    for match in _PAIR.finditer(reading.text):
        text = match["quoted"] if match["quoted"] is not None else match["bare"].rstrip(",;.")
        found.append(FieldCandidate(match["name"], text, match.start(), match.end()))
    return tuple(found)


def gather_pairs(simulation: Simulation, pairs: Iterable[FieldCandidate]) -> Gathered:
    """Gather the pairs whose name is a field of the simulation."""
    gathered = Gathered()
    for pair in pairs:
        if pair.name in simulation.fields:
            gathered.add(simulation, pair.name, pair.text)
            gathered.spans.append((pair.start, pair.end))
    return gathered


def gather_slots(
    simulation: Simulation, phrase: CompiledPhrase, reading: Reading, gathered: Gathered
) -> Gathered | None:
    """If the text is exactly the phrase, add the values of its placeholders. Otherwise return None."""
    if not all(chunk in reading.folded for chunk in phrase.chunks):
        return None
    found = phrase.exact.fullmatch(reading.folded)
    if found is None:
        return None
    more = gathered.copy()
    for number, name in enumerate(phrase.slots, start=1):
        start, end = found.span(number)
        more.add(simulation, name, reading.text[reading.origin[start] : reading.origin[end]].strip())
    return more


def gather_plain_values(
    simulation: Simulation, before: Mapping[str, frozenset[str]], utterance: ParsedUtterance, gathered: Gathered
) -> Gathered:
    """Add evident values: a value right after the word before its placeholder, or the only value of its type."""
    more = gathered.copy()
    for kind in _ORDER:
        for name in simulation.field_order:
            if simulation.fields[name].type == kind and _is_open(name, more):
                _gather_field(simulation, name, before.get(name, frozenset()), utterance, more)
    return more


def only_value(spec: FieldSpec, text: str) -> JsonValue:
    """Return the only value of this type in an answer. None if there is no value, or more than one."""
    values = [value for _, _, value in ParsedUtterance(read(text)).values(spec)]
    return values[0] if values and all(value == values[0] for value in values) else None


def without(reading: Reading, spans: Iterable[tuple[int, int]]) -> Reading:
    text = list(reading.text)
    for start, end in spans:
        text[start:end] = " " * (end - start)
    return read("".join(text))


def _is_open(name: str, gathered: Gathered) -> bool:
    return name not in gathered.values and name not in gathered.unclear


def _gather_field(
    simulation: Simulation, name: str, words_before: frozenset[str], utterance: ParsedUtterance, gathered: Gathered
) -> None:
    found = [each for each in utterance.values(simulation.fields[name]) if not gathered.covers(each[0], each[1])]
    after = [each for each in found if word_before(utterance.reading, each[0]) in words_before]
    chosen = after if len(after) == 1 else found
    if _is_one_too_many(simulation, name, [value for _, _, value in found], gathered):
        return  # two values for one field: the user is asked
    if len(chosen) != 1 or (chosen is found and _is_contested(simulation, name, gathered)):
        return
    start, end, value = chosen[0]
    gathered.values[name] = value
    gathered.spans.append((start, end))


def _is_one_too_many(simulation: Simulation, name: str, values: list[JsonValue], gathered: Gathered) -> bool:
    """Tell whether the text has more different values than open fields that could have them."""
    family = _family(simulation.fields[name])
    open_ones = [one for one, spec in simulation.fields.items() if _family(spec) == family and _is_open(one, gathered)]
    return len({digest(value) for value in values}) > len(open_ones)


def _is_contested(simulation: Simulation, name: str, gathered: Gathered) -> bool:
    """Tell whether another open field could have the same value."""
    family = _family(simulation.fields[name])
    return any(
        other != name and _family(spec) == family and _is_open(other, gathered)
        for other, spec in simulation.fields.items()
    )


def _family(spec: FieldSpec) -> str:
    return _FAMILY.get(spec.type, spec.type)


def word_before(reading: Reading, position: int) -> str:
    ahead = reading.text[:position].rstrip(" .,:;\"'“„«(")
    start = len(ahead)
    while start > 0 and ahead[start - 1] != " " and not is_without_spaces(ahead[start - 1]):
        start -= 1
    return fold(ahead[start:]) if start < len(ahead) else ""


def _plain_values(spec: FieldSpec, reading: Reading, listed: tuple[TextToken, ...]) -> list[Found]:
    if spec.type == "text":
        return _values(spec, ((match.start(), match.end(), _inside(match)) for match in _QUOTED.finditer(reading.text)))
    if isinstance(spec, ChoiceField):
        return _choices(spec, reading)
    if spec.type == "amount":
        both = [TextToken(one.start, two.end, f"{one.text} {two.text}") for one, two in pairwise(listed)]
        found = _values(spec, ((token.start, token.end, token.text) for token in (*listed, *both)))
        return _apart(found)
    matching = (token for token in listed if _looks_like(spec, token.text))
    return _values(spec, ((token.start, token.end, token.text) for token in matching))


def _apart(found: list[Found]) -> list[Found]:
    """Drop overlapping values: `EUR 5 EUR` can be read in two ways, so neither is used."""
    overlapping = any(one is not two and one[0] < two[1] and two[0] < one[1] for one in found for two in found)
    return [] if overlapping else found


def _values(spec: FieldSpec, texts: Iterable[tuple[int, int, str]]) -> list[Found]:
    read_ones = ((start, end, read_text(spec, text)) for start, end, text in texts)
    return [(start, end, value) for start, end, value in read_ones if value is not None]


def _inside(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _looks_like(spec: FieldSpec, text: str) -> bool:
    """Tell whether a text is evidently a value of this type. An identifier needs a digit, for example."""
    if spec.type == "identifier":
        return any(char in "0123456789" for char in text)
    if spec.type == "path":
        return "/" in text or _EXTENSION.fullmatch(text) is not None
    return True


def _choices(spec: ChoiceField, reading: Reading) -> list[Found]:
    found: list[Found] = []
    for choice in spec.choices:
        wanted = read(choice).folded
        start = reading.folded.find(wanted)
        while start >= 0:
            end = start + len(wanted)
            if _is_edge(reading.folded, start - 1, wanted[0]) and _is_edge(reading.folded, end, wanted[-1]):
                found.append((reading.origin[start], reading.origin[end], choice))
            start = reading.folded.find(wanted, end)
    # `next day` contains `day`: the longer choice is used.
    return [
        one
        for one in found
        if not any(
            two is not one and two[0] <= one[0] and one[1] <= two[1] and two[1] - two[0] > one[1] - one[0]
            for two in found
        )
    ]


def _is_edge(folded: str, position: int, beside: str) -> bool:
    if not 0 <= position < len(folded) or is_without_spaces(beside):
        return True
    return not (is_letter(folded[position]) or folded[position] in "0123456789")
