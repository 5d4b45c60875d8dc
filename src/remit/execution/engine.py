"""The engine: the steps that every request takes. A dry run takes the same steps and stops after step 4.

 1. parse: untrusted bytes to a closed model
 2. verify authority: signature, binding, expiry, revocation
 3. decide: may it happen (pure; a decision with its reasons)
 4. preview: the exact effect, masked for people, with a digest of the unmasked
 5. consent: an approval bound to that digest, where the operation asks for one
 6. checkpoint: what is needed to undo it, durable
 7. intent: the ledger says what is about to happen, and the idempotency key is claimed, durable
 8. effect: the thing itself
 9. verify: the world is as the effect claimed; what people will read of it is written, what is held elsewhere is
    committed, and what only an undo needed is removed
10. outcome: signed, appended, in one transaction with the idempotency record
11. report

A refusal in steps 2 to 7 is recorded too, but claims no key: else one caller could use up the task id of another. What
was begun by a process that died enters at step 7, with the checkpoint of that process.

The engine knows the order and nothing else. `Operation` has a method for each step; each kind of request implements it:
`plans/operation.py` (start there), `plans/rollback/operation.py`, `tasks/operation.py`, `browser/operation.py`,
`browser/request_operation.py`, `calls/operation.py`, `goals/simulation_executor.py`. So a new check or effect goes into
an operation, not in here. `journal.py` writes the records of a request: refusal, claim, intent, outcome. `recovery.py`
finishes or undoes what a crash left.

A call of `reach` marks a fault point: a place where tests kill the process. Those in here begin with `road.`. A new one
is listed in `FAULT_POINTS` (`core/faultpoints.py`) and stands directly after its durable step. The test of its
operation kills there, and `KILLED_IN` of `tests/crash/store/cases.py` names that test for every point.
"""

import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from remit.core.errors import RECOVER_ADVICE, EnvironmentFailureError, Reason, RefusedError, RemitError, as_remit_error
from remit.core.faultpoints import reach
from remit.core.ids import Clock
from remit.core.metrics import FAILURES
from remit.execution.decision import PolicyDecision
from remit.execution.instrumentation import ExecutionSpan
from remit.execution.journal import ClaimedExecution, ExtraRecord, Journal, RequestIds, StoredOutcome
from remit.ledger.writer import Batch, Ledger

Request = TypeVar("Request")
Granted = TypeVar("Granted")
Checkpoint = TypeVar("Checkpoint")
Made = TypeVar("Made")
Outcome = TypeVar("Outcome")
Note = Callable[[Mapping[str, Any]], None]
Notes = tuple[Mapping[str, Any], ...]

PATIENCE_SECONDS: Final = 30.0
"""How long a second caller waits for the first one's outcome."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What will happen: a masked sentence for people, and a digest of the unmasked request, which approvals bind."""

    summary: str
    digest: str


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """Where the engine runs: its ledger, its clock, and the folder where processes that run tasks keep their locks."""

    ledger: Ledger
    clock: Clock
    hosts: Path
    patience: float = PATIENCE_SECONDS


class VerificationFailedError(EnvironmentFailureError):
    """The effect reported success, and the world is not as it said."""


class ReportWriteError(EnvironmentFailureError):
    """The effect is done, and what people are to read of it could not be written."""


class IncompleteError(EnvironmentFailureError):
    """The effect failed and is neither whole nor undone. It stays claimed, and recovery goes on with it."""


class SuspendedError(IncompleteError):
    """Begun, and suspended until a caller asks again. No process is at work on it: any process may resume it."""


