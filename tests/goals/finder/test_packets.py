"""From what a user said to exactly one packet."""

from collections.abc import Mapping
from typing import Any

import pytest

from remit.contracts.goals.finder_proof import FinderProof
from remit.contracts.goals.packets import FINDER_PACKET, ClarifyPacket
from remit.core.canonical import digest
from remit.core.errors import RefusedError
from remit.goals.finder import negation
from remit.goals.finder.finder import EmbeddedFinder, FinderCache, ThreadState, after_clarify
from tests.goals.catalogue.simulations import ALL, AMOUNT, LOOKUP, MOVE, ORDER, REFUND, catalogue_of, changed
from tests.goals.finder.fixed_questions import EUR, FINDER, THREAD, asked, found


def kind(packet: Mapping[str, Any]) -> str:
    return str(packet["packet_type"])


@pytest.mark.req("AC-20", "AC-02")
def test_a_text_that_is_the_phrase_is_a_match_with_its_values() -> None:
    packet = found("Give  12,50 EUR back, for order A-17!")
    assert kind(packet) == "match"
    assert packet["candidates"] == [{"simulation_id": "refund-order", "score": 1.0}]
    assert packet["fields"] == {"order_id": "A-17", "amount": EUR}
    assert packet["catalog_snapshot_ref"] == catalogue_of().ref
    assert FINDER_PACKET.from_tree(packet).tree() == packet


@pytest.mark.req("AC-20")
def test_what_only_resembles_a_phrase_matches_if_it_is_near_enough() -> None:
    near = found("please can you show the order A-17")
    assert (kind(near), near["candidates"][0]["simulation_id"]) == ("match", "look-up-order")
    assert near["fields"] == {"order_id": "A-17"}
    assert 0.7 <= near["candidates"][0]["score"] < 1.0
    for far in (
        "the order of the show on A-17 street is quite unknown to us all",
        "show me",
        "order",
        "order A-17 show",
        "what is the weather",
    ):
        assert kind(found(far)) == "missing", far


@pytest.mark.req("AC-20", "AC-04")
def test_a_negated_request_is_refused_and_is_no_gap_in_the_catalogue() -> None:
    for text in (
        "do not show order A-17",
        "never show order A-17",
        "don't show order A-17",
        "show no order A-17",
    ):
        packet = found(text)
        assert (kind(packet), packet.get("reason_code")) == ("refuse", "REQUEST_NEGATED"), text
    assert found("Erstatte Bestellung A-17 nicht", "de")["reason_code"] == "REQUEST_NEGATED"
    assert found("不要退款订单A-17", "zh")["reason_code"] == "REQUEST_NEGATED"
    for text in ("stop, show order A-17", "cancel order A-17", "do not make coffee"):
        assert kind(found(text)) == "missing", text  # another request, and a simulation for it may be missing
    never = found("show order never")
    assert (kind(never), never["field"]) == ("clarify", "order_id")
    keep = changed(MOVE, phrases={"en": ["do not keep {name}"]})
    assert kind(found("please do not keep r7", catalogue=catalogue_of(keep))) == "match"
    assert found("never do not keep r7", catalogue=catalogue_of(keep))["reason_code"] == "REQUEST_NEGATED"


@pytest.mark.req("AC-20", "AC-04")
def test_every_listed_negation_of_a_language_refuses_the_request() -> None:
    """The phrase is of made-up words, so only the negation is of the language."""
    lists = [*negation._WORDS.items(), *negation._PARTS.items()]  # noqa: SLF001 - the lists themselves are tested
    assert len(lists) > 60
    for language, words in lists:
        catalogue = catalogue_of(changed(LOOKUP, phrases={language: ["zarpo quintel vemba ruk {order_id}"]}))
        for word in words.split():
            plain = found("now zarpo quintel vemba ruk A-17", language, catalogue=catalogue)
            packet = found(f"{word} zarpo quintel vemba ruk A-17", language, catalogue=catalogue)
            assert (kind(plain), packet.get("reason_code")) == ("match", "REQUEST_NEGATED"), (language, word)


