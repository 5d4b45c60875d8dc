"""What somebody asks of a server that dies meanwhile, and what must be true of it at the server that comes back.

Each is one request. Whatever was answered before holds; what was not is there whole or not at all, can be asked for
again, and is then done once. What the world looks like is compared with what the server says.
"""

import json
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any

from remit.approval.people import Person
from remit.authority.tokens import Wish
from remit.contracts.browser import TokenConstraints
from remit.desk.callers import AgentCaller, PersonCaller
from remit.desk.desk import Desk
from remit.governed import governed
from tests.road.conftest import file_task
from tests.web_crash.place import AFTER, BEFORE, Place
from tests.web_crash.served import Server
from tests.web_site import Who

ANN = PersonCaller(Person("link:ann"), "admin")
SETTLED = {"APPLIED", "FAILED", "ROLLED_BACK"}


class Scenario(ABC):
    """Made anew for each death, with things of its own."""

    def __init__(self, place: Place, desk: Desk) -> None:
        self.place, self.desk = place, desk
        text = place.bot.headers["Authorization"].removeprefix("Bearer ")
        self.bot = AgentCaller(place.workspace.tokens.verify(text), text)
        self.name = place.fresh(type(self).__name__.lower())
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - some need nothing
        """Before the server that will die is there."""

    @abstractmethod
    def act(self, server: Server) -> None:
        """The one request."""

    @abstractmethod
    def check(self, server: Server) -> None:
        """At the server that came back."""

    # --- for those about plans ----------------------------------------------------------------------------------------

    def proposed(self) -> str:
        self.files = [f"{self.name}-{number}.txt" for number in range(2)]
        made = self.desk.plans.propose(self.bot, json.dumps(self.place.plan(*self.files)).encode())
        return made.proposal_id

    def approved(self) -> str:
        proposal_id = self.proposed()
        digest = self.desk.plans.look(ANN, proposal_id).preview_digest
        self.desk.plans.decide(ANN, proposal_id, approved=True, preview_digest=digest)
        return proposal_id

    def is_changed(self) -> bool:
        """Both files, or neither."""
        found = {self.place.read(name) for name in self.files}
        assert len(found) == 1, found
        assert found <= {BEFORE, AFTER}, found
        return found == {AFTER}

    def is_open(self, server: Server, name: str) -> bool:
        return name in [each["id"] for each in server.tree("/v1/inbox", self.place.admin)["items"]]


class Propose(Scenario):
    def prepare(self) -> None:
        self.plan = self.place.plan(f"{self.name}.txt")

    def act(self, server: Server) -> None:
        made = server.post("/v1/plans", {"plan": self.plan}, self.place.bot, Idempotency_Key=self.name)
        assert made.status == 201, made.body
        self.proposal_id = made.tree["proposal_id"]

    def check(self, server: Server) -> None:
        listed = [
            each["proposal_id"]
            for each in server.tree("/v1/plans?limit=200", self.place.bot)["items"]
            if each["plan_id"] == self.plan["plan_id"]
        ]
        assert len(listed) <= 1
        self.act(server)
        assert listed in ([], [self.proposal_id])
        assert self.place.kinds(self.proposal_id) == ["proposal.made"]
        assert self.is_open(server, self.proposal_id)
        server.post(f"/v1/plans/{self.proposal_id}/cancel", {}, self.place.bot)


class Approve(Scenario):
    def prepare(self) -> None:
        self.proposal_id = self.proposed()
        self.at = f"/v1/plans/{self.proposal_id}"

    def act(self, server: Server) -> None:
        assert self.place.decide(server, self.at) == "APPROVED"

    def check(self, server: Server) -> None:
        found = server.tree(self.at, self.place.bot)
        assert found["state"] in {"PENDING", "APPROVED"}
        assert self.is_open(server, self.proposal_id) == (found["state"] == "PENDING")
        if found["state"] == "PENDING":
            self.act(server)
        assert self.place.kinds(self.proposal_id) == ["proposal.made", "proposal.approved"]
        assert not self.is_changed()
        assert server.post(f"{self.at}/apply", {}, self.place.bot).tree["state"] == "APPLIED"
        assert self.is_changed()


class Deny(Scenario):
    def prepare(self) -> None:
        self.proposal_id = self.proposed()
        self.at = f"/v1/plans/{self.proposal_id}"

    def act(self, server: Server) -> None:
        said = {"approved": False, "reason": "not today"}
        assert server.post(f"{self.at}/decision", said, self.place.admin).tree["state"] == "DENIED"

    def check(self, server: Server) -> None:
        state = server.tree(self.at, self.place.bot)["state"]
        assert state in {"PENDING", "DENIED"}
        if state == "PENDING":
            self.act(server)
        assert self.place.kinds(self.proposal_id) == ["proposal.made", "proposal.denied"]
        refused = server.post(f"{self.at}/apply", {}, self.place.bot)
        assert refused.status >= 400, refused.body
        assert not self.is_changed()


