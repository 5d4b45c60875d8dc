"""Read-only queries about goals.

They read the tables and entries of goals: which goals there are, and what is recorded about one. The tables are not
verified here; the chain proves them.

They list the requests that no simulation covers yet, from the ESCALATED events of the ledger, counted by intent. The
event itself is the queue. The text is the Finder's masked intent, never the text that the user typed.

They return the state of a tenant's simulations: which definition was promoted or retired last, and by whom.
`remit.goals.promotion` writes these entries for a person. Nothing that an agent runs can reach it.
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
  WHERE tenant_id = ? AND correlation_id = ? AND created_at >= '' AND step_id = ?"""
_OF_KIND: Final = """SELECT seq, payload FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind = ? ORDER BY seq LIMIT ?"""
# Goals that have not ended, and ended ones whose rollback was asked for after the end. (`.` comes after `-`.)
_STARTED: Final = """SELECT tenant_id, correlation_id, updated_at FROM agent_execution_current
  WHERE step_id = 'goal' AND event = 'STARTED'
  UNION ALL SELECT u.tenant_id, u.correlation_id, u.updated_at FROM agent_execution_current u
    JOIN agent_execution_current g ON g.tenant_id = u.tenant_id AND g.plan_id = u.plan_id AND g.step_id = 'goal'
    WHERE u.step_id > 'goal-' AND u.step_id < 'goal.' AND u.event <> 'REFUSED' AND u.entry_seq > g.entry_seq
  ORDER BY 1, 3"""
_POSITION: Final = """SELECT event, entry_seq FROM agent_execution_current
  WHERE tenant_id = ? AND plan_id = ? AND step_id = ?"""


MOST_OF_KIND: Final = 100
"""Far more than the approvals that a goal with the most steps can have."""


class Recorded(NamedTuple):
    """One event of a step, its place in the chain, and when it was recorded."""

    seq: int
    created_at: str
    row: StepRow


class StartedGoal(NamedTuple):
    """A goal with several steps, or the rollback of one, that has not ended; and when it began."""

    tenant_id: str
    correlation_id: str
    began_at: str


class StepPosition(NamedTuple):
    """The state of a step: its last event, and the place of that event."""

    event: str
    seq: int | None


NO_POSITION: Final = StepPosition("", None)


def step_events(connection: Connection, tenant_id: str, correlation_id: str) -> list[Recorded]:
    """Return all events of a goal in order. None for a text that cannot be an id: databases refuse some texts."""
    if not (tenant_id + correlation_id).isprintable():
        return []
    return [
        Recorded(seq, created_at, StepRow(**dict(zip(STEP_FIELDS, values, strict=True))))
        for seq, created_at, *values in connection.rows(_STEPS, (tenant_id, correlation_id))
    ]


def count_answers(connection: Connection, tenant_id: str, correlation_id: str, step_id: str) -> int:
    row = connection.one(_ANSWER_COUNT, (tenant_id, correlation_id, step_id))
    return row[0] if row else 0


def entries_of_kind(
    connection: Connection, tenant_id: str, correlation_id: str, kind: str
) -> list[tuple[int, dict[str, Any]]]:
    """Return the places and payloads of the entries of this kind about a goal, the first one first. Not verified."""
    if not (tenant_id + correlation_id).isprintable():
        return []
    rows = connection.rows(_OF_KIND, (tenant_id, correlation_id, kind, MOST_OF_KIND))
    return [(seq, json.loads(payload)) for seq, payload in rows]


def started_goals(connection: Connection) -> list[StartedGoal]:
    """Return the goals with several steps that have not ended or are rolled back, by the projection.

    Check the history of each.
    """
    return [StartedGoal(*row) for row in connection.rows(_STARTED)]


def waiting_decision(connection: Connection, tenant_id: str, correlation_id: str) -> str | None:
    """Return the decision that last asked another person about a goal. None if there is none."""
    asked = [each.row for each in step_events(connection, tenant_id, correlation_id)]
    refs = (row.dispatch_decision_hash for row in reversed(asked) if row.event == "APPROVAL_REQUESTED")
    return next(refs, None)


