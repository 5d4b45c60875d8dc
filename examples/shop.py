"""What the worked examples share: a shop with one customer, the tools that its agent has, and a person who answers.

The tools are the part to take along: `ShopTools.run` is one tool call of a model, whatever the model is.
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

# These are internal. A program of yours proposes plans and answers over HTTP or MCP; this one does it without a server.
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
    """What the model can have done: two tools for plans, and every governed function. All of it is on Remit's road."""

    def __init__(self, services: Services, token: str) -> None:
        self._services = services
        self._token = token
        self._caller = AgentCaller.by(services.workspace.tokens, token)
        self._functions = tools_of(services.workspace.calls.registry)

    def definitions(self) -> list[dict[str, Any]]:
        """Each with a name, a description and the schema of its arguments."""
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
        """One tool call. The model's id for it is the key: the same call again is the same effect, and the same result.

        While a person has not answered, `waits_for_person` says so of the result. The model need not know: its call is
        made again after the answer.
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
        except RemitError as problem:  # the model is told what was wrong, and what to do next
            return {"state": "refused", **problem.as_json()}


def waits_for_person(result: dict[str, Any]) -> bool:
    return result["state"] in {"waiting", "PENDING"}


def answer_as_person(services: Services) -> None:
    """Read what waits, and say yes: what you would do in the console. You are you by your login at this machine.

    Whoever is an agent (REMIT_AGENT or REMIT_TOKEN is set) is refused here.
    """
    person = PersonCaller(person_at_terminal(os.environ), "approver")
    services.plans.finish_previews(30)  # the preview of an agent's plan is computed after the agent was answered
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
    """In a folder that is removed afterwards."""
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
