"""Group commit: many callers, one transaction, one fsync.

Each caller hands in a unit of work. Whoever finds nobody at work becomes the leader: it takes every waiting unit, runs
them in order in one transaction, each behind a savepoint of its own, commits, and wakes their callers. Units that
arrive meanwhile wait for the next leader. A unit that fails is undone alone and its error goes to its own caller;
nobody is told of success before the commit is durable. There is no background thread and no waiting for company: a
lone caller commits at once.

Ctrl-C may strike the main thread anywhere, as leader or as follower. Leadership is therefore given up in `finally`, and
only by whoever holds it, so that giving it up twice does no harm.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from remit.core.concurrency import yielding
from remit.core.errors import EnvironmentFailureError, Reason, RemitError, UsageError
from remit.core.faultpoints import reach
from remit.core.metrics import COMMITS
from remit.store.connection import Connection, DatabaseBusyError, DatabaseFailureError, Store

T = TypeVar("T")
MAX_GROUP: Final = 512
# Normally a follower is woken. Looking up now and then heals the one case left: an interrupt amid the waking.
WAKE_CHECK_SECONDS: Final = 0.5


class TransactionMemory(Protocol):
    """What one transaction remembers beside the database, so that it can be undone with a savepoint."""

    def mark(self) -> Any: ...

    def reset(self, mark: Any) -> None: ...

    def seal(self) -> None:
        """Last writes of the transaction, just before the commit."""

    def is_written(self, connection: Connection) -> bool | None:
        """Whether what this transaction wrote is there, for another session to see; None if that cannot be told."""

    def committed(self) -> None:
        """The transaction is durable. Too late to fail: nobody may be told that it did not happen."""


S = TypeVar("S", bound=TransactionMemory)


class _Unit(Generic[S]):
    __slots__ = ("error", "is_done", "result", "sleep", "work")

    def __init__(self, work: Callable[[S], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        # A bare lock, held until somebody wakes us. An Event keeps a lock inside that an interrupt can leave locked,
        # and then whoever sets it waits for ever.
        self.sleep = threading.Lock()
        self.sleep.acquire()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # awake already
            self.sleep.release()


class _CommitState:
    """What is known of a group's transaction, wherever an interrupt strikes."""

    __slots__ = ("durable",)

    def __init__(self) -> None:
        self.durable = False


