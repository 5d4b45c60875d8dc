"""Servers of connections: reads the URL from the place that the configuration names, parses it, and never shows it.

Only options that are known to be harmless are allowed. An option that names a program, a service file or a second
server
is refused.
"""

import json
import os
import socket
import stat
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from remit.contracts.config.config import PostgresqlConnection
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError

MAX_URL: Final = 16 << 10
_SCHEMES: Final = frozenset({"postgresql", "postgres"})
_OPTIONS: Final = frozenset(
    {"sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "channel_binding", "host", "port"}
)
_MODES: Final = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})
_PORT: Final = 5432
_CONNECT_SECONDS: Final = 10
_MOST_ADDRESSES: Final = 8
_FIXED: Final = {"gssencmode": "disable", "passfile": "/dev/null", "client_encoding": "UTF8"}
_FORM: Final = "postgresql://user:<PASSWORD>@host:5432/database"
"""Brackets, because errors mask the password of a URL, and would mask the word too."""


class LockBudget:
    """How long one request (a preview or an apply, with all attempts) has waited for locks of other sessions."""

    def __init__(self) -> None:
        self._waited = 0.0

    def left(self, most: float) -> float:
        return max(most - self._waited, 0.0)

    def spend(self, seconds: float) -> None:
        self._waited += max(seconds, 0.0)


class PostgresServer(NamedTuple):
    """One server: its name for people, and how to connect to it."""

    name: str
    where: str
    conninfo: bytes
    """Secret. Only written to a sealed descriptor."""
    functions: tuple[str, ...] = ()
    """Functions of the database that a person has allowed for this connection."""
    lock_seconds: float = 5.0
    statement_seconds: float | None = None
    preview_seconds: float = 10.0
    locks: LockBudget | None = None
    """The time that the request has already waited. None: each process may wait for `lock_seconds`."""

    @property
    def lock_seconds_left(self) -> float:
        """How much longer the request may wait for locks of other sessions."""
        return self.lock_seconds if self.locks is None else self.locks.left(self.lock_seconds)

    def __repr__(self) -> str:
        return f"Server({self.where})"


def find_server(name: str, connection: PostgresqlConnection, environ: Mapping[str, str]) -> PostgresServer:
    """Find the server. Refuses a missing or invalid URL. Messages show only its host, port and names."""
    source, url = _url(connection, environ)
    options = _parse(url.strip(), source)
    host = options["host"]
    place = host if host.startswith("/") else f"{host}:{options['port']}"
    where = f"{name} at {place}/{options['dbname']} as {options['user']}"
    return PostgresServer(
        name,
        where,
        json.dumps({**options, **_FIXED}).encode(),
        connection.functions,
        float(connection.lock_timeout_seconds),
        connection.statement_timeout_seconds,
        float(connection.preview_timeout_seconds),
    )


def with_addresses(server: PostgresServer) -> bytes:
    """Return the conninfo with the addresses of the host, because the sandboxed process cannot resolve names."""
    options: dict[str, Any] = json.loads(server.conninfo)
    host = str(options["host"])
    if host.startswith("/"):
        return server.conninfo
    try:
        found = socket.getaddrinfo(host, int(options["port"]), type=socket.SOCK_STREAM)
    except OSError as problem:
        raise EnvironmentFailureError(
            Reason.DATABASE_UNREACHABLE,
            "the database server cannot be reached: the name of its host is not known",
            where=server.where,
            next_step="Check the URL of the connection, and whether this machine can resolve names.",
        ) from problem
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))[:_MOST_ADDRESSES]
    hosts = ",".join([host] * len(addresses))
    return json.dumps({**options, "host": hosts, "hostaddr": ",".join(addresses)}).encode()


