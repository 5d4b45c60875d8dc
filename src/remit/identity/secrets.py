"""Login codes and session cookies: 256 random bits each, shown to one person and stored only as a digest.

Reading the state file, or a backup of it, does not make a login possible. A digest is looked up and not compared, so
the time that this takes reveals nothing about the secret.
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
    """Return whether the text has the form of a secret."""
    return _FORM.fullmatch(text) is not None


def secret_digest(secret: str) -> str:
    return "sha256:" + hashlib.sha256(b"remit.people.secret\0" + secret.encode()).hexdigest()


def derive_csrf(cookie: str) -> str:
    """Derive the value that a form must carry beside the cookie. Only a page of the same session contains it.

    It is derived from the cookie and not stored. The cookie cannot be derived from it.
    """
    return hashlib.sha256(b"remit.people.csrf\0" + cookie.encode()).hexdigest()


def code_digest(code: str) -> str:
    if not is_secret(code):
        raise invalid_link_error()
    return secret_digest(code)


def invalid_link_error() -> RefusedError:
    """Return the same error for a used, an expired and an unknown code, so that guessing reveals nothing."""
    return RefusedError(
        Reason.EXPIRED,
        "this link is not valid: it was used already, or it has expired",
        where="code",
        next_step="Ask an admin for a new one (remit people invite), or start `remit serve` again.",
    )
