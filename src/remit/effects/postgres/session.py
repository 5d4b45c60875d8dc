"""A prepared session: settings that return exact text, a role that reaches no files, and one transaction."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, RefusedError
from remit.effects.context import EffectContext, read_given
from remit.effects.postgres.errors import not_connected_error
from remit.effects.postgres.libpq import NotConnectedError, PostgresWire, quoted_text

SERVER: Final = "server"
MAX_CONNINFO: Final = 64 << 10
OUR_PATH: Final = "pg_catalog, pg_temp"
LOCK_SECONDS: Final = 5.0
"""The maximum of seconds to wait for locks of other sessions, unless the connection sets less."""
_IDLE_SECONDS: Final = 3_600
"""How long the server keeps an idle transaction open, while Remit runs the other parts of a plan."""

AT_ONCE: Final = "1ms"

EXACT: Final = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "xmlbinary": "base64",
}
"""Settings with which a value and its text convert into each other without loss."""
_SETTINGS: Final = {
    **EXACT,
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "client_min_messages": "error",
    "idle_in_transaction_session_timeout": f"{_IDLE_SECONDS}s",
    "application_name": "remit",
    # Remit does not wait while it holds a lock (see `table_locks`). This is the shortest time; 0 would mean no limit.
    "lock_timeout": AT_ONCE,
    # The server notices a machine that fails without closing the connection, and rolls back its transaction.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
_DANGEROUS: Final = ("pg_read_server_files", "pg_write_server_files", "pg_execute_server_program")
_ROLE: Final = f"""
SELECT s.rolname, s.rolsuper OR c.rolsuper,
  (SELECT string_agg(r.rolname, ', ' ORDER BY r.rolname) FROM pg_roles r
   WHERE r.rolname IN ({", ".join(map(quoted_text, _DANGEROUS))})
   AND (pg_has_role(session_user, r.oid, 'MEMBER') OR pg_has_role(current_user, r.oid, 'MEMBER')))
FROM pg_roles s, pg_roles c WHERE s.rolname = session_user AND c.rolname = current_user
"""
_IDENTITY: Final = (
    "SELECT d.oid, pg_backend_pid(), current_user FROM pg_database d WHERE d.datname = current_database()"
)
_SYSTEM: Final = "SELECT system_identifier FROM pg_control_system()"
_MAY_ASK: Final = "SELECT has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')"


class SessionIdentity(NamedTuple):
    """The database, the server process and the role of a session."""

    database: str
    """The identifier of the server's files, and the number of the database."""
    backend: int
    role: str


class LockWait:
    """The time that this process may wait for locks of other sessions, in all its transactions and attempts together.

    Only the waiting is counted, not the time in which statements run.
    """

    def __init__(self, seconds: float, left: float) -> None:
        """`seconds`: the setting of the connection. `left`: the rest after earlier processes of the same request."""
        self.seconds = seconds
        self.waited = 0.0
        self._most = left

    @property
    def left(self) -> float:
        return max(self._most - self.waited, 0.0)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the time of the block as waiting."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.waited += time.monotonic() - began


def lock_timeout(seconds: float) -> str:
    """Return the setting. It is never 0, which would mean no limit."""
    return f"{max(int(seconds * 1_000), 1)}ms"


