"""The guard around the real application: no route gets around it, whichever way it was put in."""

from collections.abc import Iterable, Iterator

import pytest
from starlette.routing import BaseRoute, Route

from remit.web.security.headers import CONTENT_POLICY
from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.web_server import NOBODY, WebSite, Who

__all__ = ["zygotes_are_shared"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSite]:
    made = WebSite(tmp_path_factory.mktemp("site"))
    yield made
    made.close()


def entries(site: WebSite) -> int:
    with site.workspace.store.reading() as connection:
        [(count,)] = connection.rows("SELECT count(*) FROM ledger_entries")
    return int(count)


def routes_of(routes: Iterable[BaseRoute]) -> Iterator[Route]:
    for route in routes:
        inside = getattr(route, "original_router", None)  # an APIRouter that was included
        if inside is not None:
            yield from routes_of(inside.routes)
        else:
            assert isinstance(route, Route), "what is mounted has routes of its own: look into it here"
            yield route


def paths(site: WebSite) -> list[tuple[str, str]]:
    """Every method and path that the application answers, with something in the place of ids."""
    found = []
    for route in routes_of(site.app.routes):
        filled = "/".join("x" if part.startswith("{") else part for part in route.path.split("/"))
        found += [(method, filled) for method in sorted((route.methods or {"GET", "POST"}) - {"HEAD"})]
    return [(method, path) for method, path in found if path != "/v1/events"]  # which lasts


def test_every_route_is_guarded(site: WebSite) -> None:
    asked = paths(site)
    assert len(asked) > 30
    without_token = Who({name: value for name, value in site.admin.headers.items() if name != "X-Remit-CSRF"})
    site.bot  # noqa: B018 - is given a token, which is an entry
    before = entries(site)
    for method, path in asked:
        elsewhere = site.ask(method, path, site.bot, headers={"Host": "evil.example"})
        foreign = site.ask(method, path, site.bot, headers={"Origin": "https://evil.example"})
        assert (elsewhere.status, foreign.status) == (421, 403), (method, path)
        plain = site.ask(method, path, NOBODY)
        if method not in {"GET", "HEAD", "OPTIONS"}:
            forged = site.ask(method, path, without_token, b"{}")
            assert (forged.status, "CSRF" in forged.body.decode()) == (403, True), (method, path)
        for answer in (elsewhere, foreign, plain):
            assert answer.headers["content-security-policy"] == CONTENT_POLICY, (method, path)
            assert answer.headers["x-frame-options"] == "DENY", (method, path)
            assert answer.headers["cache-control"] in {"no-store", "no-cache"}, (method, path)
            assert answer.status < 500, (method, path)
    assert entries(site) == before  # nothing came of any of it


def test_exactly_these_routes_are_open_to_every_caller(site: WebSite) -> None:
    """The list is written out: whoever opens one more has to mean it."""
    opened = set()
    for method, path in paths(site):
        api = path.startswith(("/v1/", "/mcp"))
        kind = {"Content-Type": "application/json" if api else "application/x-www-form-urlencoded"}
        answer = site.ask(method, path, NOBODY, None if method == "GET" else b"{}" if api else b"a=b", kind)
        to_login = answer.headers.get("location", "").startswith("/login") and answer.status == 303
        if answer.status not in {401, 404} and not to_login:
            opened.add((method, path))
    assert opened == {
        ("GET", "/"),  # leads to /inbox
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/v1/openapi.json"),
        ("GET", "/login"),
        ("POST", "/login"),
    }
