"""`remit schema` shows what a document must look like, and a refusal says which one to look at."""

import json

import jsonschema_rs
import pytest

from remit.contracts.registry import CONTRACTS, load_schema, schema_name
from remit.contracts.schemas import generate_schema
from tests.cli.conftest import Remit

MANIFEST = {"task_id": "t-1", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": {"reversible": True}}


def test_without_a_name_every_contract_is_listed_with_a_sentence(remit: Remit) -> None:
    listed = remit("schema", "--json").document
    assert [contract["name"] for contract in listed] == list(CONTRACTS)
    assert [c["name"] for c in listed if not c["description"].endswith(".") or len(c["description"]) > 110] == []
    shown = remit("schema")
    assert shown.code == 0
    assert [name for name in CONTRACTS if name not in shown.out] == []


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_with_a_name_its_schema_is_printed_and_judges_documents(arguments: list[str], remit: Remit) -> None:
    validator = jsonschema_rs.validator_for(remit("schema", "task-manifest", *arguments).document)
    assert validator.is_valid(MANIFEST)
    assert not validator.is_valid({**MANIFEST, "extra": 1})


def test_an_unknown_name_is_refused_with_the_way_to_the_list(remit: Remit) -> None:
    ran = remit("schema", "../plan")
    assert ran.code == 2
    assert "remit schema" in ran.err
    assert remit("schema", "nothing", "--json").document["error"]["reason"] == "malformed"


def test_names_are_completed(remit: Remit) -> None:
    ran = remit(_REMIT_COMPLETE="bash_complete", COMP_WORDS="remit schema task", COMP_CWORD="2")
    assert "task-manifest" in ran.out


def test_every_contract_is_found_by_its_title(subtests: pytest.Subtests) -> None:
    for name in CONTRACTS:
        with subtests.test(name):
            assert schema_name(load_schema(name)["title"]) == name


def test_every_schema_says_what_the_contract_is() -> None:
    assert [name for name in CONTRACTS if generate_schema(name)["description"].endswith(" of Remit.")] == []


def test_a_refusal_names_every_wrong_field_of_a_manifest_and_the_schema_to_compare_with(remit: Remit) -> None:
    remit("init")
    wrong = json.dumps({"task": "t-1", "capability_id": 3, "inputs": {}}).encode()
    error = remit("task", "lease", "-", "--json", stdin=wrong).document["error"]
    assert error["next_step"] == "Compare it with: remit schema task-manifest"
    assert all(field in error["what"] for field in ("$.task;", "$.task_id", "$.constraints", "$.capability_id"))
    assert error["where"].endswith("$.task")


def test_a_refusal_of_a_document_with_very_many_faults_names_the_first_few(remit: Remit) -> None:
    remit("init")
    wrong = json.dumps({**MANIFEST, **{f"extra{i}": i for i in range(9)}}).encode()
    error = remit("task", "lease", "-", "--json", stdin=wrong).document["error"]
    assert "$.extra4; and 4 more" in error["what"]
