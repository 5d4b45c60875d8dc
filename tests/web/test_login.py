"""Logging in and out over HTTP: what a link previewer, a planted cookie and a second try get."""

import pytest

from remit.web.login.routes import local_path
from tests.web.guarded_server import Place, Served


def test_opening_a_link_uses_nothing_up_and_pressing_the_button_logs_in(server: Served, place: Place) -> None:
    link = place.workspace.people.invite("ada", "viewer", actor="os:test")
    for method in ("GET", "HEAD", "GET"):
        answer = server.ask(method, "/login")
        assert (
            (answer.status, answer.get("set-cookie")) == (200, None) if method == "GET" else answer.status in {200, 405}
        )
    shown = server.ask("GET", "/login?next=/inbox/plan/7")
    assert b'action="/login"' in shown.body
    assert b'value="/inbox/plan/7"' in shown.body
    done = server.form("/login", {"code": link.code, "next": "/inbox/plan/7"})
    assert (done.status, done.get("location")) == (303, "/inbox/plan/7")
    cookie = done.get("set-cookie") or ""
    assert {"Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"} <= set(cookie.split("; "))
    assert server.ask("GET", "/inbox", Cookie=cookie.partition(";")[0]).problem == {"id": "link:ada"}
    again = server.form("/login", {"code": link.code})
    assert (again.status, again.get("set-cookie")) == (403, None)
    assert b"it was used already, or it has expired" in again.body
    assert link.code.encode() not in again.body


def test_a_planted_cookie_is_not_the_session_after_the_login(server: Served, place: Place) -> None:
    """Session fixation: whoever plants a cookie, even one that counts, has nothing of it afterwards."""
    planted, csrf = server.log_in("attacker", "viewer")
    made_up = "b" * 43
    for cookie in (made_up, planted):
        link = place.workspace.people.invite("victim", "admin", actor="os:test")
        done = server.form("/login", {"code": link.code, "csrf": csrf}, Cookie=f"remit_session={cookie}")
        assert done.status == 303
        fresh = done.cookie()
        assert fresh not in {None, made_up, planted}
        assert server.ask("GET", "/v1/me", Cookie=f"remit_session={cookie}").status == 401
        assert server.ask("GET", "/v1/me", Cookie=f"remit_session={fresh}").problem == {"id": "link:victim"}


def test_another_site_cannot_log_a_person_in(server: Served, place: Place) -> None:
    link = place.workspace.people.invite("attacker", "viewer", actor="os:test")
    for given in ({"Origin": "https://evil.example"}, {"Origin": "", "Sec_Fetch_Site": "cross-site"}):
        assert server.form("/login", {"code": link.code}, **given).status == 403
    assert server.form("/login", {"code": link.code}).status == 303  # nothing was used up


def test_logging_out_ends_the_session_and_needs_its_token(server: Served) -> None:
    cookie, csrf = server.log_in("leaver")
    own = {"Cookie": f"remit_session={cookie}"}
    assert server.ask("GET", "/logout", **own).status == 405
    assert server.form("/logout", {}, **own).status == 403
    assert server.ask("GET", "/v1/me", **own).status == 200
    done = server.form("/logout", {"csrf": csrf}, **own)
    assert (done.status, done.get("location")) == (303, "/login")
    assert "Max-Age=0" in (done.get("set-cookie") or "")
    assert server.ask("GET", "/v1/me", **own).status == 401


def test_a_code_in_the_address_is_never_taken(server: Served, place: Place) -> None:
    link = place.workspace.people.invite("query", "viewer", actor="os:test")
    assert server.ask("GET", f"/login?code={link.code}").cookie() is None
    assert server.form(f"/login?code={link.code}", {}).status == 403
    assert server.form("/login", {"code": f" {link.code}\n"}).status == 303  # pasted with a space is fine


def test_after_the_login_no_person_is_redirected_to_another_site(subtests: pytest.Subtests) -> None:
    for text in [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:1",
        "",
        "/a\\b",
        "/a b",
        "/é",
        "/\n",
        None,
        "/login?next=/x",
    ]:
        with subtests.test(text=text):
            assert local_path(text) == "/"


def test_a_path_of_ours_is_kept() -> None:
    assert local_path("/runs/1?x=%2F&y#z") == "/runs/1?x=%2F&y#z"