class Operation(ABC, Generic[Request, Granted, Checkpoint, Made, Outcome]):
    """What the numbered steps mean for one kind of request. An operation has no order of its own."""

    name: str
    """The scope of its claims, and the first word of the kinds of its ledger entries."""
    try_again: str = "If it is still wanted, ask for it again, under another id."
    """What to do about a request that came to nothing because its process died."""

    @abstractmethod
    def parse(self, raw: tuple[bytes, ...]) -> Request: ...

    @abstractmethod
    def trace(self, request: Request) -> RequestIds: ...

    @abstractmethod
    def verify_authority(self, request: Request, now: datetime) -> Granted: ...

    @abstractmethod
    def decide(self, request: Request) -> PolicyDecision: ...

    @abstractmethod
    def preview(self, granted: Granted) -> Preview: ...

    @abstractmethod
    def consent(self, granted: Granted, preview: Preview, now: datetime) -> str:
        """Who approved it, and how; or a refusal."""

    @abstractmethod
    def checkpoint(self, granted: Granted, preview: Preview) -> str:
        """What is needed to finish or to undo it, as text; anything that it refers to is durable."""

    def prewarm(self, granted: Granted, checkpoint: Checkpoint) -> None:
        """Get ready for the effect while the intent is being written. Nothing of it may reach the world yet."""

    def release(self, granted: Granted) -> None:
        """Let go of what stood by, used or not. However a request ends, this is called."""

    @abstractmethod
    def require_still_valid(self, granted: Granted, now: datetime) -> None:
        """Expiry and revocation once more, right before the intent."""

    def consume_authority(self, granted: Granted, batch: Batch, now: datetime) -> None:
        """What the intent uses up, such as an approval, in its very transaction. A refusal undoes the intent too."""

    def recheck_authority(self, granted: Granted, batch: Batch, now: datetime) -> None:
        """The same after another process began it and died: nothing is used up twice; the authority must be valid."""

    @abstractmethod
    def load_checkpoint(self, text: str) -> tuple[Request, Checkpoint]:
        """The checkpoint read back, by this process or one that takes over. Its request has no authority any more."""

    @abstractmethod
    def effect(self, granted: Granted, checkpoint: Checkpoint, note: Note) -> Made:
        """Do it, whole; or raise, with the world as it was before; or raise `IncompleteError`.

        `note` records, durably, what `recover_effect` or `undo` will need; they are given all that was noted.
        """

    @abstractmethod
    def recover_effect(self, checkpoint: Checkpoint, notes: Notes, note: Note) -> Made | None:
        """What a process that died had begun: finished, if it had reached the world; else cleared away, and None."""

    @abstractmethod
    def undo(self, checkpoint: Checkpoint, notes: Notes, note: Note) -> None:
        """Leave the world as it was before."""

    @abstractmethod
    def verify_effect(self, checkpoint: Checkpoint, made: Made) -> None:
        """Look at the world. `VerificationFailedError` if it is not as the effect says."""

    @abstractmethod
    def succeed(self, request: Request, checkpoint: Checkpoint, made: Made) -> Outcome: ...

    @abstractmethod
    def fail(self, request: Request, problem: RemitError, checkpoint: Checkpoint | None = None) -> Outcome:
        """`checkpoint` is there once the intent was recorded."""

    def publish(self, checkpoint: Checkpoint, outcome: Outcome) -> None:
        """Write what people read, durably, before the outcome counts. `ReportWriteError` undoes an effect that
        succeeded.
        """

    def commit(self, checkpoint: Checkpoint, outcome: Outcome, note: Note) -> None:
        """Make final what is prepared elsewhere. `VerificationFailedError` if that surely did not happen: then all is
        undone.
        """

    def clear_up(self, checkpoint: Checkpoint, outcome: Outcome, note: Note) -> None:
        """Remove what only an undo needed. It is noted first: from there on it is finished and never undone."""

    def discard(self, checkpoint: str) -> None:
        """A checkpoint whose intent was never recorded: remove what it refers to."""

    @abstractmethod
    def store_outcome(self, outcome: Outcome) -> str: ...

    def show_outcome(self, outcome: Outcome, stored: str) -> Mapping[str, Any]:  # noqa: ARG002 - for doors that show less
        """What the ledger shows of it, beside its digest."""
        return {"outcome": json.loads(stored)}

    @abstractmethod
    def load_outcome(self, stored: str, recorded_at: str) -> Outcome:
        """A stored outcome, its signature verified."""

    def extra_entries(self, request: Request, outcome: Outcome) -> Sequence[ExtraRecord]:  # noqa: ARG002 - for doors that do
        """Entries and rows of the operation's own, masked, in the transaction of this outcome or refusal."""
        return ()


def run_operation(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome],
    raw: tuple[bytes, ...],
    context: ExecutionContext,
    *,
    dry_run: bool = False,
    on_refusal: Callable[[RefusedError], None] = lambda _: None,
    on_stored: Callable[[], None] = lambda: None,
    actor: str | None = None,
) -> Outcome | Preview:
    """Take a request through the steps. Bytes that cannot be parsed raise; all else ends in a signed, recorded outcome.

    A dry run raises what a full run would record as refused: it signs and records nothing. `on_refusal` is told of a
    refusal in steps 2 to 7: by this call nothing was claimed or done. `on_stored` is told when the outcome is one from
    before: by this call nothing was done either. `actor` is who asks: the intent names him.
    """
    with ExecutionSpan(operation.name) as span, ExitStack() as cleanup:
        operation = span.follow(operation)
        request = operation.parse(raw)  # 1. parse
        journal = span.follow(Journal(context.ledger, operation.trace(request), context.hosts, context.patience, actor))
        try:
            granted = journal.check_authority(
                operation.verify_authority, request, context.clock()
            )  # 2. verify authority
            cleanup.callback(operation.release, granted)
            execution = _claim_request(operation, journal, request, granted, context.clock, dry_run=dry_run)
        except RefusedError as problem:
            span.refused(problem.reason)
            on_refusal(problem)
            if dry_run:
                raise
            refusal = operation.fail(request, problem)
            journal.record_refusal(problem, operation.extra_entries(request, refusal))
            return refusal
        if isinstance(execution, StoredOutcome):
            span.ending = "stored"
            on_stored()
            return operation.load_outcome(*execution)
        if isinstance(execution, Preview):
            span.ending = "previewed"
            return execution
        outcome = _execute(operation, journal, request, granted, *execution)
        span.ending = "done"
        return outcome


