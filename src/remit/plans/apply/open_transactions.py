"""Transactions on database servers that are held open while files are changed, and committed last.

Before COMMIT is sent it is noted which transaction it is. Whoever takes over asks the server what became of it: what
has no note died with its connection; what was committed leads forward, what was not leads back.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from remit.contracts.plans.sql_report import MAX_TABLES_TOLD
from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.core.faultpoints import reach
from remit.execution.engine import IncompleteError, Note, VerificationFailedError
from remit.plans.engines.database_files import WorkFolder
from remit.plans.engines.postgres import (
    CommitFailedError,
    CommitUnknownError,
    DriftedRows,
    OpenTransaction,
    PostgresResult,
    Transaction,
)
from remit.plans.engines.postgres_servers import PostgresServer
from remit.plans.model.remote_part import Commit, Elsewhere, KeptRows, note_commit
from remit.plans.preparation.remote_sql import PreparedStatements, Servers
from remit.plans.storage.row_images import keep_rows
from remit.plans.storage.run_folder import ReportFolder

Fate = Literal["committed", "aborted"]

_PATIENCE: Final = 10.0
_USED: Final = (
    "Nothing was changed. When that session has ended its transaction, look at the plan again, with `remit preview`, "
    "and approve it again."
)


class _Held(NamedTuple):
    server: PostgresServer
    session: OpenTransaction


@dataclass(frozen=True)
class HeldTransactions:
    """Of the requests that this process works on, by their ids."""

    servers: Callable[[str], Servers]
    """For one request."""
    _held: dict[str, _Held] = field(default_factory=dict, init=False, repr=False)
    _committed: set[str] = field(default_factory=set, init=False, repr=False)

    def begin(self, key: str, wanted: PreparedStatements, part: Elsewhere, folder: ReportFolder) -> KeptRows:
        """Run it in earnest. Raises if the server is not as it was when it was tried out; whoever calls closes it.

        What leads back is in the folder, durably, when this returns; the transaction is open.
        """
        servers = self.servers(key)
        session = _begun(servers, wanted)
        self._held[key] = _Held(wanted.server, session)
        reach("elsewhere.begun")
        ran = session.ran
        try:
            _require_as_seen(ran, part)
            return _kept(ran, part, folder)
        finally:
            if ran.images is not None:
                os.close(ran.images.descriptor)

    def look_back(self, key: str, connection: str, images: int, seconds: float) -> tuple[DriftedRows, ...]:
        """Rows that are not as the run left them."""
        servers = self.servers(key)
        return servers.engine.look_back(servers.find(connection), images, seconds=seconds)

    def begin_undo(self, key: str, connection: str, images: int, *, force: bool, seconds: float) -> None:
        """Put the rows back as they were before the run, in a transaction that stays open."""
        servers = self.servers(key)
        server = servers.find(connection)
        session = servers.engine.begin_undo(server, images, force=force, seconds=seconds)
        self._held[key] = _Held(server, session)
        reach("elsewhere.begun")

    def commit(self, key: str, connection: str, rows: KeptRows | None, note: Note) -> None:
        """`VerificationFailedError` if it was surely not committed; `IncompleteError` if nobody can tell."""
        held = self._held[key]
        transaction = held.session.ran.transaction
        try:
            self.servers(key).steady.make_lasting(held.server, transaction)
        except RemitError as problem:  # COMMIT was not sent, and will not be
            raise not_committed(problem.what, held.server.where, problem.next_step) from problem
        note(note_commit(Commit(connection, transaction._asdict(), rows)))
        reach("elsewhere.noted")
        try:
            held.session.commit()
        except CommitFailedError as problem:
            raise not_committed(problem.what, held.server.where, problem.next_step) from problem
        except CommitUnknownError as problem:  # it was asked for some seconds what became of it
            raise _unknown(held.server.where) from problem
        self._committed.add(key)
        reach("elsewhere.committed")

    def fate(self, key: str, commit: Commit) -> Fate:
        """Of a transaction that another process was about to commit. `IncompleteError` if nobody can tell now."""
        servers = self.servers(key)
        try:
            server = servers.find(commit.connection)
            fate = servers.steady.fate(server, _transaction(commit.transaction), patience=_PATIENCE)
        except RemitError as problem:
            raise _unknown(problem.where or f"connection {commit.connection}", problem) from problem
        if fate == "unknown":
            raise _unknown(server.where)
        if fate == "committed":
            self._committed.add(key)
        return fate

    def is_committed(self, key: str) -> bool:
        return key in self._committed

    def close(self, key: str) -> None:
        """However it ends. What was not committed is rolled back by the server."""
        if (held := self._held.pop(key, None)) is not None:
            held.session.close()


def not_committed(what: str, where: str, next_step: str = "") -> VerificationFailedError:
    return VerificationFailedError(
        Reason.EFFECT_FAILED,
        f"the plan was carried out, and then the database did not commit its part: {what}",
        where=where,
        next_step=next_step or "Find out what befell the server, then approve the plan again.",
    )


def _begun(servers: Servers, wanted: PreparedStatements) -> OpenTransaction:
    """Twice if another session was in the way, and time is left to wait for it: of two that wait for each other's
    locks, the server stops one. Nothing of it has taken effect yet. The approval is used by then.
    """

    def begin() -> OpenTransaction:
        with WorkFolder.make(servers.work) as work:
            return servers.engine.begin(
                wanted.server,
                wanted.texts,
                reads_only=wanted.reads_only,
                seconds=wanted.seconds,
                folder=work,
            )

    for is_last in (False, True):
        try:
            return begin()
        except EnvironmentFailureError as problem:
            if problem.reason is not Reason.DATABASE_BUSY:
                raise
            if is_last or not wanted.server.lock_seconds_left:
                raise problem.with_changes(next_step=_USED) from None
    raise AssertionError("the last attempt returns or raises")


def _require_as_seen(ran: PostgresResult, part: Elsewhere) -> None:
    failed = next((one.problem for one in ran.actions if one.problem is not None), None)
    if failed is not None:
        words = {name: failed.get(name, "") for name in ("where", "next_step")}
        raise EnvironmentFailureError(Reason(failed["reason"]), failed.get("what", ""), **words)
    allowed = {one.number for one in part.actions if one.irreversible}
    sudden = [one.irreversible for one in ran.actions if one.irreversible and one.number not in allowed]
    if ran.bound != part.bound or sudden:
        raise EnvironmentFailureError(
            Reason.HASH_MISMATCH,
            sudden[0] if sudden else "somebody changed rows that this plan is about, right after it was looked at",
            where=part.server,
            next_step="Nothing was changed. Look at the plan again, with `remit preview`, and approve it again.",
        )


def _kept(ran: PostgresResult, part: Elsewhere, folder: ReportFolder) -> KeptRows:
    tables = tuple((one.table, one.inserted, one.updated, one.deleted) for one in ran.tables[:MAX_TABLES_TOLD])
    if why := part.why_irreversible:
        return KeptRows(tables, irreversible=why)
    if not tables:
        return KeptRows(())
    if ran.images is None:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "the rows that lead back were not handed over",
            where=part.server,
            next_step="This is a bug in Remit; nothing was changed.",
        )
    state = ran.images.state
    return KeptRows(tables, keep_rows(folder, ran.images.descriptor, state), state.sha256, state.size)


def _transaction(tree: Mapping[str, Any]) -> Transaction:
    try:
        return Transaction(**tree)
    except TypeError:
        raise EnvironmentFailureError(Reason.STORE_OUTDATED, "a note of this run cannot be read") from None


def _unknown(where: str, problem: RemitError | None = None) -> IncompleteError:
    why = f": {problem.what}" if problem is not None else ""
    first = problem.next_step if problem is not None and problem.next_step else "See that the server can be reached."
    return IncompleteError(
        Reason.EFFECT_FAILED,
        f"whether the database committed its part of the plan could not be asked{why}",
        where=where,
        next_step=f"{first} Then run: remit recover",
    )
