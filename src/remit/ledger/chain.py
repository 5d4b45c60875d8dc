"""Checks of a chain that need only the entries in order. They are the same for a store and for a bundle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from remit.ledger.clock import ACCEPTED
from remit.ledger.entry import GENESIS, Entry
from remit.ledger.findings import RecordFault, VerificationReport

MAX_SUSPECTS: Final = 64


@dataclass(frozen=True, slots=True)
class Link:
    """The parts of an entry that the walk needs: its place, and whether its content fits its hash."""

    tenant_id: str
    seq: int
    created_at: str
    prev_hash: str
    hash: str
    intact: bool
    kind: str = ""
    payload: Mapping[str, Any] | None = None
    """The payload of an entry by which a person accepted the clock. None if it is not disclosed."""


def link_of(entry: Entry, *, intact: bool) -> Link:
    """Return the link of a stored entry. Parses its payload only if the walk needs it."""
    payload = json.loads(entry.payload) if intact and entry.kind == ACCEPTED else None
    return Link(entry.tenant_id, entry.seq, entry.created_at, entry.prev_hash, entry.hash, intact, entry.kind, payload)


class ChainWalk:
    """Checks the links of one chain in order. It keeps only a few values, however long the chain is.

    A walk may start in the middle. Then it accepts the predecessor of the first link as given, and the signed head at
    the end proves it.
    """

    def __init__(self, verdict: VerificationReport, tenant_id: str, first_seq: int = 1) -> None:
        self._verdict = verdict
        self._tenant_id = tenant_id
        self._expected = first_seq
        self.hash = GENESIS if first_seq == 1 else ""
        self._created_at = ""
        self.length = first_seq - 1

    def step(self, link: Link) -> None:
        self._verdict.count_entry()
        if link.seq < self._expected:
            self._report(RecordFault.FORKED, link.seq, "two entries claim this place in the chain")
            return
        if link.seq > self._expected:
            missing = link.seq - self._expected
            last = link.seq - 1
            which = f"entry {last} is" if missing == 1 else f"{missing} entries, {self._expected} to {last}, are"
            self._report(RecordFault.MISSING, self._expected, f"{which} missing")
        elif self.hash and link.prev_hash != self.hash and link.intact:
            self._report(
                RecordFault.BROKEN_LINK,
                link.seq,
                f"this entry does not continue entry {link.seq - 1}: that one was replaced, or this one inserted",
            )
        if link.created_at < self._created_at and not self._is_accepted(link):
            self._report(RecordFault.CLOCK_REVERSED, link.seq, "this entry claims to be older than the one before it")
        self._expected = link.seq + 1
        self.length = link.seq
        self.hash = link.hash
        self._created_at = link.created_at

    def _is_accepted(self, link: Link) -> bool:
        """Whether by this entry a person accepted the clock, and exactly the step back from the entry before it."""
        expected = {"newest_at": self._created_at, "accepted_at": link.created_at}
        if link.kind != ACCEPTED or not link.intact:
            return False
        return link.payload is None or all(link.payload.get(name) == at for name, at in expected.items())

    def _report(self, fault: RecordFault, seq: int, what: str) -> None:
        self._verdict.report(fault, self._tenant_id, seq, what)


class Suspects:
    """Entries whose content does not fit their hash. A comparison distinguishes swapped entries from edited ones."""

    def __init__(self, verdict: VerificationReport) -> None:
        self._verdict = verdict
        self._entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        if len(self._entries) < MAX_SUSPECTS:
            self._entries.append(entry)
        else:
            self._verdict.report(RecordFault.EDITED, entry.tenant_id, entry.seq, "the content does not fit the hash")

    def report(self) -> None:
        for entry in self._entries:
            fault, what = self._explain(entry)
            self._verdict.report(fault, entry.tenant_id, entry.seq, what)

    def _explain(self, entry: Entry) -> tuple[RecordFault, str]:
        for other in self._entries:
            if other is not entry and entry._replace(tenant_id=other.tenant_id, seq=other.seq).is_intact():
                if other.tenant_id != entry.tenant_id:
                    return (
                        RecordFault.FOREIGN,
                        f"this entry was written as number {other.seq} of tenant {other.tenant_id!r}",
                    )
                return RecordFault.REORDERED, f"this entry was written as number {other.seq}"
        return RecordFault.EDITED, "the content does not fit the hash: it was changed after it was written"
