"""Compiled phrases: a pattern for a text that is exactly the phrase, and its words for a similar text.

They are compiled once for each catalogue. They describe texts of users, and grant nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from remit.contracts.goals.simulation import FieldSpec, Simulation
from remit.goals.binding.fields import compile_pattern
from remit.goals.binding.slots import Slot, pieces_of
from remit.goals.binding.tokenizer import PUNCTUATION, fold, is_readable, is_without_spaces, read, split_words

# The characters that may separate the words of a phrase.
_BETWEEN: Final = f"[ {PUNCTUATION}]"
_CHUNKS: Final = re.compile(f"{_BETWEEN}+")
_NUMBER: Final = "[0-9]+(?:[.,][0-9]{1,2})?"
_CURRENCY: Final = "(?:[a-z]{3}|[€£$¥₹])"
# Without a length limit, because a counted repetition makes a pattern large. The length is checked when it is read.
_FRAGMENTS: Final[Mapping[str, str]] = {
    "identifier": r"[a-z0-9](?:[a-z0-9_.-]*[a-z0-9_-])?",
    "integer": r"[+-]?[0-9]+",
    "amount": f"{_NUMBER} ?{_CURRENCY}|{_CURRENCY} ?{_NUMBER}",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "email": r"[a-z0-9._%+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+",
    "path": r"[^ \"'<>|*?:]*[^ \"'<>|*?:.,;!]",
    "text": r".+?",
}

Pieces = tuple[str | Slot, ...]


@dataclass(frozen=True, slots=True)
class CompiledPhrase:
    """One phrase. `slots` are its fields, in the order of the pattern's groups."""

    pattern: str
    slots: tuple[str, ...]
    chunks: tuple[str, ...]
    words: tuple[str, ...]
    before: Mapping[str, str]
    """The word right before a placeholder, by field."""

    @property
    def exact(self) -> Any:
        """The pattern for a text that is exactly the phrase. Compiled when a text has all of its words."""
        return _compile_cached(self.pattern)


@dataclass(frozen=True, slots=True)
class CompiledSimulation:
    """The phrases of one simulation in one language. A value after a word of `before` belongs to that field."""

    simulation_id: str
    phrases: tuple[CompiledPhrase, ...]
    before: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class CompiledCatalogue:
    """The compiled phrases of one catalogue, by language. `ref` is the reference of that catalogue."""

    ref: str
    simulations: Mapping[str, tuple[CompiledSimulation, ...]]


def compile_catalogue(ref: str, simulations: Iterator[Simulation]) -> CompiledCatalogue:
    made: dict[str, list[CompiledSimulation]] = {}
    for simulation in simulations:
        for tag, listed in simulation.phrases.items():
            phrases = tuple(compile_phrase(simulation, phrase) for phrase in listed)
            before = {
                name: frozenset(phrase.before[name] for phrase in phrases if name in phrase.before)
                for name in simulation.fields
            }
            made.setdefault(tag.lower(), []).append(CompiledSimulation(simulation.id, phrases, before))
    return CompiledCatalogue(ref, {tag: tuple(listed) for tag, listed in made.items()})


@lru_cache(maxsize=1_024)
def _compile_cached(pattern: str) -> Any:
    return compile_pattern(pattern)


def compile_phrase(simulation: Simulation, phrase: str) -> CompiledPhrase:
    pieces = pieces_of(read(phrase).text)
    slots = tuple(piece.name for piece in pieces if isinstance(piece, Slot))
    chunks = tuple(chunk for piece in pieces if isinstance(piece, str) for chunk in _chunks(piece))
    return CompiledPhrase(
        _pattern(simulation, pieces),
        slots,
        chunks,
        split_words(" ".join(chunks)),
        _words_before(pieces),
    )


def phrase_problem(simulation: Simulation, phrase: str) -> str:
    """Return why a text cannot be a phrase of the simulation. Empty if it can."""
    if not is_readable(phrase):
        return "a phrase contains a control character"
    try:
        pieces = pieces_of(read(phrase).text)
    except ValueError as problem:
        return str(problem)
    slots = [piece for piece in pieces if isinstance(piece, Slot)]
    unknown = next((slot.name for slot in slots if slot.name not in simulation.fields or slot.part), "")
    if unknown:
        return f"a phrase has the placeholder {{{unknown}}}, but there is no such field"
    if len({slot.name for slot in slots}) != len(slots):
        return "a phrase has the same placeholder twice"
    if not split_words(read(" ".join(piece for piece in pieces if isinstance(piece, str))).folded):
        return "a phrase has no word of its own, so every text would match"
    if any(isinstance(one, Slot) and isinstance(two, Slot) for one, two in pairwise(pieces)):
        return "two placeholders have no word between them, so it is unclear where the first ends"
    return _find_glued(pieces)


def _find_glued(pieces: Pieces) -> str:
    for one, two in pairwise(pieces):
        edge = one[-1:] if isinstance(one, str) else str(two)[:1]
        if split_words(fold(edge)) and not is_without_spaces(edge):
            return "a word and a placeholder have no space between them, so it is unclear where one ends"
    return ""


def phrase_shape(simulation: Simulation, phrase: str) -> str:
    """Return the words and the field types of a phrase. Two phrases with the same shape match the same texts."""
    try:
        pieces = pieces_of(read(phrase).text)
    except ValueError:
        return phrase
    parts = (_type(simulation, piece) if isinstance(piece, Slot) else " ".join(_chunks(piece)) for piece in pieces)
    return " ".join(part for part in parts if part)


def _type(simulation: Simulation, slot: Slot) -> str:
    spec = simulation.fields.get(slot.name)
    return f"{{{spec.type}}}" if spec else "{}"


def _chunks(text: str) -> list[str]:
    return [chunk for chunk in _CHUNKS.split(read(text).folded) if chunk]


def _pattern(simulation: Simulation, pieces: Pieces) -> str:
    parts: list[str] = [f"{_BETWEEN}*"]
    for number, piece in enumerate(pieces):
        if isinstance(piece, Slot):
            parts.append(f"({_fragment(simulation.fields[piece.name])})")
            continue
        chunks = _chunks(piece)
        inside = f"{_BETWEEN}+".join(re.escape(chunk).replace("\\ ", " ") for chunk in chunks)
        before = _gap(piece[0]) if number > 0 else ""
        after = _gap(piece[-1]) if number < len(pieces) - 1 else ""
        parts.append(f"{before}{inside}{after}" if chunks else f"{_BETWEEN}+")
    return "".join((*parts, f"{_BETWEEN}*"))


def _gap(char: str) -> str:
    """Return the pattern between a word and a placeholder. A script without spaces needs no separator."""
    return f"{_BETWEEN}*" if is_without_spaces(char) or not _CHUNKS.fullmatch(char) else f"{_BETWEEN}+"


def _fragment(spec: FieldSpec) -> str:
    if spec.type == "choice":
        return "|".join(re.escape(read(choice).folded).replace("\\ ", " ") for choice in spec.choices)
    return _FRAGMENTS[spec.type]


def _words_before(pieces: Pieces) -> dict[str, str]:
    found: dict[str, str] = {}
    for one, two in pairwise(pieces):
        if isinstance(one, str) and isinstance(two, Slot):
            chunks = _chunks(one)
            if chunks:
                found[two.name] = chunks[-1]
    return found
