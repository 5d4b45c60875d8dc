"""One request of the API, with its body, its caller and its waiting time, and the responses.

Only `Contract.parse` turns a body into a model. It refuses unknown fields, too much data, and a repeated key.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from urllib.parse import quote

from fastapi import Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from remit.contracts.base import Contract
from remit.core.errors import Reason, RefusedError
from remit.identity.callers import Caller
from remit.services.base.fair_share import FairShareQuota
from remit.services.base.permissions import Right, require
from remit.web.http.authentication import require_caller
from remit.web.http.idempotency import IdempotencyKeys
from remit.web.http.problems import RETRY_AFTER, ResponseError, build_http_error

if TYPE_CHECKING:
    from remit.services.services import Services

C = TypeVar("C", bound=Contract)

JSON: Final = "application/json"
DEFAULT_WAIT: Final = 1.0
"""Seconds that a request waits if the caller names no time. Most work is done by then. The rest is polled by its id."""
LONGEST_WAIT: Final = 30.0

PathId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x20\x7f/\\]([^\x00-\x1f\x7f/\\]*[^\x00-\x20\x7f/\\])?$",
        description="The id of the object.",
    ),
]
"""An id in a path: printable and without separators. It is only looked up, and never used as a file name."""

Cursor = Annotated[str | None, Query(min_length=1, max_length=1_000, description="`next` of the previous page.")]
Limit = Annotated[int, Query(ge=1, le=200, description="The largest number of objects on the page.")]

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_WAIT: Final = re.compile(r"wait\s*=\s*\"?([0-9]{1,9})\"?")
# A browser sends the last one for the event stream.
_ACCEPTED: Final = frozenset(
    {
        JSON,
        "application/*",
        "*/*",
        "application/problem+json",
        "application/x-ndjson",
        "image/*",
        "image/png",
        "text/event-stream",
    }
)


class APIRequest:
    """One request of an authenticated caller, on its way to the services."""

    def __init__(self, request: Request, raw: bytes = b"") -> None:
        self.request = request
        self.raw = raw

    @property
    def services(self) -> "Services":
        services: Services = self.request.app.state.services
        return services

    @property
    def caller(self) -> Caller:
        return require_caller(self.request)

    @property
    def key(self) -> str | None:
        """The value of the header Idempotency-Key. None without the header."""
        value = self.request.headers.get("idempotency-key")
        if value is None or _KEY.fullmatch(value):
            return value
        raise RefusedError(
            Reason.MALFORMED,
            "an idempotency key has 1 to 200 visible ASCII characters",
            where="header Idempotency-Key",
            next_step="Use a UUID.",
        )

    def require_same_body(self) -> None:
        """Refuse a key that was used before with another body."""
        if self.key is not None:
            self._keys.require_same(self.caller.id, self.request.scope["route"].name, self.key, self.raw)

    def run_once(self, right: Right, make: Callable[[], Response], *, is_secret: bool = False) -> Response:
        """Run `make` once for a key, if the caller has the right. For requests whose result has no id of its own.

        A secret answer is not stored. A repetition is refused, and the refusal says that the request was carried out.
        """
        if self.key is None:
            return make()
        require(self.caller, right)
        name = self.request.scope["route"].name
        return self._keys.run_once(self.caller.id, name, self.key, self.raw, make, is_secret=is_secret)

    @property
    def _keys(self) -> IdempotencyKeys:
        keys: IdempotencyKeys = self.request.app.state.keys
        return keys

    def parse(self, model: type[C]) -> C:
        """Return the body as a model. A refusal lists the fields of the model, and no command of a terminal.

        If the model has no required field, a missing body is an empty object.
        """
        if not self.raw and not needs_body(model):
            self.raw = b"{}"
        try:
            return model.parse(self.raw, source="body")
        except RefusedError as problem:
            fields = ", ".join(model.model_fields)
            advice = f"The body is a JSON object with: {fields}." if fields else "Send no body, or {}."
            advice = f"{advice} /v1/openapi.json says more ({model.__name__})."
            raise RefusedError(problem.reason, problem.what, where=problem.where, next_step=advice) from None

    @contextmanager
    def waiting(self) -> Iterator[float]:
        """Yield the seconds that this caller may wait: the preferred time, or 0 if too many requests wait already."""
        seconds = parse_wait(self.request.headers.getlist("prefer"))
        quota: FairShareQuota = self.request.app.state.waiting
        caller = self.caller
        if seconds <= 0 or not quota.acquire(caller):
            yield 0.0
            return
        try:
            yield seconds
        finally:
            quota.release(caller)


async def _read_request(request: Request) -> APIRequest:
    require_caller(request)
    _require_plain_query(request)
    _require_accepted(request)
    return APIRequest(request)


async def _read_request_with_body(request: Request) -> APIRequest:
    """Read a request with its body. The body of an unauthenticated request is not read."""
    require_caller(request)
    _require_plain_query(request)
    _require_accepted(request)
    media, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    raw = await request.body()
    is_empty = not raw and "content-type" not in request.headers
    if not is_empty and (media.strip().lower() != JSON or charset not in {"", "utf-8"}):
        raise ResponseError(build_http_error(415, "header Content-Type"), 415)
    return APIRequest(request, raw)


RequestDep = Annotated[APIRequest, Depends(_read_request)]
BodyRequestDep = Annotated[APIRequest, Depends(_read_request_with_body)]


def needs_body(model: type[Contract]) -> bool:
    """Whether the model has a required field."""
    return any(field.is_required() for field in model.model_fields.values())


def json_response(model: Contract, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with the JSON of a model. The model is already valid and is not validated a second time."""
    return Response(model.__pydantic_serializer__.to_json(model, by_alias=True), status, dict(headers or {}), JSON)


