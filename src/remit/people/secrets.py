"""Login codes and session cookies: 256 random bits each, shown to one person and kept by their digest only.

Whoever reads the state file, or a backup of it, can log in as nobody. A digest is looked up, not compared, so the time
that it takes tells nothing about the secret.
"""

import hashlib
import re
import secrets
from typing import Final

_BYTES: Final = 32
_FORM: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def new_secret() -> str:
    return secrets.token_urlsafe(_BYTES)


def is_secret(text: str) -> bool:
    """Whether it could be one at all."""
    return _FORM.fullmatch(text) is not None


def secret_digest(secret: str) -> str:
    return "sha256:" + hashlib.sha256(b"remit.people.secret\0" + secret.encode()).hexdigest()


def csrf_of(cookie: str) -> str:
    """What a form must carry beside the cookie: only who was shown a page of this very session knows it.

    It follows from the cookie and is kept nowhere; the cookie does not follow from it.
    """
    return hashlib.sha256(b"remit.people.csrf\0" + cookie.encode()).hexdigest()
