"""Errors as `application/problem+json` (RFC 9457), and the table of the status of each reason.

A missing object and the object of another caller get the same 404, so an answer does not show what others have.

An invalid parameter of the path or the query is refused here too. The answer does not repeat the sent value.
"""

import json
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from remit.contracts.base import Contract
from remit.contracts.services.common import ErrorTold
from remit.core.errors import MEANING, EnvironmentFailureError, Reason, RefusedError, RemitError, as_remit_error
from remit.services.plans.error_responses import error_responses

_ABOUT_PLANS: Final = ("/v1/plans", "/v1/runs", "/v1/inbox/plan")
MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = "1"
"""Seconds, unless the answer sets another value."""
_LOG: Final = logging.getLogger("remit.web.problems")


ErrorPage = Callable[[Request, int, RemitError, dict[str, str]], Response]


class Statuses(NamedTuple):
    """The status of a refusal, which the request caused, and of a failure, which the machine caused."""

    refused: int
    failed: int = 500


STATUSES: Final[dict[Reason, Statuses]] = {
    # The request is malformed.
    Reason.MALFORMED: Statuses(400),
    Reason.TOO_DEEP: Statuses(400),
    Reason.AUTHORITY_MALFORMED: Statuses(400),
    Reason.MISUSE: Statuses(400),
    Reason.ARGUMENT_INVALID: Statuses(400),
    Reason.TOO_LARGE: Statuses(413),
    # The caller is not authenticated.
    Reason.AUTHENTICATION_REQUIRED: Statuses(401),
    # The caller has no permission for that.
    Reason.SIGNATURE_INVALID: Statuses(403),
    Reason.ID_TOKEN_INVALID: Statuses(403),
    Reason.KEY_UNKNOWN: Statuses(403),
    Reason.KEY_RETIRED: Statuses(403),
    Reason.BINDING_MISMATCH: Statuses(403),
    Reason.EXPIRED: Statuses(403),
    Reason.NOT_YET_VALID: Statuses(403),
    Reason.REVOKED: Statuses(403),
    Reason.CAPABILITY_MISSING: Statuses(403),
    Reason.CONSTRAINT_VIOLATED: Statuses(403),
    Reason.PERMISSION_DENIED: Statuses(403),
    Reason.APPROVAL_DENIED: Statuses(403),
    Reason.ACCESS_DENIED: Statuses(403),
    Reason.ACCESS_NEEDS_APPROVAL: Statuses(403),
    Reason.IRREVERSIBLE: Statuses(403),
    Reason.PATH_REFUSED: Statuses(403),
    Reason.PROTECTED: Statuses(403),
    Reason.CONTENT_REFUSED: Statuses(403),
    Reason.EXECUTABLE_REFUSED: Statuses(403),
    Reason.CONFIRMATION_MISSING: Statuses(403),
    # The object does not exist.
    Reason.STATE_MISSING: Statuses(404, 503),
    Reason.SIMULATION_UNKNOWN: Statuses(404),
    # The state is not the one that the request requires.
    Reason.FILE_CONFLICT: Statuses(409),
    Reason.IDEMPOTENCY_CONFLICT: Statuses(409),
    Reason.IN_PROGRESS: Statuses(409, 503),
    Reason.TRANSITION_INVALID: Statuses(409),
    Reason.HASH_MISMATCH: Statuses(409),
    Reason.DRIFTED: Statuses(409),
    Reason.GOAL_CONFLICT: Statuses(409),
    Reason.SIMULATION_INACTIVE: Statuses(409),
    Reason.PAGE_CHANGED: Statuses(409),
    Reason.DATABASE_BUSY: Statuses(409, 503),
    Reason.CANCELLED: Statuses(409, 503),
    Reason.FATE_UNKNOWN: Statuses(409),
    Reason.APPROVAL_PENDING: Statuses(409),
    Reason.APPROVAL_TIMEOUT: Statuses(409),
    Reason.ROLLBACK_EXPIRED: Statuses(409),
    Reason.ROLLBACK_IMPOSSIBLE: Statuses(409),
    # The request was understood, but cannot be carried out.
    Reason.CAPABILITY_UNSUPPORTED: Statuses(422),
    Reason.EVIDENCE_INVALID: Statuses(422),
    Reason.FILE_MISSING: Statuses(422),
    Reason.LIMIT_EXCEEDED: Statuses(422),
    Reason.DEPENDENCY_INVALID: Statuses(422),
    Reason.DEPENDENCY_FAILED: Statuses(422),
    Reason.EDIT_NO_MATCH: Statuses(422),
    Reason.EDIT_OUT_OF_RANGE: Statuses(422),
    Reason.EDIT_AMBIGUOUS: Statuses(422),
    Reason.EDIT_CONFLICT: Statuses(422),
    Reason.EDIT_UNSUPPORTED: Statuses(422),
    Reason.NOT_TEXT: Statuses(422),
    Reason.SYNTAX_BROKEN: Statuses(422),
    Reason.SCHEMA_INVALID: Statuses(422),
    Reason.SQL_REFUSED: Statuses(422),
    Reason.SQL_FAILED: Statuses(422),
    Reason.PIPELINE_FAILED: Statuses(422),
    Reason.RULE_FAILED: Statuses(422),
    Reason.TIMED_OUT: Statuses(422, 503),
    Reason.ELEMENT_MISSING: Statuses(422),
    Reason.ROLLBACK_MISSING: Statuses(422),
    Reason.REPLAY_FAILED: Statuses(422),
    Reason.BACKUP_DAMAGED: Statuses(422),
    Reason.BACKUP_MISSING: Statuses(422),
    Reason.ROLLBACK_FAILED: Statuses(422),
    Reason.EFFECT_FAILED: Statuses(422, 503),
    # There is too much work now.
    Reason.RESOURCE_EXHAUSTED: Statuses(429, 503),
    # The machine cannot do it now. The same request may succeed later.
    Reason.CONFIG_INVALID: Statuses(503, 503),
    Reason.DATABASE_UNREACHABLE: Statuses(503, 503),
    Reason.STATE_UNSAFE: Statuses(503, 503),
    Reason.STORE_UNAVAILABLE: Statuses(503, 503),
    Reason.STORE_OUTDATED: Statuses(503, 503),
    Reason.IDENTITY_PROVIDER_UNAVAILABLE: Statuses(503, 503),
    Reason.DISK_FULL: Statuses(503, 503),
    Reason.SANDBOX_UNAVAILABLE: Statuses(503, 503),
    Reason.INTERNAL: Statuses(500),
}

