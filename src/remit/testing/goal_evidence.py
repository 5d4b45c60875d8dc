"""The evidence of the goals of a scratch workspace: the step ledger, the entries of their tasks, and the files on disk.

Different parts of Remit write these three records of the same effects. So an effect that happened twice appears in at
least one of them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from remit.core.ids import DEFAULT_TENANT
from remit.goals.slo import Rate
from remit.store.connection import Connection
from remit.testing.goal_workspace import TENANT, GoalWorkspace
from remit.workspace.workspace import Workspace

_STEPS = "SELECT correlation_id, count(*) FROM agent_execution_ledger WHERE tenant_id = ? AND event = ? GROUP BY 1"
_CURRENT_EVENTS = "SELECT correlation_id, event FROM agent_execution_current WHERE tenant_id = ?"
_ENTRIES = "SELECT correlation_id, count(*) FROM ledger_entries WHERE tenant_id = ? AND kind = ? GROUP BY 1"
_SUCCESSES = """SELECT correlation_id, count(*) FROM ledger_entries
  WHERE tenant_id = ? AND kind = 'task.outcome' AND payload LIKE ? GROUP BY 1"""


@dataclass(frozen=True, slots=True)
class GoalEvidence:
    """Counts by correlation id. The files are counted by name."""

    dispatched: Mapping[str, int]
    current_events: Mapping[str, str]
    intents: Mapping[str, int]
    outcomes: Mapping[str, int]
    successes: Mapping[str, int]
    files: Mapping[str, int]

    @property
    def succeeded(self) -> int:
        return sum(event == "SUCCEEDED" for event in self.current_events.values())

    @property
    def duplicates(self) -> Rate:
        """The rate of attempts and effects after the first of each dispatch, among all dispatches."""
        twice = (self.dispatched, self.intents, self.outcomes)
        extra = sum(count - 1 for counts in twice for count in counts.values() if count > 1)
        unaccounted = max(0, sum(self.files.values()) - self.succeeded)
        return Rate(extra + unaccounted, len(self.dispatched)) if self.dispatched else Rate(0, 0)


def read_evidence(workspace: Workspace, scratch: GoalWorkspace) -> GoalEvidence:
    with workspace.store.reading() as connection:
        return GoalEvidence(
            dispatched=_counts(connection, _STEPS, TENANT, "DISPATCHED"),
            current_events=dict(connection.rows(_CURRENT_EVENTS, (TENANT,))),
            intents=_counts(connection, _ENTRIES, DEFAULT_TENANT, "task.intent"),
            outcomes=_counts(connection, _ENTRIES, DEFAULT_TENANT, "task.outcome"),
            successes=_counts(connection, _SUCCESSES, DEFAULT_TENANT, '%"status":"SUCCESS"%'),
            files=Counter(scratch.copies()),
        )


def find_problems(evidence: GoalEvidence, wanted: Mapping[str, str]) -> list[str]:
    """Return the problems of these goals, as sentences. `wanted`: names by correlation id. Empty if there are none."""
    found = [f"{name}: a file that no goal requested" for name in sorted(set(evidence.files) - set(wanted.values()))]
    for correlation_id, name in wanted.items():
        event = evidence.current_events.get(correlation_id, "nowhere")
        effects = evidence.files.get(name, 0)
        if event not in {"SUCCEEDED", "FAILED"}:
            found.append(f"{correlation_id}: has no outcome, its last event is {event}")
        if effects != (event == "SUCCEEDED"):
            found.append(f"{correlation_id}: is {event}, and has {effects} files")
        if evidence.dispatched.get(correlation_id, 0) != 1:
            found.append(f"{correlation_id}: {evidence.dispatched.get(correlation_id, 0)} dispatches")
        for what, counts in (("attempts", evidence.intents), ("outcomes", evidence.outcomes)):
            if counts.get(correlation_id, 0) > 1:
                found.append(f"{correlation_id}: {counts[correlation_id]} {what}")
        if evidence.successes.get(correlation_id, 0) != effects:
            found.append(f"{correlation_id}: {evidence.successes.get(correlation_id, 0)} successes, {effects} files")
    return found


def _counts(connection: Connection, sql: str, *parameters: str) -> dict[str, int]:
    return {str(name): int(count) for name, count in connection.rows(sql, parameters)}
