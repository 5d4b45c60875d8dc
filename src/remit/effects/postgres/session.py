"""A connection made ready: settings that give exact text, a role that reaches no files, one transaction."""

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
"""How long another session's lock is waited for, unless the connection says less."""
_IDLE_SECONDS: Final = 3_600
"""So long the server waits for us between two statements, while the other parts of a plan are carried out."""

AT_ONCE: Final = "1ms"

EXACT: Final = {
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "xmlbinary": "base64",
}
"""So that a value and its text are the same, back and forth."""
_SETTINGS: Final = {
    **EXACT,
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "client_min_messages": "error",
    "idle_in_transaction_session_timeout": f"{_IDLE_SECONDS}s",
    "application_name": "remit",
    # Nothing is waited for while a lock is held. It is the least that there is; 0 would be no limit. See `locks`.
    "lock_timeout": AT_ONCE,
    # A machine that is gone without a word is noticed, and what it had begun is rolled back.
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
    """Which database it is, and whose session."""

    database: str
    """The identifier of the server's files, and the number of the database in them."""
    backend: int
    role: str


class LockWait:
    """How long this process waits for locks of other sessions: one time for all of its transactions and attempts.

    Only waiting is counted, not the time that statements run.
    """

    def __init__(self, seconds: float, left: float) -> None:
        """`seconds`: as the connection has it. `left`: what earlier processes of the same request have left of it."""
        self.seconds = seconds
        self.waited = 0.0
        self._most = left

    @property
    def left(self) -> float:
        return max(self._most - self.waited, 0.0)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Around what does little else than wait."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.waited += time.monotonic() - began


def lock_timeout(seconds: float) -> str:
    """Never 0, which would be no limit."""
    return f"{max(int(seconds * 1_000), 1)}ms"


class PostgresSession:
    """One connection and its one transaction."""

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
        """How long a transaction may keep others from a table. None: as long as its statements may take."""
        self._seconds = seconds
        self._path = path
        all_settings = {"search_path": OUR_PATH, **settings}
        sets = (
            f"pg_catalog.set_config({quoted_text(name)}, {quoted_text(all_settings[name])}, false)"
            for name in all_settings
        )
        self._set_ours = f"SELECT {', '.join(sets)}"

    def begin(self, *, reads_only: bool) -> None:
        """All statements see one state of the database: that of the first one that looks at a row, so not of LOCK."""
        self.wire.do(f"BEGIN ISOLATION LEVEL REPEATABLE READ, {'READ ONLY' if reads_only else 'READ WRITE'}")

    def use_statement_settings(self) -> None:
        """Names are looked up as the role has it, and no more time is taken than is left: for statements of a plan."""
        self.wire.do(
            "SELECT pg_catalog.set_config('search_path', $1, false), "
            "pg_catalog.set_config('statement_timeout', $2, false)",
            self._path,
            self._statement_timeout(),
        )

    def apply_settings(self) -> None:
        """Names are looked up in the catalog only, whatever functions and operators others have made; and all that we
        rely on is set again, because a function can set anything for the rest of the transaction.
        """
        timeout = quoted_text(self._statement_timeout())
        self.wire.do(f"{self._set_ours}, pg_catalog.set_config('statement_timeout', {timeout}, false)")

    def start_hold_limit(self) -> None:
        """From now on others wait for us."""
        self.wire.until = None if self.hold_seconds is None else time.monotonic() + self.hold_seconds

    @property
    def is_past_hold_limit(self) -> bool:
        """Whether others have waited for as long as they are to."""
        return self.wire.until is not None and time.monotonic() >= self.wire.until

    def _statement_timeout(self) -> str:
        seconds = self._seconds
        if self.wire.until is not None:
            seconds = min(seconds, max(self.wire.until - time.monotonic(), 0.0))
        return f"{int(seconds * 1_000) + 1}ms"

    def xid(self) -> str:
        """The transaction's, which it gets by this if it had none."""
        return self.wire.one("SELECT pg_current_xact_id()")[0] or ""


def connect(work: EffectContext) -> PostgresWire:
    """Before the walls close. The conninfo is the host's, and comes in a descriptor that nobody else has."""
    options: dict[str, Any] = json.loads(read_given(work, SERVER, MAX_CONNINFO))
    try:
        return PostgresWire({name: str(value) for name, value in options.items()})
    except NotConnectedError as problem:
        raise not_connected_error(problem) from None


def open_session(
    wire: PostgresWire, *, reads_only: bool, seconds: float, lock_wait: LockWait | None = None
) -> PostgresSession:
    """Settings, and BEGIN. All statements see one state of the database, so that they can be run twice and compared."""
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
    """Without an encoding, what is in the tables is bytes that only their owner can read."""
    if wire.one("SELECT current_setting('server_encoding')") == ("SQL_ASCII",):
        raise RefusedError(
            Reason.CAPABILITY_UNSUPPORTED,
            "this database has no encoding (SQL_ASCII), so its text cannot be read for certain",
            where="the server",
            next_step="Use a database with an encoding, such as UTF8.",
        )


def _require_harmless_role(wire: PostgresWire) -> None:
    """A statement of such a role could reach files and programs of the server, past every wall that is here."""
    role, is_super, others = wire.one(_ROLE)
    if is_super == "t" or others:
        what = "is a superuser" if is_super == "t" else f"is a member of {others}"
        raise RefusedError(
            Reason.SQL_REFUSED,
            f"the role {role} {what}, and could reach files and programs of the server",
            where="the server",
            next_step="Make a role for Remit that owns the tables it is to change, and nothing more.",
        )
