"""Writing to the ledger: one transaction for many callers, a hash chain for each tenant, a signed head at the end."""

import json
import logging
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar

from remit.contracts.ledger import MAX_PAYLOAD_DEPTH, LedgerEvent, LedgerHead
from remit.core.canonical import canonical_bytes
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, UsageError
from remit.core.faultpoints import reach
from remit.core.ids import Clock, parse_time, render_time, uuid7
from remit.core.metrics import ENTRIES, Counter
from remit.crypto.signing import Keyring, Signer
from remit.ledger.clock import (
    ABOUT_CLOCK,
    ACCEPTED,
    FOUND_WORDS,
    JUMPED,
    ChainTimes,
    behind_payload,
    judge_by_ledger,
    jump_payload,
)
from remit.ledger.clock_watch import ClockReading, ClockWatch
from remit.ledger.continuity import Continuity, Tip
from remit.ledger.entry import COLUMNS, GENESIS, Actor, Entry, NewEntry
from remit.ledger.heads import Anchors, sign_head
from remit.ledger.presence import require_entries_table
from remit.store.connection import ConflictError, Connection, GuardedTableError, Store
from remit.store.group_commit import GroupCommit
from remit.store.migrations_runner import require_current, require_no_foreign_objects

T = TypeVar("T")
MAX_PAYLOAD: Final = 1 << 20
# Such an entry stands for a row of an agent table and is written together with it, or verification would miss the row.
ROW_KINDS: Final = frozenset({"agent.step", "agent.confirmation", "agent.access"})
# Written by nothing but the functions here that are for it: such an entry changes what time it is.
CLOCK_KINDS: Final = frozenset({ACCEPTED, JUMPED})

_KIND: Final = re.compile(r"[a-z][a-z0-9_.-]{0,99}")
# As long as 2^53: perhaps a number that would not read back as itself.
_LONG_NUMBER: Final = re.compile(rb"[0-9]{16}")
_LOG: Final = logging.getLogger("remit.ledger")
_INSERT = f"INSERT INTO ledger_entries ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_HEAD = "INSERT INTO ledger_heads (tenant_id, seq, hash, signed_at, key_id, signature) VALUES (?, ?, ?, ?, ?, ?)"
_AT = "SELECT hash FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
_TIP = "SELECT seq, hash, created_at FROM ledger_entries WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"


