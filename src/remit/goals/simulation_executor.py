"""The SimulationExecutor: the only way from a decision to an effect. It verifies everything again.

It is an operation of the execution engine. The dispatch must be exactly the envelope that a recorded decision made, and
a replay of that decision from its stored documents must have the same result. Then the final gate decides again, with
the access policy and the catalogue as they are now. The claim, the intent and the DISPATCHED event of the step are
written in one transaction. So are the outcome, the completed claim and the last event of the step. After a crash, the
dispatch continues at the state that the operation of the bound action has recorded.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from remit.contracts.goals.dispatch import DispatchEnvelope, SimulationOutcome
from remit.contracts.goals.error_codes import goal_code, reason_of
from remit.contracts.goals.simulation import Simulation
from remit.core.canonical import canonical_bytes
from remit.core.errors import GOAL_ADVICE, EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.core.faultpoints import reach
from remit.core.ids import Clock, is_within, parse_time, render_time, uuid7
from remit.crypto.signing import Keyring
from remit.execution.decision import PolicyDecision
from remit.execution.engine import (
    ExecutionContext,
    IncompleteError,
    Note,
    Notes,
    Operation,
    Parsed,
    Preview,
    run_operation,
)
from remit.execution.journal import ExtraRecord, RequestIds
from remit.execution.recovery import NOT_KNOWN, Recovered, recover
from remit.goals.binding.binding import fill
from remit.goals.composite.layout import PlannedStep
from remit.goals.composite.progress import retry_problem, retry_time
from remit.goals.decisions import final_gate_refusal
from remit.goals.dispatch import AlreadyStartedError, Dispatch, StartedDispatch, ends_step, not_decided
from remit.goals.gates import ANSWER_LIFE, Evidence, decide
from remit.goals.history import History, read_history, require_recorded
from remit.goals.planner import plan_id_of
from remit.goals.ports import ActionRunner, BoundActionResult, truncate_payload
from remit.goals.recording import record_final_refusal, require_in_sequence
from remit.goals.replay import replay_decision
from remit.goals.rollback import record_rollback, require_only_rollback, require_undoable, undone_step
from remit.goals.rules import LiveRules, PastRules
from remit.ledger.documents import StoredDocument, load_document, store_documents
from remit.ledger.goal_queries import find_position, step_events
from remit.ledger.goal_tables import StepRow
from remit.ledger.projections import append_step
from remit.ledger.writer import Batch, Ledger
from remit.store.connection import Connection

NAME = "simulation"
OUTPUTS: Final = "outputs"
EFFECT: Final = "effect"
"""The member of a failed outcome's payload that says whether the failure surely had no effect."""
_PASSED: Final = PolicyDecision(("access and ACTIVE hold now", "the recorded decision comes out the same"), ())


@dataclass(frozen=True, slots=True)
class Granted:
    """A dispatch that a recorded decision allows, and the evidence of that decision."""

    request: Dispatch
    evidence: Evidence
    row: StepRow
    consent: str
    decided_at: datetime

    @property
    def envelope(self) -> DispatchEnvelope:
        return self.request.envelope


