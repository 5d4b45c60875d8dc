"""Tasks, goals and calls while the server dies; and all that is tried."""

import json
from datetime import timedelta
from typing import Any

from remit.authority.capability_token import TokenRequest
from remit.contracts.browser.browser import TokenConstraints
from remit.governed_functions import governed
from tests.crash.web.access_scenarios import Invite, LogIn, Remove, Revoke
from tests.crash.web.killed_server import Server
from tests.crash.web.plan_scenarios import Apply, Approve, ComputeAgain, Deny, Propose, Undo, Withdraw
from tests.crash.web.scenario import ANN, Scenario
from tests.support.task_workspace import file_task


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
        wish = TokenRequest("caller", (f"call.{function}",), TokenConstraints(), timedelta(days=1))
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


ALL: tuple[type[Scenario], ...] = (
    Propose, ComputeAgain, Approve, Deny, Withdraw, Apply, Undo, Task, Ask, Confirm, CallAnswered, Revoke, LogIn,
    Invite, Remove,
)  # fmt: skip
