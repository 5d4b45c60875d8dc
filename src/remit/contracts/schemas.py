"""The JSON Schemas (draft 2020-12) of the contracts, generated from the models and shipped beside them.

`python -m remit.contracts.schemas --write` writes the files again; `--check` fails if they differ from the models. A
schema cannot express everything that a model checks (sums, times, one field against another). So a document that is
valid against the schema can still be refused.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from remit.contracts.base import Contract, OneOf
from remit.contracts.registry import CONTRACTS, FOLDER, load_schema

__all__ = [
    "CONTRACTS",
    "find_drift",
    "generate_schema",
    "load_contract",
    "load_schema",
    "main",
    "schema_of",
    "write_schemas",
]

VERSION: Final = 1


def load_contract(name: str) -> type[Contract] | OneOf[Any]:
    """Load the model of a schema."""
    module, _, attribute = CONTRACTS[name].partition(":")
    contract: type[Contract] | OneOf[Any] = getattr(import_module(f"remit.contracts.{module}"), attribute)
    return contract


class _Generator(GenerateJsonSchema):
    """A generator without titles for fields, which would only repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  (the signature is the base's)
        return False


def schema_of(contract: type[Contract] | OneOf[Any]) -> dict[str, Any]:
    """Generate the schema of any contract, whether it is shipped as a file or not."""
    adapter: TypeAdapter[Any] = contract.adapter if isinstance(contract, OneOf) else TypeAdapter(contract)
    schema: dict[str, Any] = _without_openapi(adapter.json_schema(schema_generator=_Generator))
    return schema


def generate_schema(name: str) -> dict[str, Any]:
    contract = load_contract(name)
    body = schema_of(contract)
    title = contract.name if isinstance(contract, OneOf) else contract.__name__
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:remit:schema:{name}:{VERSION}",
        "title": title,
        "description": contract.description if isinstance(contract, OneOf) else f"{title} of Remit.",
    }
    return {**head, **body}


def _without_openapi(node: Any) -> Any:
    """Remove `discriminator`, which belongs to OpenAPI and not to JSON Schema."""
    if isinstance(node, dict):
        marked = isinstance(node.get("discriminator"), dict) and "propertyName" in node["discriminator"]
        return {key: _without_openapi(value) for key, value in node.items() if not (marked and key == "discriminator")}
    if isinstance(node, list):
        return [_without_openapi(item) for item in node]
    return node


def render_schema(name: str) -> str:
    """Render the text of a schema file. It is the same for the same models on every machine."""
    return json.dumps(generate_schema(name), indent=2, ensure_ascii=False) + "\n"


def find_drift(folder: Path) -> list[str]:
    """List the files that are missing, differ from the models, or belong to no contract."""
    wanted = {f"{name}.json": render_schema(name) for name in CONTRACTS}
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))


def write_schemas(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.json"):
        path.unlink()
    for name in CONTRACTS:
        (folder / f"{name}.json").write_text(render_schema(name), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m remit.contracts.schemas", description="JSON Schemas of the contracts."
    )
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true", help="write the files again")
    choice.add_argument("--check", action="store_true", help="fail if a file differs from its model")
    given = parser.parse_args(arguments)
    folder = Path(str(FOLDER))
    if given.write:
        write_schemas(folder)
        return 0
    drift = find_drift(folder)
    for name in drift:
        sys.stderr.write(f"{name} differs from its model: run python -m remit.contracts.schemas --write\n")
    return 1 if drift else 0


if __name__ == "__main__":
    sys.exit(main())
