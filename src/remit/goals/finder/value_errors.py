"""Why a question is asked although something was said: for the user's eyes, beside the question, which stays as it is.

Looks again at what the Finder looked at, decides nothing, and is kept nowhere. Pure.
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
SEVERAL: Final = "more than one value could be meant"
NEGATED: Final = "this could also mean that it is not wanted"


def explain_unread_field(
    simulation: Simulation,
    name: str,
    language_tag: str,
    utterance: str,
    *,
    answers: bool,
    known: Mapping[str, JsonValue] = MappingProxyType({}),
) -> str:
    """What is wrong with what was said for this field; empty if nothing was said for it, or nothing is wrong.

    `answers` says that the words answer a question about this very field, and do not begin a goal; `known` are the
    values of the other fields, which are not meant for this one.
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
    """All of it, but for values of other fields that were given along."""
    rest = without(reading, gather_pairs(simulation, parse_pairs(reading)).spans)
    yield rest.text


def _placed(simulation: Simulation, name: str, languages: tuple[str, ...], reading: Reading) -> Iterator[str]:
    """What stands where a phrase has the field: in its very place, or right after the word before it."""
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
    """With the words themselves, unless anything in the utterance or the name of the field speaks of a secret."""
    if not problem:
        return ""
    field_value = {name: quoted}
    is_plain = mask_text(utterance) == utterance and mask_json(field_value) == field_value
    quotation = f"“{quoted}”" if is_plain and len(quoted) <= MAX_QUOTED else "What was said for it"
    return f"{quotation} {problem.removeprefix('this ')}" if problem.startswith("this ") else f"{quotation}: {problem}"
