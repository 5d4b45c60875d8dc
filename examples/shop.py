"""Common parts of the worked examples: a shop with one customer, the tools of its agent, and a person who answers.

Copy the tools into your own program: `ShopTools.run` is one tool call of any model.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from remit import RemitError, TokenConstraints, TokenRequest, Workspace, governed, initialise, tool_of, tools_of

# These are internal. Your own program uses HTTP or MCP to propose plans and to answer. This one needs no server.
from remit.contracts.services.common import Decision
from remit.identity.callers import AgentCaller, PersonCaller
from remit.identity.person import person_at_terminal
from remit.services.services import Services

REQUEST: Final = "Give acme 5% off, and write it down in discounts.md."
PLAN: Final = {
    "plan_id": "note-the-discount",
    "action_plan": [
        {
            "action_id": "a1",
            "action_type": "FILE_MODIFY",
            "target": "discounts.md",
            "operation": {"type": "text_replace", "pattern": "acme: 0%", "replacement": "acme: 5%"},
        }
    ],
}
CAPABILITIES: Final = ("plan.propose", "plan.apply", "call.crm.set_discount")
_OWN_TOOLS: Final = {
    "propose_plan": ("Propose a plan: a person sees its diff before anything is changed.", "plan", "object"),
    "apply_plan": ("Carry out a plan that a person has approved.", "proposal_id", "string"),
}


class ShopTools:
    """The tools of the model: two for plans, and one for each governed function. Remit's engine runs every call."""

    def __init__(self, services: Services, token: str) -> None:
        self._services = services
        self._token = token
        self._caller = AgentCaller.by(services.workspace.tokens, token)
        self._functions = tools_of(services.workspace.calls.registry)

    def definitions(self) -> list[dict[str, Any]]:
        """Return the tools, each with a name, a description and the schema of its arguments."""
        own_tools = [
            {
                "name": name,
                "description": description,
                "input_schema": {"type": "object", "properties": {parameter: {"type": kind}}, "required": [parameter]},
            }
            for name, (description, parameter, kind) in _OWN_TOOLS.items()
        ]
        return [*own_tools, *map(tool_of, self._functions.values())]

    def run(self, name: str, arguments: str, call_id: str) -> dict[str, Any]:
        """Run one tool call. Its key is the model's id of the call. A repeated call only returns the result.

        `waits_for_person` tells whether a result waits for a person's answer. The program then makes the same call
        again after the answer. The model does not notice.
        """
        try:
            if name in self._functions:
                function = self._functions[name].name
                calls = self._services.workspace.calls
                return calls.run(function, arguments.encode(), token=self._token, key=call_id).tree()
            parsed = json.loads(arguments)
            if name == "propose_plan":
                plan = json.dumps(parsed["plan"]).encode()
                return self._services.plans.propose(self._caller, plan, key=call_id).tree()
            return self._services.plans.apply(self._caller, parsed["proposal_id"], wait=30).tree()
        except RemitError as problem:  # the model gets the problem and the next step
            return {"state": "refused", **problem.as_json()}


def waits_for_person(result: dict[str, Any]) -> bool:
    return result["state"] in {"waiting", "PENDING"}


def answer_as_person(services: Services) -> None:
    """Read the waiting requests and approve them, as a person does in the console.

    The person is the one who is logged in on this machine. A process of an agent, in which REMIT_AGENT or REMIT_TOKEN
    is set, is refused here.
    """
    person = PersonCaller(person_at_terminal(os.environ), "approver")
    services.plans.finish_previews(30)  # it is computed after the agent has its answer
    for question in services.inbox.list_open(person):
        print(f"a person reads: {question.title}")
        digest: str | None
        if question.kind == "plan":
            digest = services.plans.read_preview(person, question.id).preview_digest
        else:
            request = services.inbox.show(person, question.kind, question.id).request
            digest = request.request_digest if request is not None else None
        services.inbox.decide(person, question.kind, question.id, Decision(approved=True, shown_digest=digest))


@dataclass
class Shop:
    workspace: Workspace
    services: Services
    tools: ShopTools
    customers: dict[str, int]

    def show(self) -> None:
        print(f"discounts.md: {(self.workspace.root / 'discounts.md').read_text().strip()}")
        print(f"customers: {self.customers}")
        print(f"the record holds: {self.workspace.verify_ledger().holds}")


@contextlib.contextmanager
def open_shop() -> Iterator[Shop]:
    """Make a shop in a folder that is removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        project.mkdir()
        (project / "discounts.md").write_text("acme: 0%\n")
        workspace, _ = initialise(project, {**os.environ, "REMIT_STATE": f"{folder}/state"})
        with workspace, Services(workspace) as services:
            customers = {"acme": 0}
            declare_functions(workspace, customers)
            request = TokenRequest("shop-assistant", CAPABILITIES, TokenConstraints(), timedelta(hours=1))
            token = workspace.tokens.issue(request).text
            yield Shop(workspace, services, ShopTools(services, token), customers)


def declare_functions(workspace: Workspace, customers: dict[str, int]) -> None:
    def discount_of(customer: str, **_: Any) -> int:
        return customers[customer]

    def restore(before: int, customer: str, **_: Any) -> None:
        customers[customer] = before

    def explain(customer: str, percent: int) -> str:
        return f"{customer} has {customers[customer]}% off, and will have {percent}%"

    @governed(workspace, "crm.set_discount", risk="HIGH", preview=explain, before=discount_of, undo=restore)
    def set_discount(customer: str, percent: int) -> dict[str, Any]:
        """Set a customer's discount."""
        customers[customer] = percent
        return {"customer": customer, "percent": percent}
