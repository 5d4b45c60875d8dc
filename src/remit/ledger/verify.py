"""Checking a whole store against its keys and its anchors, in one pass and bounded memory."""

from collections.abc import Iterator

from remit.authority.signing import Keyring
from remit.contracts.ledger import LedgerHead
from remit.errors import EnvironmentFailed, Reason, Refused
from remit.ledger.agent_rows import AgentRowsCheck
from remit.ledger.chain import ChainWalk, Link, Suspects
from remit.ledger.entry import COLUMNS, Entry
from remit.ledger.findings import Fault, Verdict
from remit.ledger.guards import missing_guards
from remit.ledger.heads import Anchors, verify_head
from remit.ledger.projections import projection_drift
from remit.store.connection import Connection, Store

_ENTRIES = f"SELECT {COLUMNS} FROM ledger_entries WHERE tenant_id = ? ORDER BY seq"
_HEADS = "SELECT tenant_id, seq, hash, signed_at, key_id, signature FROM ledger_heads WHERE tenant_id = ? ORDER BY seq"


def verify_store(
    store: Store,
    keyring: Keyring,
    anchors: Anchors,
    *,
    tenant_id: str | None = None,
    known_heads: tuple[LedgerHead, ...] = (),
) -> Verdict:
    """Every chain, every signed head, the agent tables and the projection; and that none of it was cut short.

    `known_heads` are heads that somebody kept elsewhere: the stronger anchor, since it lies out of reach of whoever
    could write to both the database and the state directory.
    """
    verdict = Verdict()
    try:
        with store.reading() as connection:
            for table, guard in missing_guards(connection):
                verdict.report(Fault.GUARD_MISSING, "", None, f"table {table} lost its guard {guard}")
            wanted = _witnesses(anchors, known_heads, keyring, verdict)
            tenants = [tenant_id] if tenant_id is not None else sorted({*_tenants(connection), *wanted})
            suspects = Suspects()
            for tenant in tenants:
                verdict.tenants += 1
                _verify_chain(connection, keyring, tenant, wanted.get(tenant, []), verdict, suspects)
            suspects.report_to(verdict)
            for drift_tenant, seq, what in projection_drift(connection, tenant_id):
                verdict.report(Fault.PROJECTION_DRIFT, drift_tenant, seq, what)
    except EnvironmentFailed as problem:
        if problem.reason is not Reason.EVIDENCE_INVALID:
            raise
        verdict.report(Fault.STORE_DAMAGED, "", None, str(problem))
    return verdict


def _verify_chain(  # noqa: PLR0913 - one pass shares all of this
    connection: Connection,
    keyring: Keyring,
    tenant_id: str,
    witnesses: list[LedgerHead],
    verdict: Verdict,
    suspects: Suspects,
) -> None:
    walk = ChainWalk(verdict, tenant_id)
    heads = HeadsCheck(keyring, tenant_id, _heads(connection, tenant_id), witnesses, verdict)
    rows = AgentRowsCheck(connection, tenant_id, verdict)
    for row in connection.stream(_ENTRIES, (tenant_id,)):
        entry = Entry(*row)
        intact = _is_intact(entry)
        if not intact:
            suspects.add(entry)
        walk.step(Link(entry.tenant_id, entry.seq, entry.created_at, entry.prev_hash, entry.hash, intact))
        heads.pass_entry(entry.seq, entry.hash)
        rows.pass_entry(entry)
    heads.finish(walk.length)
    rows.finish()


def _is_intact(entry: Entry) -> bool:
    try:
        return entry.expected_hash() == entry.hash
    except Refused:  # a value that canonical JSON cannot hold was put there by hand
        return False


