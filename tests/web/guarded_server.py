"""A workspace with a clock that can be moved, and a small real server in front of it: uvicorn on a loopback port."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.contracts.config.web import Web
from remit.web.config.settings import WebSettings
from remit.web.console.assets import serve_asset
from remit.web.http.authentication import is_still_valid, require_caller, require_person
from remit.web.http.problems import handle_errors
from remit.web.login.routes import login_router
from remit.web.security.middleware import install_guard
from remit.web.server.socket import open_socket, server_config
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace


class MovedClock:
    """The real time, and as much more as a test wants."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Place:
    workspace: Workspace
    clock: MovedClock
    environ: dict[str, str]

    def token(self, *caps: str) -> str:
        wish = TokenRequest("bot", caps or ("plan.propose",), TokenConstraints(), timedelta(hours=1))
        return self.workspace.tokens.issue(wish).text

    def entries(self, kind: str) -> list[tuple[str, str, dict[str, Any]]]:
        with self.workspace.store.reading() as connection:
            found = connection.rows(
                "SELECT correlation_id, actor, payload FROM ledger_entries WHERE kind = ? ORDER BY seq", (kind,)
            )
            return [(row[0], row[1], json.loads(row[2])) for row in found]


@contextmanager
def made_place(folder: Path) -> Iterator[Place]:
    root = folder / "project"
    root.mkdir()
    clock, environ = MovedClock(), {"REMIT_STATE": str(folder / "state"), "HOME": str(folder)}
    workspace, _ = initialise(root, environ, clock)
    with workspace:
        yield Place(workspace, clock, environ)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def problem(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def cookie(self, name: str = "remit_session") -> str | None:
        given = [value for key, value in self.headers if key.lower() == "set-cookie" and value.startswith(f"{name}=")]
        return given[0].partition("=")[2].partition(";")[0] if given else None


@dataclass
class Served:
    """A server at `port`; each call is a connection of its own."""

    port: int
    place: Place
    app: FastAPI
    bodies: list[bytes] = field(default_factory=list)
    """What reached the route /v1/echo."""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> Answer:
        """Underscores in the names of headers stand for hyphens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def form(self, path: str, fields: dict[str, str], /, **headers: str) -> Answer:
        """As a browser sends one from our own page."""
        own = {"Origin": self.origin, "Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "navigate"}
        given = own | {"Content_Type": "application/x-www-form-urlencoded"} | headers
        return self.ask(
            "POST", path, urlencode(fields).encode(), **{key: value for key, value in given.items() if value}
        )

    def log_in(self, name: str = "ada", role: Any = "admin") -> tuple[str, str]:
        """Cookie and CSRF token of somebody who just came in by a link."""
        link = self.place.workspace.people.invite(name, role, actor="os:test")
        answer = self.form("/login", {"code": link.code})
        assert answer.status == 303, answer.body
        cookie = answer.cookie()
        assert cookie
        found = self.place.workspace.people.session(cookie)
        assert found
        return cookie, found.csrf

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


def probe_routes(served_bodies: list[bytes]) -> APIRouter:
    router = APIRouter()

    @router.get("/v1/me")
    def me(request: Request) -> dict[str, str]:
        return {"id": require_caller(request).id}

    @router.get("/inbox")
    def inbox(request: Request) -> dict[str, str]:
        return {"id": require_person(request).id}

    @router.post("/v1/echo")
    async def echo(request: Request) -> Response:
        require_caller(request)
        served_bodies.append(await request.body())
        return Response(served_bodies[-1])

    @router.get("/v1/broken")
    def broken() -> None:
        raise RuntimeError("no")

    @router.get("/v1/counts")
    def counts(request: Request) -> dict[str, bool]:
        return {"counts": is_still_valid(request)}

    @router.get("/v1/stream")
    def stream() -> StreamingResponse:
        return StreamingResponse(iter([b"data: 1\n\n", b"data: 2\n\n"]), media_type="text/event-stream")

    router.add_api_route("/static/{name:path}", serve_asset, methods=["GET"])
    return router


@contextmanager
def serving(place: Place, config: Web | None = None, *, trees: dict[str, Any] | None = None) -> Iterator[Served]:
    """The guard, the login and a few routes that tell what reached them."""
    settings = WebSettings.of(config or Web.from_tree({"port": 0, **(trees or {})}))
    listener = open_socket(settings)
    settings = settings.listening_at(listener.getsockname()[1])
    app = FastAPI(openapi_url=None)
    served = Served(settings.port, place, app)
    app.state.services = SimpleNamespace(workspace=place.workspace)
    app.state.settings = settings
    handle_errors(app)
    app.include_router(login_router(place.workspace, settings))
    app.include_router(probe_routes(served.bodies))
    install_guard(app, place.workspace, settings)
    server = uvicorn.Server(server_config(app, settings))
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < until
        time.sleep(0.005)
    try:
        yield served
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()
