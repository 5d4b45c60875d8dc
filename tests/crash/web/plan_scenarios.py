"""Plans: proposed, answered, withdrawn, applied and undone, while the server dies."""

import json

from tests.crash.web.killed_server import Server
from tests.crash.web.scenario import ANN, SETTLED, Scenario


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
        assert self.steps() == ["proposal.made"]
        assert self.is_open(server, self.proposal_id)
        server.post(f"/v1/plans/{self.proposal_id}/cancel", {}, self.place.bot)


class ComputeAgain(Scenario):
    """The preview of a plan whose file was changed since."""

    def prepare(self) -> None:
        self.files = [f"{self.name}.txt"]
        plan = json.dumps(self.place.plan(*self.files)).encode()
        self.proposal_id = self.desk.plans.propose(ANN, plan).proposal_id
        self.at = f"/v1/plans/{self.proposal_id}"
        self.first = self.desk.plans.read_preview(ANN, self.proposal_id).preview_digest
        self.place.workspace.root.joinpath(self.files[0]).chmod(0o600)

    def act(self, server: Server) -> None:
        answer = server.post(f"{self.at}/preview", {}, self.place.admin)
        assert answer.status == 200, answer.body
        assert answer.tree["preview_digest"] != self.first

    def check(self, server: Server) -> None:
        shown = server.tree(f"{self.at}/preview", self.place.admin)
        again = self.place.kinds(self.proposal_id).count("proposal.previewed")
        assert (again, shown["changed_since"] == []) in ((0, False), (1, True))
        assert (shown["preview_digest"] == self.first) == (again == 0)
        if again == 0:
            self.act(server)
        assert self.place.kinds(self.proposal_id) == ["proposal.made", "proposal.previewed"]
        assert self.place.decide(server, self.at) == "APPROVED"


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
        assert self.steps() == ["proposal.made", "proposal.approved"]
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
        assert self.steps() == ["proposal.made", "proposal.denied"]
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
