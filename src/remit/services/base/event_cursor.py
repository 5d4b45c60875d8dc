"""Positions in the stream of events as agents are given them: sealed.

A position counts the entries of the whole ledger. From two of them an agent could read how many entries came between,
and so when the preview of its plan was computed. That depends on what files and rows hold. So an agent gets an
encrypted text that only Remit can open. Each process of a workspace opens what another one sealed. Limit: after the
audit key was rotated, an earlier text cannot be opened, and the agent begins with what happens now.
"""

import os
from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from remit.core.errors import Reason, RefusedError
from remit.crypto.signing import decode_base64url, encode_base64url
from remit.ledger.cursor import BEGINNING, MAX_TEXT

_MARK: Final = "agent."
_NONCE: Final = 12
_BLOCK: Final = 64
"""Texts are filled up to a multiple of this: their length must not count digits."""


class SealedPositions:
    """Safe to use from any thread."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    def seal(self, position: str) -> str:
        text = position.encode()
        nonce = os.urandom(_NONCE)
        return _MARK + encode_base64url(
            nonce + AESGCM(self._key()).encrypt(nonce, text + b" " * (-len(text) % _BLOCK), None)
        )

    def open(self, text: str) -> str:
        """The plain position. `-` is the beginning, for every caller.

        Refuses what was not sealed for an agent of this workspace, a plain position too: it would answer how far the
        ledger is.
        """
        if text == BEGINNING:
            return text
        try:
            marked = text[: 2 * MAX_TEXT].startswith(_MARK)
            sealed = decode_base64url(text[len(_MARK) : 2 * MAX_TEXT] if marked else "")
            return AESGCM(self._key()).decrypt(sealed[:_NONCE], sealed[_NONCE:], None).decode().rstrip(" ")
        except (ValueError, InvalidTag):
            raise RefusedError(
                Reason.MALFORMED,
                "this is no position that an agent was given in the stream of events",
                where="Last-Event-ID",
                next_step="Give back the id of an event as it came, or none to begin with what happens now.",
            ) from None
