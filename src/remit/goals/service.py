"""The service for the goals of one workspace: it asks, answers, approves, replays and rolls back goals."""

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from remit.contracts.goals.goal import DEFAULT_LANGUAGE, AgentExecutionOutcome, AgentGoalRequest
from remit.contracts.goals.packets import FINDER_PACKET, ClarifyPacket, SimulationMatchPacket
from remit.core.concurrency import ConcurrencyLimiter, released
from remit.core.errors import Reason, RefusedError
from remit.core.ids import Clock, render_time, uuid7
from remit.core.ttl_cache import TTLCache
from remit.crypto.signing import Keyring
from remit.execution.recovery import Recovered
from remit.fs.state_dir import StateDirectory
from remit.goals.catalogue.catalogue import Catalogue
from remit.goals.composite.driver import Situation
from remit.goals.composite.layout import WHOLE
from remit.goals.composite.started_goals import StartedGoals
from remit.goals.core import AgentCore
from remit.goals.decisions import stored_attempts
from remit.goals.experience import Learned, Learning
from remit.goals.finder.finder import EmbeddedFinder, Finder, ThreadState, Utterance, after_clarify
from remit.goals.finder.packets import Packet
from remit.goals.gates import NOT_IN_TIME
from remit.goals.history import APPROVAL, PREVIEW, decision_of, load_decision, read_history
from remit.goals.ports import ActionRunner
from remit.goals.questions import find_unseen_question
from remit.goals.recording import TransactionHook, no_op_hook
from remit.goals.replay import ReplayedDecision, replay_goal
from remit.goals.rollback import rollback_packet
from remit.goals.rules import PastRules
from remit.goals.rules_loader import WorkspaceRules
from remit.goals.simulation_executor import SimulationExecutor, SimulationOperation
from remit.identity.person import Person
from remit.ledger.documents import DocumentStore, StoredDocument, load_document, store_documents
from remit.ledger.entry import NewEntry
from remit.ledger.goal_queries import (
    IntakeItem,
    entries_of_kind,
    read_intake,
    step_events,
    waiting_decision,
)
from remit.ledger.writer import Batch, Ledger
from remit.masking import mask_json, mask_text
from remit.store.connection import Connection

_LOG: Final = logging.getLogger("remit.goals")


@dataclass(frozen=True, slots=True)
class Reply:
    """A goal as the core received it, and the outcome that the core returned. `answer` continues the same goal."""

    goal: AgentGoalRequest
    outcome: AgentExecutionOutcome