def test_only_the_language_of_the_text_counts_and_what_it_is_a_kind_of() -> None:
    assert kind(found("refund order A-17", "de")) == "missing"
    assert kind(found("erstatte Bestellung A-17", "en")) == "missing"
    assert kind(found("erstatte Bestellung A-17", "de-AT")) == "clarify"
    assert kind(found("erstatte Bestellung A-17", "DE-at")) == "clarify"
    assert kind(found("退款订单A-17", "zh-Hant-TW")) == "clarify"
    assert kind(found("退款订单A-17", "ja")) == "missing"
    austrian = changed(REFUND, phrases={"de-AT": ["erstatte Bestellung {order_id}"]})
    assert kind(found("erstatte Bestellung A-17", "de", catalogue=catalogue_of(austrian))) == "missing"


@pytest.mark.req("AC-03", "AC-20")
def test_the_first_open_field_is_asked_for_word_for_word_and_one_at_a_time() -> None:
    first, proof = FINDER.find_with_proof(asked("refund order"), catalogue_of())
    assert isinstance(first, ClarifyPacket)
    assert (first.question, first.field, first.attempt) == (ORDER["question"], "order_id", 1)
    thread = after_clarify(first, proof)
    assert thread == ThreadState("refund-order", {}, "order_id", 1)

    second, proof = FINDER.find_with_proof(asked("It is A-17.", thread=thread), catalogue_of())
    assert isinstance(second, ClarifyPacket)
    assert (second.question, second.field, second.attempt) == (AMOUNT["question"], "amount", 2)
    thread = after_clarify(second, proof)
    assert thread.fields == {"order_id": "A-17"}

    third = found("12.50 EUR", thread=thread)
    assert (kind(third), third["fields"]) == ("match", {"order_id": "A-17", "amount": EUR})
    assert [each["simulation_id"] for each in third["candidates"]] == ["refund-order"]

    turned = changed(REFUND, fields=dict(reversed(REFUND["fields"].items())))
    assert found("refund order", catalogue=catalogue_of(turned))["field"] == "amount"


@pytest.mark.req("AC-03")
def test_an_answer_that_is_none_is_asked_for_again_and_at_most_five_times() -> None:
    for attempt in range(1, 5):
        again = found("I do not know", thread=ThreadState("refund-order", {"order_id": "A-17"}, "amount", attempt))
        assert (kind(again), again["attempt"]) == ("clarify", attempt + 1)
    last = found("I do not know", thread=ThreadState("refund-order", {"order_id": "A-17"}, "amount", 5))
    assert (kind(last), last["reason_code"]) == ("refuse", "CLARIFY_LIMIT")
    in_time = found("12.50 EUR", thread=ThreadState("refund-order", {"order_id": "A-17"}, "amount", 5))
    assert kind(in_time) == "match"


def test_an_answer_answers_the_question_and_starts_nothing_else() -> None:
    other = found("show order B-2", thread=THREAD)
    assert (kind(other), other["field"]) == ("clarify", "amount")
    two = found("12.50 EUR or 13.50 EUR", thread=THREAD)
    assert (kind(two), two["field"]) == ("clarify", "amount")
    gone = found("12.50 EUR", thread=THREAD, catalogue=catalogue_of(LOOKUP))
    assert (kind(gone), gone["reason_code"]) == ("refuse", "CLARIFY_STALE")
    stale = ThreadState("refund-order", {"order_id": "no good", "x": 1}, "amount", 1)
    assert found("12.50 EUR", thread=stale)["field"] == "order_id"


def test_the_state_of_a_thread_comes_from_its_own_proof_only() -> None:
    packet, proof = FINDER.find_with_proof(asked("refund order A-17"), catalogue_of())
    assert isinstance(packet, ClarifyPacket)
    for changes in ({"fields": {"order_id": "B-2"}}, {"simulation_id": "look-up-order"}, {"attempt": 0}, {"x": 1}):
        with pytest.raises(RefusedError):
            after_clarify(packet, {**proof, **changes})
    assert after_clarify(packet, proof).fields == {"order_id": "A-17"}


