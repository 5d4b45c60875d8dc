"""Fields whose model depends on `capability_id`: closed for a known capability, else a bounded object."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import GetJsonSchemaHandler, TypeAdapter, ValidationInfo

from remit.contracts.base import Contract, JsonObject

_OPEN: Final[TypeAdapter[dict[str, Any]]] = TypeAdapter(JsonObject)


def close_by_capability(
    value: Any, info: ValidationInfo, shapes: Mapping[str, type[Contract]]
) -> Contract | dict[str, Any]:
    """Return the value as the capability's own model. `capability_id` must be declared before the field."""
    shape = shapes.get(info.data.get("capability_id", ""))
    if shape is None:
        return _OPEN.validate_python(value, strict=True)
    return shape.model_validate(value)


def narrow_schema(
    schema: dict[str, Any], handler: GetJsonSchemaHandler, field: str, shapes: Mapping[str, type[Contract]]
) -> dict[str, Any]:
    """Add the same rule to the JSON Schema. The union of the field must name the models in their order."""
    resolved = handler.resolve_ref_schema(schema)
    branches: list[dict[str, Any]] = resolved["properties"][field]["anyOf"]
    references = dict(zip(dict.fromkeys(shapes.values()), (b for b in branches if "$ref" in b), strict=True))
    null = [branch for branch in branches if branch == {"type": "null"}]
    resolved["allOf"] = [
        {
            "if": {"properties": {"capability_id": {"const": capability}}},
            "then": {"properties": {field: {"anyOf": [references[shape], *null]} if null else references[shape]}},
        }
        for capability, shape in shapes.items()
    ]
    return schema
