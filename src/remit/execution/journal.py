"""The road's records of one request: refusal, intent, outcome, and the claim that makes it happen once.

Everything is written through the ledger, so each record is durable, chained and signed. A stored outcome is believed
only if the ledger says the same; a request that somebody is at work on is waited for; one whose process died is taken
over, and the dead one's token is void. The way back is kept with the claim, and is believed only if the intent in the
ledger carries its digest.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from remit.core.canonical import digest_bytes
from remit.core.concurrency import released
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import render_time
from remit.ledger.clock import LedgerAheadError, judge_by_ledger
from remit.ledger.entry import Entry, NewEntry
from remit.ledger.proof import require_covered
from remit.ledger.writer import Batch, Ledger
from remit.masking import mask_json
from remit.store.claims import (
    ClaimAcquired,
    ClaimCompleted,
    ClaimHeld,
    ClaimKey,
    claim,
    find_claim,
    finish_claim,
    new_token,
    release_claim,
    take_over,
)
from remit.store.connection import Connection, Dialect
from remit.store.process_identity import is_before_reboot, is_childless, is_dead, lock_path, this_process

P = ParamSpec("P")
R = TypeVar("R")

FIRST_PAUSE_SECONDS: Final = 0.002
LAST_PAUSE_SECONDS: Final = 0.02
_LOG: Final = logging.getLogger("remit.road")
_RECORDS: Final = """SELECT seq, payload FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind = ? ORDER BY seq"""
_BEFORE: Final = """SELECT kind, created_at, payload FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND (kind = ? OR (kind = ? AND payload LIKE ?)) ORDER BY seq"""
_AS_EXPIRED: Final = '%"reason":"expired"%'
# Tokens of claims that this process holds and has given up, such as when the outcome could not be written. Nobody works
# on them, though their owner lives.
_abandoned_tokens: Final[set[str]] = set()


ExtraRecord = NewEntry | Callable[[Batch], object]
"""What else belongs with a record: an entry, or rows that are written with entries of their own."""


@dataclass(frozen=True, slots=True)
class RequestIds:
    """What ties every record of one request together."""

    tenant_id: str
    correlation_id: str
    scope: str
    key: str
    request_digest: str
    task_id: str | None = None
    capability_id: str | None = None
    authority: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """The digest of the signed permission, where that is something else than the key. Asked for only if it is needed.
    """


class StoredOutcome(NamedTuple):
    """An outcome from before, and when the ledger recorded it."""

    text: str
    recorded_at: str


class ClaimedExecution(NamedTuple):
    """This caller does the work; `resumed` if a process that died had begun it: then the checkpoint is that one's."""

    claim: ClaimAcquired
    checkpoint: str
    resumed: bool


