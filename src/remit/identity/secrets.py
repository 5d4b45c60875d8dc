"""Login codes and session cookies: 256 random bits each, shown to one person and kept by their digest only.

Whoever reads the state file, or a backup of it, can log in as nobody. A digest is looked up, not compared, so the time
that it takes tells nothing about the secret.
"""

import hashlib
import re
import secrets
from typing import Final

from remit.core.errors import Reason, RefusedError

_BYTES: Final = 32
_FORM: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def new_secret() -> str:
    return secrets.token_urlsafe(_BYTES)


def is_secret(text: str) -> bool:
    """Whether it could be one at all."""
    return _FORM.fullmatch(text) is not None


def secret_digest(secret: str) -> str:
    return "sha256:" + hashlib.sha256(b"remit.people.secret\0" + secret.encode()).hexdigest()


def derive_csrf(cookie: str) -> str:
    """What a form must carry beside the cookie: only who was shown a page of this very session knows it.

    It follows from the cookie and is kept nowhere; the cookie does not follow from it.
    """
    return hashlib.sha256(b"remit.people.csrf\0" + cookie.encode()).hexdigest()


def code_digest(code: str) -> str:
    if not is_secret(code):
        raise invalid_link_error()
    return secret_digest(code)


def invalid_link_error() -> RefusedError:
    """One answer for a code that was used, is over, or never was: it tells a guesser nothing."""
    return RefusedError(
        Reason.EXPIRED,
        "this link does not count: it was used already, or its time is over",
        where="code",
        next_step="Have a new one made: remit people invite, or start `remit serve` again.",
    )
