"""Capability tokens: signed permission for one agent to use the browser or other operations, within limits.

A token is a JWT of one plain form: RS256, three segments, and a header of exactly `alg`, `typ` and `kid`.
`verify_token` is pure: it fetches nothing, and the key is a known one or the token is refused. The signature is checked
first, so that nothing unsigned is believed, not even to choose an error message. The store (`remit.store.tokens`) knows
whether a token was revoked. It is asked when a token is verified, and again right before the intent.
"""

import shlex
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NoReturn

import jwt

from remit.contracts.browser.browser import TokenClaims, TokenConstraints
from remit.contracts.browser.token_rules import unchecked_constraints
from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError
from remit.core.ids import parse_time, uuid7
from remit.crypto.rsa_keys import TokenKey, TokenKeys, TokenSigner
from remit.crypto.signing import decode_base64url
from remit.parsing import Bounds, parse_json

MAX_TOKEN: Final = 16 << 10
MAX_LIFE: Final = timedelta(days=31)
CLOCK_SKEW: Final = timedelta(seconds=60)
"""How far ahead the issuer's clock may be. Expiry has no such tolerance."""
ALGORITHM: Final = "RS256"
MAX_CACHED: Final = 1_000
_HEADER: Final = frozenset({"alg", "typ", "kid"})
_HEADER_BOUNDS: Final = Bounds(max_bytes=1_024, max_items=50)
_SEGMENTS: Final = 3
_REISSUE_ADVICE: Final = "Ask for a new token: remit token issue --sub AGENT --cap CAPABILITY"


