"""Logging in through an identity provider: a real one, with real signatures, and with every lie that it could tell."""

import base64
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from remit.contracts.config.oidc import Oidc
from remit.core.errors import EnvironmentFailureError, RefusedError
from remit.web.login import oidc
from remit.web.login.oidc import MOST_PENDING
from remit.web.login.oidc import Provider as Client
from remit.web.login.oidc_http import require_safe_url
from tests.web.guarded_server import Answer, Place, Served, serving
from tests.web.identity_provider import CLIENT, SECRET, Provider, providing

ROLES = [{"value": "remit-admins", "role": "admin"}, {"value": "remit-approvers", "role": "approver"}]
VISIT = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    with providing(generate_private_key(65_537, 2_048)) as provider:
        yield provider


@pytest.fixture
def provider(shared_provider: Provider) -> Iterator[Provider]:
    yield shared_provider
    shared_provider.behave()


def settings(provider: Provider, **more: Any) -> dict[str, Any]:
    return {"issuer": provider.issuer, "client_id": CLIENT, "roles": ROLES, **more}


@pytest.fixture(scope="module")
def oidc_server(
    shared_place: Place, shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    secret = tmp_path_factory.mktemp("oidc") / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    more = {"client_secret_file": str(secret), "user_claim": "email", "tenant": "acme", "name": "Acme"}
    trees = {"oidc": settings(shared_provider, **more), "limits": {"logins_per_minute": 1_000}}
    with serving(shared_place, trees=trees) as served:
        yield served


def begin(server: Served, path: str = "/login/oidc") -> tuple[str, str]:
    """The provider's address, and the cookie that the browser has to bring back."""
    answer = server.ask("GET", path)
    assert answer.status == 303, answer.body
    cookie = answer.get("set-cookie") or ""
    assert {"HttpOnly", "SameSite=Lax", "Max-Age=600"} <= set(cookie.split("; "))
    return answer.get("location") or "", f"remit_login={answer.cookie('remit_login')}"


def come_back(server: Served, query: str, cookie: str) -> Answer:
    return server.ask("GET", f"/login/oidc/callback?{query}", Cookie=cookie, **VISIT)


def try_login(server: Served, provider: Provider) -> Answer:
    url, cookie = begin(server)
    return come_back(server, provider.agree(url), cookie)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_person_whom_the_provider_knows_gets_the_role_of_the_table(
    oidc_server: Served, provider: Provider, place: Place, algorithm: str
) -> None:
    provider.sign = algorithm
    provider.claims = {"email": "ada@acme.example"}
    assert b"Log in with Acme" in oidc_server.ask("GET", "/login").body
    url, cookie = begin(oidc_server, "/login/oidc?next=/runs/7")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert url.startswith(provider.issuer + "/authorize?")
    assert (asked["response_type"], asked["code_challenge_method"], asked["scope"]) == (
        "code",
        "S256",
        "openid profile",
    )
    done = come_back(oidc_server, provider.agree(url), cookie)
    # No redirect: that would still be the provider's step, and the browser would keep a strict cookie back.
    assert done.status == 200
    assert b'content="0; url=/runs/7"' in done.body
    own = f"remit_session={done.cookie()}"
    assert oidc_server.ask("GET", "/v1/me", Cookie=own).problem == {"id": "oidc:ada"}
    found = place.workspace.people.session(done.cookie() or "")
    assert found is not None
    assert (found.role, found.user, found.tenant, found.person.name) == (
        "approver",
        "ada@acme.example",
        "acme",
        "Ada L.",
    )
    assert base64.b64decode((provider.basic or "").removeprefix("Basic ")) == b"remit-console:s3cret%20%26%20more"
    assert place.entries("person.logged_in")[-1][2]["how"] == "oidc"


LIES: dict[str, dict[str, Any]] = {
    "another nonce": {"why": "for another login", "claims": {"nonce": "x" * 43}},
    "no nonce": {"why": "for another login", "without": ("nonce",)},
    "another audience": {"why": "for another client", "claims": {"aud": "another-client"}},
    "another audience too, and not for us": {
        "why": "issued to another client",
        "claims": {"aud": [CLIENT, "other"], "azp": "other"},
    },
    "several audiences and no party": {"why": "issued to another client", "claims": {"aud": [CLIENT, "other"]}},
    "another issuer": {"why": "another issuer", "claims": {"iss": "https://evil.example"}},
    "over": {"why": "token has expired", "claims": {"exp": int(time.time()) - 120}},
    "of the future": {"why": "not valid yet", "claims": {"iat": int(time.time()) + 86_400}},
    "not yet": {"why": "not valid yet", "claims": {"nbf": int(time.time()) + 86_400}},
    "no expiry": {"why": "no valid times", "without": ("exp",)},
    "an expiry that is none": {"why": "no valid times", "claims": {"exp": True}},
    "nobody": {"why": "no valid subject", "without": ("sub",)},
    "a name with a line break": {"why": "no valid subject", "claims": {"sub": "a\nb"}},
    "alg none": {"why": "RS256 or ES256", "sign": "none"},
    "HS256 with the public key": {"why": "RS256 or ES256", "sign": "HS256"},
    "PS256": {"why": "RS256 or ES256", "sign": "PS256"},
    "a key of the other kind": {"why": "does not publish", "sign": "confused"},
    "another key": {"why": "signature of its ID token is not valid", "sign": "forged"},
    "changed claims": {"why": "signature of its ID token is not valid", "sign": "changed"},
    "an unknown key": {"why": "does not publish", "sign": "unknown"},
    "no role": {"why": "no role is configured", "claims": {"groups": ["staff"]}},
    "a role that is no text": {"why": "no role is configured", "claims": {"groups": [{"remit-admins": 1}, 7]}},
    "no groups": {"why": "no role is configured", "without": ("groups",)},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_login_whose_token_fails_a_check_is_refused(oidc_server: Served, provider: Provider, lie: str) -> None:
    told = dict(LIES[lie])
    why = told.pop("why")
    for name, value in told.items():
        setattr(provider, name, value)
    answer = try_login(oidc_server, provider)
    assert (answer.status, answer.cookie()) == (403, None)
    assert why in answer.body.decode()
    reason = "permission_denied" if why == "no role is configured" else "id_token_invalid"
    assert f">{reason}</p>" in answer.body.decode()
    provider.behave()
    assert try_login(oidc_server, provider).status == 200


def test_the_first_line_of_the_table_that_fits_counts(oidc_server: Served, provider: Provider, place: Place) -> None:
    people = place.workspace.people
    provider.claims = {"groups": ["remit-approvers", "remit-admins"]}
    cookie = try_login(oidc_server, provider).cookie() or ""
    found = people.session(cookie)
    assert found is not None
    assert (found.role, found.user, found.tenant) == ("admin", None, None)
    provider.claims = {"groups": "remit-approvers"}
    assert try_login(oidc_server, provider).status == 200
    assert people.session(cookie) is None  # he is no admin any more, here neither


def test_a_login_is_finished_once_in_the_browser_that_began_it(oidc_server: Served, provider: Provider) -> None:
    url, cookie = begin(oidc_server)
    query = provider.agree(url)
    assert come_back(oidc_server, query, "").status == 403  # and whoever tried has used it up
    assert come_back(oidc_server, query, cookie).status == 403
    url, cookie = begin(oidc_server)
    query, (_, other_cookie) = provider.agree(url), begin(oidc_server)
    assert come_back(oidc_server, query, other_cookie).status == 403
    url, cookie = begin(oidc_server)
    query = provider.agree(url)
    assert come_back(oidc_server, query, cookie).status == 200
    provider.agree(url)
    assert come_back(oidc_server, query, cookie).status == 403
    url, cookie = begin(oidc_server)
    query = provider.agree(url)
    for broken in (
        f"{query}&iss=https%3A%2F%2Fevil.example",
        "code=x",
        "state=x&code=y",
        "error=access_denied&state=z",
    ):
        assert come_back(oidc_server, broken, cookie).status == 403


def test_a_code_of_another_login_is_of_no_use(oidc_server: Served, provider: Provider) -> None:
    """PKCE: whoever steals a code cannot put it into a login of his own."""
    stolen = parse_qs(provider.agree(begin(oidc_server)[0]))["code"][0]
    url, cookie = begin(oidc_server)
    state = parse_qs(urlsplit(url).query)["state"][0]
    assert come_back(oidc_server, f"code={stolen}&state={state}", cookie).status == 403


NONSENSE = {
    b"{": "not JSON",
    b"[]": "does not name this issuer",
    b'{"issuer": "https://evil.example", "authorization_endpoint": "https://evil.example/a",'
    b' "token_endpoint": "https://evil.example/t", "jwks_uri": "https://evil.example/k"}': "does not name this issuer",
    b'{"issuer": "ISSUER", "authorization_endpoint": "http://evil.example/a"}': "endpoint is not an https address",
    b"x" * 300_000: "too large",
    b"http://127.0.0.1:1/elsewhere": "status 302",
}


@pytest.mark.parametrize("answer", NONSENSE, ids=lambda answer: answer[:20].decode())
def test_an_invalid_answer_of_the_provider_is_reported_to_people(
    place: Place, provider: Provider, answer: bytes
) -> None:
    provider.answer = lambda _path: answer.replace(b"ISSUER", provider.issuer.encode())
    client = Client(Oidc.from_tree(settings(provider)), {}, "http://127.0.0.1/x")
    with pytest.raises((RefusedError, EnvironmentFailureError), match=NONSENSE[answer]):
        client.begin("/")


def test_an_unreachable_provider_is_reported_to_people(place: Place) -> None:
    gone = {"issuer": "http://127.0.0.1:9", "client_id": CLIENT, "roles": ROLES}
    with serving(place, trees={"oidc": gone}) as server:
        answer = server.ask("GET", "/login/oidc")
        assert answer.status == 502
        assert b"gave no usable answer" in answer.body
        assert b">identity_provider_unavailable</p>" in answer.body


def test_another_table_of_roles_ends_the_sessions_of_the_old_one(
    oidc_server: Served, provider: Provider, place: Place
) -> None:
    cookie = try_login(oidc_server, provider).cookie() or ""
    assert place.workspace.people.session(cookie) is not None
    with serving(place):
        assert place.workspace.people.session(cookie) is None


def test_only_so_many_logins_wait_and_none_for_long(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(Oidc.from_tree(settings(provider)), {}, "http://127.0.0.1/x")
    first = client.begin("/")
    later = [client.begin("/") for _ in range(MOST_PENDING)]
    query = parse_qs(provider.agree(first.url))
    with pytest.raises(RefusedError):
        client.finish({name: values[0] for name, values in query.items()}, first.browser_secret)
    query = parse_qs(provider.agree(later[-1].url))
    monkeypatch.setattr(oidc, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 601))
    with pytest.raises(RefusedError, match="too long ago"):
        client.finish({name: values[0] for name, values in query.items()}, later[-1].browser_secret)


def test_a_key_that_the_provider_gave_up_counts_no_longer_than_an_hour(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(Oidc.from_tree(settings(provider)), {}, "http://127.0.0.1/x")

    def log_in() -> str:
        begun = client.begin("/")
        query = {name: values[0] for name, values in parse_qs(provider.agree(begun.url)).items()}
        return client.finish(query, begun.browser_secret).person.id

    assert log_in() == "oidc:ada"
    provider.answer = lambda path: b'{"keys": []}' if path == "/keys" else None
    assert log_in() == "oidc:ada"
    monkeypatch.setattr(oidc, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 3_601))
    with pytest.raises(RefusedError, match="does not publish"):
        log_in()


def test_the_clients_secret_comes_from_a_private_place(provider: Provider, tmp_path: Path) -> None:
    by_variable = Oidc.from_tree(settings(provider, client_secret_variable="OIDC_SECRET"))
    with pytest.raises(EnvironmentFailureError, match="client secret for the identity provider is missing"):
        Client(by_variable, {}, "http://127.0.0.1/x")
    Client(by_variable, {"OIDC_SECRET": "x"}, "http://127.0.0.1/x")
    file = tmp_path / "secret"
    file.write_text("x")
    file.chmod(0o644)
    by_file = Oidc.from_tree(settings(provider, client_secret_file=str(file)))
    with pytest.raises(EnvironmentFailureError, match="open to others"):
        Client(by_file, {}, "http://127.0.0.1/x")
    with pytest.raises(RefusedError, match="not both"):
        Oidc.from_tree(settings(provider, client_secret_file="/x", client_secret_variable="X"))
    assert os.environ.get("OIDC_SECRET") is None


def test_only_tls_or_this_machine_is_asked() -> None:
    for url in (
        "http://idp.example/keys",
        "file:///etc/passwd",
        "ftp://x/",
        "https://a@b/",
        "",
        None,
        "//x",
        7,
        "https://",
    ):
        with pytest.raises(RefusedError):
            require_safe_url(url, "address")
    assert require_safe_url("https://idp.example/keys", "address")
    for issuer in ("http://idp.example", "ftp://127.0.0.1", "https://x?y", "https://user@x"):
        with pytest.raises(RefusedError):
            Oidc.from_tree({"issuer": issuer, "client_id": CLIENT, "roles": ROLES})
    with pytest.raises(RefusedError):
        Oidc.from_tree({"issuer": "https://idp.example", "client_id": CLIENT, "roles": []})