class Batch:
    """One transaction on the store, seen from the ledger: rows may be written and events appended together."""

    def __init__(
        self,
        store: Connection,
        signer: Callable[[], Signer],
        clock: Clock,
        anchors: Anchors,
        continuity: Continuity,
        watch: ClockWatch,
    ) -> None:
        self.store = store
        self.clock = clock
        self._signer = signer
        self._anchors = anchors
        self._continuity = continuity
        self._watch = watch
        self._clock_reading: ClockReading | None = None
        self._noticed: dict[str, dict[str, Any] | None] = {}
        self._tips: dict[str, Tip] = {}
        self._written: dict[str, Tip] = {}
        self._heads: list[LedgerHead] = []
        self._counts_to_add: list[tuple[Counter, tuple[str, ...]]] = []

    def append(self, event: NewEntry) -> Entry:
        """Add an event to its tenant's chain. It is durable when the transaction returns, not before."""
        if event.kind in ROW_KINDS:
            raise UsageError(Reason.MISUSE, f"{event.kind} entries are written with their row: append_agent_row")
        return self.append_for_row(event)

    def append_for_row(self, event: NewEntry) -> Entry:
        """The same, for an entry whose row in an agent table the caller writes in this very transaction."""
        if event.kind in CLOCK_KINDS:
            raise UsageError(Reason.MISUSE, f"{event.kind} entries are written by Remit alone: Workspace.accept_clock")
        if _is_id(event.tenant_id):  # else it is refused below
            self._notice_jump(event.tenant_id)
        return self._append(event)

    def accept_clock(self, tenant_id: str, actor: str, payload: dict[str, Any], now: datetime) -> Entry:
        """Go on in this chain from `now`, also if its newest entry is later. The payload says from when to when."""
        self._noticed[tenant_id] = None
        if self._clock_reading is None:  # a person says that the clock is right: what comes later is compared with it
            self._clock_reading = self._watch.read()
        return self._append(NewEntry(tenant_id, ACCEPTED, ABOUT_CLOCK, payload, actor=actor), accepted=now)

    def _append(self, event: NewEntry, *, accepted: datetime | None = None) -> Entry:
        if isinstance(event.actor, Actor):
            self.require_still_valid(event.actor, event.tenant_id)
            event = replace(event, actor=str(event.actor))
        payload = canonical_bytes(event.payload)
        if len(payload) > MAX_PAYLOAD:
            raise RefusedError(
                Reason.TOO_LARGE,
                f"a ledger entry's payload is larger than {MAX_PAYLOAD:,} bytes",
                where=event.kind,
                next_step="Record a digest and keep the data elsewhere.",
            )
        # What could not be exported and checked again must not get in.
        if not _is_valid_at_a_glance(event, payload):
            LedgerEvent.from_tree(_tree(event, json.loads(payload)), source="the event to record")
        tip = self._tip(event.tenant_id)
        now = self.clock() if accepted is None else accepted
        # A clock that was set back must not make the record run backwards, unless a person has accepted it.
        created_at = max(render_time(now), tip.created_at) if accepted is None else render_time(now)
        entry = Entry(
            tenant_id=event.tenant_id,
            seq=tip.seq + 1,
            entry_id=uuid7(now),
            created_at=created_at,
            kind=event.kind,
            correlation_id=event.correlation_id,
            task_id=event.task_id,
            capability_id=event.capability_id,
            actor=event.actor,
            payload=payload.decode(),
            prev_hash=tip.hash,
            hash="",
        )
        entry = entry._replace(hash=entry.expected_hash())
        self._insert_next(_INSERT, entry)
        self._tips[event.tenant_id] = self._written[event.tenant_id] = Tip(entry.seq, entry.hash, created_at)
        self.count(ENTRIES, event.kind.partition(".")[0])
        reach("append.inserted")
        return entry

    def time_in(self, tenant_id: str) -> datetime:
        """Now, but never earlier than the newest entry of the chain: a clock set back revives no expired authority."""
        newest = self._tip(tenant_id).created_at
        return max(self.clock(), parse_time(newest)) if newest else self.clock()

    def require_still_valid(self, actor: str | None, tenant_id: str) -> None:
        """That the caller's session or token is valid in this transaction. Each entry that names it asks by itself."""
        if isinstance(actor, Actor):
            judge_by_ledger(lambda now: actor.require_still_valid(self.store, now), self.time_in(tenant_id), self.clock)

    def times_in(self, tenant_id: str) -> ChainTimes:
        """The clock's time beside `time_in`."""
        shown = self.clock()
        newest = self._tip(tenant_id).created_at
        return ChainTimes(shown, max(shown, parse_time(newest)) if newest else shown)

    def count(self, counter: Counter, *labels: str) -> None:
        """Once, when this transaction is durable, and not before."""
        self._counts_to_add.append((counter, labels))

    def mark(self) -> Any:
        return dict(self._tips), dict(self._written), dict(self._noticed), len(self._counts_to_add)

    def reset(self, mark: Any) -> None:
        self._tips, self._written, self._noticed, counted = mark
        del self._counts_to_add[counted:]

    def seal(self) -> None:
        if not self._written:
            return
        signer = self._signer()
        for tenant_id, tip in self._written.items():
            self._anchors.prepare(tenant_id)
            head = sign_head(signer, tenant_id, tip.seq, tip.hash, max(render_time(self.clock()), tip.created_at))
            self._heads.append(head)
            self._insert_next(
                _INSERT_HEAD, (head.tenant_id, head.seq, head.hash, head.signed_at, head.key_id, head.signature)
            )
        reach("append.signed")

    def is_written(self, connection: Connection) -> bool | None:
        """By the last entry of each chain. What wrote none left nothing that only it can have written."""
        if not self._written:
            return None
        return all(connection.one(_AT, (tenant, tip.seq)) == (tip.hash,) for tenant, tip in self._written.items())

    def committed(self) -> None:
        for head in self._heads:
            self._continuity.advance(head.tenant_id, self._written[head.tenant_id])
            self._anchors.record(head)
        reach("append.anchored")
        if self._clock_reading is not None:
            self._watch.save(self._clock_reading)
        for tenant_id, payload in self._noticed.items():
            if payload is not None:
                _LOG.warning(
                    "the clock %s (chain of %s): %s", FOUND_WORDS[payload["found"]], tenant_id, _shown(payload)
                )
        for counter, labels in self._counts_to_add:
            counter.add(*labels)

    def insert(self, sql: str, values: tuple[Any, ...]) -> None:
        """Insert one row. One that a guard refuses, or a foreign trigger swallows: somebody changed the tables."""
        try:
            written = self.store.execute(sql, values)
        except GuardedTableError as problem:
            raise _tampered(f"the place of a new row is taken ({problem})") from problem
        if written != 1:
            raise _tampered("the database did not keep a new row")

    def _insert_next(self, sql: str, values: tuple[Any, ...]) -> None:
        try:
            self.insert(sql, values)
        except ConflictError as problem:
            raise _tampered(f"the place of a new row is taken ({problem})") from problem

    def _notice_jump(self, tenant_id: str) -> None:
        """Once for each chain in a transaction: was this machine's clock set, or is it behind what is recorded?"""
        if tenant_id in self._noticed:
            return
        if self._clock_reading is None:
            self._clock_reading = self._watch.read()
        tip, now = self._tip(tenant_id), self.clock()
        payload = behind_payload(self.store, tenant_id, now, parse_time(tip.created_at)) if tip.created_at else None
        is_reported = any(noticed is not None for noticed in self._noticed.values())
        if (
            payload is None
            and self._clock_reading is not None
            and self._clock_reading.jump is not None
            and not is_reported
        ):
            payload = jump_payload(self._clock_reading.jump)
        self._noticed[tenant_id] = payload
        if payload is not None:
            self._append(NewEntry(tenant_id, JUMPED, ABOUT_CLOCK, payload, actor="remit"))

    def _tip(self, tenant_id: str) -> Tip:
        tip = self._tips.get(tenant_id)
        if tip is None:
            row = self.store.one(_TIP, (tenant_id,))
            tip = Tip(*row) if row else Tip(0, GENESIS, "")
            self._continuity.require(self.store, tenant_id, tip)
            self._tips[tenant_id] = tip
        return tip