def test_values_given_by_name_count_and_a_contradiction_is_asked_about() -> None:
    pairs = found('refund order amount="12.50 EUR" order_id=A-17')
    assert (kind(pairs), pairs["fields"]) == ("match", {"order_id": "A-17", "amount": EUR})
    torn = found("refund order A-17 order_id=B-2 amount=5EUR")
    assert (kind(torn), torn["field"]) == ("clarify", "order_id")
    twice = found("refund order order_id=A-17 order_id=B-2 amount=5EUR")
    assert (kind(twice), twice["field"]) == ("clarify", "order_id")
    wrong = found("refund order A-17 amount=lots")
    assert (kind(wrong), wrong["field"]) == ("clarify", "amount")
    optional = changed(
        LOOKUP, fields={"order_id": ORDER, "day": {"type": "date", "question": "When?", "optional": True}}
    )
    given = found("show order A-17 day=tomorrow", catalogue=catalogue_of(optional))
    assert (kind(given), given["field"]) == ("clarify", "day")
    assert kind(found("show order A-17", catalogue=catalogue_of(optional))) == "match"


def test_a_value_that_two_fields_could_mean_is_asked_about() -> None:
    two = changed(
        LOOKUP,
        fields={"order_id": ORDER, "count": {"type": "integer", "question": "How many?"}},
        phrases={"en": ["show {count} lines of order {order_id}"]},
    )
    places = found("show 3 lines of order 17", catalogue=catalogue_of(two))
    assert places["fields"] == {"order_id": "17", "count": 3}
    unclear = found("show the lines of order please 17", catalogue=catalogue_of(two))
    assert (kind(unclear), unclear["field"]) == ("clarify", "order_id")
    _, proof = FINDER.find_with_proof(asked("show the lines of order please 17"), catalogue_of(two))
    assert proof["fields"] == {}


@pytest.mark.req("AC-02", "AC-12")
def test_two_that_fit_equally_well_are_shown_as_equal_and_never_chosen_between() -> None:
    fields = {"order_id": ORDER}
    other = changed(LOOKUP, id="print-order", fields=fields, phrases={"en": ["show order for {order_id}"]})
    both = catalogue_of(changed(LOOKUP, phrases={"en": ["show my order {order_id}"]}), other)
    packet = found("show order A-17", catalogue=both)
    assert kind(packet) == "match"
    one, two = packet["candidates"]
    assert (one["simulation_id"], two["simulation_id"]) == ("look-up-order", "print-order")
    assert one["score"] == two["score"]
    asking = found("show order", catalogue=both)
    assert (kind(asking), asking["reason_code"]) == ("refuse", "CANDIDATES_UNRESOLVED")


@pytest.mark.req("AC-02")
def test_candidates_stand_in_one_strict_order_and_are_at_most_five() -> None:
    trees = [
        changed(LOOKUP, id=f"show-{number}", phrases={"en": [f"show order {{order_id}} {'very ' * number}well"]})
        for number in range(1, 8)
    ]
    packet = found("show order A-17 very well", catalogue=catalogue_of(*trees))
    scores = [each["score"] for each in packet["candidates"]]
    assert [each["simulation_id"] for each in packet["candidates"]][:2] == ["show-1", "show-2"]
    assert (scores[0], len(scores) <= 5, scores) == (1.0, True, sorted(scores, reverse=True))
    same = [
        changed(LOOKUP, id=f"show-{letter}", phrases={"en": [f"show {letter} order {{order_id}}"]}) for letter in "zyx"
    ]
    equal = found("show order A-17", catalogue=catalogue_of(*same, active=["show-y"]))
    assert [each["simulation_id"] for each in equal["candidates"]] == ["show-y", "show-x", "show-z"]


@pytest.mark.req("AC-20")
def test_a_draft_is_found_like_any_other_since_the_gates_decide() -> None:
    packet = found("show order A-17", catalogue=catalogue_of(*ALL, active=[]))
    assert [each["simulation_id"] for each in packet["candidates"]] == ["look-up-order"]


@pytest.mark.req("AC-04")
def test_a_request_that_no_simulation_covers_is_a_gap_with_a_short_masked_intent() -> None:
    packet = found("Order me a PIZZA with password=hunter2secret and card 4111 1111 1111 1111 " + "x " * 300)
    assert kind(packet) == "missing"
    assert packet["intent"].startswith("order me a pizza")
    assert len(packet["intent"]) <= 200
    assert "hunter2secret" not in packet["intent"]
    assert "4111" not in packet["intent"]
    assert kind(found("show order A-17", catalogue=catalogue_of(REFUND))) == "missing"


