"""Rows of the previews of proposed plans: one for each proposal, with the document that people see."""

from typing import Final, NamedTuple

from remit.store.connection import Connection
from remit.store.proposals import KIND_OF


class PreviewRow(NamedTuple):
    """One row, in column order, without the document."""

    tenant_id: str
    proposal_id: str
    preview_digest: str
    """The digest that an approval names. It covers the plan, the configuration and every input, by their digests."""
    document_digest: str
    """The digest of the stored text."""
    computed_by: str
    computed_at: str
    entry_seq: int


COMPUTED_AGAIN: Final = "proposal.previewed"
"""The entry of a preview that was computed after the plan was proposed. The first one is recorded with the proposal."""
COMPUTING_FAILED: Final = "proposal.preview_failed"
"""The entry of a preview that could not be computed after the plan was proposed, with the reason, for people."""
QUEUED: Final = "proposal.preview_queued"
"""The entry in the transaction of a proposal whose preview executes something and is computed right away."""
DEFERRED: Final = "proposal.preview_deferred"
"""The entry in the transaction of a proposal whose preview is left to a person, with the reason."""
MOST_COUNTED: Final = 1_000
"""The most proposals of one proposer that are counted."""
RECORDED_BY: Final = (KIND_OF["PENDING"], COMPUTED_AGAIN)
_COLUMNS: Final = ", ".join(PreviewRow._fields)
_INSERT: Final = f"INSERT INTO proposal_previews ({_COLUMNS}, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_REPLACE: Final = """UPDATE proposal_previews SET preview_digest = ?, document_digest = ?, computed_by = ?,
  computed_at = ?, entry_seq = ?, document = ? WHERE tenant_id = ? AND proposal_id = ?"""
_FORGET: Final = """UPDATE proposal_previews SET document = NULL
  WHERE tenant_id = ? AND proposal_id = ? AND document IS NOT NULL"""
_READ: Final = f"SELECT {_COLUMNS}, document FROM proposal_previews WHERE tenant_id = ? AND proposal_id = ?"
_ROW: Final = f"SELECT {_COLUMNS} FROM proposal_previews WHERE tenant_id = ? AND proposal_id = ?"
_CLOSED: Final = """SELECT p.proposal_id FROM plan_proposals p
  JOIN proposal_previews v ON v.tenant_id = p.tenant_id AND v.proposal_id = p.proposal_id
  WHERE p.tenant_id = ? AND p.state IN ('EXPIRED', 'VOID') AND v.document IS NOT NULL
  ORDER BY p.created_at, p.proposal_id LIMIT 1000"""
_LATEST: Final = """SELECT max(seq) FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?
  AND kind = ?"""

_STEPS: Final = f"""SELECT kind, max(seq) FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?
  AND kind IN ('{COMPUTED_AGAIN}', '{COMPUTING_FAILED}', '{DEFERRED}') GROUP BY kind"""
_STORED: Final = "SELECT 1 FROM proposal_previews WHERE tenant_id = ? AND proposal_id = ?"
_CONFIG: Final = """SELECT p.config_digest FROM proposal_previews v
  JOIN plan_previews p ON p.tenant_id = v.tenant_id AND p.preview_digest = v.preview_digest
  WHERE v.tenant_id = ? AND v.proposal_id = ?"""
_PAYLOAD: Final = "SELECT payload FROM ledger_entries WHERE tenant_id = ? AND seq = ?"
_QUEUED_SINCE: Final = f"""SELECT count(*), coalesce(sum(CASE WHEN EXISTS (SELECT 1 FROM ledger_entries e
    WHERE e.tenant_id = p.tenant_id AND e.correlation_id = p.proposal_id AND e.kind = '{QUEUED}') THEN 1 ELSE 0 END), 0)
  FROM (SELECT tenant_id, proposal_id FROM plan_proposals WHERE tenant_id = ? AND proposed_by = ? AND created_at > ?
    ORDER BY created_at DESC, proposal_id DESC LIMIT {MOST_COUNTED}) p"""

_PROPOSED_SINCE: Final = f"""SELECT p.proposed_by, e.payload
  FROM (SELECT tenant_id, proposed_by, proposed_seq FROM plan_proposals WHERE tenant_id = ? AND created_at > ?
    ORDER BY created_at DESC, proposal_id DESC LIMIT {MOST_COUNTED}) p
  JOIN ledger_entries e ON e.tenant_id = p.tenant_id AND e.seq = p.proposed_seq"""


def store_preview(connection: Connection, row: PreviewRow, document: str) -> None:
    """Store the preview in place of an earlier one. The database refuses a row without its ledger entry."""
    tenant_id, proposal_id, *changed = row
    if connection.execute(_REPLACE, (*changed, document, tenant_id, proposal_id)) == 0:
        connection.execute(_INSERT, (*row, document))


def read_preview(connection: Connection, tenant_id: str, proposal_id: str) -> tuple[PreviewRow, str | None] | None:
    """Return the preview as the table holds it. The caller compares it with the signed entry."""
    found = connection.one(_READ, (tenant_id, proposal_id))
    return (PreviewRow(*found[:-1]), found[-1]) if found else None


def read_preview_row(connection: Connection, tenant_id: str, proposal_id: str) -> PreviewRow | None:
    """Return the row without its document. So the time does not depend on the size of the document."""
    found = connection.one(_ROW, (tenant_id, proposal_id))
    return PreviewRow(*found) if found else None


def closed_with_document(connection: Connection, tenant_id: str) -> list[str]:
    """Return proposals that are closed without a decision, and whose document is still stored. At most 1,000."""
    return [str(proposal_id) for (proposal_id,) in connection.rows(_CLOSED, (tenant_id,))]


def forget_document(connection: Connection, tenant_id: str, proposal_id: str) -> None:
    """Delete the document, together with the text of the plan, because it can have no effect any more."""
    connection.execute(_FORGET, (tenant_id, proposal_id))


def computed_again_at(connection: Connection, tenant_id: str, proposal_id: str) -> int | None:
    """Return the place in the ledger of the last preview that was computed again. The row is not used for this."""
    return _latest(connection, tenant_id, proposal_id, COMPUTED_AGAIN)


def computing_failed_at(connection: Connection, tenant_id: str, proposal_id: str) -> int | None:
    """Return the place in the ledger of the last preview that could not be computed."""
    return _latest(connection, tenant_id, proposal_id, COMPUTING_FAILED)


def is_stored(connection: Connection, tenant_id: str, proposal_id: str) -> bool:
    """Return whether a preview is stored. The caller that shows it compares it with the signed entry."""
    return connection.one(_STORED, (tenant_id, proposal_id)) is not None


def find_previewed_config(connection: Connection, tenant_id: str, proposal_id: str) -> str | None:
    """Return the digest of the configuration of the stored preview. No text is read. None if it is not known."""
    found = connection.one(_CONFIG, (tenant_id, proposal_id))
    return str(found[0]) if found else None


def computing_steps(connection: Connection, tenant_id: str, proposal_id: str) -> dict[str, int]:
    """Return the place of the newest entry of each kind about computing the preview of a proposal."""
    return {str(kind): int(seq) for kind, seq in connection.rows(_STEPS, (tenant_id, proposal_id))}


def read_payload_at(connection: Connection, tenant_id: str, seq: int) -> str:
    found = connection.one(_PAYLOAD, (tenant_id, seq))
    return str(found[0]) if found else ""


def queued_since(connection: Connection, tenant_id: str, proposed_by: str, since: str) -> int:
    """Return how many previews of this proposer were queued after a time.

    It reads a limited number of proposals by an index. A proposer with more of them counts as one with that many
    previews.
    """
    proposals, queued = connection.one(_QUEUED_SINCE, (tenant_id, proposed_by, since)) or (0, 0)
    return int(proposals if proposals >= MOST_COUNTED else queued)


def proposed_since(connection: Connection, tenant_id: str, since: str) -> list[tuple[str, str]] | None:
    """Return the proposer and the payload of the entry of each proposal since a time. None if there are too many."""
    found = [(str(by), str(payload)) for by, payload in connection.rows(_PROPOSED_SINCE, (tenant_id, since))]
    return found if len(found) < MOST_COUNTED else None


def _latest(connection: Connection, tenant_id: str, proposal_id: str, kind: str) -> int | None:
    found = connection.one(_LATEST, (tenant_id, proposal_id, kind))
    return found[0] if found else None
