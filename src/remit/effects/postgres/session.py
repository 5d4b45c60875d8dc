"""A connection made ready: settings that give exact text, a role that reaches no files, one transaction."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from remit.effects.postgres.failures import not_connected
from remit.effects.postgres.wire import NotConnected, Wire, quoted_text
from remit.effects.work import Work, read_given
from remit.errors import Reason, Refused

SERVER: Final = "server"
MAX_CONNINFO: Final = 64 << 10
OUR_PATH: Final = "pg_catalog, pg_temp"
LOCK_SECONDS: Final = 5
_IDLE_SECONDS: Final = 3_600
"""So long the server waits for us between two statements, while the other parts of a plan are carried out."""

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
    "lock_timeout": f"{LOCK_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{_IDLE_SECONDS}s",
    "application_name": "remit",
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


class Identity(NamedTuple):
    """Which database it is, and whose session."""

    database: str
    """The identifier of the server's files, and the number of the database in them."""
    backend: int
    role: str


class Session:
    """One connection and its one transaction."""

    def __init__(self, wire: Wire, identity: Identity, path: str, settings: Mapping[str, str]) -> None:
        self.wire = wire
        self.identity = identity
        self._path = path
        ours = {"search_path": OUR_PATH, **settings}
        sets = (f"pg_catalog.set_config({quoted_text(name)}, {quoted_text(ours[name])}, false)" for name in ours)
        self._set_ours = f"SELECT {', '.join(sets)}"

    def theirs(self) -> None:
        """Names are looked up as the role has it: for statements of a plan."""
        self.wire.do("SELECT pg_catalog.set_config('search_path', $1, false)", self._path)

    def ours(self) -> None:
        """Names are looked up in the catalog only, whatever functions and operators others have made; and all that we
        rely on is set again, because a function can set anything for the rest of the transaction.
        """
        self.wire.do(self._set_ours)

    def xid(self) -> str:
        """The transaction's, which it gets by this if it had none."""
        return self.wire.one("SELECT pg_current_xact_id()")[0] or ""


def connect(work: Work) -> Wire:
    """Before the walls close. The conninfo is the host's, and comes in a descriptor that nobody else has."""
    options: dict[str, Any] = json.loads(read_given(work, SERVER, MAX_CONNINFO))
    try:
        return Wire({name: str(value) for name, value in options.items()})
    except NotConnected as problem:
        raise not_connected(problem) from None


def open_session(wire: Wire, *, reads_only: bool, seconds: float) -> Session:
    """Settings, and BEGIN. All statements see one state of the database, so that they can be run twice and compared."""
    (path,) = wire.one("SELECT pg_catalog.current_setting('search_path')")
    wire.do("SELECT pg_catalog.set_config('search_path', $1, false)", OUR_PATH)
    settings = {**_SETTINGS, "statement_timeout": f"{max(int(seconds * 1_000), 1)}ms"}
    if wire.version >= 140_000:
        settings["client_connection_check_interval"] = "1s"
    (level,) = wire.one("SELECT current_setting('synchronous_commit')")
    settings["synchronous_commit"] = "on" if level in (None, "off") else level
    for name, value in settings.items():
        wire.do("SELECT set_config($1, $2, false)", name, value)
    _require_harmless_role(wire)
    _require_text(wire)
    mode = "READ ONLY" if reads_only else "READ WRITE"
    wire.do(f"BEGIN ISOLATION LEVEL REPEATABLE READ, {mode}")
    return Session(wire, identify(wire), path or "", settings)


def identify(wire: Wire) -> Identity:
    oid, backend, role = wire.one(_IDENTITY)
    system = wire.one(_SYSTEM)[0] if wire.one(_MAY_ASK) == ("t",) else ""
    return Identity(f"{system or 0}/{oid}", int(backend or 0), role or "")


def _require_text(wire: Wire) -> None:
    """Without an encoding, what is in the tables is bytes that only their owner can read."""
    if wire.one("SELECT current_setting('server_encoding')") == ("SQL_ASCII",):
        raise Refused(
            Reason.CAPABILITY_UNSUPPORTED,
            "this database has no encoding (SQL_ASCII), so its text cannot be read for certain",
            where="the server",
            next_step="Use a database with an encoding, such as UTF8.",
        )


def _require_harmless_role(wire: Wire) -> None:
    """A statement of such a role could reach files and programs of the server, past every wall that is here."""
    role, is_super, others = wire.one(_ROLE)
    if is_super == "t" or others:
        what = "is a superuser" if is_super == "t" else f"is a member of {others}"
        raise Refused(
            Reason.SQL_REFUSED,
            f"the role {role} {what}, and could reach files and programs of the server",
            where="the server",
            next_step="Make a role for Remit that owns the tables it is to change, and nothing more.",
        )
