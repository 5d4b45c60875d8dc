"""The road's records of one request: refusal, intent, outcome, and the claim that makes it happen once.

Everything is written through the ledger, so each record is durable, chained and signed. A stored outcome is believed
only if the ledger says the same; a request that somebody is at work on is waited for; one whose process died is taken
over, and the dead one's token is void. The way back is kept with the claim, and is believed only if the intent in the
ledger carries its digest.
"""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.canonical import digest_bytes
from remit.errors import EnvironmentFailed, Reason, Refused
from remit.faultpoints import reach
from remit.ids import render_time
from remit.ledger.append import Batch, Ledger
from remit.ledger.entry import Event
from remit.masking import mask_json
from remit.store.claims import ClaimKey, Done, Running, Won, claim, find_claim, finish_claim, take_over
from remit.store.connection import Dialect
from remit.store.owners import is_before_reboot, is_childless, is_gone, lock_path, this_process

FIRST_LOOK_SECONDS: Final = 0.002
LAST_LOOK_SECONDS: Final = 0.1
_LOG: Final = logging.getLogger("remit.road")
_INTENTS: Final = "SELECT payload FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ? AND kind = ?"
# Tokens of claims that this process holds and has given up, such as when the outcome could not be written. Nobody works
# on them, though their owner lives.
_given_up: Final[set[str]] = set()


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


class Stored(NamedTuple):
    """An outcome from before, and when the ledger recorded it."""

    text: str
    recorded_at: str


class Entered(NamedTuple):
    """This caller does the work; `resumed` if a process that died had begun it: then the checkpoint is that one's."""

    won: Won
    checkpoint: str
    resumed: bool


