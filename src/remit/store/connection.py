"""What a room may ask of a database: the same few verbs on SQLite and PostgreSQL."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

from remit.core.errors import EnvironmentFailureError

Row = tuple[Any, ...]
Dialect = Literal["sqlite", "postgresql"]


class ConflictError(Exception):
    """A unique index said no: somebody else wrote this row first. For the caller to handle, never shown to a user."""


class GuardedTableError(Exception):
    """A trigger or grant refused to change an append-only table."""


class DatabaseFailureError(EnvironmentFailureError):
    """The database itself could not go on: nothing in this transaction can be trusted, whoever's part it was."""


class UnreadableTextError(DatabaseFailureError):
    """A row holds text that is not UTF-8. Only somebody else can have put it there."""


class DatabaseBusyError(DatabaseFailureError):
    """Somebody else has been writing for longer than we were told to wait. Worth another try."""


class Connection(ABC):
    """One database session, used by one thread at a time. Foreign exceptions are translated here and only here."""

    dialect: Dialect

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Run one statement; the number of rows it changed."""

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """A result of modest size."""

    @abstractmethod
    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """A result of any size, in bounded memory. Only within a transaction."""

    @abstractmethod
    def script(self, sql: str) -> None:
        """Run one migration statement, which may hold semicolons and any character."""

    @abstractmethod
    def begin(self, *, write: bool) -> None:
        """Start a transaction. A writing one first waits until it is the store's only writer, on every host.

        One lock instead of one a chain, a claim and a key: a group writes to many of each, in the order its callers
        came, and two groups would meet in a deadlock.
        """

    @abstractmethod
    def lock_schema(self) -> None:
        """Until this transaction ends, nobody else migrates. Makes room for the tables if there is none yet."""

    @abstractmethod
    def has_table(self, name: str) -> bool: ...

    @abstractmethod
    def tolerate_bad_text(self) -> None:
        """From now on give back text that is not UTF-8 too, with lone surrogates: an auditor has to name its row."""

    @abstractmethod
    def damage(self) -> Iterator[str]:
        """What the database's own check of its files finds, as far as it has one."""

    @abstractmethod
    def close(self) -> None: ...

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        return next(self.rows(sql, parameters), None)

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")


class Store(ABC):
    """A place to connect to."""

    dialect: Dialect

    @abstractmethod
    def connect(self) -> Connection:
        """A new session. Fails with what to do when the database cannot be reached."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """A session in a read-only transaction: one consistent view until it closes."""

    @abstractmethod
    def reading_pooled(self) -> AbstractContextManager[Connection]:
        """The same, in a session that may be kept from earlier: for a look that a later transaction confirms."""

    @abstractmethod
    def close(self) -> None:
        """Let go of sessions kept for reuse."""

    @abstractmethod
    def describe(self) -> str:
        """For people: which database this is. Never holds a password."""
