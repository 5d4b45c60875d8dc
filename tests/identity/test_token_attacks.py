"""Every known way to come by authority that nobody gave, mapped to tokens signed with RS256. None may pass."""

import base64
import json
import pickle
import socket
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from remit.authority import capability_token as tokens_module
from remit.authority.capability_token import (
    CLOCK_SKEW,
    Token,
    TokenRequest,
    VerifiedTokens,
    issue_token,
    require_in_time,
    verify_token,
)
from remit.browser.policy import browser_error, require_caller
from remit.contracts.browser.browser import TokenConstraints
from remit.core.errors import Reason, RefusedError
from remit.crypto.rsa_keys import TokenKey, TokenKeys, TokenSigner
from tests.identity.forging import (
    AUDIENCE,
    CLAIMS,
    HEADER,
    ISSUER,
    NOW,
    SECONDS,
    keyed,
    public_pem,
    rsa_key,
    segment,
    signed,
    trusted,
)

pytestmark = pytest.mark.req("VX-01")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def verified(text: str, keys: TokenKeys | None = None) -> Token:
    return verify_token(text, keys or trusted(), ISSUER, AUDIENCE, NOW)


def refused(text: str, keys: TokenKeys | None = None) -> RefusedError:
    """Also by one that found the good token signed before: it must not take this one for that."""
    known, found = trusted(), VerifiedTokens()
    found.verify(GOOD, known, ISSUER, AUDIENCE, NOW)
    with pytest.raises(RefusedError) as again:
        found.verify(text, keys or known, ISSUER, AUDIENCE, NOW)
    with pytest.raises(RefusedError) as caught:
        verified(text, keys)
    assert (again.value.reason, again.value.what) == (caught.value.reason, caught.value.what)
    return caught.value


def code(problem: RefusedError) -> str:
    return browser_error(problem).code


def without(claim: str) -> dict[str, Any]:
    return {name: value for name, value in CLAIMS.items() if name != claim}


def malleable(text: str) -> str:
    """The same bytes in another spelling: the spare bits of the last character are set."""
    head, _, signature = text.rpartition(".")
    place = ALPHABET.index(signature[-1])
    return f"{head}.{signature[:-1]}{ALPHABET[place ^ 1]}"


def raw_payload() -> str:
    body = segment({**HEADER, "b64": False, "crit": ["b64"]}) + "." + json.dumps(CLAIMS)
    return f"{body}.{segment(rsa_key('k1').sign(body.encode(), padding.PKCS1v15(), SHA256()))}"


def spliced() -> str:
    other = signed(HEADER, {**CLAIMS, "sub": "somebody"})
    return ".".join([*signed(HEADER, CLAIMS).split(".")[:2], other.split(".")[2]])


def flipped() -> str:
    header, _, signature = signed(HEADER, CLAIMS).split(".")
    return f"{header}.{segment({**CLAIMS, 'sub': 'agent-2'})}.{signature}"


def flattened() -> str:
    protected, payload, signature = signed(HEADER, CLAIMS).split(".")
    return json.dumps({"protected": protected, "payload": payload, "signature": signature})


def unsigned(algorithm: Any) -> str:
    return f"{segment({**HEADER, 'alg': algorithm})}.{segment(CLAIMS)}."


def duplicated(claim: str, second: str) -> bytes:
    text = json.dumps(CLAIMS)
    return f"{text[:-1]}, {json.dumps(claim)}: {second}}}".encode()


