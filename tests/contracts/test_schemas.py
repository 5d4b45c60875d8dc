"""The shipped JSON Schemas are those of the models, and a drift is found."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest

import remit
from remit.contracts import schemas
from remit.core.errors import UsageError


def test_shipped_schemas_are_those_of_the_models() -> None:
    assert schemas.main(["--check"]) == 0


def test_changed_missing_and_foreign_schemas_are_each_found(tmp_path: Path) -> None:
    schemas.write_schemas(tmp_path)
    assert schemas.find_drift(tmp_path) == []
    changed = tmp_path / "plan.json"
    changed.write_text(changed.read_text(encoding="utf-8").replace('"FILE_RENAME"', '"FILE_MOVE"'), encoding="utf-8")
    (tmp_path / "envelope.json").unlink()
    (tmp_path / "foreign.json").write_text("{}", encoding="utf-8")
    assert schemas.find_drift(tmp_path) == ["envelope.json", "foreign.json", "plan.json"]


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    schemas.write_schemas(tmp_path)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "stale.json").write_text("{}", encoding="utf-8")
    schemas.write_schemas(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first


def test_schema_is_valid_named_and_described(subtests: pytest.Subtests) -> None:
    for name in schemas.CONTRACTS:
        with subtests.test(name):
            schema = schemas.load_schema(name)
            jsonschema_rs.meta.validate(schema)
            assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
            assert schema["$id"] == f"urn:remit:schema:{name}:1"
            assert schema["title"]
            assert schema["description"]
            assert '"discriminator"' not in json.dumps(schema)


def test_unknown_schema_name_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError):
        schemas.load_schema("../plan")


def test_one_contract_is_imported_without_the_others(subtests: pytest.Subtests) -> None:
    for module, stranger in [
        ("remit.contracts.tasks.task", "remit.contracts.browser.browser"),
        ("remit.contracts.tasks.task", "remit.contracts.plans.plan"),
        ("remit.contracts.tasks.task", "ruamel.yaml"),
        ("remit.contracts.tasks.result", "remit.contracts.plans.report"),
        ("remit.contracts.browser.browser", "remit.contracts.plans.plan"),
        ("remit.contracts.config.config", "remit.contracts.plans.plan"),
        ("remit.contracts.config.config", "ruamel.yaml"),
        ("remit.contracts.goals.goal", "remit.contracts.tasks.task"),
        ("remit.parsing", "ruamel.yaml"),
        ("remit.parsing", "pydantic"),
    ]:
        with subtests.test(module):
            program = f"import sys, {module}; sys.exit({stranger!r} in sys.modules)"
            environment = {**os.environ, "PYTHONPATH": str(Path(remit.__file__).parents[1])}
            assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 0
