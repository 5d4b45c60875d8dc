"""What every answer tells the browser: run nothing that is not ours, show us in no frame, keep nothing."""

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
    # Not no-referrer: browsers would then send our own forms with `Origin: null`. Other sites are told nothing by this.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000")
_NO_STORE: Final = (b"cache-control", b"no-store")
_OVERRIDDEN: Final = frozenset(name for name, _ in ALWAYS)


def with_security(headers: Sequence[tuple[bytes, bytes]], *, secure: bool) -> list[tuple[bytes, bytes]]:
    """The answer's own headers, and ours in place of any it had of those. What says nothing of caches is not kept."""
    forwarded = [(name, value) for name, value in headers if name.lower() not in _OVERRIDDEN]
    if not any(name.lower() == b"cache-control" for name, _ in forwarded):
        forwarded.append(_NO_STORE)
    if secure:
        forwarded.append(_STRICT_TRANSPORT)
    return [*forwarded, *ALWAYS]
