"""The agent execution core: one goal, one packet, one decision, at most one dispatch. It only orchestrates.

A cycle reads the history of the goal from the ledger, lets the gates decide, records the decision, and passes a
dispatch to the SimulationExecutor if there is one. It keeps nothing in memory between cycles. A caller who asks again,
in any process, continues at the state that the ledger has. The core can change nothing but its own records.
"""

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from remit.contracts.base import MAX_SHORT_TEXT, MAX_TEXT
from remit.contracts.goals.dispatch import DispatchEnvelope, SimulationOutcome
from remit.contracts.goals.error_codes import goal_code
from remit.contracts.goals.goal import AgentExecutionOutcome, AgentGoalRequest
from remit.contracts.goals.packets import SimulationMatchPacket
from remit.core.canonical import digest
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT, Clock, render_time
from remit.crypto.signing import Keyring
from remit.goals.confirmation.parser import load_lexicon
from remit.goals.decisions import DecisionRecord, GoalDecision, GoalDocuments, build_decision, build_goal_documents
from remit.goals.gates import ConfirmationReply, Evidence, decide
from remit.goals.history import History, load_decision, read_history
from remit.goals.outcomes import PromptSource, build_current_outcome, build_outcome
from remit.goals.packet_masking import mask_packet
from remit.goals.recording import record_decision
from remit.goals.replay import load_reply
from remit.goals.rules import LiveRules, PastRules
from remit.goals.user_messages import user_text
from remit.ledger.documents import DocumentStore, StoredDocument, load_document
from remit.ledger.entry import NewEntry
from remit.ledger.goal_queries import count_answers
from remit.ledger.goal_tables import StepRow
from remit.ledger.search import not_before_newest
from remit.ledger.writer import Batch, Ledger
from remit.masking import mask_json, mask_text
from remit.store.connection import Connection

MAX_ROUNDS: Final = 8
"""How often a cycle starts again because another caller advanced the goal. A goal has fewer events than this."""
CONFIRMATION_REQUESTED: Final = "CONFIRMATION_REQUESTED"
ALLOWED_OR_LATER: Final = frozenset({"ACCESS_ALLOWED", "DISPATCHED", "SUCCEEDED", "FAILED", "ROLLED_BACK"})


class TransactionHook(Protocol):
    """A function that runs in the transaction of a decision, before any write. If it raises, nothing is written."""

    def __call__(self, batch: Batch, *, is_first: bool) -> None: ...


def no_op_hook(batch: Batch, *, is_first: bool) -> None:
    """Do nothing. The hook of callers that have nothing to add to a decision."""


class Executor(Protocol):
    def dispatch(self, envelope: DispatchEnvelope) -> SimulationOutcome: ...


