"""In one process, with everything kept that can be kept: what was changed a moment ago counts at once."""

import contextlib
import itertools
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from remit.contracts.goals.dispatch import DispatchEnvelope, SimulationOutcome
from remit.contracts.goals.goal import AgentExecutionOutcome
from remit.goals.core import Executor
from remit.identity.person import Person
from remit.store.sqlite import SqliteStore
from remit.testing.goal_workspace import TENANT, USER, GoalWorkspace, complete_goal, make_scratch
from remit.workspace.workspace import Workspace

WHO = Person("os:ann")


@pytest.fixture
def scratch(tmp_path: Path) -> GoalWorkspace:
    return make_scratch(tmp_path)


@pytest.fixture
def warm(scratch: GoalWorkspace) -> Iterator[Workspace]:
    """A process that has just carried out two goals by the rules that are about to change."""
    with scratch.open() as workspace:
        for number in (1, 2):
            assert complete_goal(workspace.goals, f"warm-{number}", f"warm-{number}").reason_code.endswith("SUCCEEDED")
        yield workspace


def asked(workspace: Workspace, name: str) -> None:
    said = workspace.goals.ask(f"copy the form as {name}", user=USER, tenant=TENANT, correlation_id=name).outcome
    assert said.reason_code == "CONFIRMATION_REQUIRED"


def confirmed(workspace: Workspace, name: str) -> AgentExecutionOutcome:
    return workspace.goals.answer(name, "yes", user=USER, tenant=TENANT).outcome


@pytest.mark.req("AC-21")
def test_a_policy_that_was_changed_counts_for_a_goal_that_was_asked_for_before(
    scratch: GoalWorkspace, warm: Workspace
) -> None:
    asked(warm, "late")
    policy = scratch.root / "access.cedar"
    allowing = policy.read_text()
    policy.write_text('@id("nobody")\nforbid (principal, action, resource);\n')
    assert confirmed(warm, "late").reason_code == "ACCESS_SCOPE_VIOLATION"
    assert complete_goal(warm.goals, "later", "later").reason_code == "ACCESS_SCOPE_VIOLATION"
    policy.write_text("this is no policy")
    assert complete_goal(warm.goals, "broken", "broken").reason_code == "ACCESS_SCOPE_VIOLATION"
    policy.write_text(allowing)
    assert complete_goal(warm.goals, "again", "again").reason_code == "SIMULATION_SUCCEEDED"
    assert scratch.copies() == ["again", "warm-1", "warm-2"]


@pytest.mark.req("AC-21")
def test_a_simulation_that_was_retired_is_retired_at_once_also_by_another_process(
    scratch: GoalWorkspace, warm: Workspace
) -> None:
    asked(warm, "late")
    with scratch.open() as elsewhere:
        elsewhere.promotion.retire("copy-form", tenant_id=TENANT, who=WHO)
    assert confirmed(warm, "late").reason_code == "SIMULATION_NOT_ACTIVE"
    with scratch.open() as elsewhere:
        elsewhere.promotion.promote("copy-form", tenant_id=TENANT, who=WHO)
    assert complete_goal(warm.goals, "again", "again").reason_code == "SIMULATION_SUCCEEDED"
    assert scratch.copies() == ["again", "warm-1", "warm-2"]


@pytest.mark.req("AC-21")
def test_a_simulation_whose_file_was_changed_is_a_draft_at_once(scratch: GoalWorkspace, warm: Workspace) -> None:
    asked(warm, "late")
    file = scratch.root / "simulations.json"
    file.write_text(file.read_text().replace("Copy the form", "Copy the paper"))
    assert confirmed(warm, "late").reason_code in {"PACKET_INVALID", "SIMULATION_NOT_ACTIVE"}
    assert complete_goal(warm.goals, "later", "later").reason_code != "SIMULATION_SUCCEEDED"
    assert scratch.copies() == ["warm-1", "warm-2"]


class Losing:
    """In the executor's place: a snapshot is away, or another, while it dispatches; everything is passed on."""

    def __init__(self, inner: Executor, database: Path, kind: str, how: str) -> None:
        self._inner = inner
        self._database = database
        self._kind = kind
        self._how = how

    def dispatch(self, envelope: DispatchEnvelope, attempt: int = 1) -> SimulationOutcome:  # noqa: ARG002
        changed = "DELETE FROM agent_documents" if self._how == "gone" else "UPDATE agent_documents SET body = '{}'"
        with contextlib.closing(sqlite3.connect(self._database, isolation_level=None)) as raw:
            kept = raw.execute("SELECT * FROM agent_documents WHERE kind = ?", (self._kind,)).fetchall()
            guards = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in guards:
                raw.execute(f"DROP TRIGGER {name}")
            assert raw.execute(f"{changed} WHERE kind = ?", (self._kind,)).rowcount
            try:
                return self._inner.dispatch(envelope)
            finally:
                for row in kept:
                    raw.execute(f"REPLACE INTO agent_documents VALUES ({', '.join('?' * len(row))})", row)
                for _, statement in guards:
                    raw.execute(statement)


@pytest.mark.req("AC-13", "AC-21")
def test_a_snapshot_that_was_lost_stops_the_dispatch_though_it_is_cached(
    scratch: GoalWorkspace, warm: Workspace
) -> None:
    """The very snapshot that this process keeps, taken away between the decision and the dispatch."""
    assert isinstance(warm.store, SqliteStore)
    core = warm.goals.core
    for kind, how in itertools.product(("catalogue", "policy", "lexicon"), ("gone", "changed")):
        name = f"{kind}-{how}"
        asked(warm, name)
        warm.goals.core = replace(core, executor=Losing(core.executor, warm.store.path, kind, how))
        assert confirmed(warm, name).reason_code == "REPLAY_INVARIANT_FAILED", name
        warm.goals.core = core
    assert complete_goal(warm.goals, "whole", "whole").reason_code == "SIMULATION_SUCCEEDED"
    assert scratch.copies() == ["warm-1", "warm-2", "whole"]
