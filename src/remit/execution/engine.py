"""The execution engine: the steps that every request takes. A dry run takes the same steps and stops after step 4.

 1. parse: untrusted bytes to a closed model
 2. verify authority: signature, binding, expiry, revocation
 3. decide: a pure policy decision with its reasons
 4. preview: the exact effect, masked for people, with a digest of the unmasked request
 5. consent: an approval bound to that digest, where the operation needs one
 6. checkpoint: the data for finishing or undoing the effect, durable
 7. intent: the ledger entry about the coming effect, and the claim of the idempotency key, durable
 8. effect: the change itself
 9. verify: the files and databases are as the effect reported. Then the reports are written, prepared transactions on
    servers are committed, and data that only an undo needed is removed
10. outcome: signed, and appended to the ledger in one transaction with the end of the claim
11. report: the caller gets the outcome

A refusal in steps 2 to 7 is recorded too, but claims no key. Otherwise one caller could use up the task id of another.
A request that a dead process had started enters at step 7, with the checkpoint of that process.

The engine knows only the order. `Operation` has a method for each step, and each kind of request implements it:
`plans/operation.py` (start there), `plans/rollback/operation.py`, `tasks/operation.py`, `browser/operation.py`,
`browser/request_operation.py`, `calls/operation.py`, `goals/simulation_executor.py`. A new check or effect belongs into
an operation, not into this module. `journal.py` writes the records of a request: refusal, claim, intent, outcome.
`recovery.py` finishes or undoes interrupted requests.

A call of `reach` marks a fault point: a place where tests kill the process. The names of the points of the engine
begin with `road.`. A new point is listed in `FAULT_POINTS` (`core/faultpoints.py`) and is placed directly after its
durable step. The test of its operation kills the process there, and a table in `tests/crash/store/cases.py` names that
test: `KILLED_IN` for a point of the host, `SWEPT_IN` for a point of a sandboxed process.
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
"""The time that a second caller waits for the outcome of the first."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect of a request before it happens.

    `summary` is a masked sentence for people. `digest` is that of the unmasked request; approvals are bound to it.
    """

    summary: str
    digest: str


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """The environment of the engine: ledger, clock, and the folder with the locks of processes that run tasks."""

    ledger: Ledger
    clock: Clock
    hosts: Path
    patience: float = PATIENCE_SECONDS


class VerificationFailedError(EnvironmentFailureError):
    """The effect reported success, but the files or databases are not as it reported."""


class ReportWriteError(EnvironmentFailureError):
    """The effect is done, but its reports could not be written."""


class IncompleteError(EnvironmentFailureError):
    """The effect failed, and is neither complete nor undone. The request stays claimed, and recovery continues it."""


class SuspendedError(IncompleteError):
    """The request was started and is suspended until a caller repeats it. Any process may resume it."""


class Operation(ABC, Generic[Request, Granted, Checkpoint, Made, Outcome]):
    """The implementation of the numbered steps for one kind of request. `run_operation` fixes the order.

    A `RefusedError` from a hook of steps 2 to 7 refuses the request: it is recorded, and nothing was changed.
    """

    name: str
    """The scope of the operation's claims, and the first word of the kinds of its ledger entries."""
    counts_refusals_as: str = ""
    """The name of the operation if many refusals of one caller are counted instead of recorded one by one."""
    try_again: str = "If it is still wanted, ask for it again, under another id."
    """The next step after a request that took no effect because its process died."""

    @abstractmethod
    def parse(self, raw: tuple[bytes, ...]) -> Request:
        """Parse untrusted bytes into a closed model (step 1).

        Args:
            raw: The documents of the request, as they were received.

        Returns:
            The request. Nothing in it is verified.

        Raises:
            RefusedError: A document is malformed. This refusal is not recorded.
        """

    @abstractmethod
    def trace(self, request: Request) -> RequestIds:
        """Name the ids that connect all records of the request.

        Args:
            request: The parsed request.

        Returns:
            The ids, the key and the digest of the request.
        """

    @abstractmethod
    def verify_authority(self, request: Request, now: datetime) -> Granted:
        """Verify the signature, binding, expiry and revocation of the authority (step 2).

        Args:
            request: The parsed request.
            now: The current time.

        Returns:
            The request in a type that only verification makes.

        Raises:
            RefusedError: The authority is not valid for this request.
        """

    @abstractmethod
    def decide(self, request: Request) -> PolicyDecision:
        """Decide whether the policy allows the request (step 3). Changes nothing.

        Args:
            request: The parsed request. After a crash, the request of `load_checkpoint`.

        Returns:
            The decision with its reasons. The engine refuses the request unless the decision allows it.
        """

    @abstractmethod
    def preview(self, granted: Granted) -> Preview:
        """Compute the exact effect without changing anything (step 4).

        Args:
            granted: The verified request.

        Returns:
            A masked summary for people, and the digest that approvals are bound to.

        Raises:
            RefusedError: The request cannot take effect as it is.
            EnvironmentFailureError: The machine could not compute it. The engine records this as a refusal.
        """

    @abstractmethod
    def consent(self, granted: Granted, preview: Preview, now: datetime) -> str:
        """Require the approval that this request needs (step 5).

        Args:
            granted: The verified request.
            preview: The result of `preview`.
            now: The current time.

        Returns:
            Who approved it and how, for the intent.

        Raises:
            RefusedError: The approval is missing, or is for another effect.
        """

    @abstractmethod
    def checkpoint(self, granted: Granted, preview: Preview) -> str:
        """Make durable the data for finishing or undoing the effect (step 6).

        Args:
            granted: The verified request.
            preview: The result of `preview`.

        Returns:
            The checkpoint as text. Every file that it refers to is durable.
        """

    def prewarm(self, granted: Granted, checkpoint: Checkpoint) -> None:
        """Prepare the effect before the intent is recorded. Makes no change outside of the process yet.

        Args:
            granted: The verified request.
            checkpoint: The checkpoint, as `load_checkpoint` returns it.
        """

    def release(self, granted: Granted) -> None:
        """Release prepared resources, used or not. The engine calls this however the request ends.

        Args:
            granted: The verified request.
        """

    @abstractmethod
    def require_still_valid(self, granted: Granted, now: datetime) -> None:
        """Check expiry and revocation again, inside the transaction of the intent (step 7).

        Args:
            granted: The verified request.
            now: The time of the transaction. A clock that was set back cannot make it earlier.

        Raises:
            RefusedError: The authority is no longer valid. No intent is recorded.
        """

    def consume_authority(self, granted: Granted, batch: Batch, now: datetime) -> None:
        """Use up single-use authority, such as an approval, in the transaction of the intent (step 7).

        Args:
            granted: The verified request.
            batch: The transaction.
            now: The time of the transaction.

        Raises:
            RefusedError: The authority was used before. The intent is then not recorded either.
        """

    def recheck_authority(self, granted: Granted, batch: Batch, now: datetime) -> None:
        """Check the authority again when this call resumes a request of a dead process. Uses nothing up twice.

        Args:
            granted: The verified request of the resuming call.
            batch: The transaction that takes the claim over.
            now: The time of the transaction.

        Raises:
            RefusedError: The authority is not valid. The claim is not taken over.
        """

    @abstractmethod
    def load_checkpoint(self, text: str) -> tuple[Request, Checkpoint]:
        """Load a checkpoint, in this process or in one that resumes the request.

        Args:
            text: The text that `checkpoint` returned. It was compared with the ledger.

        Returns:
            The request, which has no authority any more, and the checkpoint.

        Raises:
            EnvironmentFailureError: Another version of Remit wrote the checkpoint.
        """

    @abstractmethod
    def effect(self, granted: Granted, checkpoint: Checkpoint, note: Note) -> Made:
        """Make the change completely, or raise after undoing it (step 8).

        Args:
            granted: The verified request.
            checkpoint: The loaded checkpoint.
            note: Durably records data for `recover_effect` and `undo`, which receive all notes.

        Returns:
            The result of the effect, for `verify_effect` and `succeed`.

        Raises:
            IncompleteError: The change is neither complete nor undone. The request stays claimed for recovery.
            Exception: Any other exception means that nothing is changed. It is recorded as a failure.
        """

    @abstractmethod
    def recover_effect(self, checkpoint: Checkpoint, notes: Notes, note: Note) -> Made | None:
        """Finish the effect of a dead process if it had changed anything outside; else remove its remains.

        Args:
            checkpoint: The loaded checkpoint.
            notes: Everything that `note` recorded for this request.
            note: As in `effect`.

        Returns:
            The result of the finished effect, or None if it had not taken effect.

        Raises:
            RemitError: It cannot be finished now. The request stays claimed.
        """

    @abstractmethod
    def undo(self, checkpoint: Checkpoint, notes: Notes, note: Note) -> None:
        """Restore the state from before the effect.

        Args:
            checkpoint: The loaded checkpoint.
            notes: Everything that `note` recorded for this request.
            note: As in `effect`.

        Raises:
            RemitError: The undo is not complete. The request stays claimed, and recovery continues it.
        """

    @abstractmethod
    def verify_effect(self, checkpoint: Checkpoint, made: Made) -> None:
        """Compare files and databases with the report of the effect (step 9).

        Args:
            checkpoint: The loaded checkpoint.
            made: The result of the effect.

        Raises:
            VerificationFailedError: They differ. The engine undoes the effect.
        """

    @abstractmethod
    def succeed(self, request: Request, checkpoint: Checkpoint, made: Made) -> Outcome:
        """Build and sign the outcome of a verified effect.

        Args:
            request: The request.
            checkpoint: The loaded checkpoint.
            made: The result of the effect.

        Returns:
            The outcome.
        """

    @abstractmethod
    def fail(self, request: Request, problem: RemitError, checkpoint: Checkpoint | None = None) -> Outcome:
        """Build and sign the outcome of a refusal or a failure.

        Args:
            request: The request.
            problem: The reason.
            checkpoint: The loaded checkpoint, or None for a refusal: no intent was recorded.

        Returns:
            The outcome.
        """

    def publish(self, checkpoint: Checkpoint, outcome: Outcome) -> None:
        """Write the reports for people durably, before the outcome is recorded (step 9).

        Args:
            checkpoint: The loaded checkpoint.
            outcome: The outcome.

        Raises:
            ReportWriteError: A report could not be written. The engine undoes an effect that succeeded.
        """

    def commit(self, checkpoint: Checkpoint, outcome: Outcome, note: Note) -> None:
        """Commit the transactions that are prepared on servers (step 9).

        Args:
            checkpoint: The loaded checkpoint.
            outcome: The outcome.
            note: As in `effect`.

        Raises:
            VerificationFailedError: The commit certainly did not happen. The engine undoes the whole effect.
        """

    def clear_up(self, checkpoint: Checkpoint, outcome: Outcome, note: Note) -> None:
        """Remove data that only an undo needed (step 9). A note before it says that no undo follows any more.

        Args:
            checkpoint: The loaded checkpoint.
            outcome: The outcome.
            note: As in `effect`.
        """

    def discard(self, checkpoint: str) -> None:
        """Remove what a checkpoint refers to, because its intent was never recorded.

        Args:
            checkpoint: The text that `checkpoint` returned.
        """

    @abstractmethod
    def store_outcome(self, outcome: Outcome) -> str:
        """Render the outcome for the store (step 10).

        Args:
            outcome: The outcome.

        Returns:
            The text. Its digest is recorded in the ledger.
        """

    def show_outcome(self, outcome: Outcome, stored: str) -> Mapping[str, Any]:  # noqa: ARG002 - some show less
        """Select what the ledger entry shows of the outcome, beside its digest.

        Args:
            outcome: The outcome.
            stored: The text of `store_outcome`.

        Returns:
            A part of the payload of the entry. The journal masks it.
        """
        return {"outcome": json.loads(stored)}

    @abstractmethod
    def load_outcome(self, stored: str, recorded_at: str) -> Outcome:
        """Load a stored outcome and verify its signature.

        Args:
            stored: The text of `store_outcome`. Its digest was compared with the ledger.
            recorded_at: The time of its ledger entry.

        Returns:
            The outcome.

        Raises:
            RemitError: The signature is not valid.
        """

    def describe_refusal(self, request: Request, problem: RefusedError) -> Mapping[str, Any]:  # noqa: ARG002 - some do
        """Say more about a refused request in its ledger entry than the problem says.

        Args:
            request: The request.
            problem: The refusal.

        Returns:
            A part of the payload of the entry. The journal masks it.
        """
        return {}

    def extra_entries(self, request: Request, outcome: Outcome) -> Sequence[ExtraRecord]:  # noqa: ARG002 - some do
        """Name entries and rows of the operation's own, for the transaction of this outcome or refusal.

        Args:
            request: The request.
            outcome: The outcome, or the refusal.

        Returns:
            The entries and rows, masked.
        """
        return ()


