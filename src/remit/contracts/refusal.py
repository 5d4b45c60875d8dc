"""How a document that breaks its contract is refused: which fields, where, and what to compare it with.

The first few problems are all named, so that a document can be put right in one go. No value of the input is repeated.
"""

from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from remit.contracts.catalog import schema_name
from remit.errors import Reason, Refused

MAX_NAMED: Final = 5
MAX_PATH: Final = 200

# The validator speaks of Python types; whoever sent JSON should read of JSON.
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
}


def refusal(problem: ValidationError, tree: Any, title: str, source: str) -> Refused:
    """`title` names the contract; `source` names where the document came from, if anybody knows."""
    errors = problem.errors(include_url=False, include_input=False)
    # A mistyped name is both an unknown field and a missing one: the unknown one shows where to look.
    errors.sort(key=lambda error: error["type"] != "extra_forbidden")
    schema = schema_name(title)
    return Refused(
        Reason.MALFORMED,
        _summary(errors, tree),
        where=f"{source or title}, {_json_path(errors[0], tree)}",
        next_step=f"Compare it with: remit schema {schema}" if schema else "Put right what is named above.",
    )


def _summary(errors: list[ErrorDetails], tree: Any) -> str:
    if len(errors) == 1:
        return _why(errors[0])
    places: dict[str, list[str]] = {}
    for error in errors[:MAX_NAMED]:
        places.setdefault(_why(error), []).append(_json_path(error, tree)[:MAX_PATH])
    named = "; ".join(f"{why}: {', '.join(paths)}" for why, paths in places.items())
    more = len(errors) - MAX_NAMED
    return f"{named}; and {more} more" if more > 0 else named


def _why(error: ErrorDetails) -> str:
    details = error.get("ctx", {})
    if error["type"] == "union_tag_not_found":
        return f"the field {details['discriminator']} is missing"
    if error["type"] == "union_tag_invalid":
        return f"the field {details['discriminator']} must be one of {details['expected_tags']}"
    return _PLAIN_WORDS.get(error["type"], error["msg"].removeprefix("Value error, "))


def _json_path(error: ErrorDetails, tree: Any) -> str:
    """The place in the input. The validator also names the branches of unions it took: those are left out."""
    location, missing = error["loc"], error["type"] == "missing"
    path, here = "$", tree
    for part in location[:-1] if missing else location:
        if isinstance(here, dict) and part in here:
            path, here = f"{path}.{part}", here[part]
        elif isinstance(here, list | tuple) and isinstance(part, int) and part < len(here):
            path, here = f"{path}[{part}]", here[part]
    return f"{path}.{location[-1]}" if missing else path
