"""The service for goals: request a goal for a user, confirm it as that user, read its state, and roll it back.

An agent requests goals for the user of its token, a person for their own user. The caller is recorded in the
transaction of the goal's first decision. From then on an agent finds its own goals, and before that it owns no id.
"""

import functools
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from remit.contracts.base import MAX_TEXT
from remit.contracts.goals.goal import DEFAULT_LANGUAGE
from remit.contracts.services.common import GoalAnswer
from remit.contracts.services.ledger import GoalLine, ReplayAnswer, Wanted
from remit.contracts.services.ledger import Replayed as ReplayedTold
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import render_time, uuid7
from remit.execution.refusals import about_name
from remit.goals.history import read_history
from remit.goals.service import Reply
from remit.goals.status import GoalStatus, WaitingGoal, read_goal_awaiting_confirmation
from remit.identity.callers import AgentCaller, Caller, PersonCaller
from remit.ledger.goal_queries import newest_goals
from remit.services.base.context import ServiceContext, require_wait
from remit.services.base.jobs import Job
from remit.services.base.ownership import GOAL_REQUESTED, find_requester, is_name, not_found_error, require_name
from remit.services.base.permissions import Right, require
from remit.services.goals.actor_check import ActorCheck, Run
from remit.services.goals.answers import GoalAnswers, User, build_running_answer, find_user
from remit.services.goals.approvals import tenants_of
from remit.services.goals.ownership import OwnedGoals, is_tenant_of
from remit.services.goals.previews import compute_preview
from remit.services.goals.states import line_state

MAX_LISTED: Final = 200
NO_ID: Final = "unknown"
"""The correlation of a refused request for a goal without an id. Its words may hold a secret."""
F = TypeVar("F", bound=Callable[..., Any])


class GoalPrompt(NamedTuple):
    """A goal that waits for the confirmation of its user: its effect, the question in words, and the requester."""

    tenant_id: str
    goal: WaitingGoal
    prompt: str
    asked_by: str
    language: str | None
    """The language of the question in words."""


class GoalApproval(NamedTuple):
    """The decision of another person about a goal."""

    approved: bool
    by: str
    reason: str


def _records_refusals(method: F) -> F:
    """Record a refusal of a method that takes a caller and the id of a goal."""

    @functools.wraps(method)
    def recorded(self: "GoalRequestService", caller: Caller, correlation_id: str, *more: Any, **given: Any) -> Any:
        with self._context.workspace.refusals.recording("ask", caller.id, about_name(correlation_id)):
            return method(self, caller, correlation_id, *more, **given)

    return cast("F", recorded)


