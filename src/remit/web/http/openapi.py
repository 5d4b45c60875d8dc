"""What the API says of itself: every route with its right, its models, and every answer that it can give.

Bodies are not parsed by FastAPI but by the contracts themselves, so the contracts are put into the document here.
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
"""Where two models have one name, pydantic names them after their modules. Generated clients know those names:
a model keeps the one that it was published under when its module moves."""
DESCRIPTION: Final = (
    "Agents come with a capability token (`Authorization: Bearer`), people with the cookie of a login and, for what"
    " changes something, the header `X-Remit-CSRF`. Every error is problem+json: `code` is one of Remit's reasons,"
    " `what`, `where` and `next_step` say the rest. Work that takes long answers 202 with a `Location` to follow;"
    " `Prefer: wait=N` says how many seconds to wait for it."
)


class Problem(Contract):
    """What was wrong, where, and what to do next (RFC 9457)."""

    type: ShortText = Field(description="The reason as a URN.")
    title: ShortText = Field(description="What this reason means.")
    status: int = Field(ge=400, le=599)
    detail: Text = Field(description="What, where and the next step in one text.")
    instance: ShortText | None = Field(description="The request, as the logs name it.")
    code: ShortText = Field(description="One of Remit's reasons; the reference page of errors lists them.")
    what: Text
    where: Text
    next_step: Text
    answer: JsonObject | None = Field(default=None, description="What the road had to say, where it got that far.")


_ALWAYS: Final = {
    400: "The request is not as it must be.",
    401: "Who asks is not known, or no longer believed.",
    403: "This caller may not do that.",
    405: "This address does not take this method.",
    421: "The request is for a host that this server is not.",
    429: "Too much was asked in too short a time.",
    500: "A bug.",
    503: "The machine is not fit for it now.",
}
_AUTH_ERRORS: Final = {
    404: "There is no such thing, or none of this caller's.",
    406: "It cannot be had in the form that was asked for.",
    409: "It is not as the request takes it to be.",
    422: "It was understood, and cannot be done.",
}
_WITH_BODY: Final = {
    408: "The body did not come in time.",
    413: "The body is larger than is read.",
    415: "The body is not said to be JSON.",
}
_HEADERS: Final = {
    401: {"WWW-Authenticate": "How to show who asks."},
    429: {"Retry-After": "Seconds to wait."},
}


Answers = type[Contract] | tuple[type[Contract], ...] | str


@dataclass(frozen=True, slots=True)
class OperationDoc:
    """What the document says of one operation, beyond its address and its parameters."""

    right: Right | None
    body: type[Contract] | None = None
    answers: Mapping[int, Answers] = field(default_factory=dict)
    """By status: a model, several of them (for a person, for an agent), or the media type of what is no JSON."""
    is_public: bool = False


_OPERATION_DOCS: Final[dict[str, OperationDoc]] = {}


def operation(
    name: str,
    summary: str,
    *,
    right: Right | None = None,
    body: type[Contract] | None = None,
    answers: Mapping[int, Answers],
    public: bool = False,
) -> dict[str, Any]:
    """The arguments with which a route is added. `right` is what its caller needs at least; None: any credential."""
    _OPERATION_DOCS[name] = OperationDoc(right, body, answers, public)
    return {"operation_id": name, "summary": summary, "response_class": Response, "response_model": None}


def operation_doc_of(route: APIRoute) -> OperationDoc:
    return _OPERATION_DOCS[route.operation_id or ""]


def build_document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI 3.1 document of everything under /v1, and of the two addresses that tell how the server is."""
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
            "capability": rule.capability,
            "any_agent": rule.any_token,
        }


def list_errors(doc: OperationDoc) -> dict[int, str]:
    """What can be wrong with it. Whatever asks the desk may hear any of its refusals."""
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
        response["headers"] = {"Location": _header("Where it can be asked for again.")}
    if status == 202:
        response["headers"]["Retry-After"] = _header("Seconds to wait before asking.")
    return response


_DESCRIPTIONS: Final = {200: "Done, or as it is now.", 201: "Made.", 202: "It goes on.", 503: "Not ready."}


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
