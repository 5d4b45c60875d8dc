"""Evidence bundles: a chain, or the part about one correlation, in a file that an auditor can check alone.

A bundle is a file of JSON lines: a header, the entries, and a trailer with the signed head. A bundle about one
correlation holds every entry of the chain from the first one about it. For entries about other correlations it holds
only the digest of the payload.

A bundle proves that nothing between its first and its last entry was changed, left out or added. By itself it cannot
prove that nothing about the correlation came before the first entry or after the head. A full bundle starts at the
beginning of the chain. A head that was kept outside of the workspace (`known_heads`) shows whether the end is complete.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Final, TypeVar

from remit.contracts.base import Contract
from remit.contracts.ledger import BundleHeader, BundleTrailer, LedgerEntry, LedgerHead
from remit.core.canonical import canonical_bytes, digest
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import Clock, render_time
from remit.crypto.signing import Keyring
from remit.ledger.chain import ChainWalk, Link
from remit.ledger.entry import COLUMNS, Entry, entry_hash
from remit.ledger.findings import Progress, RecordFault, VerificationReport
from remit.ledger.heads import HEAD_FIELDS
from remit.ledger.heads_check import head_fault
from remit.store.connection import Connection, Store

M = TypeVar("M", bound=Contract)
MAX_LINE: Final = LedgerEntry.bounds.max_bytes
_HEAD = f"SELECT {', '.join(HEAD_FIELDS)} FROM ledger_heads WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"
_ENDS = "SELECT tenant_id, max(seq) FROM ledger_heads GROUP BY tenant_id ORDER BY tenant_id"
_FIRST = "SELECT min(seq) FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?"
_FROM = f"SELECT {COLUMNS} FROM ledger_entries WHERE tenant_id = ? AND seq >= ? AND seq <= ? ORDER BY seq"


@dataclass(frozen=True, slots=True)
class BundleSummary:
    """The content of a bundle: the number of entries, the number of those with their payload, and the head."""

    entries: int
    disclosed: int
    head: LedgerHead


def chain_ends(connection: Connection) -> dict[str, int]:
    """Return the place of the last signed head of every chain, by tenant."""
    return {str(tenant): int(seq) for tenant, seq in connection.rows(_ENDS, ())}


def newest_head(connection: Connection, tenant_id: str) -> LedgerHead:
    """Return the stored signed head of a chain."""
    row = connection.one(_HEAD, (tenant_id,))
    if row is None:
        raise RefusedError(
            Reason.STATE_MISSING,
            f"tenant {tenant_id!r} has no entries yet",
            next_step="`remit ledger show` lists what is there.",
        )
    return LedgerHead.from_tree(dict(zip(HEAD_FIELDS, row, strict=True)))


def write_bundle(
    store: Store, out: IO[bytes], tenant_id: str, clock: Clock, *, correlation_id: str | None = None
) -> BundleSummary:
    """Write a bundle to `out` as a stream, from one consistent view of the store."""
    with store.reading() as connection:
        head = newest_head(connection, tenant_id)
        first = _first_entry(connection, tenant_id, correlation_id)
        header = BundleHeader(
            bundle="remit-evidence",
            version=1,
            tenant_id=tenant_id,
            first_seq=first,
            correlation_id=correlation_id,
            exported_at=render_time(clock()),
        )
        out.write(header.canonical() + b"\n")
        count = disclosed = 0
        for row in connection.stream(_FROM, (tenant_id, first, head.seq)):
            entry = Entry(*row)
            shown = correlation_id is None or entry.correlation_id == correlation_id
            out.write(canonical_bytes(entry.as_wire(shown=shown)) + b"\n")
            count += 1
            disclosed += shown
        out.write(BundleTrailer(entries=count, head=head).canonical() + b"\n")
    return BundleSummary(count, disclosed, head)


def verify_bundle(
    stream: IO[bytes],
    keyring: Keyring,
    *,
    source: str,
    known_heads: tuple[LedgerHead, ...] = (),
    progress: Progress | None = None,
) -> VerificationReport:
    """Check a bundle with public keys alone. Reads it once, with one line in memory at a time."""
    verdict = VerificationReport(tenants=1, progress=progress) if progress else VerificationReport(tenants=1)
    lines = _lines(stream, source)
    header = _parse(BundleHeader, next(lines, b""), source, 1)
    check = _BundleCheck(header, _trusted(known_heads, header, keyring, verdict), verdict)
    previous: bytes | None = None
    number = 1
    for line in lines:
        if previous is not None:
            check.pass_entry(_parse(LedgerEntry, previous, source, number))
        previous, number = line, number + 1
    trailer = _closing_line(previous)
    if trailer is not None:
        check.finish(trailer, keyring)
    else:
        if previous is not None and previous.endswith(b"\n"):
            check.pass_entry(_parse(LedgerEntry, previous, source, number))
        check.stop_short()
    return verdict


class _BundleCheck:
    """Checks the entries of one bundle in order, and the head at their end."""

    def __init__(self, header: BundleHeader, witnesses: list[LedgerHead], verdict: VerificationReport) -> None:
        self._header = header
        self._witnesses = witnesses
        self._verdict = verdict
        self._walk = ChainWalk(verdict, header.tenant_id, header.first_seq)
        if header.correlation_id is None and header.first_seq != 1:
            self._report(RecordFault.MISSING, 1, f"a full bundle begins at entry 1, and this one at {header.first_seq}")

    def pass_entry(self, entry: LedgerEntry) -> None:
        if entry.tenant_id != self._header.tenant_id:
            self._report(RecordFault.FOREIGN, entry.seq, f"this entry belongs to tenant {entry.tenant_id!r}")
        self._check_disclosure(entry)
        intact = entry.hash == entry_hash(vars(entry))
        if not intact or (entry.payload is not None and digest(entry.payload) != entry.payload_digest):
            self._report(RecordFault.EDITED, entry.seq, "the content does not fit the hash")
        at = (entry.tenant_id, entry.seq, entry.created_at)
        self._walk.step(Link(*at, entry.prev_hash, entry.hash, intact, entry.kind, entry.payload))
        for witness in self._witnesses:
            if witness.seq == entry.seq and witness.hash != entry.hash:
                self._report(RecordFault.FORKED, entry.seq, "the head you gave names another entry at this place")

    def finish(self, trailer: BundleTrailer, keyring: Keyring) -> None:
        head, length = trailer.head, self._walk.length
        self._verdict.heads = 1
        fault = _head_fault(head, keyring)
        if fault is not None:
            self._report(fault[0], head.seq, fault[1])
        if head.tenant_id != self._header.tenant_id:
            self._report(RecordFault.FOREIGN, head.seq, f"the head belongs to tenant {head.tenant_id!r}")
        if head.seq < length:
            what = f"no signed head covers entries {head.seq + 1} to {length}: the head was replaced by an older one"
            self._report(RecordFault.UNSIGNED_TAIL, head.seq + 1, what)
        elif head.seq == length and head.hash != self._walk.hash:
            self._report(RecordFault.FORKED, head.seq, "the signed head names another last entry")
        proven = max(head.seq, *(witness.seq for witness in self._witnesses), 0)
        if proven > length:
            self._report(
                RecordFault.TRUNCATED, length + 1, f"a head proves {proven} entries, and the bundle ends at {length}"
            )
        if trailer.entries != self._verdict.entries:
            what = f"the last line names {trailer.entries} entries, and the bundle has {self._verdict.entries}"
            self._report(RecordFault.MISSING, length + 1, what)

    def stop_short(self) -> None:
        """Report a file that ends before its closing line. Nothing in it tells how long the chain was."""
        self._report(RecordFault.TRUNCATED, self._walk.length + 1, "no closing line: the end of the file was cut off")

    def _check_disclosure(self, entry: LedgerEntry) -> None:
        """Check that each payload that must be disclosed is there. It can be removed without breaking the chain."""
        topic = self._header.correlation_id
        if entry.payload is None and topic in {None, entry.correlation_id}:
            self._report(RecordFault.WITHHELD, entry.seq, "the payload of this entry was removed from the bundle")
        if entry.seq == self._header.first_seq and topic not in {None, entry.correlation_id}:
            self._report(RecordFault.MISSING, entry.seq, f"the first entry is not about the correlation {topic!r}")

    def _report(self, fault: RecordFault, seq: int, what: str) -> None:
        self._verdict.report(fault, self._header.tenant_id, seq, what)


def _trusted(
    known_heads: tuple[LedgerHead, ...], header: BundleHeader, keyring: Keyring, verdict: VerificationReport
) -> list[LedgerHead]:
    """Return the given heads of this tenant that have a valid signature."""
    trusted = []
    for head in known_heads:
        if head.tenant_id != header.tenant_id:
            continue
        fault = _head_fault(head, keyring)
        if fault is not None:
            verdict.report(fault[0], head.tenant_id, head.seq, f"the head you gave: {fault[1]}")
        else:
            trusted.append(head)
    verdict.anchored = 1 if trusted else 0
    return trusted


def _head_fault(head: LedgerHead, keyring: Keyring) -> tuple[RecordFault, str] | None:
    """Return the fault of a head, if any. An unknown key gets its own text: the auditor may have a wrong key."""
    if all(key.key_id != head.key_id for key in keyring if key.role == "audit"):
        what = (
            f"the head was signed by another key ({head.key_id}) than the given one:"
            " is this the audit key of that workspace?"
        )
        return RecordFault.HEAD_UNKNOWN_KEY, what
    return head_fault(head, keyring)


def _closing_line(line: bytes | None) -> BundleTrailer | None:
    try:
        return BundleTrailer.parse(line or b"")
    except RemitError:
        return None


def _first_entry(connection: Connection, tenant_id: str, correlation_id: str | None) -> int:
    if correlation_id is None:
        return 1
    row = connection.one(_FIRST, (tenant_id, correlation_id))
    if row is None or row[0] is None:
        raise RefusedError(
            Reason.STATE_MISSING,
            f"no entry has the correlation {correlation_id!r}",
            next_step="`remit ledger show` lists the correlations.",
        )
    return int(row[0])


def _lines(stream: IO[bytes], source: str) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise RefusedError(
                Reason.TOO_LARGE,
                f"this is not an evidence bundle: a line is longer than {MAX_LINE:,} bytes",
                where=source,
                next_step="Export it again: remit ledger export -o FILE",
            )
        yield line


def _parse(model: type[M], line: bytes, source: str, number: int) -> M:
    try:
        return model.parse(line, source=f"{source}, line {number}")
    except RemitError as problem:
        raise RefusedError(
            Reason.EVIDENCE_INVALID,
            f"this is not a complete evidence bundle: {problem.what}",
            where=problem.where,
            next_step="Export it again: remit ledger export -o FILE",
        ) from None
