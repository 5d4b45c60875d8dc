"""The refusal of a document that does not fit its contract: which fields, where, and which schema to compare it with.

The first few problems are all named, so that one correction can fix them. No value of the input is repeated.
"""

import difflib
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from remit.contracts.registry import schema_name
from remit.core.errors import Reason, RefusedError

MAX_NAMED: Final = 5
MAX_PATH: Final = 200

_LONGEST_GUESS: Final = 100

# The validator names Python types. The sender of JSON reads the names of JSON types.
_PLAIN_WORDS: Final = {
    "missing": "a required field is missing",
    "extra_forbidden": "this field is not known here",
    "model_type": "this must be an object",
    "dict_type": "this must be an object",
    "tuple_type": "this must be an array",
    "string_type": "this must be a string",
    "int_type": "this must be an integer",
    "float_type": "this must be a number",
    "bool_type": "this must be true or false",
    "none_required": "this must be null",
    "model_attributes_type": "this must be an object",
    "finite_number": "this must be a finite number",
}
# Required fields with the value to write, by the kind of the action and the name of the field.
_TO_WRITE: Final[dict[tuple[int | str, ...], str]] = {
    ("PIPELINE_RUN", "reversible"): (
        "false for a python or dbt pipeline, and for query files whose changes on a server cannot be rolled back; true"
        " for other query files"
    ),
}
_HOW_TO_WRITE: Final[dict[tuple[int | str, ...], str]] = {
    ("PIPELINE_RUN", "reversible"): (
        'Add `"reversible": false` to the action, or `true` for query files whose changes can be rolled back.'
    ),
}
"""The next step if such a field is missing."""
# Operations that FILE_MODIFY and SCHEMA_UPDATE do not have, with the action that has each of them.
_ACTION_OF_OPERATION: Final = {
    "write": "FILE_CREATE",
    "delete": "FILE_DELETE",
    "rename": "FILE_RENAME",
    "sql_execute": "SQL_EXECUTE",
    "pipeline_run": "PIPELINE_RUN",
}
_BOUNDS: Final = {
    "literal_error": "this must be {expected}",
    "string_too_short": "this must not be empty",
    "string_too_long": "this may have at most {max_length} characters",
    "too_short": "there must be at least {min_length}",
    "too_long": "there may be at most {max_length}",
    "greater_than_equal": "this must be {ge} or more",
    "less_than_equal": "this must be {le} or less",
}


# Fields that only one kind of document has. The refusal of a wrong document names its kind.
_TELLTALES: Final = {
    "envelope": ({"envelope_id", "plan", "signature"}, "an envelope"),
    "plan": ({"plan_id", "action_plan"}, "a plan"),
    "plan-preview": ({"plan_digest", "needs", "backup_bytes"}, "the preview of a plan"),
    "execution-report": ({"report_id", "actions_summary"}, "the report of a run"),
    "completion-status": ({"report_id", "report_digest"}, "the status of a run"),
    "rollback-manifest": ({"manifest_id", "rollback_order"}, "a rollback manifest"),
    "lease-token": ({"lease_id", "signature"}, "a lease"),
    "execution-result": ({"task_id", "output", "signature"}, "the result of a task"),
    "task-manifest": ({"task_id", "capability_id", "inputs"}, "a task manifest"),
}
_WHAT_IT_IS_FOR: Final = {
    "envelope": "It is approved already. To apply it: remit apply {}",
    "plan": "It is not approved yet. To approve it: remit approve {} -o envelope.json",
    "task-manifest": "To issue a lease for this task: remit task lease {} -o lease.json",
}

# Explanations by the beginning of the pattern.
_PATTERN_WORDS: Final = {
    "^sha256:": "this must be `sha256:` and 64 hex digits in lower case",
    "^[0-9a-f]{8}-": "this must be a UUID in lower case",
    "^[0-9]{4}-": "this must be a time in UTC, such as 2026-01-31T12:00:00Z",
    "^[A-Za-z0-9_-]{85}": "this must be a signature: 86 characters of base64url",
    "^[A-Za-z0-9_-]{42}": "this must be the id of a key: 43 characters of base64url",
    "^[A-Za-z][A-Za-z0-9_.-]": "this must be a name: a letter, then letters, digits and _ . -",
    "^[A-Z]{3}$": "this must be three capital letters",
}


