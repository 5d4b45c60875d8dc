"""What must hold in a catalogue: each rule has a definition that breaks it, and is found with its place."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from remit.core.errors import RefusedError
from remit.goals.catalogue.catalogue import check_files, read_definitions
from remit.goals.catalogue.files import CatalogueFinding
from tests.goals.catalogue.simulations import (
    ALL,
    AMOUNT,
    BUY,
    CHARGE,
    LOOKUP,
    MOVE,
    NOTE,
    READ_ONLY,
    REFUND,
    UNDO,
    changed,
    findings,
    raw_findings,
)


def said(found: list[CatalogueFinding], simulation_id: str) -> list[tuple[str, str]]:
    assert all(each.next_step and each.file for each in found)
    return [(each.field, each.what) for each in found if each.simulation == simulation_id]


def test_the_catalogue_of_these_tests_has_nothing_to_fix(tmp_path: Path) -> None:
    assert raw_findings(tmp_path, *ALL) == []


def _without_rollback(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if name != "rollback"}


ROLLBACKS = [
    (_without_rollback(REFUND), "names no simulation that rolls it back"),
    (_without_rollback(MOVE), "names no simulation that rolls it back"),
    (_without_rollback(CHARGE), "names no simulation that rolls it back"),
    (_without_rollback(UNDO), "names no simulation that rolls it back"),
    (changed(MOVE, rollback="nobody"), "the catalogue does not have"),
    (changed(MOVE, rollback="file-report"), "names itself"),
    (changed(MOVE, rollback="look-up-order"), "is read_only"),
    (changed(MOVE, rollback="refund-order"), "has no field for the id of the goal"),
    (changed(MOVE, rollback="charge-order"), "needs the field order_id"),
    (changed(MOVE, impact="irreversible"), "an undo cannot reverse this action"),
    (changed(MOVE, binding__reversible=False), "an undo cannot reverse this action"),
    (changed(REFUND, rollback="undo-file-report", impact="impactful", binding__reversible=False), "an undo cannot"),
    (changed(BUY, rollback="undo-file-report", impact="impactful"), "an undo cannot reverse this action"),
    (changed(REFUND, fields={**REFUND["fields"], "amount": {**AMOUNT, "currencies": []}}), "takes other values"),
    (changed(REFUND, fields={**REFUND["fields"], "amount": {**AMOUNT, "optional": True}}), "or optional"),
]


@pytest.mark.req("AC-14")
def test_a_simulation_that_changes_something_names_its_rollback(tmp_path: Path) -> None:
    for tree, what in ROLLBACKS:
        found = said(findings(tmp_path, tree), tree["id"])
        assert [field for field, text in found if what in text] == ["rollback"], (tree["id"], what, found)


@pytest.mark.req("AC-14")
def test_a_plan_with_an_action_that_cannot_be_undone_needs_more_than_an_undo(tmp_path: Path) -> None:
    tree = changed(NOTE)
    tree["binding"]["template"]["action_plan"][0]["reversible"] = False
    assert ("rollback", "an undo cannot reverse this action") in said(findings(tmp_path, tree), NOTE["id"])


def test_what_is_called_read_only_must_be_unable_to_write(tmp_path: Path) -> None:
    liars = [
        changed(LOOKUP, binding__connection="shop"),
        changed(LOOKUP, binding__save_results_to="out.csv"),
        changed(MOVE, impact="read_only"),
        changed(NOTE, impact="read_only"),
        changed(BUY, impact="read_only"),
        changed(UNDO, impact="read_only"),
    ]
    for tree in liars:
        assert "impact" in [field for field, _ in said(findings(tmp_path, tree), tree["id"])], tree["id"]
    page = changed(LOOKUP, binding={"type": "browser", "domains": ["shop.example"], "action": {}})
    page["binding"]["action"] = {"type": "snapshot", "target": "https://shop.example/orders/{order_id}"}
    assert said(findings(tmp_path, page), LOOKUP["id"]) == []


PHRASES = [
    (["{order_id}"], "no word of its own"),
    (["refund {nothing}"], "there is no such field"),
    (["refund {order_id} {order_id}"], "the same placeholder twice"),
    (["refund {order_id}{amount}"], "no word between them"),
    (["refund order{order_id}"], "no space between them"),
    (["refund {order_id"], "a single brace"),
    (["refund {amount.value}"], "there is no such field"),
    (["refund\u202e order"], "control character"),
    (["Show, ORDER {order_id}!"], "look-up-order has the same phrase"),
]


def test_phrases_that_could_not_be_understood_are_found(tmp_path: Path) -> None:
    for phrases, what in PHRASES:
        found = said(findings(tmp_path, changed(REFUND, phrases={"en": phrases})), "refund-order")
        assert [field for field, text in found if what in text] == ["phrases.en"], (phrases, found)
    twice = changed(REFUND, phrases={"en-GB": ["refund {order_id}"], "en-gb": ["give back {order_id}"]})
    assert len(said(findings(tmp_path, twice), "refund-order")) == 2
    undo = changed(UNDO, phrases={"en": ["take back {of}"]})
    assert [field for field, _ in said(findings(tmp_path, undo), UNDO["id"])] == ["phrases"]


@pytest.mark.req("AC-08")
def test_phrases_of_a_language_without_words_to_confirm_are_found(tmp_path: Path) -> None:
    latin = {"la": ["redde pecuniam {order_id}"], "de-AT": ["erstatte {order_id}"], "zh-Hant-TW": ["退款 {order_id}"]}
    [(field, what)] = said(findings(tmp_path, changed(REFUND, phrases=latin)), "refund-order")
    assert (field, "no words for yes and no in la" in what) == ("phrases.la", True)
    assert "de, " in findings(tmp_path, changed(REFUND, phrases=latin))[0].next_step
    assert findings(tmp_path, changed(LOOKUP, phrases={"la": ["ubi est {order_id}"]})) == [], "it is not confirmed"


def test_fields_that_cannot_work_are_found(tmp_path: Path) -> None:
    look_around = changed(MOVE, fields={"name": {**MOVE["fields"]["name"], "pattern": "(?=x)"}})
    assert said(findings(tmp_path, look_around), MOVE["id"])[0][0] == "fields.name.pattern"
    choices = {"type": "choice", "question": "?", "choices": ["a", "A"]}
    same = changed(LOOKUP, fields={**LOOKUP["fields"], "c": choices})
    assert said(findings(tmp_path, same), LOOKUP["id"]) == [
        ("fields.c.choices", "two choices differ only in upper and lower case")
    ]
    more = changed(UNDO, fields={**UNDO["fields"], "x": {"type": "date", "question": "?"}})
    assert [field for field, _ in said(findings(tmp_path, more), UNDO["id"])] == ["fields"]


def test_a_repeated_id_and_an_action_that_its_operation_would_refuse_are_found(tmp_path: Path) -> None:
    again = changed(LOOKUP, phrases={"en": ["tell me about {order_id}"]})
    assert [each.field for each in raw_findings(tmp_path, *ALL, again)] == ["id", "id"]
    click = changed(BUY, binding__action={"type": "click", "target": "https://shop.example/"})
    [(field, what)] = said(findings(tmp_path, click), BUY["id"])
    assert (field, "click needs a selector" in what) == ("binding", True)


def test_a_broken_file_does_not_hide_what_is_wrong_with_the_others(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("version: 1\nsimulations:\n  - id: [\n")
    (tmp_path / "two.json").write_text(json.dumps({"version": 1, "simulations": [{**MOVE, "colour": "red"}]}))
    (tmp_path / "three.json").write_text(json.dumps({"version": 1, "simulations": [MOVE]}))
    names = ["one.yaml", "two.json", "three.json", "four.json"]
    found = check_files(tmp_path, names)[1]
    assert [each.file for each in found] == ["one.yaml", "two.json", "four.json", "three.json"]
    assert "colour" in found[1].where
    with pytest.raises(RefusedError) as refused:
        read_definitions(tmp_path, names)
    assert "and 2 more" in refused.value.what
    assert refused.value.where.startswith("one.yaml")


def test_files_are_read_below_the_root_and_not_through_links(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.json").write_text(json.dumps({"version": 1, "simulations": [LOOKUP]}))
    os.symlink(tmp_path / "outside.json", root / "link.json")
    for name in ("../outside.json", str(tmp_path / "outside.json"), "link.json"):
        with pytest.raises(RefusedError):
            read_definitions(root, [name], read_only_connections=READ_ONLY)
    (root / "large.json").write_text(" " * (300 << 10))
    with pytest.raises(RefusedError):
        read_definitions(root, ["large.json"])


def test_a_template_in_a_file_of_its_own_becomes_part_of_the_definition(tmp_path: Path) -> None:
    inline = NOTE["binding"]["template"]
    apart = changed(NOTE, binding={"type": "plan", "template_file": "plans/note.yaml"})
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans/note.yaml").write_text(json.dumps(inline))
    (tmp_path / "a.json").write_text(json.dumps({"version": 1, "simulations": [apart, MOVE, UNDO]}))
    (tmp_path / "b.json").write_text(json.dumps({"version": 1, "simulations": [NOTE, MOVE, UNDO]}))
    read, whole = read_definitions(tmp_path, ["a.json"]), read_definitions(tmp_path, ["b.json"])
    assert [each.own_digest for each in read] == [each.own_digest for each in whole]
    inline = {**inline, "execution_instructions": {"stop_on_error": False}}
    (tmp_path / "plans/note.yaml").write_text(json.dumps(inline))
    changed_since = read_definitions(tmp_path, ["a.json"])
    assert [each.own_digest == before.own_digest for each, before in zip(changed_since, read, strict=True)] == [
        True,
        True,
        False,
    ]
