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
from remit.services.base.ownership import GOAL_ASKED, asker_of, is_name, not_found_error, require_name
from remit.services.base.permissions import Right, require
from remit.services.goals.actor_check import ActorCheck, Run
from remit.services.goals.answers import GoalAnswers, User, running, speaker
from remit.services.goals.approvals import tenants_of
from remit.services.goals.ownership import OwnGoals, is_of

MOST_LISTED: Final = 200


class GoalPrompt(NamedTuple):
    """A goal that waits for its user's yes: what would be done, the question in words, and who asked for it."""

    tenant_id: str
    goal: WaitingGoal
    prompt: str
    asked_by: str


class GoalDesk:
    def __init__(self, room: ServiceContext) -> None:
        self._room = room
        self._answers = GoalAnswers(room)
        self._own = OwnGoals(room.workspace)

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
        user = speaker(caller)
        if reply_to is not None:
            self._own.require(caller, user, reply_to)
        correlation = correlation_id if correlation_id is not None else uuid7(self._room.workspace.clock())
        if len(utterance) > MAX_TEXT or not is_name(correlation):
            raise RefusedError(
                Reason.MALFORMED,
                f"a goal has at most {MAX_TEXT:,} characters, and an id of 1 to 200 printable ones",
                where="utterance, correlation_id",
                next_step="Say it in fewer words; leave the id away, and one is made.",
            )
        under_way = sum(job.owner == caller.id and job.key.startswith("goal:") for job in self._room.work.jobs())
        self._own.require_new(caller, user.tenant, correlation, under_way)
        witness = ActorCheck(caller, user.tenant, correlation)
        key = f"goal:{digest([caller.id, user.user, user.tenant, correlation, utterance, language, reply_to])}"

        def run(_job: Job[Reply]) -> Reply:
            return self._room.workspace.goals.ask(
                utterance,
                user=user.user,
                tenant=user.tenant,
                language=language,
                correlation_id=correlation,
                reply_to=reply_to,
                hook=witness,
            )

        return self._begun(caller, user, correlation, key, witness.heard(run), wait)

    def go_on(self, caller: Caller, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """With a goal of one's own that somebody else has approved meanwhile. Says no yes for anybody."""
        require(caller, Right.ASK)
        require_wait(wait)
        user = speaker(caller)
        self._own.require(caller, user, correlation_id)
        return self._answered(caller, user, correlation_id, None, wait)

    def answer(self, caller: Caller, correlation_id: str, answer: str, wait: float = 30.0) -> GoalAnswer:
        """The user's own yes or no, in words of his language. No agent can say it, and no other person."""
        require(caller, Right.CONFIRM)
        require_wait(wait)
        user = speaker(caller)
        now = self._answers.stands(user.tenant, correlation_id)
        if isinstance(caller, AgentCaller) or now is None or now.user_id != user.user:
            raise not_found_error("goal", correlation_id)
        return self._answered(caller, user, correlation_id, answer, wait)

    def take_back(self, caller: Caller, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """By a goal of its own, through all the same gates; its answer has an id of its own."""
        require(caller, Right.ASK)
        require_wait(wait)
        user = speaker(caller)
        now = self._own.require(caller, user, correlation_id)
        own = uuid7(self._room.workspace.clock())
        witness = ActorCheck(caller, user.tenant, own)

        def run(_job: Job[Reply]) -> Reply:
            return self._room.workspace.goals.rollback(
                correlation_id,
                user=user.user,
                tenant=user.tenant,
                language=now.language_tag,
                correlation_id=own,
                hook=witness,
            )

        key = f"goal-back:{digest([user.tenant, own])}"
        return self._begun(caller, user, own, key, witness.heard(run), wait)

    def get(self, caller: Caller, tenant: str, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """Where a goal stands; nothing is moved by looking."""
        require(caller, Right.SEE_OWN)
        require_wait(wait)
        require_name("goal", tenant, correlation_id)
        job = self._room.work.about(_subject(tenant, correlation_id))
        if job is not None and job.owner == caller.id and is_of(caller, tenant):
            job.wait(wait)  # nobody's yet, before its first decision; and whoever has it done may know that
            if job.is_running and self._answers.stands(tenant, correlation_id) is None:
                return running(tenant, correlation_id, None)
        self._own.require_visible(caller, tenant, correlation_id)
        if job is not None and not job.wait(wait):
            return running(tenant, correlation_id, self._answers.stands(tenant, correlation_id))
        now = self._answers.settled(tenant, correlation_id)
        if now is None:
            raise not_found_error("goal", correlation_id)
        reply = self._room.workspace.goals.read_reply(correlation_id, user=now.user_id, tenant=tenant)
        return self._answers.told(caller, reply)

    def listed(self, caller: Caller, tenant: str, limit: int = 50) -> list[GoalLine]:
        """The goals of a tenant, the last one that moved first."""
        require(caller, Right.SEE)
        require_name("tenant", tenant)
        with self._room.workspace.store.reading() as connection:
            rows = newest_goals(connection, tenant, max(1, min(limit, MOST_LISTED)))
        return [GoalLine(tenant_id=tenant, correlation_id=name, event=event, at=at) for name, event, at in rows]

    def words(self, caller: Caller, tenant: str, correlation_id: str) -> str:
        """What was asked for, masked as the record has it. Empty where the record is not as it was signed."""
        require(caller, Right.SEE)
        require_name("goal", tenant, correlation_id)
        try:
            now = self._answers.stands(tenant, correlation_id)
            if now is None:
                return ""
            goals = self._room.workspace.goals
            return goals.stored_goal(correlation_id, user=now.user_id, tenant=tenant).raw_user_utterance
        except RemitError:  # one that somebody changed must not hide the others
            return ""

    def language(self, caller: Caller, tenant: str, correlation_id: str) -> str:
        """The tag of the language that it was asked for in; empty where there is no such goal."""
        require(caller, Right.SEE)
        require_name("goal", tenant, correlation_id)
        now = self._answers.stands(tenant, correlation_id)
        return now.language_tag if now is not None else ""

    def tenants(self, caller: Caller) -> list[str]:
        require(caller, Right.SEE)
        return tenants_of(self._room.workspace)

    def replay(self, caller: Caller, tenant: str, correlation_id: str) -> ReplayAnswer:
        """Every decision about it made again, from what was kept."""
        require(caller, Right.SEE)
        require_name("goal", tenant, correlation_id)
        made = self._room.workspace.goals.replay(correlation_id, tenant=tenant)
        told = tuple(
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
        return ReplayAnswer(tenant_id=tenant, correlation_id=correlation_id, agrees=agrees, decisions=told)

    def intake(self, caller: Caller, tenant: str) -> list[Wanted]:
        """What was asked for and nobody can do yet, the most wanted first."""
        require(caller, Right.SEE)
        found = self._room.workspace.goals.intake(tenant)[:MOST_LISTED]
        return [Wanted.from_tree(asdict(each), source="the intake") for each in found]

    def confirmation(self, caller: PersonCaller, correlation_id: str) -> GoalPrompt:
        """What the caller, as the user that he is, is asked to confirm."""
        user = speaker(caller)
        workspace = self._room.workspace
        with workspace.store.reading() as connection:
            goal = read_goal_awaiting_confirmation(connection, lambda: workspace.keyring, user.tenant, correlation_id)
            asker = asker_of(connection, user.tenant, correlation_id, GOAL_ASKED)
        if goal is None or goal.user_id != user.user:
            raise not_found_error("question", correlation_id)
        prompt = workspace.goals.read_reply(
            correlation_id, user=user.user, tenant=user.tenant
        ).outcome.user_visible_text
        return GoalPrompt(user.tenant, goal, prompt, asker or user.user)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _answered(self, caller: Caller, user: User, correlation_id: str, answer: str | None, wait: float) -> GoalAnswer:
        witness = ActorCheck(caller, user.tenant, correlation_id)

        def run(_job: Job[Reply]) -> Reply:
            return self._room.workspace.goals.answer(
                correlation_id, answer, user=user.user, tenant=user.tenant, hook=witness
            )

        key = f"goal-answer:{digest([caller.id, user.user, user.tenant, correlation_id, answer])}"
        return self._begun(caller, user, correlation_id, key, witness.heard(run), wait)

    def _begun(self, caller: Caller, user: User, correlation: str, key: str, run: Run, wait: float) -> GoalAnswer:
        job = self._room.work.begin(key, run, subject=_subject(user.tenant, correlation), owner=caller.id)
        if not job.wait(wait):
            return running(user.tenant, correlation, None, user.user)
        reply = job.result()
        self._own.require_free(caller, user.tenant, correlation)  # of two who asked for it at once, it is one's
        self._room.workspace.approvals.bell.ring()  # a question may wait in somebody's inbox now
        return self._answers.told(caller, reply)


def _subject(tenant: str, correlation_id: str) -> str:
    return f"goal:{tenant}:{correlation_id}"
