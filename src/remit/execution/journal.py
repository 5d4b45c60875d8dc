"""The records of one request: refusal, intent, outcome, and the claim that makes the request happen once.

All records are written through the ledger, so each is durable, chained and signed. A stored outcome is accepted only if
its ledger entry has its digest. A request that a live process works on is waited for. A request of a dead process is
taken over, and the token of the dead process becomes void. The checkpoint is stored with the claim. It is accepted only
if the intent in the ledger has its digest.
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
from types import MappingProxyType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from remit.core.canonical import digest_bytes
from remit.core.concurrency import released
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.faultpoints import reach
from remit.core.ids import render_time
from remit.ledger.clock import LedgerAheadError, judge_by_ledger
from remit.ledger.counted_entries import COUNTED_REFUSALS, append_counted
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
# Tokens of claims that this process holds and has abandoned, for example because the outcome could not be written. No
# thread works on them, although the process that owns them is alive.
_abandoned_tokens: Final[set[str]] = set()


ExtraRecord = NewEntry | Callable[[Batch], object]
"""An addition to a record in the same transaction: an entry, or a function that writes rows and their entries."""


@dataclass(frozen=True, slots=True)
class RequestIds:
    """The ids that connect all records of one request."""

    tenant_id: str
    correlation_id: str
    scope: str
    key: str
    request_digest: str
    task_id: str | None = None
    capability_id: str | None = None
    authority: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Returns the digest of the signed authority, if its id is not the key. Called only when it is needed."""


class StoredOutcome(NamedTuple):
    """An outcome of an earlier call, and the time of its ledger entry."""

    text: str
    recorded_at: str


class ClaimedExecution(NamedTuple):
    """A request that this caller executes. If `resumed`, a dead process had started it and made the checkpoint."""

    claim: ClaimAcquired
    checkpoint: str
    resumed: bool


