"""What somebody asks of a server that dies meanwhile, and what must be true of it at the server that comes back.

Each is one request. Whatever was answered before holds; what was not is there whole or not at all, can be asked for
again, and is then done once. What the world looks like is compared with what the server says.
"""

import json
from abc import ABC, abstractmethod

from remit.identity.callers import AgentCaller, PersonCaller
from remit.identity.person import Person
from remit.services.services import Services
from tests.crash.web.crash_workspace import AFTER, BEFORE, Place
from tests.crash.web.killed_server import Server

ANN = PersonCaller(Person("link:ann"), "admin")
SETTLED = {"APPLIED", "FAILED", "ROLLED_BACK"}


class Scenario(ABC):
    """Made anew for each death, with things of its own."""

    def __init__(self, place: Place, desk: Services) -> None:
        self.place, self.desk = place, desk
        text = place.bot.headers["Authorization"].removeprefix("Bearer ")
        self.bot = AgentCaller.by(place.workspace.tokens, text)
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

    proposal_id: str

    # --- for those about plans ----------------------------------------------------------------------------------------

    def proposed(self) -> str:
        self.files = [f"{self.name}-{number}.txt" for number in range(2)]
        made = self.desk.plans.propose(self.bot, json.dumps(self.place.plan(*self.files)).encode())
        return made.proposal_id

    def approved(self) -> str:
        proposal_id = self.proposed()
        digest = self.desk.plans.read_preview(ANN, proposal_id).preview_digest
        self.desk.plans.decide(ANN, proposal_id, approved=True, preview_digest=digest)
        return proposal_id

    def is_changed(self) -> bool:
        """Both files, or neither."""
        found = {self.place.read(name) for name in self.files}
        assert len(found) == 1, found
        assert found <= {BEFORE, AFTER}, found
        return found == {AFTER}

    def steps(self) -> list[str]:
        """What became of the proposal. When its preview was computed is no step of it."""
        return [kind for kind in self.place.kinds(self.proposal_id) if kind != "proposal.previewed"]

    def is_open(self, server: Server, name: str) -> bool:
        return name in [each["id"] for each in server.tree("/v1/inbox", self.place.admin)["items"]]