PEM = public_pem(rsa_key("k1"))
EVIL = rsa_key("evil")
GOOD = signed(HEADER, CLAIMS)
ATTACKS: dict[str, str] = {
    "lease-001 alg none": unsigned("none"),
    "lease-003 alg NONE": unsigned("NONE"),
    "lease-006 alg null": unsigned(None),
    "alg none with a signature": signed({**HEADER, "alg": "none"}, CLAIMS),
    "alg RS512": signed({**HEADER, "alg": "RS512"}, CLAIMS),
    "alg rs256": signed({**HEADER, "alg": "rs256"}, CLAIMS),
    "lease-008 HS256 with the public key": keyed({**HEADER, "alg": "HS256"}, CLAIMS, PEM),
    "lease-008 RS256 that is an HMAC": keyed(HEADER, CLAIMS, PEM),
    "lease-010 HS256 with the thumbprint": keyed({**HEADER, "alg": "HS256"}, CLAIMS, b"k1"),
    "lease-011 HS256 with no secret": keyed({**HEADER, "alg": "HS256"}, CLAIMS, b""),
    "lease-015 embedded jwk": signed({**HEADER, "jwk": {"kty": "RSA", "n": "AQAB", "e": "AQAB"}}, CLAIMS, EVIL),
    "lease-016 jku": signed({**HEADER, "jku": "https://evil.test/jwks.json"}, CLAIMS, EVIL),
    "x5u": signed({**HEADER, "x5u": "https://evil.test/cert.pem"}, CLAIMS, EVIL),
    "lease-018 x5c": signed({**HEADER, "x5c": ["MIIB"]}, CLAIMS, EVIL),
    "jku by the right key": signed({**HEADER, "jku": "https://evil.test/jwks.json"}, CLAIMS),
    "lease-019 kid is a path": signed({**HEADER, "kid": "../../../../dev/null"}, CLAIMS, EVIL),
    "lease-020 kid is SQL": signed({**HEADER, "kid": "k1' UNION SELECT 'x'--"}, CLAIMS, EVIL),
    "lease-021 kid of a megabyte": signed({**HEADER, "kid": "A" * (1 << 20)}, CLAIMS),
    "kid of two kilobytes": signed({**HEADER, "kid": "A" * 2_000}, CLAIMS),
    "kid is a list": signed({**HEADER, "kid": ["k1"]}, CLAIMS),
    "kid missing": signed({"alg": "RS256", "typ": "JWT"}, CLAIMS),
    "unknown kid": signed({**HEADER, "kid": "k2"}, CLAIMS),
    "signed with another key": signed(HEADER, CLAIMS, EVIL),
    "lease-025 crit": signed({**HEADER, "crit": ["exp2"], "exp2": 1}, CLAIMS),
    "lease-026 b64 false": raw_payload(),
    "b64 true": signed({**HEADER, "b64": True}, CLAIMS),
    "lease-027 zip": signed({**HEADER, "zip": "DEF"}, CLAIMS),
    "lease-029 typ missing": signed({"alg": "RS256", "kid": "k1"}, CLAIMS),
    "typ of another kind": signed({**HEADER, "typ": "lease+jwt"}, CLAIMS),
    "lease-030 cty": signed({**HEADER, "cty": "JWT"}, CLAIMS),
    "a header that nobody knows": signed({**HEADER, "note": "x"}, CLAIMS),
    "header is a list": signed([HEADER], CLAIMS),
    "header has a key twice": signed(b'{"alg": "none", "alg": "RS256", "typ": "JWT", "kid": "k1"}', CLAIMS),
    "lease-036 exp as text": signed(HEADER, {**CLAIMS, "exp": "9999999999"}),
    "lease-037 exp NaN": signed(HEADER, duplicated("x", "1").replace(str(CLAIMS["exp"]).encode(), b"NaN")),
    "lease-037 exp Infinity": signed(HEADER, json.dumps({**CLAIMS, "exp": float("inf")}).encode()),
    "lease-037 exp 1e308": signed(HEADER, {**CLAIMS, "exp": 1e308}),
    "exp of 2^53": signed(HEADER, {**CLAIMS, "exp": 2**53 - 1}),
    "exp is true": signed(HEADER, {**CLAIMS, "exp": True}),
    "exp with a fraction": signed(HEADER, {**CLAIMS, "exp": SECONDS + 60.5}),
    "iat with a fraction": signed(HEADER, {**CLAIMS, "iat": SECONDS - 0.5}),
    "exp before iat": signed(HEADER, {**CLAIMS, "iat": SECONDS + 30, "exp": SECONDS + 20}),
    "lease-039 exp in ten years": signed(HEADER, {**CLAIMS, "exp": SECONDS + 10 * 365 * 86_400}),
    "a life of 31 days and a second": signed(HEADER, {**CLAIMS, "exp": CLAIMS["iat"] + 31 * 86_400 + 1}),
    "lease-041 aud list with ours": signed(HEADER, {**CLAIMS, "aud": [AUDIENCE, "evil"]}),
    "aud list with ours alone": signed(HEADER, {**CLAIMS, "aud": [AUDIENCE]}),
    "wrong aud": signed(HEADER, {**CLAIMS, "aud": "somebody"}),
    "aud is null": signed(HEADER, {**CLAIMS, "aud": None}),
    "lease-044 iss with a slash": signed(HEADER, {**CLAIMS, "iss": f"{ISSUER}/"}),
    "iss in capitals": signed(HEADER, {**CLAIMS, "iss": ISSUER.upper()}),
    "lease-046 jti is null": signed(HEADER, {**CLAIMS, "jti": None}),
    "jti is empty": signed(HEADER, {**CLAIMS, "jti": ""}),
    "jti is a number": signed(HEADER, {**CLAIMS, "jti": 7}),
    "sub with an escape": signed(HEADER, {**CLAIMS, "sub": "a\x1b[2J"}),
    "lease-051 a claim that nobody knows": signed(HEADER, {**CLAIMS, "depth": 100}),
    "lease-056 newline at the end": GOOD + "\n",
    "space at the front": " " + GOOD,
    "newline within": GOOD.replace(".", ".\n", 1),
    "padding": GOOD + "=",
    "lease-057 other tail bits": malleable(GOOD),
    "plain base64": GOOD[:-1] + "+",
    "lease-059 two segments": GOOD.rpartition(".")[0],
    "lease-059 four segments": GOOD + ".e30",
    "five segments": GOOD + ".e30.e30",
    "lease-060 JSON serialization": flattened(),
    "lease-061 flipped payload": flipped(),
    "lease-062 signature of another token": spliced(),
    "signature missing": GOOD.rpartition(".")[0] + ".",
    "lease-064 homoglyph": signed(HEADER, {**CLAIMS, "caps": ["browser.n\u0430vigate"]}),
    "lease-065 wildcard": signed(HEADER, {**CLAIMS, "caps": ["*"]}),
    "wildcard of the door": signed(HEADER, {**CLAIMS, "caps": ["browser.*"]}),
    "lease-067 no capability": signed(HEADER, {**CLAIMS, "caps": []}),
    "caps is a text": signed(HEADER, {**CLAIMS, "caps": "browser.navigate"}),
    "lease-068 unknown constraint": signed(HEADER, {**CLAIMS, "constraints": {"max_byts": 10}}),
    "domains on a public suffix": signed(HEADER, {**CLAIMS, "constraints": {"domains": ["*.co.uk"]}}),
    "constraints is null": signed(HEADER, {**CLAIMS, "constraints": None}),
    "exp twice": signed(HEADER, duplicated("exp", "9999999999")),
    "caps twice": signed(HEADER, duplicated("caps", '["browser.purchase"]')),
    "claims are a list": signed(HEADER, [CLAIMS]),
    "claims are no JSON": signed(HEADER, b"\xff\xfe"),
    "nothing": "",
    "dots": "..",
    "no ASCII": GOOD.replace("e", "\u0435", 1),
    "too long": GOOD + "A" * 20_000,
}


