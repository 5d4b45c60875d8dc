"""What a crash left unfinished is finished or cleared away, and the outcome signed and recorded as any other.

Nobody's authority is needed to complete what authority had begun, and none is taken: an effect that had reached the
world is finished; one that had not is a recorded failure, and is not tried again. Safe to run at any time, by several
at once, and to be killed itself. What cannot be settled now stays as it is and is reported; the others go on.
"""

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Generic

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


@dataclass(frozen=True, slots=True)
class Recovered(Generic[Outcome]):
    """One request that somebody had begun: what came of it, or why nothing could be made of it now."""

    key: str
    began_at: str
    outcome: Outcome | None = None
    took_effect: bool = False
    problem: RemitError | None = None
    unknown: bool = False
    """Somebody closed it as it was: whether it took effect is not known."""


def recover(
    operation: Operation[Request, Any, Checkpoint, Made, Outcome],
    context: ExecutionContext,
    *,
    excluded: Collection[str] = (),
    presumed_dead: Collection[str] = (),
    abandoned: Collection[str] = (),
) -> list[Recovered[Outcome]]:
    """Settle every request of this door that was begun by a process that is dead. The others are left alone.

    `excluded` names requests that a caller is about to recover. `presumed_dead` names those whose process somebody
    knows to be dead where we cannot know it: on another machine, or before a reboot. `abandoned` names those that
    somebody closes although they cannot be settled: nothing is touched, and the outcome says that the truth is unknown.
    """
    with context.ledger.store.reading() as connection:
        claims = [claimed for claimed in unfinished(connection, operation.name) if claimed.key.key not in excluded]
    reports = []
    for claimed in claims:
        dead = is_orphan(claimed, context.ledger.store.dialect) or claimed.key.key in presumed_dead
        if not dead and is_known_here(claimed.owner):
            continue  # at work
        try:
            closed = claimed.key.key in abandoned
            report = _recover_one(operation, context, claimed, closed=closed) if dead else _unknown(claimed)
        except Exception as problem:  # noqa: BLE001 - one that cannot be settled must not keep us from the others
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
    """None if somebody else was faster."""
    key = orphan.key
    placeholder = RequestIds(key.tenant_id, orphan.correlation_id, key.scope, key.key, orphan.request_digest)
    Journal(context.ledger, placeholder, context.hosts, 0).require_intended(orphan)
    request, checkpoint = operation.load_checkpoint(orphan.checkpoint)
    trace = dataclasses.replace(operation.trace(request), correlation_id=orphan.correlation_id)
    if (trace.key, trace.request_digest) != (key.key, orphan.request_digest):
        raise EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            "the checkpoint speaks of another request than its claim; nothing was touched",
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
        "it was interrupted and could not be settled; somebody closed it: whether it took effect is not known",
        next_step="Look at the files that it names. A snapshot or backup, if it made one, is kept.",
    )
    outcome = operation.fail(request, problem, checkpoint)
    operation.publish(checkpoint, outcome)  # and nothing is cleared up: it may be all that is left of somebody's file
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
        "it was begun on another machine, in another container or before a reboot: whether it still runs is not known",
        where=f"{claimed.key.scope} {claimed.key.key}",
        next_step=f"Run `remit recover` there; or, if that process is certainly dead: --dead '{claimed.key.key}'",
    )
    return Recovered(claimed.key.key, claimed.claimed_at, problem=problem)
