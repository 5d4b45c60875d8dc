"""A workspace with a bit of everything that can wait or run when its server dies."""

import contextlib
import itertools
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from remit.identity.models import Role
from remit.workspace.workspace import Workspace
from tests.browser.service.browser_workspace import EVERYTHING
from tests.crash.web.killed_server import Server, browser_of, served
from tests.goals.goal_office import Office
from tests.plans.project import plan_of, replace
from tests.support.browser_site import Site
from tests.support.web_server import ALL_CAPS, Who, agent_of, person_of

BEFORE, AFTER = "one\ntwo\nthree\n", "one\nTWO\nthree\n"
FORM = '<form method="post" action="/act"><input name="item" value="42"><button id="go">Pay now</button></form>'


class Place:
    """People and agents keep their credentials over every restart; so does the address."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        limits = {"requests_per_minute": 1_000_000, "logins_per_minute": 1_000}
        self.office = Office(folder, web={"limits": limits}, **settings)
        self.folder = folder
        self.root, self.base = self.office.root, self.office.base.resolve()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = int(taken.getsockname()[1])
        self.admin = self.person("admin", "ann")
        self.mia = self.person("operator", "mia", user="mia", tenant="acme")
        self.bot = agent_of(self.workspace, "bot", *ALL_CAPS, user="mia", tenant="acme")
        self.browsing_bot = agent_of(self.workspace, "bot", *EVERYTHING, domains=("shop.test",))
        self._numbers = itertools.count(1)

    @property
    def workspace(self) -> Workspace:
        return self.office.workspace

    def person(self, role: Role, name: str, **more: Any) -> Who:
        return person_of(self.workspace, self.port, role, name, **more)

    @contextmanager
    def served(self, fault: str | None = None, *, real: bool = False, words: tuple[str, ...] = ()) -> Iterator[Server]:
        environ = {"REMIT_FAULT": fault} if fault else {}
        with served(self.workspace, self.port, *words, real=real, **environ) as server:
            yield server

    # --- things that are done -----------------------------------------------------------------------------------------

    def fresh(self, word: str) -> str:
        return f"{word}-{next(self._numbers)}"

    def plan(self, *names: str) -> dict[str, Any]:
        """A plan that changes these files, which are there from now on."""
        for name in names:
            (self.root / name).write_text(BEFORE)
        actions = [replace(f"a{number}", name) for number, name in enumerate(names)]
        document: dict[str, Any] = json.loads(plan_of(*actions, plan_id=f"plan-{names[0]}"))
        return document

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def propose(self, server: Server, *names: str) -> str:
        made = server.post("/v1/plans", {"plan": self.plan(*names)}, self.bot)
        assert made.status == 201, made.body
        return str(made.headers["location"])

    def decide(self, server: Server, place: str) -> str:
        shown = server.get(f"{place}/preview", self.admin)
        if shown.status == 404:  # the process that was to compute it has ended
            shown = server.post(f"{place}/preview", {}, self.admin)
        assert shown.status == 200, shown.body
        said = {"approved": True, "preview_digest": shown.tree["preview_digest"]}
        answer = server.post(f"{place}/decision", said, self.admin)
        assert answer.status == 200, answer.body
        return str(answer.tree["state"])

    def kinds(self, correlation_id: str) -> list[str]:
        with self.workspace.store.reading() as connection:
            query = "SELECT kind FROM ledger_entries WHERE correlation_id = ? ORDER BY tenant_id, seq"
            return [row[0] for row in connection.rows(query, (correlation_id,))]

    def unfinished(self) -> int:
        with self.workspace.store.reading() as connection:
            row = connection.one("SELECT COUNT(*) FROM claims WHERE state = 'RUNNING'")
        return row[0] if row else 0

    def require_sound(self) -> None:
        """Nothing is half done, and every hash, link and signature holds."""
        verdict = self.workspace.verify_ledger()
        assert verdict.holds, verdict.findings

    def close(self) -> None:
        self.office.close()


@contextmanager
def place_with_browser(folder: Path) -> Iterator[tuple[Place, Site]]:
    with Site() as site:
        site.routes |= {"/": FORM, "/act": "<title>Thanks</title>"}
        place = Place(folder, browser=json.loads(site.config(idle_seconds=120).model_dump_json()))
        try:
            yield place, site
        finally:
            with contextlib.suppress(Exception):
                browser_of(place.workspace).stop()
            place.close()