def accepted_response(model: Contract, follow: str) -> Response:
    """Return a 202 response: the work is running. `follow` is the address of its status. It may be empty; then the
    caller sends the same request again.
    """
    headers = {"Location": follow} if follow else {}
    return json_response(model, 202, {**headers, "Retry-After": RETRY_AFTER})


def location(folder: str, identifier: str) -> str:
    """Return the address of one object. Empty for an id that cannot be a part of a path."""
    if "/" in identifier or "\\" in identifier or identifier in {".", ".."} or identifier != identifier.strip():
        return ""
    return f"{folder}/{quote(identifier, safe='')}"


def parse_wait(preferences: list[str]) -> float:
    """Return the seconds of `wait=10`, and 0 for `respond-async`. Other preferences are ignored, as RFC 7240 says."""
    seconds = DEFAULT_WAIT
    for preference in ",".join(preferences).lower().split(","):
        if match := _WAIT.fullmatch(preference.strip()):
            return min(float(match[1]), LONGEST_WAIT)
        if preference.strip() == "respond-async":
            seconds = 0.0
    return seconds


def _require_accepted(request: Request) -> None:
    given = request.headers.get("accept")
    if given and not any(part.partition(";")[0].strip().lower() in _ACCEPTED for part in given.split(",")):
        raise ResponseError(build_http_error(406, "header Accept"), 406)


def _require_plain_query(request: Request) -> None:
    """Refuse a repeated and an unknown parameter. Otherwise a typing error would switch a filter off."""
    if not request.scope["query_string"]:
        return
    known = list_parameters(request.scope.get("route"))
    seen = set[str]()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            raise RefusedError(
                Reason.MALFORMED,
                "the query has an unknown parameter",
                where=f"query {name}",
                next_step=f"This address has the parameters: {', '.join(sorted(known)) or 'none'}.",
            )
        if name in seen:
            raise RefusedError(
                Reason.MALFORMED, "a parameter is given twice", where=f"query {name}", next_step="Give it once."
            )
        seen.add(name)


def list_parameters(route: Any) -> frozenset[str]:
    found = getattr(getattr(route, "dependant", None), "query_params", ())
    return frozenset(field.alias for field in found)