@dataclass(frozen=True)
class SimulationOperation(Operation[Dispatch, Granted, StartedDispatch, BoundActionResult, SimulationOutcome]):
    ledger: Callable[[], Ledger]
    keyring: Callable[[], Keyring]
    live: LiveRules
    past: PastRules
    runner: ActionRunner
    clock: Clock
    name: str = field(default=NAME, init=False)

    def parse(self, raw: tuple[bytes, ...]) -> Dispatch:
        return Dispatch(DispatchEnvelope.parse(raw[0], source="dispatch envelope"))

    def trace(self, request: Dispatch) -> RequestIds:
        envelope = request.envelope
        return RequestIds(envelope.tenant_id, envelope.correlation_id, self.name, request.key, request.digest)

    def verify_authority(self, request: Dispatch, now: datetime) -> Granted:
        envelope = request.envelope
        with self.ledger().store.reading_pooled() as connection:
            history = self._history(connection, envelope)
            allowed = history.newest("ACCESS_ALLOWED")
            ref = allowed.row.dispatch_decision_hash if allowed else None
            if allowed is None or ref is None or history.event == "REFUSED":
                raise not_decided(envelope, "no decision allows the dispatch of this step")
            require_recorded(connection, self.keyring, envelope.tenant_id, allowed)
            record, evidence = replay_decision(connection, self.past, envelope.tenant_id, ref)
            if record.envelope_ref != envelope.digest():
                raise not_decided(envelope, "the dispatch differs from the one that was decided")
            if request.attempt > 1:
                self._require_attempt(connection, request, history, evidence)
        request.evidence[:] = [(record, evidence)]
        request.allowed[:] = [allowed.row]
        consent = (
            f"confirmation {record.confirmation_parse_proof_ref}" if envelope.confirmation_proof_ref else "not needed"
        )
        return Granted(request, evidence, allowed.row, consent, parse_time(allowed.created_at))

    def _require_attempt(self, connection: Connection, request: Dispatch, history: History, evidence: Evidence) -> None:
        """Require a later attempt to be the next one that the policy of the step allows, or one that was started.

        Raises:
            AlreadyStartedError: Another caller has tried the step since.
            RefusedError: The step may not be tried again.
        """
        envelope, last = request.envelope, history.last
        if last is None:
            raise not_decided(envelope, "no attempt was made before")
        require_recorded(connection, self.keyring, envelope.tenant_id, last)
        if last.row.attempt == str(request.attempt):
            return
        attempts = history.attempts
        if attempts != request.attempt - 1 or last.row.event != "FAILED":
            raise AlreadyStartedError(
                Reason.IN_PROGRESS,
                "another caller has tried this step since",
                where=f"correlation {envelope.correlation_id}, step {envelope.step_id}",
                next_step=GOAL_ADVICE,
            )
        target = decide(evidence).target
        step = target.step if target is not None else PlannedStep(envelope.step_id, "", envelope.simulation_id)
        problem = retry_problem(last, step, attempts)
        if not problem and self.clock() < retry_time(last, step, attempts):
            problem = "it is too early for the next attempt"
        if problem:
            raise not_decided(envelope, f"this step is not tried again: {problem}")

    def decide(self, request: Dispatch) -> PolicyDecision:
        """Pass the final gate, with the rules as they are now and not as they were when the goal was decided."""
        if request.is_resumed:
            return PolicyDecision(("it was decided when it was begun",), ())
        with self.ledger().store.reading_pooled() as connection:
            return self._final_gate(request, connection)

    def _final_gate(self, request: Dispatch, connection: Connection) -> PolicyDecision:
        envelope = request.envelope
        ((record, then),) = request.evidence
        rules = self.live(envelope.tenant_id, connection)
        if request.passed and request.passed[0] is rules:
            return _PASSED  # the same evidence and the same rules give the same verdict
        now = replace(then, catalogue=rules.catalogue, policy=rules.policy, planned=_digest_in(then), final=True)
        verdict = decide(now)
        if not verdict.dispatches:
            request.refused[:] = [final_gate_refusal(record, now, verdict, rules.documents, render_time(self.clock()))]
            raise RefusedError(
                reason_of(verdict.reason_code),
                f"the final gate says {verdict.reason_code}" + (f": {verdict.why}" if verdict.why else ""),
                where=f"correlation {envelope.correlation_id}, step {envelope.step_id}",
                next_step="When the cause is removed, ask again as a new goal.",
            )
        request.passed[:] = [rules]
        return _PASSED

    def preview(self, granted: Granted) -> Preview:
        envelope = granted.envelope
        summary = f"simulation {envelope.simulation_id} for {envelope.user_id}"
        return Preview(summary, envelope.digest())

    def consent(self, granted: Granted, preview: Preview, now: datetime) -> str:
        return granted.consent

    def checkpoint(self, granted: Granted, preview: Preview) -> str:
        envelope = granted.envelope
        entry = granted.evidence.catalogue.find(envelope.simulation_id)
        if entry is None:
            raise RefusedError(Reason.SIMULATION_UNKNOWN, "the simulation is not in the catalogue")
        bound = fill(entry.simulation, envelope.required_fields)
        undone = undone_step(envelope)
        if undone is not None:
            with self.ledger().store.reading_pooled() as connection:
                require_undoable(connection, self.keyring, envelope, undone)
        attempt = {"attempt": granted.request.attempt} if granted.request.attempt > 1 else {}
        tree = {
            "envelope": envelope.tree(),
            "prepared": self.runner.prepare(
                entry.simulation, bound, envelope, granted.request.key, self._confirmed_effect(granted)
            ),
            "seconds": _seconds(granted.evidence, entry.simulation),
            **attempt,
        }
        return canonical_bytes(tree).decode()

    def _confirmed_effect(self, granted: Granted) -> str | None:
        """Return the digest of the effect that was shown before the confirmation. None if none was shown."""
        ((record, _),) = granted.request.evidence
        if record.preview_ref is None:
            return None
        with self.ledger().store.reading_pooled() as connection:
            effect = load_document(connection, granted.envelope.tenant_id, record.preview_ref)["effect"]
        return str(effect) if effect is not None else None

    def load_checkpoint(self, text: str) -> tuple[Dispatch, StartedDispatch]:
        tree = json.loads(text)
        envelope = DispatchEnvelope.from_tree(tree["envelope"], source="a dispatch that was started")
        checkpoint = StartedDispatch(envelope, tree["prepared"], tree["seconds"])
        return Dispatch(envelope, is_resumed=True, attempt=tree.get("attempt", 1)), checkpoint

    def require_still_valid(self, granted: Granted, now: datetime) -> None:
        """Refuse a dispatch that was allowed too long ago. A confirmation is valid only for a text just read."""
        if not is_within(granted.decided_at, now, ANSWER_LIFE):
            raise RefusedError(
                Reason.EXPIRED,
                f"this was allowed more than {ANSWER_LIFE.seconds // 60} minutes ago, and has not been started since",
                where=f"correlation {granted.envelope.correlation_id}, step {granted.envelope.step_id}",
                next_step="Ask again, as a new goal.",
            )

    def consume_authority(self, granted: Granted, batch: Batch, now: datetime) -> None:
        """Record the one dispatch of the step. The database refuses a second one, from any caller.

        The final gate decides once more, because the preparation may have taken as long as the simulation may. While
        this transaction lasts, no person can promote or retire a simulation.
        """
        request, envelope = granted.request, granted.envelope
        self._final_gate(request, batch.store)
        require_in_sequence(batch.store, envelope, granted.evidence)
        if (undone := undone_step(envelope)) is not None:
            require_only_rollback(batch.store, envelope, undone)
        row = self._row(batch, request, granted.row, "DISPATCHED" if request.attempt == 1 else "RETRIED", None)
        append_step(batch, envelope.tenant_id, row)
        if request.attempt == 1:
            reach("simulation.dispatched")
        else:
            reach("simulation.retried")

    def effect(self, granted: Granted, checkpoint: StartedDispatch, note: Note) -> BoundActionResult:
        try:
            ended = self.runner.run(checkpoint.prepared, checkpoint.seconds)
        except RefusedError:  # the operation of the action started nothing
            raise
        except BaseException as problem:
            if self.runner.has_started(checkpoint.prepared):
                raise _incomplete_error(checkpoint.envelope, problem) from problem
            raise
        reach("simulation.ran")
        return ended

    def recover_effect(self, checkpoint: StartedDispatch, notes: Notes, note: Note) -> BoundActionResult | None:
        if not self.runner.has_started(checkpoint.prepared):
            return None
        return self.runner.run(checkpoint.prepared, checkpoint.seconds)

    def undo(self, checkpoint: StartedDispatch, notes: Notes, note: Note) -> None:
        """Undo nothing. The operation of the action has undone what it did not complete; a completed action is kept."""
        raise _incomplete_error(
            checkpoint.envelope, EnvironmentFailureError(Reason.EFFECT_FAILED, "its outcome could not be recorded")
        )

    def verify_effect(self, checkpoint: StartedDispatch, made: BoundActionResult) -> None:
        """Verify nothing. The operation of the action has verified its own effect."""

    def succeed(self, request: Dispatch, checkpoint: StartedDispatch, made: BoundActionResult) -> SimulationOutcome:
        code = "SIMULATION_SUCCEEDED" if made.succeeded else "STEP_TIMEOUT" if made.timed_out else "SIMULATION_FAILED"
        payload = truncate_payload(made.payload)
        if made.outputs:
            payload[OUTPUTS] = dict(made.outputs)
        if not made.succeeded:
            payload[EFFECT] = made.effect or "UNKNOWN"
        return SimulationOutcome(
            payload=payload,
            reason_code=code,
            audit_refs=made.audit_refs,
            proof_refs=_proofs(checkpoint.envelope),
        )

    def fail(
        self, request: Dispatch, problem: RemitError, checkpoint: StartedDispatch | None = None
    ) -> SimulationOutcome:
        code = goal_code(problem.reason)
        request.start_refusals[:] = [problem] if checkpoint is None else []
        # A refusal, or an end before the action was started. Of a dispatch that a person closed, nothing is known.
        effect = "UNKNOWN" if NOT_KNOWN in problem.what else "NONE"
        return SimulationOutcome(
            payload={"error": dict(problem.as_json()), EFFECT: effect},
            reason_code="SIMULATION_REFUSED" if code == "SIMULATION_FAILED" and checkpoint is None else code,
            audit_refs=(),
            proof_refs=_proofs(request.envelope),
        )

    def store_outcome(self, outcome: SimulationOutcome) -> str:
        return outcome.canonical().decode()

    def show_outcome(self, outcome: SimulationOutcome, stored: str) -> Mapping[str, Any]:
        """Return the outcome for the ledger, without the data that was read for the user. The claim has that data."""
        tree = outcome.tree()
        return {"outcome": {**tree, "payload": {k: v for k, v in tree["payload"].items() if k != "answer"}}}

    def load_outcome(self, stored: str, recorded_at: str) -> SimulationOutcome:
        return SimulationOutcome.parse(stored.encode(), source="a stored outcome")

    def extra_entries(self, request: Dispatch, outcome: SimulationOutcome) -> Sequence[ExtraRecord]:
        def append(batch: Batch) -> None:
            envelope = request.envelope
            plan_id = plan_id_of(envelope.tenant_id, envelope.correlation_id)
            before = find_position(batch.store, envelope.tenant_id, plan_id, envelope.step_id).event
            if request.start_refusals and not ends_step(request, before):
                return
            if before in {"DISPATCHED", "RETRIED"} and not request.start_refusals:
                event = "SUCCEEDED" if outcome.reason_code == "SIMULATION_SUCCEEDED" else "FAILED"
            elif before in {"ACCESS_ALLOWED", "FAILED"} and request.start_refusals:
                event = "REFUSED"
            else:
                return  # another caller was faster, or it was never planned: no step can advance
            allowed = self._allowed(batch.store, request)
            if allowed is not None and event == "REFUSED" and request.refused:
                action = envelope.access_action
                record_final_refusal(batch, envelope.tenant_id, request.refused[0], allowed, action)
            elif allowed is not None:
                self._append_ending(batch, request, allowed, event, outcome)
            if event == "SUCCEEDED" and (undone := undone_step(envelope)) is not None:
                record_rollback(batch, self.keyring, envelope, undone, request.key)
                reach("simulation.rolled_back")

        return (append,)

    def _allowed(self, connection: Connection, request: Dispatch) -> StepRow | None:
        """Return the event that allowed the dispatch: as this caller found it, or, during recovery, from the ledger."""
        if request.allowed:
            return request.allowed[0]
        envelope = request.envelope
        events = step_events(connection, envelope.tenant_id, envelope.correlation_id)
        own = [each for each in events if each.row.step_id == envelope.step_id and each.row.event == "ACCESS_ALLOWED"]
        if not own:
            return None
        require_recorded(connection, self.keyring, envelope.tenant_id, own[-1])
        return own[-1].row

    def _history(self, connection: Connection, envelope: DispatchEnvelope) -> History:
        history = read_history(connection, self.keyring, envelope.tenant_id, envelope.correlation_id)
        return history.of(envelope.step_id)

    def _append_ending(
        self, batch: Batch, request: Dispatch, allowed: StepRow, event: str, outcome: SimulationOutcome
    ) -> None:
        row = self._row(batch, request, allowed, event, outcome.reason_code)
        if event == "FAILED":
            row = replace(row, effect=str(outcome.payload.get(EFFECT, "UNKNOWN")))
        outputs = outcome.payload.get(OUTPUTS) if event == "SUCCEEDED" else None
        if outputs:
            document = StoredDocument(OUTPUTS, {OUTPUTS: outputs})
            store_documents(batch, request.envelope.tenant_id, (document,))
            row = replace(row, outputs_ref=document.ref)
        append_step(batch, request.envelope.tenant_id, row)

    def _row(self, batch: Batch, request: Dispatch, allowed: StepRow, event: str, code: str | None) -> StepRow:
        return replace(
            allowed,
            event_id=uuid7(batch.time_in(request.envelope.tenant_id)),
            event=event,
            reason_code=code,
            simulation_entry_ref=f"{NAME}/{request.key}",
            dispatch_decision_hash=None if event == "REFUSED" else allowed.dispatch_decision_hash,
            attempt=str(request.attempt) if request.attempt > 1 else None,
        )


