"""Compares proposals with the chain, and finds rows that were added, removed or changed.

No code acts on such a row without its entry. This check finds changes in rows that were not used since.
"""

from typing import Final

from remit.core.canonical import digest_bytes
from remit.core.errors import RefusedError
from remit.ledger.entry import Entry
from remit.ledger.findings import RecordFault, VerificationReport
from remit.ledger.verify.browser_tables import read_payload
from remit.store.connection import Connection, Row
from remit.store.proposals import KIND_OF, PLAN_DISCARDED, ProposalRow

_COLUMNS: Final = len(ProposalRow._fields)
_STEPS: Final = "'proposal.approved', 'proposal.denied', 'proposal.expired', 'proposal.voided'"
_PROPOSALS: Final = f"""SELECT {", ".join(f"p.{name}" for name in ProposalRow._fields)}, p.plan,
    m.kind, m.correlation_id, m.payload, e.kind, e.correlation_id, e.payload, e.actor,
    (SELECT a.payload FROM ledger_entries a WHERE a.tenant_id = p.tenant_id AND a.correlation_id = p.proposal_id
      AND a.kind = 'proposal.approved' LIMIT 1),
    EXISTS (SELECT 1 FROM ledger_entries n WHERE n.tenant_id = p.tenant_id AND n.correlation_id = p.proposal_id
      AND n.seq > p.entry_seq AND n.kind IN ({_STEPS}))
  FROM plan_proposals p
  LEFT JOIN ledger_entries m ON m.tenant_id = p.tenant_id AND m.seq = p.proposed_seq
  LEFT JOIN ledger_entries e ON e.tenant_id = p.tenant_id AND e.seq = p.entry_seq WHERE p.tenant_id = ?"""
_COUNT: Final = "SELECT count(*) FROM plan_proposals WHERE tenant_id = ?"


class ProposalRowsCheck:
    """Counts the entries of the chain, and then compares them with the table."""

    def __init__(self, connection: Connection, tenant_id: str, verdict: VerificationReport) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._verdict = verdict
        self._made = 0

    def pass_entry(self, entry: Entry) -> None:
        if entry.kind == KIND_OF["PENDING"]:
            self._made += 1

    def finish(self) -> None:
        row = self._connection.one(_COUNT, (self._tenant_id,))
        if row is not None and row[0] != self._made:
            what = f"{self._made} {KIND_OF['PENDING']} entries are recorded and {row[0]} rows are in plan_proposals"
            fault = RecordFault.ROW_MISSING if row[0] < self._made else RecordFault.ROW_WITHOUT_EVIDENCE
            self._verdict.report(fault, self._tenant_id, None, what)
        for found in self._connection.stream(_PROPOSALS, (self._tenant_id,)):
            proposal = ProposalRow(*found[:_COLUMNS])
            if not _is_recorded(proposal, found[_COLUMNS:]):
                what = f"proposal {proposal.proposal_id!r} differs from its entries"
                self._verdict.report(RecordFault.ROW_EDITED, self._tenant_id, proposal.entry_seq, what)


def _is_recorded(proposal: ProposalRow, evidence: Row) -> bool:
    """Whether the entries record the same proposal, the same last state, the same person who decided, and the same
    signed envelope.
    """
    plan, made_kind, made_for, made, last_kind, last_for, last, actor, approval, is_behind = evidence
    try:
        bound = proposal.bound_digest
        signed = digest_bytes(proposal.envelope.encode()) if proposal.envelope is not None else None
        is_plan = plan is not None and digest_bytes(plan.encode()) == proposal.plan_digest
    except (RefusedError, TypeError, ValueError, AttributeError):  # the columns' types can be altered
        return False
    approved = read_payload(approval)
    return (
        (made_kind, last_kind) == (KIND_OF["PENDING"], KIND_OF.get(proposal.state))
        and made_for == last_for == proposal.proposal_id
        and read_payload(made).get("bound_digest") == read_payload(last).get("bound_digest") == bound
        and (approved.get("envelope_id"), approved.get("envelope_digest")) == (proposal.envelope_id, signed)
        and (proposal.state not in {"APPROVED", "DENIED"} or proposal.decided_by == actor)
        and (is_plan or (plan is None and proposal.state in PLAN_DISCARDED))
        and not is_behind
    )