class Withdraw(Scenario):
    """One that was approved: the envelope that was signed for it goes with it."""

    def prepare(self) -> None:
        self.at = f"/v1/plans/{self.approved()}"

    def act(self, server: Server) -> None:
        assert server.post(f"{self.at}/cancel", {}, self.place.bot).tree["state"] == "VOID"

    def check(self, server: Server) -> None:
        found = server.tree(self.at, self.place.bot)
        assert found["state"] in {"APPROVED", "VOID"}
        if found["state"] == "APPROVED":
            self.act(server)
        assert self.place.kinds(found["envelope_id"]).count("envelope.cancelled") == 1
        assert server.post(f"{self.at}/apply", {}, self.place.bot).status >= 400
        assert not self.is_changed()


class Apply(Scenario):
    def prepare(self) -> None:
        self.at = f"/v1/plans/{self.approved()}"

    def act(self, server: Server) -> None:
        answer = server.post(f"{self.at}/apply", {}, self.place.bot)
        assert answer.tree["state"] == "APPLIED", answer.body

    def check(self, server: Server) -> None:
        found = server.tree(self.at, self.place.bot)
        state = found["state"]
        assert state in {"APPROVED", *SETTLED}, state
        assert self.is_changed() == (state == "APPLIED"), state
        again = server.post(f"{self.at}/apply", {}, self.place.bot).tree["state"]
        assert again == ("APPLIED" if state == "APPROVED" else state)
        assert self.is_changed() == (again == "APPLIED")
        kinds = self.place.kinds(found["envelope_id"])
        assert (kinds.count("plan.intent"), kinds.count("plan.outcome")) == (1, 1), kinds
        assert server.get(f"{self.at}/report", self.place.bot).status == 200


class Undo(Scenario):
    def prepare(self) -> None:
        proposal_id = self.approved()
        assert self.desk.plans.apply(self.bot, proposal_id, 30).state == "APPLIED"
        self.at = f"/v1/plans/{proposal_id}"

    def act(self, server: Server) -> None:
        answer = server.post(f"{self.at}/undo", {}, self.place.bot)
        assert answer.status == 200, answer.body
        assert answer.tree["status"] == "EXECUTED"

    def check(self, server: Server) -> None:
        state = server.tree(self.at, self.place.bot)["state"]
        assert state in {"APPLIED", "UNDONE"}
        assert self.is_changed() == (state == "APPLIED"), state
        if state == "APPLIED":
            self.act(server)
        assert server.tree(self.at, self.place.bot)["state"] == "UNDONE"
        assert not self.is_changed()
        repeated = server.post(f"{self.at}/undo", {}, self.place.bot)
        assert repeated.status in {200, 409}, repeated.body
        assert not self.is_changed()


class Task(Scenario):
    def prepare(self) -> None:
        self.source, self.target = self.place.base / f"{self.name}.from", self.place.base / f"{self.name}.to"
        self.source.write_text(self.name)
        asked = file_task(self.name, "FILE_MOVE", self.source, self.target)
        lease = self.desk.tasks.lease(ANN, asked, timedelta(minutes=30))
        self.body = {"manifest": json.loads(asked), "lease": lease.tree()}

    def act(self, server: Server) -> None:
        answer = server.post("/v1/tasks", self.body, self.place.bot)
        assert (answer.status, answer.tree["state"]) == (200, "done"), answer.body

    def check(self, server: Server) -> None:
        found = server.get(f"/v1/tasks/{self.name}", self.place.bot, wait=30)
        if found.status == 404:  # it was never begun
            assert self.source.exists()
            self.act(server)
            found = server.get(f"/v1/tasks/{self.name}", self.place.bot)
        assert (found.status, found.tree["state"]) == (200, "done"), found.body
        moved = found.tree["result"]["status"] == "SUCCESS"
        assert (self.source.exists(), self.target.exists()) == (not moved, moved)
        assert (self.target if moved else self.source).read_text() == self.name
        again = server.post("/v1/tasks", self.body, self.place.bot).tree
        assert (again["stored"], again["result"]) == (True, found.tree["result"])
        kinds = self.place.kinds(self.name)
        assert (kinds.count("task.intent"), kinds.count("task.outcome")) == (1, 1), kinds