class SimulationExecutor:
    """Runs dispatches through the execution engine. The core calls only `dispatch`."""

    def __init__(self, operation: SimulationOperation, hosts: Path) -> None:
        self._operation = operation
        self._hosts = hosts

    def dispatch(self, envelope: DispatchEnvelope, attempt: int = 1) -> SimulationOutcome:
        """Run one attempt of a dispatch once. A caller who repeats it gets the stored outcome.

        Args:
            envelope: The dispatch that a recorded decision made.
            attempt: The number of the attempt. A later one runs only as the policy of the step allows.

        Returns:
            The outcome.

        Raises:
            AlreadyStartedError: Another caller has tried the step since.
            EnvironmentFailureError: The outcome is not known yet.
        """
        try:
            outcome = self._run(envelope, attempt)
        except AlreadyStartedError:
            # Wait for a process that works on it. Recovery completes the dispatch of a process that died.
            self.recover()
            outcome = self._run(envelope, attempt)
        if isinstance(outcome, Preview):
            raise UsageError(Reason.MISUSE, "a full run ended in a preview")
        return outcome

    def _run(self, envelope: DispatchEnvelope, attempt: int) -> SimulationOutcome | Preview:
        parsed = self._operation.parse((envelope.canonical(),))
        return run_operation(self._operation, Parsed(replace(parsed, attempt=attempt)), self._site())

    def recover(self, **named: Any) -> list[Recovered[SimulationOutcome]]:
        return recover(self._operation, self._site(), **named)

    def _site(self) -> ExecutionContext:
        return ExecutionContext(self._operation.ledger(), self._operation.clock, self._hosts)


