"""The errors with which the guard refuses a request."""

from remit.core.errors import Reason, RefusedError
from remit.web.http.problems import ResponseError
from remit.web.security.rate_limit import retry_after


def unknown_host_error() -> ResponseError:
    return ResponseError(
        RefusedError(
            Reason.PERMISSION_DENIED,
            "this server does not have the host name in the request",
            where="header Host",
            next_step="Use localhost, or add the name to `web.allowed_hosts` in remit.yaml.",
        ),
        421,
    )


def cross_site_error(where: str) -> ResponseError:
    return ResponseError(
        RefusedError(
            Reason.PERMISSION_DENIED,
            "a page of another site sent this request",
            where=where,
            next_step="Open the console itself. Behind a proxy, set `web.public_url` in remit.yaml.",
        ),
        403,
    )


def missing_origin_error() -> ResponseError:
    return ResponseError(
        RefusedError(
            Reason.PERMISSION_DENIED,
            "the request has a cookie and does not say which page sent it",
            where="header Origin",
            next_step="Send Origin with the address of this server, as a browser does.",
        ),
        403,
    )


def missing_csrf_error(header: str) -> ResponseError:
    return ResponseError(
        RefusedError(
            Reason.PERMISSION_DENIED,
            "the request does not have the CSRF token of this session, so a page of another site may have sent it",
            where=f"header {header}",
            next_step="Load the page again and repeat the action. A program sends the value `csrf` of GET /v1/me.",
        ),
        403,
    )


def rate_limit_error(wait: float, subject: str) -> ResponseError:
    seconds = retry_after(wait)
    return ResponseError(
        RefusedError(
            Reason.LIMIT_EXCEEDED,
            f"too many requests: {subject}",
            next_step=f"Wait {seconds} seconds. The settings `web.limits` in remit.yaml are the limits.",
        ),
        429,
        {"Retry-After": seconds},
    )
