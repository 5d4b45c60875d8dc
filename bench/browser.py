"""Measures governed browser actions against plain Playwright, which does the same on the same page in one run.

A governed action is verified, decided, and recorded before and after. Each of its requests passes the proxy. The two
ways take turns, and medians are compared. The exit code is 1 if a target is missed. `bench/README.md` has the results.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright

from figures import Figure, print_step, render, take_turns
from remit.authority.capability_token import TokenRequest
from remit.browser.policy import CAPABILITY_OF
from remit.contracts.browser.browser import Approval, TokenConstraints
from remit.core.ids import system_clock
from remit.identity.person import Person
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

HOST: Final = "shop.test"
PARTS: Final = 5
TEXT: Final = "".join(f"<p>Paragraph {number} of a page of ordinary length.</p>" for number in range(300))
PAGE: Final = (
    "<title>Shop</title>"
    + "".join(f'<script src="/part{number}.js"></script>' for number in range(PARTS))
    + '<button id="plain" onclick="this.dataset.n = 1 + Number(this.dataset.n || 0)">Count</button>'
    + '<form method="post" action="/act"><input name="item" value="42"><button id="send">Send</button></form>'
    + TEXT
)
TARGET: Final = 1.3


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_part = self.path.startswith("/part")
        self._answer(b"window.loaded = 1;" if is_part else PAGE.encode(), "text/javascript" if is_part else "text/html")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"<title>Done</title>", "text/html")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Print no log: the table is the only output."""


def time_call(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1_000


class Plain:
    """Playwright as its documentation shows it."""

    def __init__(self, page: Page, port: int) -> None:
        self._page = page
        self._url = f"http://127.0.0.1:{port}/"

    def navigate(self) -> float:
        return time_call(lambda: (self._page.goto(self._url), self._page.title()))

    def click(self) -> float:
        return time_call(lambda: self._page.click("#plain"))

    def send(self) -> float:
        self._page.goto(self._url)

        def work() -> None:
            with self._page.expect_navigation():
                self._page.click("#send")

        return time_call(work)


class Governed:
    """The same actions, governed by Remit. The approver approves each request at once."""

    def __init__(self, workspace: Workspace, token: str, port: int) -> None:
        self._workspace = workspace
        self._token = token
        self._url = f"http://{HOST}:{port}/"
        self._numbers = itertools.count()

    def _do(self, kind: str, **more: Any) -> None:
        action = {"action_id": f"bench-{next(self._numbers)}", "type": kind, "target": self._url, **more}
        result = self._workspace.browse(json.dumps(action).encode(), self._token, on_waiting=self._approve)
        if not result.success:
            raise SystemExit(f"{kind} did not succeed: {result.reason}")

    def _approve(self, approval: Approval) -> None:
        self._workspace.approvals.decide(approval.approval_id, approved=True, who=Person("os:bench"))

    def navigate(self) -> float:
        return time_call(lambda: self._do("navigate"))

    def click(self) -> float:
        return time_call(lambda: self._do("click", selector="#plain"))

    def send(self) -> float:
        self._do("navigate")
        return time_call(lambda: self._do("submit", selector="#send"))


@contextmanager
def served() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@contextmanager
def governed(folder: Path, port: int) -> Iterator[Governed]:
    project = folder / "project"
    project.mkdir()
    environ = {"REMIT_STATE": str(folder / "state")}
    initialise(project, environ, system_clock)[0].close()
    browser = {"hosts": {HOST: "127.0.0.1"}, "ports": [port], "private_addresses": ["127.0.0.1/32"]}
    (project / "remit.yaml").write_text(json.dumps({"version": 1, "browser": browser}))
    with Workspace.open(project, environ=environ) as workspace:
        wish = TokenRequest(
            "bench", tuple(CAPABILITY_OF.values()), TokenConstraints(domains=(HOST,)), timedelta(hours=1)
        )
        yield Governed(workspace, workspace.tokens.issue(wish).text, port)


def measure(rounds: int) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory() as folder,
        served() as port,
        governed(Path(folder), port) as ours,
        sync_playwright() as playwright,
    ):
        print_step("starting Chromium twice")
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", chromium_sandbox=False)
        plain = Plain(browser.new_page(), port)
        ways = {
            "plain navigate": plain.navigate,
            "governed navigate": ours.navigate,
            "plain click": plain.click,
            "governed click": ours.click,
        }
        taken = take_turns(ways, rounds, "navigate and click")
        taken |= take_turns({"plain submit": plain.send, "held submit": ours.send}, rounds, "submit")
        browser.close()
    half = {name: statistics.median(times) for name, times in taken.items()}
    figures = [Figure(f"{name}, p50", value, "ms") for name, value in half.items()]
    for kind in ("navigate", "click"):
        ratio = half[f"governed {kind}"] / half[f"plain {kind}"]
        figures.append(Figure(f"governed {kind} / plain {kind}", ratio, "times", most=TARGET))
    added = half["held submit"] - half["plain submit"]
    return [*figures, Figure("what holding a submit adds, without the person", added, "ms")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="how often each way takes its turn")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    arguments = parser.parse_args()
    figures = measure(arguments.rounds)
    shown = [{"name": each.name, "value": each.value, "unit": each.unit, "most": each.most} for each in figures]
    sys.stdout.write((json.dumps(shown, indent=2) if arguments.json else render(figures)) + "\n")
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
