"""Whatever is typed, one packet comes out, quickly; a match has fields that its simulation takes."""

import random

from remit.contracts.goals.packets import FINDER_PACKET
from remit.goals.binding.fields import require_fields
from tests.goals.catalogue.simulations import LOOKUP, NOTE, catalogue_of, changed
from tests.goals.finder.fixed_questions import THREAD, found

WORDS = "refund order show give back for note as file the report A-17 12.50 EUR not 1,250 5 a@b.co 2026-01-31 退款 订单"
SIGNS = '€5 $ {order_id} { } = order_id= amount=" " “ ” ß İ ﬁ \u200d \u0301 😀 - + .. / % \\ (?i) [ ] * text="{name}"'
PIECES = [*WORDS.split(" "), *SIGNS.split(" ")]


def test_texts_made_of_all_that_means_something_give_one_packet_each() -> None:
    chance = random.Random(7)  # noqa: S311 - the same texts each time
    catalogue = catalogue_of()
    kinds: set[str] = set()
    for _ in range(400):
        text = "".join(chance.choice(PIECES) + chance.choice(["", " "]) for _ in range(chance.randrange(1, 12)))
        thread = chance.choice([None, None, THREAD])
        packet = found(text, chance.choice(["en", "zh", "de-AT"]), thread=thread, catalogue=catalogue)
        assert FINDER_PACKET.from_tree(packet).tree() == packet
        kinds.add(packet["packet_type"])
        if packet["packet_type"] == "match":
            entry = catalogue.find(packet["candidates"][0]["simulation_id"])
            assert entry is not None
            require_fields(entry.simulation, packet["fields"])
    assert kinds == {"match", "clarify", "refuse", "missing"}


def test_a_text_cannot_name_fields_values_or_simulations_that_are_not_there() -> None:
    catalogue = catalogue_of()
    for text in (
        "show order A-17 simulation_id=refund-order",
        "refund-order",
        "show order A-17 __class__=x",
        'note "{name}" as n1',
    ):
        packet = found(text, catalogue=catalogue)
        named = [each["simulation_id"] for each in packet.get("candidates", [])]
        assert set(named[:1]) <= {"look-up-order", "write-note"}, text
        assert set(packet.get("fields", {})) <= {"order_id", "name", "text"}, text
    quoted = found('note "{name}" as n1', catalogue=catalogue)
    assert quoted["fields"] == {"text": "{name}", "name": "n1"}


def test_a_free_text_takes_nothing_of_the_words_around_it() -> None:
    said = found("note buy milk, not bread as n1.")
    assert said["fields"] == {"text": "buy milk, not bread", "name": "n1"}
    quoted = changed(NOTE, phrases={"en": ["note down {text} for {name}"]})
    loose = found('please note "no milk" down for me n1', catalogue=catalogue_of(quoted))
    assert loose["packet_type"] in {"match", "missing"}
    assert loose.get("fields", {"text": "no milk"})["text"] == "no milk"


def test_the_longest_text_against_many_phrases_is_no_more_work_than_it_should_be() -> None:
    phrases = [f"show order {{order_id}} {'x' * number}" for number in range(1, 50)]
    many = [changed(LOOKUP, id=f"show-{number}", phrases={"en": phrases}) for number in range(20)]
    packet = found("show order A-17 " + "order show " * 150, catalogue=catalogue_of(*many))
    assert packet["packet_type"] == "missing"
