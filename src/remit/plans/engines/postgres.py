"""Host side of PostgreSQL: previews, begins, commits and undoes the SQL of a plan, in a sandboxed process.

There is one connection and one transaction. The answers of the process are untrusted data. They are checked for form,
truncated, masked and made printable.
"""

import importlib.util
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, UsageError
from remit.plans.engines.database_files import OpenCopy, WorkFolder, detach_file
from remit.plans.engines.postgres_messages import (
    EFFECT,
    ActionResult,
    Definitions,
    DriftedRows,
    PostgresRequest,
    SqlText,
    TableChange,
    Transaction,
    bound_of,
    read_action,
    read_definitions,
    read_drifts,
    read_reason,
    read_tables,
    read_transaction,
    read_waited,
    texts_call,
)
from remit.plans.engines.postgres_servers import PostgresServer, with_addresses
from remit.plans.model.simulation_result import protocol_error
from remit.sandbox.host import CancelledError, EffectResult, InterruptedTaskError, SandboxHost
from remit.sandbox.memfd import sealed
from remit.sandbox.orders import Build

__all__ = [
    "BUILD",
    "EFFECT",
    "ActionResult",
    "CommitFailedError",
    "CommitUnknownError",
    "Definitions",
    "DriftedRows",
    "OpenTransaction",
    "PostgresEngine",
    "PostgresResult",
    "SqlText",
    "TableChange",
    "Transaction",
]

BUILD: Final = Build(network=True, open_files=512, packages=("psycopg", "psycopg_binary"))

Fate = Literal["committed", "aborted", "unknown"]

_FATES: Final[Mapping[str, Fate]] = {"committed": "committed", "aborted": "aborted"}
_FATE_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.5
_MOST_IMAGES: Final = 1 << 50
"""The quota limits how much a process may write. How much a plan may keep is checked by its caller."""
_WHERE_SERVER: Final = "the server"
_WHERE_TIME: Final = "the time"
_WHERE_PREVIEW_TIME: Final = "the time of a preview"
_INTERNAL_MODES: Final = frozenset({"make_lasting", "fate"})


class CommitFailedError(EnvironmentFailureError):
    """The transaction was certainly not committed, and never will be."""


class CommitUnknownError(EnvironmentFailureError):
    """It is unknown whether the transaction was committed. `PostgresEngine.fate` finds out once the server is
    reachable.
    """


class PostgresResult(NamedTuple):
    """The effect of the SQL, in a transaction that is rolled back or open."""

    actions: tuple[ActionResult, ...]
    bound: str
    """The digest for an approval. It covers database, role, row counts by action, and the rows before the change."""
    images: OpenCopy | None
    """The file of before-images. The caller closes its descriptor. None if there are none, or none are needed."""
    tables: tuple[TableChange, ...]
    transaction: Transaction
    definitions: Definitions | None = None
    """The definitions of the tables, if the texts were explained or `defines` was given."""
    why: str = ""
    """The reason why texts that the connection lets run were explained."""

    @property
    def was_explained(self) -> bool:
        """Whether nothing was run, in a preview."""
        return self.definitions is not None