def unfinished_dispatches(connection: Connection, tenant_id: str) -> list[dict[str, Any]]:
    """Return the envelopes of dispatches without an outcome: work in progress, and work that a crash interrupted."""
    left = [one for one in unfinished(connection, "simulation") if one.key.tenant_id == tenant_id]
    return [json.loads(one.checkpoint).get("envelope", {}) for one in left]


def find_position(connection: Connection, tenant_id: str, plan_id: str, step_id: str) -> StepPosition:
    row = connection.one(_POSITION, (tenant_id, plan_id, step_id))
    return StepPosition(*row) if row else NO_POSITION


MOST_ENTRIES: Final = 500
"""The limit for one correlation. A goal has some twenty entries, but a repeated refused request adds any number."""
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
# A goal has one row, or one for each step and one for the whole goal. A step that waits says what the goal waits for.
_NEWEST: Final = """SELECT correlation_id, CASE WHEN whole IS NULL THEN only_event WHEN waits IS NOT NULL THEN waits
    WHEN undone > ended THEN 'STARTED' ELSE whole END, changed_at
  FROM (SELECT max(correlation_id) AS correlation_id, max(event) AS only_event, max(updated_at) AS changed_at,
      max(entry_seq) AS newest, max(CASE WHEN step_id = 'goal' THEN event END) AS whole,
      max(CASE WHEN step_id = 'goal' THEN entry_seq END) AS ended,
      max(CASE WHEN event = 'UNDO_ALLOWED' THEN entry_seq END) AS undone,
      max(CASE WHEN event IN ('CONFIRMATION_REQUESTED', 'APPROVAL_REQUESTED') THEN event END) AS waits
    FROM agent_execution_current WHERE tenant_id = ? GROUP BY plan_id) AS goals
  ORDER BY changed_at DESC, newest DESC LIMIT ?"""
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
    """A row of one of the two tables with answers: of a person, or of a policy."""

    created_at: str
    id: str
    verdict: str


def tenants_with(connection: Connection, tenants: Collection[str], correlation_id: str) -> list[str]:
    """Return the given tenants that have a goal with this correlation."""
    return [each for each in sorted(tenants) if connection.one(_HAS_GOAL, (each, correlation_id)) is not None]


def goals_of(connection: Connection, tenant_id: str) -> Iterator[str]:
    """Yield the correlation of every goal of a tenant, the oldest first."""
    for (correlation_id,) in connection.stream(_GOALS, (tenant_id,)):
        yield correlation_id


def newest_goals(connection: Connection, tenant_id: str, most: int) -> list[tuple[str, str, str]]:
    """Return correlation, state and time of the newest goals, the last changed first. One line for each goal."""
    return [(row[0], row[1], row[2]) for row in connection.rows(_NEWEST, (tenant_id, most))]


def goals_with_event_since(connection: Connection, tenant_id: str, event: str, at: str) -> list[str]:
    """Return the correlations of goals that have had this event since `at`, the newest first.

    Reads only entries since then, however many goals there were before.
    """
    rows = connection.rows(_WITH_EVENT, (tenant_id, first_seq_since(connection, tenant_id, at), event, MOST_WAITING))
    return list(dict.fromkeys(row[0] for row in rows))


def goals_waiting_since(
    connection: Connection, tenant_id: str, event: str, at: str, request_kind: str
) -> dict[str, str | None]:
    """Return the goals whose last event since `at` is this one, with the actor of their `request_kind` entry, if any.

    This is the state of the projection. Check the history of a goal before you report it.
    """
    since = first_seq_since(connection, tenant_id, at)
    rows = connection.rows(_WAITING, (request_kind, tenant_id, since, event, MOST_WAITING))
    return {row[0]: row[1] for row in rows}


