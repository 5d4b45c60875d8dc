"""Group commit: many callers, one transaction, one fsync.

Each caller hands in a unit of work. Whoever finds nobody at work becomes the leader: it takes every waiting unit, runs
them in order in one transaction, each behind a savepoint of its own, commits, and wakes their callers. Units that
arrive meanwhile wait for the next leader. A unit that fails is undone alone and its error goes to its own caller; nobody is
told of success before the commit is durable. There is no background thread and no waiting for company: a lone caller
commits at once.
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, cast

from remit.errors import EnvironmentFailed, Misuse, Reason
from remit.faultpoints import reach
from remit.store.connection import Connection, Store

T = TypeVar("T")
MAX_GROUP = 512


class Session(Protocol):
    """What one transaction remembers beside the database, so that it can be undone with a savepoint."""

    def mark(self) -> Any: ...

    def reset(self, mark: Any) -> None: ...

    def seal(self) -> None:
        """Last writes of the transaction, just before the commit."""

    def committed(self) -> None:
        """The transaction is durable."""


S = TypeVar("S", bound=Session)


class _Unit(Generic[S]):
    __slots__ = ("error", "leads", "result", "wake", "work")

    def __init__(self, work: Callable[[S], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = False
        self.wake = threading.Event()


class GroupCommit(Generic[S]):
    """The one writer of a store within this process. Safe to call from any thread; not across a fork."""

    def __init__(self, store: Store, open_session: Callable[[Connection], S]) -> None:
        self._store = store
        self._open_session = open_session
        self._connection: Connection | None = None
        self._mutex = threading.Lock()
        self._waiting: list[_Unit[S]] = []
        self._busy = False
        self._process = os.getpid()
        self.groups = 0
        """How many transactions were committed: the benchmark divides entries by it."""

    def run(self, work: Callable[[S], T]) -> T:
        """Run `work` in a durable transaction and return its result, or raise its error with nothing written."""
        if os.getpid() != self._process:
            raise Misuse(Reason.MISUSE, "a store opened before a fork cannot be used after it; open it again")
        unit: _Unit[S] = _Unit(work)
        with self._mutex:
            self._waiting.append(unit)
            leads = not self._busy
            self._busy = True
        if not leads:
            unit.wake.wait()
            leads = unit.leads
        if leads:
            self._lead()
        if unit.error is not None:
            raise unit.error
        return cast(T, unit.result)

    def close(self) -> None:
        with self._mutex:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _lead(self) -> None:
        with self._mutex:
            group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
        try:
            self._commit(group)
        finally:
            with self._mutex:
                successor = self._waiting[0] if self._waiting else None
                self._busy = successor is not None
            if successor is not None:
                successor.leads = True
                successor.wake.set()
            for unit in group:
                unit.wake.set()

    def _commit(self, group: list[_Unit[S]]) -> None:
        try:
            connection = self._connection or self._store.connect()
            self._connection = connection
            connection.begin(write=True)
            reach("append.begun")
            session = self._open_session(connection)
            for unit in group:
                _run_unit(connection, session, unit, alone=len(group) == 1)
            if len(group) == 1 and group[0].error is not None:
                connection.rollback()
                return
            session.seal()
            reach("append.before_commit")
            connection.commit()
            reach("append.committed")
        except BaseException as problem:
            self._abandon()
            failure = _unacknowledged(problem)
            for unit in group:
                unit.error = failure
            if not isinstance(problem, Exception):
                raise
            return
        self.groups += 1
        session.committed()

    def _abandon(self) -> None:
        """After a failed transaction the connection's state is unknown: drop it, the database rolls back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception:  # noqa: BLE001, S110 - the first failure is the one worth reporting
                pass


def _run_unit(connection: Connection, session: S, unit: _Unit[S], *, alone: bool) -> None:
    mark = session.mark()
    if not alone:
        connection.execute("SAVEPOINT unit")
    try:
        unit.result = unit.work(session)
    except EnvironmentFailed:
        raise  # the database itself failed: nothing in this transaction can be trusted
    except Exception as problem:  # noqa: BLE001 - delivered to the unit's own caller
        unit.error = problem
        session.reset(mark)
        if not alone:
            connection.execute("ROLLBACK TO unit")
    if not alone:
        connection.execute("RELEASE unit")


def _unacknowledged(problem: BaseException) -> BaseException:
    if isinstance(problem, EnvironmentFailed):
        return problem
    failure = EnvironmentFailed(
        Reason.STORE_UNAVAILABLE,
        f"the transaction could not be committed: {problem}",
        next_step="Nothing of it was acknowledged. Run `remit doctor`, then try again.",
    )
    failure.__cause__ = problem
    return failure