class Ledger:
    """The record of one workspace. `signer` is asked for at each transaction, so that a rotated key takes effect."""

    def __init__(
        self,
        store: Store,
        signer: Callable[[], Signer],
        keyring: Callable[[], Keyring],
        anchors: Anchors,
        clock: Clock,
        watch: ClockWatch | None = None,
    ) -> None:
        """`watch` notices a clock that is set while, or since, a process of this machine wrote here."""
        watching = watch or ClockWatch(clock, None)
        self.store = store
        self.anchors = anchors
        self.keyring = keyring
        continuity = Continuity(anchors, keyring)
        self.clock = clock
        self._group = GroupCommit(
            store, lambda connection: Batch(connection, signer, clock, anchors, continuity, watching)
        )
        with store.reading() as connection:
            require_entries_table(connection, anchors)
            require_current(connection)
            require_no_foreign_objects(connection)

    @property
    def transactions(self) -> int:
        """How many transactions were committed: the benchmark divides entries by it."""
        return self._group.groups

    def transact(self, work: Callable[[Batch], T]) -> T:
        """Run `work` in one durable transaction, shared with whoever else is writing now."""
        return self._group.run(work)

    def append(self, event: NewEntry) -> Entry:
        return self.transact(lambda batch: batch.append(event))

    def close(self) -> None:
        self._group.close()
        self.anchors.close()


def _shown(payload: dict[str, Any]) -> str:
    return f"it shows {payload['clock_at']}, expected was {payload['expected_at']}; see `remit clock show`"


def _tampered(what: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EVIDENCE_INVALID,
        f"the ledger's tables were changed by somebody else: {what}",
        next_step="Keep the database as it is and run `remit ledger verify`.",
    )


def _is_valid_at_a_glance(event: NewEntry, payload: bytes) -> bool:
    """The contract's answer for nearly every event, at a tenth of its price; False means: ask the contract."""
    optional = (event.task_id, event.capability_id, event.actor)
    return (
        _is_id(event.tenant_id)
        and _is_id(event.correlation_id)
        and all(text is None or _is_id(text) for text in optional)
        and type(event.kind) is str
        and _KIND.fullmatch(event.kind) is not None
        and type(event.payload) is dict
        and len(payload) <= 8192
        and payload.count(b"{") + payload.count(b"[") <= MAX_PAYLOAD_DEPTH
        and _LONG_NUMBER.search(payload) is None
    )


def _is_id(text: Any) -> bool:
    return type(text) is str and 0 < len(text) <= 200 and text.isprintable()


def _tree(event: NewEntry, payload: Any) -> dict[str, Any]:
    """Spelled out: `dataclasses.asdict` copies the payload too, at the price of a signature."""
    return {
        "tenant_id": event.tenant_id,
        "kind": event.kind,
        "correlation_id": event.correlation_id,
        "task_id": event.task_id,
        "capability_id": event.capability_id,
        "actor": event.actor,
        "payload": payload,
    }
