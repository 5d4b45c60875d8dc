"""Asking the Finder, and a fixed list of questions whose packets never change."""

from typing import Any

from remit.core.canonical import digest
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.finder.finder import EmbeddedFinder, ThreadState, Utterance
from tests.goals.catalogue.simulations import TENANT, catalogue_of

EUR = {"value": "12.50", "currency": "EUR"}
FINDER = EmbeddedFinder()


def asked(text: str, language: str = "en", thread: ThreadState | None = None, **changes: str) -> Utterance:
    ids = {"correlation_id": "c-1", "tenant_id": TENANT, "user_id": "mia", "thread_id": "t-1", **changes}
    return Utterance(**ids, language_tag=language, utterance=text, thread=thread)


def found(
    text: str,
    language: str = "en",
    *,
    thread: ThreadState | None = None,
    catalogue: Catalogue | None = None,
    finder: EmbeddedFinder = FINDER,
) -> dict[str, Any]:
    """The packet as a tree."""
    return finder.find(asked(text, language, thread), catalogue or catalogue_of()).tree()


THREAD = ThreadState("refund-order", {"order_id": "A-17"}, "amount", 1)
QUESTIONS: tuple[tuple[str, str, ThreadState | None], ...] = (
    ("give 12.50 EUR back for order A-17", "en", None),
    ("Please refund the order A-17, amount=12,50EUR", "en-GB", None),
    ("refund order", "en", None),
    ("Erstatte Bestellung Ä-1", "de-AT", None),
    ("ERSTATTE BESTELLUNG A-17!", "de", None),
    ("退款订单A-17", "zh-Hant-TW", None),
    ("请帮我退款订单 A-17", "zh", None),
    ("it is 12.50 EUR", "en", THREAD),
    ("I do not know", "en", THREAD),
    ("what is the weather in Straße 7", "en", None),
    ("", "en", None),
    ("a\u202eb", "en", None),
)


def digests() -> list[str]:
    return [digest(found(text, language, thread=thread)) for text, language, thread in QUESTIONS]
