"""The SimulationExecutor: the only way from a decision to an effect. It believes nobody.

Its door stands on the road. The dispatch must be the very envelope that a recorded decision made, and that decision
must come out the same again from what was kept of it; then access and ACTIVE are asked for once more, as they are now.
The claim, the intent and the step's DISPATCHED event are one transaction; so are the outcome, the end of the claim and
the step's last event. What a crash cut short is taken up where the door below says it stands.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from remit.contracts.goals.dispatch import DispatchEnvelope, SimulationOutcome
from remit.contracts.goals.error_codes import goal_code, reason_of
from remit.contracts.goals.simulation import UNDOES
from remit.core.canonical import canonical_bytes
from remit.core.errors import GOAL_ADVICE, EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.core.faultpoints import reach
from remit.core.ids import Clock, is_within, parse_time, render_time, uuid7
from remit.crypto.signing import Keyring
from remit.execution.decision import PolicyDecision
from remit.execution.engine import ExecutionContext, IncompleteError, Note, Notes, Operation, Preview, run_operation
from remit.execution.journal import ExtraRecord, RequestIds
from remit.execution.recovery import Recovered, recover
from remit.goals.binding.binding import fill
from remit.goals.decisions import final_gate_refusal
from remit.goals.dispatch import AlreadyStartedError, Dispatch, StartedDispatch, ends_step, not_decided
from remit.goals.gates import ANSWER_LIFE, Evidence, decide
from remit.goals.history import History, read_history, require_recorded
from remit.goals.planner import plan_id_of
from remit.goals.ports import ActionRunner, BoundActionResult, truncate_payload
from remit.goals.recording import record_final_refusal
from remit.goals.replay import replay_decision
from remit.goals.rollback import record_rollback, require_only_rollback, require_undoable
from remit.goals.rules import LiveRules, PastRules
from remit.ledger.goal_queries import find_position
from remit.ledger.goal_tables import StepRow
from remit.ledger.projections import append_step
from remit.ledger.writer import Batch, Ledger
from remit.store.connection import Connection

NAME = "simulation"
_PASSED: Final = PolicyDecision(("access and ACTIVE hold now", "the recorded decision comes out the same"), ())


@dataclass(frozen=True, slots=True)
class Granted:
    """A dispatch that a recorded decision stands behind, and what that was made from."""

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
        return RequestIds(
            envelope.tenant_id, envelope.correlation_id, self.name, envelope.idempotency_key, envelope.digest()
        )

    def verify_authority(self, request: Dispatch, now: datetime) -> Granted:
        envelope = request.envelope
        with self.ledger().store.reading_pooled() as connection:
            history = self._history(connection, envelope)
            allowed = history.newest("ACCESS_ALLOWED")
            ref = allowed.row.dispatch_decision_hash if allowed else None
            if allowed is None or ref is None or history.event == "REFUSED":
                raise not_decided(envelope, "no decision lets this step be dispatched")
            if allowed is not history.last:  # which was held against its entry already
                require_recorded(connection, self.keyring, envelope.tenant_id, allowed)
            record, evidence = replay_decision(connection, self.past, envelope.tenant_id, ref)
            if record.envelope_ref != envelope.digest():
                raise not_decided(envelope, "this is not the dispatch that was decided")
        request.evidence[:] = [(record, evidence)]
        request.allowed[:] = [allowed.row]
        consent = (
            f"confirmation {record.confirmation_parse_proof_ref}" if envelope.confirmation_proof_ref else "not needed"
        )
        return Granted(request, evidence, allowed.row, consent, parse_time(allowed.created_at))

    def decide(self, request: Dispatch) -> PolicyDecision:
        """The final gate: as things are now, not as they were when the goal was decided."""
        if request.is_resumed:
            return PolicyDecision(("it was decided when it was begun",), ())
        with self.ledger().store.reading_pooled() as connection:
            return self._final_gate(request, connection)

    def _final_gate(self, request: Dispatch, connection: Connection) -> PolicyDecision:
        envelope = request.envelope
        ((record, then),) = request.evidence
        rules = self.live(envelope.tenant_id, connection)
        if request.passed and request.passed[0] is rules:
            return _PASSED  # from the same evidence and by the same rules, it would say the same
        now = replace(then, catalogue=rules.catalogue, policy=rules.policy, planned=_digest_in(then), final=True)
        verdict = decide(now)
        if not verdict.dispatches:
            request.refused[:] = [final_gate_refusal(record, now, verdict, rules.documents, render_time(self.clock()))]
            raise RefusedError(
                reason_of(verdict.reason_code),
                f"the final gate says {verdict.reason_code}" + (f": {verdict.why}" if verdict.why else ""),
                where=f"correlation {envelope.correlation_id}, step {envelope.step_id}",
                next_step="Ask again once that has changed, as a new goal.",
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
        if UNDOES in envelope.required_fields:
            with self.ledger().store.reading_pooled() as connection:
                require_undoable(connection, self.keyring, envelope)
        tree = {
            "envelope": envelope.tree(),
            "prepared": self.runner.prepare(entry.simulation, bound, envelope),
            "seconds": entry.simulation.timeout_seconds,
        }
        return canonical_bytes(tree).decode()

    def load_checkpoint(self, text: str) -> tuple[Dispatch, StartedDispatch]:
        tree = json.loads(text)
        envelope = DispatchEnvelope.from_tree(tree["envelope"], source="a dispatch that was begun")
        checkpoint = StartedDispatch(envelope, tree["prepared"], tree["seconds"])
        return Dispatch(envelope, is_resumed=True), checkpoint

    def require_still_valid(self, granted: Granted, now: datetime) -> None:
        """A yes is to what somebody has just read: what was let through and left lying has to be asked for anew."""
        if not is_within(granted.decided_at, now, ANSWER_LIFE):
            raise RefusedError(
                Reason.EXPIRED,
                f"this was let through more than {ANSWER_LIFE.seconds // 60} minutes ago, and not begun since",
                where=f"correlation {granted.envelope.correlation_id}, step {granted.envelope.step_id}",
                next_step="Ask for it anew, as a new goal.",
            )

    def consume_authority(self, granted: Granted, batch: Batch, now: datetime) -> None:
        """The step's one dispatch: the database refuses a second, whoever asks for it.

        The final gate is asked once more: making it ready may have taken as long as the simulation may, and while this
        transaction lasts nobody can promote or retire.
        """
        self._final_gate(granted.request, batch.store)
        if UNDOES in granted.envelope.required_fields:
            require_only_rollback(batch.store, granted.envelope)
        self._append(batch, granted.envelope, granted.row, "DISPATCHED", None)
        reach("simulation.dispatched")

    def effect(self, granted: Granted, checkpoint: StartedDispatch, note: Note) -> BoundActionResult:
        try:
            ended = self.runner.run(checkpoint.prepared, checkpoint.seconds)
        except RefusedError:  # its own door let nothing begin
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
        """The door below has put back what it did not bring to an end. What it did bring to its end stands."""
        raise _incomplete_error(
            checkpoint.envelope, EnvironmentFailureError(Reason.EFFECT_FAILED, "its end could not be recorded")
        )

    def verify_effect(self, checkpoint: StartedDispatch, made: BoundActionResult) -> None:
        """The door below has looked at the world."""

    def succeed(self, request: Dispatch, checkpoint: StartedDispatch, made: BoundActionResult) -> SimulationOutcome:
        code = "SIMULATION_SUCCEEDED" if made.succeeded else "STEP_TIMEOUT" if made.timed_out else "SIMULATION_FAILED"
        return SimulationOutcome(
            payload=truncate_payload(made.payload),
            reason_code=code,
            audit_refs=made.audit_refs,
            proof_refs=_proofs(checkpoint.envelope),
        )

    def fail(
        self, request: Dispatch, problem: RemitError, checkpoint: StartedDispatch | None = None
    ) -> SimulationOutcome:
        code = goal_code(problem.reason)
        request.start_refusals[:] = [problem] if checkpoint is None else []
        return SimulationOutcome(
            payload={"error": dict(problem.as_json())},
            reason_code="SIMULATION_REFUSED" if code == "SIMULATION_FAILED" and checkpoint is None else code,
            audit_refs=(),
            proof_refs=_proofs(request.envelope),
        )

    def store_outcome(self, outcome: SimulationOutcome) -> str:
        return outcome.canonical().decode()

    def show_outcome(self, outcome: SimulationOutcome, stored: str) -> Mapping[str, Any]:
        """Without what was read for somebody: it is in the claim, and rows of a table are nothing for the record."""
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
            if before == "DISPATCHED":
                event = "SUCCEEDED" if outcome.reason_code == "SIMULATION_SUCCEEDED" else "FAILED"
            elif before == "ACCESS_ALLOWED":
                event = "REFUSED"
            else:
                return  # somebody else was faster, or nobody ever planned this: there is no step to move
            allowed = self._allowed(batch.store, request)
            if allowed is not None and event == "REFUSED" and request.refused:
                action = envelope.access_action
                record_final_refusal(batch, envelope.tenant_id, request.refused[0], allowed, action)
            elif allowed is not None:
                self._append(batch, envelope, allowed, event, outcome.reason_code)
            if event == "SUCCEEDED" and (undone := envelope.required_fields.get(UNDOES)) is not None:
                record_rollback(batch, self.keyring, envelope, str(undone))

        return (append,)

    def _allowed(self, connection: Connection, request: Dispatch) -> StepRow | None:
        """What let it go: as whoever asked for it found it, or as the ledger says to one who takes it over."""
        if request.allowed:
            return request.allowed[0]
        found = self._history(connection, request.envelope).newest("ACCESS_ALLOWED")
        return found.row if found is not None else None

    def _history(self, connection: Connection, envelope: DispatchEnvelope) -> History:
        return read_history(connection, self.keyring, envelope.tenant_id, envelope.correlation_id)

    def _append(self, batch: Batch, envelope: DispatchEnvelope, allowed: StepRow, event: str, code: str | None) -> None:
        row = replace(
            allowed,
            event_id=uuid7(batch.time_in(envelope.tenant_id)),
            event=event,
            reason_code=code,
            simulation_entry_ref=f"{NAME}/{envelope.idempotency_key}",
            dispatch_decision_hash=None if event == "REFUSED" else allowed.dispatch_decision_hash,
        )
        append_step(batch, envelope.tenant_id, row)


class SimulationExecutor:
    """`dispatch` is all that the core can ask for."""

    def __init__(self, operation: SimulationOperation, hosts: Path) -> None:
        self._operation = operation
        self._hosts = hosts

    def dispatch(self, envelope: DispatchEnvelope) -> SimulationOutcome:
        """Run it, once: whoever asks again gets what came of it the first time."""
        try:
            outcome = run_operation(self._operation, (envelope.canonical(),), self._site())
        except AlreadyStartedError:
            # Whoever is at work on it is waited for; what a dead one left comes to its end, as it stands.
            self.recover()
            outcome = run_operation(self._operation, (envelope.canonical(),), self._site())
        if isinstance(outcome, Preview):
            raise UsageError(Reason.MISUSE, "a full run ended in a preview")
        return outcome

    def recover(self, **named: Any) -> list[Recovered[SimulationOutcome]]:
        return recover(self._operation, self._site(), **named)

    def _site(self) -> ExecutionContext:
        return ExecutionContext(self._operation.ledger(), self._operation.clock, self._hosts)


def _digest_in(evidence: Evidence) -> str | None:
    packet: Any = evidence.packet
    entry = evidence.catalogue.find(packet.candidates[0].simulation_id)
    return entry.digest if entry is not None else None


def _proofs(envelope: DispatchEnvelope) -> tuple[str, ...]:
    return (envelope.confirmation_proof_ref,) if envelope.confirmation_proof_ref else ()


def _incomplete_error(envelope: DispatchEnvelope, problem: BaseException) -> IncompleteError:
    """Its own door has begun it, and has not said what became of it. To call that a failure would be a guess."""
    what = problem.what if isinstance(problem, RemitError) else f"it was interrupted ({type(problem).__name__})"
    reason = problem.reason if isinstance(problem, RemitError) else Reason.EFFECT_FAILED
    return IncompleteError(
        reason,
        f"the simulation was begun, and what became of it is not known yet: {what}",
        where=f"correlation {envelope.correlation_id}, step {envelope.step_id}",
        next_step=GOAL_ADVICE,
    )
