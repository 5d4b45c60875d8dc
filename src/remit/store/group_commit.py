"""Group commit: many callers, one transaction, one fsync.

Each caller submits a unit of work. A caller that finds no leader becomes the leader. It takes every waiting unit, runs
them in order in one transaction, each behind its own savepoint, commits, and wakes their callers. Units that arrive
meanwhile wait for the next leader. A unit that fails is undone alone, and its own caller gets the error. No caller gets
a success before the commit is durable. There is no background thread, and a leader does not wait for more units: a
single caller commits at once.

Ctrl-C can interrupt the main thread anywhere, as leader or as follower. Leadership is therefore given up in `finally`,
and only by the current leader, so that a second attempt to give it up does no harm.
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
# Normally the leader wakes a follower. This check covers the case that the leader is interrupted while it wakes them.
WAKE_CHECK_SECONDS: Final = 0.5


class TransactionMemory(Protocol):
    """State of one transaction besides the database, which a savepoint must undo too."""

    def mark(self) -> Any: ...

    def reset(self, mark: Any) -> None: ...

    def seal(self) -> None:
        """Make the last writes of the transaction, just before the commit."""

    def is_written(self, connection: Connection) -> bool | None:
        """Return whether another session sees the writes of this transaction. None if that cannot be found out."""

    def committed(self) -> None:
        """Called when the transaction is durable. It must not fail: no caller may hear that nothing was written."""


S = TypeVar("S", bound=TransactionMemory)


class _Unit(Generic[S]):
    __slots__ = ("error", "is_done", "result", "sleep", "work")

    def __init__(self, work: Callable[[S], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = False
        # A bare lock, held until another thread wakes this one. An interrupt can leave the lock inside an Event locked.
        # Then the thread that sets the Event would wait without end.
        self.sleep = threading.Lock()
        self.sleep.acquire()

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # awake already
            self.sleep.release()


class _CommitState:
    """The known state of a group's transaction, wherever an interrupt happens."""

    __slots__ = ("durable",)

    def __init__(self) -> None:
        self.durable = False


class GroupCommit(Generic[S]):
    """The only writer of a store within this process. Safe to call from any thread, but not across a fork."""

    def __init__(self, store: Store, open_session: Callable[[Connection], S]) -> None:
        self._store = store
        self._open_session = open_session
        self._connection: Connection | None = None
        self._connection_lock = threading.Lock()  # held by the user of the connection: the leader, or close()
        self._mutex = threading.Lock()  # guards the next two
        self._waiting: list[_Unit[S]] = []
        self._leader: _Unit[S] | None = None
        self._leading_thread = 0
        self._process = os.getpid()
        self.groups = 0
        """The number of committed transactions. The benchmark divides the entries by it."""

    def run(self, work: Callable[[S], T]) -> T:
        """Run `work` in a durable transaction and return its result. On an error nothing is written, and it is raised.

        `work` may run in another caller's thread. It must not call `run` again.
        """
        if os.getpid() != self._process:
            raise UsageError(Reason.MISUSE, "a store opened before a fork cannot be used after it; open it again")
        if threading.get_ident() == self._leading_thread:
            raise UsageError(
                Reason.MISUSE, "a unit of work cannot start another one: write through the batch that it received"
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
        """Close the connection, after a running transaction has ended. The next call opens another one."""
        if os.getpid() == self._process:
            with self._connection_lock:
                self._abandon()

    def _lead(self, leader: _Unit[S]) -> None:
        """Lead a group. From the commit until all callers are woken, the computing slot is free: one may need it."""
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
                if commit_state.durable:  # also after an interrupt: the entries are written
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
        """Take the unit out, however `run` ends. After an interrupt of its caller, nothing may wait for the unit."""
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
        """Return a connection in a writing transaction. If the reused one has died meanwhile, open a new one."""
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
        """Return whether a commit whose answer was lost has happened. None if that cannot be found out.

        Only a server outlives the session and can answer this. A new writer there waits until the server has ended the
        earlier transaction. After a failed commit to a file, the visible content may not be on the disk yet.
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
        """Close the connection: after a failed transaction its state is unknown. The database rolls back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # the first failure is the one to report
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
    """End the unit with this failure.

    A unit that failed on its own keeps its own error: it wrote nothing either way.
    """
    unit.error = unit.error or failure
    unit.is_done = True


def _failure(problem: BaseException, *, committing: bool) -> RemitError:
    """Make one error for each caller. A shared exception would collect the tracebacks of all callers."""
    failure: RemitError
    if isinstance(problem, RemitError) and not (committing and isinstance(problem, EnvironmentFailureError)):
        failure = type(problem)(problem.reason, problem.what, where=problem.where, next_step=problem.next_step)
    else:
        outcome = "it is not known whether they were written" if committing else "nothing was written"
        known_error = problem if isinstance(problem, RemitError) else None
        why = known_error.what if known_error else str(problem) or type(problem).__name__
        after = "Check the entries: remit ledger show" if committing else "Run `remit doctor`, then try again."
        failure = EnvironmentFailureError(
            known_error.reason if known_error else Reason.STORE_UNAVAILABLE,
            f"the entries could not be committed, {outcome}: {why}",
            next_step=f"{known_error.next_step} {after}" if known_error and known_error.next_step else after,
        )
    failure.__cause__ = problem
    return failure
