"""Transactions on database servers. They are held open while files change, and are committed last.

Before COMMIT is sent, the identity of the transaction is noted. A process that recovers the run asks the server for its
fate. Without a note the transaction ended with its connection. If it was committed, the run is finished; if not, the
run is undone.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from remit.contracts.plans.sql_report import MAX_TABLES_TOLD
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
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
from remit.plans.engines.postgres_messages import bound_of_texts
from remit.plans.engines.postgres_servers import PostgresServer
from remit.plans.model.remote_part import (
    OTHER_TABLES,
    RESTORE_ROWS,
    Commit,
    RemotePart,
    RowBackup,
    note_commit,
    render_counts,
)
from remit.plans.preparation.remote_sql import PreparedStatements, Servers
from remit.plans.storage.row_images import back_up_rows
from remit.plans.storage.run_folder import ReportFolder

Fate = Literal["committed", "aborted"]

_PATIENCE: Final = 10.0
_AGAIN: Final = "Nothing was changed. Preview the plan again with `remit preview`, and approve it again."
_EXECUTE: Final = (
    "Nothing was changed. The preview did not run the statements, so it could not find this out. Ask a person to set "
    "`preview: execute` for the connection, or change the plan; then approve it again."
)
_OTHER_ROWS: Final = "the rows that this plan would change are not those that were approved"
_MOST_TABLES: Final = 20


class _OpenSession(NamedTuple):
    server: PostgresServer
    session: OpenTransaction


@dataclass(frozen=True)
class OpenTransactions:
    """The open transactions of the requests that this process works on, by request id."""

    servers: Callable[[str], Servers]
    """Returns the servers for one request."""
    _open: dict[str, _OpenSession] = field(default_factory=dict, init=False, repr=False)
    _committed: set[str] = field(default_factory=set, init=False, repr=False)
    _images: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """The open files of before-images that are not stored yet."""

    def begin(self, key: str, statements: PreparedStatements, part: RemotePart, *, backup_bytes: int) -> None:
        """Run the statements and keep their transaction open. Nothing is committed.

        `backup_bytes` is the size of the backups of files: together with the rows they have a limit.

        Refuses the plan if the server is not as it was at the preview. This is before the intent, so the approval is
        not used then. The caller closes the transaction, however the request ends.
        """
        servers = self.servers(key)
        session = _open_with_retry(servers, statements, defines=part.computed == "explain")
        self._open[key] = _OpenSession(statements.server, session)
        if session.result.images is not None:
            self._images[key] = session.result.images.descriptor
        reach("elsewhere.begun")
        try:
            _require_as_previewed(session.result, statements, part)
            if not part.why_irreversible:  # else no before-images are kept
                _require_backup_limit(session.result, statements, backup_bytes)
        except RemitError:
            self.close(key)
            raise

    def is_open(self, key: str) -> bool:
        return key in self._open

    def back_up_rows(self, key: str, part: RemotePart, folder: ReportFolder) -> RowBackup:
        """Store the before-images of the open transaction. When this returns, they are durable in `folder`."""
        try:
            return _back_up_rows(self._open[key].session.result, part, folder)
        finally:
            self._close_images(key)

    def find_drifted_rows(self, key: str, connection: str, images: int, seconds: float) -> tuple[DriftedRows, ...]:
        """Return the rows that have changed since the run."""
        servers = self.servers(key)
        return servers.engine.find_drifted_rows(servers.find(connection), images, seconds=seconds)

    def begin_undo(self, key: str, connection: str, images: int, *, force: bool, seconds: float) -> None:
        """Restore the rows as they were before the run, in a transaction that stays open."""
        servers = self.servers(key)
        server = servers.find(connection)
        session = servers.engine.begin_undo(server, images, force=force, seconds=seconds)
        self._open[key] = _OpenSession(server, session)
        reach("elsewhere.begun")

    def commit(self, key: str, connection: str, rows: RowBackup | None, note: Note) -> None:
        """Commit. `VerificationFailedError` if it was certainly not committed, `IncompleteError` if that is unknown."""
        opened = self._open[key]
        transaction = opened.session.result.transaction
        try:
            self.servers(key).uncancellable.require_durable_commit(opened.server, transaction)
        except RemitError as problem:  # COMMIT was not sent, and will not be
            raise not_committed_error(problem.what, opened.server.where, problem.next_step) from problem
        note(note_commit(Commit(connection, transaction._asdict(), rows)))
        reach("elsewhere.noted")
        try:
            opened.session.commit()
        except CommitFailedError as problem:
            raise not_committed_error(problem.what, opened.server.where, problem.next_step) from problem
        except CommitUnknownError as problem:  # the session has asked the server for several seconds
            raise _unknown_fate_error(opened.server.where) from problem
        self._committed.add(key)
        reach("elsewhere.committed")

    def fate(self, key: str, commit: Commit) -> Fate:
        """Return the fate of a transaction that another process was about to commit.

        Raises `IncompleteError` if it is unknown now.
        """
        servers = self.servers(key)
        try:
            server = servers.find(commit.connection)
            fate = servers.uncancellable.fate(server, _parse_transaction(commit.transaction), patience=_PATIENCE)
        except RemitError as problem:
            raise _unknown_fate_error(problem.where or f"connection {commit.connection}", problem) from problem
        if fate == "unknown":
            raise _unknown_fate_error(server.where)
        if fate == "committed":
            self._committed.add(key)
        return fate

    def is_committed(self, key: str) -> bool:
        return key in self._committed

    def close(self, key: str) -> None:
        """Close the session, however the request ends. The server rolls back a transaction that was not committed."""
        self._close_images(key)
        if (opened := self._open.pop(key, None)) is not None:
            opened.session.close()

    def _close_images(self, key: str) -> None:
        if (descriptor := self._images.pop(key, None)) is not None:
            os.close(descriptor)


def not_committed_error(what: str, where: str, next_step: str = "") -> VerificationFailedError:
    return VerificationFailedError(
        Reason.EFFECT_FAILED,
        f"the plan was carried out, and then the database did not commit its part: {what}",
        where=where,
        next_step=next_step or "Find out why the server did not commit, then approve the plan again.",
    )


def _open_with_retry(servers: Servers, statements: PreparedStatements, *, defines: bool) -> OpenTransaction:
    """Begin the transaction. Try once more if another session was in the way and there is time left to wait for it.

    The server stops one of two sessions that wait for each other's locks. Nothing has taken effect at that point.
    """

    def begin() -> OpenTransaction:
        with WorkFolder.make(servers.work) as work:
            return servers.engine.begin(
                statements.server,
                statements.texts,
                reads_only=statements.reads_only,
                seconds=statements.seconds,
                folder=work,
                defines=defines,
            )

    for is_last in (False, True):
        try:
            return begin()
        except EnvironmentFailureError as problem:
            if problem.reason is not Reason.DATABASE_BUSY or is_last or not statements.server.lock_seconds_left:
                raise
    raise AssertionError("the last attempt returns or raises")


def _require_as_previewed(result: PostgresResult, statements: PreparedStatements, part: RemotePart) -> None:
    """Refuse what the approval does not cover.

    If the preview ran the statements, they must find the same rows. If the server only planned them, the tables must
    have the same definitions: no rows were counted, so none are compared.
    """
    failed = next((one.problem for one in result.actions if one.problem is not None), None)
    executes = part.computed == "execute"
    if _bound_now(result, statements, part) != part.bound:
        what = f"{_OTHER_ROWS}; {_describe_present(result, part)}" if executes else OTHER_TABLES
        step = RESTORE_ROWS if executes else _AGAIN
        raise RefusedError(Reason.BINDING_MISMATCH, what, where=f"connection:{part.connection}/", next_step=step)
    if failed is not None:
        details = {name: failed.get(name, "") for name in ("where", "next_step")}
        raise EnvironmentFailureError(Reason(failed["reason"]), failed.get("what", ""), **details)
    allowed = {one.number for one in part.actions if one.irreversible}
    unexpected = [one.irreversible for one in result.actions if one.irreversible and one.number not in allowed]
    if unexpected:
        raise RefusedError(
            Reason.HASH_MISMATCH, unexpected[0], where=part.server, next_step=_AGAIN if executes else _EXECUTE
        )


def _describe_present(result: PostgresResult, part: RemotePart) -> str:
    """Say what the plan would do on its server now: an action that would fail, or the changed rows of each table."""
    ids = {one.number: one.action_id for one in part.actions}
    for one in result.actions:
        if one.problem is not None:
            return f"action {ids.get(one.number, one.number)} would fail now: {one.problem.get('what', '')}"
    named = [
        f"{one.table} ({render_counts((one.inserted, one.updated, one.deleted))})"
        for one in result.tables[:_MOST_TABLES]
    ]
    return f"it would now change {', '.join(named)}" if named else "it would now change no row"


def _bound_now(result: PostgresResult, statements: PreparedStatements, part: RemotePart) -> str:
    """Return the digest that the approval must have been bound to."""
    if part.computed == "execute":
        return result.bound
    definitions = result.definitions if part.computed == "explain" else None
    return bound_of_texts(part.computed, statements.server.where, statements.texts, definitions)


def _require_backup_limit(result: PostgresResult, statements: PreparedStatements, backup_bytes: int) -> None:
    """Refuse too large before-images. Their size is not known before, if the preview did not run the statements."""
    most, rows = statements.most_backup_bytes, 0 if result.images is None else result.images.state.size
    if most is not None and rows and backup_bytes + rows > most:
        raise EnvironmentFailureError(
            Reason.LIMIT_EXCEEDED,
            f"the backups would have {backup_bytes + rows:,} bytes, {rows:,} of them for rows on a server, and {most:,}"
            " are allowed",
            where=statements.server.where,
            next_step="Nothing was changed. Split the plan, or raise limits.max_backup_bytes in remit.yaml.",
        )


def _back_up_rows(result: PostgresResult, part: RemotePart, folder: ReportFolder) -> RowBackup:
    tables = tuple((one.table, one.inserted, one.updated, one.deleted) for one in result.tables[:MAX_TABLES_TOLD])
    if why := part.why_irreversible:
        return RowBackup(tables, irreversible=why)
    if not tables:
        return RowBackup(())
    if result.images is None:
        raise EnvironmentFailureError(
            Reason.EFFECT_FAILED,
            "the engine did not return the before-images of rows",
            where=part.server,
            next_step="This is a bug in Remit; nothing was changed.",
        )
    state = result.images.state
    return RowBackup(tables, back_up_rows(folder, result.images.descriptor, state), state.sha256, state.size)


def _parse_transaction(tree: Mapping[str, Any]) -> Transaction:
    try:
        return Transaction(**tree)
    except TypeError:
        raise EnvironmentFailureError(Reason.STORE_OUTDATED, "a note of this run cannot be read") from None


def _unknown_fate_error(where: str, problem: RemitError | None = None) -> IncompleteError:
    why = f": {problem.what}" if problem is not None else ""
    first = problem.next_step if problem is not None and problem.next_step else "See that the server can be reached."
    return IncompleteError(
        Reason.EFFECT_FAILED,
        f"it is unknown whether the database committed its part of the plan{why}",
        where=where,
        next_step=f"{first} Then run: remit recover",
    )
