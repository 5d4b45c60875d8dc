"""A value is data: it fills the places that the author left open, and can do nothing else."""

from pathlib import Path
from typing import Any

import pytest

from remit.contracts.browser.browser import Action
from remit.contracts.plans.plan import Plan
from remit.contracts.tasks.task import TaskManifest
from remit.core.errors import RefusedError
from remit.goals.binding.binding import BrowserAction, PlanAction, TaskAction, UndoAction, fill
from tests.goals.catalogue.simulations import BUY, MOVE, NOTE, REFUND, UNDO, changed, findings, simulation

EUR: Any = {"value": "12.50", "currency": "EUR"}


def test_each_kind_of_binding_becomes_an_action_that_its_operation_reads() -> None:
    task = fill(simulation(MOVE), {"name": "may"})
    assert isinstance(task, TaskAction)
    manifest = TaskManifest.from_tree(task.manifest("t"))
    assert manifest.tree()["inputs"]["source_path"] == "/srv/in/may.txt"

    plan = fill(simulation(NOTE), {"name": "n1", "text": "hi"})
    assert isinstance(plan, PlanAction)
    [action] = Plan.from_tree(plan.plan("p")).tree()["action_plan"]
    assert (action["target"], action["operation"]["content"]) == ("notes/n1.txt", "{n1}: hi\n")

    query = fill(simulation(REFUND), {"order_id": "A-17", "amount": EUR})
    assert isinstance(query, PlanAction)
    operation = Plan.from_tree(query.plan("p")).tree()["action_plan"][0]["operation"]
    assert operation["query"] == REFUND["binding"]["query"]
    assert operation["parameters"] == {"order": "A-17", "amount": "12.50"}

    bought = fill(simulation(BUY), {"order_id": "A-17", "amount": EUR, "words": "a&b=c d"})
    assert isinstance(bought, BrowserAction)
    action = Action.from_tree(bought.action("a")).tree()
    assert action["target"] == "https://shop.example/orders/A-17?words=a%26b%3Dc%20d"
    assert action["amount"] == {"value": 12.5, "currency": "EUR"}
    assert (bought.domains, bought.max_purchase) == (("shop.example",), {"value": 50.0, "currency": "EUR"})

    assert fill(simulation(UNDO), {"of": "c-1"}) == UndoAction()


def test_a_value_is_never_read_again_and_never_changes_the_shape() -> None:
    hostile = [
        "{name}",
        "{{name}}",
        "}{",
        '", "mode": "0755", "x": "',
        "$.a[*]",
        "'; DROP TABLE orders; --",
        "%s %d {0} ${HOME} $(id)",
    ]
    plain = fill(simulation(NOTE), {"name": "n1", "text": "x"})
    assert isinstance(plain, PlanAction)
    for text in hostile:
        made = fill(simulation(NOTE), {"name": "n1", "text": text})
        assert isinstance(made, PlanAction)
        operation = made.tree["action_plan"][0]["operation"]
        assert operation["content"] == f"{{n1}}: {text}\n"
        operation["content"] = "{n1}: x\n"
        assert made == plain


def test_a_filled_action_shares_nothing_with_the_definition() -> None:
    read = simulation(NOTE)
    first = fill(read, {"name": "n1", "text": "a"})
    assert isinstance(first, PlanAction)
    first.tree["action_plan"][0]["target"] = "elsewhere"
    second = fill(read, {"name": "n1", "text": "a"})
    assert isinstance(second, PlanAction)
    assert second.tree["action_plan"][0]["target"] == "notes/n1.txt"
    assert read.own_digest == read.digest()


def test_the_id_of_an_action_is_not_the_templates() -> None:
    assert PlanAction({"plan_id": "mine"}).plan("ours") == {"plan_id": "ours"}
    assert BrowserAction({"action_id": "mine"}, (), None).action("ours") == {"action_id": "ours"}


def test_fields_that_are_not_valid_never_reach_the_action() -> None:
    for name in ("../../etc/x", "a/b", "", ".ssh", "a b", "-x"):
        with pytest.raises(RefusedError):
            fill(simulation(MOVE), {"name": name})


