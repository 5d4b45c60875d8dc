"""The driver of a goal with several steps: it runs one step after the other, as the ledger says.

Before each move it reads the rows of the goal again, so any process can continue where another one stopped. It never
holds a thread while a person must decide: then it returns, and the next caller continues.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from remit.contracts.goals.goal import AgentExecutionOutcome, AgentGoalRequest
from remit.contracts.goals.packets import FINDER_PACKET, SimulationMatchPacket
from remit.contracts.goals.simulation import CompositeBinding
from remit.core.concurrency import released
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import Clock, uuid7
from remit.crypto.signing import Keyring
from remit.goals.catalogue.catalogue import Catalogue, CatalogueEntry
from remit.goals.composite.layout import (
    WHOLE,
    Outputs,
    PlannedStep,
    is_composite,
    is_undo,
    planned_steps,
    rollback_id_of,
    rolled_back_id,
    undo_id_of,
)
from remit.goals.composite.progress import (
    AskUndo,
    End,
    Move,
    RetryStep,
    RollBackStep,
    RunStep,
    StepProgress,
    next_move,
    read_progress,
)
from remit.goals.composite.step_case import StepCase, rollback_documents, unused_answer_error
from remit.goals.decisions import build_goal_documents
from remit.goals.dispatch import AlreadyStartedError
from remit.goals.history import WAITING, History, load_decision, read_history, require_recorded, require_same_goal
from remit.goals.messages.catalogue import UserText
from remit.goals.recording import TransactionHook, record_ending
from remit.goals.rollback import rollback_packet
from remit.goals.rules import LiveRules, PastRules
from remit.goals.user_messages import ending_text, running_text
from remit.ledger.documents import DocumentStore, StoredDocument
from remit.ledger.goal_queries import Recorded
from remit.ledger.writer import Batch, Ledger
from remit.store.connection import Connection

MAX_MOVES: Final = 500
"""Far more than the steps, attempts and rollbacks of the longest goal."""
OPEN: Final = frozenset({"CONFIRMATION_REQUESTED", "ACCESS_ALLOWED"})
"""Events of a step for which an answer of its user is used."""
_LOG: Final = logging.getLogger("remit.goals")


class StepRunner(Protocol):
    """The part of the core that runs one cycle of one step."""

    @property
    def ledger(self) -> Callable[[], Ledger]: ...

    @property
    def keyring(self) -> Callable[[], Keyring]: ...

    @property
    def live(self) -> LiveRules: ...

    @property
    def past(self) -> PastRules: ...

    @property
    def clock(self) -> Clock: ...

    def run_cycle(
        self, case: StepCase, finder_proof: tuple[StoredDocument, ...], hook: TransactionHook
    ) -> AgentExecutionOutcome: ...

    def run_attempt(self, case: StepCase, attempt: int) -> AgentExecutionOutcome: ...

    def read_step(self, case: StepCase) -> AgentExecutionOutcome: ...


@dataclass(frozen=True)
class Situation:
    """The state of a goal at one moment, verified: its composite, the rows of the ledger, and the next move."""

    catalogue: Catalogue
    """The catalogue of the packet, from which the goal was planned."""
    whole: CatalogueEntry
    steps: tuple[PlannedStep, ...]
    history: History
    progress: tuple[StepProgress, ...]
    outputs: Outputs
    move: Move

    @property
    def decisive(self) -> PlannedStep:
        """The step that says how the goal stands: the one that waits, that did not succeed, or that has begun last."""
        last = self.history.last
        if last is not None and last.row.event in WAITING:  # also the rollback of a step, or of the whole goal
            known = next((each for each in self.steps if each.step_id == last.row.step_id), None)
            return known or PlannedStep(last.row.step_id, "", last.row.simulation_id or self.whole.simulation.id)
        if isinstance(self.move, AskUndo):
            return PlannedStep(self.move.step_id, "", self.whole.simulation.id)
        stopped = next((each.step for each in self.progress if each.event in {"FAILED", "REFUSED"}), None)
        begun = [each.step for each in self.progress if each.event]
        return stopped or (begun[-1] if begun else self.steps[0])

    def last(self, step_id: str) -> Recorded | None:
        return self.history.of(step_id).last


class StepsDriver:
    def __init__(
        self,
        core: StepRunner,
        goal: AgentGoalRequest,
        packet: SimulationMatchPacket,
        finder_proof: tuple[StoredDocument, ...],
        hook: TransactionHook,
    ) -> None:
        self._core = core
        self._goal = goal
        self._packet = packet
        self._proof = finder_proof
        self._hook = hook
        self._documents = build_goal_documents(goal)
        self._verified: set[int] = set()

    def advance(self) -> AgentExecutionOutcome:
        """Run the steps until the goal ends or waits for a person."""
        situation = self.read()
        if situation is None:  # the gates refuse such a packet, and record why
            return self._core.run_cycle(StepCase(self._goal, self._documents, WHOLE), self._proof, self._hook)
        answered = self._require_answer_for_open_step(situation)
        for _ in range(MAX_MOVES):
            before = situation.history.last
            outcome = self._move(situation, answered)
            answered = None
            situation = self._read_again()
            if isinstance(situation.move, End) and situation.move.is_recorded:
                return self._outcome(situation)
            if outcome is not None and (self._waits(situation) or situation.history.last == before):
                return self._with_next_step(situation, outcome)
        raise EnvironmentFailureError(
            Reason.IN_PROGRESS,
            "other callers keep changing this goal",
            where=f"correlation {self._goal.correlation_id}",
            next_step="Ask again in a moment.",
        )

    def undo(self) -> AgentExecutionOutcome:
        """Ask the user whether the whole goal is rolled back, or continue a rollback that was begun.

        Raises:
            RefusedError: The goal has not ended, or none of its effects can be rolled back.
        """
        situation = self._read_again()
        if not isinstance(situation.move, End) or not situation.move.is_recorded:
            return self.advance()
        self._require_undoable(situation, situation.move)
        asked = len({each.row.step_id for each in situation.history.steps if is_undo(each.row.step_id)})
        return self._core.run_cycle(self._undo_case(situation, undo_id_of(asked + 1)), (), self._hook)

    def _require_undoable(self, situation: Situation, end: End) -> None:
        failed = [each.step.name for each in situation.progress if each.rollback in {"FAILED", "REFUSED"}]
        done = any(each.event == "SUCCEEDED" for each in situation.progress)
        if end.is_recorded and done and not failed:
            return
        what = f"the rollback of {failed[0]} did not succeed" if failed else f"its state is {end.ending}"
        raise RefusedError(
            Reason.GOAL_CONFLICT,
            f"there is nothing to roll back: {what}",
            where=f"correlation {self._goal.correlation_id}",
            next_step="`remit ledger trace` shows the state of that goal.",
        )

    def _undo_case(self, situation: Situation, step_id: str, *, is_answered: bool = False) -> StepCase:
        return StepCase(
            self._goal,
            self._documents,
            step_id,
            planned=situation.whole.digest,
            catalogue=situation.catalogue,
            sequence=self._state_of(situation),
            is_answered=is_answered,
        )

    def read_outcome(self) -> AgentExecutionOutcome | None:
        """Return the outcome of the goal as it stands. It runs no step. None if no step has begun."""
        situation = self.read()
        if situation is None or situation.history.last is None:
            return None
        return self._outcome(situation)

    def read(self) -> Situation | None:
        """Read the goal from the ledger. None if its packet does not name a composite of its catalogue.

        Raises:
            RefusedError: The correlation id belongs to another goal.
            EnvironmentFailureError: A row differs from its signed entry.
        """
        goal = self._goal
        with self._core.ledger().store.reading_pooled() as connection:
            catalogue, whole = self._find_composite(connection)
            if whole is None:
                return None
            history = read_history(connection, self._core.keyring, goal.tenant_id, goal.correlation_id)
            require_same_goal(connection, goal, self._documents, history)
            steps = planned_steps(whole, catalogue)
            progress = read_progress(steps, history.steps)
            self._verify(connection, history)
            outputs = self._read_outputs(connection, history, steps)
        binding = whole.simulation.binding
        keep = isinstance(binding, CompositeBinding) and binding.keep
        return Situation(
            catalogue, whole, steps, history, progress, outputs, next_move(steps, history.steps, keep=keep)
        )

    def _read_again(self) -> Situation:
        situation = self.read()
        if situation is None:
            raise RefusedError(
                Reason.EVIDENCE_INVALID,
                "the catalogue of this goal does not have its composite simulation any more",
                where=f"correlation {self._goal.correlation_id}",
                next_step="Keep the database as it is and run `remit ledger verify`.",
            )
        return situation

    def _find_composite(self, connection: Connection) -> tuple[Catalogue, CatalogueEntry | None]:
        """Find the composite in the catalogue of the packet: the stored one, or the present one before any decision."""
        ref, name = self._packet.catalog_snapshot_ref, self._packet.candidates[0].simulation_id
        try:
            catalogue = self._core.past.catalogue(DocumentStore(connection, self._goal.tenant_id), ref)
        except RefusedError:  # no decision has stored this catalogue yet
            catalogue = self._core.live(self._goal.tenant_id, connection).catalogue
        entry = catalogue.find(name)
        if entry is None or catalogue.ref != ref or not is_composite(entry.simulation):
            return catalogue, None
        return catalogue, entry

    def _verify(self, connection: Connection, history: History) -> None:
        """Compare the rows that decide about the next move with their signed entries. Each row is compared once."""
        newest = {each.row.step_id: each for each in history.steps}
        failures = (each for each in history.steps if each.row.event in {"FAILED", "DISPATCHED", "RETRIED"})
        for each in (*newest.values(), *failures):
            if each.seq not in self._verified:
                require_recorded(connection, self._core.keyring, self._goal.tenant_id, each)
                self._verified.add(each.seq)

    def _read_outputs(self, connection: Connection, history: History, steps: tuple[PlannedStep, ...]) -> Outputs:
        documents = DocumentStore(connection, self._goal.tenant_id)
        found = {}
        for step in steps:
            done = history.of(step.step_id).newest("SUCCEEDED")
            if done is not None:
                ref = done.row.outputs_ref
                found[step.name] = documents.tree(ref)["outputs"] if ref is not None else {}
        return found

    def _require_answer_for_open_step(self, situation: Situation) -> str | None:
        """Return the step that the answer is for. An answer to one step never counts for another.

        A repeated answer to a step that was decided already is not used again.
        """
        state = self._goal.confirm_state
        if state.answer is None:
            return None
        newest = {each.row.step_id: each.row.event for each in situation.history.steps}
        is_open = [step_id for step_id, event in newest.items() if event in OPEN and rolled_back_id(step_id) is None]
        if state.step_id in newest and state.step_id not in is_open:
            return None
        if state.step_id is None or state.step_id not in is_open:
            raise unused_answer_error(self._goal)
        return state.step_id

    def _move(self, situation: Situation, answered: str | None) -> AgentExecutionOutcome | None:
        """Make the next move. Returns the outcome of a step; None if another caller was faster, or the goal ended."""
        match situation.move:
            case RunStep(step):
                case = self._case(situation, step, is_answered=answered is not None and answered == step.step_id)
                return self._core.run_cycle(case, self._proof if case.sequence == {} else (), self._hook)
            case RetryStep(step, attempt, at):
                self._wait_until(at, step, attempt)
                try:
                    return self._core.run_attempt(self._case(situation, step), attempt)
                except AlreadyStartedError:
                    return None
            case AskUndo(step_id):
                case = self._undo_case(situation, step_id, is_answered=answered == step_id)
                return self._core.run_cycle(case, (), self._hook)
            case RollBackStep(step):
                return self._roll_back(situation, step)
            case End() as end:
                self._record_end(situation, end)
                return None

    def _case(self, situation: Situation, step: PlannedStep, *, is_answered: bool = False) -> StepCase:
        if is_undo(step.step_id):
            return self._undo_case(situation, step.step_id, is_answered=is_answered)
        ids = [each.step_id for each in situation.steps]
        place = ids.index(step.step_id)
        is_new = place == 0
        return StepCase(
            self._goal,
            self._documents,
            step.step_id,
            outputs={} if is_new else situation.outputs,
            planned=None if is_new else situation.whole.digest,
            sequence={} if is_new else {WHOLE: "STARTED", **dict.fromkeys(ids[:place], "SUCCEEDED")},
            is_answered=is_answered,
        )

    def _wait_until(self, at: datetime, step: PlannedStep, attempt: int) -> None:
        """Wait for the time of the next attempt, and never longer than its policy says, even if the clock is set."""
        longest = timedelta(milliseconds=step.retry.backoff_ms[attempt - 2])
        seconds = min(at - self._core.clock(), longest).total_seconds()
        if seconds > 0:
            with released():
                time.sleep(seconds)

    def _roll_back(self, situation: Situation, step: PlannedStep) -> AgentExecutionOutcome:
        """Run a cycle of the rollback of a completed step, with the confirmation proof of that step."""
        done = situation.last(step.step_id)
        if done is None:
            raise TypeError("a step without an event has nothing to roll back")
        goal, own_id = self._goal, rollback_id_of(step.step_id)
        with self._core.ledger().store.reading_pooled() as connection:
            ref = situation.history.of(own_id).decision_ref
            if ref is not None:
                record = load_decision(connection, goal.tenant_id, ref)
                tree = DocumentStore(connection, goal.tenant_id).tree(record.finder_packet_ref)
                packet = FINDER_PACKET.from_tree(tree, source="a stored packet")
            else:
                catalogue = self._core.live(goal.tenant_id, connection).catalogue
                fields = self._fields_of(connection, done)
                packet = rollback_packet(done, fields, catalogue, goal.correlation_id, own_step=True)
        if not isinstance(packet, SimulationMatchPacket):
            raise TypeError("a rollback has a match packet")
        later = [each for each in situation.progress if each.event == "ROLLED_BACK"]
        case = StepCase(
            goal,
            rollback_documents(self._documents, packet),
            own_id,
            own_packet=packet,
            # The gates refuse another definition of the rollback simulation than the one that was confirmed.
            planned=(done.row.rollback_plan_ref or "").partition("@")[2],
            covered_by=done.row.confirmation_parse_proof_ref,
            sequence={
                **self._state_of(situation),
                step.step_id: "SUCCEEDED",
                **{each.step.step_id: "ROLLED_BACK" for each in later},
            },
        )
        return self._core.run_cycle(case, (), self._hook)

    def _state_of(self, situation: Situation) -> dict[str, str]:
        """Return the state of the whole goal that the next row of one of its steps requires."""
        state = situation.last(WHOLE)
        return {WHOLE: state.row.event if state is not None else ""}

    def _fields_of(self, connection: Connection, done: Recorded) -> dict[str, Any]:
        """Return the values with which a step ran, from its decision."""
        record = load_decision(connection, self._goal.tenant_id, done.row.dispatch_decision_hash or "")
        documents = DocumentStore(connection, self._goal.tenant_id)
        return dict(documents.tree(record.envelope_ref or "")["required_fields"])

    def _record_end(self, situation: Situation, end: End) -> None:
        if end.is_recorded:
            return
        goal = self._goal
        started = situation.last(WHOLE)
        if started is None:
            raise TypeError("a goal that ends has begun")
        cause = situation.last(situation.decisive.step_id)
        code = cause.row.reason_code if cause is not None and end.ending != "COMPLETED" else None
        seen = {each.row.step_id: each.seq for each in situation.history.steps}

        def work(batch: Batch) -> None:
            row = replace(
                started.row, event_id=uuid7(batch.time_in(goal.tenant_id)), event=end.ending, reason_code=code
            )
            record_ending(batch, goal.tenant_id, row, seen)

        try:
            self._core.ledger().transact(work)
        except RefusedError as problem:
            if problem.reason is not Reason.TRANSITION_INVALID:  # another caller was faster
                raise
            return
        reach("goal.ended")
        if end.remaining:
            _LOG.error(
                "a goal ended, and effects of some of its steps remain",
                extra={"correlation_id": goal.correlation_id, "steps": list(end.remaining)},
            )

    def _waits(self, situation: Situation) -> bool:
        last = situation.history.last
        return last is not None and last.row.event in WAITING

    def _outcome(self, situation: Situation) -> AgentExecutionOutcome:
        """Return the outcome of the step that says how the goal stands, with the text of the whole goal."""
        outcome = self._core.read_step(StepCase(self._goal, self._documents, situation.decisive.step_id))
        if self._waits(situation):
            return self._with_next_step(situation, outcome)
        if isinstance(situation.move, End):
            step = UserText(outcome.user_visible_text, outcome.text_language)
            text = ending_text(situation.move.ending, situation.move.remaining, step, self._goal.language_tag)
        else:  # the text of one step says nothing about the goal
            text = running_text(sum(each.event == "SUCCEEDED" for each in situation.progress), len(situation.steps))
            outcome = self._with_next_step(situation, outcome)
        told = {"user_visible_text": text.text, "text_language": text.language}
        return AgentExecutionOutcome.from_tree({**outcome.tree(), **told}, source="outcome")

    def _with_next_step(self, situation: Situation, outcome: AgentExecutionOutcome) -> AgentExecutionOutcome:
        ids = [each.step_id for each in situation.steps]
        place = ids.index(outcome.step_id) + 1 if outcome.step_id in ids else len(ids)
        following = ids[place] if place < len(ids) else None
        return AgentExecutionOutcome.from_tree({**outcome.tree(), "next_step": following}, source="outcome")
