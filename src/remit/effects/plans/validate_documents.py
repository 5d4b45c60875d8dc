"""Checks the rules of a plan about the content of a JSON or YAML document. Needs the parsers of these formats."""

from collections.abc import Mapping
from typing import Any, Final

import jsonschema_rs

from remit.core.errors import Reason, RefusedError
from remit.effects.edits.json import parse_file
from remit.effects.edits.json_path import select_one
from remit.effects.edits.splice import read_text
from remit.effects.edits.yaml import compose_file
from remit.effects.edits.yaml_nodes import as_tree
from remit.effects.json_equal import is_equal
from remit.effects.plans.validate import PLAIN_JUDGES, Content, Judge

_YAML: Final = (".yaml", ".yml")
_LONGEST_POINTER: Final = 200


def judge_json_schema(rule: Mapping[str, Any], content: Content) -> str:
    """Check a document against a JSON Schema.

    Nothing is fetched, so a schema that refers to another document does not hold. Patterns never backtrack. The answer
    quotes neither the document nor the schema, because its reader may not be allowed to read them.
    """
    document = _document(rule["path"], content)
    named = rule.get("schema_file")
    schema = rule.get("schema") if named is None else _document(named, content)
    if not isinstance(schema, (dict, bool)):
        return "the schema is neither an object nor true or false"
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True, pattern_options=jsonschema_rs.RegexOptions())
        error = next(validator.iter_errors(document), None)
    except jsonschema_rs.ValidationError as problem:
        return f"the schema cannot be used: {_broken_at(problem)}"  # the schema itself breaks the meta-schema
    except (jsonschema_rs.ReferencingError, ValueError, TypeError):
        return "the schema cannot be used"
    return "" if error is None else _broken_at(error)


def _broken_at(error: jsonschema_rs.ValidationError) -> str:
    """Say which place of the document, as a JSON pointer, breaks which keyword of the schema."""
    pointer = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in error.instance_path)
    shown = pointer if len(pointer) <= _LONGEST_POINTER else pointer[:_LONGEST_POINTER] + "..."
    return f"at {shown or 'the top'} it breaks the keyword {error.kind.name} of its schema"


def judge_json_path(rule: Mapping[str, Any], content: Content) -> str:
    document = _document(rule["path"], content)
    value = document
    for step in select_one(document, rule["expression"]):
        value = value[step]
    return "" if is_equal(value, rule["expected"]) else f"the value at {rule['expression']} is not as expected"


FULL_JUDGES: Final[Mapping[str, Judge]] = {
    **PLAIN_JUDGES,
    "json_schema": judge_json_schema,
    "json_path": judge_json_path,
}


def _document(path: str, content: Content) -> Any:
    raw = content(path)
    if raw is None:
        raise RefusedError(Reason.FILE_MISSING, f"{path} does not exist", where=path)
    try:
        return _parsed(path, raw)
    except RefusedError as problem:
        if problem.reason is not Reason.SYNTAX_BROKEN:
            raise
        # The parsers' own messages contain names and characters of the text.
        kind = "YAML" if path.lower().endswith(_YAML) else "JSON"
        place = f" at {problem.where}" if problem.where else ""
        raise RefusedError(Reason.SYNTAX_BROKEN, f"{path} is not {kind}{place}", where=path) from None


def _parsed(path: str, raw: bytes) -> Any:
    text = read_text(raw)
    if not path.lower().endswith(_YAML):
        return parse_file(text.body)
    root = compose_file(text).root
    return None if root is None else as_tree(root)
