"""Same text, language, thread and catalogue: same packet, byte for byte, whatever machine, order or moment it is."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from remit.core.canonical import digest
from remit.goals.binding.tokenizer import read, split_words
from remit.goals.finder.finder import EmbeddedFinder
from remit.goals.finder.scoring import best_possible, longest_common, score_phrase
from tests.goals.catalogue.simulations import ALL, catalogue_of
from tests.goals.finder.fixed_questions import QUESTIONS, digests, found

# Of the packets of `fixed_questions.QUESTIONS`. They change with the catalogue there and with the Finder's version, and
# with nothing else: if they do, say so by another version.
GOLDEN = "sha256:999439c4c88255e3ea397351ce4c17d647fdb326d7b433cbdbb4001c230d2489"


@pytest.mark.req("AC-20")
def test_the_packets_are_what_they_were_when_this_was_written() -> None:
    assert digest(digests()) == GOLDEN


@pytest.mark.req("AC-20")
def test_the_packets_do_not_depend_on_hash_seed_locale_or_time_zone() -> None:
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import json; from tests.goals.finder.fixed_questions import digests; print(json.dumps(digests()))",
        ],
        cwd=root,
        env={
            **os.environ,
            "PYTHONHASHSEED": "7",
            "LC_ALL": "tr_TR.UTF-8",
            "TZ": "Pacific/Chatham",
            "PYTHONPATH": "src",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == digests()


def test_the_order_of_the_definitions_and_a_crowd_of_callers_change_nothing() -> None:
    finder = EmbeddedFinder()
    shuffled = catalogue_of(*ALL[3:], *ALL[:3])
    seen: set[str] = set()

    def go() -> None:
        packets = [found(text, tag, thread=t, catalogue=shuffled, finder=finder) for text, tag, t in QUESTIONS]
        seen.add(digest([digest(packet) for packet in packets]))

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {digest(digests())}


def test_one_form_for_what_looks_the_same() -> None:
    for one, two in (
        ("Straße", "STRASSE"),
        ("Ａ－１７", "a-17"),
        ("cafe\u0301", "café"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("می\u200cروم", "میروم"),
        ("١٢٣", "123"),
        ("a\u00a0 \tb", "A B"),
    ):
        assert read(one).folded == read(two).folded, one
    reading = read("Straße É 7")
    assert [reading.text[reading.origin[place]] for place in range(len(reading.folded))] == list("Straßße É 7")


def test_words_are_runs_of_letters_and_pairs_where_a_script_has_no_spaces() -> None:
    assert split_words(read("Don't re-order A-17!").folded) == ("don", "t", "re", "order", "a")
    assert split_words(read("退款订单 A-17").folded) == ("退款", "款订", "订单", "a")
    assert split_words(read("คืนเงิน").folded)[0] == "คื"
    assert split_words(read("नमस्ते दुनिया").folded) == ("नमस्ते", "दुनिया")
    assert split_words(read("😀 𐍈").folded) == ("𐍈",)


def test_scores_are_bounded_and_the_short_cut_never_cuts_a_fit() -> None:
    vocabulary = ["a", "b", "c", "d"]
    texts: list[list[str]] = [[]] + [[x, y, z] for x in vocabulary for y in vocabulary for z in vocabulary]
    for phrase in texts[1:]:
        for said in texts:
            for places, filled in ((0, 0), (2, 0), (2, 2)):
                score = score_phrase(phrase, places, said, filled)
                assert 0 <= score <= min(9_999, best_possible(phrase, places, frozenset(said)))
                assert score <= best_possible(phrase, places, frozenset(said), len(said))
    assert (longest_common("abcde", "axcye"), longest_common("", "a"), longest_common("abc", "cba")) == (3, 0, 1)
