"""A served workspace: a real uvicorn on a loopback port, in a thread; agents with tokens, people with sessions."""

import asyncio
import http.client
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.identity.models import Role
from remit.services.plans.preview_turns import TurnRules
from remit.services.services import Services
from remit.web.app import build_app
from remit.web.config.settings import WebSettings
from remit.web.server.run import HttpServer
from remit.web.server.socket import open_socket, port_of, server_config
from remit.workspace.workspace import Workspace
from tests.plans.project import Project
from tests.support.task_workspace import MovableClock

JSON: Final = "application/json"
ALL_CAPS: Final = (
    *("plan.propose", "plan.execute_preview", "plan.apply", "plan.undo", "task.run", "goal.ask", "plan.read"),
)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "")


@dataclass(frozen=True)
class Who:
    """Somebody with a credential, as headers."""

    headers: Mapping[str, str]


NOBODY: Final = Who({})


def agent_of(workspace: Workspace, name: str, *caps: str, **constraints: Any) -> Who:
    """With these capabilities; without any named, a token that lets it do nothing."""
    wish = TokenRequest(name, caps or ("call.nothing",), TokenConstraints(**constraints), timedelta(days=2))
    return Who({"Authorization": f"Bearer {workspace.tokens.issue(wish).text}"})


def person_of(workspace: Workspace, port: int, role: Role, name: str | None = None, **more: Any) -> Who:
    """Logged in, at the server on this port."""
    people = workspace.people
    session = people.redeem(people.invite(name or role, role, actor="os:test", **more).code)
    cookie, origin = f"remit_session={session.cookie}", f"http://127.0.0.1:{port}"
    return Who({"Cookie": cookie, "X-Remit-CSRF": session.csrf, "Origin": origin})


def ask(
    port: int,
    method: str,
    path: str,
    who: Who = NOBODY,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """`body` is sent as it is if it is bytes, else as JSON."""
    given = {"Host": f"127.0.0.1:{port}", **who.headers}
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    if raw is not None:
        given["Content-Type"] = JSON
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, raw, {**given, **(headers or {})})
        found = connection.getresponse()
        return Answer(found.status, found.headers, found.read())
    finally:
        connection.close()


class ServedWorkspace:
    """An open workspace, served until `close`. Its port in remit.yaml is 0."""

    def __init__(self, workspace: Workspace, turns: TurnRules | None = None) -> None:
        self.workspace = workspace
        wanted = WebSettings.of(self.workspace.config.web)
        self._socket = open_socket(wanted)
        self.settings = wanted.listening_at(port_of(self._socket))
        self.desk = Services(self.workspace, console_url=self.settings.url, turns=turns)
        self.app = build_app(self.desk, self.settings)
        self._server = HttpServer(server_config(self.app, self.settings), self.desk)
        self._thread = threading.Thread(target=self._serve, name="web-site", daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            self._thread.join(0.005)

    def _serve(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.serve(sockets=[self._socket])

        asyncio.run(serve())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(20)
        self.desk.close()
        self._socket.close()
        assert not self._thread.is_alive(), "the server did not stop"

    @property
    def url(self) -> str:
        return self.settings.url

    # --- people and agents --------------------------------------------------------------------------------------------

    def agent(self, name: str = "bot", *caps: str, **constraints: Any) -> Who:
        return agent_of(self.workspace, name, *caps, **constraints)

    def person(self, role: Role, name: str | None = None, **more: Any) -> Who:
        return person_of(self.workspace, self.settings.port, role, name, **more)

    @cached_property
    def admin(self) -> Who:
        return self.person("admin")

    @cached_property
    def bot(self) -> Who:
        return self.agent("bot", *ALL_CAPS, user="ada", tenant="acme")

    # --- requests -----------------------------------------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        who: Who = NOBODY,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        return ask(self.settings.port, method, path, who, body, headers)

    def get(self, path: str, who: Who = NOBODY, **headers: str) -> Answer:
        return self.ask("GET", path, who, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, body: Any, who: Who = NOBODY, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", path, who, body, named)


class WebSite(ServedWorkspace):
    """Its clock can be moved. Tests share one, so each makes what it needs under names of its own."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.base = (folder / "base").resolve()
        self.base.mkdir()
        self.clock = MovableClock()
        turns = settings.pop("turns", None)
        limits = {"requests_per_minute": 1_000_000, "logins_per_minute": 1_000}
        web = {"port": 0, "limits": limits, **settings.pop("web", {})}
        settings.setdefault("tenants", {"acme": {"users": ["ada"]}})
        self.project = Project(folder, self.clock, base_directories=[str(self.base)], web=web, **settings)
        super().__init__(self.project.workspace, turns)

    def close(self) -> None:
        super().close()
        self.project.close()