class Journal:
    """The records of one request. `hosts` is where each process that runs tasks keeps its lock."""

    def __init__(self, ledger: Ledger, trace: Trace, hosts: Path, patience: float) -> None:
        self._ledger = ledger
        self._trace = trace
        self._key = ClaimKey(trace.tenant_id, trace.door, trace.key)
        self._hosts = hosts
        self._patience = patience

    def look(self) -> Stored | Running | None:
        """What stands under this request's key: nothing, an outcome, or a claim whose owner is dead.

        Waits for whoever is at work on it, but not for ever. An outcome is checked against the ledger.
        """
        found = self._settled()
        return self.checked(found) if isinstance(found, Done) else found

    def enter(self, intent: dict[str, Any], checkpoint: str, still_alive: Callable[[datetime], None]) -> Entered | None:
        """Claim the request and record the intent, in one transaction; None if somebody else was faster.

        `still_alive` is asked inside the transaction, at a time that no clock set back can make earlier.
        """
        entered = self._ledger.transact(partial(self._claim, intent, checkpoint, still_alive))
        if entered is not None:
            self._log("intent recorded")
        return entered

    def resume(self, orphan: Running, still_alive: Callable[[datetime], None]) -> Entered | None:
        """Take over what a process that died had begun; None if somebody else was faster.

        Refuses while a process that the dead one had started may still be at work, and if the checkpoint was changed.
        """
        self.require_intended(orphan)
        self._require_childless(orphan)
        entered = self._ledger.transact(partial(self._take_over, orphan, still_alive))
        if entered is not None:
            self._log("work resumed")
        return entered

    def require_intended(self, claimed: Running | Done) -> None:
        """The checkpoint that stands with a claim is somebody's word until an intent in the ledger has its digest."""
        where = (claimed.key.tenant_id, claimed.correlation_id, f"{claimed.key.scope}.intent")
        with self._ledger.store.reading() as connection:
            intents = [json.loads(row[0]) for row in connection.rows(_INTENTS, where)]
        wanted = (claimed.request_digest, digest_bytes(claimed.checkpoint.encode()))
        if not any((intent.get("request_digest"), intent.get("checkpoint_digest")) == wanted for intent in intents):
            raise EnvironmentFailed(
                Reason.EVIDENCE_INVALID,
                "the checkpoint of this request is not the one that its intent recorded; nothing was touched",
                where=f"{claimed.key.scope} {claimed.key.key}",
                next_step="Keep the database as it is and run `remit ledger verify`.",
            )

    def checked(self, done: Done) -> Stored:
        """A stored outcome is somebody's word until the ledger's entry carries its digest."""
        query = "SELECT kind, payload, created_at FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
        with self._ledger.store.reading() as connection:
            row = connection.one(query, (self._trace.tenant_id, done.outcome_seq))
        recorded = json.loads(row[1]).get("outcome_digest") if row and row[0] == f"{self._trace.door}.outcome" else None
        if row is None or recorded != digest_bytes(done.result.encode()):
            raise EnvironmentFailed(
                Reason.EVIDENCE_INVALID,
                "the stored outcome of this request is not the one that the ledger recorded",
                where=f"{self._trace.door} {self._trace.key}",
                next_step="Keep the database as it is and run `remit ledger verify`.",
            )
        self._log("earlier outcome returned")
        return Stored(done.result, row[2])

    def give_up(self, won: Won) -> None:
        """It stays claimed and undecided. Without this, it would look like work in progress until this process ends."""
        _given_up.add(won.token)

    def record_refusal(self, problem: Refused) -> None:
        self._ledger.append(self._event("refused", problem.as_json()))
        self._log("request refused", reason=problem.reason.value)

    def record_outcome(self, won: Won, stored: str) -> None:
        """The outcome and the end of the claim, in one transaction."""

        def work(batch: Batch) -> None:
            # Masked here, exact in the claim; the digest ties the two.
            shown = {"outcome": json.loads(stored), "outcome_digest": digest_bytes(stored.encode())}
            entry = batch.append(self._event("outcome", {**shown, "request_digest": self._trace.request_digest}))
            finish_claim(batch.store, won, stored, entry.created_at, entry.seq)

        self._ledger.transact(work)
        self._log("outcome recorded")

    def _claim(
        self, intent: dict[str, Any], checkpoint: str, still_alive: Callable[[datetime], None], batch: Batch
    ) -> Entered | None:
        now, trace = batch.time_in(self._trace.tenant_id), self._trace
        still_alive(now)
        claimed = claim(
            batch.store,
            self._key,
            trace.request_digest,
            render_time(now),
            correlation_id=trace.correlation_id,
            checkpoint=checkpoint,
        )
        if not isinstance(claimed, Won):
            return None
        digests = {
            "request_digest": trace.request_digest,
            "checkpoint_digest": digest_bytes(checkpoint.encode()),
        }
        batch.append(self._event("intent", {**intent, **digests}))
        reach("claim.before_commit")
        return Entered(claimed, checkpoint, resumed=False)

    def _take_over(self, orphan: Running, still_alive: Callable[[datetime], None], batch: Batch) -> Entered | None:
        now = batch.time_in(self._trace.tenant_id)
        still_alive(now)
        taken = take_over(batch.store, orphan, render_time(now))
        if taken is None:
            return None
        batch.append(self._event("resumed", {"request_digest": self._trace.request_digest}))
        return Entered(taken, orphan.checkpoint, resumed=True)

    def _require_childless(self, orphan: Running) -> None:
        if orphan.owner == this_process() or is_childless(lock_path(self._hosts, orphan.owner)):
            return
        raise EnvironmentFailed(
            Reason.IN_PROGRESS,
            "the process that ran this is dead, and one that it had started is not yet",
            where=f"{self._trace.door} {self._trace.key}",
            next_step="Try again in a moment: remit recover",
        )

    def _settled(self) -> Done | Running | None:
        deadline = time.monotonic() + self._patience
        pause = FIRST_LOOK_SECONDS
        while True:
            with self._ledger.store.glancing() as connection:
                found = find_claim(connection, self._key, self._trace.request_digest)
            if not isinstance(found, Running) or is_orphan(found, self._ledger.store.dialect):
                return found
            if time.monotonic() > deadline:
                raise EnvironmentFailed(
                    Reason.IN_PROGRESS,
                    "this request is still being worked on",
                    where=f"{self._trace.door} {self._trace.key}",
                    next_step="Ask again later; `remit ledger show` tells what is known of it.",
                )
            time.sleep(pause)
            pause = min(2 * pause, LAST_LOOK_SECONDS)

    def _event(self, what: str, payload: dict[str, Any]) -> Event:
        """Masked: what the ledger holds can never be taken out again."""
        shown: Any = mask_json({**payload, "key": self._trace.key})
        return Event(
            self._trace.tenant_id,
            f"{self._trace.door}.{what}",
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


def is_orphan(claimed: Running, dialect: Dialect) -> bool:
    """Whether nobody is at work on this any more. Said only when it is certain."""
    # Only this machine can open its SQLite file: whoever claimed it before the last reboot is gone.
    before_reboot = dialect == "sqlite" and is_before_reboot(claimed.owner)
    return claimed.token in _given_up or is_gone(claimed.owner) or before_reboot
