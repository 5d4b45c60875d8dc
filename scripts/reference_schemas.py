"""Tables from JSON Schemas, for the reference pages. Each field has a line; nested fields have dotted names."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

Schema = dict[str, Any]

MIB: Final = 1 << 20
# A longer choice is shortened to its first values and "...".
MAX_CHOICES: Final = 8
# The tables have one level of nested objects. Readers who need more can use the schema.
MAX_LEVELS: Final = 1


@dataclass(frozen=True, slots=True)
class Line:
    """One field of a contract."""

    name: str
    required: bool
    type: str
    default: str
    description: str


def schema_lines(schema: Schema, node: Schema | None = None, prefix: str = "", levels: int = MAX_LEVELS) -> list[Line]:
    """Return every field of an object. Of several alternatives, a field is required if all of them require it."""
    shapes = _objects(schema, node or schema)
    names = dict.fromkeys(name for shape in shapes for name in shape["properties"])
    found = []
    for name in names:
        fields = [shape["properties"][name] for shape in shapes if name in shape["properties"]]
        must = all(name in shape.get("required", ()) for shape in shapes)
        suffix, below = _below(schema, fields) if levels else ("", None)
        if below is None or suffix or not must or len(list(_types(schema, fields[0], name))) > 1:
            found.append(_line(schema, prefix + name, fields, must=must))
        if below is not None:
            found += schema_lines(schema, below, f"{prefix}{name}{suffix}.", levels - 1)
    return found


def by_discriminator(schema: Schema, field: str, name: str) -> dict[str, Schema]:
    """Return the alternatives of a field, or of the items of a list, by the constant that each has under `name`.

    Of two spellings of an alternative, the first is returned.
    """
    node = _resolved(schema, schema["properties"][field])
    found: dict[str, Schema] = {}
    for shape in _objects(schema, node.get("items", node)):
        found.setdefault(shape["properties"][name]["const"], shape)
    return found


def _objects(schema: Schema, node: Schema) -> list[Schema]:
    node = _resolved(schema, node)
    if node.get("properties"):
        return [node]
    branches = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    return [shape for branch in branches for shape in _objects(schema, branch)]


def _below(schema: Schema, fields: list[Schema]) -> tuple[str, Schema | None]:
    """Return the object of a field, or the values of a map by name. Neither exists for lists and choices."""
    node = _resolved(schema, fields[0])
    if len(fields) == 1 and len(_objects(schema, node)) == 1:
        return "", node
    for values in (*node.get("patternProperties", {}).values(), node.get("additionalProperties")):
        if isinstance(values, dict) and _objects(schema, values):
            return ".NAME", values
    return "", None


def _line(schema: Schema, name: str, fields: list[Schema], *, must: bool) -> Line:
    first = fields[0]
    default = first.get("default")
    described = first.get("description") or ""
    return Line(
        name,
        must,
        render_type(schema, {"anyOf": fields}, name),
        "" if default is None or isinstance(default, dict) else _render_value(default, name),
        " ".join(described.split()),
    )


def _resolved(schema: Schema, node: Schema) -> Schema:
    reference = node.get("$ref")
    if reference is None:
        return node
    found: Schema = schema["$defs"][reference.removeprefix("#/$defs/")]
    return found


def render_type(schema: Schema, field: Schema, name: str) -> str:
    """Describe a type, such as "integer, 1 to 100", "time or null" or "list of RelativePath"."""
    return _choice(list(dict.fromkeys(_types(schema, field, name))))


def _types(schema: Schema, field: Schema, name: str) -> Iterator[str]:
    node = _resolved(schema, field)
    branches = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    for branch in branches:
        yield from _types(schema, branch, name)
    if not branches:
        values = [node["const"]] if "const" in node else list(node.get("enum", ()))
        yield from [_render_value(value, name) for value in values] or [_plain(schema, node, name)]


def _plain(schema: Schema, node: Schema, name: str) -> str:
    kind = str(node.get("type", "any value"))
    if kind == "array":
        return f"list of {render_type(schema, node.get('items', {}), name)}"
    if kind in {"integer", "number"}:
        return kind + _range(node, name)
    if kind == "object":
        return str(node.get("title", kind))
    if kind == "string":
        return {"date-time": "time", "uuid": "UUID"}.get(node.get("format", ""), kind)
    return kind


def _range(node: Schema, name: str) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is None or high is None or high > 1 << 40:
        return ""
    return f", {_amount(low, name)}" if low == high else f", {_amount(low, name)} to {_amount(high, name)}"


def _amount(number: float, name: str) -> str:
    number = int(number) if number == int(number) else number
    whole = name.endswith("_bytes") and number >= MIB and number % MIB == 0
    return f"{number} ({number // MIB} MiB)" if whole else f"{number}"


def _render_value(value: Any, name: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return _amount(value, name)
    if isinstance(value, list):
        return ", ".join(_render_value(item, name) for item in value) or "none"
    return f"`{value if isinstance(value, str) and value else json.dumps(value)}`"


def _choice(words: list[str]) -> str:
    if len(words) > MAX_CHOICES:
        return ", ".join(words[:MAX_CHOICES]) + ", ..."
    return " or ".join(word for word in (", ".join(words[:-1]), words[-1]) if word)
