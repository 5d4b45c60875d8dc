"""Compares stored previews of plans and of proposals with the chain, and finds rows that were added or changed.

No view shows such a document without its entry. This check finds changes in rows that were not viewed since. A removed
row of a plan's preview is not a finding: pruning removes it. A proposal's preview is never removed.
"""

from typing import Final

from remit.core.canonical import digest_bytes
from remit.ledger.entry import Entry
from remit.ledger.findings import RecordFault, VerificationReport
from remit.ledger.verify.browser_tables import read_payload
from remit.store.connection import Connection, Row
from remit.store.plan_previews import KIND, PlanPreviewRow, recorded_of
from remit.store.proposal_previews import COMPUTED_AGAIN, RECORDED_BY, PreviewRow
from remit.store.proposals import KIND_OF, PLAN_DISCARDED

_MARK: Final = '"preview_document_digest":"'
"""Part of the payload of an entry that records a preview. Inside a JSON text its quotes would be escaped."""
_COLUMNS: Final = len(PreviewRow._fields)
_PREVIEWS: Final = f"""SELECT {", ".join(f"v.{name}" for name in PreviewRow._fields)}, v.document,
    e.kind, e.correlation_id, e.payload, e.actor, e.created_at, p.state,
    (SELECT max(n.seq) FROM ledger_entries n WHERE n.tenant_id = v.tenant_id AND n.correlation_id = v.proposal_id
      AND n.kind = '{COMPUTED_AGAIN}')
  FROM proposal_previews v
  LEFT JOIN ledger_entries e ON e.tenant_id = v.tenant_id AND e.seq = v.entry_seq
  LEFT JOIN plan_proposals p ON p.tenant_id = v.tenant_id AND p.proposal_id = v.proposal_id WHERE v.tenant_id = ?"""
_MADE: Final = f"""SELECT payload FROM ledger_entries
  WHERE tenant_id = ? AND correlation_id = ? AND kind = '{KIND_OF["PENDING"]}' LIMIT 1"""
_PLAN_COLUMNS: Final = len(PlanPreviewRow._fields)
_PLAN_PREVIEWS: Final = f"""SELECT {", ".join(f"v.{name}" for name in PlanPreviewRow._fields)}, v.document, v.prepared,
    e.kind, e.correlation_id, e.payload
  FROM plan_previews v LEFT JOIN ledger_entries e ON e.tenant_id = v.tenant_id AND e.seq = v.entry_seq
  WHERE v.tenant_id = ?"""
_COUNT: Final = "SELECT count(*) FROM proposal_previews WHERE tenant_id = ?"


class PreviewRowsCheck:
    """Counts the entries of the chain, and then compares them with the table."""

    def __init__(self, connection: Connection, tenant_id: str, verdict: VerificationReport) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._verdict = verdict
        self._with_proposal = 0
        self._again: set[str] = set()
        """Proposals whose preview was computed again. That is a deliberate act, so there are few."""

    def pass_entry(self, entry: Entry) -> None:
        if entry.kind == KIND_OF["PENDING"] and _MARK in entry.payload:
            self._with_proposal += 1
        elif entry.kind == COMPUTED_AGAIN:
            self._again.add(entry.correlation_id)

    def finish(self) -> None:
        recorded = self._with_proposal + sum(1 for name in self._again if not self._was_made_with_one(name))
        row = self._connection.one(_COUNT, (self._tenant_id,))
        if row is not None and row[0] != recorded:
            what = f"previews of {recorded} proposals are recorded and {row[0]} rows are in proposal_previews"
            fault = RecordFault.ROW_MISSING if row[0] < recorded else RecordFault.ROW_WITHOUT_EVIDENCE
            self._verdict.report(fault, self._tenant_id, None, what)
        for found in self._connection.stream(_PREVIEWS, (self._tenant_id,)):
            preview = PreviewRow(*found[:_COLUMNS])
            if not _is_recorded(preview, found[_COLUMNS:]):
                what = f"the stored preview of proposal {preview.proposal_id!r} differs from its entry"
                self._verdict.report(RecordFault.ROW_EDITED, self._tenant_id, preview.entry_seq, what)

        for found in self._connection.stream(_PLAN_PREVIEWS, (self._tenant_id,)):
            row = PlanPreviewRow(*found[:_PLAN_COLUMNS])
            if not _is_recorded_for_plan(row, found[_PLAN_COLUMNS:]):
                what = f"the stored preview {row.preview_digest!r} differs from its entry"
                self._verdict.report(RecordFault.ROW_EDITED, self._tenant_id, row.entry_seq, what)

    def _was_made_with_one(self, proposal_id: str) -> bool:
        made = self._connection.one(_MADE, (self._tenant_id, proposal_id))
        return made is not None and _MARK in str(made[0])


def _is_recorded(preview: PreviewRow, evidence: Row) -> bool:
    """Whether the entry of the preview records the same, and no later preview of this proposal was recorded."""
    document, kind, correlation_id, payload, actor, created_at, state, latest = evidence
    entry = read_payload(payload)
    try:
        is_document = document is not None and digest_bytes(document.encode()) == preview.document_digest
        is_latest = latest is None or latest <= preview.entry_seq
    except (TypeError, ValueError, AttributeError):  # the columns' types can be altered
        return False
    return (
        kind in RECORDED_BY
        and correlation_id == preview.proposal_id
        and entry.get("preview_digest") == preview.preview_digest
        and entry.get("preview_document_digest") == preview.document_digest
        and (actor or "", created_at) == (preview.computed_by, preview.computed_at)
        and (is_document or (document is None and state in PLAN_DISCARDED))
        and is_latest
    )


def _is_recorded_for_plan(row: PlanPreviewRow, evidence: Row) -> bool:
    """Whether the entry of the preview records the same. Its outputs and prepared data may have been removed since."""
    document, prepared, kind, correlation_id, payload = evidence
    entry = read_payload(payload)
    try:
        is_whole = digest_bytes(document.encode()) == row.document_digest and (
            prepared is None or digest_bytes(prepared.encode()) == row.prepared_digest
        )
        is_sized = row.output_bytes == entry.get("output_bytes") or (prepared is None and row.output_bytes == 0)
    except (TypeError, ValueError, AttributeError):  # the columns' types can be altered
        return False
    recorded = {**recorded_of(row), "output_bytes": entry.get("output_bytes")}
    return kind == KIND and correlation_id == row.preview_digest and entry == recorded and is_whole and is_sized
