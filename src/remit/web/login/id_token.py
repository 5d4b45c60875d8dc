"""Verifies the signed ID token of an identity provider, and derives the role of the person from its claims. Pure.

Only RS256 and ES256 are accepted, with a key of the provider for that algorithm. A token without an algorithm, or with
one that uses the public key as a shared secret, is refused before any key is used.
"""

import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NoReturn

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from remit.contracts.config.oidc import Oidc
from remit.core.errors import Reason, RefusedError
from remit.crypto.signing import decode_base64url
from remit.identity.models import Role
from remit.identity.person import Person
from remit.parsing import Bounds, parse_json

ALGORITHMS: Final = ("RS256", "ES256")
SKEW: Final = timedelta(seconds=60)
MOST: Final = 32 << 10
_LEAST_RSA_BITS: Final = 2_048
_BOUNDS: Final = Bounds(max_bytes=MOST, max_items=2_000)
_LONGEST_SUB: Final = 190

Key = RSAPublicKey | EllipticCurvePublicKey


@dataclass(frozen=True, slots=True)
class VerifiedIdentity:
    """A person whom the provider authenticated, with their role in this workspace."""

    person: Person
    role: Role
    user: str | None
    tenant: str | None


def read_keys(document: Any) -> dict[tuple[str, str | None], Key]:
    """Return the keys of a JWKS document that may verify signatures, by algorithm and key id. Others are skipped."""
    listed = document.get("keys") if isinstance(document, dict) else None
    found: dict[tuple[str, str | None], Key] = {}
    for tree in listed if isinstance(listed, list) else ():
        if not isinstance(tree, dict) or tree.get("use", "sig") != "sig" or not _may_verify(tree):
            continue
        algorithm = {"RSA": "RS256", "EC": "ES256"}.get(str(tree.get("kty")))
        if algorithm is None or tree.get("alg", algorithm) != algorithm:
            continue
        try:
            key = jwt.PyJWK(tree, algorithm).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        kid = tree.get("kid")
        if _is_strong(key) and (kid is None or isinstance(kid, str)):
            found[algorithm, kid] = key
    return found


def _may_verify(tree: dict[str, Any]) -> bool:
    """Whether `key_ops`, where it is given, allows verifying signatures (RFC 7517, section 4.3)."""
    if "key_ops" not in tree:
        return True
    operations = tree["key_ops"]
    return isinstance(operations, list) and "verify" in operations


def token_header(text: Any) -> tuple[str, str | None]:
    """Return the algorithm and the key id of a token that is not verified yet."""
    if not isinstance(text, str) or len(text) > MOST or text.count(".") != 2:
        _refuse("it sent no ID token")
    try:
        header = parse_json(decode_base64url(text.partition(".")[0]), _BOUNDS, source="ID token, header")
    except (ValueError, RefusedError):
        _refuse("its ID token has no valid header")
    algorithm, kid = (header.get("alg"), header.get("kid")) if isinstance(header, dict) else (None, None)
    if algorithm not in ALGORITHMS or "crit" in header:
        _refuse(f"its ID token is not signed with {' or '.join(ALGORITHMS)}")
    if kid is not None and not isinstance(kid, str):
        _refuse("its ID token has an invalid key id")
    return algorithm, kid


def verify_id_token(text: str, key: Key, config: Oidc, nonce: str, now: datetime) -> dict[str, Any]:
    """Verify the signature, issuer, audience, times and nonce of a token, in that order, and return its claims."""
    algorithm, _ = token_header(text)
    if not isinstance(key, RSAPublicKey if algorithm == "RS256" else EllipticCurvePublicKey):
        _refuse("its ID token and the key have different algorithms")
    try:
        body = jwt.PyJWS().decode(text, key, algorithms=[algorithm])
    except (jwt.PyJWTError, ValueError, TypeError):
        _refuse("the signature of its ID token is not valid")
    claims = parse_json(body, _BOUNDS, source="ID token")
    if not isinstance(claims, dict):
        _refuse("its ID token has no claims")
    if claims.get("iss") != config.issuer:
        _refuse("its ID token is from another issuer")
    _require_audience(claims, config.client_id)
    _require_times(claims, now)
    claimed = claims.get("nonce")
    if not isinstance(claimed, str) or not hmac.compare_digest(claimed.encode(), nonce.encode()):
        _refuse("its ID token is for another login")
    return claims


def decide_role(claims: dict[str, Any], config: Oidc) -> VerifiedIdentity:
    """Return the person and their role. Refuses a person who has no role in the table."""
    sub = claims.get("sub")
    if not isinstance(sub, str) or not sub.isprintable() or not 0 < len(sub) <= _LONGEST_SUB:
        _refuse("its ID token has no valid subject")
    values = _texts(claims.get(config.role_claim))
    role = next((line.role for line in config.roles if line.value in values), None)
    if role is None:
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            "you are authenticated, but no role is configured for your account",
            where=f"claim {config.role_claim}",
            next_step="Ask the administrator of this server: `web.oidc.roles` in remit.yaml lists who gets which role.",
        )
    user = claims.get(config.user_claim) if config.user_claim else None
    is_user = isinstance(user, str) and user.isprintable() and 0 < len(user) <= 200
    return VerifiedIdentity(
        Person(f"oidc:{sub}", _name(claims)), role, user if is_user else None, config.tenant if is_user else None
    )


def _name(claims: dict[str, Any]) -> str | None:
    found = claims.get("name") or claims.get("preferred_username")
    return found if isinstance(found, str) and found.isprintable() and 0 < len(found) <= 100 else None


def _require_audience(claims: dict[str, Any], client_id: str) -> None:
    audience = _texts(claims.get("aud"))
    if client_id not in audience:
        _refuse("its ID token is for another client")
    party = claims.get("azp")
    if party != client_id and (party is not None or len(audience) > 1):
        _refuse("its ID token was issued to another client")


def _require_times(claims: dict[str, Any], now: datetime) -> None:
    expires, issued, begins = (_seconds(claims.get(name)) for name in ("exp", "iat", "nbf"))
    if expires is None or issued is None:
        _refuse("its ID token has no valid times")
    at, grace = now.timestamp(), SKEW.total_seconds()
    if at >= expires + grace:
        _refuse("its ID token has expired")
    if max(issued, begins or 0) > at + grace:
        _refuse("its ID token is not valid yet; check the clocks of both machines")


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _texts(value: Any) -> frozenset[str]:
    """Return the texts of a claim that is one text or a list of texts."""
    several = value if isinstance(value, list) else [value]
    return frozenset(one for one in several if isinstance(one, str))


def _is_strong(key: Any) -> bool:
    if isinstance(key, RSAPublicKey):
        return key.key_size >= _LEAST_RSA_BITS
    return isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1)


def _refuse(why: str) -> NoReturn:
    raise id_token_error(why)


def id_token_error(why: str) -> RefusedError:
    return RefusedError(
        Reason.ID_TOKEN_INVALID,
        f"the identity provider's answer is not valid: {why}",
        where="ID token",
        next_step="Log in again. If this continues, check `web.oidc` in remit.yaml and the provider's settings.",
    )