@pytest.mark.req("VX-11", "VX-14")
@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in ATTACKS.items()])
def test_a_text_that_is_not_a_valid_token_is_refused_as_invalid(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_: pytest.fail("a token made us use the network"))
    problem = refused(text)
    assert code(problem) == "TOKEN_INVALID"
    assert str(problem)


def test_lease_071_a_good_token_is_accepted() -> None:
    token = verified(GOOD)
    assert (token.agent_id, token.jti, token.kid) == ("agent-1", "token-1", "k1")
    assert token.caps == {"browser.navigate"}
    assert token.constraints.domains == ("example.com",)
    assert token.digest.startswith("sha256:")


def test_a_token_without_constraints_allows_no_host() -> None:
    assert verified(signed(HEADER, without("constraints"))).constraints == TokenConstraints()


@pytest.mark.req("VX-15")
@pytest.mark.parametrize("claim", ["exp", "iat", "jti", "sub", "caps", "iss", "aud"])
def test_a_missing_claim_makes_the_token_invalid_and_is_named(claim: str) -> None:
    problem = refused(signed(HEADER, without(claim)))
    assert code(problem) == "TOKEN_INVALID"
    assert claim in f"{problem.where} {problem.what}"


def test_a_token_is_valid_from_its_start_until_its_expiry(subtests: pytest.Subtests) -> None:
    for changes, expected in [
        ({"exp": SECONDS}, "TOKEN_EXPIRED"),
        ({"exp": SECONDS - 1}, "TOKEN_EXPIRED"),
        ({"exp": SECONDS + 1}, ""),
        ({"nbf": SECONDS + 3_600}, "TOKEN_INVALID"),
        ({"nbf": SECONDS + 1}, "TOKEN_INVALID"),
        ({"nbf": SECONDS}, ""),
        ({"iat": SECONDS + 3_600, "exp": SECONDS + 7_200}, "TOKEN_INVALID"),
        ({"iat": SECONDS + 61, "exp": SECONDS + 7_200}, "TOKEN_INVALID"),
        ({"iat": SECONDS + 60, "exp": SECONDS + 7_200}, ""),
        ({"exp": CLAIMS["iat"] + 31 * 86_400}, ""),
    ]:
        with subtests.test(expected):
            text = signed(HEADER, {**CLAIMS, **changes})
            if expected:
                assert code(refused(text)) == expected
            else:
                assert verified(text).jti == "token-1"


