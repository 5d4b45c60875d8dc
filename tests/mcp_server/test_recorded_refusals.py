"""A refused MCP tool about plans is in the ledger with its agent, and its answer has the error format of plans."""

import json
from typing import Any

import pytest

from remit.contracts.plans.error_response import ErrorResponse
from tests.mcp_server.mcp_office import Desked, Talk, over_http, talking
from tests.plans.project import create, plan_of
from tests.support.refusal_entries import new_refusals

OUTSIDE: dict[str, Any] = json.loads(plan_of(create("a", "../outside.txt"), plan_id="outside"))


@pytest.mark.req("PX-44")
def test_every_refusal_after_parsing_is_recorded_with_its_agent(
    desked: Desked, talk: Talk, subtests: pytest.Subtests
) -> None:
    plan, _ = desked.plan()
    name = talk.ok("propose_plan", plan=plan)["proposal_id"]
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("preview_plan", {"plan": OUTSIDE}, "preview"),
        ("propose_plan", {"plan": OUTSIDE}, "propose"),
        ("apply_plan", {"proposal_id": name}, "apply"),
        ("undo_plan", {"proposal_id": name}, "rollback"),
        ("cancel_plan", {"proposal_id": "0198f6a0-0000-7000-8000-000000000000"}, "cancel"),
    ]
    for tool, arguments, operation in asked:
        with subtests.test(tool):
            with new_refusals(desked.workspace) as found:
                told = talk.refused(tool, **arguments)
            (entry,) = found
            assert (entry.kind, entry.actor) == ("request.refused", "agent:bot")
            assert (entry.payload["operation"], entry.payload["reason"]) == (operation, told["code"])
            (error,) = told["errors"]
            assert ErrorResponse.from_tree(error, source="the answer").error_code == entry.payload["code"]


@pytest.mark.req("PX-44")
def test_a_missing_capability_is_recorded_and_malformed_arguments_are_not(desked: Desked, address: str) -> None:
    with talking(over_http(address, desked.token("reader", "task.run"))) as reader:
        with new_refusals(desked.workspace) as found:
            reader.refused("propose_plan", plan=desked.plan()[0])
        assert [(each.actor, each.payload["reason"]) for each in found] == [("agent:reader", "capability_missing")]
        with new_refusals(desked.workspace) as found:
            told = reader.refused("propose_plan", plan={"plan_id": "p"})
            reader.refused("propose_plan", nonsense=True)
        assert found == []
        assert told["errors"]
