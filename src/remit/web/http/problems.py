"""Errors as `application/problem+json` (RFC 9457), and the one table of what status each reason has.

Whoever asks for what is not there, or not his, gets the same 404: an answer does not tell what others have.

A parameter of the path or the query that is not as documented, as an answer. What was sent is not repeated.
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

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = "1"
"""Seconds, where nobody knows better."""
_LOG: Final = logging.getLogger("remit.web.problems")


ErrorPage = Callable[[Request, int, RemitError, dict[str, str]], Response]


class Statuses(NamedTuple):
    """Of a refusal, where the request was at fault; and of a failure, where the machine was."""

    refused: int
    failed: int = 500


STATUSES: Final[dict[Reason, Statuses]] = {
    # The request cannot be read.
    Reason.MALFORMED: Statuses(400),
    Reason.TOO_DEEP: Statuses(400),
    Reason.AUTHORITY_MALFORMED: Statuses(400),
    Reason.MISUSE: Statuses(400),
    Reason.TOO_LARGE: Statuses(413),
    # The caller is not authenticated.
    Reason.AUTHENTICATION_REQUIRED: Statuses(401),
    # Nobody lets this caller do that.
    Reason.SIGNATURE_INVALID: Statuses(403),
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
    # There is no such thing.
    Reason.STATE_MISSING: Statuses(404, 503),
    Reason.SIMULATION_UNKNOWN: Statuses(404),
    # It is not as the request takes it to be.
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
    # It was understood, and cannot be done.
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
    # There is too much of it now.
    Reason.RESOURCE_EXHAUSTED: Statuses(429, 503),
    # The machine is not fit for it now; the same request may succeed later.
    Reason.STATE_UNSAFE: Statuses(503, 503),
    Reason.STORE_UNAVAILABLE: Statuses(503, 503),
    Reason.STORE_OUTDATED: Statuses(503, 503),
    Reason.DISK_FULL: Statuses(503, 503),
    Reason.SANDBOX_UNAVAILABLE: Statuses(503, 503),
    Reason.INTERNAL: Statuses(500),
}

# What HTTP itself says no to, before any of our own rules is asked.
_HTTP_REASONS: Final[dict[int, tuple[Reason, str, str]]] = {
    404: (Reason.STATE_MISSING, "there is nothing at this address", "See /v1/openapi.json for what there is."),
    405: (Reason.MALFORMED, "this address does not take this method", "The header Allow names those that it takes."),
    406: (Reason.MALFORMED, "it cannot be had in the form that was asked for", "Accept application/json."),
    413: (Reason.TOO_LARGE, "the body is larger than is read", "Send less at once."),
    415: (Reason.MALFORMED, "the body is not said to be JSON", "Send it with Content-Type: application/json."),
}


def status_of(error: RemitError) -> int:
    statuses = STATUSES[error.reason]
    return statuses.failed if isinstance(error, EnvironmentFailureError) else statuses.refused


def problem_tree(error: RemitError, status: int, request_id: str | None) -> dict[str, Any]:
    """The members of a problem document; the texts were masked as the error was made."""
    return {
        "type": f"urn:remit:reason:{error.reason.value}",
        "title": MEANING[error.reason],
        "status": status,
        "detail": str(error),
        "instance": f"urn:remit:request:{request_id}" if request_id else None,
        "code": error.reason.value,
        "what": error.what,
        "where": error.where,
        "next_step": error.next_step,
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
    """The answer that tells this error. `status` where HTTP knows better than the reason, as for 401 and 429."""
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
    """Errors for people: a page, where their browser asks for one."""
    app.state.error_page = (page, wants_page)


def _find_error_page(request: Request) -> ErrorPage | None:
    page, wants_page = getattr(request.app.state, "error_page", None) or (None, None)
    return page if wants_page is not None and wants_page(request) else None


def refused_response(request: Request, problem: ErrorTold, found: Contract) -> Response:
    """What the road said no to, with the whole answer: a refusal is signed too."""
    error = RefusedError(Reason(problem.code), problem.what, where=problem.where, next_step=problem.next_step)
    return respond(request, error, answer=found.tree())


def build_http_error(status: int, where: str = "") -> RemitError:
    """What HTTP itself refuses, in our words."""
    reason, what, next_step = _HTTP_REASONS.get(
        status, (Reason.MALFORMED, HTTPStatus(status).phrase.lower(), "See /v1/openapi.json for what can be asked.")
    )
    return RefusedError(reason, what, where=where, next_step=next_step)


class ResponseError(Exception):
    """An error whose status or headers HTTP knows better than the table, raised from anywhere in a request."""

    def __init__(self, error: RemitError, status: int, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(error.what)
        self.error = error
        self.status = status
        self.headers = headers
        self.more = more


def handle_errors(app: Starlette) -> None:
    """Whatever a route or the router raises leaves as a problem document."""
    app.add_exception_handler(RemitError, _answer_remit_error)
    app.add_exception_handler(ResponseError, _answer_response_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_unexpected)


async def _answer_remit_error(request: Request, error: Exception) -> Response:
    return respond(request, as_remit_error(error))


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
        f"a parameter is not as it must be: {first.get('msg', '')}",
        where=where,
        next_step="See /v1/openapi.json for what can be asked.",
    )
    return respond(request, error, 400)
