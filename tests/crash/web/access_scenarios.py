"""Who is let in: tokens and people, while the server dies."""

import json
from datetime import timedelta

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.identity.callers import AgentCaller
from tests.crash.web.killed_server import Server
from tests.crash.web.scenario import Scenario
from tests.support.web_server import Who


class Revoke(Scenario):
    """What waits for the token becomes void with it, not sooner and not later."""

    def prepare(self) -> None:
        wish = TokenRequest(self.name, ("plan.propose",), TokenConstraints(), timedelta(days=1))
        issued = self.place.workspace.tokens.issue(wish)
        self.jti, self.agent = issued.claims.jti, Who({"Authorization": f"Bearer {issued.text}"})
        caller = AgentCaller.by(self.place.workspace.tokens, issued.text)
        plan = json.dumps(self.place.plan(f"{self.name}.txt")).encode()
        self.at = f"/v1/plans/{self.desk.plans.propose(caller, plan).proposal_id}"

    def act(self, server: Server) -> None:
        answer = server.post(f"/v1/tokens/{self.jti}/revoke", {"reason": "over"}, self.place.admin)
        assert answer.status == 200, answer.body

    def check(self, server: Server) -> None:
        status, state = self.now(server)
        assert (status, state) in {(200, "PENDING"), (401, "VOID")}
        if status == 200:
            self.act(server)
        assert self.now(server) == (401, "VOID")

    def now(self, server: Server) -> tuple[int, str]:
        return server.get(self.at, self.agent).status, server.tree(self.at, self.place.admin)["state"]


class LogIn(Scenario):
    """The cookie is lost with the answer. Then the link is used up: there is never a second session by it."""

    def prepare(self) -> None:
        self.code = self.place.workspace.people.invite(self.name, "viewer", actor="os:test").code

    def act(self, server: Server) -> None:
        assert self.post(server) == 303

    def post(self, server: Server) -> int:
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{server.port}"}
        return server.ask("POST", "/login", Who({}), f"code={self.code}".encode(), form).status

    def check(self, server: Server) -> None:
        before = self.sessions()
        status = self.post(server)
        assert (before, status) in {(0, 303), (1, 403)}
        assert self.sessions() == 1
        assert server.tree("/v1/me", self.place.admin), "who was logged in is so no more"

    def sessions(self) -> int:
        [found] = [each for each in self.place.workspace.people.listed() if each.id == f"link:{self.name}"]
        return found.sessions


class Invite(Scenario):
    def act(self, server: Server) -> None:
        answer = server.post("/v1/people", {"name": self.name, "role": "approver"}, self.place.admin)
        assert answer.status == 201, answer.body
        self.code = answer.tree["link"].rpartition("#")[2]

    def check(self, server: Server) -> None:
        listed = [each for each in self.place.workspace.people.listed() if each.id == f"link:{self.name}"]
        assert len(listed) <= 1
        self.act(server)
        assert self.place.workspace.people.redeem(self.code).person_id == f"link:{self.name}"
        assert self.place.kinds(f"link:{self.name}").count("person.invited") in {1, 2}


class Remove(Scenario):
    """Gone as a whole: whoever is listed can work, and whoever is not, cannot."""

    def prepare(self) -> None:
        self.who = self.place.person("viewer", self.name)

    def act(self, server: Server) -> None:
        assert server.post("/v1/people/remove", {"name": self.name}, self.place.admin).status == 200

    def check(self, server: Server) -> None:
        listed = f"link:{self.name}" in [each.id for each in self.place.workspace.people.listed()]
        assert server.get("/v1/me", self.who).status == (200 if listed else 401)
        if listed:
            self.act(server)
        assert server.get("/v1/me", self.who).status == 401
        assert self.place.kinds(f"link:{self.name}").count("person.removed") == 1
