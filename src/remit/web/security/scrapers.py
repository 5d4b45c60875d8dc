"""Access to /metrics without a login: for a scraper with its own secret, and from this machine if the settings allow.

Both are off by default. Metrics show how many approvals are requested and how often requests are refused. And behind a
proxy on this machine every request looks as if it came from this machine.
"""

import hmac
import os
import stat
from typing import Final

from starlette.requests import HTTPConnection

from remit.core.errors import EnvironmentFailureError, Reason
from remit.web.config.hosts import is_loopback
from remit.web.config.settings import WebSettings

METRICS: Final = "/metrics"
SHORTEST_SECRET: Final = 32
LONGEST_SECRET: Final = 1_000
_BEARER: Final = "Bearer "
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")


def may_scrape(request: HTTPConnection, settings: WebSettings) -> bool:
    """Whether the request may read the metrics without a login. Reads the secret file, if the settings name one."""
    return has_secret(request, settings) or is_from_this_machine(request, settings)


def has_secret(request: HTTPConnection, settings: WebSettings) -> bool:
    values = request.headers.getlist("authorization")
    path = settings.config.metrics.secret_file
    if path is None or len(values) != 1 or not values[0].startswith(_BEARER):
        return False
    return hmac.compare_digest(values[0].removeprefix(_BEARER).encode(), read_secret(path))


def read_secret(path: str) -> bytes:
    """Read the secret, so that a new one is valid at once. Refuse a secret that others can read or guess."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as problem:
        raise _no_secret(f"it cannot be read ({problem.strerror})") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in {0, os.geteuid()} or found.st_mode & 0o077:
            raise _no_secret("it is not a file that only its owner can read")
        secret = os.read(descriptor, LONGEST_SECRET + 1).strip()
    finally:
        os.close(descriptor)
    if not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET:
        raise _no_secret(f"it has fewer than {SHORTEST_SECRET} characters, or more than {LONGEST_SECRET:,}")
    return secret


def is_from_this_machine(request: HTTPConnection, settings: WebSettings) -> bool:
    """Whether the settings allow this machine, and the request comes from it directly, not through a proxy."""
    config = settings.config
    if not config.metrics.open_on_loopback or config.public_url or config.tls or not is_loopback(settings.host):
        return False
    if any(name in request.headers for name in _FORWARDED):
        return False
    return request.client is not None and is_loopback(request.client.host)


def _no_secret(why: str) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.STATE_UNSAFE,
        f"the secret for {METRICS} is not valid: {why}",
        where="web.metrics.secret_file",
        next_step="Make a file that only you can read: (umask 077; openssl rand -hex 32 > FILE)",
    )
