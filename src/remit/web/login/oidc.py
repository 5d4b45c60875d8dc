"""Login with an identity provider: OpenID Connect's authorization code flow, with PKCE, state and nonce.

A login is finished once, within ten minutes, in the browser that started it. The state is looked up and removed, and
the browser must send the cookie that it got with the state. Limit: a restart of the server forgets the logins that were
started. People then press the button again.
"""

import base64
import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from remit.contracts.config.oidc import Oidc
from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ids import Clock, system_clock
from remit.crypto.key_files import read_private
from remit.identity.models import Role
from remit.identity.person import Person
from remit.identity.secrets import secret_digest
from remit.web.login.id_token import Key, decide_role, id_token_error, read_keys, token_header, verify_id_token
from remit.web.login.oidc_http import request_json, require_safe_url

LOGIN_SECONDS: Final = 600.0
MOST_PENDING: Final = 1_000
_DISCOVERY_SECONDS: Final = 3_600.0
_KEYS_SECONDS: Final = 3_600.0
"""The longest time for which this server still accepts a key that the provider has withdrawn."""
_REFETCH_SECONDS: Final = 60.0
"""A token with an unknown key makes this server fetch the keys again, at most once in this time."""


@dataclass(frozen=True, slots=True)
class LoginStart:
    url: str
    browser_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LoginResult:
    person: Person
    role: Role
    user: str | None
    tenant: str | None
    goal: str


@dataclass(frozen=True, slots=True)
class _Pending:
    nonce: str
    verifier: str
    browser_digest: str
    goal: str
    until: float


@dataclass(frozen=True, slots=True)
class _Discovery:
    authorize: str
    token: str
    keys: str
    basic: bool
    until: float


class Provider:
    """One identity provider. Its methods block, so call them in a thread."""

    def __init__(
        self, config: Oidc, environ: Mapping[str, str], redirect_uri: str, clock: Clock = system_clock
    ) -> None:
        self._config = config
        self._secret = _client_secret(config, environ)
        self._redirect_uri = redirect_uri
        self._clock = clock
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._lock = threading.Lock()
        self._discovery: _Discovery | None = None
        self._keys: tuple[float, dict[tuple[str, str | None], Key]] | None = None

    @property
    def name(self) -> str:
        return self._config.name

    @property
    def basis(self) -> str:
        """The digest of the configuration that roles are derived from. If it changes, roles must be derived again."""
        return self._config.digest()

    def begin(self, goal: str) -> LoginStart:
        """Start a login. Return the address for the browser, and the secret that the browser must send at the end."""
        discovery = self._discover()
        state, browser = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        pending = _Pending(
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(48),
            secret_digest(browser),
            goal,
            time.monotonic() + LOGIN_SECONDS,
        )
        with self._lock:
            self._pending[state] = pending
            while len(self._pending) > MOST_PENDING:
                self._pending.popitem(last=False)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(pending.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._config.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *self._config.scopes))),
            "state": state,
            "nonce": pending.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return LoginStart(
            discovery.authorize + ("&" if "?" in discovery.authorize else "?") + urlencode(query), browser
        )

    def finish(self, query: Mapping[str, str], browser_secret: str | None) -> LoginResult:
        """Finish a login, and return the person whom the provider authenticated.

        Refuses a login that was started in another browser, has expired, or was finished before.
        """
        with self._lock:
            pending = self._pending.pop(query.get("state", ""), None)
        if (
            pending is None
            or browser_secret is None
            or secret_digest(browser_secret) != pending.browser_digest
            or time.monotonic() >= pending.until
        ):
            raise _refusal("it was started in another browser, or too long ago, or was finished already")
        if query.get("iss", self._config.issuer) != self._config.issuer:
            raise _refusal("another provider answered")
        code = query.get("code", "")
        if "error" in query or not 0 < len(code) <= 4_096:
            raise _refusal("the provider refused it, or sent no valid code")
        token = self._exchange(code, pending.verifier)
        claims = verify_id_token(token, self._key_for(token), self._config, pending.nonce, self._now())
        found = decide_role(claims, self._config)
        return LoginResult(found.person, found.role, found.user, found.tenant, pending.goal)

    def _now(self) -> datetime:
        return self._clock()

    def _discover(self) -> _Discovery:
        if self._discovery is not None and time.monotonic() < self._discovery.until:
            return self._discovery
        document = request_json(self._config.issuer.rstrip("/") + "/.well-known/openid-configuration")
        if not isinstance(document, dict) or document.get("issuer") != self._config.issuer:
            raise RefusedError(
                Reason.BINDING_MISMATCH,
                "the discovery document does not name this issuer",
                where=self._config.issuer,
                next_step="Write `issuer` in remit.yaml exactly as the provider does.",
            )
        methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        self._discovery = _Discovery(
            require_safe_url(document.get("authorization_endpoint"), "authorization endpoint"),
            require_safe_url(document.get("token_endpoint"), "token endpoint"),
            require_safe_url(document.get("jwks_uri"), "address of keys"),
            isinstance(methods, list) and "client_secret_basic" in methods,
            time.monotonic() + _DISCOVERY_SECONDS,
        )
        return self._discovery

    def _exchange(self, code: str, verifier: str) -> str:
        discovery = self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
            "client_id": self._config.client_id,
        }
        headers: dict[str, str] = {}
        if self._secret is not None and discovery.basic:
            pair = f"{quote(self._config.client_id, safe='')}:{quote(self._secret, safe='')}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        elif self._secret is not None:
            form["client_secret"] = self._secret
        answer = request_json(discovery.token, form, headers)
        token: Any = answer.get("id_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise _refusal("the provider sent no ID token")
        return token

    def _key_for(self, token: str) -> Key:
        algorithm, kid = token_header(token)
        age = time.monotonic() - self._keys[0] if self._keys else float("inf")
        key = self._find_key(algorithm, kid) if age <= _KEYS_SECONDS else None
        if key is None and age > _REFETCH_SECONDS:
            self._keys = time.monotonic(), read_keys(request_json(self._discover().keys))
            key = self._find_key(algorithm, kid)
        if key is None:
            raise id_token_error("its ID token is signed with a key that the provider does not publish")
        return key

    def _find_key(self, algorithm: str, kid: str | None) -> Key | None:
        keys = self._keys[1] if self._keys else {}
        if kid is not None:
            return keys.get((algorithm, kid))
        matching = [key for (kind, _), key in keys.items() if kind == algorithm]
        return matching[0] if len(matching) == 1 else None


def _client_secret(config: Oidc, environ: Mapping[str, str]) -> str | None:
    if config.client_secret_variable is not None:
        found = environ.get(config.client_secret_variable, "")
        where = f"environment variable {config.client_secret_variable}"
    elif config.client_secret_file is not None:
        where = config.client_secret_file
        found = read_private(Path(where), what="the file with the client secret").decode("utf-8", "replace").strip()
    else:
        return None
    if not found:
        raise EnvironmentFailureError(
            Reason.STATE_MISSING,
            "the client secret for the identity provider is missing",
            where=where,
            next_step="Store it there. The provider's settings show it.",
        )
    return found


def _refusal(why: str) -> RefusedError:
    return RefusedError(
        Reason.PERMISSION_DENIED,
        f"this login is not valid: {why}",
        where="identity provider",
        next_step="Log in again.",
    )
