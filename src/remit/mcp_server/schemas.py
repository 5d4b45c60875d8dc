"""The JSON Schemas of a tool: of its closed arguments and of its answer.

Both come from the contracts. A document of another contract (a plan, an action) is published with the schema that Remit
ships for it. The operation parses the document, as for every other interface.
"""

from typing import Annotated, Any, Final

from pydantic import Field, JsonValue, WithJsonSchema

from remit.contracts.base import Contract
from remit.contracts.registry import load_schema
from remit.contracts.schemas import schema_of
from remit.contracts.services.common import ErrorTold

_DOCUMENT: Final = "x-remit-contract"

_FOR_WRITERS: Final = frozenset(
    {
        "default",
        "description",
        "format",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "title",
    }
)

Document = dict[Annotated[str, Field(max_length=200)], JsonValue]


def publish_schema(name: str) -> WithJsonSchema:
    """Publish a field with the schema of the contract `name`."""
    return WithJsonSchema({_DOCUMENT: name})


def input_schema(arguments: type[Contract]) -> dict[str, Any]:
    schema = schema_of(arguments)
    defs: dict[str, Any] = schema.pop("$defs", {})
    for field in schema.get("properties", {}).values():
        name = field.pop(_DOCUMENT, None)
        if name is not None:
            document = load_schema(name)
            defs.update(document.pop("$defs", {}))
            title = document["title"]
            defs[title] = {key: value for key, value in document.items() if not key.startswith("$")}
            field["$ref"] = f"#/$defs/{title}"
    return {**_without_titles(schema), **({"$defs": defs} if defs else {})}


def output_schema(answer: type[Contract], error: type[ErrorTold] = ErrorTold) -> dict[str, Any]:
    """Return the schema of the answer or of an error. Some clients check an error's document against it too."""
    defs: dict[str, Any] = {}
    choices = []
    for model in (answer, error):
        schema = _outline(schema_of(model))
        defs.update(schema.pop("$defs", {}))
        defs[model.__name__] = schema
        choices.append({"$ref": f"#/$defs/{model.__name__}"})
    defs["Reason"] = {"type": "string"}  # the list of eighty codes would be in each tool
    return {"type": "object", "anyOf": choices, "$defs": defs}


def _outline(node: Any, *, names: bool = False) -> Any:
    """Return the fields, types and choices, without descriptions, patterns and limits, which only a writer needs.

    Clients put schemas into their agent's context. `names`: the keys of this object are field names and not keywords
    of JSON Schema.
    """
    if isinstance(node, list):
        return [_outline(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _outline(value, names=not names and key in {"properties", "$defs"})
        for key, value in node.items()
        if names or key not in _FOR_WRITERS
    }


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without the title and docstring of the class, which are for readers of the code."""
    return {key: value for key, value in schema.items() if key not in {"title", "description"}}
