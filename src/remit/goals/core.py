"""The agent execution core: one goal, one packet; for each step one decision, and at most one dispatch.

A cycle of a step reads its history from the ledger, lets the gates decide, records the decision, and passes a dispatch
to the SimulationExecutor if there is one. A goal with several steps runs one cycle after the other, in the order that
`composite.progress` reads from the ledger. The core keeps nothing in memory between cycles. A caller who asks again, in
any process, continues at the state that the ledger has. The core only orchestrates: it can change nothing but its own
records.
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
from remit.core.ids import DEFAULT_TENANT, Clock, is_within, parse_time, render_time
from remit.crypto.signing import Keyring
from remit.goals.composite.driver import Situation, StepsDriver
from remit.goals.composite.layout import FIRST_STEP, WHOLE
from remit.goals.composite.step_case import StepCase, unused_answer_error
from remit.goals.confirmation.parser import load_lexicon
from remit.goals.decisions import DecisionRecord, GoalDecision, build_decision, build_goal_documents
from remit.goals.gates import ANSWER_LIFE, NO_WORDS, ConfirmationReply, Evidence, decide
from remit.goals.history import History, load_decision, read_history, require_same_goal
from remit.goals.messages.catalogue import user_text
from remit.goals.outcomes import PromptSource, build_current_outcome, build_outcome
from remit.goals.packet_masking import mask_packet
from remit.goals.planner import planned_digest
from remit.goals.recording import TransactionHook, no_op_hook, record_decision
from remit.goals.replay import load_reply
from remit.goals.rules import LiveRules, PastRules
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
ALLOWED_OR_LATER: Final = frozenset({"ACCESS_ALLOWED", "DISPATCHED", "RETRIED", "SUCCEEDED", "FAILED", "ROLLED_BACK"})
ENDED: Final = frozenset({"SUCCEEDED", "FAILED", "ROLLED_BACK"})
"""Events after which the dispatch has an outcome."""


class Executor(Protocol):
    def dispatch(self, envelope: DispatchEnvelope, attempt: int = 1) -> SimulationOutcome: ...


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
            return _with_original_question(self._advance(stored, finder_proof, hook), goal, stored)
        except RefusedError as problem:
            return self._refused(goal, problem)

    def resume_goal(self, goal: AgentGoalRequest, hook: TransactionHook = no_op_hook) -> AgentExecutionOutcome:
        """Run one cycle of a goal that was loaded from the ledger, and so is masked already."""
        try:
            return self._advance(goal, (), hook)
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

    def _advance(
        self, goal: AgentGoalRequest, finder_proof: tuple[StoredDocument, ...], hook: TransactionHook
    ) -> AgentExecutionOutcome:
        packet = goal.sim_finder_packet
        if isinstance(packet, SimulationMatchPacket) and packet.steps:
            return StepsDriver(self, goal, packet, finder_proof, hook).advance()
        if goal.confirm_state.step_id not in {None, FIRST_STEP}:
            raise unused_answer_error(goal)
        return self.run_cycle(StepCase(goal, build_goal_documents(goal)), finder_proof, hook)

    def run_cycle(
        self, case: StepCase, finder_proof: tuple[StoredDocument, ...], hook: TransactionHook
    ) -> AgentExecutionOutcome:
        """Decide about one step, and dispatch it if the gates allow it. Returns its outcome, or what it waits for."""
        goal = case.goal
        for _ in range(MAX_ROUNDS):
            with self.ledger().store.reading_pooled() as connection:
                whole = self._history(connection, goal)
                require_same_goal(connection, goal, case.documents, whole)
                history = whole.of(case.step_id)
                last = self._last_decision(connection, goal, history)
                at = render_time(not_before_newest(connection, goal.tenant_id, self.clock()))
                advances = last is None or _can_advance(case, history, at) or self._withdraws_consent(case, history)
                found = self._gather(connection, case, history, last, at) if advances else None
            if found is not None:
                try:
                    made, row = self._decide(case, history, found, finder_proof, hook)
                except RefusedError as problem:
                    if problem.reason is Reason.TRANSITION_INVALID:  # another caller was faster
                        continue
                    raise
                if made.verdict.dispatches:
                    return self._dispatch(case, made.ref)
                evidence = found.evidence
                prompt_source = PromptSource(lambda: evidence.catalogue, lambda: evidence.lexicon, evidence.outputs)  # noqa: B023 - called right here
                return build_outcome(goal, row, made.record, made.ref, prompt_source)
            if history.event in ALLOWED_OR_LATER:
                return self._dispatch(case, history.allowed_by, max(1, history.attempts))
            return self._current_outcome(case)
        raise changing_error(goal.correlation_id)

    def _history(self, connection: Connection, goal: AgentGoalRequest) -> History:
        return read_history(connection, self.keyring, goal.tenant_id, goal.correlation_id)

    def _last_decision(self, connection: Connection, goal: AgentGoalRequest, history: History) -> DecisionRecord | None:
        ref = history.decision_ref
        return load_decision(connection, goal.tenant_id, ref) if ref is not None else None

    def _withdraws_consent(self, case: StepCase, history: History) -> bool:
        """Tell whether the user refuses a step that was allowed and has not started yet."""
        answer = case.answer
        if answer is None or history.event != "ACCESS_ALLOWED" or history.newest(CONFIRMATION_REQUESTED) is None:
            return False
        return load_lexicon().parse(case.goal.language_tag, mask_text(answer)).verdict == "REFUSED"

    def _gather(
        self, connection: Connection, case: StepCase, history: History, last: DecisionRecord | None, at: str
    ) -> "_Case":
        """Collect the evidence for a decision, at one moment."""
        goal = case.goal
        rules = self.live(goal.tenant_id, connection)
        self.past.remember(rules)
        planned, answered = case.planned, None
        documents = DocumentStore(connection, goal.tenant_id)
        if case.covered_by is not None:
            answered = load_reply(documents, case.covered_by)
        if last is not None:
            documents.fetch((last.confirmation_parse_proof_ref, last.artifact_fingerprint_bundle_ref))
            answered = load_reply(documents, last.confirmation_parse_proof_ref)
            if last.artifact_fingerprint_bundle_ref is not None:
                planned = planned_digest(documents.tree(last.artifact_fingerprint_bundle_ref))
        question_step = history.newest(CONFIRMATION_REQUESTED)
        is_open = history.event in {CONFIRMATION_REQUESTED, "ACCESS_ALLOWED"}
        if is_open and question_step is not None and (case.answer is not None or _is_over(case, history, at)):
            # Masked first, because the decision must be made from the stored answer.
            answer = mask_text(case.answer) if case.answer is not None else NO_WORDS
            number = count_answers(connection, goal.tenant_id, goal.correlation_id, case.step_id) + 1
            answered = ConfirmationReply(answer, question_step.created_at, at, number)
        evidence = Evidence(
            goal.tenant_id,
            goal.user_id,
            goal.correlation_id,
            goal.language_tag,
            case.packet,
            case.catalogue if case.catalogue is not None else rules.catalogue,
            rules.policy,
            rules.lexicon,
            planned,
            answered,
            history.approval,
            history.approval_window(at),
            step_id=case.step_id,
            outputs=case.outputs,
            covered_by=case.covered_by,
        )
        return _Case(evidence, rules.documents, at)

    def _decide(
        self,
        case: StepCase,
        history: History,
        found: "_Case",
        finder_proof: tuple[StoredDocument, ...],
        hook: TransactionHook,
    ) -> tuple[GoalDecision, StepRow]:
        """Decide and record. The decision is made outside of the transaction, which blocks all other writers."""
        goal = case.goal
        supporting_documents = (*found.snapshots, *finder_proof)
        made = build_decision(
            goal, case.documents, found.evidence, decide(found.evidence), supporting_documents, found.at
        )

        def work(batch: Batch) -> StepRow:
            hook(batch, is_first=history.last is None and not case.sequence)
            return record_decision(batch, goal.tenant_id, made, history.last, case.sequence)

        return made, self.ledger().transact(work)

    def _dispatch(self, case: StepCase, ref: str, attempt: int = 1) -> AgentExecutionOutcome:
        """Dispatch the stored envelope of a decision, unchanged. The result is passed on unchanged too."""
        goal = case.goal
        with self.ledger().store.reading_pooled() as connection:
            record = load_decision(connection, goal.tenant_id, ref)
            tree = load_document(connection, goal.tenant_id, record.envelope_ref or "")
        outcome = self.executor.dispatch(DispatchEnvelope.from_tree(tree, source="a stored dispatch"), attempt)
        return self._current_outcome(case, outcome)

    def run_attempt(self, case: StepCase, attempt: int) -> AgentExecutionOutcome:
        """Dispatch a step once more, after an attempt that surely had no effect. The envelope and its key stay."""
        with self.ledger().store.reading_pooled() as connection:
            history = self._history(connection, case.goal).of(case.step_id)
        if history.event in ALLOWED_OR_LATER:
            return self._dispatch(case, history.allowed_by, attempt)
        return self._current_outcome(case)

    def _refused(self, goal: AgentGoalRequest, problem: RefusedError) -> AgentExecutionOutcome:
        """Record a refusal that belongs to no step: unreadable rules, or a correlation id of another goal.

        The refusal claims nothing. Otherwise one caller could use up the correlation id of another.
        """
        code = goal_code(problem.reason)
        code = "SIMULATION_REFUSED" if code == "SIMULATION_FAILED" else code  # nothing was tried
        payload: Any = mask_json({"reason_code": code, "user_id": goal.user_id, **problem.as_json()})
        tenant_id = goal.tenant_id if self.is_tenant(goal.tenant_id) else DEFAULT_TENANT
        entry = self.ledger().append(NewEntry(tenant_id, "agent.refused", goal.correlation_id, payload))
        text, language = user_text(code, goal.language_tag)
        return AgentExecutionOutcome(
            step_id=None,
            simulation_outcome=None,
            audit_event_id=entry.entry_id,
            proof_refs=(),
            dispatch_decision_hash=digest(payload),
            next_step=None,
            reason_code=code,
            user_visible_text=text,
            text_language=language,
            attempt_counter=goal.attempt_counter,
        )

    def _current_outcome(self, case: StepCase, simulated: SimulationOutcome | None = None) -> AgentExecutionOutcome:
        goal = case.goal
        with self.ledger().store.reading_pooled() as connection:
            history = self._history(connection, goal).of(case.step_id)
            outcome = build_current_outcome(connection, self.past, goal, history, simulated)
        if simulated is None and history.event in ALLOWED_OR_LATER:  # another caller advanced it after the decision
            return self._dispatch(case, history.allowed_by, max(1, history.attempts))
        return outcome

    def undo_goal(self, goal: AgentGoalRequest, hook: TransactionHook = no_op_hook) -> AgentExecutionOutcome:
        """Begin or continue the rollback of a stored goal with several steps. Its user must confirm it first."""
        packet = goal.sim_finder_packet
        if not isinstance(packet, SimulationMatchPacket):
            raise TypeError("only a goal with steps is rolled back here")
        try:
            return StepsDriver(self, goal, packet, (), hook).undo()
        except RefusedError as problem:
            return self._refused(goal, problem)

    def read_situation(self, goal: AgentGoalRequest) -> Situation | None:
        """Return the state of a goal with several steps, from the ledger. None for any other goal, and before it began.

        It decides nothing and runs nothing.
        """
        packet = goal.sim_finder_packet
        if not isinstance(packet, SimulationMatchPacket) or not packet.steps:
            return None
        found = StepsDriver(self, goal, packet, (), no_op_hook).read()
        return found if found is not None and found.history.last is not None else None

    def read_outcome(self, goal: AgentGoalRequest) -> AgentExecutionOutcome:
        """Return the outcome of a stored goal as it stands, without any decision or dispatch."""
        packet = goal.sim_finder_packet
        if isinstance(packet, SimulationMatchPacket) and packet.steps:
            found = StepsDriver(self, goal, packet, (), no_op_hook).read_outcome()
            if found is not None:
                return found
            return self.read_step(StepCase(goal, build_goal_documents(goal), WHOLE))
        return self.read_step(StepCase(goal, build_goal_documents(goal)))

    def read_step(self, case: StepCase) -> AgentExecutionOutcome:
        """Return the outcome of a step as it stands. The stored outcome of a dispatch that has ended is included."""
        goal = case.goal
        with self.ledger().store.reading_pooled() as connection:
            history = self._history(connection, goal).of(case.step_id)
            if history.event not in ENDED:
                return build_current_outcome(connection, self.past, goal, history)
        if history.event in ALLOWED_OR_LATER:
            return self._dispatch(case, history.allowed_by, max(1, history.attempts))
        raise TypeError("a step that has ended was allowed before")


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


def _can_advance(case: StepCase, history: History, at: str) -> bool:
    """Tell whether this cycle has the answer or the approval that the step needs, or finds that its time is over."""
    if history.event == CONFIRMATION_REQUESTED:
        return case.answer is not None or _is_over(case, history, at)
    if history.event == "APPROVAL_REQUESTED":
        window = history.approval_window(at)
        return history.approval is not None or (window is not None and window.is_over)
    return False


def _is_over(case: StepCase, history: History, at: str) -> bool:
    """Tell whether the question of a step was not answered in time. A goal with a single step waits without an end."""
    asked = history.newest(CONFIRMATION_REQUESTED)
    if case.sequence is None or asked is None or history.event != CONFIRMATION_REQUESTED:
        return False
    return not is_within(parse_time(asked.created_at), parse_time(at), ANSWER_LIFE)


def changing_error(correlation_id: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.IN_PROGRESS,
        "other callers keep changing this goal",
        where=f"correlation {correlation_id}",
        next_step="Ask again in a moment.",
    )