def _url(connection: PostgresqlConnection, environ: Mapping[str, str]) -> tuple[str, str]:
    if connection.url_variable is not None:
        source = f"the environment variable {connection.url_variable}"
        if not (url := environ.get(connection.url_variable)):
            raise RefusedError(
                Reason.CONFIG_INVALID,
                f"{source}, which must hold the URL of the connection, is not set",
                where=source,
                next_step=f"Set it to {_FORM} in the environment of each process that previews or applies plans, such"
                " as `remit serve`.",
            )
        return source, url
    path = str(connection.url_file)
    try:
        return path, _read_private(path)
    except (OSError, UnicodeDecodeError) as problem:
        raise RefusedError(
            Reason.CONFIG_INVALID,
            "the file with the URL of the connection cannot be read",
            where=path,
            next_step=f"Create it with one line, {_FORM}, and let only your user read it.",
        ) from problem


def _read_private(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in {os.geteuid(), 0} or found.st_mode & 0o077:
            raise RefusedError(
                Reason.STATE_UNSAFE,
                "the file with the URL of the connection can be read or changed by other users",
                where=path,
                next_step=f"Restrict it to your user: chown and `chmod 600 {path}`.",
            )
        return os.read(descriptor, MAX_URL + 1).decode()
    finally:
        os.close(descriptor)


def _parse(url: str, source: str) -> dict[str, str]:
    if not url or len(url) > MAX_URL or "\0" in url or "\n" in url:
        raise _invalid_url_error(source, "it is empty, too long, or has several lines")
    try:
        parts = urlsplit(url)
        port = parts.port
        parameters = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        raise _invalid_url_error(source, "it is not a URL") from None
    if parts.scheme not in _SCHEMES or parts.fragment:
        raise _invalid_url_error(source, "it does not begin with postgresql://")
    # An unescaped character in the password ends it early. Messages would then show the rest of it as a name.
    if parts.netloc.count("@") > 1 or set(parts.path[1:]) & set("@:/"):
        raise _invalid_url_error(
            source,
            "a name or the password in it has an @, : or / that is not escaped",
            "In names and in the password, escape @ as %40, : as %3A and / as %2F.",
        )
    more = dict(parameters)
    if len(more) != len(parameters) or not more.keys() <= _OPTIONS:
        raise _invalid_url_error(
            source,
            f"it may have only these options, each once: {', '.join(sorted(_OPTIONS))}",
            "Leave out any other option, and repeated ones.",
        )
    options = {
        "host": more.pop("host", "") or unquote(parts.hostname or ""),
        "port": more.pop("port", "") or str(port or _PORT),
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "dbname": unquote(parts.path[1:]) or unquote(parts.username or ""),
    }
    _require_one_server(options, source)
    return {**options, **_require_tls(more, source)}


def _require_one_server(options: Mapping[str, str], source: str) -> None:
    if not options["user"]:
        raise _invalid_url_error(source, "it names no user")
    if not options["host"] or "," in options["host"] or options["host"].startswith("@"):
        raise _invalid_url_error(source, "it does not name one host, or the folder of a socket")
    if not options["port"].isdecimal() or not 0 < int(options["port"]) < 1 << 16:
        raise _invalid_url_error(source, "its port is not valid")


def _require_tls(more: dict[str, str], source: str) -> dict[str, str]:
    seconds = more.pop("connect_timeout", "") or str(_CONNECT_SECONDS)
    if not seconds.isdecimal():
        raise _invalid_url_error(source, "connect_timeout is not a number", "Write it as seconds: connect_timeout=10")
    mode = more.get("sslmode", "prefer")
    if mode not in _MODES:
        raise _invalid_url_error(
            source, f"sslmode must be one of {', '.join(sorted(_MODES))}", "Correct sslmode, or leave it out."
        )
    secured = {**more, "sslmode": mode, "connect_timeout": str(min(max(int(seconds), 2), _CONNECT_SECONDS))}
    if mode.startswith("verify") and "sslrootcert" not in more:
        raise _invalid_url_error(
            source,
            f"sslmode={mode} needs sslrootcert, a file with the certificates to trust",
            "Add the file to the URL, for example &sslrootcert=/etc/ssl/certs/ca-certificates.crt.",
        )
    if "sslcert" not in more:
        secured["sslcertmode"] = "disable"
    return secured


def _invalid_url_error(source: str, what: str, next_step: str = f"Write it as {_FORM}.") -> RemitError:
    return RefusedError(
        Reason.CONFIG_INVALID, f"the URL of the connection is not valid: {what}", where=source, next_step=next_step
    )
