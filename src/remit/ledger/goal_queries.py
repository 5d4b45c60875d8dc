"""What people ask of the goal door's tables and entries: which goals there are, and what was recorded of one.

What the tables of the goal door say, for whoever decides: read only. Whether it is true, the chain says.

What was asked for and nobody can do yet: read from the ledger's ESCALATED events, counted by what was wanted.

Nothing is written here: the event is the queue. The words are the Finder's masked intent, never what the user typed.

What the ledger says about simulations of a tenant: which definition was promoted or retired last, and by whom.

Only reading. The entries are written by `remit.goals.promotion`, for a person; nothing that an agent runs can reach
that.
"""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from remit.contracts.goals.simulation import StatePayload
from remit.core.errors import RefusedError
from remit.crypto.signing import Keyring
from remit.ledger.documents import load_document
from remit.ledger.entry import COLUMNS, Entry
from remit.ledger.goal_tables import StepRow
from remit.ledger.proof import require_covered
from remit.ledger.search import first_seq_since
from remit.masking import mask_text
from remit.store.claims import unfinished
from remit.store.connection import Connection

STEP_FIELDS: Final = tuple(StepRow.__dataclass_fields__)
_STEPS: Final = f"""SELECT entry_seq, created_at, {", ".join(STEP_FIELDS)} FROM agent_execution_ledger
  WHERE tenant_id = ? AND correlation_id = ? AND created_at >= '' ORDER BY entry_seq"""
_ANSWER_COUNT: Final = """SELECT count(*) FROM agent_execution_confirmation_ledger
  WHERE tenant_id = ? AND correlation_id = ? AND created_at >= ''"""
_FIRST_OF_KIND: Final = """SELECT seq FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind = ? ORDER BY seq LIMIT 1"""
_POSITION: Final = """SELECT event, entry_seq FROM agent_execution_current
  WHERE tenant_id = ? AND plan_id = ? AND step_id = ?"""


class Recorded(NamedTuple):
    """One event of a step, its place in the chain, and when it was recorded."""

    seq: int
    created_at: str
    row: StepRow


class StepPosition(NamedTuple):
    """Where a step stands: its last event, and the place of it."""

    event: str
    seq: int | None


NO_POSITION: Final = StepPosition("", None)


def step_events(connection: Connection, tenant_id: str, correlation_id: str) -> list[Recorded]:
    """All events of a goal, in their order. What is no id names none, and may be no text for a database either."""
    if not (tenant_id + correlation_id).isprintable():
        return []
    return [
        Recorded(seq, created_at, StepRow(**dict(zip(STEP_FIELDS, values, strict=True))))
        for seq, created_at, *values in connection.rows(_STEPS, (tenant_id, correlation_id))
    ]


def count_answers(connection: Connection, tenant_id: str, correlation_id: str) -> int:
    row = connection.one(_ANSWER_COUNT, (tenant_id, correlation_id))
    return row[0] if row else 0


def first_entry(connection: Connection, tenant_id: str, correlation_id: str, kind: str) -> int | None:
    """The place of the first entry of this kind about a goal."""
    if not (tenant_id + correlation_id).isprintable():
        return None
    row = connection.one(_FIRST_OF_KIND, (tenant_id, correlation_id, kind))
    return row[0] if row else None


def unfinished_dispatches(connection: Connection, tenant_id: str) -> list[dict[str, Any]]:
    """The envelopes of what was dispatched and has no outcome yet: work in progress, and what a crash left."""
    left = [one for one in unfinished(connection, "simulation") if one.key.tenant_id == tenant_id]
    return [json.loads(one.checkpoint).get("envelope", {}) for one in left]


def find_position(connection: Connection, tenant_id: str, plan_id: str, step_id: str) -> StepPosition:
    row = connection.one(_POSITION, (tenant_id, plan_id, step_id))
    return StepPosition(*row) if row else NO_POSITION


