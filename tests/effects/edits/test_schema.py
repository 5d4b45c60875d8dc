"""SCHEMA_UPDATE: afterwards the file must be a valid JSON Schema."""

import pytest

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.json_schema import require_valid_schema

pytestmark = pytest.mark.req("PX-30")


@pytest.mark.parametrize(
    "content, operation",
    [
        pytest.param('{"type": "object", "properties": {"a": {"type": "string"}}}', "json_add_property", id="no draft"),
        pytest.param("true", "json_update_value", id="true"),
        pytest.param("\ufeff{}", "json_update_value", id="behind a byte-order mark"),
        pytest.param('{"$schema": "http://json-schema.org/draft-07/schema#"}', "json_update_value", id="draft 7"),
        pytest.param('{"$schema": "https://json-schema.org/draft/2019-09/schema"}', "json_update_value", id="2019-09"),
        pytest.param('{"$schema": "http://json-schema.org/draft-04/schema", "id": "x"}', "json_update_value", id="4"),
        pytest.param(
            '{"$ref": "https://nowhere.invalid/x.json"}', "json_update_value", id="references stay references"
        ),
        pytest.param("type: object\nproperties:\n  a: {type: [string, 'null']}\n", "yaml_update", id="YAML"),
    ],
)
def test_a_valid_schema_passes(content: str, operation: str) -> None:
    require_valid_schema(content.encode(), operation)


@pytest.mark.parametrize(
    "content, operation, where",
    [
        pytest.param('{"type": "objekt"}', "json_update_value", "/type", id="no such type"),
        pytest.param(
            '{"properties": {"a": {"minimum": "1"}}}', "json_add_property", "/properties/a/minimum", id="deep"
        ),
        pytest.param(
            '{"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 1}', "json_x", "", id="4"
        ),
        pytest.param('{"$schema": "https://example.invalid/mine"}', "json_update_value", "", id="an unknown draft"),
        pytest.param('{"$schema": 7}', "json_update_value", "", id="not a draft"),
        pytest.param("[]", "json_update_value", "", id="a list"),
        pytest.param("null", "json_update_value", "", id="null"),
        pytest.param("required: yes please\n", "yaml_update", "/required", id="YAML"),
        pytest.param("- 1\n", "yaml_update", "", id="a list in YAML"),
    ],
)
def test_anything_else_is_refused(content: str, operation: str, where: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        require_valid_schema(content.encode(), operation)
    assert refusal.value.reason is Reason.SCHEMA_INVALID
    if where:
        assert refusal.value.where == where
