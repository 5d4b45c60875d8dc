"""What the guard lets through, and everything that it must not. Each test sends real bytes to a real server."""

import contextlib
import http.client
import json
import select
import time

import pytest

from remit.contracts.config.web import Web
from remit.services.base.fair_share import FairShareQuota, Share
from remit.web.config.hosts import Addresses, is_loopback, split_host
from remit.web.config.settings import WebSettings
from remit.web.security.rate_limit import MOST_BUCKETS, Buckets, retry_after
from tests.web.guarded_server import Place, Served, serving

ANYWHERE = "0.0.0.0"  # noqa: S104 - as a name, to be refused


def bearer(place: Place) -> dict[str, str]:
    return {"Authorization": f"Bearer {place.token()}"}


# --- who asks


def test_an_agent_is_known_by_its_token_and_a_person_by_the_session(server: Served, place: Place) -> None:
    assert server.ask("GET", "/v1/me", **bearer(place)).problem == {"id": "agent:bot"}
    cookie, _ = server.log_in("ada")
    assert server.ask("GET", "/v1/me", Cookie=f"remit_session={cookie}").problem == {"id": "link:ada"}
    assert server.ask("GET", "/inbox", **bearer(place)).status == 403  # no token makes a person of an agent
    nobody = server.ask("GET", "/v1/me")
    assert (nobody.status, nobody.get("www-authenticate")) == (401, 'Bearer realm="remit"')


def test_a_request_without_a_valid_credential_needs_authentication_and_one_without_permission_is_denied(
    server: Served, place: Place
) -> None:
    ended, _ = server.log_in("eve")
    place.workspace.people.remove("eve", actor="os:test")
    for headers in ({}, {"Cookie": "remit_session=unknown"}, {"Cookie": f"remit_session={ended}"}):
        refused = server.ask("GET", "/v1/me", **headers)
        assert (refused.status, refused.problem["code"]) == (401, "authentication_required")
        assert "token" in refused.problem["what"], "the message says what is missing"
        assert "remit token issue" in refused.problem["next_step"]
    denied = server.ask("GET", "/inbox", **bearer(place))
    assert (denied.status, denied.problem["code"]) == (403, "permission_denied")


def test_what_is_not_one_plain_bearer_token_is_refused(server: Served, place: Place) -> None:
    token = place.token()
    for text in (
        f"bearer {token}",
        f"Bearer  {token}",
        f"Basic {token}",
        token,
        "Bearer",
        f"Bearer {token} x",
        "Bearer é",
    ):
        answer = server.ask("GET", "/v1/me", Authorization=text)
        assert (answer.status, answer.problem["code"]) == (401, "authority_malformed"), text
        assert "`Bearer TOKEN`" in answer.problem["what"], "advice is not masked"
    for text in (f"Bearer {token}x", "Bearer a.b.c", f"Bearer {token[:-4]}AAAA"):
        answer = server.ask("GET", "/v1/me", Authorization=text)
        assert answer.status == 401, text
        assert 'error="invalid_token"' in (answer.get("www-authenticate") or "")
    for name in ("token", "access_token"):
        assert server.ask("GET", f"/v1/me?{name}={token}").status == 401
    cookie, _ = server.log_in()
    assert server.ask("GET", "/v1/me", Authorization=f"Bearer {token}", Cookie=f"remit_session={cookie}").status == 401
    assert server.ask("GET", "/v1/me", Cookie=f"remit_session={cookie}; remit_session={'a' * 43}").status == 401


def test_a_revoked_token_and_an_ended_session_stop_counting_at_once(server: Served, place: Place) -> None:
    token = place.token()
    own = {"Authorization": f"Bearer {token}"}
    assert server.ask("GET", "/v1/counts", **own).problem == {"counts": True}
    place.workspace.tokens.revoke(place.workspace.tokens.verify(token).jti, actor="os:test")
    assert (server.ask("GET", "/v1/me", **own).status, server.ask("GET", "/v1/me", **own).problem["code"]) == (
        401,
        "revoked",
    )
    cookie, _ = server.log_in("bob")
    assert server.ask("GET", "/v1/counts", Cookie=f"remit_session={cookie}").problem == {"counts": True}
    place.workspace.people.remove("bob", actor="os:test")
    assert server.ask("GET", "/v1/me", Cookie=f"remit_session={cookie}").status == 401


