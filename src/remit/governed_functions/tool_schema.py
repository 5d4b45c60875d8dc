"""Governed functions as a model is told of them: a name, a description, a schema of the arguments."""

from typing import Any

from remit.calls.function import GovernedFunction
from remit.calls.service import Functions, schema_of


def tool_of(function: GovernedFunction) -> dict[str, Any]:
    """`name`, `description` and `input_schema`, as most tool-call interfaces want them.

    Their names have no dots: `crm.set_discount` is `crm-set_discount`, and a name of ours has no hyphen.
    """
    parts = [function.description, function.undo_description]
    if function.consent != "none":
        parts.append("A person may be asked first.")
    return {
        "name": function.name.replace(".", "-"),
        "description": " ".join(part for part in parts if part),
        "input_schema": dict(schema_of(function)),
    }


def tools_of(functions: Functions) -> dict[str, GovernedFunction]:
    """The functions by the names that `tool_of` gives them."""
    return {str(tool_of(function)["name"]): function for function in functions.listed()}
