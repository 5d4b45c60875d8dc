"""A workspace with content for every section of the console, and a real server."""

import http.client
import json
import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

import uvicorn
from fastapi import FastAPI

from remit.approvals.service import ApprovalRequest
from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import Approval, HTTPPreview, TokenConstraints
from remit.contracts.config.config import CONFIG_NAME
from remit.contracts.config.web import Web
from remit.contracts.services.plans import ProposalView
from remit.core.canonical import digest_bytes
from remit.core.ids import system_clock
from remit.identity.callers import AgentCaller, PersonCaller
from remit.identity.person import Person, person_at_terminal
from remit.services.base.screenshots import SCREENSHOT_FOLDER
from remit.services.services import Services
from remit.web.app import build_app
from remit.web.config.settings import WebSettings
from remit.web.server.socket import open_socket, server_config
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

TENANT, USER = "acme", "mia"
ADMIN = PersonCaller(Person("os:test"), "admin")
POLICY = """
@id("mia-sees")
permit (principal == User::"acme/mia", action == Action::"ping", resource);
@id("copies-need-a-second-pair-of-eyes")
@verdict("approval_required")
permit (principal == User::"acme/mia", action == Action::"copy_form", resource);
@id("mia-files")
permit (principal == User::"acme/mia", action in [Action::"file_form", Action::"prepare"], resource);
"""
APP = "import os\n\nLIMIT = 10\n\n\ndef fee(amount):\n    return amount * 0.02\n\n\ndef main():\n    print(fee(100))\n"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Stage:
    """The workspace, the server, and what agents did before a person opens the console."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.root, self.base = self.folder / "project", self.folder / "base"
        self.environ = {"REMIT_STATE": str(self.folder / "state"), "HOME": str(self.folder), "PATH": os.environ["PATH"]}
        self.root.mkdir()
        self.base.mkdir()
        initialise(self.root, self.environ, system_clock)[0].close()
        self._configure()
        self.workspace = Workspace.open(self.root, environ=self.environ)
        self.desk: Services
        self.app: FastAPI
        self.url = ""
        self.agent = self.token("release-bot")

    def _configure(self) -> None:
        (self.base / "form.txt").write_text("a form\n")
        paths = {"source_path": f"{self.base}/form.txt", "destination_path": f"{self.base}/{{name}}.txt"}
        common = {"version": "1", "risk": "LOW"}
        copy = {
            **common,
            "id": "copy-form",
            "title": "Copy the form",
            "impact": "impactful",
            "access_action": "copy_form",
            "fields": {"name": {"type": "identifier", "question": "Under which name?"}},
            "phrases": {"en": ["copy the form as {name}"]},
            "rollback": "undo-copy",
            "binding": {"type": "task", "capability_id": "FILE_COPY", "inputs": paths, "reversible": True},
        }
        undo = {
            **common,
            "id": "undo-copy",
            "title": "Remove the copy",
            "impact": "impactful",
            "access_action": "copy_form",
            "fields": {"of": {"type": "text", "question": "Which goal?"}},
            "rollback": "copy-form",
            "binding": {"type": "undo"},
        }
        file = {
            **copy,
            "id": "file-form",
            "title": "File the form",
            "access_action": "file_form",
            "rollback": "undo-file",
        }
        file["phrases"] = {"en": ["file the form as {name}"]}
        undo_file = {**undo, "id": "undo-file", "access_action": "file_form", "rollback": "file-form"}
        steps = {"first": "file-form", "second": "file-form", "third": "copy-form"}
        prepare = {
            **common,
            "id": "prepare",
            "title": "Prepare three forms",
            "impact": "impactful",
            "access_action": "prepare",
            "fields": {each: {"type": "identifier", "question": f"Which {each} one?"} for each in steps},
            "phrases": {"en": ["prepare {first} and {second} and {third}"]},
            "binding": {
                "type": "composite",
                "steps": [
                    {"id": f"{each}_form", "simulation": step, "fields": {"name": f"{{{each}}}"}}
                    for each, step in steps.items()
                ],
            },
        }
        ping = {
            **common,
            "id": "ping",
            "title": "See whether it works",
            "impact": "read_only",
            "access_action": "ping",
            "phrases": {"en": ["are you there"]},
            "binding": {"type": "task", "capability_id": "NO_EFFECT", "inputs": {}},
        }
        config = {
            "version": 1,
            "base_directories": [str(self.base)],
            "goals": {"catalogue": ["simulations.json"]},
            "policies": {"cedar_files": ["access.cedar"]},
            "connections": {"shop": {"type": "duckdb", "path": "data/shop.duckdb"}},
            "tenants": {TENANT: {"users": [USER]}, "globex": {"users": ["joe"]}},
        }
        (self.root / CONFIG_NAME).write_text(json.dumps(config))
        simulations = [copy, undo, ping, file, undo_file, prepare]
        (self.root / "simulations.json").write_text(json.dumps({"version": 1, "simulations": simulations}))
        (self.root / "access.cedar").write_text(POLICY)

    # --- what agents do -----------------------------------------------------------------------------------------------

    def token(self, agent: str, *caps: str) -> AgentCaller:
        wish = TokenRequest(
            agent, caps or ("plan.propose", "plan.execute_preview", "plan.apply"), TokenConstraints(), timedelta(days=2)
        )
        issued = self.workspace.tokens.issue(wish)
        return AgentCaller.by(self.workspace.tokens, issued.text)

    def write(self, path: str, text: str = APP) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def propose(self, plan_id: str, *actions: dict[str, Any], note: str | None = None) -> ProposalView:
        plan = json.dumps({"plan_id": plan_id, "action_plan": list(actions)}).encode()
        return self.desk.plans.propose(self.agent, plan, note=note)

    def approved(self, plan_id: str, *actions: dict[str, Any]) -> ProposalView:
        made = self.propose(plan_id, *actions)
        shown = self.desk.plans.read_preview(ADMIN, made.proposal_id)
        return self.desk.plans.decide(ADMIN, made.proposal_id, approved=True, preview_digest=shown.preview_digest)

    def hold(self, url: str = "https://shop.example/checkout", agent: str = "shop-bot", **body: str) -> Approval:
        """Ask for the approval of a held request. This process holds it."""
        preview = {
            "method": "POST",
            "url": url,
            "headers": {"content-type": "application/x-www-form-urlencoded"},
            "body": {"masked": {"card": "[masked]"}, "preview": {"item": "Stapler", "price": "49.90 EUR", **body}},
            "estimatedEffect": "Buys 1 Stapler for 49.90 EUR",
        }
        digest = digest_bytes(os.urandom(16))
        asked = HTTPPreview.from_tree(preview, source="test")
        picture = self.workspace.state.path / "browser" / SCREENSHOT_FOLDER / f"{os.urandom(16).hex()}.png"
        picture.parent.mkdir(exist_ok=True, parents=True, mode=0o700)
        picture.write_bytes(png(640, 300))
        return self.workspace.approvals.ask(
            ApprovalRequest(agent, f"jti-of-{agent}", f"action-{digest[-6:]}", digest, digest, asked, str(picture))
        )

    def cookie(self, name: str, role: Any) -> tuple[str, str]:
        """Log a person in. Return the Cookie header and the csrf token of their forms."""
        link = self.workspace.people.invite(name, role, actor="os:test")
        session = self.workspace.people.redeem(link.code)
        return f"remit_session={session.cookie}", session.csrf

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
        """Send one request like a browser. Underscores in header names mean hyphens."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=20)
        own = {"Accept": "text/html", "Origin": self.url, "Content-Type": "application/x-www-form-urlencoded"}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, {key: value for key, value in (own | given).items() if value})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    def invite(self, name: str, role: Any = "admin", **more: Any) -> str:
        """Return a link that lets a person log in."""
        return self.url + self.workspace.people.invite(name, role, actor="os:test", **more).path