def entries_of(connection: Connection, tenant_id: str, correlation_id: str) -> tuple[list[Entry], int]:
    """Return the first entries of a correlation in order, and the number of further ones."""
    found = [Entry(*row) for row in connection.rows(_ENTRIES, (tenant_id, correlation_id, MOST_ENTRIES))]
    if len(found) < MOST_ENTRIES:
        return found, 0
    row = connection.one(_COUNT, (tenant_id, correlation_id))
    return found, (row[0] if row else 0) - len(found)


def answer_rows(connection: Connection, tenant_id: str, correlation_id: str) -> dict[tuple[str, int], AnswerRow]:
    """Return the answer rows by the kind and the place of their entry."""
    key = (tenant_id, correlation_id)
    return {(kind, seq): AnswerRow(*rest) for kind in _ANSWERS for seq, *rest in connection.rows(_ANSWERS[kind], key)}


_ESCALATED: Final = """SELECT created_at, correlation_id, finder_packet_ref, dispatch_decision_hash
  FROM agent_execution_ledger WHERE tenant_id = ? AND event = 'ESCALATED' ORDER BY created_at, entry_seq"""
MAX_EXAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class IntakeItem:
    """One missing simulation: how often it was requested, when, in which languages, and by which goals."""

    intent: str
    count: int
    first_at: str
    last_at: str
    languages: tuple[str, ...]
    utterances: tuple[str, ...]
    """The first few requests, masked, in the user's words."""
    correlations: tuple[str, ...]
    """The last few goals."""


def read_intake(connection: Connection, tenant_id: str) -> list[IntakeItem]:
    """Return the missing simulations, the most requested first. Of equals, the last requested comes first."""
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
    """The newest decision of a person about one simulation. It holds only for this digest."""

    simulation_id: str
    version: str
    digest: str
    state: Literal["ACTIVE", "RETIRED"]
    actor: str
    changed_at: str
    entry_ref: str


def newest_state_seq(connection: Connection, tenant_id: str) -> int:
    """Return the place of the newest such entry, or 0. The states are unchanged while it stays the same."""
    row = connection.one(_NEWEST_OF_KIND, (tenant_id, CORRELATION, KIND))
    return row[0] if row else 0


def read_states(connection: Connection, keyring: Callable[[], Keyring], tenant_id: str) -> dict[str, PromotedState]:
    """Return the states by simulation. Raises unless Remit wrote and signed the newest entry of each.

    Limit: a program that can write to the database can hide the newest entries. `remit ledger verify` finds that.
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


_NEWEST_STEP: Final = "SELECT max(entry_seq) FROM agent_execution_ledger WHERE tenant_id = ?"
_ACCEPTED: Final = """SELECT event, simulation_id, finder_packet_ref FROM agent_execution_ledger
  WHERE tenant_id = ? AND entry_seq > ? AND entry_seq <= ? AND (
    (step_id = ? AND event IN ('SUCCEEDED', 'ROLLED_BACK') AND confirmation_parse_proof_ref IS NOT NULL)
    OR (step_id = ? AND event IN ('COMPLETED', 'ROLLED_BACK')))"""


class AcceptedMatch(NamedTuple):
    """A match of the Finder that its user confirmed and that succeeded, or the rollback of one."""

    is_rolled_back: bool
    simulation_id: str | None
    """None for a goal with several steps. Its packet has the simulation."""
    packet_ref: str


def newest_step_seq(connection: Connection, tenant_id: str) -> int:
    """Return the place of the newest event of all steps of a tenant, or 0."""
    row = connection.one(_NEWEST_STEP, (tenant_id,))
    return (row[0] or 0) if row else 0


def accepted_matches(
    connection: Connection, tenant_id: str, span: tuple[int, int], step_ids: tuple[str, str]
) -> Iterator[AcceptedMatch]:
    """Yield the accepted matches after the first place of the span and up to the second.

    `step_ids`: the id of the only step of a goal, and that of the state of a goal with several steps.
    """
    for event, simulation_id, packet_ref in connection.rows(_ACCEPTED, (tenant_id, *span, *step_ids)):
        yield AcceptedMatch(event == "ROLLED_BACK", simulation_id, packet_ref or "")
