"""The agent execution core: one goal, one packet, one decision, at most one dispatch. It only orchestrates.

A cycle reads what the ledger knows of the goal, lets the gates decide on it, writes the decision down, and hands a
dispatch to the SimulationExecutor if there is one. It keeps nothing in memory between cycles: whoever asks again, in
whatever process, goes on where the ledger says the goal stands. It can change nothing but its own record.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from remit.agent.decisions import Decided, decided, goal_document
from remit.agent.gates import Answered, Evidence, decide
from remit.agent.history import History, load_decision, read_history
from remit.agent.outcomes import outcome_of
from remit.agent.recording import record_decision
from remit.agent.replay import answer_of
from remit.agent.sources import LiveRules, PastRules, Rules
from remit.agent.words import user_text
from remit.authority.signing import Keyring
from remit.canonical import digest
from remit.contracts.base import MAX_SHORT_TEXT, MAX_TEXT
from remit.contracts.dispatch import DispatchEnvelope, SimulationOutcome
from remit.contracts.goal import AgentExecutionOutcome, AgentGoalRequest
from remit.contracts.goal_codes import goal_code
from remit.errors import EnvironmentFailed, Reason, Refused
from remit.ids import DEFAULT_TENANT, Clock, render_time
from remit.ledger.append import Ledger
from remit.ledger.documents import Document, load_document
from remit.ledger.entry import Event
from remit.masking import mask_json, mask_text

MOST_ROUNDS: Final = 8
"""How often a cycle begins anew because somebody else moved the same goal meanwhile. Each goal has fewer events."""
ASKED: Final = "CONFIRMATION_REQUESTED"
ON_ITS_WAY: Final = frozenset({"ACCESS_ALLOWED", "DISPATCHED", "SUCCEEDED", "FAILED", "ROLLED_BACK"})


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
    knows: Callable[[str], bool]
    """Whether there is such a tenant: nobody gets a chain of his own by asking under a made-up name."""

    def run(self, raw: bytes) -> AgentExecutionOutcome:
        """One cycle of a goal, from untrusted bytes. The same goal again goes on, or gives what came of it."""
        return self.run_goal(AgentGoalRequest.parse(raw, source="goal"))

    def run_goal(self, goal: AgentGoalRequest, found_by: tuple[Document, ...] = ()) -> AgentExecutionOutcome:
        """`found_by` is what the Finder has to show for the packet: kept with the decision."""
        try:
            return self._cycle(_as_kept(goal), found_by)
        except Refused as problem:
            return self._refused(goal, problem)

    def _cycle(self, goal: AgentGoalRequest, found_by: tuple[Document, ...]) -> AgentExecutionOutcome:
        for _ in range(MOST_ROUNDS):
            history = self._history(goal)
            if history.last is not None:
                self._require_same(goal, history)
            unsaid = self._unsays(goal, history)
            if history.event in ON_ITS_WAY and not unsaid:
                return self._dispatched(goal, history)
            if history.last is not None and not unsaid and not _moves(goal, history):
                return self._told(goal)
            try:
                made = self._decide(goal, history, self.live(goal.tenant_id), found_by)
            except Refused as problem:
                if problem.reason is Reason.TRANSITION_INVALID:  # somebody else was faster
                    continue
                raise
            if not made.verdict.dispatches:
                return self._told(goal)
        raise EnvironmentFailed(
            Reason.IN_PROGRESS,
            "this goal is being worked on by others",
            where=f"correlation {goal.correlation_id}",
            next_step="Ask again in a moment.",
        )

    def _history(self, goal: AgentGoalRequest) -> History:
        with self.ledger().store.glancing() as connection:
            return read_history(connection, self.keyring, goal.tenant_id, goal.correlation_id)

    def _require_same(self, goal: AgentGoalRequest, history: History) -> None:
        """A correlation stands for one goal: of the same user, with the same words and the same packet."""
        packet = Document("packet", goal.sim_finder_packet.tree())
        with self.ledger().store.glancing() as connection:
            record = load_decision(connection, goal.tenant_id, history.decision_ref or "")
        if goal_document(goal, packet.ref).ref != record.goal_ref:
            raise Refused(
                Reason.GOAL_CONFLICT,
                "this correlation id stands for another goal",
                where=f"correlation {goal.correlation_id}",
                next_step="Use a new correlation id for another goal; send the same request again for the same goal.",
            )

    def _unsays(self, goal: AgentGoalRequest, history: History) -> bool:
        """A clear no to what was let through and was not begun yet."""
        answer = goal.confirm_state.answer
        if answer is None or history.event != "ACCESS_ALLOWED" or history.newest(ASKED) is None:
            return False
        return self.live(goal.tenant_id).lexicon.parse(goal.language_tag, mask_text(answer)).verdict == "REFUSED"

    def _decide(
        self, goal: AgentGoalRequest, history: History, rules: Rules, found_by: tuple[Document, ...]
    ) -> Decided:
        """Decided out here: nobody else can write while a transaction lasts."""
        at = render_time(self.clock())
        at = max(at, history.last.created_at) if history.last is not None else at
        evidence = self._evidence(goal, history, rules, at)
        made = decided(goal, evidence, decide(evidence), (*rules.documents, *found_by), at)
        self.ledger().transact(lambda batch: record_decision(batch, goal.tenant_id, made, history.last))
        return made

    def _evidence(self, goal: AgentGoalRequest, history: History, rules: Rules, at: str) -> Evidence:
        planned, answered = None, None
        if history.last is not None and history.decision_ref is not None:
            with self.ledger().store.glancing() as connection:
                record = load_decision(connection, goal.tenant_id, history.decision_ref)
                answered = answer_of(connection, goal.tenant_id, record.confirmation_parse_proof_ref)
                if record.artifact_fingerprint_bundle_ref is not None:
                    bundle = load_document(connection, goal.tenant_id, record.artifact_fingerprint_bundle_ref)
                    planned = str(bundle["simulation_digest"])
        asked = history.newest(ASKED)
        is_open = history.event in {ASKED, "ACCESS_ALLOWED"}
        if is_open and asked is not None and goal.confirm_state.answer is not None:
            # Masked first: what is decided is decided from what is kept.
            answer = mask_text(goal.confirm_state.answer)
            answered = Answered(answer, asked.created_at, at, history.answers + 1)
        return Evidence(
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
        )

    def _dispatched(self, goal: AgentGoalRequest, history: History) -> AgentExecutionOutcome:
        """Hand over what was decided, word for word as it was kept; what comes back is passed on unchanged."""
        allowed = history.newest("ACCESS_ALLOWED")
        ref = allowed.row.dispatch_decision_hash if allowed is not None else None
        with self.ledger().store.glancing() as connection:
            record = load_decision(connection, goal.tenant_id, ref or "")
            tree = load_document(connection, goal.tenant_id, record.envelope_ref or "")
        outcome = self.executor.dispatch(DispatchEnvelope.from_tree(tree, source="a stored dispatch"))
        return self._told(goal, outcome)

    def _refused(self, goal: AgentGoalRequest, problem: Refused) -> AgentExecutionOutcome:
        """What no step can be blamed for: rules that cannot be read, a correlation that is another goal's.

        Recorded, and claims nothing: else anybody could use up somebody else's correlation.
        """
        code = goal_code(problem.reason)
        code = "SIMULATION_REFUSED" if code == "SIMULATION_FAILED" else code  # nothing was tried
        told: Any = mask_json({"reason_code": code, "user_id": goal.user_id, **problem.as_json()})
        tenant_id = goal.tenant_id if self.knows(goal.tenant_id) else DEFAULT_TENANT
        entry = self.ledger().append(Event(tenant_id, "agent.refused", goal.correlation_id, told))
        return AgentExecutionOutcome(
            step_id=None,
            simulation_outcome=None,
            audit_event_id=entry.entry_id,
            proof_refs=(),
            dispatch_decision_hash=digest(told),
            next_step=None,
            reason_code=code,
            user_visible_text=user_text(code),
        )

    def _told(self, goal: AgentGoalRequest, simulated: SimulationOutcome | None = None) -> AgentExecutionOutcome:
        history = self._history(goal)
        if simulated is None and history.event in ON_ITS_WAY:  # somebody else has moved it on since it was decided
            return self._dispatched(goal, history)
        with self.ledger().store.glancing() as connection:
            return outcome_of(connection, self.past, goal, history, simulated)


def _as_kept(goal: AgentGoalRequest) -> AgentGoalRequest:
    """With its packet as a replay will read it: 1.0 is kept as 1, and what is decided is decided from that."""
    if len(mask_text(goal.raw_user_utterance)) > MAX_TEXT or len(mask_text(goal.normalized_intent)) > MAX_SHORT_TEXT:
        raise Refused(
            Reason.MALFORMED,
            "the words of this goal are too long to be kept with what is secret in them masked",
            where=f"correlation {goal.correlation_id}",
            next_step="Say it in fewer words.",
        )
    return AgentGoalRequest.from_tree(json.loads(goal.canonical()), source="goal")


def _moves(goal: AgentGoalRequest, history: History) -> bool:
    """Whether this cycle brings what the goal waits for: an answer, or somebody's approval."""
    if history.event == ASKED:
        return goal.confirm_state.answer is not None
    if history.event == "APPROVAL_REQUESTED":
        return history.approval is not None
    return False
