"""The connection to a server through libpq. Values are PostgreSQL's own text, and rows are read one at a time.

The process that forks sandboxed processes loads this module, before any restriction applies. `errors.py` translates the
messages of the server.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PGconn, TransactionStatus
from psycopg.pq.abc import PGconn as Connection
from psycopg.pq.abc import PGresult

Values = Sequence[bytes | None]
Row = tuple[bytes | None, ...]

_GOOD: Final = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.SINGLE_TUPLE, ExecStatus.EMPTY_QUERY})
_FIELDS: Final = {
    "state": DiagnosticField.SQLSTATE,
    "message": DiagnosticField.MESSAGE_PRIMARY,
    "schema": DiagnosticField.SCHEMA_NAME,
    "table": DiagnosticField.TABLE_NAME,
    "column": DiagnosticField.COLUMN_NAME,
    "constraint": DiagnosticField.CONSTRAINT_NAME,
}


_GOING_BACK: Final = ("ROLLBACK", "RELEASE")
_TOO_LARGE: Final = (b"cannot allocate memory", b"out of memory")
"""The messages of libpq for a row that is larger than the memory of this process. The connection is then unusable."""


class ServerError(Exception):
    """The server reported an error, or the connection was lost.

    The server's message may contain values of rows, so it is not part of the text of this exception.
    """

    def __init__(self, fields: Mapping[str, str], *, of_the_text: bool = False) -> None:
        super().__init__(fields.get("state", ""))
        self.fields = fields
        self.of_the_text = of_the_text
        """Whether the error is about a text that has not run yet."""

    @property
    def state(self) -> str:
        return self.fields.get("state", "")


class NotConnectedError(Exception):
    """The connection failed. The text is that of libpq, which contains no password."""


class ResultColumn(NamedTuple):
    """One column of a result."""

    name: str
    type_oid: int
    modifier: int


class StatementResult(NamedTuple):
    """The result of a statement, after all its rows were read."""

    columns: tuple[ResultColumn, ...]
    rows: int
    tag: str
    """The command tag of the server, such as `UPDATE 3`."""


class PostgresWire:
    """One connection. Only one thread may use it."""

    until: float | None = None
    """The time of the monotonic clock after which only a rollback is sent."""

    def __init__(self, options: Mapping[str, str]) -> None:
        conninfo = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
        self._connection = PGconn.connect(conninfo.encode())
        if self._connection.status != ConnStatus.OK:
            message = self._connection.get_error_message()
            self._connection.finish()
            raise NotConnectedError(message)

    @property
    def version(self) -> int:
        return self._connection.server_version

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, and no statement in it has failed."""
        return self._connection.transaction_status == TransactionStatus.INTRANS

    def do(self, text: str, *values: str | int | None) -> list[tuple[str | None, ...]]:
        """Run a statement of Remit itself, and return all its rows."""
        return self.do_with(text, [_bytes(value) for value in values])

    def do_with(self, text: str, values: Values) -> list[tuple[str | None, ...]]:
        self._require_time(text)
        result = self._connection.exec_params(text.encode(), list(values))
        _require_good(result, self._connection)
        return [
            tuple(_text(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]

    def one(self, text: str, *values: str | int | None) -> tuple[str | None, ...]:
        (row,) = self.do(text, *values)
        return row

    def prepare(self, text: str) -> None:
        """Let the server parse one statement and look up its names. Nothing runs."""
        self._require_time()
        result = self._connection.prepare(b"", text.encode())
        _require_good(result, self._connection, of_the_text=True)

    def prepared_types(self, text: str) -> tuple[int, ...]:
        """Prepare a statement, and return the types that the server has found for its parameters."""
        self.prepare(text)
        result = self._connection.describe_prepared(b"")
        _require_good(result, self._connection)
        return tuple(result.param_type(place) for place in range(result.nparams))

    def run_prepared(self, values: Values, on_row: Callable[[tuple[ResultColumn, ...], Row], None]) -> StatementResult:
        """Run the prepared statement. Each row is passed on as it arrives, so memory does not grow with the rows."""
        self._require_time()
        self._connection.send_query_prepared(b"", list(values))
        self._connection.set_single_row_mode()
        columns: tuple[ResultColumn, ...] = ()
        count, tag = 0, ""
        while (result := self._connection.get_result()) is not None:
            try:
                _require_good(result, self._connection)
            except ServerError:
                self._drain()
                raise
            columns = columns or _columns(result)
            for row in range(result.ntuples):
                on_row(columns, tuple(result.get_value(row, column) for column in range(result.nfields)))
                count += 1
            tag = (result.command_status or b"").decode("ascii", "replace") or tag
            result.clear()
        return StatementResult(columns, count, tag)

    def stream(self, text: str, *values: str | int | None) -> Iterator[Row]:
        """Yield the rows of a query of Remit itself, as they arrive. Read all of them before the next call."""
        self._require_time()
        self._connection.send_query_params(text.encode(), [_bytes(value) for value in values])
        self._connection.set_single_row_mode()
        while (result := self._connection.get_result()) is not None:
            try:
                _require_good(result, self._connection)
            except ServerError:
                self._drain()
                raise
            for row in range(result.ntuples):
                yield tuple(result.get_value(row, column) for column in range(result.nfields))
            result.clear()

    def close(self) -> None:
        self._connection.finish()

    def _require_time(self, text: str = "") -> None:
        if self.until is not None and time.monotonic() >= self.until and not text.startswith(_GOING_BACK):
            raise ServerError({"state": "57014", "message": ""})

    def _drain(self) -> None:
        while self._connection.get_result() is not None:
            pass


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Quote a text for statements without parameters. This requires `standard_conforming_strings` to be on."""
    return "'" + text.replace("'", "''") + "'"


def _require_good(result: PGresult, connection: Connection, *, of_the_text: bool = False) -> None:
    if result.status in _GOOD:
        return
    fields = {name: _text(result.error_field(field)) or "" for name, field in _FIELDS.items()}
    if not fields["state"] and any(text in (result.error_message or b"") for text in _TOO_LARGE):
        raise MemoryError("reported by libpq, not by the server")
    if connection.status != ConnStatus.OK:
        fields["state"] = "08006"  # the connection is lost, whatever the error says
    raise ServerError(fields, of_the_text=of_the_text)


def _columns(result: PGresult) -> tuple[ResultColumn, ...]:
    return tuple(
        ResultColumn(_text(result.fname(place)) or "", result.ftype(place), result.fmod(place))
        for place in range(result.nfields)
    )


def _bytes(value: str | int | None) -> bytes | None:
    return None if value is None else str(value).encode()


def _text(value: Any) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "replace")


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