class HeadsCheck:
    """Merges the signed heads, and the witnesses kept elsewhere, with the entries as they pass by."""

    def __init__(
        self,
        keyring: Keyring,
        tenant_id: str,
        heads: Iterator[LedgerHead],
        witnesses: list[LedgerHead],
        verdict: Verdict,
    ) -> None:
        self._keyring = keyring
        self._tenant_id = tenant_id
        self._heads = heads
        self._next = next(heads, None)
        self._witnesses = witnesses
        self._verdict = verdict
        self._covered = 0

    def pass_entry(self, seq: int, entry_hash: str) -> None:
        while self._next is not None and self._next.seq <= seq:
            self._check(self._next, seq, entry_hash)
            self._next = next(self._heads, None)
        for witness in self._witnesses:
            if witness.seq == seq and witness.hash != entry_hash:
                what = "a head that was signed for this place names another entry: history was rewritten or forked"
                self._verdict.report(Fault.FORKED, self._tenant_id, seq, what)

    def finish(self, length: int) -> None:
        beyond = max((witness.seq for witness in self._witnesses), default=0)
        while self._next is not None:
            if self._signed(self._next):
                beyond = max(beyond, self._next.seq)
            self._next = next(self._heads, None)
        if beyond > length:
            what = f"a signed head proves {beyond} entries, {length} are there: the tail was cut off"
            self._verdict.report(Fault.TRUNCATED, self._tenant_id, length + 1, what)
        elif self._covered < length:
            what = f"entries {self._covered + 1} to {length} are covered by no signed head: an old head was put back"
            self._verdict.report(Fault.UNSIGNED_TAIL, self._tenant_id, self._covered + 1, what)

    def _check(self, head: LedgerHead, seq: int, entry_hash: str) -> None:
        if not self._signed(head) or head.seq != seq:
            return  # a head whose entry is gone: the walk reports that
        if head.hash != entry_hash:
            what = "the head signed for this entry names another hash: it was replaced after signing"
            self._verdict.report(Fault.FORKED, self._tenant_id, seq, what)
            return
        self._covered = seq

    def _signed(self, head: LedgerHead) -> bool:
        self._verdict.heads += 1
        try:
            verify_head(head, self._keyring)
        except Refused as problem:
            if problem.reason is Reason.REVOKED:
                return False  # proves nothing, and need not: a later head by a good key covers its entries
            unknown = problem.reason in {Reason.KEY_UNKNOWN, Reason.KEY_RETIRED}
            fault = Fault.HEAD_UNKNOWN_KEY if unknown else Fault.HEAD_FORGED
            self._verdict.report(fault, self._tenant_id, head.seq, str(problem))
            return False
        return True


def _witnesses(
    anchors: Anchors, known_heads: tuple[LedgerHead, ...], keyring: Keyring, verdict: Verdict
) -> dict[str, list[LedgerHead]]:
    found: dict[str, list[LedgerHead]] = {}
    for name, head in anchors:
        if head is None:
            verdict.report(Fault.ANCHOR_UNREADABLE, "", None, f"the anchor {name} holds no readable head")
        else:
            _witness(found, head, f"the anchor {name}", keyring, verdict)
    for head in known_heads:
        _witness(found, head, "the head you gave", keyring, verdict)
    return found


def _witness(
    found: dict[str, list[LedgerHead]], head: LedgerHead, origin: str, keyring: Keyring, verdict: Verdict
) -> None:
    try:
        verify_head(head, keyring)
    except Refused as problem:
        if problem.reason is Reason.REVOKED:
            return
        verdict.report(Fault.HEAD_FORGED, head.tenant_id, head.seq, f"{origin}: {problem}")
    else:
        found.setdefault(head.tenant_id, []).append(head)


def _heads(connection: Connection, tenant_id: str) -> Iterator[LedgerHead]:
    for tenant, seq, hash_, signed_at, key_id, signature in connection.stream(_HEADS, (tenant_id,)):
        # Not validated here: a malformed field fails the signature check, which names it.
        yield LedgerHead.model_construct(
            tenant_id=tenant, seq=seq, hash=hash_, signed_at=signed_at, key_id=key_id, signature=signature
        )


def _tenants(connection: Connection) -> Iterator[str]:
    """Distinct tenants by skipping through the index, not by reading every entry."""
    tenant = ""
    while True:
        row = connection.one("SELECT min(tenant_id) FROM ledger_entries WHERE tenant_id > ?", (tenant,))
        if row is None or row[0] is None:
            return
        tenant = row[0]
        yield tenant
