"""The faults that verification can find, by name, and its report."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class RecordFault(StrEnum):
    """The faults of a record. Their names are stable, since scripts match on them."""

    EDITED = "edited"
    MISSING = "missing"
    REORDERED = "reordered"
    FOREIGN = "foreign"
    BROKEN_LINK = "broken_link"
    FORKED = "forked"
    CLOCK_REVERSED = "clock_reversed"
    TRUNCATED = "truncated"
    UNSIGNED_TAIL = "unsigned_tail"
    HEAD_FORGED = "head_forged"
    HEAD_UNKNOWN_KEY = "head_unknown_key"
    ROW_EDITED = "row_edited"
    ROW_MISSING = "row_missing"
    ROW_WITHOUT_EVIDENCE = "row_without_evidence"
    CLAIM_FORGED = "claim_forged"
    PROJECTION_DRIFT = "projection_drift"
    WITHHELD = "withheld"
    GUARD_MISSING = "guard_missing"
    GUARD_FOREIGN = "guard_foreign"
    SCHEMA_CHANGED = "schema_changed"
    ANCHOR_UNREADABLE = "anchor_unreadable"
    STORE_DAMAGED = "store_damaged"


@dataclass(frozen=True, slots=True)
class RecordFinding:
    fault: RecordFault
    tenant_id: str
    seq: int | None
    what: str

    def as_json(self) -> dict[str, str | int | None]:
        return {"fault": self.fault.value, "tenant_id": self.tenant_id, "seq": self.seq, "what": self.what}


# Called at intervals with the number of entries checked so far.
Progress = Callable[[int], None]
PROGRESS_EVERY = 5_000

MAX_FINDINGS = 1_000


@dataclass(slots=True)
class VerificationReport:
    """What was checked, and what was wrong with it. An empty list means that nothing was wrong."""

    entries: int = 0
    heads: int = 0
    tenants: int = 0
    anchored: int = 0
    """The number of tenants whose chain was compared with a head kept outside the database."""
    findings: list[RecordFinding] = field(default_factory=list)
    suppressed: int = 0
    progress: Progress = field(default=lambda _: None, repr=False)

    def count_entry(self) -> None:
        self.entries += 1
        if self.entries % PROGRESS_EVERY == 0:
            self.progress(self.entries)

    @property
    def holds(self) -> bool:
        return not self.findings

    def report(self, fault: RecordFault, tenant_id: str, seq: int | None, what: str) -> None:
        """Add a finding, as text that can always be written. Their number is limited, so that a ledger with a fault in
        every row cannot exhaust memory.
        """
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(RecordFinding(fault, _writable(tenant_id), seq, _writable(what)))
        else:
            self.suppressed += 1

    def as_json(self) -> dict[str, object]:
        return {
            "holds": self.holds,
            "entries": self.entries,
            "heads": self.heads,
            "tenants": self.tenants,
            "anchored": self.anchored,
            "findings": [finding.as_json() for finding in self.findings],
            "suppressed": self.suppressed,
        }


def _writable(text: str) -> str:
    r"""Return the text with bytes that are not UTF-8, which arrive as lone surrogates, written as `\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
