"""Tokens made by hand: any header, any claims, any signature. Keys are made once for all tests of a process."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from remit.crypto.rsa_keys import TokenKey, TokenKeys

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
ISSUER, AUDIENCE = "abos-policy-authority", "abos-executor"
HEADER: dict[str, Any] = {"alg": "RS256", "typ": "JWT", "kid": "k1"}
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": "agent-1",
    "jti": "token-1",
    "iat": SECONDS - 10,
    "exp": SECONDS + 3_600,
    "caps": ["browser.navigate"],
    "constraints": {"domains": ["example.com"]},
}


@cache
def rsa_key(name: str, bits: int = 2_048) -> RSAPrivateKey:
    """One key for each name: `k1` is trusted, all others are somebody else's."""
    assert name
    return generate_private_key(65_537, bits)


def public_pem(key: RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def trusted(retired_at: str | None = None, revoked_at: str | None = None) -> TokenKeys:
    public = rsa_key("k1").public_key()
    return TokenKeys([TokenKey("k1", "trusted", public, "2026-01-01T00:00:00Z", retired_at, revoked_at)])


def segment(tree: Any) -> str:
    raw = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(header: Any, claims: Any, key: RSAPrivateKey | None = None) -> str:
    """Really signed with RS256, whatever the header says."""
    body = f"{segment(header)}.{segment(claims)}"
    signature = (key or rsa_key("k1")).sign(body.encode(), padding.PKCS1v15(), SHA256())
    return f"{body}.{segment(signature)}"


def keyed(header: Any, claims: Any, secret: bytes) -> str:
    body = f"{segment(header)}.{segment(claims)}"
    return f"{body}.{segment(hmac.new(secret, body.encode(), hashlib.sha256).digest())}"