def replaced(action_id: str, target: str, old: str, new: str, *after: str, **more: Any) -> dict[str, Any]:
    operation = {"type": "text_replace", "pattern": old, "replacement": new}
    return {
        "action_id": action_id, "action_type": "FILE_MODIFY", "target": target, "operation": operation,
        "depends_on": list(after), **more,
    }  # fmt: skip


def created(action_id: str, target: str, content: str, *after: str, **more: Any) -> dict[str, Any]:
    operation = {"type": "write", "content": content}
    return {
        "action_id": action_id, "action_type": "FILE_CREATE", "target": target, "operation": operation,
        "depends_on": list(after), **more,
    }  # fmt: skip


def png(width: int, height: int) -> bytes:
    """A picture of a page: a grey band on white."""
    rows = b"".join(b"\0" + (b"\xd0\xd8\xe4" if y < 48 else b"\xff\xff\xff") * width for y in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))

    head = pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@contextmanager
def served(folder: Path) -> Iterator[Stage]:
    stage = Stage(folder)
    settings = WebSettings.of(Web.from_tree({"port": 0}))
    listener = open_socket(settings)
    settings = settings.listening_at(listener.getsockname()[1])
    stage.url = settings.url
    with stage.workspace, Services(stage.workspace, console_url=settings.url) as desk:
        stage.desk = desk
        for name in ("undo-copy", "copy-form", "undo-file", "file-form", "prepare"):
            stage.workspace.promotion.promote(name, tenant_id=TENANT, who=person_at_terminal({}))
        stage.app = build_app(desk, settings)
        server = uvicorn.Server(server_config(stage.app, settings))
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
        thread.start()
        until = time.monotonic() + 20
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < until
            time.sleep(0.005)
        try:
            yield stage
        finally:
            desk.events.close()
            server.should_exit = True
            thread.join(15)
            listener.close()
    assert not thread.is_alive()