def test_lease_070_an_expired_token_stays_expired() -> None:
    token = verified(GOOD)
    with pytest.raises(RefusedError) as caught:
        require_in_time(token, token.expires_at)
    assert code(caught.value) == "TOKEN_EXPIRED"
    require_in_time(token, token.expires_at - timedelta(seconds=1))


def test_lease_023_a_retired_key_verifies_only_tokens_that_it_signed_before() -> None:
    before, after = "2026-01-31T09:29:50Z", "2026-01-31T09:29:49.999999Z"
    assert verified(GOOD, trusted(retired_at=before)).jti == "token-1"
    problem = refused(GOOD, trusted(retired_at=after))
    assert (problem.reason, code(problem)) == (Reason.KEY_RETIRED, "TOKEN_INVALID")


@pytest.mark.req("VX-02")
def test_a_token_of_a_revoked_key_is_refused() -> None:
    assert code(refused(GOOD, trusted(revoked_at="2027-01-01T00:00:00Z"))) == "TOKEN_REVOKED"


def test_lease_022_a_thousand_unknown_keys_are_cheap_and_the_known_one_still_works() -> None:
    body = GOOD.split(".", 1)[1]
    for number in range(1_000):
        assert refused(f"{segment({**HEADER, 'kid': f'random-{number}'})}.{body}").reason is Reason.KEY_UNKNOWN
    assert verified(GOOD).jti == "token-1"


@pytest.mark.parametrize("bits,exponent", [(1_024, 65_537), (2_047, 65_537), (2_048, 3)])
def test_a_weak_key_is_refused_even_if_it_is_trusted(bits: int, exponent: int) -> None:
    weak = generate_private_key(exponent, bits)
    with pytest.raises(RefusedError, match="bits and an exponent"):
        TokenKey("weak", "trusted", weak.public_key(), "2026-01-01T00:00:00Z")


def test_lease_066_a_token_of_one_agent_is_refused_for_another() -> None:
    token = verified(GOOD)
    require_caller(token, "agent-1")
    require_caller(token, None)
    with pytest.raises(RefusedError) as caught:
        require_caller(token, "agent-2")
    assert code(caught.value) == "TOKEN_INVALID"


def wish(**changes: Any) -> TokenRequest:
    given: dict[str, Any] = {
        "agent_id": "agent-1",
        "caps": ("browser.click", "browser.click"),
        "constraints": TokenConstraints(domains=("example.com",), max_actions=2),
        "life": timedelta(hours=1),
        **changes,
    }
    return TokenRequest(**given)


