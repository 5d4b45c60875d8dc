"""The listening socket and the TLS certificate.

Beyond loopback a server needs TLS, or a setting which says that a proxy in front has it.
"""

import os
import socket
import ssl
import stat
from pathlib import Path
from typing import Any, Final

import uvicorn

from remit.contracts.config.web import Tls
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.web.config.hosts import is_loopback
from remit.web.config.settings import WebSettings
from remit.web.http.uvicorn_protocol import MOST_HEADER_BYTES, build_protocol

KEEP_ALIVE_SECONDS: Final = 30
BACKLOG: Final = 512
_MOST_KEY_BYTES: Final = 256 << 10


def require_safe(settings: WebSettings) -> None:
    """Refuse to listen where passwords, tokens and cookies would cross a network unencrypted."""
    config = settings.config
    if is_loopback(settings.host) or config.tls is not None or config.insecure_http:
        return
    raise RefusedError(
        Reason.STATE_UNSAFE,
        "without TLS, others on the network could read tokens and cookies",
        where=f"web.host {settings.host}",
        next_step="Set `web.tls` in remit.yaml. If a proxy in front has TLS, set `web.insecure_http: true`.",
    )


def warnings_for(settings: WebSettings) -> list[str]:
    """Return the warnings for the person who starts the server."""
    if is_loopback(settings.host):
        return []
    found = [f"listening at {settings.host}: other machines can reach this server"]
    if settings.config.tls is None:
        found.append("there is no TLS, so others on the network can read tokens and cookies")
    if settings.config.public_url is None and not settings.config.allowed_hosts:
        found.append("other machines cannot use a host name for this server; set web.public_url in remit.yaml")
    return found


def open_socket(settings: WebSettings) -> socket.socket:
    """Return a bound socket that does not listen yet, so that its port is known."""
    require_safe(settings)
    host = settings.host.strip("[]")
    try:
        family = socket.getaddrinfo(host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        # asyncio sets TCP_NODELAY only with the protocol number. Otherwise responses wait 40 ms for an ACK.
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as problem:
        raise _cannot_listen(settings, problem) from None
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((host, settings.port))
    except OSError as problem:
        opened.close()
        raise _cannot_listen(settings, problem) from None
    opened.set_inheritable(False)
    return opened


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def server_config(app: Any, settings: WebSettings) -> uvicorn.Config:
    """Return uvicorn's configuration. Its access log is off, because it would contain queries."""
    tls = settings.config.tls
    context = _tls_context(tls) if tls is not None else None
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="asyncio",
        http=build_protocol(settings.config.limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # or a process on this machine could claim any client address
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        backlog=BACKLOG,
        ssl_certfile=tls.certificate if tls is not None else None,
        ssl_context_factory=(lambda *_: context) if context is not None else None,
    )


def _tls_context(tls: Tls) -> ssl.SSLContext:
    """Read certificate and key. Refuses a key that other users can read."""
    require_private_key(Path(tls.key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password prompt, because no person is present when a server starts.
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: b"")
    except (OSError, ssl.SSLError, ValueError) as problem:
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            f"the certificate cannot be used ({getattr(problem, 'strerror', None) or 'not PEM, or encrypted'})",
            where=tls.certificate,
            next_step="Use a certificate with its chain, and its key without a password, both in PEM.",
        ) from None
    return context


def require_private_key(path: Path) -> None:
    """Refuse a key unless it is a regular file of this user or of root that no other user can access."""
    try:
        found = os.stat(path)
    except OSError as problem:
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            f"the private key cannot be read: {problem.strerror}",
            where=str(path),
            next_step="Correct `web.tls.key` in remit.yaml.",
        ) from None
    if (
        not stat.S_ISREG(found.st_mode)
        or found.st_uid not in {0, os.geteuid()}
        or found.st_mode & 0o077
        or found.st_size > _MOST_KEY_BYTES
    ):
        raise EnvironmentFailureError(
            Reason.STATE_UNSAFE,
            "other users can read or change the private key of the certificate",
            where=str(path),
            next_step=f"Give access to the owner only: chmod 600 '{path}'",
        )


def _cannot_listen(settings: WebSettings, problem: OSError) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.STATE_UNSAFE,
        f"the server cannot listen at this address: {problem.strerror or problem}",
        where=f"{settings.host} port {settings.port}",
        next_step="Another server may use the port. Give another one with --port; 0 selects a free one.",
    )