@dataclass(frozen=True, slots=True)
class Parsed(Generic[Request]):
    """A request that its caller has parsed. A document is parsed once, where it comes in."""

    request: Request


def run_operation(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome],
    raw: tuple[bytes, ...] | Parsed[Request],
    context: ExecutionContext,
    *,
    dry_run: bool = False,
    on_refusal: Callable[[RefusedError], None] = lambda _: None,
    on_stored: Callable[[], None] = lambda: None,
    actor: str | None = None,
) -> Outcome | Preview:
    """Run a request through the steps. Every request that can be parsed ends in a signed, recorded outcome.

    A dry run signs and records nothing.

    Args:
        operation: The implementation of the steps.
        raw: The documents of the request, or the request itself if the caller has parsed it already.
        context: The environment of the engine.
        dry_run: Stop after step 4.
        on_refusal: Called with a refusal of steps 2 to 7. This call claimed and changed nothing.
        on_stored: Called when an earlier call made the outcome. This call changed nothing.
        actor: The caller, whom the intent names.

    Returns:
        The outcome; for a dry run the preview, or the stored outcome of an earlier call.

    Raises:
        RefusedError: The bytes cannot be parsed; or a dry run was refused.
        EnvironmentFailureError: Neither success nor failure could be recorded. If the intent was recorded, the request
            stays claimed, and recovery continues it.
    """
    with ExecutionSpan(operation.name) as span, ExitStack() as cleanup:
        operation = span.follow(operation)
        request = raw.request if isinstance(raw, Parsed) else operation.parse(raw)  # 1. parse
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
            journal.record_refusal(
                problem,
                operation.extra_entries(request, refusal),
                details=operation.describe_refusal(request, problem),
                counted_as=operation.counts_refusals_as,
            )
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
    """Take steps 3 to 7, again from the start whenever another process was faster."""

    def require_valid(now: datetime) -> None:
        journal.check_authority(operation.require_still_valid, granted, now)

    while True:
        found = journal.find_existing()
        if isinstance(found, StoredOutcome):
            return found
        decision = operation.decide(request)  # 3. decide
        decision.require()
        if found is not None:  # the change may be half done, so a preview would be wrong
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
                continue  # the faster process has changed the files that were previewed
            reach("road.checkpoint_made")
            intent = _intent(decision, preview, consent)
            execution = _record_intent(operation, journal, granted, intent, checkpoint_text, require_valid)
        if execution is not None:
            return execution, checkpoint