class GoalRequestService:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._answers = GoalAnswers(context)
        self._owned_goals = OwnedGoals(context.workspace)

    def ask(
        self,
        caller: Caller,
        utterance: str,
        language: str = DEFAULT_LANGUAGE,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        wait: float = 0.0,
    ) -> GoalAnswer:
        """Decide a request in plain words, and carry out at most one action for it.

        The same words with the same id continue the goal in its current state.
        """
        about = about_name(NO_ID if correlation_id is None else correlation_id)
        with self._context.workspace.refusals.recording("ask", caller.id, about):
            return self._ask(caller, utterance, language, correlation_id, reply_to, wait)

    def _ask(
        self,
        caller: Caller,
        utterance: str,
        language: str,
        correlation_id: str | None,
        reply_to: str | None,
        wait: float,
    ) -> GoalAnswer:
        require(caller, Right.ASK)
        require_wait(wait)
        user = find_user(caller)
        if reply_to is not None:
            self._owned_goals.require(caller, user, reply_to)
        correlation = correlation_id if correlation_id is not None else uuid7(self._context.workspace.clock())
        if len(utterance) > MAX_TEXT or not is_name(correlation):
            raise RefusedError(
                Reason.MALFORMED,
                f"a goal has at most {MAX_TEXT:,} characters, and an id of 1 to 200 printable ones",
                where="utterance, correlation_id",
                next_step="Use fewer words. Omit the id, and Remit makes a new one.",
            )
        under_way = sum(
            job.owner == caller.id and job.key.startswith("goal:") for job in self._context.jobs.active_jobs()
        )
        self._owned_goals.require_new(caller, user.tenant, correlation, under_way)
        actor_check = ActorCheck(caller, user.tenant, correlation)
        key = f"goal:{digest([caller.id, user.user, user.tenant, correlation, utterance, language, reply_to])}"

        def run(_job: Job[Reply]) -> Reply:
            return self._context.workspace.goals.ask(
                utterance,
                user=user.user,
                tenant=user.tenant,
                language=language,
                correlation_id=correlation,
                reply_to=reply_to,
                hook=actor_check,
            )

        return self._start(caller, user, correlation, key, actor_check.wrap(run), wait)

    @_records_refusals
    def resume(self, caller: Caller, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """Continue a goal of the caller that another person has approved meanwhile. It confirms nothing."""
        require(caller, Right.ASK)
        require_wait(wait)
        user = find_user(caller)
        self._owned_goals.require(caller, user, correlation_id)
        return self._submit_answer(caller, user, correlation_id, None, wait)

    @_records_refusals
    def answer(
        self, caller: Caller, correlation_id: str, answer: str, wait: float = 30.0, step: str | None = None
    ) -> GoalAnswer:
        """Answer the question of a goal with the user's own words. No agent and no other person can do this.

        `step` is the id of the step that the answer is for. A goal with several steps requires it.
        """
        require(caller, Right.CONFIRM)
        require_wait(wait)
        user = find_user(caller)
        now = self._answers.read_status(user.tenant, correlation_id)
        if isinstance(caller, AgentCaller) or now is None or now.user_id != user.user:
            raise not_found_error("goal", correlation_id)
        require_named_step(now, step, correlation_id)
        return self._submit_answer(caller, user, correlation_id, answer, wait, step)

    @_records_refusals
    def undo(self, caller: Caller, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """Roll a goal back with a new goal, which passes the same gates. The answer has the id of the new goal.

        A goal with several steps rolls its own steps back, and keeps its id.
        """
        require(caller, Right.ASK)
        require_wait(wait)
        user = find_user(caller)
        now = self._owned_goals.require(caller, user, correlation_id)
        undo_id = correlation_id if now.has_several_steps else uuid7(self._context.workspace.clock())
        actor_check = ActorCheck(caller, user.tenant, undo_id)

        def run(_job: Job[Reply]) -> Reply:
            return self._context.workspace.goals.rollback(
                correlation_id,
                user=user.user,
                tenant=user.tenant,
                language=now.language_tag,
                correlation_id=undo_id,
                hook=actor_check,
            )

        key = f"goal-back:{digest([user.tenant, undo_id])}"
        return self._start(caller, user, undo_id, key, actor_check.wrap(run), wait)

    def get(self, caller: Caller, tenant: str, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """Return the state of a goal. If its process died after the dispatch, the goal is recovered first."""
        require(caller, Right.SEE_OWN)
        require_wait(wait)
        require_name("goal", tenant, correlation_id)
        job = self._context.jobs.find(_subject(tenant, correlation_id))
        if job is not None and job.owner == caller.id and is_tenant_of(caller, tenant):
            job.wait(wait)  # before its first decision a goal has no owner, but the owner of the job may see the job
            if job.is_running and self._answers.read_status(tenant, correlation_id) is None:
                return build_running_answer(tenant, correlation_id, None)
        self._owned_goals.require_visible(caller, tenant, correlation_id)
        if job is not None and not job.wait(wait):
            return build_running_answer(tenant, correlation_id, self._answers.read_status(tenant, correlation_id))
        now = self._answers.read_recovered_status(tenant, correlation_id)
        if now is None:
            raise not_found_error("goal", correlation_id)
        reply = self._context.workspace.goals.read_reply(correlation_id, user=now.user_id, tenant=tenant)
        return self._answers.build_answer(caller, reply)

    def read_approval(self, caller: Caller, tenant: str, correlation_id: str) -> GoalApproval | None:
        """Return the decision of the approver of a goal. None if there is no decision, or none was requested."""
        require(caller, Right.SEE)
        require_name("goal", tenant, correlation_id)
        workspace = self._context.workspace
        with workspace.store.reading() as connection:
            history = read_history(connection, lambda: workspace.keyring, tenant, correlation_id)
        if history.approval is None:
            return None
        return GoalApproval(history.approval == "APPROVED", history.answered_by, history.answer_reason)

    def list_goals(self, caller: Caller, tenant: str, limit: int = 50) -> list[GoalLine]:
        """List the goals of a tenant. The one with the latest event comes first."""
        require(caller, Right.SEE)
        require_name("tenant", tenant)
        with self._context.workspace.store.reading() as connection:
            rows = newest_goals(connection, tenant, max(1, min(limit, MAX_LISTED)))
        now = render_time(self._context.workspace.clock())
        return [
            GoalLine(tenant_id=tenant, correlation_id=name, event=event, at=at, state=line_state(event, at, now))
            for name, event, at in rows
        ]

    def read_utterance(self, caller: Caller, tenant: str, correlation_id: str) -> str:
        """Return the user's text, masked as it is stored. Empty if the goal is unknown or cannot be verified."""
        require(caller, Right.SEE)
        require_name("goal", tenant, correlation_id)
        try:
            now = self._answers.read_status(tenant, correlation_id)
            if now is None:
                return ""
            goals = self._context.workspace.goals
            return goals.stored_goal(correlation_id, user=now.user_id, tenant=tenant).raw_user_utterance
        except RemitError:  # a goal that was changed in the database must not hide the others
            return ""

    def read_language(self, caller: Caller, tenant: str, correlation_id: str) -> str:
        """Return the language tag of the user's text. Empty if there is no such goal."""
        require(caller, Right.SEE)
        require_name("goal", tenant, correlation_id)
        now = self._answers.read_status(tenant, correlation_id)
        return now.language_tag if now is not None else ""

    def list_tenants(self, caller: Caller) -> list[str]:
        require(caller, Right.SEE)
        return tenants_of(self._context.workspace)

    def replay(self, caller: Caller, tenant: str, correlation_id: str) -> ReplayAnswer:
        """Compute every decision about a goal again from its stored evidence, and compare the results."""
        require(caller, Right.SEE)
        require_name("goal", tenant, correlation_id)
        made = self._context.workspace.goals.replay(correlation_id, tenant=tenant)
        decisions = tuple(
            ReplayedTold(
                event_id=each.event_id,
                at=each.at,
                event=each.event,
                reason_code=each.reason_code,
                dispatched=each.dispatched,
                decision_ref=each.decision_ref,
                agrees=each.agrees,
                why=each.why or None,
                step_id=each.step_id,
                step=each.step,
            )
            for each in made
        )
        agrees = all(each.agrees for each in made)
        return ReplayAnswer(tenant_id=tenant, correlation_id=correlation_id, agrees=agrees, decisions=decisions)

    def list_intake(self, caller: Caller, tenant: str) -> list[Wanted]:
        """List the requests that no simulation covers yet, the most frequent first."""
        require(caller, Right.SEE)
        found = self._context.workspace.goals.intake(tenant)[:MAX_LISTED]
        return [Wanted.from_tree(asdict(each), source="the intake") for each in found]

    def read_confirmation(self, caller: PersonCaller, correlation_id: str) -> GoalPrompt:
        """Return the question that the caller has to answer as the user of a goal."""
        user = find_user(caller)
        workspace = self._context.workspace
        with workspace.store.reading() as connection:
            goal = read_goal_awaiting_confirmation(connection, lambda: workspace.keyring, user.tenant, correlation_id)
            requester = find_requester(connection, user.tenant, correlation_id, GOAL_REQUESTED)
        if goal is None or goal.user_id != user.user:
            raise not_found_error("confirmation", correlation_id)
        outcome = workspace.goals.read_reply(correlation_id, user=user.user, tenant=user.tenant).outcome
        asked_by = requester or user.user
        return GoalPrompt(user.tenant, goal, outcome.user_visible_text, asked_by, outcome.text_language)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _submit_answer(
        self,
        caller: Caller,
        user: User,
        correlation_id: str,
        answer: str | None,
        wait: float,
        step: str | None = None,
    ) -> GoalAnswer:
        actor_check = ActorCheck(caller, user.tenant, correlation_id)

        def run(_job: Job[Reply]) -> Reply:
            return self._context.workspace.goals.answer(
                correlation_id, answer, user=user.user, tenant=user.tenant, step=step, hook=actor_check
            )

        key = f"goal-answer:{digest([caller.id, user.user, user.tenant, correlation_id, answer, step])}"
        return self._start(caller, user, correlation_id, key, actor_check.wrap(run), wait)

    def _start(self, caller: Caller, user: User, correlation: str, key: str, run: Run, wait: float) -> GoalAnswer:
        def recorded(job: Job[Reply]) -> Reply:
            with self._context.workspace.refusals.recording_in_job("ask", caller.id, about_name(correlation)):
                reply = run(job)
            self._preview(caller, reply)
            return reply

        job = self._context.jobs.start(key, recorded, subject=_subject(user.tenant, correlation), owner=caller.id)
        if not job.wait(wait):
            return build_running_answer(user.tenant, correlation, None, user.user)
        reply = job.result()
        self._owned_goals.require_free(caller, user.tenant, correlation)  # two callers may request one id at once
        self._context.workspace.approvals.change_signal.notify()  # the goal may wait in an inbox now
        return self._answers.build_answer(caller, reply)

    def _preview(self, caller: Caller, reply: Reply) -> None:
        """Compute the preview of the question. For an agent that is not part of its answer, as it depends on files."""
        work = partial(compute_preview, self._context.workspace, reply)
        if not isinstance(caller, AgentCaller):
            work()
        elif reply.outcome.reason_code == "CONFIRMATION_REQUIRED":
            goal = reply.goal
            name = f"goal-preview:{goal.tenant_id}:{goal.correlation_id}:{reply.outcome.step_id}"
            self._context.jobs.start(name, lambda _: work(), subject=name, owner="remit")


def require_named_step(now: GoalStatus, step: str | None, correlation_id: str) -> None:
    """Refuse an answer that does not say for which step of a goal with several steps it is.

    A repeated answer to a step that was decided before is not refused here. It is not used again.
    """
    if step is None and not now.has_several_steps:
        return
    if step is not None and not now.has_several_steps and step == now.step_id:
        return
    waits = f"the step that waits is {now.waiting_step}" if now.waiting_step else "no step of it waits for an answer"
    what = (
        f"this goal has several steps, and the answer does not say for which it is; {waits}"
        if step is None
        else "this goal has no such step; it has a single one"
    )
    if step is None or not now.has_several_steps:
        raise RefusedError(
            Reason.MALFORMED,
            what,
            where=f"step, correlation {correlation_id}",
            next_step="Read the question that waits. If it has the id of a step, give this id with the answer.",
        )


def _subject(tenant: str, correlation_id: str) -> str:
    return f"goal:{tenant}:{correlation_id}"