class Ask(Scenario):
    def prepare(self) -> None:
        self.place.office.write_note(self.name)

    def act(self, server: Server) -> None:
        body = {"utterance": f"archive the note {self.name}", "correlation_id": self.name}
        answer = server.post("/v1/goals", body, self.place.bot)
        assert (answer.tree["state"], answer.tree["waiting_for"]) == ("waiting", "confirmation"), answer.body

    def check(self, server: Server) -> None:
        found = server.get(f"/v1/goals/acme/{self.name}", self.place.bot)
        assert found.status in {200, 404}, found.body
        if found.status == 404 or found.tree["state"] != "waiting":
            self.act(server)
        waiting = [each["id"] for each in server.tree("/v1/inbox", self.place.mia)["items"]]
        assert waiting.count(self.name) == 1
        assert self.name in self.place.office.notes()
        answer = server.post(f"/v1/goals/acme/{self.name}/answer", {"answer": "no"}, self.place.mia)
        assert answer.tree["state"] == "refused", answer.body


class Confirm(Scenario):
    def prepare(self) -> None:
        self.place.office.write_note(self.name)
        asked = self.desk.goals.ask(self.bot, f"archive the note {self.name}", correlation_id=self.name, wait=30)
        assert asked.waiting_for == "confirmation"
        self.at = f"/v1/goals/acme/{self.name}"

    def act(self, server: Server) -> None:
        answer = server.post(f"{self.at}/answer", {"answer": "yes"}, self.place.mia)
        assert answer.tree["state"] == "done", answer.body

    def check(self, server: Server) -> None:
        found = server.tree(self.at, self.place.bot, wait=30)
        if found["state"] == "waiting":
            assert not self.is_archived()
            if found["waiting_for"] == "confirmation":
                self.act(server)
            else:  # his yes is on record: whoever asked goes on with it
                assert found["event"] == "ACCESS_ALLOWED", found
                assert server.post(f"{self.at}/continue", {}, self.place.bot).tree["state"] == "done"
            found = server.tree(self.at, self.place.bot)
        assert (found["state"], found["event"]) in {("done", "SUCCEEDED"), ("failed", "FAILED")}, found
        assert self.is_archived() == (found["state"] == "done")
        events = self.place.office.events(self.name)
        assert len([each for each in events if each in {"SUCCEEDED", "FAILED"}]) == 1, events
        server.post(f"{self.at}/answer", {"answer": "yes"}, self.place.mia)
        assert self.place.office.events(self.name) == events, "it was done again"

    def is_archived(self) -> bool:
        """In one of the two places."""
        there = self.name in self.place.office.archived()
        assert there != (self.name in self.place.office.notes())
        return there


class CallAnswered(Scenario):
    """The question that a program left about a function it wants to call."""

    def prepare(self) -> None:
        self.made: list[int] = []

        function = f"crash.{self.name.replace('-', '_')}"

        @governed(self.place.workspace, function)
        def set_value(value: int) -> int:
            self.made.append(value)
            return value

        self.function: Any = set_value
        wish = Wish("caller", (f"call.{function}",), TokenConstraints(), timedelta(days=1))
        self.token = self.place.workspace.tokens.issue(wish).text
        waiting = self.call().waiting
        assert waiting is not None
        self.at, self.question = f"/v1/inbox/request/{waiting.approval_id}", waiting.approval_id

    def call(self) -> Any:
        return self.function.call(token=self.token, key=self.name, value=2)

    def act(self, server: Server) -> None:
        digest = server.tree(self.at, self.place.admin)["request"]["request_digest"]
        answer = server.post(f"{self.at}/decision", {"approved": True, "shown_digest": digest}, self.place.admin)
        assert answer.tree["state"] == "APPROVED", answer.body

    def check(self, server: Server) -> None:
        state = server.tree(self.at, self.place.admin)["question"]["state"]
        assert state in {"PENDING", "APPROVED"}
        assert self.is_open(server, self.question) == (state == "PENDING")
        if state == "PENDING":
            self.act(server)
        assert (self.call().state, self.call().state, self.made) == ("done", "done", [2])


class Revoke(Scenario):
    """What waits for the token becomes void with it, not sooner and not later."""

    def prepare(self) -> None:
        wish = Wish(self.name, ("plan.propose",), TokenConstraints(), timedelta(days=1))
        issued = self.place.workspace.tokens.issue(wish)
        self.jti, self.agent = issued.claims.jti, Who({"Authorization": f"Bearer {issued.text}"})
        caller = AgentCaller(self.place.workspace.tokens.verify(issued.text), issued.text)
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


ALL: tuple[type[Scenario], ...] = (
    Propose, Approve, Deny, Withdraw, Apply, Undo, Task, Ask, Confirm, CallAnswered, Revoke, LogIn, Invite, Remove,
)  # fmt: skip