class GroupCommit(Generic[S]):
    """The one writer of a store within this process. Safe to call from any thread; not across a fork."""

    def __init__(self, store: Store, open_session: Callable[[Connection], S]) -> None:
        self._store = store
        self._open_session = open_session
        self._connection: Connection | None = None
        self._connection_lock = threading.Lock()  # whoever uses the connection: the leader, or close()
        self._mutex = threading.Lock()  # guards the next two
        self._waiting: list[_Unit[S]] = []
        self._leader: _Unit[S] | None = None
        self._leading_thread = 0
        self._process = os.getpid()
        self.groups = 0
        """How many transactions were committed: the benchmark divides entries by it."""

    def run(self, work: Callable[[S], T]) -> T:
        """Run `work` in a durable transaction and return its result, or raise its error with nothing written.

        `work` may run in another caller's thread. It must not call `run` again.
        """
        if os.getpid() != self._process:
            raise UsageError(Reason.MISUSE, "a store opened before a fork cannot be used after it; open it again")
        if threading.get_ident() == self._leading_thread:
            raise UsageError(
                Reason.MISUSE, "a unit of work cannot start another one: write through the batch it was given"
            )
        unit: _Unit[S] = _Unit(work)
        try:
            with self._mutex:
                self._waiting.append(unit)
                if self._leader is None:
                    self._leader = unit
                leads = self._leader is unit
            while not leads and not unit.is_done:
                with yielding():
                    unit.sleep.acquire(timeout=WAKE_CHECK_SECONDS)
                leads = self._leader is unit
            if not unit.is_done:
                self._lead(unit)
        finally:
            self._withdraw(unit)
        if unit.error is not None:
            raise unit.error
        return cast(T, unit.result)

    def close(self) -> None:
        """Let go of the connection, once a transaction at work has ended. The next call opens another."""
        if os.getpid() == self._process:
            with self._connection_lock:
                self._abandon()

    def _lead(self, leader: _Unit[S]) -> None:
        """Steps aside from the commit until all are woken: whoever has a turn may be one of them."""
        with contextlib.ExitStack() as waiting:
            self._lead_group(leader, waiting)

    def _lead_group(self, leader: _Unit[S], waiting: contextlib.ExitStack) -> None:
        group: list[_Unit[S]] = []
        commit_state = _CommitState()
        try:
            with self._mutex:
                group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
            with self._connection_lock:
                self._leading_thread = threading.get_ident()
                try:
                    self._commit(group, commit_state, waiting)
                finally:
                    self._leading_thread = 0
        finally:
            self._pass_leadership(leader)
            for unit in group:
                if commit_state.durable:  # also if we were interrupted since: what is written is written
                    unit.is_done = True
                elif not unit.is_done:
                    _finish_unit(unit, _failure(KeyboardInterrupt(), committing=True))
                unit.wake()

    def _pass_leadership(self, leader: _Unit[S]) -> None:
        with self._mutex:
            if self._leader is not leader:
                return
            self._leader = successor = self._waiting[0] if self._waiting else None
        if successor is not None:
            successor.wake()

    def _withdraw(self, unit: _Unit[S]) -> None:
        """On every way out of `run`. Matters when the caller was interrupted: its unit must not be waited for."""
        if not unit.is_done:
            with self._mutex, contextlib.suppress(ValueError):
                self._waiting.remove(unit)
        self._pass_leadership(unit)

    def _commit(self, group: list[_Unit[S]], commit_state: _CommitState, waiting: contextlib.ExitStack) -> None:
        session: S | None = None
        committing = False
        began = time.monotonic()
        try:
            connection = self._open_transaction()
            reach("append.begun")
            session = self._open_session(connection)
            for unit in group:
                _run_unit(connection, session, unit, alone=len(group) == 1)
            if all(unit.error is not None for unit in group):
                connection.rollback()
                session = None
            else:
                session.seal()
                reach("append.before_commit")
                committing = True
                waiting.enter_context(yielding())
                connection.commit()
                commit_state.durable = True
                reach("append.committed")
        except BaseException as problem:
            if commit_state.durable and session is not None and not isinstance(problem, Exception):
                self._conclude(session, began)
                raise
            commit_state.durable = False
            self._abandon()
            is_lost = committing and isinstance(problem, DatabaseFailureError)
            is_written = self._check_committed(session) if is_lost and session is not None else None
            if not is_written:
                for unit in group:
                    _finish_unit(unit, _failure(problem, committing=committing and is_written is None))
                if not isinstance(problem, Exception):
                    raise
                return
            commit_state.durable = True
        try:
            for unit in group:
                unit.is_done = True
        finally:
            if session is not None:
                self._conclude(session, began)

    def _open_transaction(self) -> Connection:
        """A connection in a writing transaction. One kept from earlier may have died meanwhile: then a new one."""
        if self._connection is not None:
            try:
                self._connection.begin(write=True)
            except DatabaseBusyError:
                raise
            except DatabaseFailureError:
                self._abandon()
            else:
                return self._connection
        self._connection = self._store.connect()
        self._connection.begin(write=True)
        return self._connection

    def _check_committed(self, session: S) -> bool | None:
        """Whether a commit whose answer was lost has happened; None if that cannot be found out.

        Only a server outlives the session, and says the truth: whoever may write there waits until it has let go of the
        transaction before. What is seen in a file after a failed commit may be in no disk yet.
        """
        if self._store.dialect != "postgresql":
            return None
        try:
            connection = self._open_transaction()
            found = session.is_written(connection)
            connection.rollback()
        except RemitError:
            self._abandon()
            return None
        return found

    def _conclude(self, session: S, began: float) -> None:
        self.groups += 1
        seconds = time.monotonic() - began
        session.committed()
        COMMITS.observe(seconds)

    def _abandon(self) -> None:
        """After a failed transaction the connection's state is unknown: drop it, the database rolls back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the first failure is the one worth reporting
                connection.close()


def _run_unit(connection: Connection, session: S, unit: _Unit[S], *, alone: bool) -> None:
    mark = session.mark()
    if not alone:
        connection.execute("SAVEPOINT unit")
    try:
        unit.result = unit.work(session)
        if not alone:
            connection.execute("RELEASE unit")
    except (DatabaseFailureError, KeyboardInterrupt):
        raise
    except BaseException as problem:  # noqa: BLE001 - delivered to the unit's own caller, SystemExit included
        unit.error = problem
        session.reset(mark)
        if not alone:
            connection.execute("ROLLBACK TO unit")
            connection.execute("RELEASE unit")


def _finish_unit(unit: _Unit[S], failure: RemitError) -> None:
    """A unit that had failed on its own keeps its own error: nothing of it was written, either way."""
    unit.error = unit.error or failure
    unit.is_done = True


def _failure(problem: BaseException, *, committing: bool) -> RemitError:
    """One for each caller: a shared exception would collect everybody's traceback."""
    failure: RemitError
    if isinstance(problem, RemitError) and not (committing and isinstance(problem, EnvironmentFailureError)):
        failure = type(problem)(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)
    else:
        outcome = "it is not known whether they were written" if committing else "nothing was written"
        known_error = problem if isinstance(problem, RemitError) else None
        why = known_error.what if known_error else str(problem) or type(problem).__name__
        after = "Look at what was written: remit ledger show" if committing else "Run `remit doctor`, try again."
        failure = EnvironmentFailureError(
            known_error.reason if known_error else Reason.STORE_UNAVAILABLE,
            f"the entries could not be committed, {outcome}: {why}",
            next_step=f"{known_error.next_step} {after}" if known_error and known_error.next_step else after,
        )
    failure.__cause__ = problem
    return failure
