"""Goals at the desk: asked for a user, confirmed by that user and nobody else, looked at, and taken back.

An agent asks for the user whom its token names; a person, for the user that he is. Who asked is recorded before the
goal is, so that an agent finds its own goals again and nobody else's.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Final, NamedTuple

from remit.agent.gates import ANSWER_LIFE, APPROVAL_LIFE
from remit.agent.standing import Stands, WaitingGoal, stands, unconfirmed_goal
from remit.canonical import digest
from remit.contracts.desk import GoalAnswer, QuestionKind, Waiting, WaitingFor
from remit.contracts.desk_record import GoalLine, ReplayAnswer, Wanted
from remit.contracts.desk_record import Replayed as ReplayedTold
from remit.desk.callers import AgentCaller, Caller, PersonCaller
from remit.desk.goal_hints import hints_of
from remit.desk.goal_questions import expires_at, tenants_of
from remit.desk.goal_reasons import explained
from remit.desk.goal_states import can_take_back, state_of, waiting_for
from remit.desk.ownership import GOAL_ASKED, asker_of, goal_asked, is_new, no_such, require_own
from remit.desk.rights import Right, require
from remit.desk.room import Room, require_wait
from remit.desk.work import Job
from remit.errors import Reason, Refused
from remit.goals import Reply
from remit.ids import uuid7
from remit.ledger.append import Batch
from remit.ledger.goal_reading import newest_goals

Run = Callable[[Job[Reply]], Reply]

MOST_LISTED: Final = 200
_UNDER_WAY: Final = frozenset({"", "ACCESS_ALLOWED", "DISPATCHED"})


class User(NamedTuple):
    user: str
    tenant: str


class Asked(NamedTuple):
    """A goal that waits for its user's yes: what would be done, the question in words, and who asked for it."""

    tenant_id: str
    goal: WaitingGoal
    prompt: str
    asked_by: str


