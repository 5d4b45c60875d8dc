"""Signed heads against the entries they speak of: the ones in the database, and the ones kept elsewhere."""

from collections.abc import Iterator

from remit.contracts.ledger import LedgerHead
from remit.core.errors import Reason, RefusedError
from remit.crypto.signing import Keyring
from remit.ledger.findings import RecordFault, VerificationReport
from remit.ledger.heads import Anchors, verify_head

Witnesses = dict[str, list[LedgerHead]]
"""Heads kept outside the database, by tenant; each with a good signature."""


class HeadsCheck:
    """Merges the signed heads, and the witnesses kept elsewhere, with the entries as they pass by.

    A revoked key vouches for nothing, but what it signed while it was good is no alarm either, once a later head by
    another key covers the same entries.
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
            what = f"a signed head proves {beyond} entries, {length} are there: the tail was cut off"
            self._report(RecordFault.TRUNCATED, length + 1, what)
        elif self._worthless > self._covered:
            what = "only a revoked key signed for the entries up to here; the next append signs for them anew"
            self._report(RecordFault.HEAD_UNKNOWN_KEY, self._worthless, what)
        elif self._covered < length:
            what = f"entries {self._covered + 1} to {length} are covered by no signed head: an old head was put back"
            self._report(RecordFault.UNSIGNED_TAIL, self._covered + 1, what)

    def _check(self, head: LedgerHead, seq: int, entry_hash: str, created_at: str) -> None:
        if not self._signed(head) or head.seq != seq:
            return  # a head whose entry is gone: the walk reports that
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
    """What is wrong with a head's signature, if anything."""
    strange = RecordFault.HEAD_FORGED, "the head holds values that Remit never writes"
    if not all(type(value) is str for name, value in vars(head).items() if name != "seq"):
        return strange  # put there by hand, in a table that no longer minds
    try:
        verify_head(head, keyring)
    except RefusedError as problem:
        unknown = problem.reason in {Reason.KEY_UNKNOWN, Reason.KEY_RETIRED}
        return (RecordFault.HEAD_UNKNOWN_KEY if unknown else RecordFault.HEAD_FORGED), str(problem)
    except (ValueError, TypeError):  # a time that is none
        return strange
    return None


def revoked_keys(keyring: Keyring) -> frozenset[str]:
    return frozenset(key.key_id for key in keyring if key.revoked_at)


def collect_witnesses(
    anchors: Anchors, known_heads: tuple[LedgerHead, ...], keyring: Keyring, verdict: VerificationReport
) -> Witnesses:
    """The anchors and the heads given, as far as their signatures are good; the others are reported."""
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