def _make_checkpoint(
    operation: Operation[Request, Granted, Checkpoint, Made, Outcome], granted: Granted, preview: Preview
) -> tuple[str, Checkpoint]:
    """Make the checkpoint and prepare the effect. A failure or an interrupt removes everything of the checkpoint."""
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
    except RefusedError:  # after any other exception the intent may be recorded
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
    """Take steps 8 to 11. A failure that looks the same as a crash leaves the request claimed, for recovery."""
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
        if isinstance(problem, RefusedError):  # a refusal would say that nothing was changed
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
    """Verify an effect that took place, and return its outcome. Undo the effect if verification contradicts it."""
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
    """Build and publish the outcome of a failure whose effect is completely undone."""
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
    """Record the outcome. If the ledger rejects it, undo the effect and record a failure."""
    try:
        stored = operation.store_outcome(outcome)
        extra = operation.extra_entries(request, outcome)
        journal.record_outcome(execution.claim, stored, operation.show_outcome(outcome, stored), extra)  # 10. outcome
    except EnvironmentFailureError as problem:
        raise _unrecorded(problem, operation.trace(request)) from problem
    except RefusedError as problem:
        if problem.reason is Reason.IDEMPOTENCY_CONFLICT:  # another process took it over, and its outcome is valid
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
    summary = "a dead process had started it: it is finished, or started again if it had not taken effect"
    return Preview(f"{trace.capability_id or trace.scope} {trace.key}: {summary}", trace.request_digest)


