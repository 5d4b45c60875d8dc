"""The Cedar schema of goals, made from the catalogue's access actions, and the question in its terms. Pure.

    User::"acme/ann"      the principal: tenant, slash, user; in Tenant::"acme"
    Action::"refund"      an access action of the catalogue
    Simulation::"s1"      the resource; in the same tenant
    context.impact        Impact::"read_only", "impactful", "side_effecting" or "irreversible"
    context.risk          Risk::"LOW", "MEDIUM", "HIGH" or "CRITICAL"
    context.language      the language of the request, a string such as "en-GB"
    context.texts         fields that are strings, by name: context.texts.hasTag("country"), context.texts.getTag(...)
    context.numbers       fields that are whole numbers
    context.amounts       fields that are sums of money, each with .value (a decimal) and .currency

Impact and risk are enumerations and not strings, so a misspelt value is refused when the policy is loaded. If they were
strings, a `forbid` for risk "high" would forbid nothing. Fields are tags, because Cedar wants every attribute declared,
and the fields depend on the simulation. Tags have one type and any name, and the validator insists on `hasTag` before
`getTag`. A field whose value has none of the three types is not hidden from the policies: the question is denied.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, get_args

from pydantic import JsonValue

from remit.contracts.base import RiskLevel

SCHEMA_VERSION: Final = 1
IMPACTS: Final = ("read_only", "impactful", "side_effecting", "irreversible")
RISKS: Final[tuple[str, ...]] = get_args(RiskLevel)
MAX_FIELDS: Final = 200
MAX_TEXT: Final = 10_000
# A Cedar Long can hold more; above this number there is no canonical form.
MAX_NUMBER: Final = 2**53 - 1
# A Cedar decimal has four digits after the point and up to 15 before it. The 15th is not possible for every number.
_DECIMAL: Final = re.compile(r"(-?[0-9]{1,14})(\.[0-9]{1,4})?", re.ASCII)
_CURRENCY: Final = re.compile(r"[A-Z]{3}", re.ASCII)

_BAGS: Final = {"texts": "Texts", "numbers": "Numbers", "amounts": "Amounts"}
_BAG_ID: Final = "request"


class UnsupportedFieldError(Exception):
    """A field has a value that no policy could read."""


class CedarQuestion(NamedTuple):
    """A request and its entities, as JSON trees. Ids are values in them, never part of a text that is parsed."""

    request: dict[str, Any]
    entities: list[dict[str, Any]]


def schema_tree(actions: Iterable[str]) -> dict[str, Any]:
    """Return Cedar's JSON schema. The order of the actions makes no difference."""
    context = {
        "impact": {"type": "Entity", "name": "Impact"},
        "risk": {"type": "Entity", "name": "Risk"},
        "language": {"type": "String"},
        **{name: {"type": "Entity", "name": bag} for name, bag in _BAGS.items()},
    }
    applies = {
        "principalTypes": ["User"],
        "resourceTypes": ["Simulation"],
        "context": {"type": "Record", "attributes": context},
    }
    amount = {"value": {"type": "Extension", "name": "decimal"}, "currency": {"type": "String"}}
    kinds = {
        "Tenant": {},
        "User": {"memberOfTypes": ["Tenant"]},
        "Simulation": {"memberOfTypes": ["Tenant"]},
        "Impact": {"enum": list(IMPACTS)},
        "Risk": {"enum": list(RISKS)},
        "Texts": {"tags": {"type": "String"}},
        "Numbers": {"tags": {"type": "Long"}},
        "Amounts": {"tags": {"type": "Record", "attributes": amount}},
    }
    return {"": {"entityTypes": kinds, "actions": {action: {"appliesTo": applies} for action in sorted(set(actions))}}}


def user_name(tenant_id: str, user_id: str) -> str:
    """Return the name of a user in policies. It is unique as long as no tenant id contains a slash."""
    return f"{tenant_id}/{user_id}"


def cedar_question(  # noqa: PLR0913 - a question has these parts
    *,
    tenant_id: str,
    user_id: str,
    access_action: str,
    simulation_id: str,
    impact: str,
    risk: str,
    language: str,
    fields: Mapping[str, JsonValue],
) -> CedarQuestion:
    """Build the question for the engine.

    Raises:
        UnsupportedFieldError: The value of a field cannot be expressed for policies.
    """
    tenant = _uid("Tenant", tenant_id)
    principal, resource = _uid("User", user_name(tenant_id, user_id)), _uid("Simulation", simulation_id)
    tags = _sort_fields(fields)
    request = {
        "principal": principal,
        "action": _uid("Action", access_action),
        "resource": resource,
        "context": {
            "impact": _uid("Impact", impact),
            "risk": _uid("Risk", risk),
            "language": language,
            **{name: _uid(bag, _BAG_ID) for name, bag in _BAGS.items()},
        },
    }
    entities = [
        _entity(tenant),
        _entity(principal, parents=[tenant]),
        _entity(resource, parents=[tenant]),
        *(_entity(_uid(bag, _BAG_ID), tags=tags[name]) for name, bag in _BAGS.items()),
    ]
    return CedarQuestion(request, entities)


def _sort_fields(fields: Mapping[str, JsonValue]) -> dict[str, dict[str, Any]]:
    if len(fields) > MAX_FIELDS:
        raise UnsupportedFieldError(f"there are more than {MAX_FIELDS} fields")
    bags: dict[str, dict[str, Any]] = {name: {} for name in _BAGS}
    for name, value in fields.items():
        if value is None:
            continue
        if isinstance(value, str) and len(value) <= MAX_TEXT:
            bags["texts"][name] = value
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER:
            bags["numbers"][name] = value
        else:
            bags["amounts"][name] = _amount(value)
    return bags


def _amount(value: Any) -> dict[str, str]:
    if isinstance(value, dict) and value.keys() == {"value", "currency"}:
        number, currency = value["value"], value["currency"]
        if isinstance(number, str) and isinstance(currency, str) and _CURRENCY.fullmatch(currency):
            found = _DECIMAL.fullmatch(number)
            if found is not None:
                return {"value": f"{found[1]}{found[2] or '.0'}", "currency": currency}
    raise UnsupportedFieldError("a field is not a text, a whole number, or an amount with at most four decimals")


def _uid(kind: str, identifier: str) -> dict[str, str]:
    return {"type": kind, "id": identifier}


def _entity(
    uid: dict[str, str], *, parents: Iterable[Any] = (), tags: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {"uid": uid, "attrs": {}, "parents": list(parents), "tags": dict(tags or {})}