def _digest_in(evidence: Evidence) -> str | None:
    packet: Any = evidence.packet
    entry = evidence.catalogue.find(packet.candidates[0].simulation_id)
    return entry.digest if entry is not None else None


def _seconds(evidence: Evidence, simulation: Simulation) -> int:
    """Return the time limit of the simulation, or the shorter one of its step."""
    target = decide(evidence).target
    limit = target.step.definition.timeout_seconds if target is not None and target.step.definition else None
    return simulation.timeout_seconds if limit is None else min(limit, simulation.timeout_seconds)


def _proofs(envelope: DispatchEnvelope) -> tuple[str, ...]:
    return (envelope.confirmation_proof_ref,) if envelope.confirmation_proof_ref else ()


def _incomplete_error(envelope: DispatchEnvelope, problem: BaseException) -> IncompleteError:
    """Return the error of a started action whose outcome is unknown. To report a failure would be a guess."""
    what = problem.what if isinstance(problem, RemitError) else f"it was interrupted ({type(problem).__name__})"
    reason = problem.reason if isinstance(problem, RemitError) else Reason.EFFECT_FAILED
    return IncompleteError(
        reason,
        f"the simulation was started, and its outcome is not known yet: {what}",
        where=f"correlation {envelope.correlation_id}, step {envelope.step_id}",
        next_step=GOAL_ADVICE,
    )
