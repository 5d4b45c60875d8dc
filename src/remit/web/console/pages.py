"""The common parts of all pages: the viewer, the sections, the notice after a form; and the error pages."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import render_time, system_clock
from remit.identity.callers import PersonCaller
from remit.services.base.permissions import Right, has_right
from remit.web.console.confirm import CONFIRMATIONS
from remit.web.console.redirects import find_page
from remit.web.console.templating import environment
from remit.web.http.authentication import get_caller
from remit.web.http.problems import ResponseError, status_of

if TYPE_CHECKING:
    from remit.services.services import Services

MOST_COUNTED: Final = 99


class ConsoleSection(NamedTuple):
    path: str
    name: str


SECTIONS: Final = (
    ConsoleSection("/inbox", "Inbox"),
    ConsoleSection("/runs", "Runs"),
    ConsoleSection("/goals", "Goals"),
    ConsoleSection("/ledger", "Ledger"),
    ConsoleSection("/catalogue", "Catalogue"),
    ConsoleSection("/tokens", "Tokens"),
    ConsoleSection("/people", "People"),
    ConsoleSection("/levels", "Service levels"),
)


class Notice(NamedTuple):
    what: str
    tone: str = "good"


# The notice after a form. Only the key is in the address, so a link cannot put text of its own on a page.
NOTICES: Final[dict[str, Notice]] = {
    "approved": Notice("Approved. The decision is recorded."),
    "denied": Notice("Denied. The decision is recorded, and nothing was done."),
    "unclear": Notice("That is not a clear yes or no. Nothing was decided, and the request is still open.", "care"),
    "answered": Notice("Your answer is recorded."),
    "not_used": Notice("That step does not wait for an answer any more. Your answer was not used for another.", "care"),
    "computed": Notice("The preview was computed again and recorded. This page shows it."),
    "applied": Notice("The plan is being applied. This page shows the progress."),
    "undone": Notice("Rolled back: the files are as they were before the run."),
    "undone_partly": Notice("Partly rolled back. The rest is listed below.", "care"),
    "withdrawn": Notice("Withdrawn. The plan cannot be approved any more."),
    "cancelled": Notice("Cancelled."),
    "revoked": Notice("Revoked. The token cannot be used any more."),
    "promoted": Notice("Promoted. Users of that tenant can request it now."),
    "retired": Notice("Retired. Users can no longer request it."),
    "ended": Notice("Your session has ended, so your request was not carried out. Log in and send it again.", "care"),
    "removed": Notice("Removed. All sessions of that person have ended."),
}

_HEADINGS: Final[dict[int, str]] = {
    400: "Invalid request",
    401: "Please log in",
    403: "Not allowed",
    404: "Not found",
    405: "Not found",
    409: "Changed meanwhile",
    413: "Request too large",
    422: "Cannot be done",
    429: "Too many requests",
    500: "Internal error in Remit",
    503: "Not available now",
}


@dataclass(frozen=True, slots=True)
class Viewer:
    """The logged-in person who opens a page."""

    caller: PersonCaller
    csrf: str
    workspace: str
    waiting: int = 0

    @property
    def name(self) -> str:
        return self.caller.person.name or self.caller.person.id

    @property
    def role(self) -> str:
        return self.caller.role

    def has_right(self, right: str) -> bool:
        """Whether to show a button. The services check the permission in any case."""
        return has_right(self.caller, Right(right))


class LoginNeededError(Exception):
    """The request has no valid session."""


def get_services(request: Request) -> "Services":
    services: Services = request.app.state.services
    return services


def require_viewer(request: Request) -> Viewer:
    """Return the logged-in person. An agent's token opens no page: the console is where people decide."""
    caller = get_caller(request)
    if caller is None:
        raise LoginNeededError
    if not isinstance(caller, PersonCaller):
        raise RefusedError(
            Reason.PERMISSION_DENIED,
            "the console is for people, and this is an agent's token",
            where="header Authorization",
            next_step="Agents use the routes below /v1, or /mcp.",
        )
    services = get_services(request)
    viewer = Viewer(caller, request.state.csrf or "", services.workspace.root.name)
    request.state.viewer = viewer  # an error page shows the sections too
    waiting = min(len(services.inbox.list_open(caller)), MOST_COUNTED)
    viewer = Viewer(caller, viewer.csrf, viewer.workspace, waiting)
    request.state.viewer = viewer
    return viewer