def test_an_issued_token_is_verified_here_and_by_another_library() -> None:
    signer = TokenSigner(rsa_key("k1"))
    issued = issue_token(signer, wish(), ISSUER, AUDIENCE, NOW)
    keys = TokenKeys([TokenKey(signer.kid, "own", rsa_key("k1").public_key(), "2026-01-01T00:00:00Z")])
    token = verified(issued.text, keys)
    assert (token.agent_id, token.caps, token.digest) == ("agent-1", frozenset(["browser.click"]), issued.digest)
    assert token.expires_at - NOW == timedelta(hours=1)
    assert token.constraints.max_actions == 2
    header = json.loads(base64.urlsafe_b64decode(issued.text.split(".")[0] + "=="))
    assert header == {"alg": "RS256", "typ": "JWT", "kid": signer.kid}
    assert issued.text not in repr(issued)


@pytest.mark.parametrize("life", [timedelta(0), timedelta(seconds=-5), timedelta(days=31, seconds=2)])
def test_a_token_with_too_short_or_too_long_a_lifetime_is_not_issued(life: timedelta) -> None:
    with pytest.raises(RefusedError, match="within 31 days"):
        issue_token(TokenSigner(rsa_key("k1")), wish(life=life), ISSUER, AUDIENCE, NOW)


def test_a_token_for_later_is_valid_from_that_second_on() -> None:
    signer, begin = TokenSigner(rsa_key("k1")), NOW + timedelta(hours=2)
    issued = issue_token(signer, wish(not_before=begin), ISSUER, AUDIENCE, NOW)
    keys = TokenKeys([TokenKey(signer.kid, "own", rsa_key("k1").public_key(), "2026-01-01T00:00:00Z")])
    with pytest.raises(RefusedError) as caught:
        verify_token(issued.text, keys, ISSUER, AUDIENCE, begin - timedelta(seconds=1))
    assert caught.value.reason is Reason.NOT_YET_VALID
    token = verify_token(issued.text, keys, ISSUER, AUDIENCE, begin)
    assert token.expires_at == begin + timedelta(hours=1)
    assert timedelta(seconds=60) == CLOCK_SKEW


def test_the_private_key_cannot_be_copied_out_of_its_process() -> None:
    signer = TokenSigner(rsa_key("k1"))
    with pytest.raises(Exception, match="may not be copied"):
        pickle.dumps(signer)
    assert "private" not in repr(signer).lower()


def test_a_cached_token_is_checked_again_for_all_that_may_have_changed() -> None:
    known, found = trusted(), VerifiedTokens()
    first = found.verify(GOOD, known, ISSUER, AUDIENCE, NOW)
    assert found.verify(GOOD, known, ISSUER, AUDIENCE, NOW) is first
    assert found.contains(GOOD)
    late = NOW + timedelta(hours=2)
    others = [
        (trusted(revoked_at="2027-01-01T00:00:00Z"), ISSUER, AUDIENCE, NOW, Reason.REVOKED),
        (TokenKeys(), ISSUER, AUDIENCE, NOW, Reason.KEY_UNKNOWN),
        (known, "somebody else", AUDIENCE, NOW, Reason.BINDING_MISMATCH),
        (known, ISSUER, "somebody else", NOW, Reason.BINDING_MISMATCH),
        (known, ISSUER, AUDIENCE, late, Reason.EXPIRED),
    ]
    for keys, issuer, audience, at, reason in others:
        found.verify(GOOD, known, ISSUER, AUDIENCE, NOW)
        with pytest.raises(RefusedError) as caught:
            found.verify(GOOD, keys, issuer, audience, at)
        assert caught.value.reason == reason


def test_the_cache_of_verified_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "MAX_CACHED", 3)
    known, found = trusted(), VerifiedTokens()
    texts = [signed(HEADER, {**CLAIMS, "jti": f"token-{number}"}) for number in range(5)]
    assert [found.verify(text, known, ISSUER, AUDIENCE, NOW).jti for text in texts] == [
        f"token-{number}" for number in range(5)
    ]
    assert [found.contains(text) for text in texts] == [False, False, False, True, True]