MOST_ENTRIES: Final = 500
"""Of one correlation. A goal has some twenty; whoever repeats a refused request can make any number."""
MOST_WAITING: Final = 1_000

_HAS_GOAL: Final = """SELECT 1 FROM agent_execution_ledger
  WHERE tenant_id = ? AND correlation_id = ? AND created_at >= '' LIMIT 1"""
_WITH_EVENT: Final = """SELECT correlation_id FROM agent_execution_ledger
  WHERE tenant_id = ? AND entry_seq >= ? AND event = ? ORDER BY entry_seq DESC LIMIT ?"""
_WAITING: Final = """SELECT l.correlation_id, e.actor FROM agent_execution_ledger l
    JOIN agent_execution_current c ON c.tenant_id = l.tenant_id AND c.plan_id = l.plan_id AND c.step_id = l.step_id
      AND c.event = l.event
    LEFT JOIN ledger_entries e ON e.tenant_id = l.tenant_id AND e.correlation_id = l.correlation_id AND e.kind = ?
  WHERE l.tenant_id = ? AND l.entry_seq >= ? AND l.event = ? ORDER BY l.entry_seq DESC LIMIT ?"""
_NEWEST: Final = """SELECT correlation_id, event, updated_at FROM agent_execution_current
  WHERE tenant_id = ? ORDER BY updated_at DESC, entry_seq DESC LIMIT ?"""
_GOALS: Final = """SELECT correlation_id FROM agent_execution_ledger WHERE tenant_id = ?
  GROUP BY correlation_id ORDER BY min(entry_seq)"""
_ENTRIES: Final = f"""SELECT {COLUMNS} FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? ORDER BY seq LIMIT ?"""
_COUNT: Final = "SELECT count(*) FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?"
_ANSWERS: Final = {
    "agent.confirmation": """SELECT entry_seq, created_at, confirmation_id, verdict
      FROM agent_execution_confirmation_ledger WHERE tenant_id = ? AND correlation_id = ? AND created_at >= ''""",
    "agent.access": """SELECT entry_seq, created_at, decision_id, verdict
      FROM agent_execution_access_decision_ledger WHERE tenant_id = ? AND correlation_id = ? AND created_at >= ''""",
}


class AnswerRow(NamedTuple):
    """A row of the two tables that hold answers, a person's and a policy's."""

    created_at: str
    id: str
    verdict: str


def tenants_with(connection: Connection, tenants: Collection[str], correlation_id: str) -> list[str]:
    """Those of these tenants that have a goal of this correlation."""
    return [each for each in sorted(tenants) if connection.one(_HAS_GOAL, (each, correlation_id)) is not None]


def goals_of(connection: Connection, tenant_id: str) -> Iterator[str]:
    """The correlation of every goal of a tenant, the oldest first."""
    for (correlation_id,) in connection.stream(_GOALS, (tenant_id,)):
        yield correlation_id


def newest_goals(connection: Connection, tenant_id: str, most: int) -> list[tuple[str, str, str]]:
    """The correlation of each, where it stands and since when, the last one that moved first."""
    return [(row[0], row[1], row[2]) for row in connection.rows(_NEWEST, (tenant_id, most))]


def goals_with_event_since(connection: Connection, tenant_id: str, event: str, at: str) -> list[str]:
    """The correlations of goals that have come to ask something of a person, answered or not; the newest first.

    Looks at what was recorded since then, however many goals there were before.
    """
    rows = connection.rows(_WITH_EVENT, (tenant_id, first_seq_since(connection, tenant_id, at), event, MOST_WAITING))
    return list(dict.fromkeys(row[0] for row in rows))


def goals_waiting_since(
    connection: Connection, tenant_id: str, event: str, at: str, request_kind: str
) -> dict[str, str | None]:
    """Those of them that have no answer, as far as the projection says: whoever tells one looks at its history.

    With the actor of its entry of `asked_kind`, if it has one.
    """
    since = first_seq_since(connection, tenant_id, at)
    rows = connection.rows(_WAITING, (request_kind, tenant_id, since, event, MOST_WAITING))
    return {row[0]: row[1] for row in rows}


