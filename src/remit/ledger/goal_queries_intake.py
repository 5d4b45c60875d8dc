"""What was asked for and nobody can do yet: read from the ledger's ESCALATED events, counted by what was wanted.

Nothing is written here: the event is the queue. The words are the Finder's masked intent, never what the user typed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from remit.core.errors import Refused
from remit.ledger.documents import load_document
from remit.masking import mask_text
from remit.store.connection import Connection

_ESCALATED: Final = """SELECT created_at, correlation_id, finder_packet_ref, dispatch_decision_hash
  FROM agent_execution_ledger WHERE tenant_id = ? AND event = 'ESCALATED' ORDER BY created_at, entry_seq"""
MAX_EXAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class IntakeItem:
    """One thing that is missing: how often it was asked for, when, in which languages, by which goals."""

    intent: str
    count: int
    first_at: str
    last_at: str
    languages: tuple[str, ...]
    utterances: tuple[str, ...]
    """The first few, masked, as they were said."""
    correlations: tuple[str, ...]
    """The last few."""


def read_intake(connection: Connection, tenant_id: str) -> list[IntakeItem]:
    """The most wanted first; of equals, what was asked for last."""
    items: dict[str, IntakeItem] = {}
    for at, correlation, intent, language, utterance in _asked(connection, tenant_id):
        found = items.get(intent)
        if found is None:
            items[intent] = IntakeItem(intent, 1, at, at, (language,), (utterance,), (correlation,))
            continue
        items[intent] = replace(
            found,
            count=found.count + 1,
            last_at=at,
            languages=found.languages if language in found.languages else (*found.languages, language),
            utterances=tuple(dict.fromkeys((*found.utterances, utterance)))[:MAX_EXAMPLES],
            correlations=(*found.correlations, correlation)[-MAX_EXAMPLES:],
        )
    ordered = sorted(items.values(), key=lambda item: item.last_at, reverse=True)
    return sorted(ordered, key=lambda item: -item.count)


def _asked(connection: Connection, tenant_id: str) -> Iterator[tuple[str, str, str, str, str]]:
    if not tenant_id.isprintable():
        return
    for at, correlation, packet_ref, decision_ref in list(connection.rows(_ESCALATED, (tenant_id,))):
        try:
            packet = load_document(connection, tenant_id, packet_ref)
            goal = load_document(connection, tenant_id, load_document(connection, tenant_id, decision_ref)["goal_ref"])
        except (Refused, KeyError, json.JSONDecodeError):
            yield at, correlation, "(its documents are lost)", "", ""
            continue
        yield at, correlation, mask_text(str(packet["intent"])), str(goal["language_tag"]), str(goal["utterance"])