class GoalDesk:
    def __init__(self, room: Room) -> None:
        self._room = room

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
            self._require_own(caller, user, reply_to)
        correlation = correlation_id or uuid7(self._room.workspace.clock())
        self._note_asked(caller, user.tenant, correlation)
        key = f"goal:{digest([user.user, user.tenant, correlation, utterance, language, reply_to])}"

        def run(_job: Job[Reply]) -> Reply:
            return self._room.workspace.goals.ask(
                utterance,
                user=user.user,
                tenant=user.tenant,
                language=language,
                correlation_id=correlation,
                reply_to=reply_to,
            )

        return self._begun(caller, user, correlation, key, run, wait)

    def go_on(self, caller: Caller, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """With a goal of one's own that somebody else has approved meanwhile. Says no yes for anybody."""
        require(caller, Right.ASK)
        require_wait(wait)
        user = speaker(caller)
        self._require_own(caller, user, correlation_id)
        return self._answered(caller, user, correlation_id, None, wait)

    def answer(self, caller: Caller, correlation_id: str, answer: str, wait: float = 30.0) -> GoalAnswer:
        """The user's own yes or no, in words of his language. No agent can say it, and no other person."""
        require(caller, Right.CONFIRM)
        require_wait(wait)
        user = speaker(caller)
        now = self._stands(user.tenant, correlation_id)
        if isinstance(caller, AgentCaller) or now is None or now.user_id != user.user:
            raise no_such("goal", correlation_id)
        return self._answered(caller, user, correlation_id, answer, wait)

    def take_back(self, caller: Caller, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """By a goal of its own, through all the same gates; its answer has an id of its own."""
        require(caller, Right.ASK)
        require_wait(wait)
        user = speaker(caller)
        now = self._require_own(caller, user, correlation_id)
        own = uuid7(self._room.workspace.clock())
        self._note_asked(caller, user.tenant, own)

        def run(_job: Job[Reply]) -> Reply:
            return self._room.workspace.goals.take_back(
                correlation_id, user=user.user, tenant=user.tenant, language=now.language_tag, correlation_id=own
            )

        return self._begun(caller, user, own, f"goal-back:{digest([user.tenant, own])}", run, wait)

    def get(self, caller: Caller, tenant: str, correlation_id: str, wait: float = 0.0) -> GoalAnswer:
        """Where a goal stands; nothing is moved by looking."""
        require(caller, Right.SEE_OWN)
        require_wait(wait)
        self._require_visible(caller, tenant, correlation_id)
        job = self._room.work.about(_subject(tenant, correlation_id))
        if job is not None and not job.wait(wait):
            return _running(tenant, correlation_id, self._stands(tenant, correlation_id))
        now = self._stands(tenant, correlation_id)
        if now is None:
            raise no_such("goal", correlation_id)
        reply = self._room.workspace.goals.told(correlation_id, user=now.user_id, tenant=tenant)
        return self._told(caller, reply)

    def listed(self, caller: Caller, tenant: str, limit: int = 50) -> list[GoalLine]:
        """The goals of a tenant, the last one that moved first."""
        require(caller, Right.SEE)
        with self._room.workspace.store.reading() as connection:
            rows = newest_goals(connection, tenant, max(1, min(limit, MOST_LISTED)))
        return [GoalLine(tenant_id=tenant, correlation_id=name, event=event, at=at) for name, event, at in rows]

    def tenants(self, caller: Caller) -> list[str]:
        require(caller, Right.SEE)
        return tenants_of(self._room.workspace)

    def replay(self, caller: Caller, tenant: str, correlation_id: str) -> ReplayAnswer:
        """Every decision about it made again, from what was kept."""
        require(caller, Right.SEE)
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

    def confirmation(self, caller: PersonCaller, correlation_id: str) -> Asked:
        """What the caller, as the user that he is, is asked to confirm."""
        user = speaker(caller)
        workspace = self._room.workspace
        with workspace.store.reading() as connection:
            goal = unconfirmed_goal(connection, lambda: workspace.keyring, user.tenant, correlation_id)
            asker = asker_of(connection, user.tenant, correlation_id, GOAL_ASKED)
        if goal is None or goal.user_id != user.user:
            raise no_such("question", correlation_id)
        prompt = workspace.goals.told(correlation_id, user=user.user, tenant=user.tenant).outcome.user_visible_text
        return Asked(user.tenant, goal, prompt, asker or user.user)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _note_asked(self, caller: Caller, tenant: str, correlation_id: str) -> None:
        """Before the goal is there. Of a goal that is there already, whose it is stays as it was."""
        if not self._room.workspace.goals.core.knows(tenant):
            return  # nobody gets a chain of his own by asking under a made-up name

        def work(batch: Batch) -> str | None:
            if is_new(batch.store, tenant, correlation_id):
                batch.append(goal_asked(caller, tenant, correlation_id))
                return caller.id
            return asker_of(batch.store, tenant, correlation_id, GOAL_ASKED)

        asker = self._room.workspace.ledger.transact(work)
        if isinstance(caller, AgentCaller) and asker != caller.id:
            raise Refused(
                Reason.GOAL_CONFLICT,
                "this correlation id stands for another goal",
                where=f"correlation {correlation_id}",
                next_step="Leave it away, and one is made.",
            )

    def _answered(self, caller: Caller, user: User, correlation_id: str, answer: str | None, wait: float) -> GoalAnswer:
        def run(_job: Job[Reply]) -> Reply:
            return self._room.workspace.goals.answer(correlation_id, answer, user=user.user, tenant=user.tenant)

        key = f"goal-answer:{digest([user.user, user.tenant, correlation_id, answer])}"
        return self._begun(caller, user, correlation_id, key, run, wait)

    def _begun(self, caller: Caller, user: User, correlation: str, key: str, run: Run, wait: float) -> GoalAnswer:
        job = self._room.work.begin(key, run, subject=_subject(user.tenant, correlation), owner=caller.id)
        if not job.wait(wait):
            return _running(user.tenant, correlation, None, user.user)
        reply = job.result()
        self._room.workspace.approvals.bell.ring()  # a question may wait in somebody's inbox now
        return self._told(caller, reply)

    def _told(self, caller: Caller, reply: Reply) -> GoalAnswer:
        goal, outcome = reply.goal, reply.outcome
        now = self._stands(goal.tenant_id, goal.correlation_id)
        event = now.event if now is not None else ""
        waits = waiting_for(outcome, event)
        is_under_way = now is not None and event in _UNDER_WAY
        return GoalAnswer(
            state="running" if is_under_way else state_of(outcome, event),
            tenant_id=goal.tenant_id,
            correlation_id=goal.correlation_id,
            user_id=goal.user_id,
            event=event,
            text=outcome.user_visible_text,
            outcome=outcome,
            waiting_for=waits,
            waiting=self._waiting(reply, now, waits),
            why=self._why(caller, reply)[:10_000] or None,
            can_take_back=now is not None and can_take_back(goal, now),
            next=_next(waits, is_under_way=is_under_way),
        )

    def _waiting(self, reply: Reply, now: Stands | None, waits: WaitingFor | None) -> Waiting | None:
        if now is None or waits not in {"confirmation", "approval"}:
            return None
        goal = reply.goal
        kind: QuestionKind = "confirmation" if waits == "confirmation" else "goal"
        life = ANSWER_LIFE if waits == "confirmation" else APPROVAL_LIFE
        return Waiting(
            kind=kind,
            id=goal.correlation_id,
            tenant=goal.tenant_id,
            what=reply.outcome.user_visible_text,
            expires=expires_at(now.at, life),
            link=self._room.link("inbox", kind, goal.tenant_id, goal.correlation_id),
        )

    def _why(self, caller: Caller, reply: Reply) -> str:
        """To an agent, the gate's own reason; people hear more, since they may see the record anyway."""
        if not isinstance(caller, AgentCaller):
            return hints_of(self._room.workspace, reply, None).why
        goal, workspace = reply.goal, self._room.workspace
        with workspace.store.reading() as connection:
            names = (goal.tenant_id, goal.correlation_id, reply.outcome.audit_event_id)
            return explained(connection, lambda: workspace.keyring, *names).why

    def _stands(self, tenant: str, correlation_id: str) -> Stands | None:
        workspace = self._room.workspace
        with workspace.store.reading() as connection:
            return stands(connection, lambda: workspace.keyring, tenant, correlation_id)

    def _require_own(self, caller: Caller, user: User, correlation_id: str) -> Stands:
        """Of the same user; and to an agent, one that it asked for itself."""
        now = self._stands(user.tenant, correlation_id)
        missing = no_such("goal", correlation_id)
        if now is None or now.user_id != user.user:
            raise missing
        self._require_visible(caller, user.tenant, correlation_id)
        return now

    def _require_visible(self, caller: Caller, tenant: str, correlation_id: str) -> None:
        if isinstance(caller, AgentCaller):
            missing = no_such("goal", correlation_id)
            if tenant != caller.token.constraints.tenant:
                raise missing
            with self._room.workspace.store.glancing() as connection:
                require_own(caller, asker_of(connection, tenant, correlation_id, GOAL_ASKED), missing)


def speaker(caller: Caller) -> User:
    """For whom somebody asks at the goal door."""
    if isinstance(caller, AgentCaller):
        limits = caller.token.constraints
        if limits.user is not None and limits.tenant is not None:
            return User(limits.user, limits.tenant)
        raise Refused(
            Reason.CONSTRAINT_VIOLATED,
            "this token names no user for whom its agent may ask",
            where="constraints.user",
            next_step="Have one issued that does: remit token issue --cap goal.ask --user USER --tenant TENANT",
        )
    if caller.user is not None and caller.tenant is not None:
        return User(caller.user, caller.tenant)
    raise Refused(
        Reason.PERMISSION_DENIED,
        "this person is no user of a tenant, so there is nobody to ask for",
        where="the caller",
        next_step="An admin says who is which user: remit people invite NAME --user USER --tenant TENANT",
    )


def _subject(tenant: str, correlation_id: str) -> str:
    return f"goal:{tenant}:{correlation_id}"


def _running(tenant: str, correlation_id: str, now: Stands | None, user: str = "") -> GoalAnswer:
    return GoalAnswer(
        state="running",
        tenant_id=tenant,
        correlation_id=correlation_id,
        user_id=now.user_id if now is not None else user or "unknown",
        event=now.event if now is not None else "",
        text="",
        next=_next(None, is_under_way=True),
    )


def _next(waits: WaitingFor | None, *, is_under_way: bool) -> tuple[str, ...]:
    if is_under_way:
        return ("Look again by its id; if nothing moves, ask the same again under the same id.",)
    match waits:
        case "confirmation":
            return ("The user answers in the inbox; nobody can for him. Then look again by its id.",)
        case "approval":
            return ("Somebody else approves it in the inbox.", "Then go on with it, or ask the same under the same id.")
        case "clarification":
            return ("Ask again with the answer, and this id as reply_to.",)
    return ()