def _unknown_outcome(problem: RemitError, trace: RequestIds) -> IncompleteError:
    if isinstance(problem, IncompleteError):  # the operation's own words say more
        return problem
    return IncompleteError(
        Reason.EFFECT_FAILED,
        f"the effect was started, and it is not known whether it is done: {problem.what}",
        where=problem.where or f"{trace.scope} {trace.key}",
        next_step=RECOVER_ADVICE,
    )


def _unrecorded(problem: EnvironmentFailureError, trace: RequestIds) -> IncompleteError:
    """The effect is as the outcome says, but the outcome could not be recorded."""
    return IncompleteError(
        problem.reason,
        f"the operation finished, but its outcome could not be recorded: {problem.what}",
        where=problem.where or f"{trace.scope} {trace.key}",
        next_step="Fix the cause, then run: remit recover. Do not ask for it under another id.",
    )


def _as_refusal(problem: RefusedError | EnvironmentFailureError) -> RefusedError:
    """Return the problem as a refusal, because nothing was changed yet."""
    if isinstance(problem, RefusedError):
        return problem
    return RefusedError(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)


def _as_failure(problem: BaseException) -> RemitError:
    if isinstance(problem, Exception):
        return as_remit_error(problem)
    return EnvironmentFailureError(Reason.EFFECT_FAILED, f"the effect was interrupted ({type(problem).__name__})")
