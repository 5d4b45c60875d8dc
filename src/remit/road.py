"""The road every request takes, whatever its door. A dry run is the same road, stopped after step 4.

 1. parse: untrusted bytes to a closed model
 2. verify authority: signature, binding, expiry, revocation
 3. decide: may it happen (pure; a decision with its reasons)
 4. preview: the exact effect, masked for people, with a digest of the unmasked
 5. consent: a yes bound to that digest, where the door asks for one
 6. checkpoint: what is needed to go back, durable
 7. intent: the ledger says what is about to happen, and the idempotency key is claimed, durable
 8. effect: the thing itself
 9. verify: the world is as the effect claimed
10. outcome: signed, appended, in one transaction with the idempotency record
11. report

A refusal in steps 2 to 5 is recorded too, but claims no key: else anybody could use up somebody else's task.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from remit.canonical import digest_bytes
from remit.errors import Reason, Refused, RemitError, as_remit_error
from remit.faultpoints import reach
from remit.ids import Clock, render_time
from remit.ledger.append import Batch, Ledger
from remit.ledger.entry import Event
from remit.masking import mask_json
from remit.policy.decision import Decision
from remit.store.claims import ClaimKey, Done, Running, Won, claim, find_claim, finish_claim

Request = TypeVar("Request")
Granted = TypeVar("Granted")
Made = TypeVar("Made")
Outcome = TypeVar("Outcome")

_LOG: Final = logging.getLogger("remit.road")


@dataclass(frozen=True, slots=True)
class Trace:
    """What ties every record of one request together."""

    tenant_id: str
    correlation_id: str
    door: str
    key: str
    request_digest: str
    task_id: str | None = None
    capability_id: str | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """What will happen: a masked sentence for people, and a digest of the unmasked request for binding a yes to it."""

    summary: str
    digest: str


class Door(ABC, Generic[Request, Granted, Made, Outcome]):
    """What the numbered steps mean for one kind of request. A door has no order of its own."""

    @abstractmethod
    def parse(self, raw: tuple[bytes, ...]) -> Request: ...

    @abstractmethod
    def trace(self, request: Request) -> Trace: ...

    @abstractmethod
    def verify_authority(self, request: Request, now: datetime) -> Granted: ...

    @abstractmethod
    def decide(self, granted: Granted) -> Decision: ...

    @abstractmethod
    def preview(self, granted: Granted) -> Preview: ...

    @abstractmethod
    def consent(self, granted: Granted, preview: Preview, now: datetime) -> str:
        """Who said yes, and how; or a refusal."""

    @abstractmethod
    def checkpoint(self, granted: Granted) -> None: ...

    @abstractmethod
    def require_alive(self, granted: Granted, now: datetime) -> None:
        """Expiry and revocation once more, right before the intent."""

    @abstractmethod
    def effect(self, granted: Granted) -> Made: ...

    @abstractmethod
    def verify_effect(self, granted: Granted, made: Made) -> None: ...

    @abstractmethod
    def succeed(self, request: Request, made: Made) -> Outcome: ...

    @abstractmethod
    def fail(self, request: Request, problem: RemitError) -> Outcome: ...

    @abstractmethod
    def store_outcome(self, outcome: Outcome) -> str: ...

    @abstractmethod
    def load_outcome(self, stored: str) -> Outcome: ...


def travel(
    door: Door[Request, Granted, Made, Outcome],
    raw: tuple[bytes, ...],
    ledger: Ledger,
    clock: Clock,
    *,
    dry_run: bool = False,
    on_refusal: Callable[[Refused], None] = lambda _: None,
) -> Outcome | Preview:
    """Take a request down the road. Bytes that cannot be parsed raise; all else ends in a signed, recorded outcome.

    `on_refusal` is told of a refusal in steps 2 to 7: by this call nothing was claimed or done.
    """
    request = door.parse(raw)  # 1. parse
    trace = door.trace(request)
    try:
        granted = door.verify_authority(request, clock())  # 2. verify authority
        earlier = _earlier_outcome(ledger, trace)
        if earlier is not None:
            return door.load_outcome(earlier)
        decision = door.decide(granted)  # 3. decide
        decision.require()
        preview = door.preview(granted)  # 4. preview
        if dry_run:
            return preview
        consent = door.consent(granted, preview, clock())  # 5. consent
        door.checkpoint(granted)  # 6. checkpoint
        door.require_alive(granted, clock())
        claimed = _record_intent(ledger, trace, decision, preview, consent)  # 7. intent
    except Refused as problem:
        on_refusal(problem)
        if not dry_run:
            _record_refusal(ledger, trace, problem)
        return door.fail(request, problem)
    if isinstance(claimed, Done):  # somebody else was faster between the two looks
        return door.load_outcome(claimed.result)
    reach("road.intent_recorded")
    try:
        made = door.effect(granted)  # 8. effect
        reach("road.effect_done")
        door.verify_effect(granted, made)  # 9. verify
        outcome = door.succeed(request, made)
    except Exception as problem:  # noqa: BLE001 - whatever an effect throws is an executed failure, signed and kept
        outcome = door.fail(request, as_remit_error(problem))
    stored = door.store_outcome(outcome)
    _record_outcome(ledger, trace, claimed, stored)  # 10. outcome
    reach("road.outcome_recorded")
    return outcome  # 11. report


def _earlier_outcome(ledger: Ledger, trace: Trace) -> str | None:
    with ledger.store.reading() as connection:
        found = find_claim(connection, _claim_key(trace), trace.request_digest)
    if isinstance(found, Running):
        raise _unfinished(trace)
    if found is None:
        return None
    _log("earlier outcome returned", trace)
    return found.result


def _record_refusal(ledger: Ledger, trace: Trace, problem: Refused) -> None:
    ledger.append(_event(trace, "refused", problem.as_json()))
    _log("request refused", trace, reason=problem.reason.value)


def _record_intent(ledger: Ledger, trace: Trace, decision: Decision, preview: Preview, consent: str) -> Won | Done:
    intent = {
        "decision": decision.as_json(),
        "preview": preview.summary,
        "preview_digest": preview.digest,
        "consent": consent,
        "request_digest": trace.request_digest,
    }

    def work(batch: Batch) -> Won | Done:
        claimed = claim(batch.store, _claim_key(trace), trace.request_digest, render_time(batch.clock()))
        if isinstance(claimed, Running):
            raise _unfinished(trace)
        if isinstance(claimed, Won):
            batch.append(_event(trace, "intent", intent))
        return claimed

    claimed = ledger.transact(work)
    if isinstance(claimed, Won):
        _log("intent recorded", trace)
    return claimed


def _record_outcome(ledger: Ledger, trace: Trace, won: Won, stored: str) -> None:
    def work(batch: Batch) -> None:
        # Masked here, exact in the claim; the digest ties the two.
        shown = {"outcome": json.loads(stored), "outcome_digest": digest_bytes(stored.encode())}
        batch.append(_event(trace, "outcome", {**shown, "request_digest": trace.request_digest}))
        finish_claim(batch.store, won, stored, render_time(batch.clock()))

    ledger.transact(work)
    _log("outcome recorded", trace)


def _log(message: str, trace: Trace, **fields: str) -> None:
    """After the fact, and only for whoever looks for a fault: nothing is decided by a log."""
    ids = {"correlation_id": trace.correlation_id, "task_id": trace.task_id, "capability_id": trace.capability_id}
    _LOG.info(message, extra={**ids, **fields})


def _claim_key(trace: Trace) -> ClaimKey:
    return ClaimKey(trace.tenant_id, trace.door, trace.key)


def _event(trace: Trace, what: str, payload: dict[str, Any]) -> Event:
    """Masked: what the ledger holds can never be taken out again."""
    shown: Any = mask_json(payload)
    return Event(
        trace.tenant_id,
        f"{trace.door}.{what}",
        trace.correlation_id,
        shown,
        task_id=trace.task_id,
        capability_id=trace.capability_id,
    )


def _unfinished(trace: Trace) -> Refused:
    return Refused(
        Reason.IDEMPOTENCY_CONFLICT,
        "this request was begun before and has no outcome yet",
        where=f"{trace.door} {trace.key}",
        next_step="Ask again in a moment; `remit ledger show` tells what is known of it.",
    )