class Journal:
    """The records of one request. `hosts` is where each process that runs tasks keeps its lock; `actor`, who asked for
    it, is named by the intent, and need not count any more when what was begun ends.
    """

    def __init__(
        self, ledger: Ledger, trace: RequestIds, hosts: Path, patience: float, actor: str | None = None
    ) -> None:
        self._ledger = ledger
        self._actor = actor
        self._trace = trace
        self._key = ClaimKey(trace.tenant_id, trace.scope, trace.key)
        self._hosts = hosts
        self._patience = patience
        self._authority_refusal: RefusedError | None = None
        """Why the authority of this request was refused, if it was."""

    def find_existing(self) -> StoredOutcome | ClaimHeld | None:
        """What stands under this request's key: nothing, an outcome, or a claim whose owner is dead.

        Waits for whoever is at work on it, but not for ever. An outcome is checked against the ledger.
        """
        found = self._wait_for_owner()
        return self.verify_stored(found) if isinstance(found, ClaimCompleted) else found

    def claim(
        self,
        intent: dict[str, Any],
        checkpoint: str,
        require_valid: Callable[[datetime], None],
        consume_authority: Callable[[Batch, datetime], None] = lambda _batch, _now: None,
    ) -> ClaimedExecution | None:
        """Claim the request and record the intent, in one transaction; None if somebody else was faster.

        `require_valid` is asked inside the transaction, at a time that no clock set back can make earlier.
        `consume_authority` is called once the claim is acquired: what it uses up is used up with the intent, or not at
        all.
        """
        digests = {
            "request_digest": self._trace.request_digest,
            "checkpoint_digest": digest_bytes(checkpoint.encode()),
        }
        event = self._event_by_actor(
            "intent", {**intent, **digests}
        )  # out here: nobody else writes while a transaction lasts
        token = new_token()
        with _abandon_if_interrupted(token):
            execution = self._ledger.transact(
                partial(self._claim, event, checkpoint, require_valid, consume_authority, token)
            )
        if execution is not None:
            self._log("intent recorded")
        return execution

    def resume(
        self,
        orphan: ClaimHeld,
        require_valid: Callable[[datetime], None],
        recheck_authority: Callable[[Batch, datetime], None] = lambda _batch, _now: None,
    ) -> ClaimedExecution | None:
        """Take over what a process that died had begun; None if somebody else was faster.

        `require_valid` and `recheck_authority` are asked in the transaction. Refuses while a process that the dead one
        had started may still be at work, and if the checkpoint was changed.
        """
        self.require_intended(orphan)
        self._require_childless(orphan)
        token = new_token()
        with _abandon_if_interrupted(token):
            execution = self._ledger.transact(partial(self._take_over, orphan, require_valid, recheck_authority, token))
        if execution is not None:
            self._log("work resumed")
        return execution

    def require_intended(self, claimed: ClaimHeld | ClaimCompleted) -> None:
        """The checkpoint that stands with a claim is somebody's word until an intent in the ledger has its digest."""
        wanted = digest_bytes(claimed.checkpoint.encode())
        with self._ledger.store.reading() as connection:
            for seq, intent in self._records(connection, "intent"):
                if intent.get("checkpoint_digest") == wanted:
                    self._require_covered(connection, seq)
                    return
        raise self._contradiction("the checkpoint of this request is not the one that its intent recorded")

    def note(self, what: Mapping[str, Any]) -> None:
        """Something that settling this request will need, recorded before it is done."""
        digest = {"request_digest": self._trace.request_digest}
        self._ledger.append(self._event("noted", {"note": dict(what), **digest}))
        reach("road.noted")

    def notes(self) -> tuple[Mapping[str, Any], ...]:
        """What was noted of this request, by whoever worked on it."""
        with self._ledger.store.reading() as connection:
            found = list(self._records(connection, "noted"))
            for seq, _ in found:
                self._require_covered(connection, seq)
        return tuple(record["note"] for _, record in found)

    def verify_stored(self, done: ClaimCompleted) -> StoredOutcome:
        """A stored outcome is somebody's word until the ledger's entry carries its digest."""
        with self._ledger.store.reading() as connection:
            entry = self._require_covered(connection, done.outcome_seq)
        recorded = json.loads(entry.payload) if entry.kind == f"{self._trace.scope}.outcome" else {}
        about = (recorded.get("request_digest"), recorded.get("outcome_digest"))
        if about != (self._trace.request_digest, digest_bytes(done.result.encode())):
            raise self._contradiction("the stored outcome of this request is not the one that the ledger recorded")
        self._log("earlier outcome returned")
        return StoredOutcome(done.result, entry.created_at)

    def abandon(self, acquired: ClaimAcquired, *, to_anybody: bool = False) -> None:
        """It stays claimed and undecided. Without this, it would look like work in progress until this process ends;
        to other processes it does, unless it is left to anybody.
        """
        _abandoned_tokens.add(acquired.token)
        if to_anybody:
            with suppress(EnvironmentFailureError):  # then it is this process's to go on with, as long as it lives
                self._ledger.transact(lambda batch: release_claim(batch.store, acquired))

    def check_authority(self, check: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Have the authority of this request judged. Its refusal is told apart from one of the caller, whose token or
        session can end while the authority is still valid.
        """
        try:
            return check(*args, **kwargs)
        except RefusedError as problem:
            self._authority_refusal = problem
            raise

    def record_refusal(self, problem: RefusedError, extra: Sequence[ExtraRecord] = ()) -> None:
        payload: dict[str, Any] = problem.as_json()
        if (
            problem is self._authority_refusal
            and problem.reason is Reason.EXPIRED
            and not isinstance(problem, LedgerAheadError)
        ):
            payload["authority"] = self._authority()  # it stays expired, also if a person accepts an earlier clock
        event = self._event("refused", payload)
        self._ledger.transact(lambda batch: _append_all(batch, (event, *extra)))
        self._log("request refused", reason=problem.reason.value)

    def record_outcome(
        self, acquired: ClaimAcquired, stored: str, shown: Mapping[str, Any], extra: Sequence[ExtraRecord] = ()
    ) -> None:
        """The outcome, the end of the claim, and what else belongs with them, in one transaction."""
        # Masked here, exact in the claim; the digest ties the two.
        digests = {"outcome_digest": digest_bytes(stored.encode()), "request_digest": self._trace.request_digest}
        event = self._event("outcome", {**shown, **digests})

        def work(batch: Batch) -> None:
            entry = batch.append(event)
            finish_claim(batch.store, acquired, stored, entry.created_at, entry.seq)
            _append_all(batch, extra)

        self._ledger.transact(work)
        self._log("outcome recorded")

    def _claim(
        self,
        intent: NewEntry,
        checkpoint: str,
        require_valid: Callable[[datetime], None],
        consume_authority: Callable[[Batch, datetime], None],
        token: str,
        batch: Batch,
    ) -> ClaimedExecution | None:
        now, trace = batch.time_in(self._trace.tenant_id), self._trace
        judge_by_ledger(require_valid, now, batch.clock)
        claimed = claim(
            batch.store,
            self._key,
            trace.request_digest,
            render_time(now),
            correlation_id=trace.correlation_id,
            checkpoint=checkpoint,
            token=token,
        )
        if not isinstance(claimed, ClaimAcquired):
            return None
        self._require_fresh(batch.store)
        batch.append(intent)
        consume_authority(batch, now)
        reach("claim.before_commit")
        return ClaimedExecution(claimed, checkpoint, resumed=False)

    def _take_over(
        self,
        orphan: ClaimHeld,
        require_valid: Callable[[datetime], None],
        recheck_authority: Callable[[Batch, datetime], None],
        token: str,
        batch: Batch,
    ) -> ClaimedExecution | None:
        now = batch.time_in(self._trace.tenant_id)
        judge_by_ledger(require_valid, now, batch.clock)
        recheck_authority(batch, now)
        taken = take_over(batch.store, orphan, token)
        if taken is None:
            return None
        if any(self._records(batch.store, "outcome")):
            raise self._contradiction("this request has an outcome, and its claim says that it has none")
        batch.append(self._event_by_actor("resumed", {"request_digest": self._trace.request_digest}))
        return ClaimedExecution(taken, orphan.checkpoint, resumed=True)

    def _require_fresh(self, connection: Connection) -> None:
        """This request was never begun, and what permits it was never recorded as expired."""
        trace, scope = self._trace, self._trace.scope
        wanted = (trace.tenant_id, trace.correlation_id, f"{scope}.intent", f"{scope}.refused", _AS_EXPIRED)
        for kind, created_at, payload in connection.rows(_BEFORE, wanted):
            record = json.loads(payload)
            if kind == f"{scope}.intent" and record.get("request_digest") == trace.request_digest:
                raise self._contradiction("this request was begun before, and its claim is gone from the database")
            if record.get("reason") == "expired" and record.get("authority") == self._authority():
                raise RefusedError(
                    Reason.EXPIRED,
                    f"what permits this was recorded as expired at {created_at[:19]}Z, and stays so",
                    where=f"{scope} {trace.key}",
                    next_step="Have it leased or approved again.",
                )

    def _authority(self) -> str:
        trace = self._trace
        try:
            return trace.authority() if trace.authority is not None else digest_bytes(trace.key.encode())
        except RefusedError:  # it cannot be read, so nothing was verified
            return ""

    def _records(self, connection: Connection, what: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """The place and content of this request's records of one kind. They are believed only once covered."""
        trace = self._trace
        for seq, payload in connection.rows(_RECORDS, (trace.tenant_id, trace.correlation_id, f"{trace.scope}.{what}")):
            record = json.loads(payload)
            if record.get("request_digest") == trace.request_digest:
                yield seq, record

    def _require_covered(self, connection: Connection, seq: int) -> Entry:
        return require_covered(connection, self._ledger.keyring, self._trace.tenant_id, seq)

    def _contradiction(self, what: str) -> EnvironmentFailureError:
        return EnvironmentFailureError(
            Reason.EVIDENCE_INVALID,
            f"{what}; nothing was touched",
            where=f"{self._trace.scope} {self._trace.key}",
            next_step="Keep the database as it is and run `remit ledger verify`.",
        )

    def _require_childless(self, orphan: ClaimHeld) -> None:
        if orphan.owner == this_process() or is_childless(lock_path(self._hosts, orphan.owner)):
            return
        raise EnvironmentFailureError(
            Reason.IN_PROGRESS,
            "the process that ran this is dead, and one that it had started is not yet",
            where=f"{self._trace.scope} {self._trace.key}",
            next_step="Try again in a moment: remit recover",
        )

    def _wait_for_owner(self) -> ClaimCompleted | ClaimHeld | None:
        deadline = time.monotonic() + self._patience
        pause = FIRST_PAUSE_SECONDS
        while True:
            with self._ledger.store.reading_pooled() as connection:
                found = find_claim(connection, self._key, self._trace.request_digest)
            if not isinstance(found, ClaimHeld) or is_orphan(found, self._ledger.store.dialect):
                return found
            if time.monotonic() > deadline:
                raise EnvironmentFailureError(
                    Reason.IN_PROGRESS,
                    "this request is still being worked on",
                    where=f"{self._trace.scope} {self._trace.key}",
                    next_step="Ask again later; `remit ledger show` tells what is known of it.",
                )
            with released():
                time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_SECONDS)

    def _event_by_actor(self, what: str, payload: dict[str, Any]) -> NewEntry:
        return replace(self._event(what, payload), actor=self._actor)

    def _event(self, what: str, payload: dict[str, Any]) -> NewEntry:
        """Masked: what the ledger holds can never be taken out again."""
        shown: Any = mask_json({**payload, "key": self._trace.key})
        return NewEntry(
            self._trace.tenant_id,
            f"{self._trace.scope}.{what}",
            self._trace.correlation_id,
            shown,
            task_id=self._trace.task_id,
            capability_id=self._trace.capability_id,
        )

    def _log(self, message: str, **fields: str) -> None:
        """After the fact, and only for whoever looks for a fault: nothing is decided by a log."""
        trace = self._trace
        ids = {"correlation_id": trace.correlation_id, "task_id": trace.task_id, "capability_id": trace.capability_id}
        _LOG.info(message, extra={**ids, **fields})


def _append_all(batch: Batch, extra: Sequence[ExtraRecord]) -> None:
    for each in extra:
        if isinstance(each, NewEntry):
            batch.append(each)
        else:
            each(batch)


@contextmanager
def _abandon_if_interrupted(token: str) -> Iterator[None]:
    """The transaction may be durable although its caller never heard of it: then nobody works on that claim."""
    try:
        yield
    except RefusedError:  # nothing was claimed
        raise
    except BaseException:
        _abandoned_tokens.add(token)
        raise


def is_orphan(claimed: ClaimHeld, dialect: Dialect) -> bool:
    """Whether nobody is at work on this any more. Said only when it is certain."""
    # Only this machine can open its SQLite file: whoever claimed it before the last reboot is gone.
    before_reboot = dialect == "sqlite" and is_before_reboot(claimed.owner)
    return claimed.token in _abandoned_tokens or is_dead(claimed.owner) or before_reboot