@dataclass(frozen=True, slots=True)
class Token:
    """A verified token. Only `verify_token` makes one."""

    agent_id: str
    """The `sub` of the token: the agent that it was issued to."""
    jti: str
    caps: frozenset[str]
    constraints: TokenConstraints
    issued_at: datetime
    not_before: datetime
    expires_at: datetime
    kid: str
    digest: str
    """The digest of the token's text. A token has exactly one valid text."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token and its claims. The text is secret: anyone who has it can act with it."""

    text: str
    claims: TokenClaims
    kid: str

    @property
    def digest(self) -> str:
        return digest_bytes(self.text.encode())

    def __repr__(self) -> str:
        return f"IssuedToken(jti={self.claims.jti!r})"


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The agent that a capability token is for, and what the token allows: the argument of `workspace.tokens.issue`."""

    agent_id: str
    """The agent."""
    caps: tuple[str, ...]
    """The capabilities, such as `plan.propose`."""
    constraints: TokenConstraints
    """The limits of the token."""
    life: timedelta
    """How long the token is valid. It must end within 31 days from now."""
    not_before: datetime | None = None
    """The time from which the token is valid; from now on if None."""


def issue_token(signer: TokenSigner, request: TokenRequest, issuer: str, audience: str, now: datetime) -> IssuedToken:
    """Sign a token, as the policy authority. Refuses a constraint that no check would enforce."""
    for problem in unchecked_constraints(request.caps, request.constraints.given()):
        where = f"constraints.{problem.constraint}"
        raise RefusedError(Reason.MALFORMED, problem.why, where=where, next_step=problem.next_step)
    issued_at = int(now.timestamp())
    begins = request.not_before or now
    expires_at = int((begins + request.life).timestamp())
    if request.life < timedelta(seconds=1) or expires_at - issued_at > MAX_LIFE.total_seconds():
        raise RefusedError(
            Reason.TOO_LARGE,
            f"a token must be valid for at least one second and end within {MAX_LIFE.days} days from now",
            next_step="Choose a shorter lifetime. A token can be issued again.",
        )
    claims = {
        "iss": issuer,
        "aud": audience,
        "sub": request.agent_id,
        "jti": uuid7(now),
        "iat": issued_at,
        "exp": expires_at,
        "caps": list(dict.fromkeys(request.caps)),
        "constraints": _without_nulls(request.constraints.tree()),
        **({"nbf": int(begins.timestamp())} if request.not_before else {}),
    }
    checked = TokenClaims.from_tree(claims, source="the token")
    headers = {"alg": ALGORITHM, "typ": "JWT", "kid": signer.kid}
    text = jwt.encode(claims, signer.private, algorithm=ALGORITHM, headers=headers)
    if len(text) > MAX_TOKEN:
        raise RefusedError(Reason.TOO_LARGE, "the token would be too long", next_step="List fewer domains.")
    return IssuedToken(text, checked, signer.kid)


def verify_token(text: str, keys: TokenKeys, issuer: str, audience: str, now: datetime) -> Token:
    """Return the verified token.

    Checks form, header, key, signature, claims, issuer and audience, and times, in that order. The first failure
    raises.
    """
    token = _verify_signed(text, keys, issuer, audience)
    require_in_time(token, now)
    return token


class VerifiedTokens:
    """A cache of tokens whose signature was verified for the same text, keys, issuer and audience.

    Times and revocation are checked each time. The cache is emptied when the keys change. It holds a digest of each
    text, so that a later copy of this memory contains no token.
    """

    def __init__(self) -> None:
        self._cache: tuple[TokenKeys, str, str, dict[str, Token]] | None = None

    def contains(self, text: str) -> bool:
        return self._cache is not None and _digest(text) in self._cache[3]

    def verify(self, text: str, keys: TokenKeys, issuer: str, audience: str, now: datetime) -> Token:
        """Return the verified token, as `verify_token` does."""
        cached = self._cache
        if cached is None or cached[0] is not keys or cached[1:3] != (issuer, audience):
            cached = self._cache = keys, issuer, audience, {}
        digest, found = _digest(text), cached[3]
        token = found.get(digest)
        if token is None:
            token = _verify_signed(text, keys, issuer, audience)
            if len(found) >= MAX_CACHED:
                found.clear()
            found[digest] = token
        require_in_time(token, now)
        return token


def _digest(text: str) -> str:
    return digest_bytes(text.encode(errors="surrogatepass"))  # it may contain lone surrogates: it is unchecked


def signed_jti(text: str, keys: TokenKeys, issuer: str, audience: str) -> str:
    """Return the id of a signed token, even if it has expired. For a report on the requests it was used for."""
    return _verify_signed(text, keys, issuer, audience).jti


def _verify_signed(text: str, keys: TokenKeys, issuer: str, audience: str) -> Token:
    """Return the token after all checks except those of the current time. Not to be given to callers."""
    header, body = _split(text)
    key = _parse_header(header, keys)
    _require_signed(text, key, body)
    try:
        claims = TokenClaims.parse(body, source="token, claims")
    except RefusedError as problem:
        raise _invalid(problem.what, problem.where) from None
    _require_same(claims.iss, issuer, "iss")
    _require_same(claims.aud, audience, "aud")
    token = Token(
        claims.sub,
        claims.jti,
        frozenset(claims.caps),
        claims.constraints,
        _time(claims.iat, "iat"),
        _time(claims.iat if claims.nbf is None else claims.nbf, "nbf"),
        _time(claims.exp, "exp"),
        key.kid,
        _digest(text),
    )
    _require_signed_in_time(token, key)
    return token


def require_in_time(token: Token, now: datetime) -> None:
    """Refuse a token that has expired or is not valid yet.

    This is checked again right before the intent, with a time that does not go back when a clock is set back.
    """
    if now >= token.expires_at:
        raise RefusedError(
            Reason.EXPIRED,
            f"the token expired at {token.expires_at:%Y-%m-%dT%H:%M:%SZ}",
            where="token, exp",
            next_step=_REISSUE_ADVICE,
        )
    if token.issued_at > now + CLOCK_SKEW:
        raise RefusedError(
            Reason.NOT_YET_VALID,
            "the token was issued in the future",
            where="token, iat",
            next_step="If the clock of this machine is right, issue a new token and revoke this one, because it becomes"
            f" valid on its date: remit token revoke {shlex.quote(token.jti)}. If the clock is wrong, set it.",
        )
    # A start that the issuer chose has no tolerance. Otherwise the start is the time of issue, by the issuer's clock.
    begins = token.not_before if token.not_before != token.issued_at else token.issued_at - CLOCK_SKEW
    if now < begins:
        raise RefusedError(
            Reason.NOT_YET_VALID,
            f"the token is not valid before {token.not_before:%Y-%m-%dT%H:%M:%SZ}",
            where="token, nbf",
            next_step="Wait until then.",
        )


def require_key_valid(token: Token, keys: TokenKeys) -> None:
    """Refuse the token if the key that signed it is no longer valid."""
    _require_signed_in_time(token, _find_key(token.kid, keys))


def claimed_agent(text: str) -> str:
    """Return the agent that the token names, or an empty text. It is unverified: `verify_token` verifies."""
    try:
        claims = parse_json(_split(text)[1], TokenClaims.bounds, source="token")
    except RefusedError:
        return ""
    agent = claims.get("sub") if isinstance(claims, dict) else None
    return agent if isinstance(agent, str) else ""


def _split(text: str) -> tuple[Any, bytes]:
    """Return the header as a tree, and the bytes of the claims. Each token has only one valid text."""
    if len(text) > MAX_TOKEN:
        _refuse(f"a token has at most {MAX_TOKEN:,} characters", "token")
    segments = text.split(".")
    if len(segments) != _SEGMENTS or not all(segments):
        _refuse("a token has three parts with dots between them", "token")
    try:
        header, body, _ = (decode_base64url(segment) for segment in segments)
    except ValueError as problem:
        _refuse(f"a part of the token is {problem}", "token")
    try:
        return parse_json(header, _HEADER_BOUNDS, source="token, header"), body
    except RefusedError as problem:
        raise _invalid(problem.what, problem.where) from None


def _parse_header(header: Any, keys: TokenKeys) -> TokenKey:
    if not isinstance(header, dict) or header.keys() != _HEADER:
        _refuse("the header of a token must have exactly alg, typ and kid: no key, and no address of one", "header")
    if header["alg"] != ALGORITHM:
        _refuse(f"a token must be signed with {ALGORITHM}", "header, alg")
    if header["typ"] != "JWT":
        _refuse("this is another kind of document", "header, typ")
    if not isinstance(header["kid"], str):
        _refuse("the key id must be a string", "header, kid")
    return _find_key(header["kid"], keys)


def _find_key(kid: str, keys: TokenKeys) -> TokenKey:
    key = keys.get(kid)
    if key is None:
        raise RefusedError(
            Reason.KEY_UNKNOWN,
            "the token was signed with a key that this workspace does not know",
            where="token, header, kid",
            next_step="`remit token keys` shows the known keys; `remit token trust` adds the key of an issuer.",
        )
    return key


def _require_signed(text: str, key: TokenKey, body: bytes) -> None:
    try:
        signed = jwt.PyJWS().decode(text, key.public, algorithms=[ALGORITHM])
    except (jwt.PyJWTError, ValueError, TypeError):
        signed = None
    if signed != body:
        raise RefusedError(
            Reason.SIGNATURE_INVALID,
            "the signature does not match the token",
            where="token",
            next_step=f"The token was changed, or signed with another key. {_REISSUE_ADVICE}",
        )


def _require_signed_in_time(token: Token, key: TokenKey) -> None:
    """Refuse a lifetime that is too long, and a token that was signed after its key was retired or revoked."""
    if not token.issued_at < token.expires_at <= token.issued_at + MAX_LIFE:
        _refuse(f"a token may be valid for at most {MAX_LIFE.days} days", "exp")
    if key.revoked_at:
        raise RefusedError(
            Reason.REVOKED,
            f"the key of this token was revoked at {key.revoked_at}",
            where="token, kid",
            next_step=_REISSUE_ADVICE,
        )
    if key.retired_at and token.issued_at > parse_time(key.retired_at):
        raise RefusedError(
            Reason.KEY_RETIRED,
            f"the key of this token was retired at {key.retired_at}, before the token was issued",
            where="token, kid",
            next_step=_REISSUE_ADVICE,
        )


def _require_same(found: str, expected: str, claim: str) -> None:
    if found != expected:
        raise RefusedError(
            Reason.BINDING_MISMATCH,
            f"the token has another {claim} than this workspace expects",
            where=f"token, {claim}",
            next_step=f"The expected value is {expected!r}. See `browser` in remit.yaml.",
        )


def _time(seconds: int, claim: str) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return _refuse("this is not a time", claim)


def _without_nulls(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if value is not None}


def _invalid(what: str, where: str) -> RefusedError:
    return RefusedError(Reason.AUTHORITY_MALFORMED, what, where=where, next_step=_REISSUE_ADVICE)


def _refuse(what: str, where: str) -> NoReturn:
    raise _invalid(what, where if where.startswith("token") else f"token, {where}")