def refusal(problem: ValidationError, tree: Any, title: str, source: str) -> RefusedError:
    """Build the refusal of a document.

    Args:
        problem: The errors of the validator.
        tree: The document.
        title: The title of the contract.
        source: The name of the document's file or field; empty if it is not known.

    Returns:
        The error to raise.
    """
    schema = schema_name(title)
    other = _recognised(tree, schema) if schema else ""
    if other:
        return _mistaken(other, schema, source or title, is_file=bool(source) and source != title)
    errors = problem.errors(include_url=False, include_input=False)
    # A mistyped name is an unknown field and a missing one. The unknown one shows the place of the mistake.
    errors.sort(key=lambda error: error["type"] != "extra_forbidden")
    return RefusedError(
        Reason.MALFORMED,
        _summary(errors, tree),
        where=f"{source or title}, {_json_path(errors[0], tree)}",
        next_step=_next_step(errors, schema),
    )


def _next_step(errors: list[ErrorDetails], schema: str) -> str:
    missing = [error["loc"][-2:] for error in errors if error["type"] == "missing"]
    if len(errors) == len(missing) and (advice := _HOW_TO_WRITE.get(missing[0])) and len(set(missing)) == 1:
        return advice
    return f"Compare it with: remit schema {schema}" if schema else "Correct the fields that are named above."


def _recognised(tree: Any, expected: str) -> str:
    """Return the kind of this document if it is clearly of another kind than the expected one."""
    if not isinstance(tree, dict) or (expected in _TELLTALES and _TELLTALES[expected][0] <= tree.keys()):
        return ""
    return next((name for name, (fields, _) in _TELLTALES.items() if fields <= tree.keys()), "")


def _mistaken(found: str, expected: str, source: str, *, is_file: bool) -> RefusedError:
    wanted = _TELLTALES[expected][1] if expected in _TELLTALES else f"a document of another kind ({expected})"
    plain = is_file and not source.startswith(("-", "<")) and all(c.isalnum() or c in "/._-" for c in source)
    advice = _WHAT_IT_IS_FOR.get(found, f"Give {wanted}. `remit schema {expected}` prints its JSON Schema.")
    return RefusedError(
        Reason.MALFORMED,
        f"this is {_TELLTALES[found][1]}, but {wanted} is needed here",
        where=source,
        next_step=advice.format(source if plain else "FILE"),
    )


def _summary(errors: list[ErrorDetails], tree: Any) -> str:
    if len(errors) == 1:
        return _why(errors[0])
    paths_by_reason: dict[str, list[str]] = {}
    for error in errors[:MAX_NAMED]:
        paths_by_reason.setdefault(_why(error), []).append(_json_path(error, tree)[:MAX_PATH])
    named = "; ".join(f"{why}: {', '.join(paths)}" for why, paths in paths_by_reason.items())
    more = len(errors) - MAX_NAMED
    return f"{named}; and {more} more" if more > 0 else named


def _why(error: ErrorDetails) -> str:
    kind, details = error["type"], error.get("ctx", {})
    if kind == "missing" and (advice := _TO_WRITE.get(error["loc"][-2:])):
        return f"{_PLAIN_WORDS['missing']} ({advice})"
    if kind == "union_tag_not_found":
        return _PLAIN_WORDS["missing"]
    if kind == "union_tag_invalid":
        return f"this must be one of {details['expected_tags']}{_guess(details)}"
    if kind == "string_pattern_mismatch":
        pattern = str(details["pattern"])
        explanation = next((text for start, text in _PATTERN_WORDS.items() if pattern.startswith(start)), "")
        return explanation or f"this must match the pattern {pattern}"
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**details)
    return _PLAIN_WORDS.get(kind, error["msg"].removeprefix("Value error, "))


def _guess(details: dict[str, Any]) -> str:
    """Return the allowed value that is most similar to the given one, or the action that has the given operation.

    Another given value is not repeated.
    """
    allowed = [tag.strip("'") for tag in str(details["expected_tags"]).split(", ")]
    requested = str(details.get("tag", ""))
    if requested in _ACTION_OF_OPERATION and "json_update_value" in allowed:
        return f"; {requested!r} is the operation of the action {_ACTION_OF_OPERATION[requested]}"
    # The comparison takes time for each letter, and no allowed name is that long.
    close = difflib.get_close_matches(requested, allowed, n=1) if len(requested) <= _LONGEST_GUESS else []
    return f"; most likely {close[0]!r}" if close else ""


def _json_path(error: ErrorDetails, tree: Any) -> str:
    """Return the place in the input, without the branches of unions that the validator also names."""
    location, missing = error["loc"], error["type"] == "missing"
    if error["type"].startswith("union_tag_"):
        location, missing = (*location, error["ctx"]["discriminator"].strip("'")), True
    path, here = "$", tree
    for part in location[:-1] if missing else location:
        if isinstance(here, dict) and part in here:
            path, here = f"{path}.{part}", here[part]
        elif isinstance(here, list | tuple) and isinstance(part, int) and part < len(here):
            path, here = f"{path}[{part}]", here[part]
    return f"{path}.{location[-1]}" if missing else path
