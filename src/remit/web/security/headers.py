"""The security headers of every response: only own scripts, no frame around a page, no cached copy."""

from collections.abc import Sequence
from typing import Final

CONTENT_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self';"
    " manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
ALWAYS: Final = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # Not no-referrer, because browsers would then send the forms of the console with `Origin: null`. Other sites get no
    # referrer with this value either.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000")
_NO_STORE: Final = (b"cache-control", b"no-store")
_OVERRIDDEN: Final = frozenset(name for name, _ in ALWAYS)


def with_security(headers: Sequence[tuple[bytes, bytes]], *, secure: bool) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response with the security headers, which replace its own. Default: no cache."""
    forwarded = [(name, value) for name, value in headers if name.lower() not in _OVERRIDDEN]
    if not any(name.lower() == b"cache-control" for name, _ in forwarded):
        forwarded.append(_NO_STORE)
    if secure:
        forwarded.append(_STRICT_TRANSPORT)
    return [*forwarded, *ALWAYS]
