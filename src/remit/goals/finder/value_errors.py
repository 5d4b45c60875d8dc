"""Explains why the Finder asks for a field although the user gave a value. The text is shown beside the question.

It reads the same text as the Finder, decides nothing, and is not stored. Pure.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from remit.contracts.goals.localised_text import matching_language_tags
from remit.contracts.goals.simulation import FieldSpec, Simulation
from remit.core.canonical import digest
from remit.goals.binding.fields import explain_invalid
from remit.goals.binding.tokenizer import MAX_UTTERANCE, PUNCTUATION, Reading, fold, is_readable, read, tokens
from remit.goals.catalogue.phrases import CompiledPhrase, compile_phrase
from remit.goals.finder.negation import negates
from remit.goals.finder.values import ParsedUtterance, gather_pairs, parse_pairs, without, word_before
from remit.masking import mask_json, mask_text

MAX_QUOTED: Final = 60
SEVERAL: Final = "your text contains more than one possible value"
NEGATED: Final = "this may also be a negation"


def explain_unread_field(
    simulation: Simulation,
    name: str,
    language_tag: str,
    utterance: str,
    *,
    answers: bool,
    known: Mapping[str, JsonValue] = MappingProxyType({}),
) -> str:
    """Return the problem of the value that the user gave for a field. Empty if they gave none, or it has no problem.

    `answers`: the text answers a question about this field, and does not start a goal. `known`: the values of the other
    fields, which do not belong to this one.
    """
    spec = simulation.fields.get(name)
    if spec is None or len(utterance) > MAX_UTTERANCE or not is_readable(utterance):
        return ""
    reading = read(utterance)
    paired = [pair.text for pair in parse_pairs(reading) if pair.name == name]
    if len({read(text).text for text in paired}) > 1:
        return SEVERAL
    if not paired and len(_different(spec, reading) - {digest(value) for value in known.values()}) > 1:
        return SEVERAL
    placed = (
        _answer(simulation, reading)
        if answers
        else _placed(simulation, name, matching_language_tags(language_tag), reading)
    )
    quoted = next(iter(paired), "") or next(placed, "")
    if not quoted:
        return ""
    problem = explain_invalid(spec, quoted.strip(f" {PUNCTUATION}") if answers and not paired else quoted)
    if not problem and spec.type == "identifier" and negates(language_tag.lower().partition("-")[0], fold(quoted)):
        problem = NEGATED
    return _quote_problem(problem, name, quoted, utterance)


def _different(spec: FieldSpec, reading: Reading) -> set[str]:
    return {digest(value) for _, _, value in ParsedUtterance(reading).values(spec)}


def _answer(simulation: Simulation, reading: Reading) -> Iterator[str]:
    """Yield the whole answer without the values of other fields in it."""
    rest = without(reading, gather_pairs(simulation, parse_pairs(reading)).spans)
    yield rest.text


def _placed(simulation: Simulation, name: str, languages: tuple[str, ...], reading: Reading) -> Iterator[str]:
    """Yield the texts at the position of the field in a phrase: in its place, or right after the word before it."""
    phrases = [
        compile_phrase(simulation, phrase)
        for tag, listed in simulation.phrases.items()
        if tag.lower() in languages
        for phrase in listed
    ]
    for phrase in phrases:
        if name in phrase.slots and (found := _text_in_slot(phrase, name, reading)):
            yield found
    before = {phrase.before[name] for phrase in phrases if name in phrase.before}
    phrase_words = {word for phrase in phrases for word in phrase.words}
    for token in tokens(reading):
        if word_before(reading, token.start) in before and fold(token.text) not in phrase_words:
            yield token.text


def _text_in_slot(phrase: CompiledPhrase, name: str, reading: Reading) -> str:
    found = phrase.exact.fullmatch(reading.folded)
    if found is None:
        return ""
    start, end = found.span(phrase.slots.index(name) + 1)
    return reading.text[reading.origin[start] : reading.origin[end]].strip()


def _quote_problem(problem: str, name: str, quoted: str, utterance: str) -> str:
    """Add the quoted value to the problem, unless the text or the name of the field looks like a secret."""
    if not problem:
        return ""
    field_value = {name: quoted}
    is_plain = mask_text(utterance) == utterance and mask_json(field_value) == field_value
    quotation = f"“{quoted}”" if is_plain and len(quoted) <= MAX_QUOTED else "The value that you gave"
    return f"{quotation} {problem.removeprefix('this ')}" if problem.startswith("this ") else f"{quotation}: {problem}"
