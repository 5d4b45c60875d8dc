"""Read-only queries for the service levels of goals: how executions ended, and how long dispatches took.

They read the tables of goals, which are not verified here; the chain proves them.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from remit.store.connection import Connection

DECISIONS: Final = (
    "ACCESS_SCOPE_VIOLATION",
    "ACCESS_AP_REQUIRED",
    "SIMULATION_NOT_REGISTERED",
    "SIMULATION_NOT_ACTIVE",
    "ROLLBACK_PLAN_MISSING",
    "PACKET_INVALID",
    "CONFIRMATION_EXPIRED",
    "CONFIRMATION_MISSING",
    "CONFIRMATION_REFUSED",
    "IDEMPOTENCY_VIOLATION",
)
"""Codes of refusals right before the effect that are no failures: a rule, a person or another caller decided so."""
# The SimulationExecutor refuses a step that it could not prepare. A refusal of a gate names no simulation entry.
_IS_FAILURE: Final = f"""(event = 'FAILED' OR (event = 'REFUSED' AND simulation_entry_ref IS NOT NULL
  AND coalesce(reason_code, '') NOT IN ({", ".join(f"'{code}'" for code in DECISIONS)})))"""
_ENDED: Final = f"""SELECT substr(created_at, 1, ?) AS part, {_IS_FAILURE} AS is_failure, count(*)
  FROM agent_execution_ledger WHERE tenant_id = ? AND created_at > ? AND created_at <= ?
  AND (event = 'SUCCEEDED' OR {_IS_FAILURE}) GROUP BY part, is_failure"""
_UNFINISHED: Final = """SELECT count(*) FROM agent_execution_current
  WHERE tenant_id = ? AND updated_at > ? AND updated_at <= ? AND event IN ('DISPATCHED', 'RETRIED')"""
_TIMES: Final = f"""SELECT correlation_id, step_id, created_at, event IN ('ACCESS_ALLOWED', 'RETRIED')
  FROM agent_execution_ledger WHERE tenant_id = ? AND created_at > ? AND created_at <= ?
  AND (event IN ('ACCESS_ALLOWED', 'RETRIED', 'SUCCEEDED') OR {_IS_FAILURE}) ORDER BY entry_seq"""
_HOUR: Final = 13
"""The length of a time up to its hour."""


class EndedExecutions(NamedTuple):
    """The number of executions that ended, and of those that failed."""

    failed: int
    total: int


class DispatchTime(NamedTuple):
    """When a dispatch was allowed or tried again, and when it ended. Both are times of the ledger."""

    began_at: str
    ended_at: str


def ended_executions(connection: Connection, tenant_id: str, since: str, until: str) -> EndedExecutions:
    """Count the executions that ended after `since`. A failure in the preparation, before the dispatch, counts too."""
    counts = {True: 0, False: 0}
    for _, is_failure, count in connection.rows(_ENDED, (0, tenant_id, since, until)):
        counts[bool(is_failure)] += count
    return EndedExecutions(counts[True], sum(counts.values()))


def ended_executions_by_hour(
    connection: Connection, tenant_id: str, since: str, until: str
) -> dict[str, EndedExecutions]:
    """Return the same by the hour in which they ended, such as 2026-01-31T12."""
    found: dict[str, EndedExecutions] = {}
    for hour, is_failure, count in connection.rows(_ENDED, (_HOUR, tenant_id, since, until)):
        before = found.get(hour, EndedExecutions(0, 0))
        found[hour] = EndedExecutions(before.failed + (count if is_failure else 0), before.total + count)
    return found


def count_unfinished(connection: Connection, tenant_id: str, since: str, until: str) -> int:
    """Count the dispatches that began in this time and have no end."""
    row = connection.one(_UNFINISHED, (tenant_id, since, until))
    return row[0] if row else 0


def dispatch_times(connection: Connection, tenant_id: str, since: str, until: str) -> Iterator[DispatchTime]:
    """Yield the times of the dispatches that began and ended in this time. Each attempt of a step is one."""
    began: dict[tuple[str, str], str] = {}
    for correlation_id, step_id, at, is_begin in connection.stream(_TIMES, (tenant_id, since, until)):
        if is_begin:
            began[correlation_id, step_id] = at
        elif (began_at := began.pop((correlation_id, step_id), None)) is not None:
            yield DispatchTime(began_at, at)