def _claim_request(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome],
    journal: Journal,
    request: Request,
    granted: Granted,
    clock: Clock,
    *,
    dry_run: bool,
) -> tuple[ClaimedExecution, Checkpoint] | StoredOutcome | Preview:
    """Steps 3 to 7, again from the start whenever another process was faster."""

    def require_valid(now: datetime) -> None:
        journal.check_authority(operation.require_still_valid, granted, now)

    while True:
        found = journal.find_existing()
        if isinstance(found, StoredOutcome):
            return found
        decision = operation.decide(request)  # 3. decide
        decision.require()
        if found is not None:  # the world may be half changed, so looking at it now would tell nothing
            if dry_run:
                return _unfinished(operation.trace(request))
            _, checkpoint = operation.load_checkpoint(found.checkpoint)
            execution = journal.resume(found, require_valid, functools.partial(operation.recheck_authority, granted))
        else:
            try:
                preview = operation.preview(granted)  # 4. preview
                if dry_run:
                    return preview
                consent = operation.consent(granted, preview, clock())  # 5. consent
                checkpoint_text, checkpoint = _make_checkpoint(operation, granted, preview)  # 6. checkpoint
            except (RefusedError, EnvironmentFailureError) as problem:
                if journal.find_existing() is None:
                    raise _as_refusal(problem) from None
                continue  # the faster one has changed what we looked at
            reach("road.checkpoint_made")
            intent = _intent(decision, preview, consent)
            execution = _record_intent(operation, journal, granted, intent, checkpoint_text, require_valid)
        if execution is not None:
            return execution, checkpoint


def _make_checkpoint(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome], granted: Granted, preview: Preview
) -> tuple[str, Checkpoint]:
    """With everything ready for the effect. If that fails, or is interrupted, nothing of the checkpoint stays."""
    checkpoint_text = operation.checkpoint(granted, preview)
    try:
        _, checkpoint = operation.load_checkpoint(checkpoint_text)
        operation.prewarm(granted, checkpoint)
    except BaseException:
        operation.discard(checkpoint_text)
        raise
    return checkpoint_text, checkpoint


def _record_intent(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome],
    journal: Journal,
    granted: Granted,
    intent: dict[str, Any],
    checkpoint: str,
    require_valid: Callable[[datetime], None],
) -> ClaimedExecution | None:
    try:
        consume_authority = functools.partial(operation.consume_authority, granted)
        execution = journal.claim(intent, checkpoint, require_valid, consume_authority)  # 7. intent
    except RefusedError:  # anything else: it may be recorded, for all we know
        operation.discard(checkpoint)
        raise
    if execution is None:
        operation.discard(checkpoint)
    return execution


def _execute(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome],
    journal: Journal,
    request: Request,
    granted: Granted,
    execution: ClaimedExecution,
    checkpoint: Checkpoint,
) -> Outcome:
    """Steps 8 to 11. What cannot be told apart from a crash is left as a crash leaves it: claimed, for recovery."""
    interrupted: BaseException | None = None
    try:
        reach("road.taken_over" if execution.resumed else "road.intent_recorded")
        made = operation.recover_effect(checkpoint, journal.notes(), journal.note) if execution.resumed else None
        if execution.resumed:
            reach("road.settled")
        try:
            made = operation.effect(granted, checkpoint, journal.note) if made is None else made  # 8. effect
        except IncompleteError:
            raise
        except BaseException as problem:  # noqa: BLE001 - whatever an effect throws is an executed failure
            interrupted = None if isinstance(problem, Exception) else problem
            outcome = finish_failure(operation, request, checkpoint, _as_failure(problem))
        else:
            reach("road.effect_done")
            outcome = conclude(operation, journal, request, checkpoint, made)
        outcome = record(operation, journal, execution, request, checkpoint, outcome)
    except BaseException as problem:
        journal.abandon(execution.claim, to_anybody=isinstance(problem, SuspendedError))
        if isinstance(problem, RefusedError):  # which would say that nothing was touched
            raise _unknown_outcome(problem, operation.trace(request)) from problem
        raise
    if interrupted is not None:
        raise interrupted
    return outcome  # 11. report