# --- DNS rebinding, other sites, CSRF


def test_only_our_own_names_are_answered(server: Served) -> None:
    for name in (f"127.0.0.1:{server.port}", f"localhost:{server.port}", "LOCALHOST", "[::1]:99", "localhost."):
        assert server.ask("GET", "/login", Host=name).status == 200, name
    for name in (
        "evil.example",
        f"evil.example:{server.port}",
        "127.0.0.1.evil.example",
        "localhost@evil",
        ANYWHERE,
        "",
    ):
        answer = server.ask("GET", "/login", Host=name)
        assert answer.status == 421, name
    with server.raw() as raw:  # two, of which a proxy might have looked at the other
        raw.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")


def test_other_sites_can_link_here_and_do_nothing_else(server: Served, place: Place) -> None:
    own = bearer(place)
    for origin in (
        "https://evil.example",
        "null",
        "http://127.0.0.1:1",
        f"https://127.0.0.1:{server.port}",
        "http://localhost",
    ):
        for method, path in (("GET", "/v1/me"), ("POST", "/v1/echo"), ("OPTIONS", "/v1/echo"), ("POST", "/login")):
            answer = server.ask(method, path, Origin=origin, **own)
            assert (answer.status, answer.get("access-control-allow-origin")) == (403, None), (origin, method)
    assert server.ask("GET", "/v1/me", Origin=server.origin, **own).status == 200
    for site in ("cross-site", "same-site"):  # a page on another port of this machine is of the same site
        for mode in ("no-cors", "cors", "websocket"):
            assert server.ask("GET", "/v1/me", Sec_Fetch_Site=site, Sec_Fetch_Mode=mode, **own).status == 403
        assert server.ask("POST", "/login", b"", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate").status == 403
        visit = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate"}
        assert server.ask("GET", "/login", Sec_Fetch_Dest="document", **visit).status == 200
        for place_in_page in ("iframe", "frame", "object", "embed"):
            assert server.ask("GET", "/login", Sec_Fetch_Dest=place_in_page, **visit).status == 403


def test_a_link_on_another_site_is_asked_for_again_with_the_cookie(server: Served) -> None:
    visit = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    answer = server.ask("GET", '/inbox?x=1&y="><script>', **visit)
    assert answer.status == 200
    assert b'content="0; url=/inbox?x=1&amp;y=' in answer.body
    assert b"<script" not in answer.body
    assert b"url=/evil.example/" in server.ask("GET", "//evil.example/", **visit).body
    assert server.ask("GET", "/inbox", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="navigate").status == 401
    assert server.ask("GET", "/v1/me", **visit).status == 401


def test_an_unsafe_request_of_a_person_needs_the_sessions_own_token(server: Served) -> None:
    cookie, csrf = server.log_in("cara")
    _, other_csrf = server.log_in("dan")
    own = {"Cookie": f"remit_session={cookie}", "Origin": server.origin}
    before = len(server.bodies)
    silent = server.ask("POST", "/v1/echo", b"{}", Cookie=own["Cookie"], X_Remit_CSRF=csrf)
    assert (silent.status, "does not say which page sent it" in silent.problem["what"]) == (403, True)
    for given in (
        {},
        {"X_Remit_CSRF": other_csrf},
        {"X_Remit_CSRF": csrf[:-1]},
        {"X_Remit_CSRF": cookie},
        {"X_Remit_CSRF": ""},
    ):
        answer = server.ask("POST", "/v1/echo", b"{}", **own, **given)
        assert answer.status == 403, given
        assert csrf.encode() not in answer.body
    fields = [b"", b"csrf=" + other_csrf.encode(), b"csrf=" + csrf.encode() + b"&csrf=" + csrf.encode()]
    for body in fields:
        assert (
            server.ask("POST", "/v1/echo", body, Content_Type="application/x-www-form-urlencoded", **own).status == 403
        )
    # A page elsewhere can send such a body without being asked first, but it does not know the token.
    assert server.ask("POST", "/v1/echo", f"csrf={csrf}".encode(), Content_Type="text/plain", **own).status == 403
    without_origin = {"Cookie": f"remit_session={cookie}", "X_Remit_CSRF": csrf}
    assert server.ask("POST", "/v1/echo", b"{}", **without_origin).status == 403
    assert len(server.bodies) == before
    assert server.ask("POST", "/v1/echo", b"{}", X_Remit_CSRF=csrf, **own).status == 200
    assert server.form("/v1/echo", {"csrf": csrf, "a": "1"}, Cookie=own["Cookie"]).status == 200
    assert server.bodies[before:] == [b"{}", f"csrf={csrf}&a=1".encode()]
    override = {"X_HTTP_Method_Override": "DELETE"}
    assert server.ask("POST", "/v1/echo", b"{}", X_Remit_CSRF=csrf, **own, **override).status == 200


def test_an_agents_request_needs_no_such_token(server: Served, place: Place) -> None:
    assert server.ask("POST", "/v1/echo", b"{}", **bearer(place)).status == 200


# --- what every answer says


@pytest.mark.parametrize("path", ["/login", "/v1/me", "/v1/broken", "/nothing", "/v1/stream", "/static/js/login.js"])
def test_every_answer_has_the_security_headers(server: Served, path: str) -> None:
    answer = server.ask("GET", path)
    policy = answer.get("content-security-policy") or ""
    for rule in (
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
    ):
        assert rule in policy.split("; "), path
    assert "unsafe" not in policy
    expected = {
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "strict-transport-security": None,
        "server": None,
        "cache-control": "no-cache" if path.startswith("/static") else "no-store",
    }
    assert {name: answer.get(name) for name in expected} == expected
    assert b"Traceback" not in answer.body


def test_under_tls_cookies_and_transport_are_bound_to_it(place: Place) -> None:
    with serving(place, trees={"public_url": "https://remit.example"}) as server:
        link = place.workspace.people.invite("tls", "viewer", actor="os:test")
        own = {"Origin": "https://remit.example", "Host": "remit.example"}
        answer = server.form("/login", {"code": link.code}, **own)
        cookie = answer.get("set-cookie") or ""
        assert cookie.startswith("__Host-remit_session=")
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert "Domain" not in cookie
        assert answer.get("strict-transport-security") == "max-age=31536000"
        value = answer.cookie("__Host-remit_session")
        assert server.ask("GET", "/v1/me", Cookie=f"remit_session={value}").status == 401  # set by plain HTTP, perhaps
        assert server.ask("GET", "/v1/me", Cookie=f"__Host-remit_session={value}").status == 200


# --- bodies and connections


def test_bodies_that_are_too_large_are_refused_at_once(server: Served, place: Place) -> None:
    own, before = bearer(place), len(server.bodies)
    with server.raw() as raw:  # not one byte of it is sent
        head = f"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: {own['Authorization']}\r\n"
        raw.sendall(f"{head}Content-Length: 104857600\r\n\r\n".encode())
        assert raw.recv(200).startswith(b"HTTP/1.1 413")
    with server.raw() as raw:  # and one that does not say how long it is
        raw.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        answer = b""
        try:
            for _ in range(100):
                raw.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            answer = raw.recv(200)
        except OSError:
            answer = answer or raw.recv(200)
        assert answer.startswith(b"HTTP/1.1 413")
    strangers = server.ask("POST", "/login", b"x" * 70_000, Origin=server.origin)
    assert strangers.status == 413  # whoever is not known is read less of
    assert len(server.bodies) == before
    assert server.ask("POST", "/v1/echo", b"x" * 200_000, **own).status == 200


def test_a_body_that_trickles_in_is_given_up(server: Served, place: Place) -> None:
    before = len(server.bodies)
    with server.raw() as raw:
        head = f"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer(place)['Authorization']}\r\n"
        raw.sendall(f"{head}Content-Length: 100\r\n\r\nx".encode())
        assert raw.recv(200).startswith(b"HTTP/1.1 408")
        while raw.recv(4096):
            pass  # and the connection is closed
    assert len(server.bodies) == before


def test_bodies_of_one_caller_use_a_limited_quota_until_they_are_answered(place: Place) -> None:
    with serving(place) as server:
        server.app.state.guard.body_bytes = FairShareQuota(
            "bytes", 2_500, agents=Share(1_500, 2_000), people=Share(1_500, 2_500)
        )
        own = bearer(place)
        head = f"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: {own['Authorization']}\r\n"
        begun = f"{head}Content-Length: 1001\r\n\r\n{'x' * 1_000}".encode()
        with server.raw() as first, server.raw() as second:
            for one in (first, second):
                one.sendall(begun)
            (refused,) = select.select([first, second], [], [], 10)[0]
            assert refused.recv(4096).startswith(b"HTTP/1.1 429")
            cookie, csrf = server.log_in()
            person = {"Cookie": f"remit_session={cookie}", "X_Remit_CSRF": csrf, "Origin": server.origin}
            assert server.ask("POST", "/v1/echo", b"x" * 1_000, **person).status == 200
            waiting = second if refused is first else first
            waiting.sendall(b"y")
            assert waiting.recv(4096).startswith(b"HTTP/1.1 200")
        assert server.ask("POST", "/v1/echo", b"x" * 1_400, **own).status == 200
        room, until = server.app.state.guard.body_bytes, time.monotonic() + 10
        while len(room) and time.monotonic() < until:  # the answer is on its way before the server is done with it
            time.sleep(0.001)
        assert len(room) == 0


def test_headers_that_trickle_in_and_silent_connections_are_given_up(server: Served) -> None:
    silent, slow, later = server.raw(), server.raw(), server.raw()
    with silent, slow, later:
        slow.sendall(b"GET /login HTTP/1.1\r\nHost: local")
        later.sendall(b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert later.recv(200).startswith(b"HTTP/1.1 401")
        answer = http.client.HTTPResponse(later)
        later.sendall(b"GET /v1/me HTTP/1.1\r\nHo")  # the second request on it
        for one in (silent, slow):
            assert one.recv(200).startswith(b"HTTP/1.1 408")
            assert one.recv(200) == b""
        rest = b""
        while part := later.recv(4096):
            rest += part
        assert b"HTTP/1.1 408" in rest
        answer.close()


def test_too_many_headers_are_refused(server: Served) -> None:
    with server.raw() as raw:
        raw.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 10_000)
        assert raw.recv(200).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "part",
    [
        "GET /v1/me HTTP/1.1\r\nHost: local",
        "POST /login HTTP/1.1\r\nHost: localhost\r\nOrigin: ORIGIN\r\nContent-Length: 100\r\n\r\nab",
        "GET /v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: TOKEN\r\n\r\n",
    ],
    ids=["half a header", "half a body", "idle, of somebody known"],
)
def test_a_client_that_only_holds_connections_shuts_no_other_client_out(place: Place, part: str) -> None:
    with serving(place, trees={"limits": {"connections": 8}}) as server:
        sent = part.replace("ORIGIN", server.origin).replace("TOKEN", bearer(place)["Authorization"]).encode()
        with contextlib.ExitStack() as held:
            for _ in range(12):
                one = held.enter_context(server.raw())
                one.sendall(sent)
                if b"Bearer" in sent:
                    assert one.recv(4096).startswith(b"HTTP/1.1 200")
            assert server.ask("GET", "/v1/me", **bearer(place)).status == 200


