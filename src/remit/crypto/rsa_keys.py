"""RSA keys for capability tokens, in memory: the public keys that verify tokens, and the workspace's private key."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from remit.core.canonical import canonical_bytes
from remit.core.errors import Reason, RefusedError, UsageError
from remit.crypto.signing import encode_base64url

LEAST_BITS: Final = 2_048
MOST_BITS: Final = 8_192
"""A longer key makes every verification of a token slow, which an attacker could use."""
LEAST_EXPONENT: Final = 65_537
Origin = Literal["own", "trusted"]


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A public key that verifies tokens. A retired key verifies only tokens issued before; a revoked key, none."""

    kid: str
    origin: Origin
    public: RSAPublicKey
    created_at: str
    retired_at: str | None = None
    revoked_at: str | None = None

    def __post_init__(self) -> None:
        require_strong_key(self.public, where=f"the token key {self.kid}")

    @property
    def is_active(self) -> bool:
        return not self.retired_at and not self.revoked_at


class TokenKeys:
    """The known keys, by `kid`. An unknown key verifies nothing, and Remit fetches no key from another place."""

    def __init__(self, keys: Iterable[TokenKey] = ()) -> None:
        self._keys = {key.kid: key for key in keys}

    def __iter__(self) -> Iterator[TokenKey]:
        return iter(self._keys.values())

    def get(self, kid: str) -> TokenKey | None:
        return self._keys.get(kid)

    def own_key(self) -> TokenKey | None:
        """Return the key that this workspace signs with now."""
        return next((key for key in self if key.origin == "own" and key.is_active), None)


class TokenSigner:
    """The workspace's private key for tokens. It signs nothing else."""

    def __init__(self, private: RSAPrivateKey) -> None:
        self.private = private
        self.kid = key_thumbprint(private.public_key())

    def __repr__(self) -> str:
        return f"TokenSigner(kid={self.kid!r})"

    def __reduce__(self) -> NoReturn:
        raise UsageError(Reason.MISUSE, "the policy key may not be copied, pickled or sent to another process")


def key_thumbprint(public: RSAPublicKey) -> str:
    """Return the RFC 7638 thumbprint of the public numbers."""
    numbers = public.public_numbers()
    jwk = {"e": _base64_number(numbers.e), "kty": "RSA", "n": _base64_number(numbers.n)}
    return encode_base64url(hashlib.sha256(canonical_bytes(jwk)).digest())


def require_strong_key(public: RSAPublicKey, *, where: str) -> None:
    if not LEAST_BITS <= public.key_size <= MOST_BITS or public.public_numbers().e < LEAST_EXPONENT:
        raise RefusedError(
            Reason.MALFORMED,
            f"an RSA key for tokens has {LEAST_BITS:,} to {MOST_BITS:,} bits and an exponent from {LEAST_EXPONENT} up",
            where=where,
            next_step="Ask the owner of the key for a new one.",
        )


def parse_rsa_pem(pem: bytes, *, source: str) -> RSAPublicKey:
    try:
        loaded = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        loaded = None
    if not isinstance(loaded, RSAPublicKey):
        raise RefusedError(
            Reason.MALFORMED,
            "this is not an RSA public key in PEM form",
            where=source,
            next_step="Ask the issuer for the file that begins with BEGIN PUBLIC KEY.",
        )
    require_strong_key(loaded, where=source)
    return loaded


def render_rsa_pem(key: TokenKey) -> str:
    return key.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def _base64_number(number: int) -> str:
    return encode_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))
