"""The Finder: makes exactly one packet from the text of a user. Embedded and deterministic.

The same text, language, thread and catalogue give the same packet, byte for byte, on any machine. It uses no clock, no
random numbers, no network and no floating-point arithmetic. It uses only phrases of the text's own language and of the
language that contains it (`de` for `de-AT`), and never tries another language. The Finder grants nothing: it identifies
the simulation, and the gates decide.

1. It refuses a text that cannot be read.
2. In a thread, the text is the answer to the last question, and nothing else.
3. Otherwise each simulation, in any state, gets the score of its best phrase. Those below the threshold are excluded.
   If none is left, and the text is a phrase with a negation, such as `do not`, it refuses the request.
4. It selects the first in order (score, ACTIVE before others, id). If a field is open, it asks the question of that
   field: exactly as the catalogue has it for the language, one at a time, the first in the catalogue's order.
5. It does not choose between two with equal scores. A match contains both scores; with an open field it refuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from pydantic import JsonValue

from remit.contracts.goals.localised_text import matching_language_tags
from remit.contracts.goals.simulation import Simulation
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError
from remit.core.ttl_cache import TTLCache
from remit.goals.binding.fields import problem_with, read_text
from remit.goals.binding.tokenizer import MAX_UTTERANCE, PUNCTUATION, Reading, fold, is_letter, is_readable, read
from remit.goals.catalogue.catalogue import Catalogue, CatalogueEntry
from remit.goals.catalogue.phrases import CompiledCatalogue, CompiledPhrase, CompiledSimulation, compile_catalogue
from remit.goals.finder.negation import contains_negation, negates, refuses
from remit.goals.finder.packets import Packet, PacketDraft, ThreadState, Utterance, after_clarify, seal_packet
from remit.goals.finder.scoring import EXACT, MAX_BONUS, NEARLY, THRESHOLD, best_possible, score_phrase
from remit.goals.finder.suggestions import Near, nearest
from remit.goals.finder.values import (
    Gathered,
    ParsedUtterance,
    gather_pairs,
    gather_plain_values,
    gather_slots,
    only_value,
    parse_pairs,
    without,
)
from remit.masking import mask_text

__all__ = ["EmbeddedFinder", "Finder", "FinderCache", "ThreadState", "Utterance", "after_clarify"]

VERSION: Final = "embedded-2"
MAX_ATTEMPTS: Final = 5
MAX_CANDIDATES: Final = 5
MAX_INTENT: Final = 200


class Finder(Protocol):
    """An object that returns a packet. The gates check every packet against the catalogue before they use it."""

    @property
    def version(self) -> str: ...

    def find(self, request: Utterance, catalogue: Catalogue) -> Packet: ...


class FinderCache(TTLCache[str, CompiledCatalogue]):
    """A cache of compiled phrases, by the reference of their catalogue. It has no data that a gate uses."""

    def __init__(self, most: int = 32, seconds: float = 300, **paired: Any) -> None:
        super().__init__(most, seconds, **paired)


@dataclass(frozen=True, slots=True)
class _PhraseMatch:
    entry: CatalogueEntry
    score: int
    words: tuple[str, ...]
    gathered: Gathered


@dataclass(frozen=True, slots=True)
class EmbeddedFinder:
    """The embedded Finder. `bonus` has learned points by simulation: they move the score of a match by at most 500.

    `learned_until` is the last entry of the tenant's ledger from which the points follow, for the proof.
    """

    bonus: Mapping[str, int] = field(default_factory=dict)
    learned_until: int | None = None
    cache: FinderCache = field(default_factory=FinderCache, compare=False)

    @property
    def version(self) -> str:
        learned = {name: _bounded(points) for name, points in self.bonus.items() if _bounded(points)}
        return f"{VERSION}+{digest(learned)}" if learned else VERSION

    def find(self, request: Utterance, catalogue: Catalogue) -> Packet:
        return self.find_with_proof(request, catalogue)[0]

    def find_with_proof(self, request: Utterance, catalogue: Catalogue) -> tuple[Packet, dict[str, Any]]:
        """Return the packet and its proof document. `proof_ref` in the packet is the digest of that document."""
        if request.tenant_id != catalogue.tenant_id:
            raise RefusedError(
                Reason.BINDING_MISMATCH,
                "the catalogue belongs to another tenant",
                where=f"correlation {request.correlation_id}",
                next_step="Use the catalogue of the user's own tenant.",
            )
        bonus = {name: _bounded(points) for name, points in self.bonus.items()}
        draft = replace(self._decide(request, catalogue), bonus=bonus, learned_until=self.learned_until)
        return seal_packet(request, catalogue.ref, self.version, draft)

    def _decide(self, request: Utterance, catalogue: Catalogue) -> PacketDraft:
        if len(request.utterance) > MAX_UTTERANCE or not is_readable(request.utterance):
            return PacketDraft("refuse", reason_code="UTTERANCE_UNREADABLE")
        reading = read(request.utterance)
        if not reading.text:
            return PacketDraft("refuse", reason_code="UTTERANCE_EMPTY")
        if len(reading.text) > MAX_UTTERANCE or not any(is_letter(c) or c in "0123456789" for c in reading.folded):
            return PacketDraft("refuse", reason_code="UTTERANCE_UNREADABLE")
        if request.thread is not None:
            return _read_answer(request.thread, request.language_tag, reading, catalogue)
        return self._search(request.language_tag, reading, catalogue)

    def nearest(self, language_tag: str, utterance: str, catalogue: Catalogue) -> tuple[Near, ...]:
        """Return suggestions to display when nothing was found. No packet contains them."""
        return nearest(catalogue, self._compiled_catalogue(catalogue), language_tag, utterance)

    def _compiled_catalogue(self, catalogue: Catalogue) -> CompiledCatalogue:
        return self.cache.get(
            catalogue.ref, lambda: compile_catalogue(catalogue.ref, (each.simulation for each in catalogue))
        )

    def _search(self, language_tag: str, reading: Reading, catalogue: Catalogue) -> PacketDraft:
        matches = self._ranked(language_tag, reading, catalogue, self._compiled_catalogue(catalogue))
        if not matches:
            return self._nothing_found(language_tag, reading, catalogue)
        top = matches[0]
        considered = tuple((match.entry.simulation.id, match.score, match.words) for match in matches)
        open_field = _first_open(top.entry.simulation, top.gathered)
        if not open_field:
            steps = catalogue.steps_of(top.entry)
            return PacketDraft("match", considered=considered, fields=top.gathered.values, steps=steps)
        if len(matches) > 1 and matches[1].score == top.score:
            return PacketDraft("refuse", reason_code="CANDIDATES_UNRESOLVED", considered=considered)
        question_args = (top.entry.simulation, open_field, language_tag)
        return _question(*question_args, 1, top.gathered.values, considered)

    def _nothing_found(self, language_tag: str, reading: Reading, catalogue: Catalogue) -> PacketDraft:
        negated = self._ranked(language_tag, reading, catalogue, self._compiled_catalogue(catalogue), negated=True)
        if not negated:
            return PacketDraft("missing", intent=intent_of(reading))
        considered = tuple((match.entry.simulation.id, match.score, match.words) for match in negated)
        return PacketDraft("refuse", reason_code="REQUEST_NEGATED", considered=considered)

    def _ranked(
        self,
        language_tag: str,
        reading: Reading,
        catalogue: Catalogue,
        compiled: CompiledCatalogue,
        *,
        negated: bool = False,
    ) -> list[_PhraseMatch]:
        """Return the best matches, or, with `negated`, those that the text would have without its negation."""
        best: dict[str, _PhraseMatch] = {}
        utterance = ParsedUtterance(reading)
        for tag in matching_language_tags(language_tag):
            for each in compiled.simulations.get(tag, ()):
                entry = catalogue.find(each.simulation_id)
                language = tag.partition("-")[0]
                match = _best_match(entry, each, utterance, language, negated) if entry is not None else None
                known = best.get(each.simulation_id)
                if match is not None and (known is None or match.score > known.score):
                    best[each.simulation_id] = match
        return sorted(map(self._with_bonus, best.values()), key=_order)[:MAX_CANDIDATES]

    def _with_bonus(self, match: _PhraseMatch) -> _PhraseMatch:
        if match.score == EXACT:
            return match
        moved = max(0, min(NEARLY, match.score + _bounded(self.bonus.get(match.entry.simulation.id, 0))))
        return _PhraseMatch(match.entry, moved, match.words, match.gathered)


def intent_of(reading: Reading) -> str:
    """Return a short, masked and normalised form of the request, for the developers of simulations."""
    return fold(mask_text(reading.text)[:MAX_INTENT])[:MAX_INTENT].strip() or "?"


def _bounded(points: int) -> int:
    return max(-MAX_BONUS, min(MAX_BONUS, points))


def _order(match: _PhraseMatch) -> tuple[int, bool, str]:
    return -match.score, match.entry.state != "ACTIVE", match.entry.simulation.id


def _best_match(
    entry: CatalogueEntry,
    compiled: CompiledSimulation,
    utterance: ParsedUtterance,
    language: str,
    negated: bool,  # noqa: FBT001 - see EmbeddedFinder._ranked
) -> _PhraseMatch | None:
    """Return the match with the best phrase of the simulation, or None if no phrase reaches the threshold."""
    simulation = entry.simulation
    likely = [
        phrase
        for phrase in compiled.phrases
        if best_possible(phrase.words, len(phrase.slots), utterance.vocabulary) >= THRESHOLD
    ]
    if not likely:
        return None
    paired = gather_pairs(simulation, utterance.pairs)
    rest = without(utterance.reading, paired.spans) if paired.spans else utterance.reading
    for phrase in likely:
        placed = gather_slots(simulation, phrase, rest, paired)
        if placed is not None:
            _leave_negations_open(simulation, language, placed)
            return _PhraseMatch(entry, EXACT, phrase.words, placed)
    plain = gather_plain_values(simulation, compiled.before, utterance, paired)
    words = utterance.words_outside(plain)
    scored = [(_nearness(phrase, plain, words, rest, language, negated), phrase) for phrase in likely]
    score, nearest = max(scored, key=lambda pair: pair[0])  # of equals, the first in the file
    return _PhraseMatch(entry, score, nearest.words, plain) if score >= THRESHOLD else None


def _nearness(
    phrase: CompiledPhrase,
    plain: Gathered,
    words: tuple[str, ...],
    rest: Reading,
    language: str,
    negated: bool,  # noqa: FBT001 - see EmbeddedFinder._ranked
) -> int:
    filled = sum(name in plain.values for name in phrase.slots)
    if best_possible(phrase.words, len(phrase.slots), frozenset(phrase.words), len(words)) < THRESHOLD:
        return 0  # too many other words for any match
    is_negated = refuses if negated else contains_negation
    if is_negated(language, words, rest.folded, phrase.words, "".join(phrase.chunks)) is not negated:
        return 0
    return score_phrase(phrase.words, len(phrase.slots), words, filled)


def _leave_negations_open(simulation: Simulation, language: str, gathered: Gathered) -> None:
    """Leave an identifier open if its value is a negation: `refund order never` names no order."""
    for name, spec in simulation.fields.items():
        value = gathered.values.get(name)
        if spec.type == "identifier" and isinstance(value, str) and negates(language, fold(value)):
            del gathered.values[name]
            gathered.unclear.add(name)


def _first_open(simulation: Simulation, gathered: Gathered) -> str:
    """Return the first open field: a missing one, or one (even optional) whose given value cannot be read."""
    return next(
        (
            name
            for name in simulation.field_order
            if name in gathered.unclear or (name not in gathered.values and not simulation.fields[name].optional)
        ),
        "",
    )


def _read_answer(thread: ThreadState, language_tag: str, reading: Reading, catalogue: Catalogue) -> PacketDraft:
    """Read the answer to a question. Earlier values are checked again, because the catalogue may have changed."""
    entry = catalogue.find(thread.simulation_id)
    if entry is None or thread.awaiting not in entry.simulation.fields:
        return PacketDraft("refuse", reason_code="CLARIFY_STALE")
    simulation = entry.simulation
    gathered = gather_pairs(simulation, parse_pairs(reading))
    rest = without(reading, gathered.spans)
    for name, value in thread.fields.items():
        known = simulation.fields.get(name)
        if known is not None and name not in gathered.unclear and not problem_with(known, value):
            gathered.values.setdefault(name, value)
    if thread.awaiting not in gathered.values and thread.awaiting not in gathered.unclear:
        value = _value_in(simulation, thread.awaiting, rest)
        if value is not None:
            gathered.values[thread.awaiting] = value
    open_field = _first_open(simulation, gathered)
    considered = ((simulation.id, EXACT, ()),)
    if not open_field:
        steps = catalogue.steps_of(entry)
        return PacketDraft("match", considered=considered, fields=gathered.values, steps=steps)
    if thread.attempt >= MAX_ATTEMPTS:
        return PacketDraft("refuse", reason_code="CLARIFY_LIMIT", considered=considered)
    question_args = (simulation, open_field, language_tag)
    return _question(*question_args, thread.attempt + 1, gathered.values, considered)


def _value_in(simulation: Simulation, name: str, reading: Reading) -> JsonValue:
    spec = simulation.fields[name]
    whole = read_text(spec, reading.text.strip(f" {PUNCTUATION}"))
    return only_value(spec, reading.text) if whole is None else whole


def _question(
    simulation: Simulation,
    name: str,
    language_tag: str,
    attempt: int,
    values: Mapping[str, JsonValue],
    considered: tuple[tuple[str, int, tuple[str, ...]], ...],
) -> PacketDraft:
    return PacketDraft(
        "clarify",
        considered=considered,
        simulation_id=simulation.id,
        question=simulation.question_in(name, language_tag),
        awaiting=name,
        attempt=attempt,
        fields=values,
    )