def test_a_request_of_a_known_caller_is_never_ended_for_another_and_each_caller_has_a_limit(place: Place) -> None:
    with serving(place, trees={"limits": {"connections": 8}}) as server:
        own = bearer(place)["Authorization"]
        begun = f"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: {own}\r\nContent-Length: 2\r\n\r\nx"
        held = [server.raw() for _ in range(7)]
        for one in held:
            one.sendall(begun.encode())
        # Six is all that agents may have, so that something is left for people: one more is told so.
        (refused,) = select.select(held, [], [], 10)[0]
        assert refused.recv(4096).startswith(b"HTTP/1.1 429")
        held.remove(refused)
        refused.close()
        strangers = []
        for _ in range(8):  # each takes the place of the one before
            strangers.append(server.raw())
            strangers[-1].sendall(b"GET /v1/me HTTP/1.1\r\n")
        cookie, _ = server.log_in()
        assert server.ask("GET", "/v1/me", Cookie=f"remit_session={cookie}").status == 200
        for one in held:
            one.sendall(b"y")
            assert one.recv(4096).startswith(b"HTTP/1.1 200")
        for one in (*held, *strangers):
            one.close()


def test_an_ambiguous_length_and_headers_beyond_the_limit_are_refused_and_the_connection_ends(
    server: Served, place: Place
) -> None:
    head = f"Host: localhost\r\nAuthorization: {bearer(place)['Authorization']}\r\n"
    smuggled = f"GET /v1/me HTTP/1.1\r\n{head}\r\n"
    for text in (
        f"POST /v1/echo HTTP/1.1\r\n{head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
        f"POST /v1/echo HTTP/1.0\r\n{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
        f"GET /v1/me HTTP/1.1\r\n{head}" + "X: y\r\n" * 100 + f"\r\n{smuggled}",
        f"GET /v1/me HTTP/1.1\r\n{head}X: {'a' * 100_000}\r\n\r\n{smuggled}",
        f"GET /v1/me?{'a' * 60_000} HTTP/1.1\r\n{head}\r\n{smuggled}",
    ):
        with server.raw() as raw:
            raw.sendall(text.encode())
            got = b""
            with contextlib.suppress(ConnectionError):
                while part := raw.recv(65_536):
                    got += part
        assert got.startswith(b"HTTP/1.1 400")
        assert got.count(b"HTTP/1.1 ") == 1