class PostgresEngine:
    """Runs SQL on a PostgreSQL server for one request. The sandbox is requested when it is first needed."""

    def __init__(self, host: Callable[[], SandboxHost], task_id: str, is_cancelled: Callable[[], bool]) -> None:
        self._host = host
        self._task_id = task_id
        self._is_cancelled = is_cancelled

    def preview(
        self,
        server: PostgresServer,
        texts: Sequence[SqlText],
        *,
        reads_only: bool,
        seconds: float,
        stop_on_error: bool,
        folder: WorkFolder,
        in_earnest: bool = False,
    ) -> PostgresResult:
        """Run all texts and roll them back. Without `stop_on_error`, texts after a failure run as well.

        If a rollback may not undo all that a statement does, nothing runs. All texts are explained, and the result says
        why.

        `in_earnest` says that the plan is about to run. Then readers of the tables to be locked also cause
        DATABASE_BUSY.
        """
        call = texts_call("preview", texts, reads_only=reads_only, seconds=seconds, folder=folder)
        call.inputs.update(stop_on_error=stop_on_error, in_earnest=in_earnest, executes=True)
        return self._preview(server, call)

    def explain(
        self, server: PostgresServer, texts: Sequence[SqlText], *, reads_only: bool, seconds: float, folder: WorkFolder
    ) -> PostgresResult:
        """Let the server plan all texts. None of them runs."""
        call = texts_call("preview", texts, reads_only=reads_only, seconds=seconds, folder=folder)
        call.inputs.update(executes=False, stop_on_error=False)
        return self._preview(server, call)

    def _preview(self, server: PostgresServer, call: PostgresRequest) -> PostgresResult:
        reported = _ReportedActions()
        finished = self.run(server, call, reported.on_ask, self._is_cancelled)
        output = finished.output or {}
        if server.locks is not None:
            server.locks.spend(read_waited(output))
        return reported.result(output, call)

    def begin(
        self,
        server: PostgresServer,
        texts: Sequence[SqlText],
        *,
        reads_only: bool,
        seconds: float,
        folder: WorkFolder,
        defines: bool = False,
    ) -> "OpenTransaction":
        """Run all texts. The transaction is open until the session is committed or closed.

        `defines`: the result has the digest of the definitions of the tables, for an approval of an explained preview.
        """
        call = texts_call("begin", texts, reads_only=reads_only, seconds=seconds, folder=folder)
        call.inputs.update(defines=defines)
        return OpenTransaction(self, server, call, self._is_cancelled)

    def find_drifted_rows(self, server: PostgresServer, images: int, *, seconds: float) -> tuple[DriftedRows, ...]:
        """Return the rows of a before-images file that other sessions have changed since. Empty if there are none."""
        call = PostgresRequest("look_back", {}, seconds, given={"images": images})
        return read_drifts(self.run(server, call, _refuse_question, self._is_cancelled).output)

    def begin_undo(self, server: PostgresServer, images: int, *, force: bool, seconds: float) -> "OpenTransaction":
        """Restore the rows. The transaction is open until the session is committed or closed.

        Refuses with DRIFTED if other sessions have changed these rows since, unless `force` is set.
        """
        call = PostgresRequest("undo", {"force": force}, seconds, given={"images": images})
        return OpenTransaction(self, server, call, self._is_cancelled)

    def require_durable_commit(
        self, server: PostgresServer, transaction: Transaction | None = None, *, seconds: float = _FATE_SECONDS
    ) -> None:
        """Require that the number of an open transaction is durable, so that it is never reused if the server crashes.

        Call this before the number is noted for `fate`. Fails if the transaction is no longer open, because the server
        may
        have given its number to another transaction.
        """
        inputs = {"xid": "", "backend": 0} if transaction is None else transaction._asdict()
        self.run(server, PostgresRequest("make_lasting", inputs, seconds), _refuse_question, lambda: False)

    def fate(self, server: PostgresServer, transaction: Transaction, *, patience: float = 10.0) -> Fate:
        """Return the fate of a transaction. An open transaction is ended first, so that the answer is final."""
        if not transaction.xid:
            return "aborted"  # it changed nothing
        until = time.monotonic() + patience
        while True:
            inputs = {**transaction._asdict(), "patience": max(until - time.monotonic(), 0.1)}
            call = PostgresRequest("fate", inputs, patience + _FATE_SECONDS)
            with suppress(RemitError):
                output = self.run(server, call, _refuse_question, lambda: False).output or {}
                return _FATES.get(str(output.get("fate")), "unknown")
            if time.monotonic() + _PAUSE_SECONDS > until:
                return "unknown"
            time.sleep(_PAUSE_SECONDS)

    def run(
        self,
        server: PostgresServer,
        call: "PostgresRequest",
        on_ask: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        is_cancelled: Callable[[], bool],
    ) -> EffectResult:
        """Run one process from its connection to its end."""
        require_psycopg()
        with ExitStack() as stack:
            given = {**call.given, "server": stack.enter_context(sealed("server", with_addresses(server)))}
            if call.texts is not None:
                given["texts"] = stack.enter_context(sealed("texts", call.texts))
            began = time.monotonic()
            try:
                return self._host().run(
                    _limited(call, server).order(self._task_id), given=given, on_ask=on_ask, is_cancelled=is_cancelled
                )
            except CancelledError:
                raise
            except InterruptedTaskError as cut:
                raise _timeout_error(server, call) if cut.reason is Reason.TIMED_OUT else cut from None
            except RemitError as problem:
                if server.locks is not None and problem.reason is Reason.DATABASE_BUSY:
                    server.locks.spend(time.monotonic() - began)
                raise _with_server_name(problem, server, call) from None


