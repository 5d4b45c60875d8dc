"""A small real identity provider on loopback: discovery, keys, tokens with real signatures; and every way to cheat."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CLIENT = "remit-console"
SECRET = "s3cret & more"


def _encoded(tree: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(tree).encode()).rstrip(b"=").decode()


@dataclass
class Provider:
    """`claims` are changed by a test before it lets somebody in; `sign` decides how the token is made."""

    rsa: RSAPrivateKey
    port: int = 0
    claims: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    sign: str = "RS256"
    answer: Callable[[str], bytes | None] = lambda _path: None
    issued: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    basic: str | None = None

    def __post_init__(self) -> None:
        self.elliptic = generate_private_key(SECP256R1())

    @property
    def issuer(self) -> str:
        return f"http://localhost:{self.port}"  # another site than 127.0.0.1, for a browser

    def behave(self) -> None:
        """As an honest one again."""
        self.claims, self.without, self.sign = {}, (), "RS256"
        self.answer = lambda _path: None

    def agree(self, url: str) -> str:
        """What a browser brings back, after somebody has logged in at `url`: the query of the callback."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        code = base64.urlsafe_b64encode(hashlib.sha256(query["state"].encode()).digest()).decode()
        self.issued[code] = query
        return urlencode({"code": code, "state": query["state"]})

    def token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "ada",
            "name": "Ada L.",
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            "groups": ["staff", "remit-approvers"],
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if name not in self.without}
        header = {"typ": "JWT", "kid": "one"}
        if self.sign == "none":
            return f"{_encoded({**header, 'alg': 'none'})}.{_encoded(claims)}."
        if self.sign == "HS256":  # with the public key, which everybody has, as the secret
            public = self.rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            body = f"{_encoded({**header, 'alg': 'HS256'})}.{_encoded(claims)}"
            made = hmac.new(public, body.encode(), "sha256").digest()
            return f"{body}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"
        if self.sign == "ES256":
            return jwt.encode(claims, self.elliptic, "ES256", {**header, "kid": "two"})
        if self.sign == "confused":  # the right signature, under the name of a key of the other kind
            return jwt.encode(claims, self.elliptic, "ES256", header)
        if self.sign == "forged":
            other = generate_rsa(65_537, 2_048)
            return jwt.encode(claims, other, "RS256", header)
        if self.sign == "changed":
            text = jwt.encode(claims, self.rsa, "RS256", header)
            head, _, signature = text.split(".")
            return f"{head}.{_encoded({**claims, 'groups': ['remit-admins']})}.{signature}"
        if self.sign == "unknown":
            return jwt.encode(claims, self.rsa, "RS256", {**header, "kid": "three"})
        return jwt.encode(claims, self.rsa, self.sign, header)

    def respond(self, path: str, form: dict[str, str], authorization: str | None) -> tuple[int, bytes]:
        self.asked.append(path)
        special = self.answer(path)
        if special is not None:
            return 200, special
        if path == "/.well-known/openid-configuration":
            known = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
            return 200, json.dumps(
                {"issuer": self.issuer, **{name: self.issuer + where for name, where in known.items()}}
            ).encode()
        if path == "/keys":
            rsa = jwt.algorithms.RSAAlgorithm.to_jwk(self.rsa.public_key(), as_dict=True)
            elliptic = jwt.algorithms.ECAlgorithm.to_jwk(self.elliptic.public_key(), as_dict=True)
            keys = [{**rsa, "kid": "one", "use": "sig"}, {**elliptic, "kid": "two", "alg": "ES256"}]
            junk: list[Any] = [{"kty": "oct", "k": "AAAA", "kid": "one"}, {"kty": "RSA", "n": "!"}, 7]
            return 200, json.dumps({"keys": [*junk, *keys]}).encode()
        asked = self.issued.pop(form.get("code", ""), None)
        if path != "/token" or asked is None:
            return 400, b'{"error": "invalid_grant"}'
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        self.basic = authorization
        if challenge.decode() != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, b'{"error": "invalid_grant"}'
        return 200, json.dumps({"access_token": "x", "id_token": self.token(asked["nonce"])}).encode()


@contextmanager
def providing(rsa: RSAPrivateKey) -> Iterator[Provider]:
    provider = Provider(rsa)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/authorize?"):  # nobody is asked for a password here
                asked = parse_qs(urlsplit(self.path).query)
                self.send_response(302)
                self.send_header("Location", f"{asked['redirect_uri'][0]}?{provider.agree(self.path)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self._reply({})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._reply({name: values[0] for name, values in parse_qs(raw).items()})

        def _reply(self, form: dict[str, str]) -> None:
            status, body = provider.respond(self.path, form, self.headers.get("Authorization"))
            self.send_response(302 if body.startswith(b"http") else status)
            if body.startswith(b"http"):
                self.send_header("Location", body.decode())
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.port = server.server_address[1]
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
