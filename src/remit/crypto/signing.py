"""Ed25519 signatures over typed bytes.

A signature covers the DSSE pre-authentication encoding of a purpose and the canonical body. So a signature that was
made for one kind of document can never pass for another. Each purpose belongs to exactly one key role.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from remit.core.canonical import canonical_bytes
from remit.core.errors import Reason, RefusedError, UsageError
from remit.core.ids import parse_time

Role = Literal["kernel", "protocol", "executor", "audit"]
Purpose = Literal[
    "lease",
    "envelope",
    "rollback-order",
    "result",
    "plan-status",
    "rollback-outcome",
    "call-result",
    "ledger-head",
    "event-position",
]

ROLES: Final[tuple[Role, ...]] = ("kernel", "protocol", "executor", "audit")
ROLE_OF: Final[dict[Purpose, Role]] = {
    "lease": "kernel",
    "envelope": "protocol",
    "rollback-order": "protocol",
    "result": "executor",
    "plan-status": "executor",
    "rollback-outcome": "executor",
    "call-result": "executor",
    "ledger-head": "audit",
    "event-position": "audit",
}


# A public key of small order has no secret: anyone can make a signature that it verifies. These are the y coordinates
# of all eight such points, and the size of the field. A coordinate past that is a second encoding of a lower one.
_FIELD: Final = 2**255 - 19
_OF_ORDER_EIGHT: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER: Final = frozenset({0, 1, _FIELD - 1, _OF_ORDER_EIGHT, _FIELD - _OF_ORDER_EIGHT})
_MISMATCH_ADVICE: Final[dict[Purpose, str]] = {
    "lease": "It was signed for another manifest, or one of the two was changed afterwards."
    " Ask the kernel for a lease of this manifest: remit task lease"
}


class _VerifiedSignatures:
    """Signatures that are known to be correct: this process made them or verified them before.

    Which key made a signature, and whether that key is still valid, is checked each time. Only the arithmetic is
    cached, because its result never changes.
    """

    MOST: Final = 1_024

    def __init__(self) -> None:
        self._signatures: set[tuple[str, bytes, str]] = set()

    def __contains__(self, signature_key: tuple[str, bytes, str]) -> bool:
        return signature_key in self._signatures

    def add(self, signature_key: tuple[str, bytes, str]) -> None:
        if len(self._signatures) >= self.MOST:
            self._signatures.clear()
        self._signatures.add(signature_key)


_VERIFIED: Final = _VerifiedSignatures()


def pre_authentication_encoding(purpose: str, body: bytes) -> bytes:
    kind = f"application/vnd.remit.{purpose}+json".encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(body), body)


def key_id_of(public: bytes) -> str:
    """Return the RFC 7638 thumbprint of the RFC 8037 form of an Ed25519 public key."""
    jwk = {"crv": "Ed25519", "kty": "OKP", "x": encode_base64url(public)}
    return encode_base64url(hashlib.sha256(canonical_bytes(jwk)).digest())


def require_sound_key(public: bytes, *, where: str) -> None:
    """Refuse an Ed25519 key whose signatures prove nothing: a point of small order, or a second encoding of a point."""
    height = int.from_bytes(public, "little") & ~(1 << 255)
    if len(public) != 32 or height >= _FIELD or height in _SMALL_ORDER:
        raise RefusedError(
            Reason.MALFORMED,
            "this Ed25519 public key is unsafe: anyone could make signatures that it verifies",
            where=where,
            next_step="Do not trust the sender of this key. Ask for the file that `remit keys export audit` writes.",
        )


def encode_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_base64url(text: str) -> bytes:
    """Decode strictly: each byte string has exactly one text, so that a signature has one spelling.

    Raises ValueError for any other text.
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not base64url") from None
    if encode_base64url(data) != text:
        raise ValueError("not canonical base64url")
    return data


