"""Logging in with a real browser, and what pages of other sites can do with it. Only a browser knows which cookies and
headers it sends: `localhost` is another site than `127.0.0.1`, so a small server there is the stranger.
"""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from playwright.sync_api import Browser, Page, sync_playwright

from tests.web.guarded_server import Place, Served, serving
from tests.web.identity_provider import CLIENT, providing

CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Pages of our own tests only, and no setuid helper in a container.
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(10_000)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def stranger(shared_server: Served) -> Iterator[str]:
    """Another site, with a link to us, a form, a frame, and scripts that ask us for things."""
    ours = shared_server.origin
    text = f"""<!doctype html><title>stranger</title><a id=a href="{ours}/inbox">look</a>
        <form method=post action="{ours}/logout"><button>win</button></form><iframe src="{ours}/inbox"></iframe>
        <script>
        const tries = [["GET", "/v1/me"], ["POST", "/v1/echo"], ["POST", "/logout"]];
        window.done = Promise.all(tries.map(([method, path]) => fetch("{ours}" + path,
          {{method, mode: "no-cors", credentials: "include", body: method == "POST" ? "a=b" : undefined}})
          .then((answer) => answer.type, (error) => "failed")));
        </script>"""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def log_in(page: Page, server: Served, place: Place) -> None:
    link = place.workspace.people.invite("ada", "admin", actor="os:test")
    page.goto(server.origin + link.path)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{server.origin}/")


def test_a_link_fills_the_form_and_leaves_the_address(page: Page, server: Served, place: Place) -> None:
    link = place.workspace.people.invite("ada", "admin", actor="os:test")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url + str(request.headers)))
    page.goto(server.origin + link.path)
    assert page.input_value("#code") == link.code
    assert page.url == f"{server.origin}/login"
    assert page.evaluate("document.activeElement.textContent") == "Log in"
    assert not any(link.code in text for text in asked)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.origin}/")
    page.goto(f"{server.origin}/v1/me")
    assert page.inner_text("body") == '{"id":"link:ada"}'
    assert page.evaluate("document.cookie") == ""
    page.goto(f"{server.origin}/login")
    page.fill("#code", "x" * 43)
    page.get_by_role("button", name="Log in").click()
    assert "it was used already, or it has expired" in page.inner_text("[role=alert]")


def test_another_site_can_link_to_us_and_nothing_else(page: Page, server: Served, place: Place, stranger: str) -> None:
    log_in(page, server, place)
    before = len(server.bodies)
    page.goto(stranger)
    assert page.evaluate("window.done") == ["failed"] * 3  # CORP: not even an opaque answer
    assert page.frames[1].url in {"chrome-error://chromewebdata/", f"{server.origin}/inbox"}
    assert page.frames[1].evaluate("document.body.innerText.includes('link:ada')") is False
    page.get_by_role("button", name="win").click()
    page.wait_for_url(f"{server.origin}/logout")
    assert "a page of another site sent this request" in page.inner_text("body")
    page.goto(stranger)
    page.click("#a")
    page.wait_for_function('document.body.innerText == \'{"id":"link:ada"}\'')  # still logged in, and let through
    assert len(server.bodies) == before


def test_a_page_of_ours_runs_no_foreign_script(page: Page, server: Served, place: Place) -> None:
    page.goto(f"{server.origin}/login")
    tried = page.evaluate("""() => {
        const found = [];
        try { document.body.innerHTML = "<b>x</b>"; found.push("markup from text"); } catch { found.push("no markup"); }
        const script = document.createElement("script");
        try { script.textContent = "window.ran = 1"; document.body.append(script); } catch { found.push("no script"); }
        return [...found, window.ran ?? "nothing ran"];
    }""")
    assert tried == ["no markup", "no script", "nothing ran"]


def test_the_whole_way_through_an_identity_provider(page: Page, place: Place) -> None:
    """A strict cookie that is set in answer to another site's redirect must be there at the next step."""
    with providing(generate_private_key(65_537, 2_048)) as provider:
        roles = [{"value": "remit-approvers", "role": "approver"}]
        oidc = {"issuer": provider.issuer, "client_id": CLIENT, "roles": roles, "name": "Acme"}
        with serving(place, trees={"oidc": oidc}) as server:
            page.goto(f"{server.origin}/login?next=/inbox")
            page.get_by_role("link", name="Log in with Acme").click()
            page.wait_for_url(f"{server.origin}/inbox")
            assert page.inner_text("body") == '{"id":"oidc:ada"}'
            [cookie] = page.context.cookies(server.origin)
            assert (cookie["name"], cookie["sameSite"], cookie["httpOnly"]) == ("remit_session", "Strict", True)
