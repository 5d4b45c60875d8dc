"""Makes a closed model from a Python signature, so that an agent can send only what the annotations allow."""

import inspect
import types
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import Field, create_model

from remit.contracts.base import Contract
from remit.contracts.calls.call import CallArguments
from remit.core.errors import Reason, UsageError

RESERVED: Final = frozenset({"token", "key", "wait"})
"""The parameters of `.call` itself."""
_PLAIN: Final = (str, int, float, bool, type(None))
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
MOST_ARGUMENTS: Final = 50


def model_of(function: Callable[..., Any], name: str) -> type[CallArguments]:
    """Return the arguments as a closed model. Raises `UsageError` for a signature that leaves anything open."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in _NAMED:
            raise _open_signature_error(name, f"{parameter.name} cannot be passed by name")
        if (
            parameter.name in RESERVED
            or parameter.name.startswith(("_", "model_"))
            or hasattr(Contract, parameter.name)
        ):
            raise _open_signature_error(name, f"{parameter.name} is a reserved name")
        if parameter.name not in hints:
            raise _open_signature_error(name, f"{parameter.name} has no annotation")
        _require_closed(hints[parameter.name], name, parameter.name)
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], Field(default))
    if len(fields) > MOST_ARGUMENTS:
        raise _open_signature_error(name, f"it has more than {MOST_ARGUMENTS} arguments")
    made: type[CallArguments] = create_model(_title(name), __base__=CallArguments, **fields)
    made.model_rebuild()
    return made


def _require_closed(hint: Any, name: str, parameter: str) -> None:
    """Require a type that JSON has, at every level. A model inside must be a closed `Contract`."""
    origin = get_origin(hint)
    if hint in _PLAIN or hint is None or origin is Literal:
        return
    if isinstance(hint, type) and issubclass(hint, Contract):
        return
    if origin is Annotated:
        _require_closed(get_args(hint)[0], name, parameter)
        return
    if origin in {list, Union, types.UnionType} or (origin is dict and get_args(hint)[0] is str):
        for each in get_args(hint)[1:] if origin is dict else get_args(hint):
            _require_closed(each, name, parameter)
        return
    raise _open_signature_error(
        name, f"{parameter} must be str, int, float, bool, None, list, dict[str, ...], Literal or a Contract"
    )


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.replace(".", "_").split("_"))


def _open_signature_error(name: str, why: str) -> UsageError:
    return UsageError(
        Reason.MISUSE,
        f"the signature must describe every argument of an agent: {why}",
        where=f"function {name}",
        next_step="See docs/how-to/govern-a-function.md.",
    )
