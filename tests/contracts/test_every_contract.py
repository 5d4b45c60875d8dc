"""What holds for every contract, whatever it says: closed, complete, strict, frozen, bounded, canonical."""

import json
from typing import Any

import jsonschema_rs
import pytest
from pydantic import ValidationError

from remit.contracts.base import Contract, OneOf
from remit.contracts.schemas import CONTRACTS, load_contract, load_schema
from remit.core.canonical import canonical_bytes
from remit.core.errors import Reason, RefusedError
from tests.contracts.examples import EXAMPLES, WITHOUT_EXAMPLE, Example
from tests.contracts.spoiling import (
    closed_objects,
    replaced,
    string_fields,
    with_missing_fields,
    with_unknown_fields,
    with_wrong_types,
)


def _refuse_to_fetch(uri: str) -> Any:
    raise AssertionError(f"a schema must not fetch {uri}")


def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(load_schema(name), retriever=_refuse_to_fetch)


def test_every_contract_has_an_example() -> None:
    assert set() == WITHOUT_EXAMPLE


def test_valid_document_is_accepted_from_bytes(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            raw = json.dumps(example.document).encode()
            parsed = example.contract.parse(raw)
            assert example.document.items() <= _pruned(parsed.tree(), example.document).items()


def test_canonical_form_is_stable(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            first = example.parse(example.document).canonical()
            assert example.contract.parse(first).canonical() == first
            assert canonical_bytes(json.loads(first)) == first


@pytest.mark.req("EI-02", "AC-01")
def test_unknown_field_is_refused_at_every_level(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            for spoiled in with_unknown_fields(example.parse(example.document)):
                with pytest.raises(RefusedError) as refusal:
                    example.parse(spoiled.document)
                assert refusal.value.reason is Reason.MALFORMED, spoiled.label
                assert "surprise" in refusal.value.where, spoiled.label


@pytest.mark.req("EI-02", "AC-01")
def test_missing_required_field_is_refused_by_name(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            for spoiled in with_missing_fields(example.parse(example.document)):
                with pytest.raises(RefusedError) as refusal:
                    example.parse(spoiled.document)
                told = f"{refusal.value.where} {refusal.value.what}"
                assert str(spoiled.place[-1]) in told, spoiled.label


@pytest.mark.req("EI-02", "AC-01")
def test_value_of_another_type_is_refused_never_converted(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            tried = 0
            for spoiled in with_wrong_types(example.parse(example.document)):
                assert not _accepts(example, spoiled.document), spoiled.label
                tried += 1
            assert tried > 0


def test_document_that_is_no_object_is_refused(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            wrong_documents: list[Any] = [None, [], [1], "x", 1, True]
            assert not any(_accepts(example, wrong) for wrong in wrong_documents)


def test_parsed_model_is_frozen(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            for _, part in closed_objects(example.parse(example.document)):
                for name in type(part).model_fields:
                    with pytest.raises(ValidationError):
                        setattr(part, name, None)


def test_overlong_string_is_refused(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            model = example.parse(example.document)
            endless = "x" * (8 << 20)
            for place, name in string_fields(model):
                assert not _accepts(example, replaced(model, place, name, endless)), (place, name)


def test_shipped_schema_accepts_the_document_and_its_full_form(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            validator = _validator(example.name)
            validator.validate(example.document)
            validator.validate(example.parse(example.document).tree())


def test_shipped_schema_refuses_what_the_contract_refuses_in_shape(subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.label):
            validator = _validator(example.name)
            model = example.parse(example.document)
            for spoil in (with_unknown_fields, with_missing_fields, with_wrong_types):
                for spoiled in spoil(model):
                    assert not validator.is_valid(spoiled.document), spoiled.label


def test_every_string_list_and_mapping_has_a_limit(subtests: pytest.Subtests) -> None:
    for name in CONTRACTS:
        with subtests.test(name):
            unlimited = list(_unlimited(load_schema(name), "$"))
            assert unlimited == []


def test_every_contract_bounds_its_bytes_within_what_stays_under_100_mb(subtests: pytest.Subtests) -> None:
    for name in CONTRACTS:
        with subtests.test(name):
            contract = load_contract(name)
            assert isinstance(contract, OneOf) or issubclass(contract, Contract)
            assert contract.bounds.max_bytes <= 6 << 20
            assert contract.bounds.max_depth <= 64


def _accepts(example: Example, document: Any) -> bool:
    try:
        example.parse(document)
    except RefusedError:
        return False
    return True


def _pruned(tree: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """The tree without what the document left to the defaults."""
    return {key: _prune_value(tree[key], value) for key, value in like.items()}


def _prune_value(value: Any, like: Any) -> Any:
    if isinstance(like, dict):
        return _pruned(value, like)
    if isinstance(like, list):
        return [_prune_value(item, like_item) for item, like_item in zip(value, like, strict=True)]
    return value


def _unlimited(node: Any, path: str) -> Any:
    """Places in a schema that allow something without an end."""
    if isinstance(node, list):
        for number, item in enumerate(node):
            yield from _unlimited(item, f"{path}[{number}]")
    if not isinstance(node, dict):
        return
    kind = node.get("type")
    if kind == "string" and not node.keys() & {"maxLength", "enum", "const"}:
        yield path
    if kind == "array" and "maxItems" not in node:
        yield path
    if kind == "object" and node.get("additionalProperties") is not False and not _bounded_mapping(node):
        yield path
    if kind in ("integer", "number") and not node.keys() >= {"minimum", "maximum"} and "const" not in node:
        yield path
    for key, value in node.items():
        yield from _unlimited(value, f"{path}.{key}")


def _bounded_mapping(node: dict[str, Any]) -> bool:
    # A bare {"type": "object"} only narrows a field that is limited elsewhere.
    return node == {"type": "object"} or ("maxProperties" in node and _bounded_names(node))


def _bounded_names(node: dict[str, Any]) -> bool:
    return "maxLength" in node.get("propertyNames", {}) or "patternProperties" in node