def test_web_sockets_and_upgrades_lead_nowhere(server: Served) -> None:
    answer = server.ask("GET", "/v1/me", Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Version="13")
    assert answer.status in {400, 401, 426}


# --- how often


def test_a_credential_or_an_unknown_address_has_a_rate_limit_and_receives_the_time_to_retry(place: Place) -> None:
    with serving(place, trees={"limits": {"requests_per_minute": 20}}) as server:
        own, other = bearer(place), bearer(place)
        statuses = [server.ask("GET", "/v1/me", **own).status for _ in range(21)]
        assert statuses == [200] * 20 + [429]
        late = server.ask("GET", "/v1/me", **own)
        assert (late.status, late.get("retry-after"), late.problem["code"]) == (429, "3", "limit_exceeded")
        assert [server.ask("GET", "/v1/me").status for _ in range(21)] == [401] * 20 + [429]
        # Nobody here is a proxy that may speak for others.
        assert server.ask("GET", "/login", X_Forwarded_For="10.0.0.1").status == 429
        assert server.ask("GET", "/v1/me", **other).status == 200  # has a bucket of its own


def test_addresses_of_one_network_are_one_caller(place: Place) -> None:
    trees = {"limits": {"requests_per_minute": 3}, "trusted_proxies": ["127.0.0.1"]}
    with serving(place, trees=trees) as server:
        told = [server.ask("GET", "/v1/me", X_Forwarded_For=f"2001:db8::{number}").status for number in range(1, 5)]
        assert told == [401] * 3 + [429]
        assert server.ask("GET", "/v1/me", X_Forwarded_For="2001:db8:0:1::1").status == 401
        assert server.ask("GET", "/v1/me", X_Forwarded_For="10.0.0.1").status == 401
        assert [server.ask("GET", "/v1/me", X_Forwarded_For="garbled").status for _ in range(4)] == [401] * 3 + [429]


