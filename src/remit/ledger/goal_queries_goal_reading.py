"""What people ask of the goal door's tables and entries: which goals there are, and what was recorded of one."""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from remit.ledger.entry import COLUMNS, Entry
from remit.ledger.search_seeking import first_seq_since
from remit.store.connection import Connection

MOST_ENTRIES: Final = 500
"""Of one correlation. A goal has some twenty; whoever repeats a refused request can make any number."""
MOST_WAITING: Final = 1_000

_HAS_GOAL: Final = """SELECT 1 FROM agent_execution_ledger
  WHERE tenant_id = ? AND correlation_id = ? AND created_at >= '' LIMIT 1"""
_ASKED: Final = """SELECT correlation_id FROM agent_execution_ledger
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


def asked_since(connection: Connection, tenant_id: str, event: str, at: str) -> list[str]:
    """The correlations of goals that have come to ask something of a person, answered or not; the newest first.

    Looks at what was recorded since then, however many goals there were before.
    """
    rows = connection.rows(_ASKED, (tenant_id, first_seq_since(connection, tenant_id, at), event, MOST_WAITING))
    return list(dict.fromkeys(row[0] for row in rows))


def waiting_since(
    connection: Connection, tenant_id: str, event: str, at: str, asked_kind: str
) -> dict[str, str | None]:
    """Those of them that have no answer, as far as the projection says: whoever tells one looks at its history.

    With the actor of its entry of `asked_kind`, if it has one.
    """
    since = first_seq_since(connection, tenant_id, at)
    rows = connection.rows(_WAITING, (asked_kind, tenant_id, since, event, MOST_WAITING))
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
