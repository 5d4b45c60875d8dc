"""Descriptions of governed functions for the tool list of a model."""

from typing import Any

from remit.calls.function import GovernedFunction
from remit.calls.service import Functions, schema_of


def tool_of(function: GovernedFunction) -> dict[str, Any]:
    """Describe a governed function for the tool list of a model.

    A tool name has a hyphen in place of each dot: `crm.set_discount` becomes `crm-set_discount`.

    Args:
        function: A value of `workspace.calls.registry`, or the `function` of a decorated function.

    Returns:
        A dictionary with `name`, `description` and `input_schema`.
    """
    parts = [function.description, function.undo_description]
    if function.consent != "none":
        parts.append("A person may have to approve it first.")
    return {
        "name": function.name.replace(".", "-"),
        "description": " ".join(part for part in parts if part),
        "input_schema": dict(schema_of(function)),
    }


def tools_of(functions: Functions) -> dict[str, GovernedFunction]:
    """Return the governed functions by their tool names.

    Args:
        functions: `workspace.calls.registry`.

    Returns:
        The functions, by the names that `tool_of` gives them.
    """
    return {str(tool_of(function)["name"]): function for function in functions.listed()}