def conclude(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome],
    journal: Journal,
    request: Request,
    checkpoint: Checkpoint,
    made: Made,
) -> Outcome:
    """The outcome of an effect that took place, once the world was looked at. One that is contradicted is undone."""
    try:
        operation.verify_effect(checkpoint, made)  # 9. verify
        outcome = operation.succeed(request, checkpoint, made)
        operation.publish(checkpoint, outcome)
        operation.commit(checkpoint, outcome, journal.note)
    except (VerificationFailedError, ReportWriteError) as problem:
        try:
            operation.undo(checkpoint, journal.notes(), journal.note)
        except RemitError as second:
            raise _unknown_outcome(second, operation.trace(request)) from problem
        return finish_failure(operation, request, checkpoint, problem)
    reach("road.published")
    operation.clear_up(checkpoint, outcome, journal.note)
    return outcome


def finish_failure(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome],
    request: Request,
    checkpoint: Checkpoint,
    problem: RemitError,
) -> Outcome:
    """A failure that is to be recorded: nothing of it stands in the world any more."""
    outcome = operation.fail(request, problem, checkpoint)
    FAILURES.add(operation.name, problem.reason.value)
    operation.publish(checkpoint, outcome)
    return outcome


def record(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome],
    journal: Journal,
    execution: ClaimedExecution,
    request: Request,
    checkpoint: Checkpoint,
    outcome: Outcome,
) -> Outcome:
    """The outcome, for ever. One that the ledger does not take is no outcome: the effect is undone, and fails."""
    try:
        stored = operation.store_outcome(outcome)
        extra = operation.extra_entries(request, outcome)
        journal.record_outcome(execution.claim, stored, operation.show_outcome(outcome, stored), extra)  # 10. outcome
    except EnvironmentFailureError as problem:
        raise _unrecorded(problem, operation.trace(request)) from problem
    except RefusedError as problem:
        if problem.reason is Reason.IDEMPOTENCY_CONFLICT:  # another process took it over, and its outcome counts
            raise
        operation.undo(checkpoint, journal.notes(), journal.note)
        outcome = finish_failure(operation, request, checkpoint, problem)
        stored = operation.store_outcome(outcome)
        extra = operation.extra_entries(request, outcome)
        journal.record_outcome(execution.claim, stored, operation.show_outcome(outcome, stored), extra)
    reach("road.outcome_recorded")
    return outcome


def _intent(decision: PolicyDecision, preview: Preview, consent: str) -> dict[str, Any]:
    shown = {"preview": preview.summary, "preview_digest": preview.digest, "consent": consent}
    return {**decision.as_json(), **shown}


def _unfinished(trace: RequestIds) -> Preview:
    summary = "what a process that died had begun is finished; or, had it not taken effect, done from the start"
    return Preview(f"{trace.capability_id or trace.scope} {trace.key}: {summary}", trace.request_digest)


def _unknown_outcome(problem: RemitError, trace: RequestIds) -> IncompleteError:
    if isinstance(problem, IncompleteError):  # the operation has said it in words of its own
        return problem
    return IncompleteError(
        Reason.EFFECT_FAILED,
        f"the effect was begun, and whether it is done could not be told: {problem.what}",
        where=problem.where or f"{trace.scope} {trace.key}",
        next_step=RECOVER_ADVICE,
    )


def _unrecorded(problem: EnvironmentFailureError, trace: RequestIds) -> IncompleteError:
    """The world is as the outcome says, and the report of it could not be written."""
    return IncompleteError(
        problem.reason,
        f"it came to its end, and how it ended could not be recorded: {problem.what}",
        where=problem.where or f"{trace.scope} {trace.key}",
        next_step="Fix what stands in the way, then run: remit recover. Do not ask for it under another id.",
    )


def _as_refusal(problem: RefusedError | EnvironmentFailureError) -> RefusedError:
    """Nothing was done yet, whatever the reason."""
    if isinstance(problem, RefusedError):
        return problem
    return RefusedError(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)


def _as_failure(problem: BaseException) -> RemitError:
    if isinstance(problem, Exception):
        return as_remit_error(problem)
    return EnvironmentFailureError(Reason.EFFECT_FAILED, f"the effect was interrupted ({type(problem).__name__})")