class GoalService:
    """Runs goals through the agent core. Callers may replace `finder` by any Finder, and no other part."""

    def __init__(
        self,
        state: StateDirectory,
        rules: WorkspaceRules,
        runner: ActionRunner,
        ledger: Callable[[], Ledger],
        keyring: Callable[[], Keyring],
        clock: Clock,
        limiter: ConcurrencyLimiter,
    ) -> None:
        self.rules = rules
        self.finder: Finder = EmbeddedFinder()
        self._ledger = ledger
        self._keyring = keyring
        self._clock = clock
        self._limiter = limiter
        self._past = PastRules()
        self._learning = Learning()
        self._threads: TTLCache[tuple[str, str], tuple[str, ThreadState | None]] = TTLCache(256, 600)
        self._runner = runner
        operation = SimulationOperation(ledger, keyring, rules, self._past, runner, clock)
        self.executor = SimulationExecutor(operation, state.hosts)
        self.core = AgentCore(ledger, keyring, rules, self._past, self.executor, clock, rules.is_tenant)
        self._started = StartedGoals(self.core, rules, self.stored_goal, limiter)
        self._recovering = threading.Lock()
        self._recovered = False

    def run(self, goal: bytes) -> AgentExecutionOutcome:
        """Run one cycle of a goal with its packet, from untrusted bytes."""
        parsed = AgentGoalRequest.parse(goal, source="goal")
        with self._slot(parsed.tenant_id, parsed.correlation_id):
            return self.core.run_goal(parsed)

    def ask(
        self,
        utterance: str,
        *,
        user: str,
        tenant: str,
        language: str = DEFAULT_LANGUAGE,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        hook: TransactionHook = no_op_hook,
    ) -> Reply:
        """Run a request in the user's own words. It has at most one effect.

        `reply_to` is the correlation id of an earlier goal that asked the user a question.
        """
        correlation = correlation_id or uuid7(self._clock())
        with self._slot(tenant, correlation):
            if correlation_id is not None and (
                repeated := self._find_repeated(correlation, utterance, user, tenant, language)
            ):
                return Reply(repeated, self.core.resume_goal(repeated, hook))
            with self._ledger().store.reading_pooled() as connection:
                catalogue = self.rules.catalogue(tenant, connection)
                learned = self._learning.read(connection, catalogue)
                thread_id, thread = self._thread(connection, tenant, reply_to, correlation)
            request = Utterance(correlation, tenant, user, thread_id, language, utterance, thread)
            packet, proof_documents = self._find_packet(request, catalogue, learned)
            # The Finder counts the questions of a thread. Each of its questions has the next number.
            before = thread.attempt if thread is not None else 0
            attempt = packet.attempt - 1 if isinstance(packet, ClarifyPacket) else before
            goal = _goal(request, packet, getattr(packet, "intent", ""), packet.idempotency_key, attempt=attempt)
            return Reply(goal, self.core.run_goal(goal, proof_documents, hook))

    def _find_repeated(
        self, correlation_id: str, utterance: str, user: str, tenant: str, language: str
    ) -> AgentGoalRequest | None:
        """Return the stored goal of a repeated request. It keeps its packet, even if the catalogue has changed."""
        with self._ledger().store.reading_pooled() as connection:
            if not step_events(connection, tenant, correlation_id):
                return None
        goal = self.stored_goal(correlation_id, user=user, tenant=tenant)
        return goal if (goal.raw_user_utterance, goal.language_tag) == (mask_text(utterance), language) else None

    def answer(
        self,
        correlation_id: str,
        answer: str | None,
        *,
        user: str,
        tenant: str,
        step: str | None = None,
        hook: TransactionHook = no_op_hook,
    ) -> Reply:
        """Continue a goal that waits, after the user answered or another person approved it.

        Args:
            correlation_id: The id of the goal.
            answer: The answer in the user's own words; None if the goal waited for another person's approval.
            user: The user of the goal.
            tenant: The tenant of the user.
            step: The id of the step that the answer is for. Required if the goal has several steps.
            hook: Called in the transaction of each decision. For the services.

        Returns:
            A `Reply` with `goal` and `outcome`.

        Raises:
            RefusedError: There is no such goal of this user.
            EnvironmentFailureError: The store or the disk failed.
        """
        with self._slot(tenant, correlation_id):
            goal = self.stored_goal(correlation_id, user=user, tenant=tenant, answer=answer, step=step)
            return Reply(goal, self.core.resume_goal(goal, hook))

    def read_reply(self, correlation_id: str, *, user: str, tenant: str) -> Reply:
        """Return the current outcome of a goal. It changes nothing."""
        goal = self.stored_goal(correlation_id, user=user, tenant=tenant)
        return Reply(goal, self.core.read_outcome(goal))

    def preview_question(self, correlation_id: str, *, tenant: str) -> None:
        """Compute and store what would be done, if a goal waits for the confirmation of its user.

        It is computed once for each step, and nothing is executed for it. The decision about the answer names it, and
        the action then runs with no other effect. Views read the stored preview. Call it for people only, or after an
        agent has its answer: the time that it takes depends on files.

        Args:
            correlation_id: The id of the goal.
            tenant: The tenant of the goal.

        Raises:
            EnvironmentFailureError: The store or the disk failed.
        """
        with self._ledger().store.reading_pooled() as connection:
            asked = find_unseen_question(connection, self._keyring, tenant, correlation_id)
        if asked is None:
            return
        tree = self._runner.preview(asked.bound, tenant, asked.key)
        if tree is None:
            return

        def work(batch: Batch) -> None:
            now = read_history(batch.store, self._keyring, tenant, correlation_id)
            if now.last is None or now.last.seq != asked.seq:
                return  # answered meanwhile
            computed_at = render_time(batch.time_in(tenant))
            document = StoredDocument(PREVIEW, {**tree, "step_id": asked.step_id, "computed_at": computed_at})
            store_documents(batch, tenant, (document,))
            payload: Any = {"step_id": asked.step_id, "preview_ref": document.ref}
            batch.append(NewEntry(tenant, PREVIEW, correlation_id, payload))

        self._ledger().transact(work)

    def read_situation(self, goal: AgentGoalRequest) -> Situation | None:
        """Return the state of a stored goal with several steps. None for any other goal."""
        return self.core.read_situation(goal)

    def rollback(
        self,
        original: str,
        *,
        user: str,
        tenant: str,
        language: str = DEFAULT_LANGUAGE,
        correlation_id: str | None = None,
        hook: TransactionHook = no_op_hook,
    ) -> Reply:
        """Reverse a goal, as a goal of its own: by the simulation that the original named, through the same gates.

        A goal with several steps reverses its own steps instead, in reverse order, after its user has confirmed it.

        Args:
            original: The id of the goal to reverse.
            user: The user who asks for it.
            tenant: The tenant of the user.
            language: The language tag for the confirmation.
            correlation_id: The id of the new goal. A new id is made if omitted.
            hook: Called in the transaction of each decision. For the services.

        Returns:
            A `Reply` with `goal` and `outcome` of the new goal.

        Raises:
            RefusedError: There is no such goal, or it has no rollback.
            EnvironmentFailureError: The store or the disk failed.
        """
        stored = self._goal_with_steps(original, user=user, tenant=tenant)
        if stored is not None:
            with self._slot(tenant, original):
                return Reply(stored, self.core.undo_goal(stored, hook))
        correlation = correlation_id or uuid7(self._clock())
        with self._slot(tenant, correlation):
            with self._ledger().store.reading() as connection:
                catalogue = self.rules(tenant, connection).catalogue
                history = read_history(connection, self._keyring, tenant, original)
                if history.last is None or history.decision_ref is None:
                    raise _unknown_goal_error(original)
                record = load_decision(connection, tenant, history.decision_ref)
                packet = FINDER_PACKET.from_tree(load_document(connection, tenant, record.finder_packet_ref))
            if not isinstance(packet, SimulationMatchPacket):
                raise _unknown_goal_error(original)
            made = rollback_packet(history.last, packet.fields, catalogue, correlation)
            request = Utterance(correlation, tenant, user, correlation, language, f"take back {original}", None)
            goal = _goal(request, made, "take back", made.idempotency_key)
            return Reply(goal, self.core.run_goal(goal, hook=hook))

    def _goal_with_steps(self, correlation_id: str, *, user: str, tenant: str) -> AgentGoalRequest | None:
        """Return a stored goal if it has several steps. Such a goal rolls its own steps back."""
        with self._ledger().store.reading_pooled() as connection:
            if not any(each.row.step_id == WHOLE for each in step_events(connection, tenant, correlation_id)):
                return None
        return self.stored_goal(correlation_id, user=user, tenant=tenant)

    take_back = rollback  # the name that programs of earlier versions call

    def approve(
        self,
        correlation_id: str,
        *,
        tenant: str,
        who: Person,
        approved: bool,
        reason: str = "",
        as_user: str | None = None,
        step: str | None = None,
    ) -> None:
        """Record another person's decision about a goal that waits for an approval. Only the first decision is valid.

        Args:
            correlation_id: The id of the goal.
            tenant: The tenant of the goal.
            who: The authenticated person who decides.
            approved: True to approve, False to deny.
            reason: The person's reason, for the ledger. It is masked.
            as_user: The user of this tenant that the person is, if known. A user cannot approve their own goals.
            step: The step that the person decides about, if the goal has several steps.

        Raises:
            RefusedError: The goal does not wait for an approval, the request has expired, the person is the user of
                the goal, or their session has ended.
        """
        names_of_person = {who.id, who.id.partition(":")[2], who.name, as_user}

        def work(batch: Batch) -> None:
            who.require_still_valid(batch.time_in(tenant))
            asked = waiting_decision(batch.store, tenant, correlation_id)
            answers = entries_of_kind(batch.store, tenant, correlation_id, APPROVAL)
            if any(answer.get("decision") == asked for _, answer in answers):
                # The decision may be in this transaction, which is not signed yet.
                raise _not_waiting_error(correlation_id, "a person has decided already")
            history = read_history(batch.store, self._keyring, tenant, correlation_id)
            if history.last is None or history.event != "APPROVAL_REQUESTED":
                raise _not_waiting_error(correlation_id, f"its state is {history.event or 'unknown'}")
            if step is not None and history.last.row.step_id != step:
                raise _not_waiting_error(correlation_id, f"another step of it waits now, {history.last.row.step_id}")
            window = history.approval_window(render_time(batch.time_in(tenant)))
            if window is not None and window.is_over:
                raise RefusedError(
                    Reason.APPROVAL_TIMEOUT,
                    f"{NOT_IN_TIME}; it was requested at {window.asked_at[:19]}Z",
                    where=f"correlation {correlation_id}",
                    next_step="The user asks again. Then approve the new goal within ten minutes.",
                )
            record = load_decision(batch.store, tenant, history.decision_ref or "")
            if record.user_id in names_of_person:
                raise self_approval_error(correlation_id)
            payload: Any = mask_json({"approved": approved, "decision": history.decision_ref, "reason": reason[:1_000]})
            batch.append(NewEntry(tenant, APPROVAL, correlation_id, payload, actor=who.signature))

        self._ledger().transact(work)

    def replay(self, correlation_id: str, *, tenant: str) -> list[ReplayedDecision]:
        """Make every decision about a goal again, from its stored documents and with empty caches.

        Args:
            correlation_id: The id of the goal.
            tenant: The tenant of the goal.

        Returns:
            The decisions. `agrees` of each says whether its result is the recorded one, and `why` names the difference.

        Raises:
            RefusedError: There is no such goal.
        """
        with self._ledger().store.reading() as connection:
            found = list(replay_goal(connection, self._keyring, PastRules(), tenant, correlation_id))
        if not found:
            raise _unknown_goal_error(correlation_id)
        return found

    def intake(self, tenant: str) -> list[IntakeItem]:
        """Return the requests that no simulation covers yet, the most frequent first."""
        with self._ledger().store.reading() as connection:
            return read_intake(connection, tenant)

    def stored_goal(
        self, correlation_id: str, *, user: str, tenant: str, answer: str | None = None, step: str | None = None
    ) -> AgentGoalRequest:
        """Load a goal from the ledger, to continue it. Its text is masked, its packet is exact."""
        with self._ledger().store.reading_pooled() as connection:
            ref = read_history(connection, self._keyring, tenant, correlation_id).decision_ref
            if ref is None:
                raise _unknown_goal_error(correlation_id)
            documents = DocumentStore(connection, tenant)
            record = decision_of(documents, ref)
            documents.fetch((record.goal_ref, record.finder_packet_ref))
            tree = documents.tree(record.goal_ref)
            packet = documents.tree(tree["finder_packet_ref"])  # the decision about a rollback has a packet of its own
        request = Utterance(
            correlation_id, tenant, user, tree["thread_id"], tree["language_tag"], tree["utterance"], None
        )
        key, attempt = tree["idempotency_key"], stored_attempts(tree, packet)
        return _goal(request, packet, tree["normalized_intent"], key, answer=answer, attempt=attempt, step=step)

    def recover(self, *, presumed_dead: Collection[str] = (), abandoned: Collection[str] = ()) -> list[Recovered[Any]]:
        found = self.executor.recover(presumed_dead=presumed_dead, abandoned=abandoned)
        return [*found, *self._started.continue_interrupted()]

    def continue_overdue(self) -> list[Recovered[Any]]:
        """Continue the goals with several steps that no process works on, for example as no person answered in time.

        A server calls this now and then. It touches no goal whose last event is recent.
        """
        return self._started.continue_overdue()

    def _find_packet(
        self, request: Utterance, catalogue: Catalogue, learned: Learned
    ) -> tuple[Packet, tuple[StoredDocument, ...]]:
        """Find the packet, and the documents to store with it. Only the embedded Finder returns a proof, and learns."""
        if isinstance(self.finder, EmbeddedFinder):
            finder = self.finder
            if learned.points and not finder.bonus:  # points that the program has set are kept
                finder = replace(finder, bonus=learned.points, learned_until=learned.until)
            packet, proof = finder.find_with_proof(request, catalogue)
            return packet, (StoredDocument("finder_proof", proof),)
        with released():
            found = self.finder.find(request, catalogue)
        return FINDER_PACKET.from_tree(found.tree(), source="the Finder's packet"), ()

    def _thread(
        self, connection: Connection, tenant: str, reply_to: str | None, correlation: str
    ) -> tuple[str, ThreadState | None]:
        if reply_to is None:
            return correlation, None
        history = read_history(connection, self._keyring, tenant, reply_to)
        if history.decision_ref is None or history.event != "CLARIFIED":
            raise _unknown_goal_error(reply_to, "that asked a question")
        # The key is the digest of the decision, because the question of a goal never changes.
        key = (tenant, history.decision_ref)
        return self._threads.get(key, lambda: self._read_thread(connection, *key, reply_to))

    def _read_thread(
        self, connection: Connection, tenant: str, decision_ref: str, reply_to: str
    ) -> tuple[str, ThreadState | None]:
        record = load_decision(connection, tenant, decision_ref)
        packet = FINDER_PACKET.from_tree(load_document(connection, tenant, record.finder_packet_ref))
        if not isinstance(packet, ClarifyPacket):
            raise _unknown_goal_error(reply_to, "that asked a question")
        proof = load_document(connection, tenant, packet.proof_ref)
        goal = load_document(connection, tenant, record.goal_ref)
        return str(goal["thread_id"]), after_clarify(packet, proof)

    @contextmanager
    def _slot(self, tenant: str, correlation_id: str) -> Iterator[None]:
        self._recover_once(tenant, correlation_id)
        with self._limiter.acquired():
            yield

    def _recover_once(self, tenant: str, correlation_id: str) -> None:
        """Recover interrupted dispatches once per process, except that of the goal that the caller continues."""
        with self._recovering:
            if self._recovered:
                return
            with self._ledger().store.reading() as connection:
                dispatched = read_history(connection, self._keyring, tenant, correlation_id).newest("DISPATCHED")
            for report in self.executor.recover(
                excluded=(dispatched.row.idempotency_key,) if dispatched is not None else ()
            ):
                if report.problem is not None:
                    _LOG.warning("a dispatch could not be settled", extra={"why": str(report.problem)})
            self._recovered = True