class Signer:
    """One private key of one role. It signs only the documents that this role may sign."""

    def __init__(self, role: Role, private: Ed25519PrivateKey) -> None:
        self.role: Role = role
        self._private = private
        self.public = private.public_key().public_bytes_raw()
        self.key_id = key_id_of(self.public)

    def sign(self, purpose: Purpose, body: bytes) -> str:
        if ROLE_OF[purpose] != self.role:
            raise UsageError(Reason.MISUSE, f"the {self.role} key may not sign a {purpose}")
        message = pre_authentication_encoding(purpose, body)
        signature = encode_base64url(self._private.sign(message))
        _VERIFIED.add((self.key_id, hashlib.sha256(message).digest(), signature))
        return signature

    def __repr__(self) -> str:
        return f"Signer(role={self.role!r}, key_id={self.key_id!r})"

    def __reduce__(self) -> NoReturn:
        raise UsageError(Reason.MISUSE, f"the {self.role} key may not be copied, pickled or sent to another process")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies signatures.

    A retired key verifies only what it signed before it was retired. A revoked key verifies nothing.
    """

    role: Role
    public: bytes
    created_at: str
    retired_at: str | None = None
    revoked_at: str | None = None
    key_id: str = field(default="")

    def __post_init__(self) -> None:
        require_sound_key(self.public, where=f"the {self.role} key")
        object.__setattr__(self, "key_id", key_id_of(self.public))


class Keyring:
    """The known public keys, by id. An unknown key verifies nothing."""

    def __init__(self, keys: Iterable[PublicKey]) -> None:
        self._keys = {key.key_id: key for key in keys}
        self._loaded: dict[str, Ed25519PublicKey] = {}

    def __iter__(self) -> Iterator[PublicKey]:
        return iter(self._keys.values())

    def active(self, role: Role) -> PublicKey | None:
        """Return the key that signs for this role now, or None."""
        usable = [key for key in self._keys.values() if key.role == role and not key.retired_at and not key.revoked_at]
        return usable[0] if len(usable) == 1 else None

    def verify(self, purpose: Purpose, key_id: str, body: bytes, signature: str, *, signed_at: str) -> None:
        """Return if the signature is valid. Otherwise refuse, and say which rule failed."""
        key = self._keys.get(key_id)
        if key is None or key.role != ROLE_OF[purpose]:
            raise RefusedError(
                Reason.KEY_UNKNOWN,
                f"no {ROLE_OF[purpose]} key with this id is known",
                where=f"{purpose}, key_id {key_id}",
                next_step="`remit keys list` shows the keys of this workspace.",
            )
        if key.revoked_at:
            raise RefusedError(
                Reason.REVOKED, f"this key was revoked at {key.revoked_at}", where=f"{purpose}, key_id {key_id}"
            )
        if key.retired_at and not _at_or_before(signed_at, key.retired_at):
            raise RefusedError(
                Reason.KEY_RETIRED,
                f"this key was retired at {key.retired_at}; it verifies nothing that was signed later",
                where=f"{purpose}, key_id {key_id}",
                next_step="Have the document signed again with the current key.",
            )
        if not self._matches(key, pre_authentication_encoding(purpose, body), signature):
            raise RefusedError(
                Reason.SIGNATURE_INVALID,
                "the signature does not match the content",
                where=f"{purpose}, key_id {key_id}",
                next_step=_MISMATCH_ADVICE.get(
                    purpose, "The document was changed after it was signed, or was signed for another purpose."
                ),
            )

    def signed(self, purpose: Purpose, key_id: str, body: bytes, signature: str) -> bool:
        """Return whether a known key signed this at any time, even if it was retired or revoked later."""
        key = self._keys.get(key_id)
        if key is None or key.role != ROLE_OF[purpose]:
            return False
        return self._matches(key, pre_authentication_encoding(purpose, body), signature)

    def _matches(self, key: PublicKey, message: bytes, signature: str) -> bool:
        # The cache saves time: authority is checked again right before the intent, under the write lock, and a head is
        # checked for each entry below it that is read.
        signature_key = (key.key_id, hashlib.sha256(message).digest(), signature)
        if signature_key in _VERIFIED:
            return True
        loaded = self._loaded.get(key.key_id)
        if loaded is None:
            loaded = self._loaded[key.key_id] = Ed25519PublicKey.from_public_bytes(key.public)
        try:
            loaded.verify(decode_base64url(signature), message)
        except (InvalidSignature, ValueError):
            return False
        _VERIFIED.add(signature_key)
        return True


def _at_or_before(signed_at: str, retired_at: str) -> bool:
    """Return whether the first time is not later. False for an invalid time: it may come from an edited row."""
    try:
        return parse_time(signed_at) <= parse_time(retired_at)
    except ValueError:
        return False
