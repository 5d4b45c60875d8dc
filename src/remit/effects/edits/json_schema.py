"""The check of SCHEMA_UPDATE: the result must be a valid JSON Schema.

Nothing is fetched. A reference to another document stays a reference.
"""

from typing import Any, Final

import jsonschema_rs

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.json import parse_file
from remit.effects.edits.splice import read_text
from remit.effects.edits.yaml import compose_file
from remit.effects.edits.yaml_nodes import as_tree

_LATEST: Final = "https://json-schema.org/draft/2020-12/schema"
_DRAFTS: Final = frozenset(
    {
        _LATEST,
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-04/schema",
    }
)


def require_valid_schema(raw: bytes, operation_type: str) -> None:
    """Raise unless the schema is valid by the meta-schema of its draft: the draft in `$schema`, or 2020-12."""
    schema = _read(raw, is_yaml=operation_type == "yaml_update")
    if not isinstance(schema, (dict, bool)):
        raise _invalid("a schema must be an object, true or false")
    draft = schema.get("$schema", _LATEST) if isinstance(schema, dict) else _LATEST
    if not isinstance(draft, str) or draft.removesuffix("#") not in _DRAFTS:
        raise _invalid(f"{draft!r} is not a known draft of JSON Schema")
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as problem:
        where = "/".join(map(str, problem.instance_path))
        raise _invalid(problem.message, f"/{where}") from None
    except (jsonschema_rs.ReferencingError, ValueError) as problem:
        raise _invalid(str(problem)) from None


def _read(raw: bytes, *, is_yaml: bool) -> Any:
    text = read_text(raw)
    if not is_yaml:
        return parse_file(text.body)
    root = compose_file(text).root
    return None if root is None else as_tree(root)


def _invalid(why: str, where: str = "") -> RefusedError:
    return RefusedError(
        Reason.SCHEMA_INVALID,
        f"after the edit the file would not be a valid JSON Schema: {why}",
        where=where,
        next_step="Write the edit so that the result is a valid JSON Schema.",
    )