def get_time(request: Request) -> datetime:
    services = getattr(request.app.state, "services", None)
    return services.workspace.clock() if services is not None else system_clock()


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Render one page. `viewer` is None if no person is logged in; `here` names the section."""
    now = get_time(request)
    shared: dict[str, Any] = {
        "viewer": getattr(request.state, "viewer", None),
        "bare": False,
        "sections": SECTIONS,
        "here": "",
        "now": now,
        "now_text": render_time(now),
        "said": NOTICES.get(request.query_params.get("said", "")),
        "problem": None,
        "settings_problem": _settings_problem(request),
        "settings_left": _settings_left(request),
        "confirms": CONFIRMATIONS,
        "own_page": find_page(request.url.path, request.query_params),
    }
    text = environment().get_template(template).render({**shared, **context})
    return HTMLResponse(text, status, {"Cache-Control": "no-store"})


def _settings_problem(request: Request) -> RemitError | None:
    """Return why the configuration cannot be read. Every page shows it to logged-in people."""
    read = getattr(request.app.state, "settings_read", None)
    if read is None or getattr(request.state, "viewer", None) is None:
        return None
    found: RemitError | None = read.problem()
    return found


def _settings_left(request: Request) -> tuple[str, ...]:
    """Return the changed settings that need a restart, for logged-in people."""
    read = getattr(request.app.state, "settings_read", None)
    if read is None or getattr(request.state, "viewer", None) is None:
        return ()
    found: tuple[str, ...] = read.pending_restart()
    return found


def error_page(request: Request, status: int, problem: RemitError, retry_after: str | None = None) -> HTMLResponse:
    heading = _HEADINGS.get(status) or HTTPStatus(status).phrase
    caller = getattr(request.state, "caller", None)
    if getattr(request.state, "viewer", None) is None and isinstance(caller, PersonCaller):
        # An error page reads nothing from the store.
        request.state.viewer = Viewer(caller, getattr(request.state, "csrf", None) or "", "")
    answer = page(request, "error.html", status, heading=heading, code=status, error=problem)
    if retry_after is not None:
        answer.headers["Retry-After"] = retry_after
    return answer


def wants_page(request: Request) -> bool:
    """Whether the client is a browser that shows a page, and not a program."""
    programs = ("/v1/", "/mcp", "/metrics", "/healthz", "/readyz", "/static/")
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith(programs)


def redirect_to(path: str) -> RedirectResponse:
    """Answer a form with 303, so that a reload or the back button sends nothing twice."""
    return RedirectResponse(path, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})


def _login_path(request: Request) -> str:
    """Return the address of the login, with the page to open afterwards. The fields of a form are not kept."""
    if request.method == "GET":
        path, notice = request.url.path + (f"?{request.url.query}" if request.url.query else ""), ""
    else:
        path, notice = find_page(request.url.path, request.query_params), "ended" if request.cookies else ""
    parameters = {"next": path if path != "/" else "", "said": notice}
    query = "&".join(f"{name}={quote(value)}" for name, value in parameters.items() if value)
    return f"/login?{query}" if query else "/login"


class ConsoleRoute(APIRoute):
    """A route whose errors are pages. It redirects a request without a session to the login."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except LoginNeededError:
                return redirect_to(_login_path(request))
            except ResponseError as problem:
                retry = (problem.headers or {}).get("Retry-After")
                return error_page(request, problem.status, problem.error, retry)
            except RemitError as problem:
                is_ours = request.app.state.settings_read.is_about(problem)
                return error_page(request, 503 if is_ours else status_of(problem), problem)

        return handled
