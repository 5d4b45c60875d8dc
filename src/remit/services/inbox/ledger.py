"""The service for the ledger, for people: search, trace and verify entries, and export evidence."""

import tempfile
from typing import IO, Final

from remit.contracts.ledger import LedgerEntry, LedgerHead
from remit.contracts.services.common import Progress
from remit.contracts.services.ledger import Chain, EntryFilter, EntryPage, EntryView, TraceAnswer, Verdict, VerifyAnswer
from remit.core.errors import Reason, RefusedError
from remit.core.ids import render_time
from remit.goals.history_nodes import find_coverage_problem
from remit.goals.trace import trace_goal
from remit.identity.callers import Caller
from remit.ledger.bundle import newest_head, write_bundle
from remit.ledger.cursor import ends_of, tenants_in
from remit.ledger.entry import Entry
from remit.ledger.search import SearchFilter, find_entries, read_entry
from remit.services.base.context import ServiceContext, require_wait
from remit.services.base.jobs import Job
from remit.services.base.ownership import require_name
from remit.services.base.permissions import Right, require
from remit.services.goals.approvals import tenants_of
from remit.store.connection import Connection

MAX_ENTRIES: Final = 200
IN_MEMORY: Final = 8 << 20
"""The largest bundle in memory, in bytes. A larger one is written to an unnamed file, private to this process."""
ALL: Final = "all tenants"


