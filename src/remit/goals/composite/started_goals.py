"""Continues the goals with several steps that no process works on: after a crash, and when no person answered in time.

What is left to do comes from the ledger. Two processes may continue one goal at once: each event happens once.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Protocol

from remit.contracts.goals.goal import AgentGoalRequest
from remit.core.concurrency import ConcurrencyLimiter
from remit.core.errors import RemitError
from remit.core.ids import is_within, parse_time
from remit.execution.journal import is_orphan
from remit.execution.recovery import Recovered
from remit.goals.composite.progress import RetryStep
from remit.goals.core import AgentCore
from remit.goals.gates import ANSWER_LIFE, APPROVAL_LIFE
from remit.goals.history import WAITING, load_decision, read_history
from remit.goals.rules_loader import WorkspaceRules
from remit.ledger.goal_queries import Recorded, StartedGoal, started_goals, step_events
from remit.ledger.search import not_before_newest
from remit.store.claims import ClaimHeld, ClaimKey, read_claim
from remit.store.connection import Connection

GOAL: Final = "goal"
"""The kind of a recovered goal with several steps. Its key is its correlation id."""
LIVES: Final = {"CONFIRMATION_REQUESTED": ANSWER_LIFE, "APPROVAL_REQUESTED": APPROVAL_LIFE}
LONGEST_PAUSE: Final = timedelta(minutes=15)
"""Longer than the longest pause before another attempt of a step."""


class LoadGoal(Protocol):
    def __call__(self, correlation_id: str, *, user: str, tenant: str) -> AgentGoalRequest: ...


class StartedGoals:
    """The goals of one workspace with several steps that have not ended, or are rolled back."""

    def __init__(
        self, core: AgentCore, rules: WorkspaceRules, load_goal: LoadGoal, limiter: ConcurrencyLimiter
    ) -> None:
        self._core = core
        self._rules = rules
        self._load_goal = load_goal
        self._limiter = limiter

    def continue_interrupted(self) -> list[Recovered[Any]]:
        """Continue the goals whose process has ended between two steps.

        A goal that waits for a person keeps waiting, unless the time of its question is over.
        """
        return self._continue_those(self._is_interrupted)

    def continue_overdue(self) -> list[Recovered[Any]]:
        """Continue the goals that no person answered in time, and those that stand still for long."""
        return self._continue_those(self._is_overdue)

    def _continue_those(self, is_due: Callable[[StartedGoal], bool]) -> list[Recovered[Any]]:
        with self._core.ledger().store.reading() as connection:
            started = [each for each in started_goals(connection) if self._rules.is_tenant(each.tenant_id)]
        return [report for each in started if is_due(each) and (report := self._continue(each)) is not None]

    def _is_interrupted(self, started: StartedGoal) -> bool:
        """Tell whether no process works on a goal: its action has ended, and no later attempt is to come."""
        with self._core.ledger().store.reading_pooled() as connection:
            last = self._last_event(connection, started)
            if last is None or last.row.event not in {"DISPATCHED", "RETRIED"}:
                return last is None or last.row.event != "FAILED" or not self._is_early(started)
            key = (last.row.simulation_entry_ref or "").removeprefix("simulation/")
            claimed = read_claim(connection, ClaimKey(started.tenant_id, "simulation", key))
            return not isinstance(claimed, ClaimHeld) or is_orphan(claimed, connection.dialect)

    def _is_overdue(self, started: StartedGoal) -> bool:
        """Tell whether the time of a question is over, or a goal that waits for no person has stood still for long."""
        with self._core.ledger().store.reading_pooled() as connection:
            last = self._last_event(connection, started)
        return last is None or (self._is_late(started, last) and self._is_interrupted(started))

    def _last_event(self, connection: Connection, started: StartedGoal) -> Recorded | None:
        """Return the last event. None if it cannot be verified: then the attempt to continue reports the problem."""
        try:
            return read_history(connection, self._core.keyring, started.tenant_id, started.correlation_id).last
        except RemitError:
            return None

    def _is_late(self, started: StartedGoal, last: Recorded) -> bool:
        with self._core.ledger().store.reading_pooled() as connection:
            now = not_before_newest(connection, started.tenant_id, self._core.clock())
        return not is_within(parse_time(last.created_at), now, LIVES.get(last.row.event, LONGEST_PAUSE))

    def _is_early(self, started: StartedGoal) -> bool:
        """Tell whether the time of the next attempt of a step has not come. Its process may sleep until then."""
        try:
            situation = self._core.read_situation(self._started_goal(started))
        except RemitError:
            return False
        return (
            situation is not None and isinstance(situation.move, RetryStep) and self._core.clock() < situation.move.at
        )

    def _started_goal(self, started: StartedGoal) -> AgentGoalRequest:
        tenant, correlation = started.tenant_id, started.correlation_id
        with self._core.ledger().store.reading_pooled() as connection:
            ref = read_history(connection, self._core.keyring, tenant, correlation).decision_ref
            user = load_decision(connection, tenant, ref or "").user_id
        return self._load_goal(correlation, user=user, tenant=tenant)

    def _continue(self, started: StartedGoal) -> Recovered[Any] | None:
        """Continue one goal. None if there was nothing to do."""
        tenant, correlation = started.tenant_id, started.correlation_id
        before = self._newest_seq(tenant, correlation)
        try:
            goal = self._started_goal(started)
            with self._limiter.acquired():
                outcome = self._core.resume_goal(goal)
            with self._core.ledger().store.reading_pooled() as connection:
                now_waits = read_history(connection, self._core.keyring, tenant, correlation).state in WAITING
        except RemitError as problem:
            return Recovered(correlation, started.began_at, problem=problem, kind=GOAL)
        if self._newest_seq(tenant, correlation) == before:
            return None
        return Recovered(correlation, started.began_at, outcome, took_effect=not now_waits, kind=GOAL)

    def _newest_seq(self, tenant: str, correlation: str) -> int:
        with self._core.ledger().store.reading_pooled() as connection:
            return max((each.seq for each in step_events(connection, tenant, correlation)), default=0)