def _goal(
    request: Utterance,
    packet: Any,
    intent: str,
    key: str,
    *,
    answer: str | None = None,
    attempt: int = 0,
    step: str | None = None,
) -> AgentGoalRequest:
    """Build the request to the core. `packet` may be a tree."""
    confirm_state: dict[str, Any] = {"status": "NONE"}
    if answer is not None:
        confirm_state = {"status": "ANSWERED", "answer": answer, "step_id": step}
    tree = {
        "correlation_id": request.correlation_id,
        "tenant_id": request.tenant_id,
        "user_id": request.user_id,
        "thread_id": request.thread_id,
        "raw_user_utterance": request.utterance,
        "language_tag": request.language_tag,
        "normalized_intent": intent,
        "sim_finder_packet": packet,
        "confirm_state": confirm_state,
        "idempotency_key": key,
        "attempt_counter": attempt,
    }
    return AgentGoalRequest.from_tree(tree, source="goal")


def self_approval_error(correlation_id: str) -> RefusedError:
    return RefusedError(
        Reason.PERMISSION_DENIED,
        "the user of a goal cannot approve it",
        where=f"correlation {correlation_id}",
        next_step="Another person must decide.",
    )


def _not_waiting_error(correlation_id: str, state: str) -> RefusedError:
    return RefusedError(
        Reason.TRANSITION_INVALID,
        f"this goal does not wait for an approval: {state}",
        where=f"correlation {correlation_id}",
        next_step="`remit ledger trace` shows the state of that goal.",
    )


def _unknown_goal_error(correlation_id: str, which: str = "") -> RefusedError:
    return RefusedError(
        Reason.STATE_MISSING,
        f"there is no goal with this id {which}".rstrip(),
        where=f"correlation {correlation_id}",
        next_step="To list entries: remit ledger show. Name the tenant of the goal with --tenant.",
    )
