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

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

from remit.errors import EnvironmentFailed, Reason, Refused, RemitError, as_remit_error
from remit.faultpoints import reach
from remit.ids import Clock
from remit.journal import Journal, Stored, Trace
from remit.ledger.append import Ledger
from remit.policy.decision import Decision

Request = TypeVar("Request")
Granted = TypeVar("Granted")
Made = TypeVar("Made")
Outcome = TypeVar("Outcome")

PATIENCE_SECONDS: Final = 30.0
"""How long a second caller waits for the first one's outcome."""


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
    def resume(self, granted: Granted) -> Made:
        """Finish, or undo and do again, what a process that died had begun."""

    @abstractmethod
    def verify_effect(self, granted: Granted, made: Made) -> None: ...

    @abstractmethod
    def succeed(self, request: Request, made: Made) -> Outcome: ...

    @abstractmethod
    def fail(self, request: Request, problem: RemitError) -> Outcome: ...

    @abstractmethod
    def store_outcome(self, outcome: Outcome) -> str: ...

    @abstractmethod
    def load_outcome(self, stored: str, recorded_at: str) -> Outcome:
        """A stored outcome, its signature verified."""


def travel(
    door: Door[Request, Granted, Made, Outcome],
    raw: tuple[bytes, ...],
    ledger: Ledger,
    clock: Clock,
    *,
    dry_run: bool = False,
    on_refusal: Callable[[Refused], None] = lambda _: None,
    patience: float = PATIENCE_SECONDS,
) -> Outcome | Preview:
    """Take a request down the road. Bytes that cannot be parsed raise; all else ends in a signed, recorded outcome.

    A dry run raises what a full run would record as refused: it signs and records nothing. `on_refusal` is told of a
    refusal in steps 2 to 7: by this call nothing was claimed or done.
    """
    request = door.parse(raw)  # 1. parse
    journal = Journal(ledger, door.trace(request), patience)
    try:
        granted = door.verify_authority(request, clock())  # 2. verify authority
        earlier = journal.earlier_outcome()
        if earlier is not None:
            return door.load_outcome(*earlier)
        decision = door.decide(granted)  # 3. decide
        decision.require()
        preview = door.preview(granted)  # 4. preview
        if dry_run:
            return preview
        consent = door.consent(granted, preview, clock())  # 5. consent
        door.checkpoint(granted)  # 6. checkpoint
        intent = {
            **decision.as_json(),
            "preview": preview.summary,
            "preview_digest": preview.digest,
            "consent": consent,
        }
        entered = journal.enter(intent, lambda now: door.require_alive(granted, now))  # 7. intent
    except Refused as problem:
        on_refusal(problem)
        if dry_run:
            raise
        journal.record_refusal(problem)
        return door.fail(request, problem)
    if isinstance(entered, Stored):  # somebody else was faster between the two looks
        return door.load_outcome(*entered)
    reach("road.intent_recorded")
    interrupted: BaseException | None = None
    try:
        made = door.resume(granted) if entered.resumed else door.effect(granted)  # 8. effect
        reach("road.effect_done")
        door.verify_effect(granted, made)  # 9. verify
        outcome = door.succeed(request, made)
    except BaseException as problem:  # noqa: BLE001 - whatever an effect throws is an executed failure, signed and kept
        interrupted = None if isinstance(problem, Exception) else problem
        outcome = door.fail(request, _as_failure(problem))
    try:
        journal.record_outcome(entered.won, door.store_outcome(outcome))  # 10. outcome
    except Refused as problem:  # it cannot be recorded as it is, but that it failed can
        outcome = door.fail(request, problem)
        journal.record_outcome(entered.won, door.store_outcome(outcome))
    reach("road.outcome_recorded")
    if interrupted is not None:
        raise interrupted
    return outcome  # 11. report


def _as_failure(problem: BaseException) -> RemitError:
    if isinstance(problem, Exception):
        return as_remit_error(problem)
    return EnvironmentFailed(Reason.EFFECT_FAILED, f"the effect was interrupted ({type(problem).__name__})")
