"""After everything: the records agree with each other and the disk, and every decision comes out the same again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remit.goals.replay import replay_goal
from remit.goals.rules import PastRules
from remit.ledger.projections import projection_drift, rebuild
from remit.testing.goal_evidence import find_problems, read_evidence
from remit.testing.goal_workspace import TENANT, GoalWorkspace
from remit.workspace.workspace import Workspace

WITH_EMPTY_CACHES = 10
_CURRENT = "SELECT * FROM agent_execution_current ORDER BY tenant_id, plan_id, step_id"


@dataclass
class Checked:
    problems: list[str]
    recovered: int
    succeeded: int
    failed: int
    duplicates: int
    entries: int
    decisions: int


def check_all(scratch: GoalWorkspace, wanted: Mapping[str, str]) -> Checked:
    with scratch.open() as workspace:
        reports = workspace.recover()
        problems = [f"could not be settled: {report.problem}" for report in reports if report.problem is not None]
        evidence = read_evidence(workspace, scratch)
        problems += find_problems(evidence, wanted)
        problems += ledger_problems(workspace)
        decisions, disagreements = replay_all(workspace, list(wanted), TENANT)
        with workspace.store.reading() as connection:
            row = connection.one("SELECT count(*) FROM ledger_entries")
    stands = evidence.current_events.values()
    return Checked(
        problems=problems + disagreements,
        recovered=len(reports),
        succeeded=sum(event == "SUCCEEDED" for event in stands),
        failed=sum(event == "FAILED" for event in stands),
        duplicates=evidence.duplicates.count,
        entries=row[0] if row else 0,
        decisions=decisions,
    )


def ledger_problems(workspace: Workspace) -> list[str]:
    """What is wrong with the ledger, or with the projection: as it is, or as it is after it was rebuilt."""
    found = [f"ledger: {each}" for each in workspace.verify_ledger().findings]
    with workspace.store.reading() as connection:
        found += [f"projection: {what}" for _, _, what in projection_drift(connection)]
        live = _current(connection)
    rebuild(workspace.ledger)
    with workspace.store.reading() as connection:
        if _current(connection) != live:
            found.append("the projection that was rebuilt is not the live one")
    return found


def _current(connection: Any) -> list[tuple[Any, ...]]:
    return list(connection.rows(_CURRENT))


def replay_all(workspace: Workspace, goals: list[str], tenant: str) -> tuple[int, list[str]]:
    """How many decisions were made again, and which came out differently; some of them with nothing kept."""
    count, problems = 0, []
    past = PastRules()
    with workspace.store.reading() as connection:
        for number, correlation_id in enumerate(goals):
            made = PastRules() if number < WITH_EMPTY_CACHES else past
            replayed = list(replay_goal(connection, lambda: workspace.keyring, made, tenant, correlation_id))
            count += len(replayed)
            if not replayed:
                problems.append(f"{correlation_id}: there is no decision to replay")
            other = (each for each in replayed if not each.agrees)
            problems += [f"{correlation_id}: {each.event} replays otherwise: {each.why}" for each in other]
    return count, problems
