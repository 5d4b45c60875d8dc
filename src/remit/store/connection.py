"""The database interface of the other packages: the same few methods on SQLite and PostgreSQL."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

from remit.core.errors import EnvironmentFailureError

Row = tuple[Any, ...]
Dialect = Literal["sqlite", "postgresql"]


class ConflictError(Exception):
    """A unique index refused a row, because another process wrote it first. The caller handles it; no user sees it."""


class GuardedTableError(Exception):
    """A trigger or a grant refused to change an append-only table."""


class DatabaseFailureError(EnvironmentFailureError):
    """A failure of the database itself. Every part of this transaction is uncertain, not only the failed statement."""


class UnreadableTextError(DatabaseFailureError):
    """A row holds text that is not UTF-8. Only another program can have written it."""


class DatabaseBusyError(DatabaseFailureError):
    """Another process has been writing for longer than the permitted wait. It is worth trying again."""


class Connection(ABC):
    """One database session, used by one thread at a time. It alone translates the exceptions of the database driver."""

    dialect: Dialect

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run one statement. Return the number of rows that it changed."""

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """Return a result of modest size."""

    @abstractmethod
    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """Return a result of any size, in bounded memory. Only within a transaction."""

    @abstractmethod
    def script(self, sql: str) -> None:
        """Run one migration statement. It may contain semicolons and any other character."""

    @abstractmethod
    def begin(self, *, write: bool) -> None:
        """Start a transaction. A writing one first waits until it is the store's only writer, on every host.

        There is one lock for the store, instead of one for each chain, claim and key. A group writes to many of them,
        in the order in which its callers came. With many locks, two groups would end in a deadlock.
        """

    @abstractmethod
    def lock_schema(self) -> None:
        """Keep other processes from migrating until this transaction ends. Create the schema if there is none yet."""

    @abstractmethod
    def has_table(self, name: str) -> bool: ...

    @abstractmethod
    def tolerate_bad_text(self) -> None:
        """From now on also return text that is not UTF-8, with lone surrogates.

        An auditor must be able to name its row.
        """

    @abstractmethod
    def damage(self) -> Iterator[str]:
        """Report the findings of the database's own check of its files, if it has such a check."""

    @abstractmethod
    def close(self) -> None: ...

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        return next(self.rows(sql, parameters), None)

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")


class Store(ABC):
    """A database that sessions connect to."""

    dialect: Dialect

    @abstractmethod
    def connect(self) -> Connection:
        """Open a new session. Raises an error with the next step if the database cannot be reached."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """Open a session in a read-only transaction. It shows one consistent state until it closes."""

    @abstractmethod
    def reading_pooled(self) -> AbstractContextManager[Connection]:
        """Do the same in a session that may be reused. For a first look that a later transaction confirms."""

    @abstractmethod
    def close(self) -> None:
        """Close the sessions that are kept for reuse."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the database for people. The text never contains a password."""