@dataclass(frozen=True)
class AgentCore:
    ledger: Callable[[], Ledger]
    keyring: Callable[[], Keyring]
    live: LiveRules
    past: PastRules
    executor: Executor
    clock: Clock
    is_tenant: Callable[[str], bool]
    """Whether the tenant exists. A caller cannot create a ledger chain with an invented tenant."""

    def run(self, raw: bytes) -> AgentExecutionOutcome:
        """Run one cycle of a goal, from untrusted bytes. A repeated goal continues, or returns its stored outcome."""
        return self.run_goal(AgentGoalRequest.parse(raw, source="goal"))

    def run_goal(
        self, goal: AgentGoalRequest, finder_proof: tuple[StoredDocument, ...] = (), hook: TransactionHook = no_op_hook
    ) -> AgentExecutionOutcome:
        """Run one cycle of a parsed goal. `finder_proof` proves the packet, and is stored with the decision."""
        try:
            stored = _mask_for_storage(goal, lambda: self._declared(goal))
            return _with_original_question(self._cycle(stored, finder_proof, hook), goal, stored)
        except RefusedError as problem:
            return self._refused(goal, problem)

    def resume_goal(self, goal: AgentGoalRequest, hook: TransactionHook = no_op_hook) -> AgentExecutionOutcome:
        """Run one cycle of a goal that was loaded from the ledger, and so is masked already."""
        try:
            return self._cycle(goal, (), hook)
        except RefusedError as problem:
            return self._refused(goal, problem)

    def _declared(self, goal: AgentGoalRequest) -> Collection[str]:
        """Return the fields of the packet's simulation from the packet's catalogue. Empty if that is unknown."""
        packet = goal.sim_finder_packet
        if not isinstance(packet, SimulationMatchPacket):
            return ()
        with self.ledger().store.reading_pooled() as connection:
            try:
                catalogue = self.past.catalogue(DocumentStore(connection, goal.tenant_id), packet.catalog_snapshot_ref)
            except RefusedError:  # no decision has stored this catalogue yet
                catalogue = self.live(goal.tenant_id, connection).catalogue
        entry = catalogue.find(packet.candidates[0].simulation_id)
        return entry.simulation.fields if entry is not None and catalogue.ref == packet.catalog_snapshot_ref else ()

    def _cycle(
        self, goal: AgentGoalRequest, finder_proof: tuple[StoredDocument, ...], hook: TransactionHook
    ) -> AgentExecutionOutcome:
        documents = build_goal_documents(goal)
        for _ in range(MAX_ROUNDS):
            with self.ledger().store.reading_pooled() as connection:
                history = self._history(connection, goal)
                last = self._last_decision(connection, goal, documents, history)
                at = render_time(not_before_newest(connection, goal.tenant_id, self.clock()))
                advances = last is None or _can_advance(goal, history, at) or self._withdraws_consent(goal, history)
                case = self._gather(connection, goal, history, last, at) if advances else None
            if case is not None:
                try:
                    made, row = self._decide(goal, documents, history, case, finder_proof, hook)
                except RefusedError as problem:
                    if problem.reason is Reason.TRANSITION_INVALID:  # another caller was faster
                        continue
                    raise
                if made.verdict.dispatches:
                    return self._dispatch(goal, made.ref)
                evidence = case.evidence
                prompt_source = PromptSource(lambda: evidence.catalogue, lambda: evidence.lexicon)  # noqa: B023 - called right here
                return build_outcome(goal, row, made.record, made.ref, prompt_source)
            if history.event in ALLOWED_OR_LATER:
                return self._dispatch(goal, history.allowed_by)
            return self._current_outcome(goal)
        raise EnvironmentFailureError(
            Reason.IN_PROGRESS,
            "other callers keep changing this goal",
            where=f"correlation {goal.correlation_id}",
            next_step="Ask again in a moment.",
        )

    def _history(self, connection: Connection, goal: AgentGoalRequest) -> History:
        return read_history(connection, self.keyring, goal.tenant_id, goal.correlation_id)

    def _last_decision(
        self, connection: Connection, goal: AgentGoalRequest, documents: GoalDocuments, history: History
    ) -> DecisionRecord | None:
        """Return the last decision about the goal. Refuses a correlation id that has another user, text or packet."""
        if history.last is None:
            return None
        record = load_decision(connection, goal.tenant_id, history.decision_ref or "")
        if record.goal_ref != documents.goal.ref:
            raise RefusedError(
                Reason.GOAL_CONFLICT,
                "this correlation id belongs to another goal",
                where=f"correlation {goal.correlation_id}",
                next_step="Use a new correlation id for another goal. For the same goal, send the same request again.",
            )
        return record

    def _withdraws_consent(self, goal: AgentGoalRequest, history: History) -> bool:
        """Tell whether the user refuses a goal that was allowed and has not started yet."""
        answer = goal.confirm_state.answer
        if answer is None or history.event != "ACCESS_ALLOWED" or history.newest(CONFIRMATION_REQUESTED) is None:
            return False
        return load_lexicon().parse(goal.language_tag, mask_text(answer)).verdict == "REFUSED"

    def _gather(
        self, connection: Connection, goal: AgentGoalRequest, history: History, last: DecisionRecord | None, at: str
    ) -> "_Case":
        """Collect the evidence for a decision, at one moment."""
        rules = self.live(goal.tenant_id, connection)
        self.past.remember(rules)
        planned, answered = None, None
        if last is not None:
            documents = DocumentStore(connection, goal.tenant_id)
            documents.fetch((last.confirmation_parse_proof_ref, last.artifact_fingerprint_bundle_ref))
            answered = load_reply(documents, last.confirmation_parse_proof_ref)
            if last.artifact_fingerprint_bundle_ref is not None:
                planned = str(documents.tree(last.artifact_fingerprint_bundle_ref)["simulation_digest"])
        question_step = history.newest(CONFIRMATION_REQUESTED)
        is_open = history.event in {CONFIRMATION_REQUESTED, "ACCESS_ALLOWED"}
        if is_open and question_step is not None and goal.confirm_state.answer is not None:
            # Masked first, because the decision must be made from the stored answer.
            answer = mask_text(goal.confirm_state.answer)
            number = count_answers(connection, goal.tenant_id, goal.correlation_id) + 1
            answered = ConfirmationReply(answer, question_step.created_at, at, number)
        evidence = Evidence(
            goal.tenant_id,
            goal.user_id,
            goal.correlation_id,
            goal.language_tag,
            goal.sim_finder_packet,
            rules.catalogue,
            rules.policy,
            rules.lexicon,
            planned,
            answered,
            history.approval,
            history.approval_window(at),
        )
        return _Case(evidence, rules.documents, at)

    def _decide(
        self,
        goal: AgentGoalRequest,
        documents: GoalDocuments,
        history: History,
        case: "_Case",
        finder_proof: tuple[StoredDocument, ...],
        hook: TransactionHook,
    ) -> tuple[GoalDecision, StepRow]:
        """Decide and record. The decision is made outside of the transaction, which blocks all other writers."""
        supporting_documents = (*case.snapshots, *finder_proof)
        made = build_decision(goal, documents, case.evidence, decide(case.evidence), supporting_documents, case.at)

        def work(batch: Batch) -> StepRow:
            hook(batch, is_first=history.last is None)
            return record_decision(batch, goal.tenant_id, made, history.last)

        return made, self.ledger().transact(work)

    def _dispatch(self, goal: AgentGoalRequest, ref: str) -> AgentExecutionOutcome:
        """Dispatch the stored envelope of a decision, unchanged. The result is passed on unchanged too."""
        with self.ledger().store.reading_pooled() as connection:
            record = load_decision(connection, goal.tenant_id, ref)
            tree = load_document(connection, goal.tenant_id, record.envelope_ref or "")
        outcome = self.executor.dispatch(DispatchEnvelope.from_tree(tree, source="a stored dispatch"))
        return self._current_outcome(goal, outcome)

    def _refused(self, goal: AgentGoalRequest, problem: RefusedError) -> AgentExecutionOutcome:
        """Record a refusal that belongs to no step: unreadable rules, or a correlation id of another goal.

        The refusal claims nothing. Otherwise one caller could use up the correlation id of another.
        """
        code = goal_code(problem.reason)
        code = "SIMULATION_REFUSED" if code == "SIMULATION_FAILED" else code  # nothing was tried
        payload: Any = mask_json({"reason_code": code, "user_id": goal.user_id, **problem.as_json()})
        tenant_id = goal.tenant_id if self.is_tenant(goal.tenant_id) else DEFAULT_TENANT
        entry = self.ledger().append(NewEntry(tenant_id, "agent.refused", goal.correlation_id, payload))
        return AgentExecutionOutcome(
            step_id=None,
            simulation_outcome=None,
            audit_event_id=entry.entry_id,
            proof_refs=(),
            dispatch_decision_hash=digest(payload),
            next_step=None,
            reason_code=code,
            user_visible_text=user_text(code),
            attempt_counter=goal.attempt_counter,
        )

    def _current_outcome(
        self, goal: AgentGoalRequest, simulated: SimulationOutcome | None = None
    ) -> AgentExecutionOutcome:
        with self.ledger().store.reading_pooled() as connection:
            history = self._history(connection, goal)
            outcome = build_current_outcome(connection, self.past, goal, history, simulated)
        if simulated is None and history.event in ALLOWED_OR_LATER:  # another caller advanced it after the decision
            return self._dispatch(goal, history.allowed_by)
        return outcome