class PostgresSession:
    """A connection and its transaction."""

    def __init__(
        self,
        wire: PostgresWire,
        identity: SessionIdentity,
        path: str,
        settings: Mapping[str, str],
        lock_wait: LockWait,
        seconds: float,
    ) -> None:
        self.wire = wire
        self.identity = identity
        self.lock_wait = lock_wait
        self.hold_seconds: float | None = None
        """The maximum of seconds that a transaction may block other sessions. None: only statements have a limit."""
        self._seconds = seconds
        self._path = path
        all_settings = {"search_path": OUR_PATH, **settings}
        sets = (
            f"pg_catalog.set_config({quoted_text(name)}, {quoted_text(all_settings[name])}, false)"
            for name in all_settings
        )
        self._set_ours = f"SELECT {', '.join(sets)}"

    def begin(self, *, reads_only: bool) -> None:
        """Begin a transaction. All statements see the state of the first one that reads a row, which LOCK does not."""
        self.wire.do(f"BEGIN ISOLATION LEVEL REPEATABLE READ, {'READ ONLY' if reads_only else 'READ WRITE'}")

    def use_statement_settings(self) -> None:
        """Use the role's own search path and the remaining time, for statements of a plan."""
        self.wire.do(
            "SELECT pg_catalog.set_config('search_path', $1, false), "
            "pg_catalog.set_config('statement_timeout', $2, false)",
            self._path,
            self._statement_timeout(),
        )

    def apply_settings(self) -> None:
        """Apply the settings that Remit relies on again, because a function can change them until the transaction ends.

        Names are then looked up only in the catalog, so functions and operators of users are not used.
        """
        timeout = quoted_text(self._statement_timeout())
        self.wire.do(f"{self._set_ours}, pg_catalog.set_config('statement_timeout', {timeout}, false)")

    def start_hold_limit(self) -> None:
        """Start the limit of `hold_seconds`, because other sessions may wait for this one from now on."""
        self.wire.until = None if self.hold_seconds is None else time.monotonic() + self.hold_seconds

    @property
    def is_past_hold_limit(self) -> bool:
        """Whether other sessions may have waited for the maximum time."""
        return self.wire.until is not None and time.monotonic() >= self.wire.until

    def _statement_timeout(self) -> str:
        seconds = self._seconds
        if self.wire.until is not None:
            seconds = min(seconds, max(self.wire.until - time.monotonic(), 0.0))
        return f"{int(seconds * 1_000) + 1}ms"

    def xid(self) -> str:
        """Return the id of the transaction. It gets one now if it had none."""
        return self.wire.one("SELECT pg_current_xact_id()")[0] or ""


def connect(work: EffectContext) -> PostgresWire:
    """Connect, before the sandbox is closed. Only this process gets the descriptor with the connection string."""
    options: dict[str, Any] = json.loads(read_given(work, SERVER, MAX_CONNINFO))
    try:
        return PostgresWire({name: str(value) for name, value in options.items()})
    except NotConnectedError as problem:
        raise not_connected_error(problem) from None


def open_session(
    wire: PostgresWire, *, reads_only: bool, seconds: float, lock_wait: LockWait | None = None
) -> PostgresSession:
    """Apply the settings and begin a transaction.

    All statements see one state of the database, so that they can run twice and be compared.

    Raises:
        RefusedError: The role could reach files of the server, or the database has no encoding.
    """
    lock_wait = lock_wait or LockWait(LOCK_SECONDS, LOCK_SECONDS)
    (path,) = wire.one("SELECT pg_catalog.current_setting('search_path')")
    wire.do("SELECT pg_catalog.set_config('search_path', $1, false)", OUR_PATH)
    settings = {**_SETTINGS}
    if wire.version >= 140_000:
        settings["client_connection_check_interval"] = "1s"
    (level,) = wire.one("SELECT current_setting('synchronous_commit')")
    settings["synchronous_commit"] = "on" if level in (None, "off") else level
    for name, value in {**settings, "statement_timeout": f"{max(int(seconds * 1_000), 1)}ms"}.items():
        wire.do("SELECT set_config($1, $2, false)", name, value)
    _require_harmless_role(wire)
    _require_text(wire)
    session = PostgresSession(wire, identify(wire), path or "", settings, lock_wait, seconds)
    session.begin(reads_only=reads_only)
    return session


def identify(wire: PostgresWire) -> SessionIdentity:
    oid, backend, role = wire.one(_IDENTITY)
    system = wire.one(_SYSTEM)[0] if wire.one(_MAY_ASK) == ("t",) else ""
    return SessionIdentity(f"{system or 0}/{oid}", int(backend or 0), role or "")


def _require_text(wire: PostgresWire) -> None:
    """Refuse a database without an encoding, because the meaning of its bytes is unknown."""
    if wire.one("SELECT current_setting('server_encoding')") == ("SQL_ASCII",):
        raise RefusedError(
            Reason.CAPABILITY_UNSUPPORTED,
            "this database has no encoding (SQL_ASCII), so its text cannot be read reliably",
            where="the server",
            next_step="Use a database with an encoding, such as UTF8.",
        )


def _require_harmless_role(wire: PostgresWire) -> None:
    """Refuse a role that can reach files and programs of the server, because the sandbox does not limit the server."""
    role, is_super, others = wire.one(_ROLE)
    if is_super == "t" or others:
        what = "is a superuser" if is_super == "t" else f"is a member of {others}"
        raise RefusedError(
            Reason.SQL_REFUSED,
            f"the role {role} {what}, so it could reach files and programs of the server",
            where="the server",
            next_step="Create a role for Remit that owns only the tables that it may change.",
        )
