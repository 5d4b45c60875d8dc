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
RECORDED_BY: Final = (KIND_OF["PENDING"], COMPUTED_AGAIN)
_COLUMNS: Final = ", ".join(PreviewRow._fields)
_INSERT: Final = f"INSERT INTO proposal_previews ({_COLUMNS}, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_REPLACE: Final = """UPDATE proposal_previews SET preview_digest = ?, document_digest = ?, computed_by = ?,
  computed_at = ?, entry_seq = ?, document = ? WHERE tenant_id = ? AND proposal_id = ?"""
_FORGET: Final = """UPDATE proposal_previews SET document = NULL
  WHERE tenant_id = ? AND proposal_id = ? AND document IS NOT NULL"""
_READ: Final = f"SELECT {_COLUMNS}, document FROM proposal_previews WHERE tenant_id = ? AND proposal_id = ?"
_LATEST: Final = """SELECT max(seq) FROM ledger_entries WHERE tenant_id = ? AND correlation_id = ?
  AND kind = ?"""


def store_preview(connection: Connection, row: PreviewRow, document: str) -> None:
    """Store the preview in place of an earlier one. The database refuses a row without its ledger entry."""
    tenant_id, proposal_id, *changed = row
    if connection.execute(_REPLACE, (*changed, document, tenant_id, proposal_id)) == 0:
        connection.execute(_INSERT, (*row, document))


def read_preview(connection: Connection, tenant_id: str, proposal_id: str) -> tuple[PreviewRow, str | None] | None:
    """Return the preview as the table holds it. The caller compares it with the signed entry."""
    found = connection.one(_READ, (tenant_id, proposal_id))
    return (PreviewRow(*found[:-1]), found[-1]) if found else None


def forget_document(connection: Connection, tenant_id: str, proposal_id: str) -> None:
    """Delete the document, together with the text of the plan, because it can have no effect any more."""
    connection.execute(_FORGET, (tenant_id, proposal_id))


def computed_again_at(connection: Connection, tenant_id: str, proposal_id: str) -> int | None:
    """Return the place in the ledger of the last preview that was computed again. The row is not used for this."""
    return _latest(connection, tenant_id, proposal_id, COMPUTED_AGAIN)


def computing_failed_at(connection: Connection, tenant_id: str, proposal_id: str) -> int | None:
    """Return the place in the ledger of the last preview that could not be computed."""
    return _latest(connection, tenant_id, proposal_id, COMPUTING_FAILED)


def _latest(connection: Connection, tenant_id: str, proposal_id: str, kind: str) -> int | None:
    found = connection.one(_LATEST, (tenant_id, proposal_id, kind))
    return found[0] if found else None
