"""Recovery of interrupted requests. It finishes or undoes each, and signs and records the outcome.

Recovery needs no authority and starts nothing new. An effect that had changed something is finished. One that had not
becomes a recorded failure, and is not tried again. Recovery may run at any time and in several processes at once, and
may be killed. A request that cannot be recovered now stays as it is and is reported. The others are still recovered.
"""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Generic

from remit.core.errors import EnvironmentFailureError, Reason, RemitError, as_remit_error
from remit.core.faultpoints import reach
from remit.core.metrics import RECOVERED
from remit.execution.engine import (
    Checkpoint,
    ExecutionContext,
    Made,
    Operation,
    Outcome,
    Request,
    SuspendedError,
    conclude,
    finish_failure,
    record,
)
from remit.execution.journal import ClaimedExecution, Journal, RequestIds, is_orphan
from remit.store.claims import ClaimHeld, unfinished
from remit.store.process_identity import is_known_here

NOT_KNOWN: Final = "it is not known whether it took effect"
"""The last words about a request that a person closed without recovery."""


@dataclass(frozen=True, slots=True)
class Recovered(Generic[Outcome]):
    """One interrupted request, with its outcome or with the problem that prevents recovery now."""

    key: str
    began_at: str
    outcome: Outcome | None = None
    took_effect: bool = False
    problem: RemitError | None = None
    unknown: bool = False
    """A person closed it without recovery, so it is not known whether it took effect."""
    kind: str = ""
    """What `key` names, if it is not the key of a claim."""


def recover(
    operation: Operation[Request, Any, Checkpoint, Made, Outcome],
    context: ExecutionContext,
    *,
    excluded: Collection[str] = (),
    presumed_dead: Collection[str] = (),
    abandoned: Collection[str] = (),
) -> list[Recovered[Outcome]]:
    """Recover every request of this operation whose process is dead. Other requests are not touched.

    Args:
        operation: The operation that the requests belong to.
        context: The environment of the engine.
        excluded: Keys of requests that the caller recovers itself.
        presumed_dead: Keys of requests whose process the caller knows to be dead, where this process cannot check it:
            on another machine, or before a reboot.
        abandoned: Keys of requests to close although they cannot be recovered. Closing changes no file, and records an
            outcome which says that the effect is unknown.

    Returns:
        A report for each request that was recovered, or that could not be.
    """
    with context.ledger.store.reading() as connection:
        claims = [claimed for claimed in unfinished(connection, operation.name) if claimed.key.key not in excluded]
    reports = []
    for claimed in claims:
        dead = is_orphan(claimed, context.ledger.store.dialect) or claimed.key.key in presumed_dead
        if not dead and is_known_here(claimed.owner):
            continue  # its process is at work on it
        try:
            closed = claimed.key.key in abandoned
            report = _recover_one(operation, context, claimed, closed=closed) if dead else _unknown(claimed)
        except Exception as problem:  # noqa: BLE001 - one stuck request must not prevent recovery of the others
            report = Recovered(claimed.key.key, claimed.claimed_at, problem=as_remit_error(problem))
        if report is not None:
            RECOVERED.add(operation.name, _ending(report))
            reports.append(report)
    return reports


def _recover_one(
    operation: Operation[Request, Any, Checkpoint, Made, Outcome],
    context: ExecutionContext,
    orphan: ClaimHeld,
    *,
    closed: bool,
) -> Recovered[Outcome] | None:
    """Recover or close one request. Returns None if another process was faster."""
    key = orphan.key
    placeholder = RequestIds(key.tenant_id, orphan.correlation_id, key.scope, key.key, orphan.request_digest)
    Journal(context.ledger, placeholder, context.hosts, 0).require_intended(orphan)
    request, checkpoint = operation.load_checkpoint(orphan.checkpoint)
    trace = dataclasses.replace(operation.trace(request), correlation_id=orphan.correlation_id)
    if (trace.key, trace.request_digest) != (key.key, orphan.request_digest):
        raise EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            "the checkpoint belongs to another request than its claim; nothing was changed",
            where=f"{key.scope} {key.key}",
            next_step="Keep the database as it is and run `remit ledger verify`.",
        )
    if not closed:
        operation.decide(request).require()
    journal = Journal(context.ledger, trace, context.hosts, 0)
    execution = journal.resume(orphan, lambda _: None)
    if execution is None:
        return None
    try:
        if closed:
            return _close(operation, journal, execution, request, checkpoint, orphan)
        return _finish(operation, journal, execution, request, checkpoint, orphan)
    except BaseException as problem:
        journal.abandon(execution.claim, to_anybody=isinstance(problem, SuspendedError))
        raise


def _finish(
    operation: Operation[Request, Any, Checkpoint, Made, Outcome],
    journal: Journal,
    execution: ClaimedExecution,
    request: Request,
    checkpoint: Checkpoint,
    orphan: ClaimHeld,
) -> Recovered[Outcome]:
    reach("road.taken_over")
    made = operation.recover_effect(checkpoint, journal.notes(), journal.note)
    reach("road.settled")
    if made is None:
        problem = EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "it was interrupted before it took effect; nothing was changed",
            next_step=operation.try_again,
        )
        outcome = finish_failure(operation, request, checkpoint, problem)
    else:
        outcome = conclude(operation, journal, request, checkpoint, made)
    outcome = record(operation, journal, execution, request, checkpoint, outcome)
    return Recovered(orphan.key.key, orphan.claimed_at, outcome, took_effect=made is not None)


def _close(
    operation: Operation[Request, Any, Checkpoint, Made, Outcome],
    journal: Journal,
    execution: ClaimedExecution,
    request: Request,
    checkpoint: Checkpoint,
    orphan: ClaimHeld,
) -> Recovered[Outcome]:
    problem = EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        f"it was interrupted, could not be recovered and was closed; {NOT_KNOWN}",
        next_step="Check the files that it names. A snapshot or backup, if it made one, is kept.",
    )
    outcome = operation.fail(request, problem, checkpoint)
    operation.publish(checkpoint, outcome)  # no `clear_up`: a backup may be the only copy that is left of a file
    outcome = record(operation, journal, execution, request, checkpoint, outcome)
    return Recovered(orphan.key.key, orphan.claimed_at, outcome, unknown=True)


def _ending(report: Recovered[Any]) -> str:
    if report.problem is not None:
        return "stuck"
    if report.unknown:
        return "closed"
    return "finished" if report.took_effect else "cleared"


def _unknown(claimed: ClaimHeld) -> Recovered[Outcome]:
    problem = EnvironmentFailureError(
        Reason.IN_PROGRESS,
        "it was started on another machine, in another container or before a reboot, and may still be running",
        where=f"{claimed.key.scope} {claimed.key.key}",
        next_step=f"Run `remit recover` there. If that process is certainly dead, add: --dead '{claimed.key.key}'",
    )
    return Recovered(claimed.key.key, claimed.claimed_at, problem=problem)