def test_an_optional_field_that_is_missing_is_null() -> None:
    tree = changed(REFUND, binding__parameters={"order": "{order_id}", "amount": "{amount.value}", "why": "{why}"})
    tree["fields"]["why"] = {"type": "text", "question": "Why?", "optional": True}
    made = fill(simulation(tree), {"order_id": "A-17", "amount": EUR})
    assert isinstance(made, PlanAction)
    assert made.tree["action_plan"][0]["operation"]["parameters"]["why"] is None


def _action(**changes: Any) -> dict[str, Any]:
    action = {**NOTE["binding"]["template"]["action_plan"][0], **changes}
    return changed(NOTE, binding={"type": "plan", "template": {"action_plan": [action]}})


def _replace(**operation: Any) -> dict[str, Any]:
    return _action(action_type="FILE_MODIFY", operation=operation)


REFUSED_PLACES: list[dict[str, Any]] = [
    changed(REFUND, binding__query="UPDATE orders SET x = '{order_id}'"),
    changed(REFUND, binding__parameters={"{order_id}": 1}),
    changed(REFUND, binding__parameters={"order": "{nothing}"}),
    changed(REFUND, binding__parameters={"order": "{order_id.value}"}),
    changed(REFUND, binding__parameters={"order": "{order_id"}),
    changed(REFUND, binding__save_results_to="out/{amount}.csv"),
    changed(MOVE, binding__inputs={"source_path": "{name}", "destination_path": "/srv/x"}),
    changed(MOVE, binding__inputs={"source_path": "/{name}", "destination_path": "/srv/x"}),
    changed(MOVE, binding__capability_id="FILE_{name}"),
    changed(
        MOVE,
        binding={
            "type": "task",
            "capability_id": "FILE_RESTORE",
            "inputs": {"recovery": "{name}", "destination_path": "/srv/x"},
        },
    ),
    _action(target="{text}"),
    _action(target="notes/{text}.txt"),
    _action(action_id="{name}"),
    _action(risk_level="{name}"),
    _action(action_type="FILE_{name}"),
    _action(operation={"type": "{name}", "content": "x"}),
    _action(operation={"type": "write", "content": "x", "mode": "{name}"}),
    _action(operation={"type": "write", "content": "one { brace"}),
    _replace(type="json_update_value", path="$.{name}", value=1),
    _replace(type="json_add_property", path="$", key="{name}", value=1),
    _replace(type="text_replace", pattern="{text}", replacement="x", regex=True),
    _replace(type="text_replace", pattern="x", replacement="{text}", regex=True),
    changed(BUY, binding__action={**BUY["binding"]["action"], "target": "https://{order_id}.example/x"}),
    changed(BUY, binding__action={**BUY["binding"]["action"], "target": "{order_id}"}),
    changed(BUY, binding__action={**BUY["binding"]["action"], "target": "https://shop.example/{words}"}),
    changed(BUY, binding__action={**BUY["binding"]["action"], "selector": "#{order_id}"}),
    changed(BUY, binding__action={**BUY["binding"]["action"], "session": "{order_id}"}),
    changed(BUY, binding__action={**BUY["binding"]["action"], "amount": "{order_id}"}),
    changed(BUY, binding__action={**BUY["binding"]["action"], "action_id": "x"}),
]


def test_a_value_in_a_place_that_decides_something_is_refused_when_the_file_is_read(tmp_path: Path) -> None:
    missed = [tree["binding"] for tree in REFUSED_PLACES if not _of(findings(tmp_path, tree), tree)]
    assert missed == []


def test_values_in_places_for_data_are_taken(tmp_path: Path) -> None:
    allowed = [
        _replace(type="json_update_value", path="$.a", value={"type": "{text}", "path": ["{name}"]}),
        _replace(type="text_replace", pattern="{text}", replacement="{name}"),
        _action(operation={"type": "write", "details": {"content": "{text}"}}),
        _action(operation={"type": "write", "content_base64": "e25hbWU="}),
        _action(operation={"type": "write", "content": "{{text}} {{ }}"}),
        changed(REFUND, binding__query="SELECT {'a': 1} FROM orders"),
    ]
    assert [finding.what for tree in allowed for finding in _of(findings(tmp_path, tree), tree)] == []


def _of(found: list[Any], tree: dict[str, Any]) -> list[Any]:
    return [finding for finding in found if finding.simulation == tree["id"]]