# Refusals of HTTP itself, before any rule of Remit applies.
_HTTP_REASONS: Final[dict[int, tuple[Reason, str, str]]] = {
    404: (Reason.STATE_MISSING, "the address does not exist", "See /v1/openapi.json for all addresses."),
    405: (Reason.MALFORMED, "this address does not support the method", "The header Allow lists those it supports."),
    406: (Reason.MALFORMED, "the requested format is not available", "Send the header `Accept: application/json`."),
    413: (Reason.TOO_LARGE, "the body is too large", "Send less at once."),
    415: (Reason.MALFORMED, "the body is not sent as JSON", "Send the header `Content-Type: application/json`."),
}


def status_of(error: RemitError) -> int:
    statuses = STATUSES[error.reason]
    return statuses.failed if isinstance(error, EnvironmentFailureError) else statuses.refused


def problem_tree(error: RemitError, status: int, request_id: str | None) -> dict[str, Any]:
    """Return the members of a problem document. The texts were masked when the error was made."""
    return {
        "type": f"urn:remit:reason:{error.reason.value}",
        "title": MEANING[error.reason],
        "status": status,
        "detail": str(error.with_changes(next_step=error.advice)),
        "instance": f"urn:remit:request:{request_id}" if request_id else None,
        "code": error.reason.value,
        "what": error.what,
        "where": error.where,
        "next_step": error.advice,
    }


def problem_body(error: RemitError, status: int, request_id: str | None, **more: Any) -> bytes:
    tree = problem_tree(error, status, request_id)
    return json.dumps({**tree, **more}, ensure_ascii=False).encode("utf-8", "replace")