def entries_of(connection: Connection, tenant_id: str, correlation_id: str) -> tuple[list[Entry], int]:
    """The first entries of a correlation in their order, and how many more there are."""
    found = [Entry(*row) for row in connection.rows(_ENTRIES, (tenant_id, correlation_id, MOST_ENTRIES))]
    if len(found) < MOST_ENTRIES:
        return found, 0
    row = connection.one(_COUNT, (tenant_id, correlation_id))
    return found, (row[0] if row else 0) - len(found)


def answer_rows(connection: Connection, tenant_id: str, correlation_id: str) -> dict[tuple[str, int], AnswerRow]:
    """By the kind and the place of the entry that each stands for."""
    key = (tenant_id, correlation_id)
    return {(kind, seq): AnswerRow(*rest) for kind in _ANSWERS for seq, *rest in connection.rows(_ANSWERS[kind], key)}


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
    for at, correlation, intent, language, utterance in _escalated_goals(connection, tenant_id):
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


def _escalated_goals(connection: Connection, tenant_id: str) -> Iterator[tuple[str, str, str, str, str]]:
    if not tenant_id.isprintable():
        return
    for at, correlation, packet_ref, decision_ref in list(connection.rows(_ESCALATED, (tenant_id,))):
        try:
            packet = load_document(connection, tenant_id, packet_ref)
            goal = load_document(connection, tenant_id, load_document(connection, tenant_id, decision_ref)["goal_ref"])
        except (RefusedError, KeyError, json.JSONDecodeError):
            yield at, correlation, "(its documents are lost)", "", ""
            continue
        yield at, correlation, mask_text(str(packet["intent"])), str(goal["language_tag"]), str(goal["utterance"])


KIND: Final = "catalogue.state"
CORRELATION: Final = "catalogue"

_STATES: Final = """SELECT seq, payload FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND kind = ?
  ORDER BY seq DESC"""
_NEWEST_OF_KIND: Final = """SELECT seq FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND kind = ?
  ORDER BY seq DESC LIMIT 1"""


@dataclass(frozen=True, slots=True)
class PromotedState:
    """The newest word of a person about one simulation. It holds for this digest and no other."""

    simulation_id: str
    version: str
    digest: str
    state: Literal["ACTIVE", "RETIRED"]
    actor: str
    changed_at: str
    entry_ref: str


def newest_state_seq(connection: Connection, tenant_id: str) -> int:
    """The place of the newest such entry, 0 for none: as long as it stays, so do the states."""
    row = connection.one(_NEWEST_OF_KIND, (tenant_id, CORRELATION, KIND))
    return row[0] if row else 0


def read_states(connection: Connection, keyring: Callable[[], Keyring], tenant_id: str) -> dict[str, PromotedState]:
    """By simulation. The newest entry of each must be one that Remit wrote and signed; otherwise nothing is believed.

    Limit: whoever can write to the database past Remit can hide the newest entries. `remit ledger verify` finds that.
    """
    states: dict[str, PromotedState] = {}
    for seq, payload in list(connection.rows(_STATES, (tenant_id, CORRELATION, KIND))):
        promotion = _read(payload, seq)
        if promotion.simulation_id in states:
            continue
        entry = require_covered(connection, keyring, tenant_id, seq)
        promotion = _read(entry.payload, seq)
        states[promotion.simulation_id] = PromotedState(
            promotion.simulation_id,
            promotion.version,
            promotion.simulation_digest,
            promotion.state,
            entry.actor or "",
            entry.created_at,
            entry.ref,
        )
    return states


def _read(payload: str, seq: int) -> StatePayload:
    return StatePayload.parse(str(payload).encode("utf-8", "replace"), source=f"entry {seq}")
