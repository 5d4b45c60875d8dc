"""The OpenAPI document: every route with its right, its models and all its responses.

The contracts parse the bodies, not FastAPI. So this module adds the contracts to the document.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import Field
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.responses import Response

from remit import __version__
from remit.contracts.base import Contract, JsonObject, ShortText, Text
from remit.contracts.plans.error_response import ErrorResponse
from remit.services.base.permissions import RULES, Right
from remit.web.http.problems import MEDIA_TYPE
from remit.web.http.request import JSON, needs_body

Refs = Mapping[tuple[type[Contract], JsonSchemaMode], dict[str, Any]]
_REF_PREFIX: Final = "#/components/schemas/"
REF: Final = _REF_PREFIX + "{model}"
_PUBLISHED_NAMES: Final = {
    "remit__contracts__browser__errors__TokenRevoked": "remit__contracts__browser_errors__TokenRevoked",
    "remit__contracts__services__ledger__Finding": "remit__contracts__desk_record__Finding",
}
"""Published names of models whose module has moved. If two models have the same name, pydantic adds the module's name,
and generated clients know that name."""
DESCRIPTION: Final = (
    "An agent authenticates with a capability token (`Authorization: Bearer`). A person authenticates with the cookie"
    " of a login and sends the header `X-Remit-CSRF` with each request that changes something. Every error is"
    " problem+json: `code` is one of Remit's reason codes, `what` and `where` name the problem, and `next_step` says"
    " what to do. Long work returns 202 with a `Location` to poll. `Prefer: wait=N` makes the server wait up to N"
    " seconds for the result."
)


class Problem(Contract):
    """An error: what is wrong, where, and what to do next (RFC 9457)."""

    type: ShortText = Field(description="The reason code as a URN.")
    title: ShortText = Field(description="What the reason code means.")
    status: int = Field(ge=400, le=599)
    detail: Text = Field(description="`what`, `where` and `next_step` in one text.")
    instance: ShortText | None = Field(description="The id of the request, as in the logs.")
    code: ShortText = Field(description="One of Remit's reason codes. The reference page of errors lists them.")
    what: Text
    where: Text
    next_step: Text
    answer: JsonObject | None = Field(default=None, description="The result of the operation, if the engine has one.")
    errors: tuple[ErrorResponse, ...] = Field(
        default=(), description="The error format of plans, for a refused request about plans."
    )


_ALWAYS: Final = {
    400: "The request is not valid.",
    401: "Authentication is missing or not valid. The code is `authentication_required`, or it names the problem of the"
    " credential, such as `expired`.",
    403: "The caller has no permission for this.",
    405: "This address does not support the method.",
    421: "This server does not have the host name in the request.",
    429: "Too many requests.",
    500: "Internal error, which is a bug in Remit.",
    503: "The server cannot do this now.",
}
_AUTH_ERRORS: Final = {
    404: "It does not exist, or it belongs to another caller.",
    406: "The requested format is not available.",
    409: "The current state conflicts with the request.",
    422: "The request is valid JSON but cannot be carried out.",
}
_WITH_BODY: Final = {
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The content type of the body is not JSON.",
}
_HEADERS: Final = {
    401: {"WWW-Authenticate": "How to authenticate."},
    429: {"Retry-After": "Seconds to wait."},
}


Answers = type[Contract] | tuple[type[Contract], ...] | str


@dataclass(frozen=True, slots=True)
class OperationDoc:
    """The documentation of one route, in addition to its address and parameters."""

    right: Right | None
    body: type[Contract] | None = None
    answers: Mapping[int, Answers] = field(default_factory=dict)
    """By status: a model, several models (for a person, for an agent), or the media type if it is not JSON."""
    is_public: bool = False
    only_people: bool = False
    """No agent is let through, whatever its token has."""


_OPERATION_DOCS: Final[dict[str, OperationDoc]] = {}


def operation(
    name: str,
    summary: str,
    *,
    right: Right | None = None,
    body: type[Contract] | None = None,
    answers: Mapping[int, Answers],
    public: bool = False,
    only_people: bool = False,
) -> dict[str, Any]:
    """Return the arguments to add a route. The caller needs `right`, or any valid credential if it is None.

    `only_people`: the services refuse agents, although tokens can give the right for other requests.
    """
    _OPERATION_DOCS[name] = OperationDoc(right, body, answers, public, only_people)
    return {"operation_id": name, "summary": summary, "response_class": Response, "response_model": None}


def operation_doc_of(route: APIRoute) -> OperationDoc:
    return _OPERATION_DOCS[route.operation_id or ""]


def build_document(app: FastAPI) -> dict[str, Any]:
    """Build the OpenAPI 3.1 document of all routes under /v1 and of the two health checks."""
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.operation_id in _OPERATION_DOCS]
    tree = get_openapi(title="Remit", version=__version__, description=DESCRIPTION, routes=routes)
    schemas = _schemas(routes)
    for route in routes:
        for method in route.methods or ():
            _complete_operation(tree["paths"][route.path_format][method.lower()], operation_doc_of(route), schemas.refs)
    tree["components"] = {
        "schemas": schemas.definitions,
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "description": "A capability token of an agent."},
            "session": {"type": "apiKey", "in": "cookie", "name": "remit_session", "description": "A person's login."},
        },
    }
    return tree


@dataclass(frozen=True, slots=True)
class _Schemas:
    refs: Refs
    definitions: dict[str, Any]


def _schemas(routes: list[APIRoute]) -> _Schemas:
    wanted: list[tuple[type[Contract], JsonSchemaMode]] = [(Problem, "serialization")]
    for doc in map(operation_doc_of, routes):
        if doc.body is not None:
            wanted.append((doc.body, "validation"))
        wanted += [(model, "serialization") for each in doc.answers.values() for model in _models(each)]
    refs, found = models_json_schema(list(dict.fromkeys(wanted)), ref_template=REF)
    by_model: Any = {model: _with_published_refs(ref) for model, ref in refs.items()}
    definitions = {
        _PUBLISHED_NAMES.get(name, name): _with_published_refs(each) for name, each in found.get("$defs", {}).items()
    }
    return _Schemas(by_model, definitions)


def _with_published_refs(node: Any) -> Any:
    if isinstance(node, str) and node.startswith(_REF_PREFIX):
        name = node.removeprefix(_REF_PREFIX)
        return REF.format(model=_PUBLISHED_NAMES.get(name, name))
    if isinstance(node, list):
        return [_with_published_refs(each) for each in node]
    if isinstance(node, dict):
        return {key: _with_published_refs(value) for key, value in node.items()}
    return node


def _complete_operation(
    operation_tree: dict[str, Any],
    doc: OperationDoc,
    refs: Refs,
) -> None:
    if doc.body is not None:
        content = {JSON: {"schema": refs[doc.body, "validation"]}}
        operation_tree["requestBody"] = {"required": needs_body(doc.body), "content": content}
    operation_tree["responses"] = {
        str(status): _answer(status, each, refs) for status, each in sorted(doc.answers.items())
    } | {str(status): _problem(status, text, refs) for status, text in sorted(list_errors(doc).items())}
    if not doc.is_public:
        operation_tree["security"] = [{"token": []}, {"session": []}]
    if doc.right is not None:
        rule = RULES[doc.right]
        operation_tree["x-remit-right"] = {
            "right": doc.right.value,
            "roles": sorted(rule.roles),
            "capability": None if doc.only_people else rule.capability,
            "any_agent": rule.any_token and not doc.only_people,
            **({"also": rule.also} if rule.also is not None else {}),
        }


def list_errors(doc: OperationDoc) -> dict[int, str]:
    """Return the errors of a route by status. A route that calls the services can return any of their refusals."""
    every = {
        **_ALWAYS,
        **({} if doc.is_public else _AUTH_ERRORS),
        **(_WITH_BODY if doc.body is not None else {}),
    }
    return {status: text for status, text in every.items() if status not in doc.answers}


def _models(each: Answers) -> tuple[type[Contract], ...]:
    if isinstance(each, str):
        return ()
    return each if isinstance(each, tuple) else (each,)


def _answer(
    status: int,
    each: Answers,
    refs: Refs,
) -> dict[str, Any]:
    if isinstance(each, str):
        content: dict[str, Any] = {each: {"schema": {"type": "string"}}}
    else:
        found = [refs[model, "serialization"] for model in _models(each)]
        content = {JSON: {"schema": found[0] if len(found) == 1 else {"anyOf": found}}}
    response: dict[str, Any] = {"description": _DESCRIPTIONS[status], "content": content}
    if status in {201, 202}:
        response["headers"] = {"Location": _header("Where to get it again.")}
    if status == 202:
        response["headers"]["Retry-After"] = _header("Seconds to wait before the next request.")
    return response


_DESCRIPTIONS: Final = {200: "Success.", 201: "Created.", 202: "Still in progress.", 503: "Not ready."}


def _problem(status: int, text: str, refs: Refs) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": text,
        "content": {MEDIA_TYPE: {"schema": refs[Problem, "serialization"]}},
    }
    if headers := _HEADERS.get(status):
        response["headers"] = {name: _header(text) for name, text in headers.items()}
    return response


def _header(text: str) -> dict[str, Any]:
    return {"description": text, "schema": {"type": "string"}}


def rendered(app: FastAPI) -> bytes:
    return json.dumps(build_document(app), ensure_ascii=False).encode()