class _Case(NamedTuple):
    """The evidence of a decision, the documents of its rules, and the time."""

    evidence: Evidence
    snapshots: tuple[StoredDocument, ...]
    at: str


def _mask_for_storage(goal: AgentGoalRequest, declared: Callable[[], Collection[str]]) -> AgentGoalRequest:
    """Return the goal with its packet masked, as a replay will read it: a decision is made from the stored form.

    For example, 1.0 is stored as 1.
    """
    if len(mask_text(goal.raw_user_utterance)) > MAX_TEXT or len(mask_text(goal.normalized_intent)) > MAX_SHORT_TEXT:
        raise RefusedError(
            Reason.MALFORMED,
            "the text of this goal is too long to be stored once its secrets are masked",
            where=f"correlation {goal.correlation_id}",
            next_step="Say it in fewer words.",
        )
    tree = json.loads(goal.canonical())
    tree["sim_finder_packet"] = mask_packet(tree["sim_finder_packet"], declared)
    return AgentGoalRequest.from_tree(tree, source="goal")


def _with_original_question(
    outcome: AgentExecutionOutcome, goal: AgentGoalRequest, stored: AgentGoalRequest
) -> AgentExecutionOutcome:
    """Show the Finder's question word for word, even if a part of it is masked in the ledger."""
    question, masked = (getattr(one.sim_finder_packet, "question", None) for one in (goal, stored))
    if question is None or question == masked or outcome.user_visible_text != masked:
        return outcome
    return AgentExecutionOutcome.from_tree({**outcome.tree(), "user_visible_text": question}, source="outcome")


def _can_advance(goal: AgentGoalRequest, history: History, at: str) -> bool:
    """Tell whether this cycle has the answer or the approval that the goal needs, or finds that its time is over."""
    if history.event == CONFIRMATION_REQUESTED:
        return goal.confirm_state.answer is not None
    if history.event == "APPROVAL_REQUESTED":
        window = history.approval_window(at)
        return history.approval is not None or (window is not None and window.is_over)
    return False