def respond(
    request: Request,
    error: RemitError,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    """Return the response for an error. `status` overrides the status of the reason, as for 401 and 429."""
    read = getattr(request.app.state, "settings_read", None)
    if status is None and read is not None and isinstance(error, RefusedError) and read.is_about(error):
        status = HTTPStatus.SERVICE_UNAVAILABLE
    code = status_of(error) if status is None else status
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _LOG.error("a request failed", extra={"reason": error.reason.value, "what": error.what, "where": error.where})
    given = dict(headers or {})
    if code in {429, 503}:
        given.setdefault("Retry-After", RETRY_AFTER)
    if (page := _find_error_page(request)) is not None:
        return page(request, code, error, given)
    request_id = getattr(request.state, "request_id", None)
    return Response(problem_body(error, code, request_id, **more), code, given, MEDIA_TYPE)


def use_error_page(app: Starlette, page: ErrorPage, wants_page: Callable[[Request], bool]) -> None:
    """Answer errors with a page if the browser of a person asks for a page."""
    app.state.error_page = (page, wants_page)


def _find_error_page(request: Request) -> ErrorPage | None:
    page, wants_page = getattr(request.app.state, "error_page", None) or (None, None)
    return page if wants_page is not None and wants_page(request) else None


def refused_response(request: Request, problem: ErrorTold, found: Contract) -> Response:
    """Return the response for a refusal of the engine, with its whole answer. A refusal is signed too."""
    error = RefusedError(Reason(problem.code), problem.what, where=problem.where, next_step=problem.next_step)
    return respond(request, error, answer=found.tree(), **_plan_errors(request, error))


def build_http_error(status: int, where: str = "") -> RemitError:
    """Return the error for a status of HTTP itself."""
    reason, what, next_step = _HTTP_REASONS.get(
        status, (Reason.MALFORMED, HTTPStatus(status).phrase.lower(), "See /v1/openapi.json for all requests.")
    )
    return RefusedError(reason, what, where=where, next_step=next_step)


class ResponseError(Exception):
    """An error with its own status or headers, which can be raised anywhere in a request."""

    def __init__(self, error: RemitError, status: int, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(error.what)
        self.error = error
        self.status = status
        self.headers = headers
        self.more = more


def handle_errors(app: Starlette) -> None:
    """Answer every exception of a route or of the router with a problem document."""
    app.add_exception_handler(RemitError, _answer_remit_error)
    app.add_exception_handler(ResponseError, _answer_response_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_unexpected)


async def _answer_remit_error(request: Request, error: Exception) -> Response:
    problem = as_remit_error(error)
    return respond(request, problem, **_plan_errors(request, problem))


def _plan_errors(request: Request, problem: RemitError) -> dict[str, Any]:
    """Return the member `errors` of a refused request about plans: the errors in the format of plans."""
    if not request.url.path.startswith(_ABOUT_PLANS):
        return {}
    found = [each.tree() for each in error_responses(problem)]
    return {"errors": found} if found else {}


async def _answer_response_error(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, ResponseError)  # noqa: S101 - registered for nothing else
    return respond(request, problem.error, problem.status, problem.headers, **problem.more)


async def _answer_http_error(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)  # noqa: S101 - registered for nothing else
    return respond(request, build_http_error(problem.status_code), problem.status_code, problem.headers)


async def _answer_unexpected(request: Request, problem: Exception) -> Response:
    _LOG.error("a bug in a route", exc_info=problem)
    return respond(request, as_remit_error(problem), 500)


def handle_parameters(app: FastAPI) -> None:
    app.add_exception_handler(RequestValidationError, _refuse)


async def _refuse(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, RequestValidationError)  # noqa: S101 - registered for nothing else
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first.get("loc", ()))
    error = RefusedError(
        Reason.MALFORMED,
        f"a parameter is not valid: {first.get('msg', '')}",
        where=where,
        next_step="See /v1/openapi.json for the parameters.",
    )
    return respond(request, error, 400)