class Journal:
    """The records of one request.

    `hosts` is the folder where each process that runs tasks keeps its lock. `patience` is the time in seconds to wait
    for another process. The intent names the `actor`. The actor's token or session need not be valid any more when the
    outcome is recorded.
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
        """The refusal of this request's authority, if there was one."""

    def find_existing(self) -> StoredOutcome | ClaimHeld | None:
        """Find an earlier run of this request: nothing, an outcome, or a claim whose owner is dead.

        Waits up to `patience` for a live owner. Verifies an outcome against the ledger.
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
        """Claim the request and record the intent in one transaction. Returns None if another process was faster.

        `require_valid` is called inside the transaction, with a time that a clock set back cannot make earlier.
        `consume_authority` is called after the claim is acquired, so it uses up authority only together with the
        intent.
        """
        digests = {
            "request_digest": self._trace.request_digest,
            "checkpoint_digest": digest_bytes(checkpoint.encode()),
        }
        event = self._event_by_actor(
            "intent", {**intent, **digests}
        )  # built outside of the transaction, to keep the write lock short
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
        """Take over the request of a dead process. Returns None if another process was faster.

        `require_valid` and `recheck_authority` are called in the transaction. Raises `EnvironmentFailureError` while a
        child of the dead process may still be running, and if the checkpoint was changed.
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
        """Verify the checkpoint stored with a claim against the digest in its intent."""
        wanted = digest_bytes(claimed.checkpoint.encode())
        with self._ledger.store.reading() as connection:
            for seq, intent in self._records(connection, "intent"):
                if intent.get("checkpoint_digest") == wanted:
                    self._require_covered(connection, seq)
                    return
        raise self._contradiction("the checkpoint of this request is not the one that its intent recorded")

    def note(self, what: Mapping[str, Any]) -> None:
        """Record data that recovery or undo will need, before the change that it is about."""
        digest = {"request_digest": self._trace.request_digest}
        self._ledger.append(self._event("noted", {"note": dict(what), **digest}))
        reach("road.noted")

    def notes(self) -> tuple[Mapping[str, Any], ...]:
        """Return all notes of this request, from every process that worked on it."""
        with self._ledger.store.reading() as connection:
            found = list(self._records(connection, "noted"))
            for seq, _ in found:
                self._require_covered(connection, seq)
        return tuple(record["note"] for _, record in found)

    def verify_stored(self, done: ClaimCompleted) -> StoredOutcome:
        """Verify a stored outcome against the digest in its ledger entry."""
        with self._ledger.store.reading() as connection:
            entry = self._require_covered(connection, done.outcome_seq)
        recorded = json.loads(entry.payload) if entry.kind == f"{self._trace.scope}.outcome" else {}
        about = (recorded.get("request_digest"), recorded.get("outcome_digest"))
        if about != (self._trace.request_digest, digest_bytes(done.result.encode())):
            raise self._contradiction("the stored outcome of this request is not the one that the ledger recorded")
        self._log("earlier outcome returned")
        return StoredOutcome(done.result, entry.created_at)

    def abandon(self, acquired: ClaimAcquired, *, to_anybody: bool = False) -> None:
        """Stop the work on a claim without an outcome, so that this process can resume it.

        To other processes it looks like work in progress until this process ends, unless `to_anybody` is set.
        """
        _abandoned_tokens.add(acquired.token)
        if to_anybody:
            with suppress(EnvironmentFailureError):  # then only this process can resume it, as long as it lives
                self._ledger.transact(lambda batch: release_claim(batch.store, acquired))

    def check_authority(self, check: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `check`, and remember its refusal as one of the authority of this request.

        So it is distinguished from a refusal of the caller, whose token or session can end while the authority is
        still valid.
        """
        try:
            return check(*args, **kwargs)
        except RefusedError as problem:
            self._authority_refusal = problem
            raise

    def record_refusal(
        self,
        problem: RefusedError,
        extra: Sequence[ExtraRecord] = (),
        *,
        details: Mapping[str, Any] = MappingProxyType({}),
        counted_as: str = "",
    ) -> None:
        """Record the refusal. With `counted_as`, one of many refusals of this caller is only counted."""
        payload: dict[str, Any] = {**details, **problem.as_json()}
        expired = ""
        if (
            problem is self._authority_refusal
            and problem.reason is Reason.EXPIRED
            and not isinstance(problem, LedgerAheadError)
        ):
            # It stays expired even if a person accepts an earlier clock.
            payload["authority"] = expired = self._authority()
        # A plain name: the token or session of the caller may be what has ended.
        actor = str(self._actor) if self._actor is not None else None
        if counted_as:
            payload["caller"] = actor
        event = replace(self._event("refused", payload), actor=actor)

        def work(batch: Batch) -> None:
            if counted_as and not (expired and not self._is_recorded_as_expired(batch.store, expired)):
                append_counted(batch, event, kind=COUNTED_REFUSALS, operation=counted_as, reason=problem.reason.value)
            else:
                batch.append(event)
            _append_all(batch, extra)

        self._ledger.transact(work)
        problem.is_recorded = True
        self._log("request refused", reason=problem.reason.value)

    def record_outcome(
        self, acquired: ClaimAcquired, stored: str, shown: Mapping[str, Any], extra: Sequence[ExtraRecord] = ()
    ) -> None:
        """Record the outcome, complete the claim and write the extra records, in one transaction."""
        # The entry is masked and the claim holds the exact text. The digest connects the two.
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
            raise self._contradiction("this request has an outcome in the ledger, but its claim has none")
        batch.append(self._event_by_actor("resumed", {"request_digest": self._trace.request_digest}))
        return ClaimedExecution(taken, orphan.checkpoint, resumed=True)

    def _is_recorded_as_expired(self, connection: Connection, authority: str) -> bool:
        trace, scope = self._trace, self._trace.scope
        wanted = (trace.tenant_id, trace.correlation_id, f"{scope}.refused", f"{scope}.refused", _AS_EXPIRED)
        return any(
            json.loads(payload).get("authority") == authority for _, _, payload in connection.rows(_BEFORE, wanted)
        )

    def _require_fresh(self, connection: Connection) -> None:
        """Require that this request was never started, and that its authority was never recorded as expired."""
        trace, scope = self._trace, self._trace.scope
        wanted = (trace.tenant_id, trace.correlation_id, f"{scope}.intent", f"{scope}.refused", _AS_EXPIRED)
        for kind, created_at, payload in connection.rows(_BEFORE, wanted):
            record = json.loads(payload)
            if kind == f"{scope}.intent" and record.get("request_digest") == trace.request_digest:
                raise self._contradiction("this request was started before, but its claim is missing in the database")
            if record.get("reason") == "expired" and record.get("authority") == self._authority():
                raise RefusedError(
                    Reason.EXPIRED,
                    f"the authority for this was recorded as expired at {created_at[:19]}Z, and stays expired",
                    where=f"{scope} {trace.key}",
                    next_step="Have a new lease or approval made.",
                )

    def _authority(self) -> str:
        trace = self._trace
        try:
            return trace.authority() if trace.authority is not None else digest_bytes(trace.key.encode())
        except RefusedError:  # it cannot be read, so it was never verified
            return ""

    def _records(self, connection: Connection, what: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the position and content of this request's entries of one kind. They are not verified yet."""
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
            f"{what}; nothing was changed",
            where=f"{self._trace.scope} {self._trace.key}",
            next_step="Keep the database as it is and run `remit ledger verify`.",
        )

    def _require_childless(self, orphan: ClaimHeld) -> None:
        if orphan.owner == this_process() or is_childless(lock_path(self._hosts, orphan.owner)):
            return
        raise EnvironmentFailureError(
            Reason.IN_PROGRESS,
            "the owner process has exited, but one of its child processes is still running",
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
                    next_step="Ask again later. `remit ledger show` shows its records so far.",
                )
            with released():
                time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_SECONDS)

    def _event_by_actor(self, what: str, payload: dict[str, Any]) -> NewEntry:
        return replace(self._event(what, payload), actor=self._actor)

    def _event(self, what: str, payload: dict[str, Any]) -> NewEntry:
        """Make an entry with a masked payload, because nothing can be removed from the ledger."""
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
        """Log a step after it happened, for diagnosis. No decision depends on a log."""
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
    """Abandon the claim after an exception: the transaction may be durable, but no thread works on the claim."""
    try:
        yield
    except RefusedError:  # nothing was claimed
        raise
    except BaseException:
        _abandoned_tokens.add(token)
        raise


def is_orphan(claimed: ClaimHeld, dialect: Dialect) -> bool:
    """Whether certainly no process works on this claim any more."""
    # Only this machine can open its SQLite file, so a process from before the last reboot has ended.
    before_reboot = dialect == "sqlite" and is_before_reboot(claimed.owner)
    return claimed.token in _abandoned_tokens or is_dead(claimed.owner) or before_reboot