class _ReportedActions:
    """The results of actions that a process has reported so far."""

    def __init__(self) -> None:
        self._actions: list[ActionResult] = []

    def on_ask(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        if question.get("kind") != "action":
            raise protocol_error("it asked a question that does not exist")
        self._actions.append(read_action(question))
        return {}

    def result(self, output: Mapping[str, Any], call: PostgresRequest) -> PostgresResult:
        """Return the result when the process ends or the transaction is open. Detaches the file of before-images."""
        transaction = read_transaction(output)
        bound = bound_of(output, transaction, self._actions)
        tables = _sum_tables(self._actions) if call.texts is not None else read_tables(output.get("tables"))
        images = None
        if call.images is not None and output.get("images") is True:
            images = detach_file(call.images, 0o600, _MOST_IMAGES, where="the row images", too_large=_too_large_error)
        definitions = read_definitions(output, transaction) if "definitions" in output else None
        why = read_reason(output.get("why", ""))
        return PostgresResult(tuple(self._actions), bound, images, tables, transaction, definitions, why)


class OpenTransaction:
    """One open transaction. A thread waits for the process, which waits for the verdict: commit or rollback."""

    result: PostgresResult

    def __init__(
        self, engine: PostgresEngine, server: PostgresServer, call: PostgresRequest, is_cancelled: Callable[[], bool]
    ) -> None:
        self._engine = engine
        self._server = server
        self._call = call
        self._is_cancelled = is_cancelled
        self._reported = _ReportedActions()
        self._opened: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._verdict: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._is_abandoned = False
        self._is_open = False
        self._sent_verdict = ""
        self._end: EffectResult | BaseException | None = None
        self._thread = threading.Thread(target=self._run_process, name="remit-postgres", daemon=True)
        self._thread.start()
        try:
            self.result = self._reported.result(self._wait_until_open(), call)
        except BaseException:
            self.close()
            raise

    def commit(self) -> None:
        """Commit, and return when it is certain. Raises `CommitFailedError` if it failed, or `CommitUnknownError`."""
        if self._sent_verdict:
            raise UsageError(Reason.MISUSE, "a session can be committed or closed only once")
        self._send_verdict("commit")
        self._thread.join()
        output = self._end.output or {} if isinstance(self._end, EffectResult) else {}
        if output.get("committed") is True:
            return
        if output.get("committed") is False:
            raise _not_committed_error(str(output.get("said", "")), self._server)
        match self._engine.fate(self._server, self.result.transaction):
            case "committed":
                return
            case "aborted":
                raise _not_committed_error("the connection was lost before the server had committed", self._server)
            case _:
                raise CommitUnknownError(
                    Reason.SQL_FAILED,
                    "the connection was lost during the commit of the transaction",
                    where=self._server.where,
                    next_step="Recovery asks the server for the outcome when it can be reached again.",
                )

    def close(self) -> None:
        """Roll back if it was not committed. It can be called again, and after `commit`."""
        self._is_abandoned = True
        if not self._sent_verdict:
            self._send_verdict("rollback")
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_until_open(self) -> Mapping[str, Any]:
        opened = self._opened.get()
        if opened is not None:
            return opened
        self._thread.join()
        end = self._end
        raise end if isinstance(end, BaseException) else protocol_error("it ended before its transaction was open")

    def _send_verdict(self, verdict: str) -> None:
        self._sent_verdict = verdict
        self._verdict.put(verdict)

    def _run_process(self) -> None:
        try:
            self._end = self._engine.run(self._server, self._call, self._answer, self._is_stopped)
        except BaseException as problem:  # noqa: BLE001 - the waiting thread raises or evaluates it
            self._end = problem
        finally:
            self._opened.put(None)

    def _answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        if question.get("kind") != "open":
            return self._reported.on_ask(question)
        self._is_open = True
        self._opened.put(question)
        return {"verdict": self._verdict.get()}

    def _is_stopped(self) -> bool:
        """Whether to kill the process. Not once the transaction is open: a kill during the commit would hide its
        outcome.
        """
        return not self._is_open and (self._is_abandoned or self._is_cancelled())


def require_psycopg() -> None:
    """Require the optional package. It is not imported here, because this process has the keys."""
    if importlib.util.find_spec("psycopg") is None or importlib.util.find_spec("psycopg_binary") is None:
        raise RefusedError(
            Reason.CAPABILITY_UNSUPPORTED,
            "psycopg is not installed, and a plan on a PostgreSQL database needs it",
            next_step="Install it with: pip install 'remit[postgres]'",
        )


def _refuse_question(_: Mapping[str, Any]) -> Mapping[str, Any]:
    raise protocol_error("it asked a question, and none was expected")


def _sum_tables(actions: Sequence[ActionResult]) -> tuple[TableChange, ...]:
    tables: dict[str, TableChange] = {}
    for action in actions:
        for one in action.tables:
            total = tables.get(one.table, TableChange(one.table, 0, 0, 0))
            counts = (mine + more for mine, more in zip(total[1:], one[1:], strict=True))
            tables[one.table] = TableChange(one.table, *counts)
    return tuple(tables.values())


def _limited(call: PostgresRequest, server: PostgresServer) -> PostgresRequest:
    """Add the limits of the connection from the configuration. A plan cannot change them."""
    inputs = {
        **call.inputs,
        "functions": list(server.functions),
        "lock_seconds": server.lock_seconds,
        "lock_left": server.lock_seconds_left,
        "preview_seconds": server.preview_seconds,
        "statement_seconds": _statement_seconds(server, call),
    }
    return call._replace(inputs=inputs)


def _statement_seconds(server: PostgresServer, call: PostgresRequest) -> float:
    return call.seconds if server.statement_seconds is None else min(call.seconds, server.statement_seconds)


def _with_server_name(problem: RemitError, server: PostgresServer, call: PostgresRequest) -> RemitError:
    """Name the server as people know it. Timeouts get a message of the host."""
    if problem.where == _WHERE_TIME:
        return _timeout_error(server, call)
    if problem.where == _WHERE_PREVIEW_TIME:
        return _locks_held_error(server)
    where = server.where if problem.where == _WHERE_SERVER else problem.where
    return problem.with_changes(where=where)


def _timeout_error(server: PostgresServer, call: PostgresRequest) -> EnvironmentFailureError:
    if call.mode in _INTERNAL_MODES:  # no caller set a time for it
        return EnvironmentFailureError(
            Reason.TIMED_OUT,
            f"the server did not answer within {call.seconds:g} seconds",
            where=server.where,
            next_step="Check what the server waits for: its disk, or its log.",
        )
    return EnvironmentFailureError(
        Reason.TIMED_OUT,
        f"the SQL took longer than {_statement_seconds(server, call):g} seconds",
        next_step="Simplify it, or raise its limit: `timeout_seconds` of the action, timeouts.sql, or "
        "statement_timeout_seconds of the connection.",
    )


def _locks_held_error(server: PostgresServer) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.TIMED_OUT,
        f"the preview locked tables for {server.preview_seconds:g} seconds, which is its limit, and was stopped",
        where=server.where,
        next_step="Nothing was changed. Simplify the SQL, or raise preview_timeout_seconds of the connection in the "
        "configuration.",
    )


def _not_committed_error(why: str, server: PostgresServer) -> CommitFailedError:
    return CommitFailedError(
        Reason.SQL_FAILED,
        "the transaction was not committed" + (f": {why}" if why else ""),
        where=server.where,
        next_step="Nothing was changed in the database. Try again.",
    )


def _too_large_error(size: int, most: int, where: str) -> RemitError:
    return RefusedError(
        Reason.LIMIT_EXCEEDED, f"the before-images have {size:,} bytes, and may have at most {most:,}", where=where
    )
