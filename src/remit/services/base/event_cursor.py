"""Sealed positions in the stream of events, for agents.

A position counts the entries of the whole ledger. From two positions, an agent could read how many entries are between
them, and so when the preview of its plan was computed. That time depends on the content of files and rows. So an agent
gets an encrypted text that only Remit can open. Each process of a workspace can open a text that another one sealed.
Limit: after the audit key was rotated, an earlier text cannot be opened, and the agent has to begin with new events.
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
"""Texts are padded to a multiple of this, so that their length does not show the number of digits."""


class SealedPositions:
    """Seals positions for agents and opens them again. Safe to use from any thread."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    def seal(self, position: str) -> str:
        text = position.encode()
        nonce = os.urandom(_NONCE)
        return _MARK + encode_base64url(
            nonce + AESGCM(self._key()).encrypt(nonce, text + b" " * (-len(text) % _BLOCK), None)
        )

    def open(self, text: str) -> str:
        """Return the plain position. `-` is the beginning, for every caller.

        Refuses a text that was not sealed for an agent of this workspace. A plain position is refused too, because an
        agent could find out with it how long the ledger is.
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
                "this event id is not one that Remit gave to an agent",
                where="Last-Event-ID",
                next_step="Send the id of an event unchanged, or send none to begin with new events.",
            ) from None