def test_what_cannot_be_read_is_refused() -> None:
    cases = {
        "": "UTTERANCE_EMPTY",
        " \t\n": "UTTERANCE_EMPTY",
        "...": "UTTERANCE_UNREADABLE",
        "show order A-17\x00": "UTTERANCE_UNREADABLE",
        "show order A-17\x1b[2J": "UTTERANCE_UNREADABLE",
        "show order \u202eA-17": "UTTERANCE_UNREADABLE",
        "show\u200b order A-17": "UTTERANCE_UNREADABLE",
        "show order A-17\U000e0041": "UTTERANCE_UNREADABLE",
        "show order \u2067A-17\u2069": "UTTERANCE_UNREADABLE",
        "show order \ud800": "UTTERANCE_UNREADABLE",
        "show order A-17 " + "x" * 2000: "UTTERANCE_UNREADABLE",
        "ﷺ" * 1000: "UTTERANCE_UNREADABLE",
    }
    assert {text: found(text).get("reason_code") for text in cases} == cases


@pytest.mark.req("AC-24")
def test_what_was_learned_moves_what_fits_and_makes_nothing_fit() -> None:
    letters = [
        changed(LOOKUP, id=f"show-{letter}", phrases={"en": [f"show {letter} order {{order_id}}"]}) for letter in "xy"
    ]
    both = catalogue_of(*letters)
    learned = EmbeddedFinder(bonus={"show-y": 10_000_000, "look-up-order": 500})
    packet = found("show order A-17", catalogue=both, finder=learned)
    first, second = packet["candidates"]
    assert (first["simulation_id"], round(first["score"] - second["score"], 4)) == ("show-y", 0.05)
    assert packet["finder_version"] != FINDER.version
    assert kind(found("what is the weather", finder=learned)) == "missing"
    assert kind(found("order", finder=learned)) == "missing"
    exact = found("show x order A-17", catalogue=both, finder=learned)
    assert exact["candidates"][0] == {"simulation_id": "show-x", "score": 1.0}


@pytest.mark.req("AC-21")
def test_what_the_finder_keeps_is_found_by_the_catalogues_digest_and_changes_no_packet() -> None:
    now = [0.0]
    finder = EmbeddedFinder(cache=FinderCache(2, 60, clock=lambda: now[0]))
    one, two, three = catalogue_of(), catalogue_of(LOOKUP), catalogue_of(*ALL, active=[])
    for catalogue in (one, two, three, one, two):
        packet = finder.find(asked("refund order A-17"), catalogue)
        assert packet == EmbeddedFinder().find(asked("refund order A-17"), catalogue)
        assert packet.catalog_snapshot_ref == catalogue.ref
        assert len(finder.cache) <= 2
        now[0] += 45


def test_another_tenants_catalogue_is_refused() -> None:
    with pytest.raises(RefusedError):
        FINDER.find(asked("show order A-17"), catalogue_of(tenant="globex"))


@pytest.mark.req("AC-20")
def test_a_packet_has_a_proof_that_says_why_and_repeats_nothing_that_was_typed() -> None:
    texts = ["refund order A-17 for Mr Zebedee", "Zebedee wants a pizza", "Zebedee\x00", "show order Zebedee"]
    for text in texts:
        packet, proof = FINDER.find_with_proof(asked(text), catalogue_of())
        assert digest(proof) == packet.proof_ref
        assert FinderProof.from_tree(proof).outcome == packet.packet_type
        assert "zebedee" not in str(proof).lower() or packet.packet_type == "clarify"
    ids = [FINDER.find(asked(text), catalogue_of()) for text in texts]
    assert len({packet.packet_id for packet in ids}) == len({packet.idempotency_key for packet in ids}) == len(texts)
    again = FINDER.find(asked(texts[0], correlation_id="c-2"), catalogue_of())
    assert (again.packet_id == ids[0].packet_id, again.idempotency_key == ids[0].idempotency_key) == (False, False)
