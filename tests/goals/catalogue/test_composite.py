"""Composite simulations: the order of the steps, the values of their fields, and the digest that covers the whole."""

from typing import Any

import pytest
from pydantic import JsonValue

from remit.contracts.goals.simulation import CompositeBinding
from remit.core.errors import UsageError
from remit.goals.binding.binding import fill
from remit.goals.catalogue.catalogue import build_catalogue
from remit.goals.composite.order import ordered_steps, resolve_fields
from remit.ledger.goal_queries import PromotedState
from tests.goals.catalogue.simulations import COMPOSITE, FILE_AND_NOTE, changed, simulation

WAITS: list[tuple[dict[str, list[str] | None], str]] = [
    ({"a": None, "b": None, "c": None}, "abc"),
    ({"a": ["c"], "b": [], "c": []}, "bca"),
    ({"a": ["b"], "b": ["c"], "c": []}, "cba"),
    ({"a": [], "b": ["a"], "c": ["a"], "d": ["c", "b"]}, "abcd"),
    ({"a": ["d"], "b": None, "c": [], "d": None}, "cdab"),
]
BROKEN: list[tuple[list[tuple[str, list[str] | None]], str]] = [
    ([("a", ["b"]), ("b", ["a"])], "wait for each other: a -> b -> a"),
    ([("x", ["a"]), ("a", ["b"]), ("b", ["c"]), ("c", ["a"])], "wait for each other: a -> b -> c -> a"),
    ([("a", ["a"])], "wait for each other: a -> a"),
    ([("a", ["nobody"])], "the step a depends on nobody, and there is no such step"),
    ([("a", None), ("b", None), ("a", None)], "two steps have the id a"),
]


def _binding(steps: list[tuple[str, list[str] | None]], **fields: Any) -> CompositeBinding:
    listed = [
        {"id": name, "simulation": "s", "fields": fields, **({} if waits is None else {"depends_on": waits})}
        for name, waits in steps
    ]
    return CompositeBinding.from_tree({"type": "composite", "steps": listed})


@pytest.mark.req("AC-19", "AC-29")
def test_the_order_of_steps_follows_their_dependencies_then_the_file() -> None:
    for waits, order in WAITS:
        assert "".join(step.id for step in ordered_steps(_binding(list(waits.items())))) == order, waits
    for steps, what in BROKEN:
        with pytest.raises(ValueError, match=what):
            ordered_steps(_binding(steps))


@pytest.mark.req("AC-29")
def test_the_values_of_a_step_come_from_the_goal_an_earlier_step_or_the_file() -> None:
    goal: dict[str, JsonValue] = {"note": "one", "many": 3}
    outputs: dict[str, dict[str, JsonValue]] = {"look": {"id": "A-17", "count": 2}}
    specs = simulation(changed(FILE_AND_NOTE)).fields  # `words` is a text, `report` an identifier
    cases: list[tuple[str | int, dict[str, Any]]] = [
        ("{note}", {"words": "one"}),
        ("{many}", {"words": "3"}),
        ("{look.id}", {"words": "A-17"}),
        ("{look.count}", {"words": "2"}),
        (7, {"words": "7"}),
        ("as it is", {"words": "as it is"}),
        ("{note} twice", {"words": "{note} twice"}),
        ("{left_out}", {}),
        ("{look.gone}", {}),
        ("{later.id}", {}),
    ]
    for value, expected in cases:
        (step,) = _binding([("a", None)], words=value).steps
        assert resolve_fields(step, goal, outputs, specs) == expected, value
    (step,) = _binding([("a", None)], report="{many}").steps
    assert resolve_fields(step, goal, outputs, specs) == {"report": 3}  # no identifier, so the gate refuses it


@pytest.mark.req("AC-06", "AC-29")
def test_the_digest_of_a_composite_covers_each_step_and_its_rollback() -> None:
    def build(*trees: dict[str, Any]) -> dict[str, Any]:
        catalogue = build_catalogue("acme", [simulation(tree) for tree in trees], promoted)
        return {entry.simulation.id: entry for entry in catalogue}

    promoted: dict[str, PromotedState] = {}
    before = build(*COMPOSITE)
    for name, each in before.items():
        promoted[name] = PromotedState(name, "1", each.digest, "ACTIVE", "os:ann", "", "")
    assert {each.state for each in build(*COMPOSITE).values()} == {"ACTIVE"}
    for number in range(len(COMPOSITE)):
        trees = list(COMPOSITE)
        trees[number] = changed(trees[number], title="Something else")
        after = build(*trees)
        drafts = {each.simulation.id for each in after.values() if each.state == "DRAFT"}
        assert drafts == {"file-and-note", trees[number]["id"]}
    assert before["file-report"].digest == before["file-report"].simulation.own_digest


def test_a_composite_has_no_action_of_its_own() -> None:
    values = {"report": "r1", "order_id": "A-17", "words": "late"}
    with pytest.raises(UsageError, match="a composite simulation has no action of its own"):
        fill(simulation(FILE_AND_NOTE), values)
