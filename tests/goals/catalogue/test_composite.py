"""Composite simulations: the order of the steps, the values of their fields, and the digest that covers the whole."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from remit.contracts.goals.simulation import CompositeBinding
from remit.core.errors import UsageError
from remit.goals.binding.binding import fill
from remit.goals.catalogue.catalogue import build_catalogue
from remit.goals.composite.order import ordered_steps, resolve_fields
from remit.goals.finder.finder import ThreadState
from remit.ledger.goal_queries import PromotedState
from tests.goals.catalogue.simulations import (
    AMOUNT,
    BUY,
    COMPOSITE,
    FILE_AND_NOTE,
    LOOKUP,
    LOOKUP_WITH_OUTPUT,
    MOVE,
    NOTHING,
    UNDO,
    catalogue_of,
    changed,
    findings,
    simulation,
)
from tests.goals.finder.fixed_questions import found

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


LOOK, FILE, WRITE = FILE_AND_NOTE["binding"]["steps"]
CHOICE = {"type": "choice", "question": "Which?", "choices": ["a", "b"]}


def _steps(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return changed(FILE_AND_NOTE, **changes, binding__steps=list(steps))


def _first(**changes: Any) -> dict[str, Any]:
    """Return the composite with other members of its first step."""
    return _steps({**LOOK, **changes}, FILE, WRITE)


def _fields(step: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**step, "fields": {**step["fields"], **values}}


def _with_field(name: str, spec: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    return _steps(LOOK, FILE, step, fields={**FILE_AND_NOTE["fields"], name: spec})


PLACES = {"source_path": "/srv/{pick}", "destination_path": "/srv/x/{pick}"}
TWICE = {**changed(MOVE, binding__inputs=PLACES), "id": "twice", "phrases": {}, "fields": {"pick": CHOICE}}
RUN_TWICE = {"id": "pick", "simulation": "twice", "fields": {"pick": "{which}"}}
PAY = {"id": "pay", "simulation": "refund-order", "fields": {"order_id": "{order_id}", "amount": "{price}"}}
AGAIN = {"retry": {"max_attempts": 2, "backoff_ms": [0]}}
DOLLARS = {**AMOUNT, "currencies": ["USD", "CHF"]}
CHECKED: list[tuple[list[dict[str, Any]], str, str]] = [
    ([changed(FILE_AND_NOTE, rollback="undo-file-report")], "rollback", "it names no rollback"),
    ([changed(FILE_AND_NOTE, outputs=LOOKUP_WITH_OUTPUT["outputs"])], "outputs", "has outputs"),
    ([_with_field("of", {"type": "text", "question": "?"}, WRITE)], "fields.of", "names a goal"),
    ([changed(FILE_AND_NOTE, impact="read_only")], "impact", "less than that of a step, which is impactful"),
    ([changed(FILE_AND_NOTE), changed(MOVE, risk="HIGH")], "risk", "less than that of a step, which is HIGH"),
    ([_first(simulation="nobody")], "binding.steps[0].simulation", "the catalogue does not have"),
    ([_first(simulation="file-and-note", fields={})], "binding.steps[0].simulation", "has several steps itself"),
    ([_first(simulation="undo-file-report", fields={"of": "x"})], "binding.steps[0].simulation", "cannot be a step"),
    ([_steps(FILE), {**MOVE, "rollback": None}], "binding.steps[0].simulation", "names no simulation that rolls"),
    ([_steps({**LOOK, "id": "report"})], "binding.steps[0].id", "is also the name of a field"),
    ([_steps(LOOK, {**FILE, "id": "look"})], "binding.steps", "two steps have the id look"),
    ([_first(depends_on=["note"])], "binding.steps", "wait for each other: look -> note -> look"),
    ([_first(depends_on=["nobody"])], "binding.steps", "there is no such step"),
    ([_first(timeout_seconds=61)], "binding.steps[0].timeout_seconds", "longer than the 60 seconds"),
    ([_first(fields={})], "binding.steps[0].fields", "needs the field order_id"),
    ([_first(fields={"order_id": "{order_id}", "more": 1})], "binding.steps[0].fields.more", "has no such field"),
    ([_first(fields={"order_id": "{nobody}"})], "binding.steps[0].fields.order_id", "has no field nobody"),
    ([_first(fields={"order_id": "{words}"})], "binding.steps[0].fields.order_id", "of type text, and the field of"),
    ([_first(fields={"order_id": "no order"})], "binding.steps[0].fields.order_id", "this must be a letter or digit"),
    ([_first(fields={"order_id": "A{order_id}"})], "binding.steps[0].fields.order_id", "a slot must be the whole"),
    ([_first(fields={"order_id": "{note.x}"})], "binding.steps[0].fields.order_id", "does not depend on note"),
    ([_first(fields={"order_id": "{look.customer}"})], "binding.steps[0].fields.order_id", "does not depend on look"),
    ([_first(fields={"order_id": "{gone.x}"})], "binding.steps[0].fields.order_id", "there is no step gone"),
    ([_steps(LOOK, FILE, _fields(WRITE, name="{look.x}"))], "binding.steps[2].fields.name", "has no output x"),
    (
        [_with_field("who", {"type": "identifier", "question": "?", "optional": True}, _fields(WRITE, name="{who}"))],
        "binding.steps[2].fields.name",
        "who is optional",
    ),
    (
        [_with_field("which", {**CHOICE, "choices": ["a", "c"]}, RUN_TWICE), TWICE],
        "binding.steps[2].fields.pick",
        "does not have all of these choices",
    ),
    ([_with_field("price", DOLLARS, PAY)], "binding.steps[2].fields.amount", "does not accept all of these currencies"),
    ([_steps({**PAY, **AGAIN})], "binding.steps[0].retry", "cannot be known"),
    ([_steps({"id": "buy", "simulation": "buy-paper", **AGAIN})], "binding.steps[0].retry", "cannot be known"),
]
OUTPUTS: list[tuple[dict[str, Any], dict[str, str], str]] = [
    (LOOKUP, {"type": "email", "source": "mail"}, "is always masked"),
    (LOOKUP, {"type": "text", "source": "password"}, "the name of a secret"),
    (MOVE, {"type": "path", "source": "source_path"}, "its type is text"),
    (MOVE, {"type": "text", "source": "size"}, "gives its source_path"),
    (BUY, {"type": "text", "source": "title"}, "only a query and a task"),
    (UNDO, {"type": "text", "source": "title"}, "only a query and a task"),
]


@pytest.mark.req("AC-29")
def test_the_check_finds_each_mistake_in_a_composite(tmp_path: Path) -> None:
    good = [FILE_AND_NOTE, LOOKUP_WITH_OUTPUT, NOTHING]
    assert findings(tmp_path, *good) == []
    for trees, field, what in CHECKED:
        ids = {tree["id"] for tree in trees}
        told = findings(tmp_path, *trees, *(tree for tree in good if tree["id"] not in ids))
        assert all(each.next_step for each in told)
        said = [(each.field, each.what) for each in told if each.simulation == "file-and-note"]
        assert any(one == field and what in text for one, text in said), (field, what, said)
    for tree, spec, what in OUTPUTS:
        told = findings(tmp_path, {**tree, "outputs": {"given": spec}})
        assert [each.field for each in told if what in each.what] == ["outputs.given"], (spec, told)
    used = findings(tmp_path, *good, {**MOVE, "rollback": "file-and-note"})
    assert [each.field for each in used if "has several steps" in each.what] == ["rollback"]
    many = [{**FILE, "id": f"s{number}"} for number in range(21)]
    assert any("at most 20" in each.what for each in findings(tmp_path, _steps(*many)))


@pytest.mark.req("AC-19", "AC-20", "AC-29")
def test_a_match_names_the_steps_in_their_order_with_their_digests() -> None:
    catalogue = catalogue_of(*COMPOSITE)
    packet = found("file R-1 and note late for order A-17", catalogue=catalogue)
    assert packet["fields"] == {"report": "R-1", "words": "late", "order_id": "A-17"}
    entries = {entry.simulation.id: entry.digest for entry in catalogue}
    steps = [("look", "look-up-order"), ("file", "file-report"), ("note", "write-note")]
    listed = [{"step": step, "simulation": name, "digest": entries[name]} for step, name in steps]
    assert packet["steps"] == listed
    answered = ThreadState("file-and-note", {"report": "R-1", "words": "late"}, "order_id", 1)
    assert found("A-17", thread=answered, catalogue=catalogue)["steps"] == listed
    assert "steps" not in found("file the report R-1", catalogue=catalogue)
