"""The rules of a plan that look into a JSON or YAML document. Needs their parsers."""

from collections.abc import Mapping
from typing import Any, Final

import jsonschema_rs

from remit.effects.check import PLAIN_JUDGES, Content, Judge
from remit.effects.edits.json_edit import parse_file
from remit.effects.edits.json_path import select_one
from remit.effects.edits.splice import read_text
from remit.effects.edits.yaml_edit import compose_file
from remit.effects.edits.yaml_nodes import as_tree
from remit.errors import Reason, Refused

_YAML: Final = (".yaml", ".yml")


def judge_json_schema(rule: Mapping[str, Any], content: Content) -> str:
    """Nothing is fetched: a schema that refers to elsewhere does not hold. Patterns never backtrack."""
    document = _document(rule["path"], content)
    named = rule.get("schema_file")
    schema = rule.get("schema") if named is None else _document(named, content)
    if not isinstance(schema, (dict, bool)):
        return "the schema is neither an object nor true or false"
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True, pattern_options=jsonschema_rs.RegexOptions())
        error = next(validator.iter_errors(document), None)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as problem:
        return f"the schema cannot be used: {str(problem).partition(chr(10))[0]}"
    if error is None:
        return ""
    return f"at /{'/'.join(map(str, error.instance_path))}: {error.message}"


def judge_json_path(rule: Mapping[str, Any], content: Content) -> str:
    document = _document(rule["path"], content)
    value = document
    for step in select_one(document, rule["expression"]):
        value = value[step]
    return "" if is_equal(value, rule["expected"]) else f"{rule['expression']} selects another value"


def is_equal(one: Any, other: Any) -> bool:
    """As JSON has it: 1 and 1.0 are one number, and no number is true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    return bool(one == other)


RICH_JUDGES: Final[Mapping[str, Judge]] = {
    **PLAIN_JUDGES,
    "json_schema": judge_json_schema,
    "json_path": judge_json_path,
}


def _document(path: str, content: Content) -> Any:
    raw = content(path)
    if raw is None:
        raise Refused(Reason.FILE_MISSING, f"{path} does not exist", where=path)
    text = read_text(raw)
    if not path.lower().endswith(_YAML):
        return parse_file(text.body)
    root = compose_file(text).root
    return None if root is None else as_tree(root)
