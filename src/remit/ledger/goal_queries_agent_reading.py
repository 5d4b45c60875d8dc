"""What the tables of the goal door say, for whoever decides: read only. Whether it is true, the chain says."""

import json
from typing import Any, Final, NamedTuple

from remit.ledger.goal_tables import StepRow
from remit.store.claims import unfinished
from remit.store.connection import Connection

STEP_FIELDS: Final = tuple(StepRow.__dataclass_fields__)
_STEPS: Final = f"""SELECT entry_seq, created_at, {", ".join(STEP_FIELDS)} FROM agent_execution_ledger
  WHERE tenant_id = ? AND correlation_id = ? AND created_at >= '' ORDER BY entry_seq"""
_ANSWERS: Final = """SELECT count(*) FROM agent_execution_confirmation_ledger
  WHERE tenant_id = ? AND correlation_id = ? AND created_at >= ''"""
_ENTRIES: Final = """SELECT seq FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind = ? ORDER BY seq LIMIT 1"""
_STANDS: Final = """SELECT event, entry_seq FROM agent_execution_current
  WHERE tenant_id = ? AND plan_id = ? AND step_id = ?"""


class Recorded(NamedTuple):
    """One event of a step, its place in the chain, and when it was recorded."""

    seq: int
    created_at: str
    row: StepRow


class Standing(NamedTuple):
    """Where a step stands: its last event, and the place of it."""

    event: str
    seq: int | None


NOWHERE: Final = Standing("", None)


def step_events(connection: Connection, tenant_id: str, correlation_id: str) -> list[Recorded]:
    """All events of a goal, in their order. What is no id names none, and may be no text for a database either."""
    if not (tenant_id + correlation_id).isprintable():
        return []
    return [
        Recorded(seq, created_at, StepRow(**dict(zip(STEP_FIELDS, values, strict=True))))
        for seq, created_at, *values in connection.rows(_STEPS, (tenant_id, correlation_id))
    ]


def count_answers(connection: Connection, tenant_id: str, correlation_id: str) -> int:
    row = connection.one(_ANSWERS, (tenant_id, correlation_id))
    return row[0] if row else 0


def first_entry(connection: Connection, tenant_id: str, correlation_id: str, kind: str) -> int | None:
    """The place of the first entry of this kind about a goal."""
    if not (tenant_id + correlation_id).isprintable():
        return None
    row = connection.one(_ENTRIES, (tenant_id, correlation_id, kind))
    return row[0] if row else None


def begun_dispatches(connection: Connection, tenant_id: str) -> list[dict[str, Any]]:
    """The envelopes of what was dispatched and has no outcome yet: work in progress, and what a crash left."""
    left = [one for one in unfinished(connection, "simulation") if one.key.tenant_id == tenant_id]
    return [json.loads(one.checkpoint).get("envelope", {}) for one in left]


def standing_of(connection: Connection, tenant_id: str, plan_id: str, step_id: str) -> Standing:
    row = connection.one(_STANDS, (tenant_id, plan_id, step_id))
    return Standing(*row) if row else NOWHERE
