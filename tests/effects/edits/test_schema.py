"""SCHEMA_UPDATE: afterwards the file must be a valid JSON Schema."""

import pytest

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.json_schema import require_valid_schema

pytestmark = pytest.mark.req("PX-30")


def test_a_valid_schema_passes(subtests: pytest.Subtests) -> None:
    for case, content, operation in [
        ("no draft", '{"type": "object", "properties": {"a": {"type": "string"}}}', "json_add_property"),
        ("true", "true", "json_update_value"),
        ("behind a byte-order mark", "\ufeff{}", "json_update_value"),
        ("draft 7", '{"$schema": "http://json-schema.org/draft-07/schema#"}', "json_update_value"),
        ("2019-09", '{"$schema": "https://json-schema.org/draft/2019-09/schema"}', "json_update_value"),
        ("4", '{"$schema": "http://json-schema.org/draft-04/schema", "id": "x"}', "json_update_value"),
        ("references stay references", '{"$ref": "https://nowhere.invalid/x.json"}', "json_update_value"),
        ("YAML", "type: object\nproperties:\n  a: {type: [string, 'null']}\n", "yaml_update"),
    ]:
        with subtests.test(case):
            require_valid_schema(content.encode(), operation)


def test_anything_else_is_refused(subtests: pytest.Subtests) -> None:
    for case, content, operation, where in [
        ("no such type", '{"type": "objekt"}', "json_update_value", "/type"),
        ("deep", '{"properties": {"a": {"minimum": "1"}}}', "json_add_property", "/properties/a/minimum"),
        ("4", '{"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": 1}', "json_x", ""),
        ("an unknown draft", '{"$schema": "https://example.invalid/mine"}', "json_update_value", ""),
        ("not a draft", '{"$schema": 7}', "json_update_value", ""),
        ("a list", "[]", "json_update_value", ""),
        ("null", "null", "json_update_value", ""),
        ("YAML", "required: yes please\n", "yaml_update", "/required"),
        ("a list in YAML", "- 1\n", "yaml_update", ""),
    ]:
        with subtests.test(case):
            with pytest.raises(RefusedError) as refusal:
                require_valid_schema(content.encode(), operation)
            assert refusal.value.reason is Reason.SCHEMA_INVALID
            if where:
                assert refusal.value.where == where
