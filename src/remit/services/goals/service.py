"""Goals at the desk: asked for a user, confirmed by that user and nobody else, looked at, and taken back.

An agent asks for the user whom its token names; a person, for the user that he is. Who asked is recorded in the very
transaction of the goal's first decision: an agent finds its own goals again, and has no claim on an id before that.
"""

from dataclasses import asdict
from typing import Final, NamedTuple

from remit.contracts.base import MAX_TEXT
from remit.contracts.services.common import GoalAnswer
from remit.contracts.services.ledger import GoalLine, ReplayAnswer, Wanted
from remit.contracts.services.ledger import Replayed as ReplayedTold
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import uuid7
from remit.goals.service import Reply
from remit.goals.status import WaitingGoal, read_goal_awaiting_confirmation
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

MAX_LISTED: Final = 200


class GoalPrompt(NamedTuple):
    """A goal that waits for its user's yes: what would be done, the question in words, and who asked for it."""

    tenant_id: str
    goal: WaitingGoal
    prompt: str
    asked_by: str


class GoalRequestService:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._answers = GoalAnswers(context)
        self._owned_goals = OwnedGoals(context.workspace)

    def ask(
        self,
        caller: Caller,
        utterance: str,
        language: str = "en",
        correlation_id: str | None = None,
        reply_to: str | None = None,
        wait: float = 0.0,
    ) -> GoalAnswer:
        """From words to at most one effect. The same words under the same id go on where the goal stands."""
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
                next_step="Say it in fewer words; leave the id away, and one is made.",
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

    def resume(self, caller: Caller, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """With a goal of one's own that somebody else has approved meanwhile. Says no yes for anybody."""
        require(caller, Right.ASK)
        require_wait(wait)
        user = find_user(caller)
        self._owned_goals.require(caller, user, correlation_id)
        return self._submit_answer(caller, user, correlation_id, None, wait)

    def answer(self, caller: Caller, correlation_id: str, answer: str, wait: float = 30.0) -> GoalAnswer:
        """The user's own yes or no, in words of his language. No agent can say it, and no other person."""
        require(caller, Right.CONFIRM)
        require_wait(wait)
        user = find_user(caller)
        now = self._answers.read_status(user.tenant, correlation_id)
        if isinstance(caller, AgentCaller) or now is None or now.user_id != user.user:
            raise not_found_error("goal", correlation_id)
        return self._submit_answer(caller, user, correlation_id, answer, wait)

    def undo(self, caller: Caller, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """By a goal of its own, through all the same gates; its answer has an id of its own."""
        require(caller, Right.ASK)
        require_wait(wait)
        user = find_user(caller)
        now = self._owned_goals.require(caller, user, correlation_id)
        undo_id = uuid7(self._context.workspace.clock())
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
        """Where a goal stands; nothing is moved by looking."""
        require(caller, Right.SEE_OWN)
        require_wait(wait)
        require_name("goal", tenant, correlation_id)
        job = self._context.jobs.find(_subject(tenant, correlation_id))
        if job is not None and job.owner == caller.id and is_tenant_of(caller, tenant):
            job.wait(wait)  # nobody's yet, before its first decision; and whoever has it done may know that
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

    def list_goals(self, caller: Caller, tenant: str, limit: int = 50) -> list[GoalLine]:
        """The goals of a tenant, the last one that moved first."""
        require(caller, Right.SEE)
        require_name("tenant", tenant)
        with self._context.workspace.store.reading() as connection:
            rows = newest_goals(connection, tenant, max(1, min(limit, MAX_LISTED)))
        return [GoalLine(tenant_id=tenant, correlation_id=name, event=event, at=at) for name, event, at in rows]

    def read_utterance(self, caller: Caller, tenant: str, correlation_id: str) -> str:
        """What was asked for, masked as the record has it. Empty where the record is not as it was signed."""
        require(caller, Right.SEE)
        require_name("goal", tenant, correlation_id)
        try:
            now = self._answers.read_status(tenant, correlation_id)
            if now is None:
                return ""
            goals = self._context.workspace.goals
            return goals.stored_goal(correlation_id, user=now.user_id, tenant=tenant).raw_user_utterance
        except RemitError:  # one that somebody changed must not hide the others
            return ""

    def read_language(self, caller: Caller, tenant: str, correlation_id: str) -> str:
        """The tag of the language that it was asked for in; empty where there is no such goal."""
        require(caller, Right.SEE)
        require_name("goal", tenant, correlation_id)
        now = self._answers.read_status(tenant, correlation_id)
        return now.language_tag if now is not None else ""

    def list_tenants(self, caller: Caller) -> list[str]:
        require(caller, Right.SEE)
        return tenants_of(self._context.workspace)

    def replay(self, caller: Caller, tenant: str, correlation_id: str) -> ReplayAnswer:
        """Every decision about it made again, from what was kept."""
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
            )
            for each in made
        )
        agrees = all(each.agrees for each in made)
        return ReplayAnswer(tenant_id=tenant, correlation_id=correlation_id, agrees=agrees, decisions=decisions)

    def list_intake(self, caller: Caller, tenant: str) -> list[Wanted]:
        """What was asked for and nobody can do yet, the most wanted first."""
        require(caller, Right.SEE)
        found = self._context.workspace.goals.intake(tenant)[:MAX_LISTED]
        return [Wanted.from_tree(asdict(each), source="the intake") for each in found]

    def read_confirmation(self, caller: PersonCaller, correlation_id: str) -> GoalPrompt:
        """What the caller, as the user that he is, is asked to confirm."""
        user = find_user(caller)
        workspace = self._context.workspace
        with workspace.store.reading() as connection:
            goal = read_goal_awaiting_confirmation(connection, lambda: workspace.keyring, user.tenant, correlation_id)
            requester = find_requester(connection, user.tenant, correlation_id, GOAL_REQUESTED)
        if goal is None or goal.user_id != user.user:
            raise not_found_error("question", correlation_id)
        prompt = workspace.goals.read_reply(
            correlation_id, user=user.user, tenant=user.tenant
        ).outcome.user_visible_text
        return GoalPrompt(user.tenant, goal, prompt, requester or user.user)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _submit_answer(
        self, caller: Caller, user: User, correlation_id: str, answer: str | None, wait: float
    ) -> GoalAnswer:
        actor_check = ActorCheck(caller, user.tenant, correlation_id)

        def run(_job: Job[Reply]) -> Reply:
            return self._context.workspace.goals.answer(
                correlation_id, answer, user=user.user, tenant=user.tenant, hook=actor_check
            )

        key = f"goal-answer:{digest([caller.id, user.user, user.tenant, correlation_id, answer])}"
        return self._start(caller, user, correlation_id, key, actor_check.wrap(run), wait)

    def _start(self, caller: Caller, user: User, correlation: str, key: str, run: Run, wait: float) -> GoalAnswer:
        job = self._context.jobs.start(key, run, subject=_subject(user.tenant, correlation), owner=caller.id)
        if not job.wait(wait):
            return build_running_answer(user.tenant, correlation, None, user.user)
        reply = job.result()
        self._owned_goals.require_free(caller, user.tenant, correlation)  # of two who asked for it at once, it is one's
        self._context.workspace.approvals.change_signal.notify()  # a question may wait in somebody's inbox now
        return self._answers.build_answer(caller, reply)


def _subject(tenant: str, correlation_id: str) -> str:
    return f"goal:{tenant}:{correlation_id}"
