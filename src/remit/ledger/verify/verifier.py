"""Verifies a whole store against its keys and its anchors, in one pass and with bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from remit.contracts.ledger import LedgerHead
from remit.core.errors import EnvironmentFailureError, Reason
from remit.crypto.signing import Keyring
from remit.ledger.chain import ChainWalk, Suspects, link_of
from remit.ledger.documents import changed_documents
from remit.ledger.entry import COLUMNS, Entry
from remit.ledger.findings import Progress, RecordFault, VerificationReport
from remit.ledger.goal_tables import KIND_OF, AgentRowsCheck
from remit.ledger.heads import Anchors
from remit.ledger.heads_check import HeadsCheck, Witnesses, collect_witnesses
from remit.ledger.presence import require_entries_table
from remit.ledger.projections import projection_drift
from remit.ledger.verify.browser_tables import BrowserRowsCheck
from remit.ledger.verify.claims import ClaimsCheck
from remit.ledger.verify.counted_tables import CountedRowsCheck
from remit.ledger.verify.preview_tables import PreviewRowsCheck
from remit.ledger.verify.proposal_tables import ProposalRowsCheck
from remit.ledger.verify.triggers import foreign_triggers, missing_guards
from remit.store.connection import Connection, Row, Store, UnreadableTextError
from remit.store.migrations_runner import require_current
from remit.store.schema_check import schema_changes

_ENTRIES: Final = f"SELECT {COLUMNS} FROM ledger_entries WHERE tenant_id = ? ORDER BY seq"
_HEADS: Final = (
    "SELECT tenant_id, seq, hash, signed_at, key_id, signature FROM ledger_heads WHERE tenant_id = ? ORDER BY seq"
)
_TABLES_OF_TENANTS: Final = ("ledger_entries", "ledger_heads", "claims", *KIND_OF)


def verify_store(
    store: Store,
    keyring: Keyring,
    anchors: Anchors,
    *,
    tenant_id: str | None = None,
    known_heads: tuple[LedgerHead, ...] = (),
    progress: Progress | None = None,
) -> VerificationReport:
    """Verify every chain, every signed head, the agent tables and the projection, and that nothing was cut off.

    `known_heads` are heads that a person kept on another machine. They are stronger than the anchors: an attacker who
    can write to both the database and the state directory cannot reach them.
    """
    show = progress or (lambda _: None)
    try:
        return _verify(store, keyring, anchors, tenant_id, known_heads, VerificationReport(progress=show))
    except UnreadableTextError:  # again, in a slower way that can name the rows
        return _verify(
            store, keyring, anchors, tenant_id, known_heads, VerificationReport(progress=show), any_text=True
        )


def _verify(
    store: Store,
    keyring: Keyring,
    anchors: Anchors,
    tenant_id: str | None,
    known_heads: tuple[LedgerHead, ...],
    verdict: VerificationReport,
    *,
    any_text: bool = False,
) -> VerificationReport:
    # Before the view of the store is opened: a later anchor may name entries that the view does not have.
    witnesses = collect_witnesses(anchors, known_heads, keyring, verdict)
    try:
        with store.reading() as connection:
            if any_text:
                connection.tolerate_bad_text()
            require_entries_table(connection, anchors)
            require_current(connection)
            _verify_tables(connection, verdict)
            _verify_tenants(connection, keyring, witnesses, verdict, tenant_id)
            with _other_kinds(verdict, tenant_id or ""):
                for drift_tenant, seq, what in projection_drift(connection, tenant_id):
                    verdict.report(RecordFault.PROJECTION_DRIFT, drift_tenant, seq, what)
    except UnreadableTextError:
        raise
    except EnvironmentFailureError as problem:
        # If the tables were changed, a query may fail in any way. The change itself is the finding.
        changed = any(finding.fault is RecordFault.SCHEMA_CHANGED for finding in verdict.findings)
        if problem.reason is not Reason.EVIDENCE_INVALID and not changed:
            raise
        verdict.report(RecordFault.STORE_DAMAGED, "", None, str(problem))
    return verdict


def _verify_tables(connection: Connection, verdict: VerificationReport) -> None:
    for change in schema_changes(connection):
        verdict.report(RecordFault.SCHEMA_CHANGED, "", None, change)
    for table, guard in missing_guards(connection):
        verdict.report(RecordFault.GUARD_MISSING, "", None, f"table {table} lost its guard {guard}")
    for table, trigger in foreign_triggers(connection):
        verdict.report(
            RecordFault.GUARD_FOREIGN, "", None, f"Remit did not make the trigger {trigger!r} on table {table}"
        )
    for line in connection.damage():
        verdict.report(RecordFault.STORE_DAMAGED, "", None, f"the database's own check says: {line}")


def _verify_tenants(
    connection: Connection, keyring: Keyring, witnesses: Witnesses, verdict: VerificationReport, wanted: str | None
) -> None:
    everyone = [wanted] if wanted is not None else sorted({*_owners(connection, verdict), *witnesses})
    suspects = Suspects(verdict)
    for tenant in everyone:
        with _other_kinds(verdict, tenant):
            heads = HeadsCheck(keyring, tenant, _heads(connection, tenant), witnesses.get(tenant, []), verdict)
            _verify_chain(connection, tenant, heads, verdict, suspects)
        if not _is_text(tenant):
            verdict.report(RecordFault.STORE_DAMAGED, tenant, None, "rows belong to a tenant whose name is not text")
        verdict.tenants += 1
        verdict.anchored += tenant in witnesses
    suspects.report()


def _verify_chain(
    connection: Connection, tenant_id: str, heads: HeadsCheck, verdict: VerificationReport, suspects: Suspects
) -> None:
    walk = ChainWalk(verdict, tenant_id)
    rows = AgentRowsCheck(connection, tenant_id, verdict)
    claims = ClaimsCheck(connection, tenant_id, verdict)
    browser = BrowserRowsCheck(connection, tenant_id, verdict)
    proposals = ProposalRowsCheck(connection, tenant_id, verdict)
    previews = PreviewRowsCheck(connection, tenant_id, verdict)
    counted = CountedRowsCheck(connection, tenant_id, verdict)
    for row in connection.stream(_ENTRIES, (tenant_id,)):
        entry = _entry(row)
        intact = entry.is_intact()
        if not intact:
            suspects.add(entry)
        walk.step(link_of(entry, intact=intact))
        heads.pass_entry(entry.seq, entry.hash, entry.created_at)
        rows.pass_entry(entry)
        claims.pass_entry(entry)
        browser.pass_entry(entry)
        proposals.pass_entry(entry)
        previews.pass_entry(entry)
        counted.pass_entry(entry)
    heads.finish(walk.length)
    for ref in changed_documents(connection, tenant_id):
        verdict.report(RecordFault.ROW_EDITED, tenant_id, None, f"agent_documents holds another text under {ref}")
    rows.finish()
    claims.finish()
    browser.finish()
    proposals.finish()
    previews.finish()
    counted.finish()


def _heads(connection: Connection, tenant_id: str) -> Iterator[LedgerHead]:
    for tenant, seq, hash_, signed_at, key_id, signature in connection.stream(_HEADS, (tenant_id,)):
        if type(seq) is not int:
            raise _OtherKindError
        # Not validated here: a malformed field fails the signature check, which names it.
        yield LedgerHead.model_construct(
            tenant_id=tenant, seq=seq, hash=hash_, signed_at=signed_at, key_id=key_id, signature=signature
        )


def _entry(row: Row) -> Entry:
    entry = Entry(*row)
    # The columns' types can be altered, and a chain cannot be walked without valid numbers.
    if type(entry.seq) is not int or not all(type(text) is str for text in (entry.created_at, *row[-3:])):
        raise _OtherKindError
    return entry


class _OtherKindError(TypeError):
    """A row holds a value of another type than the number or text that Remit writes there."""


@contextmanager
def _other_kinds(verdict: VerificationReport, tenant_id: str) -> Iterator[None]:
    """Report rows that cannot be checked as a finding about their tenant, instead of ending the whole check."""
    try:
        yield
    except (TypeError, ValueError, AttributeError) as problem:
        what = "rows hold values of another type than Remit writes, so they could not be checked completely"
        verdict.report(RecordFault.STORE_DAMAGED, tenant_id, None, f"{what} ({type(problem).__name__})")


def _is_text(tenant_id: str) -> bool:
    """Whether the name is text. Bytes that are not UTF-8 come from the database as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in tenant_id)


def _owners(connection: Connection, verdict: VerificationReport) -> Iterator[str]:
    for owner in chain_owners(connection):
        if type(owner) is str:
            yield owner
        else:
            verdict.report(
                RecordFault.STORE_DAMAGED, "", None, f"rows belong to a tenant whose name is not text: {owner!r:.80}"
            )


def chain_owners(connection: Connection) -> Iterator[str]:
    """Yield every tenant that has a row in a table. Skips through the indexes instead of reading every row."""
    for table in _TABLES_OF_TENANTS:
        row = connection.one(f"SELECT min(tenant_id) FROM {table}")
        while row is not None and row[0] is not None:
            yield row[0]
            row = connection.one(f"SELECT min(tenant_id) FROM {table} WHERE tenant_id > ?", (row[0],))
