"""A workspace with a browser, a site that remembers every byte, an agent with a token, and a person who answers."""

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from remit.authority.capability_token import TokenRequest
from remit.browser.model.requests import OutgoingRequest, RequestKind
from remit.browser.policy import CAPABILITY_OF
from remit.contracts.browser.browser import ActionResult, Approval, TokenConstraints
from remit.contracts.browser.output import ActionOutput
from remit.core.errors import RefusedError
from remit.identity.person import Person
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace
from tests.support.browser_site import Seen, Site

AGENT = "agent-1"
VARIABLE = "REMIT_TEST_LEDGER_URL"
SOMEBODY = Person("os:somebody")
EVERYTHING = tuple(CAPABILITY_OF.values())

Answer = Callable[["Place", Approval], None]


def approve(place: "Place", approval: Approval) -> None:
    place.workspace.approvals.decide(approval.approval_id, approved=True, who=SOMEBODY)


def deny(place: "Place", approval: Approval) -> None:
    place.workspace.approvals.decide(approval.approval_id, approved=False, who=SOMEBODY, reason="not today")


def let_it_expire(place: "Place", _: Approval) -> None:
    place.clock.offset += timedelta(seconds=601)
    place.workspace.approvals.change_signal.notify()


class MovableClock:
    """A clock that a test can move."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset


@dataclass
class Question:
    """A question as it was put, and how many requests that change something had arrived by then."""

    approval: Approval
    arrived: int


@dataclass
class Place:
    workspace: Workspace
    site: Site
    clock: MovableClock
    token: str = ""
    sleeps: list[float] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)
    refusals: list[RefusedError] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def issue(self, *, domains: tuple[str, ...] = ("shop.test",), caps: Any = EVERYTHING, **more: Any) -> str:
        constraints = TokenConstraints.model_validate({"domains": domains, **more})
        wish = TokenRequest(AGENT, caps, constraints, timedelta(days=2))
        self.token = self.workspace.tokens.issue(wish).text
        return self.token

    def action(self, type: str, path: str = "/", *, tls: bool = False, **more: Any) -> bytes:  # noqa: A002 - its name
        number = next(self._numbers)
        asked = {"action_id": f"act-{number}", "type": type, "target": self.site.url(path, tls=tls), **more}
        return json.dumps(asked).encode()

    def do(self, action: bytes, answer: Answer = approve, token: str | None = None) -> ActionResult:
        """The action, with a person who answers each question as it comes, in a thread of his own."""
        threads: list[threading.Thread] = []

        def waiting(approval: Approval) -> None:
            self.asked.append(Question(approval, self.arrived))
            threads.append(threading.Thread(target=self._answered, args=(answer, approval)))
            threads[-1].start()

        result = self.workspace.browse(
            action, self.token if token is None else token, on_waiting=waiting, on_refusal=self.refusals.append
        )
        for thread in threads:
            thread.join()
        if result.output is not None:
            ActionOutput.from_tree(result.output)  # all that it says is published
        return result

    def _answered(self, answer: Answer, approval: Approval) -> None:
        with contextlib.suppress(RefusedError):  # somebody else was faster
            answer(self, approval)

    def open(self, html: str, path: str = "/", *, tls: bool = False, **more: Any) -> ActionResult:
        """Go to a page with this content, in a clean slate."""
        self.site.routes[path] = html
        result = self.do(self.action("navigate", path, tls=tls, **more))
        self.forget()
        return result

    def click(
        self, selector: str = "#go", path: str = "/", *, tls: bool = False, answer: Answer = approve
    ) -> ActionResult:
        return self.do(self.action("click", path, tls=tls, selector=selector), answer)

    def next_question(self, seconds: float = 20) -> Approval:
        """One that waits, and that nobody was told of."""
        approvals, deadline = self.workspace.approvals, time.monotonic() + seconds
        with approvals.change_signal.listening() as listener:
            while not (waiting := approvals.listed("PENDING")):
                assert time.monotonic() < deadline, "nobody asked"
                listener.wait(1)
        return waiting[0]

    def forget(self) -> None:
        self.site.log.clear()
        self.site.messages.clear()
        self.asked.clear()
        self.refusals.clear()

    @property
    def arrived(self) -> int:
        """Requests and messages that reached the site and change something, as we count them."""
        return len(self.changing) + len(self.site.messages)

    @property
    def changing(self) -> list[Seen]:
        return [seen for seen in self.site.log if seen.method != "GET" or seen.path == "/act" or _upgrades(seen)]

    def arrived_digests(self) -> list[str]:
        """The digests of what arrived, taken from the site's own bytes."""
        return [as_outgoing(self.site, seen).digest for seen in self.changing] + [
            OutgoingRequest(
                "x", "message", "", self.site.url("/ws").replace("http", "ws", 1), (), message.payload,
                is_text=message.is_text,
            ).digest
            for message in self.site.messages
        ]  # fmt: skip

    def kinds(self, correlation_id: str | None = None) -> list[str]:
        where = "" if correlation_id is None else " WHERE correlation_id = ?"
        values = () if correlation_id is None else (correlation_id,)
        with self.workspace.store.reading() as connection:
            query = f"SELECT kind FROM ledger_entries{where} ORDER BY seq"
            return [row[0] for row in connection.rows(query, values)]

    def payloads(self, kind: str) -> list[dict[str, Any]]:
        with self.workspace.store.reading() as connection:
            rows = connection.rows("SELECT payload FROM ledger_entries WHERE kind = ? ORDER BY seq", (kind,))
            return [json.loads(row[0]) for row in rows]


def as_outgoing(site: Site, seen: Seen) -> OutgoingRequest:
    kind: RequestKind = "websocket" if _upgrades(seen) else "request"
    scheme = {"request": "http", "websocket": "ws"}[kind] + ("s" if seen.is_tls else "")
    url = f"{scheme}://{seen.header('host')}{seen.target}"
    return OutgoingRequest("x", kind, seen.method, url, seen.headers, seen.body)


def _upgrades(seen: Seen) -> bool:
    return (seen.header("upgrade") or "").lower() == "websocket"


@contextmanager
def made_place(folder: Path, *, url: str | None = None, **browser: Any) -> Iterator[Place]:
    """With its ledger in SQLite; or on a PostgreSQL server, if there is a `url`."""
    clock = MovableClock()
    environ = {"REMIT_STATE": str(folder / "state"), "PATH": os.environ["PATH"], **({VARIABLE: url} if url else {})}
    project = folder / "project"
    project.mkdir()
    initialise(project, environ, clock, url_variable=VARIABLE if url else None)[0].close()
    with Site() as site:
        settings = {"version": 1, "browser": json.loads(site.config(**browser).model_dump_json())}
        (project / "remit.yaml").write_text(json.dumps(settings))
        with Workspace.open(project, environ=environ, clock=clock) as workspace:
            place = Place(workspace, site, clock)
            workspace.browser_service._sleep = place.sleeps.append  # noqa: SLF001 - nobody waits for real
            place.issue()
            yield place
