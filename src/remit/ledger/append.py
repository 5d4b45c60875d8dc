"""Writing to the ledger: one transaction for many callers, a hash chain for each tenant, a signed head at the end."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from remit.authority.signing import Signer
from remit.canonical import canonical_bytes, digest_bytes
from remit.contracts.ledger import LedgerHead
from remit.errors import Reason, Refused
from remit.faultpoints import reach
from remit.ids import Clock, render_time, uuid7
from remit.ledger.entry import COLUMNS, GENESIS, Entry, Event, entry_hash
from remit.ledger.heads import Anchors, sign_head
from remit.store.connection import Connection, Store
from remit.store.group import GroupCommit
from remit.store.migrate import require_current

T = TypeVar("T")
MAX_PAYLOAD = 1 << 20

_INSERT = f"INSERT INTO ledger_entries ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_HEAD = "INSERT INTO ledger_heads (tenant_id, seq, hash, signed_at, key_id, signature) VALUES (?, ?, ?, ?, ?, ?)"
_TIP = "SELECT seq, hash, created_at FROM ledger_entries WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"


class Tip(NamedTuple):
    """The end of a chain."""

    seq: int
    hash: str
    created_at: str


class Batch:
    """One transaction on the store, seen from the ledger: rows may be written and events appended together."""

    def __init__(self, store: Connection, signer: Callable[[], Signer], clock: Clock, anchors: Anchors) -> None:
        self.store = store
        self.clock = clock
        self._signer = signer
        self._anchors = anchors
        self._tips: dict[str, Tip] = {}
        self._written: dict[str, Tip] = {}
        self._heads: list[LedgerHead] = []

    def append(self, event: Event) -> Entry:
        """Add an event to its tenant's chain. It is durable when the transaction returns, not before."""
        payload = canonical_bytes(event.payload)
        if len(payload) > MAX_PAYLOAD:
            raise Refused(
                Reason.TOO_LARGE,
                f"a ledger entry's payload is larger than {MAX_PAYLOAD:,} bytes",
                where=event.kind,
                next_step="Record a digest and keep the data elsewhere.",
            )
        tip = self._tip(event.tenant_id)
        now = self.clock()
        # A clock that was set back must not make the record run backwards.
        created_at = max(render_time(now), tip.created_at)
        entry_id = uuid7(now)
        seq = tip.seq + 1
        hashed = entry_hash(
            event.tenant_id,
            seq,
            entry_id,
            created_at,
            event.kind,
            event.correlation_id,
            event.task_id,
            event.capability_id,
            event.actor,
            digest_bytes(payload),
            tip.hash,
        )
        entry = Entry(
            event.tenant_id,
            seq,
            entry_id,
            created_at,
            event.kind,
            event.correlation_id,
            event.task_id,
            event.capability_id,
            event.actor,
            payload.decode(),
            tip.hash,
            hashed,
        )
        self.store.execute(_INSERT, _row(entry))
        self._tips[event.tenant_id] = self._written[event.tenant_id] = Tip(seq, hashed, created_at)
        reach("append.inserted")
        return entry

    def mark(self) -> Any:
        return dict(self._tips), dict(self._written)

    def reset(self, mark: Any) -> None:
        self._tips, self._written = mark

    def seal(self) -> None:
        if not self._written:
            return
        self.store.lock_keys(exclusive=False)
        signer = self._signer()
        for tenant_id, tip in self._written.items():
            head = sign_head(signer, tenant_id, tip.seq, tip.hash, max(render_time(self.clock()), tip.created_at))
            self._heads.append(head)
            self.store.execute(
                _INSERT_HEAD, (head.tenant_id, head.seq, head.hash, head.signed_at, head.key_id, head.signature)
            )
        reach("append.signed")

    def committed(self) -> None:
        for head in self._heads:
            self._anchors.record(head)
        reach("append.anchored")

    def _tip(self, tenant_id: str) -> Tip:
        tip = self._tips.get(tenant_id)
        if tip is None:
            self.store.lock_chain(tenant_id)
            row = self.store.one(_TIP, (tenant_id,))
            tip = self._tips[tenant_id] = Tip(*row) if row else Tip(0, GENESIS, "")
        return tip


class Ledger:
    """The record of one workspace. `signer` is asked for at each transaction, so that a rotated key takes effect."""

    def __init__(self, store: Store, signer: Callable[[], Signer], anchors: Anchors, clock: Clock) -> None:
        self.store = store
        self.anchors = anchors
        self._group = GroupCommit(store, lambda connection: Batch(connection, signer, clock, anchors))
        with store.reading() as connection:
            require_current(connection)

    @property
    def transactions(self) -> int:
        """How many transactions were committed: the benchmark divides entries by it."""
        return self._group.groups

    def transact(self, work: Callable[[Batch], T]) -> T:
        """Run `work` in one durable transaction, shared with whoever else is writing now."""
        return self._group.run(work)

    def append(self, event: Event) -> Entry:
        return self.transact(lambda batch: batch.append(event))

    def close(self) -> None:
        self._group.close()


def _row(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.tenant_id,
        entry.seq,
        entry.entry_id,
        entry.created_at,
        entry.kind,
        entry.correlation_id,
        entry.task_id,
        entry.capability_id,
        entry.actor,
        entry.payload,
        entry.prev_hash,
        entry.hash,
    )
