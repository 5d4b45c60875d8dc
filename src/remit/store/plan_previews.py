"""Rows of the stored previews of plans, by the digest that an approval names. The caller verifies what it reads."""

from typing import Final, NamedTuple

from remit.store.connection import Connection


class PlanPreviewRow(NamedTuple):
    """One row, in column order, without the two texts."""

    tenant_id: str
    preview_digest: str
    plan_id: str
    plan_digest: str
    config_digest: str
    owner: str
    """The caller whose quota the kept outputs count against."""
    document_digest: str
    prepared_digest: str
    output_bytes: int
    """The size of the outputs that are kept in the state directory."""
    computed_at: str
    expires_at: str
    """Until when it may be used without being computed again."""
    kept_until: str
    """Until when an envelope refers to it. Empty if none did."""
    proposed_until: str
    """Until when a pending proposal refers to it. Empty if none did."""
    entry_seq: int


class KeptBytes(NamedTuple):
    """The sizes of kept outputs."""

    total: int
    of_owner: int


KIND: Final = "plan.previewed"
"""The entry of a computed preview, with the digests of the document and of the prepared data."""

_COLUMNS: Final = ", ".join(PlanPreviewRow._fields)
_INSERT: Final = f"INSERT INTO plan_previews ({_COLUMNS}, document, prepared) VALUES ({', '.join('?' * 16)})"
_REPLACE: Final = """UPDATE plan_previews SET owner = ?, document_digest = ?, prepared_digest = ?, output_bytes = ?,
  computed_at = ?, expires_at = ?, entry_seq = ?, document = ?, prepared = ?,
  kept_until = CASE WHEN kept_until > ? THEN kept_until ELSE '' END,
  proposed_until = CASE WHEN proposed_until > ? THEN proposed_until ELSE '' END
  WHERE tenant_id = ? AND preview_digest = ?"""
_FIND: Final = f"SELECT {_COLUMNS} FROM plan_previews WHERE tenant_id = ? AND preview_digest = ?"
_TEXTS: Final = "SELECT document, prepared FROM plan_previews WHERE tenant_id = ? AND preview_digest = ?"
_OF_PLAN: Final = f"""SELECT {_COLUMNS} FROM plan_previews
  WHERE tenant_id = ? AND plan_digest = ? AND config_digest = ? AND prepared IS NOT NULL
  ORDER BY entry_seq DESC LIMIT 3"""
_REFER: Final = """UPDATE plan_previews SET kept_until = CASE WHEN kept_until < ? THEN ? ELSE kept_until END
  WHERE tenant_id = ? AND preview_digest = ? AND prepared IS NOT NULL"""
_RELEASE: Final = (
    "UPDATE plan_previews SET prepared = NULL, output_bytes = 0 WHERE tenant_id = ? AND preview_digest = ?"
)
_PROPOSE: Final = """UPDATE plan_previews SET proposed_until = ?
  WHERE tenant_id = ? AND preview_digest = ? AND proposed_until < ?"""
_END_PROPOSED: Final = """UPDATE plan_previews SET proposed_until = ?
  WHERE tenant_id = ? AND preview_digest = ? AND proposed_until > ? AND NOT EXISTS (
    SELECT 1 FROM proposal_previews v
    JOIN plan_proposals p ON p.tenant_id = v.tenant_id AND p.proposal_id = v.proposal_id
    WHERE v.tenant_id = plan_previews.tenant_id AND v.preview_digest = plan_previews.preview_digest
      AND p.state = 'PENDING')"""
_END_KEPT: Final = """UPDATE plan_previews SET kept_until = ?
  WHERE tenant_id = ? AND preview_digest = ? AND kept_until > ?"""
_FREE: Final = "kept_until <= ? AND proposed_until <= ?"
_DELETE: Final = f"DELETE FROM plan_previews WHERE tenant_id = ? AND preview_digest = ? AND {_FREE}"
_UNREFERENCED: Final = f"""SELECT {_COLUMNS} FROM plan_previews WHERE tenant_id = ? AND {_FREE}
  ORDER BY computed_at, preview_digest"""
_KEPT: Final = """SELECT COALESCE(SUM(output_bytes), 0),
    COALESCE(SUM(CASE WHEN owner = ? THEN output_bytes ELSE 0 END), 0)
  FROM plan_previews WHERE tenant_id = ? AND preview_digest <> ?"""
_APPLICABLE: Final = """SELECT 1 FROM plan_previews
  WHERE tenant_id = ? AND preview_digest = ? AND prepared IS NOT NULL"""
_ALL: Final = "SELECT preview_digest FROM plan_previews WHERE tenant_id = ? AND prepared IS NOT NULL"


