"""Writes the ledger: one transaction for many callers, a hash chain for each tenant, and a signed head at the end."""

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
# An entry of these kinds is written together with its row in an agent table. Verification would miss a missing row.
ROW_KINDS: Final = frozenset({"agent.step", "agent.confirmation", "agent.access"})
# Only special functions of this module write these kinds, since such an entry changes the time of the chain.
CLOCK_KINDS: Final = frozenset({ACCEPTED, JUMPED})

_KIND: Final = re.compile(r"[a-z][a-z0-9_.-]{0,99}")
# As many digits as 2^53: such a number may change when it is parsed again.
_LONG_NUMBER: Final = re.compile(rb"[0-9]{16}")
_LOG: Final = logging.getLogger("remit.ledger")
_INSERT = f"INSERT INTO ledger_entries ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_HEAD = "INSERT INTO ledger_heads (tenant_id, seq, hash, signed_at, key_id, signature) VALUES (?, ?, ?, ?, ?, ?)"
_AT = "SELECT hash FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
_TIP = "SELECT seq, hash, created_at FROM ledger_entries WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"


class Batch:
    """One transaction on the store, in which rows are written and events are appended together."""

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
        """Append an event to its tenant's chain. It is durable when the transaction returns, and not before."""
        if event.kind in ROW_KINDS:
            raise UsageError(Reason.MISUSE, f"{event.kind} entries are written with their row: append_agent_row")
        return self.append_for_row(event)

    def append_for_row(self, event: NewEntry) -> Entry:
        """Append an entry whose row in an agent table the caller writes in the same transaction."""
        if event.kind in CLOCK_KINDS:
            raise UsageError(Reason.MISUSE, f"{event.kind} entries are written by Remit alone: Workspace.accept_clock")
        if _is_id(event.tenant_id):  # otherwise it is refused below
            self._notice_jump(event.tenant_id)
        return self._append(event)

    def accept_clock(self, tenant_id: str, actor: str, payload: dict[str, Any], now: datetime) -> Entry:
        """Continue this chain from `now`, even if its newest entry is later. The payload holds both times."""
        self._noticed[tenant_id] = None
        if self._clock_reading is None:  # a person accepts the clock, so later readings are compared with it
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
                next_step="Record a digest, and store the data in another place.",
            )
        # An event that could not be exported and verified must not be recorded.
        if not _is_valid_at_a_glance(event, payload):
            LedgerEvent.from_tree(_tree(event, json.loads(payload)), source="the event to record")
        tip = self._tip(event.tenant_id)
        now = self.clock() if accepted is None else accepted
        # After the clock was set back, the times of a chain must not decrease unless a person accepted the clock.
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
        """Return the time, never earlier than the newest entry: a clock set back revives no expired authority."""
        newest = self._tip(tenant_id).created_at
        return max(self.clock(), parse_time(newest)) if newest else self.clock()

    def require_still_valid(self, actor: str | None, tenant_id: str) -> None:
        """Check that the caller's session or token is valid in this transaction. `append` checks it for each entry."""
        if isinstance(actor, Actor):
            judge_by_ledger(lambda now: actor.require_still_valid(self.store, now), self.time_in(tenant_id), self.clock)

    def times_in(self, tenant_id: str) -> ChainTimes:
        """Return the time of the clock together with `time_in`."""
        shown = self.clock()
        newest = self._tip(tenant_id).created_at
        return ChainTimes(shown, max(shown, parse_time(newest)) if newest else shown)

    def count(self, counter: Counter, *labels: str) -> None:
        """Count once, when this transaction is durable, and not before."""
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
        """Whether the last entry of each chain is stored. None if the batch wrote none, so nothing can prove it."""
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
        """Insert one row. Raises EVIDENCE_INVALID if a guard or a foreign trigger prevents it."""
        try:
            written = self.store.execute(sql, values)
        except GuardedTableError as problem:
            raise _tampered(f"the place of a new row is taken ({problem})") from problem
        if written != 1:
            raise _tampered("the database did not store a new row")

    def _insert_next(self, sql: str, values: tuple[Any, ...]) -> None:
        try:
            self.insert(sql, values)
        except ConflictError as problem:
            raise _tampered(f"the place of a new row is taken ({problem})") from problem

    def _notice_jump(self, tenant_id: str) -> None:
        """Record, once for each chain in a transaction, that the clock was set or is behind the ledger."""
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
    """The ledger of one workspace. It calls `signer` at each transaction, so that a rotated key takes effect."""

    def __init__(
        self,
        store: Store,
        signer: Callable[[], Signer],
        keyring: Callable[[], Keyring],
        anchors: Anchors,
        clock: Clock,
        watch: ClockWatch | None = None,
    ) -> None:
        """Open the ledger. `watch` notices that the clock was set since a process of this machine wrote here."""
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
        """The number of committed transactions. The benchmark divides the entries by it."""
        return self._group.groups

    def transact(self, work: Callable[[Batch], T]) -> T:
        """Run `work` in one durable transaction, which it may share with other writers of this process."""
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
        f"another program changed the ledger's tables: {what}",
        next_step="Keep the database as it is and run `remit ledger verify`.",
    )


def _is_valid_at_a_glance(event: NewEntry, payload: bytes) -> bool:
    """Whether the event is certainly valid. Ten times faster than the contract. False means: ask the contract."""
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
    """Return the event as a tree. `dataclasses.asdict` would copy the payload too, and cost as much as a signature."""
    return {
        "tenant_id": event.tenant_id,
        "kind": event.kind,
        "correlation_id": event.correlation_id,
        "task_id": event.task_id,
        "capability_id": event.capability_id,
        "actor": event.actor,
        "payload": payload,
    }
