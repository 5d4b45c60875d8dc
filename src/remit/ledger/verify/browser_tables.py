"""Compares tokens, revocations and approvals with the chain, and finds rows that were added, removed or changed.

No code acts on such a row without its entry. This check finds changes in rows that were not used since.
"""

import json
from collections import Counter
from typing import Any, Final

from remit.core.errors import RefusedError
from remit.ledger.entry import Entry
from remit.ledger.findings import RecordFault, VerificationReport
from remit.store.approvals import KIND_OF, ApprovalRow
from remit.store.connection import Connection, Row

_TABLES: Final = {
    "token.issued": "browser_tokens",
    "token.revoked": "browser_token_revocations",
    "approval.requested": "approvals",
}
"""The tables with one row for each entry of that kind."""
_TOKENS: Final = """SELECT t.jti, t.token_digest, t.entry_seq, e.kind, e.payload FROM browser_tokens t
  LEFT JOIN ledger_entries e ON e.tenant_id = t.tenant_id AND e.seq = t.entry_seq WHERE t.tenant_id = ?"""
_REVOCATIONS: Final = """SELECT t.jti, t.entry_seq, e.kind, e.correlation_id FROM browser_token_revocations t
  LEFT JOIN ledger_entries e ON e.tenant_id = t.tenant_id AND e.seq = t.entry_seq WHERE t.tenant_id = ?"""
_APPROVALS: Final = f"""SELECT {", ".join(f"a.{name}" for name in ApprovalRow._fields)},
    r.kind, r.payload, e.kind, e.payload, e.actor FROM approvals a
  LEFT JOIN ledger_entries r ON r.tenant_id = a.tenant_id AND r.seq = a.requested_seq
  LEFT JOIN ledger_entries e ON e.tenant_id = a.tenant_id AND e.seq = a.entry_seq WHERE a.tenant_id = ?"""


class BrowserRowsCheck:
    """Counts the entries of the chain, and then compares them with the tables."""

    def __init__(self, connection: Connection, tenant_id: str, verdict: VerificationReport) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._verdict = verdict
        self._seen: Counter[str] = Counter()

    def pass_entry(self, entry: Entry) -> None:
        if entry.kind in _TABLES:
            self._seen[entry.kind] += 1

    def finish(self) -> None:
        for kind, table in _TABLES.items():
            row = self._connection.one(f"SELECT count(*) FROM {table} WHERE tenant_id = ?", (self._tenant_id,))
            if row is not None and row[0] != self._seen[kind]:
                what = f"{self._seen[kind]} {kind} entries are recorded and {row[0]} rows are in {table}"
                self._report(
                    RecordFault.ROW_MISSING if row[0] < self._seen[kind] else RecordFault.ROW_WITHOUT_EVIDENCE,
                    None,
                    what,
                )
        for jti, found, seq, kind, payload in self._connection.stream(_TOKENS, (self._tenant_id,)):
            if kind != "token.issued" or read_payload(payload).get("token_digest") != found:
                self._report(RecordFault.ROW_EDITED, seq, f"token {jti!r} differs from its entry")
        for jti, seq, kind, correlation in self._connection.stream(_REVOCATIONS, (self._tenant_id,)):
            if (kind, correlation) != ("token.revoked", jti):
                self._report(RecordFault.ROW_EDITED, seq, f"the revocation of token {jti!r} differs from its entry")
        for row in self._connection.stream(_APPROVALS, (self._tenant_id,)):
            if not _is_recorded(row):
                self._report(RecordFault.ROW_EDITED, row[-6], f"approval request {row[1]!r} differs from its entries")

    def _report(self, fault: RecordFault, seq: int | None, what: str) -> None:
        self._verdict.report(fault, self._tenant_id, seq, what)


def _is_recorded(row: Row) -> bool:
    """Whether the entries record the same request, the same state, and the same person who decided."""
    approval = ApprovalRow(*row[: len(ApprovalRow._fields)])
    request_kind, request, last_kind, last, actor = row[len(ApprovalRow._fields) :]
    try:
        bound = approval.bound_digest
    except (RefusedError, TypeError, ValueError):  # the columns' types can be altered
        return False
    if request_kind != KIND_OF["PENDING"] or last_kind != KIND_OF.get(approval.state):
        return False
    if not read_payload(request).get("bound_digest") == read_payload(last).get("bound_digest") == bound:
        return False
    return approval.state not in {"APPROVED", "DENIED"} or approval.decided_by == actor


def read_payload(payload: Any) -> dict[str, Any]:
    """Return the payload of an entry. It is empty if Remit cannot have written it."""
    try:
        tree = json.loads(payload or "{}")
    except (ValueError, TypeError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}
