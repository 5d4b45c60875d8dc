"""Evidence bundles: a chain, or the part about one correlation, in a file that an auditor can check alone.

JSON lines: a header, the entries, a trailer with the signed head. A bundle about one correlation still holds every
entry of the chain from its first one on, but only digests of the payloads that are not its business.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO, Any, Final, TypeVar

from remit.authority.signing import Keyring
from remit.canonical import canonical_bytes, digest, digest_bytes
from remit.contracts.base import Contract
from remit.contracts.ledger import BundleHeader, BundleTrailer, LedgerEntry, LedgerHead
from remit.errors import Reason, Refused, RemitError
from remit.ids import Clock, render_time
from remit.ledger.chain import ChainWalk, Link
from remit.ledger.entry import COLUMNS, Entry, entry_hash
from remit.ledger.findings import Fault, Verdict
from remit.ledger.heads import verify_head
from remit.store.connection import Connection, Store

M = TypeVar("M", bound=Contract)
MAX_LINE: Final = LedgerEntry.bounds.max_bytes
_HEAD_COLUMNS = ("tenant_id", "seq", "hash", "signed_at", "key_id", "signature")
_HEAD = f"SELECT {', '.join(_HEAD_COLUMNS)} FROM ledger_heads WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"
_FIRST = "SELECT min(seq) FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?"
_FROM = f"SELECT {COLUMNS} FROM ledger_entries WHERE tenant_id = ? AND seq >= ? AND seq <= ? ORDER BY seq"


def newest_head(connection: Connection, tenant_id: str) -> LedgerHead:
    """The signed head of a chain, as stored."""
    row = connection.one(_HEAD, (tenant_id,))
    if row is None:
        raise Refused(
            Reason.STATE_MISSING,
            f"tenant {tenant_id!r} has no entries yet",
            next_step="`remit ledger show` lists what is there.",
        )
    return LedgerHead.from_tree(dict(zip(_HEAD_COLUMNS, row, strict=True)))


def write_bundle(
    store: Store, out: IO[bytes], tenant_id: str, clock: Clock, *, correlation_id: str | None = None
) -> BundleTrailer:
    """Stream a bundle to `out` from one consistent view of the store."""
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
        count = 0
        for row in connection.stream(_FROM, (tenant_id, first, head.seq)):
            entry = Entry(*row)
            shown = correlation_id is None or entry.correlation_id == correlation_id
            out.write(canonical_bytes(_as_wire(entry, shown=shown)) + b"\n")
            count += 1
        trailer = BundleTrailer(entries=count, head=head)
        out.write(trailer.canonical() + b"\n")
    return trailer


def verify_bundle(stream: IO[bytes], keyring: Keyring, *, source: str) -> Verdict:
    """Check a bundle with nothing but public keys. Reads it once, one line in memory at a time."""
    verdict = Verdict(tenants=1)
    lines = _lines(stream, source)
    header = _parse(BundleHeader, next(lines, b""), source, 1)
    walk = ChainWalk(verdict, header.tenant_id, header.first_seq)
    previous: bytes | None = None
    number = 1
    for line in lines:
        if previous is not None:
            _check_entry(_parse(LedgerEntry, previous, source, number), header, walk, verdict)
        previous, number = line, number + 1
    trailer = _parse(BundleTrailer, previous or b"", source, number)
    _check_head(trailer, walk, header, keyring, verdict)
    return verdict


def _check_entry(entry: LedgerEntry, header: BundleHeader, walk: ChainWalk, verdict: Verdict) -> None:
    if entry.tenant_id != header.tenant_id:
        verdict.report(Fault.FOREIGN, header.tenant_id, entry.seq, f"this entry belongs to tenant {entry.tenant_id!r}")
    intact = entry.hash == entry_hash(
        entry.tenant_id,
        entry.seq,
        entry.entry_id,
        entry.created_at,
        entry.kind,
        entry.correlation_id,
        entry.task_id,
        entry.capability_id,
        entry.actor,
        entry.payload_digest,
        entry.prev_hash,
    )
    if not intact or (entry.payload is not None and digest(entry.payload) != entry.payload_digest):
        verdict.report(Fault.EDITED, entry.tenant_id, entry.seq, "the content does not fit the hash")
    walk.step(Link(entry.tenant_id, entry.seq, entry.created_at, entry.prev_hash, entry.hash, intact))


def _check_head(
    trailer: BundleTrailer, walk: ChainWalk, header: BundleHeader, keyring: Keyring, verdict: Verdict
) -> None:
    head = trailer.head
    verdict.heads = 1
    try:
        verify_head(head, keyring)
    except Refused as problem:
        unknown = problem.reason in {Reason.KEY_UNKNOWN, Reason.KEY_RETIRED}
        verdict.report(
            Fault.HEAD_UNKNOWN_KEY if unknown else Fault.HEAD_FORGED, header.tenant_id, head.seq, str(problem)
        )
    if head.tenant_id != header.tenant_id:
        verdict.report(Fault.FOREIGN, header.tenant_id, head.seq, f"the head is of tenant {head.tenant_id!r}")
    if head.seq > walk.length or trailer.entries > verdict.entries:
        what = f"the signed head proves {head.seq} entries, the bundle ends at {walk.length}"
        verdict.report(Fault.TRUNCATED, header.tenant_id, walk.length + 1, what)
    elif head.seq < walk.length:
        what = f"entries {head.seq + 1} to {walk.length} are covered by no signed head: an old head was put here"
        verdict.report(Fault.UNSIGNED_TAIL, header.tenant_id, head.seq + 1, what)
    elif head.hash != walk.hash:
        verdict.report(Fault.FORKED, header.tenant_id, head.seq, "the signed head names another last entry")


def _first_entry(connection: Connection, tenant_id: str, correlation_id: str | None) -> int:
    if correlation_id is None:
        return 1
    row = connection.one(_FIRST, (tenant_id, correlation_id))
    if row is None or row[0] is None:
        raise Refused(
            Reason.STATE_MISSING,
            f"no entry has the correlation {correlation_id!r}",
            next_step="`remit ledger show` lists the correlations.",
        )
    return int(row[0])


def _as_wire(entry: Entry, *, shown: bool) -> dict[str, Any]:
    tree = asdict(entry)
    tree["payload"] = json.loads(entry.payload) if shown else None
    tree["payload_digest"] = digest_bytes(entry.payload.encode())
    return tree


def _lines(stream: IO[bytes], source: str) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise Refused(Reason.TOO_LARGE, f"a line is longer than {MAX_LINE:,} bytes", where=source)
        yield line


def _parse(model: type[M], line: bytes, source: str, number: int) -> M:
    try:
        return model.parse(line, source=f"{source}, line {number}")
    except RemitError as problem:
        raise Refused(
            Reason.EVIDENCE_INVALID,
            f"this is not a whole evidence bundle: {problem.what}",
            where=problem.where,
            next_step="Export it again: remit ledger export -o FILE",
        ) from None