def test_guessing_codes_and_tokens_is_slowed_down(place: Place) -> None:
    with serving(place, trees={"limits": {"logins_per_minute": 5}, "trusted_proxies": ["127.0.0.1"]}) as server:
        link = place.workspace.people.invite("guess", "viewer", actor="os:test")
        guesses = [server.form("/login", {"code": "a" * 43}).status for _ in range(7)]
        assert guesses == [403] * 5 + [429] * 2
        late = server.form("/login", {"code": link.code})  # the right one must wait too
        assert (late.status, late.get("retry-after")) == (429, "12")
        kinds = ("Bearer a.b.c", "Basic x")  # those that are none at all count too
        tokens = [server.ask("GET", "/v1/me", Authorization=kinds[number % 2]) for number in range(6)]
        assert [one.status for one in tokens] == [401] * 5 + [429]
        # A good one is not shut out by somebody else's bad ones, and neither are other addresses.
        assert server.ask("GET", "/v1/me", **bearer(place)).status == 200
        assert server.form("/login", {"code": link.code}, X_Forwarded_For="127.0.0.1, 10.0.0.7").status == 303


def test_buckets_fill_up_again_and_their_number_is_limited() -> None:
    now = [0.0]
    buckets = Buckets(60, 2, lambda: now[0])
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]
    assert (buckets.take("b"), buckets.wait("a")) == (0, 1)
    now[0] = 1.5
    assert (buckets.take("a"), buckets.take("a")) == (0, 0.5)
    now[0] = 1_000
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 1]
    for number in range(MOST_BUCKETS + 10):
        buckets.take(str(number))
    assert len(buckets) == MOST_BUCKETS
    assert [retry_after(seconds) for seconds in (0.01, 1, 1.01)] == ["1", "1", "2"]