class LedgerService:
    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def list_chains(self, caller: Caller) -> list[Chain]:
        """List the chains of all tenants, including configured tenants without entries."""
        require(caller, Right.SEE)
        configured = tenants_of(self._context.workspace)
        with self._context.workspace.store.reading() as connection:
            ends = ends_of(connection)
            return [
                Chain(
                    tenant_id=name,
                    entries=ends.get(name, 0),
                    head=newest_head(connection, name) if name in ends else None,
                    configured=name in configured,
                )
                for name in sorted({*ends, *configured})
            ]

    def list_heads(self, caller: Caller) -> list[LedgerHead]:
        """List the newest signed head of each chain. Copies outside of the workspace later reveal a truncated chain."""
        require(caller, Right.SEE)
        with self._context.workspace.store.reading() as connection:
            return [newest_head(connection, name) for name in tenants_in(connection)]

    def list_entries(
        self,
        caller: Caller,
        tenant: str,
        filters: EntryFilter | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> EntryPage:
        """List entries from a cursor on, the newest first. Each call searches a limited number of entries."""
        require(caller, Right.SEE)
        require_name("tenant", tenant)
        filters = filters or EntryFilter()
        search = SearchFilter(**filters.tree())
        before = _parse_cursor(cursor)
        with self._context.workspace.store.reading() as connection:
            found = find_entries(connection, tenant, search, before, max(1, min(limit, MAX_ENTRIES)))
            items = tuple(_view(entry) for entry in found.entries)
        return EntryPage(items=items, next=str(found.before) if found.before is not None else None)

    def read_entry(self, caller: Caller, tenant: str, seq: int) -> EntryView:
        """Return one entry, verified against the signed head that covers it."""
        require(caller, Right.SEE)
        require_name("tenant", tenant)
        workspace = self._context.workspace
        with workspace.store.reading() as connection:
            entry = read_entry(connection, tenant, seq)
            if entry is None:
                raise _no_entry_error(tenant, seq)
            return _view(entry, self._find_problem(connection, entry))

    def trace(self, caller: Caller, tenant: str, correlation_id: str) -> TraceAnswer:
        """Return the entries of a goal as a tree, from the user's text to the effect.

        For a correlation that is not a goal, the tree has only its entries.
        """
        require(caller, Right.SEE)
        require_name("correlation", tenant, correlation_id)
        workspace = self._context.workspace
        with workspace.store.reading() as connection:
            found = trace_goal(connection, lambda: workspace.keyring, tenant, correlation_id)
        if found is None:
            raise RefusedError(
                Reason.STATE_MISSING,
                "the ledger has no entry with this correlation id",
                where=f"tenant {tenant}, correlation {correlation_id}",
                next_step="Check the id, and search the entries of other tenants.",
            )
        problems = tuple(found.problems())[:1_000]
        return TraceAnswer(
            tenant_id=tenant,
            correlation_id=correlation_id,
            holds=not problems,
            problems=problems,
            trace=found.tree(),
        )

    def verify(
        self, caller: Caller, tenant: str | None = None, wait: float = 0.0, *, again: bool = True
    ) -> VerifyAnswer:
        """Verify every hash, link and signature. If `again` is False, return the last result if it is still known."""
        require(caller, Right.SEE)
        require_wait(wait)
        require_name("tenant", tenant or ALL)
        subject = f"verify:{tenant or ALL}"
        job = self._context.jobs.find(subject)
        if job is None or (again and not job.is_running):
            job = self._context.jobs.start(
                subject, lambda job: self._run_verification(job, tenant), subject=subject, owner="record"
            )
        if not job.wait(wait):
            return VerifyAnswer(state="running", progress=job.progress)
        answer: VerifyAnswer = job.result()
        return answer

    def open_bundle(self, caller: Caller, tenant: str, correlation_id: str | None = None) -> IO[bytes]:
        """Return an evidence bundle, positioned at its beginning. The caller closes it, because it may be a file."""
        require(caller, Right.SEE)
        require_name("correlation", tenant, correlation_id or ALL)
        workspace = self._context.workspace
        out: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - the caller closes it
        try:
            write_bundle(workspace.store, out, tenant, workspace.clock, correlation_id=correlation_id)
            out.seek(0)
        except BaseException:
            out.close()
            raise
        return out

    def _run_verification(self, job: Job[VerifyAnswer], tenant: str | None) -> VerifyAnswer:
        workspace = self._context.workspace
        with workspace.store.reading() as connection:
            total = sum(ends_of(connection, None if tenant is None else [tenant]).values())
        job.report_progress("checking", 0, total)
        found = workspace.verify_ledger(
            tenant_id=tenant, progress=lambda done: job.report_progress("checking", done, total)
        )
        if tenant is not None and found.holds and not found.entries:
            raise RefusedError(
                Reason.STATE_MISSING,
                "this tenant has no entries",
                where=f"tenant {tenant}",
                next_step="Check the name of the tenant. Without a tenant, every chain is verified.",
            )
        verdict = Verdict.from_tree(found.as_json(), source="the verdict")
        at = render_time(workspace.clock())
        whole = Progress(phase="checking", done=found.entries, total=found.entries)
        return VerifyAnswer(state="done", verdict=verdict, checked_at=at, progress=whole)

    def _find_problem(self, connection: Connection, entry: Entry) -> str | None:
        return find_coverage_problem(connection, lambda: self._context.workspace.keyring, entry) or None


def _view(entry: Entry, problem: str | None = None) -> EntryView:
    """Return an entry for people. If it was overwritten in the database, it is shown without its payload.

    So an overwritten entry does not hide the others.
    """
    try:
        tree = entry.as_wire()
    except RefusedError as found:
        tree, problem = entry.as_wire(shown=False), found.what
    return EntryView(entry=LedgerEntry.from_tree(tree, source=f"entry {entry.seq}"), problem=problem)


def _parse_cursor(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 16):
        raise RefusedError(
            Reason.MALFORMED,
            "this cursor is not a position in the list of entries",
            where="cursor",
            next_step="Send `next` of the previous page unchanged.",
        )
    return int(cursor)


def _no_entry_error(tenant: str, seq: int) -> RefusedError:
    return RefusedError(
        Reason.STATE_MISSING,
        "there is no such entry",
        where=f"tenant {tenant}, entry {seq}",
        next_step="Find it in the list of entries.",
    )