def recorded_of(row: PlanPreviewRow) -> dict[str, str | int]:
    """Return the payload of the entry that records this row."""
    return {
        "plan_id": row.plan_id,
        "plan_digest": row.plan_digest,
        "config_digest": row.config_digest,
        "preview_digest": row.preview_digest,
        "preview_document_digest": row.document_digest,
        "prepared_digest": row.prepared_digest,
        "output_bytes": row.output_bytes,
        "computed_at": row.computed_at,
        "expires_at": row.expires_at,
    }


def store_plan_preview(connection: Connection, row: PlanPreviewRow, document: str, prepared: str | None) -> None:
    """Store a preview, in place of an earlier one with the same digest. References to the earlier one stay."""
    found = connection.execute(
        _REPLACE,
        (
            row.owner,
            row.document_digest,
            row.prepared_digest,
            row.output_bytes,
            row.computed_at,
            row.expires_at,
            row.entry_seq,
            document,
            prepared,
            row.computed_at,
            row.computed_at,
            row.tenant_id,
            row.preview_digest,
        ),
    )
    if found == 0:
        connection.execute(_INSERT, (*row, document, prepared))


def find_plan_preview(connection: Connection, tenant_id: str, preview_digest: str) -> PlanPreviewRow | None:
    found = connection.one(_FIND, (tenant_id, preview_digest))
    return PlanPreviewRow(*found) if found else None


def read_texts(connection: Connection, tenant_id: str, preview_digest: str) -> tuple[str, str | None] | None:
    """Return the document for people, and the prepared data unless it was removed."""
    found = connection.one(_TEXTS, (tenant_id, preview_digest))
    return (found[0], found[1]) if found else None


def previews_of_plan(
    connection: Connection, tenant_id: str, plan_digest: str, config_digest: str
) -> list[PlanPreviewRow]:
    """Return the newest previews of this plan that can still be applied. An older one is rarely as it would be now."""
    return [PlanPreviewRow(*row) for row in connection.rows(_OF_PLAN, (tenant_id, plan_digest, config_digest))]


def refer_to_preview(connection: Connection, tenant_id: str, preview_digest: str, until: str) -> bool:
    """Keep a preview and its outputs until an envelope expires. Returns whether it is still there with its outputs."""
    return connection.execute(_REFER, (until, until, tenant_id, preview_digest)) > 0


def end_reference(connection: Connection, tenant_id: str, preview_digest: str, now: str) -> None:
    """End the reference of an envelope that is used or cancelled."""
    connection.execute(_END_KEPT, (now, tenant_id, preview_digest, now))


def propose_preview(connection: Connection, tenant_id: str, preview_digest: str, until: str) -> None:
    """Keep a preview and its outputs until a proposal expires, if there is such a preview."""
    connection.execute(_PROPOSE, (until, tenant_id, preview_digest, until))


def end_proposed(connection: Connection, tenant_id: str, preview_digest: str, now: str) -> None:
    """End the reference of a proposal that is closed or has another preview, unless another pending one has it."""
    connection.execute(_END_PROPOSED, (now, tenant_id, preview_digest, now))


def release_preview(connection: Connection, tenant_id: str, preview_digest: str) -> None:
    """Remove the prepared data: the outputs are not needed any more. The document stays, as evidence."""
    connection.execute(_RELEASE, (tenant_id, preview_digest))


def delete_preview(connection: Connection, tenant_id: str, preview_digest: str, now: str) -> bool:
    """Delete a preview that nothing refers to now. Returns whether it was deleted."""
    return connection.execute(_DELETE, (tenant_id, preview_digest, now, now)) > 0


def unreferenced_previews(connection: Connection, tenant_id: str, now: str) -> list[PlanPreviewRow]:
    """Return the previews that no proposal and no envelope refers to, the oldest first."""
    return [PlanPreviewRow(*row) for row in connection.rows(_UNREFERENCED, (tenant_id, now, now))]


def kept_bytes(connection: Connection, row: PlanPreviewRow) -> KeptBytes:
    """Return the sizes of the outputs of all other previews, in total and of the owner of this one."""
    found = connection.one(_KEPT, (row.owner, row.tenant_id, row.preview_digest))
    return KeptBytes(int(found[0]), int(found[1])) if found else KeptBytes(0, 0)


def applicable_digests(connection: Connection, tenant_id: str) -> frozenset[str]:
    """Return the digests of all previews whose outputs are kept."""
    return frozenset(row[0] for row in connection.rows(_ALL, (tenant_id,)))


def is_applicable(connection: Connection, tenant_id: str, preview_digest: str) -> bool:
    """Whether the outputs of this preview are kept."""
    return connection.one(_APPLICABLE, (tenant_id, preview_digest)) is not None