# --- names


def test_names_and_origins_follow_from_the_settings() -> None:
    tree = {
        "host": ANYWHERE,
        "public_url": "https://Remit.example:8443",
        "allowed_hosts": ["inner.example:7341", "10.1.2.3"],
    }
    known = Addresses.of(WebSettings.of(Web.from_tree(tree)))
    told = {
        name: known.is_known_host(name)
        for name in ("remit.example", "remit.example:8443", "inner.example:7341", "10.1.2.3:5")
    }
    assert all(told.values()), told
    wrong = ("inner.example", "inner.example:80", ANYWHERE, "evil", "remit.example.evil", "remit.example:x", "a/b", "")
    assert not any(known.is_known_host(name) for name in wrong)
    assert known.is_own_origin("https://remit.example:8443", "http", "127.0.0.1:7341")
    assert known.is_own_origin("http://127.0.0.1:7341", "http", "127.0.0.1:7341")
    assert not known.is_own_origin("https://remit.example", "http", "127.0.0.1:7341")
    usual = Addresses.of(WebSettings.of(Web.from_tree({"public_url": "https://remit.example:443"})))
    assert usual.is_own_origin("https://remit.example", "http", "127.0.0.1:7341")
    assert usual.is_own_origin("http://localhost", "http", "localhost:80")
    assert not known.is_own_origin("null", "http", "127.0.0.1:7341")
    six = Addresses.of(WebSettings.of(Web.from_tree({"host": "fd00::1"})))
    assert six.is_known_host("[fd00::1]:7341")
    assert split_host("user@localhost") is None
    assert [
        is_loopback(host) for host in ("127.8.0.1", "::1", "[::1]", "localhost", ANYWHERE, "10.0.0.1", "remit")
    ] == [
        True,
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_store_that_fails_is_reported_and_lets_no_request_through(
    server: Served, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place.workspace.state.people / "people.json"
    cookie, _ = server.log_in("store")
    good = file.read_bytes()
    file.write_bytes(b"{")
    try:
        answer = server.ask("GET", "/v1/me", Cookie=f"remit_session={cookie}")
        assert answer.status >= 400
        assert json.loads(answer.body)["code"] == "malformed"
        assert answer.get("content-security-policy")
    finally:
        file.write_bytes(good)
