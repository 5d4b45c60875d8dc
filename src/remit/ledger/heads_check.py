"""Compares signed heads with their entries: the heads in the database, and those kept outside of it."""

from collections.abc import Iterator

from remit.contracts.ledger import LedgerHead
from remit.core.errors import Reason, RefusedError
from remit.crypto.signing import Keyring
from remit.ledger.findings import RecordFault, VerificationReport
from remit.ledger.heads import Anchors, verify_head

Witnesses = dict[str, list[LedgerHead]]
"""Heads kept outside the database, by tenant. Each has a valid signature."""


class HeadsCheck:
    """Compares the signed heads and the witnesses from outside the database with the entries, in order.

    A revoked key proves nothing. But its earlier signatures are no fault either if a later head by another key covers
    the same entries.
    """

    def __init__(
        self,
        keyring: Keyring,
        tenant_id: str,
        heads: Iterator[LedgerHead],
        witnesses: list[LedgerHead],
        verdict: VerificationReport,
    ) -> None:
        self._keyring = keyring
        self._revoked = revoked_keys(keyring)
        self._tenant_id = tenant_id
        self._heads = heads
        self._next = next(heads, None)
        self._witnesses = witnesses
        self._verdict = verdict
        self._covered = 0
        self._worthless = 0

    def pass_entry(self, seq: int, entry_hash: str, created_at: str) -> None:
        while self._next is not None and self._next.seq <= seq:
            self._check(self._next, seq, entry_hash, created_at)
            self._next = next(self._heads, None)
        for witness in self._witnesses:
            if witness.seq == seq and witness.hash != entry_hash:
                what = "a head that was signed for this place names another entry: history was rewritten or forked"
                self._report(RecordFault.FORKED, seq, what)

    def finish(self, length: int) -> None:
        beyond = max((witness.seq for witness in self._witnesses), default=0)
        while self._next is not None:
            if self._signed(self._next):
                beyond = max(beyond, self._next.seq)
            self._next = next(self._heads, None)
        if beyond > length:
            what = f"a signed head proves {beyond} entries, and {length} are there: the tail was cut off"
            self._report(RecordFault.TRUNCATED, length + 1, what)
        elif self._worthless > self._covered:
            what = "only a revoked key signed the entries up to here; the next append signs them again"
            self._report(RecordFault.HEAD_UNKNOWN_KEY, self._worthless, what)
        elif self._covered < length:
            what = f"no signed head covers entries {self._covered + 1} to {length}: an old head was put back"
            self._report(RecordFault.UNSIGNED_TAIL, self._covered + 1, what)

    def _check(self, head: LedgerHead, seq: int, entry_hash: str, created_at: str) -> None:
        if not self._signed(head) or head.seq != seq:
            return  # the entry of this head is missing, which the walk reports
        if head.hash != entry_hash:
            what = "the head signed for this entry names another hash: it was replaced after signing"
            self._report(RecordFault.FORKED, seq, what)
            return
        if head.signed_at < created_at:
            self._report(RecordFault.CLOCK_REVERSED, seq, "the head claims to be signed before this entry was written")
        self._covered = seq

    def _signed(self, head: LedgerHead) -> bool:
        self._verdict.heads += 1
        if head.key_id in self._revoked:
            self._worthless = head.seq
            return False
        fault = head_fault(head, self._keyring)
        if fault is not None:
            self._report(fault[0], head.seq, fault[1])
        return fault is None

    def _report(self, fault: RecordFault, seq: int, what: str) -> None:
        self._verdict.report(fault, self._tenant_id, seq, what)


def head_fault(head: LedgerHead, keyring: Keyring) -> tuple[RecordFault, str] | None:
    """Return what is wrong with the signature of a head, if anything."""
    strange = RecordFault.HEAD_FORGED, "the head holds values that Remit never writes"
    if not all(type(value) is str for name, value in vars(head).items() if name != "seq"):
        return strange  # inserted by hand, into a table whose column types were changed
    try:
        verify_head(head, keyring)
    except RefusedError as problem:
        unknown = problem.reason in {Reason.KEY_UNKNOWN, Reason.KEY_RETIRED}
        return (RecordFault.HEAD_UNKNOWN_KEY if unknown else RecordFault.HEAD_FORGED), str(problem)
    except (ValueError, TypeError):  # an invalid time
        return strange
    return None


def revoked_keys(keyring: Keyring) -> frozenset[str]:
    return frozenset(key.key_id for key in keyring if key.revoked_at)


def collect_witnesses(
    anchors: Anchors, known_heads: tuple[LedgerHead, ...], keyring: Keyring, verdict: VerificationReport
) -> Witnesses:
    """Return the anchors and given heads with a valid signature. Report the others."""
    found: Witnesses = {}
    revoked = revoked_keys(keyring)
    for name, head in anchors:
        if head is None:
            what = f"the anchor {name} holds no readable head of its tenant"
            verdict.report(RecordFault.ANCHOR_UNREADABLE, "", None, what)
        elif head.key_id not in revoked:
            _witness(found, head, f"the anchor {name}", keyring, verdict)
    for head in known_heads:
        _witness(found, head, "the head you gave", keyring, verdict)
    return found


def _witness(found: Witnesses, head: LedgerHead, origin: str, keyring: Keyring, verdict: VerificationReport) -> None:
    fault = head_fault(head, keyring)
    if fault is not None:
        verdict.report(fault[0], head.tenant_id, head.seq, f"{origin}: {fault[1]}")
    else:
        found.setdefault(head.tenant_id, []).append(head)
