"""A parameter of the path or the query that is not as documented, as an answer. What was sent is not repeated."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import Response

from remit.core.errors import Reason, Refused
from remit.web.http.problems import respond


def handle_parameters(app: FastAPI) -> None:
    app.add_exception_handler(RequestValidationError, _refuse)


async def _refuse(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestValidationError)  # noqa: S101 - registered for nothing else
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ()))
    error = Refused(
        Reason.MALFORMED,
        f"a parameter is not as it must be: {first.get('msg', '')}",
        where=where,
        next_step="See /v1/openapi.json for what can be asked.",
    )
    return respond(request, error, 400)
