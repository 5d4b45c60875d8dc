"""The routes for login and logout: by a link that works once, or through an identity provider.

The code of a link comes after the `#`, and browsers do not send that part. So neither opening a link nor previewing it
uses up the code, and no log contains it. A script of the page puts the code into the form, and the button sends it.
"""

import re
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from remit.core.errors import RefusedError, RemitError
from remit.identity.callers import PersonCaller
from remit.identity.models import NewSession
from remit.web.config.hosts import Addresses
from remit.web.config.settings import WebSettings
from remit.web.console.pages import page
from remit.web.http.authentication import cookie_value, get_caller, set_cookie
from remit.web.http.request_body import form_field
from remit.web.login.oidc import Provider
from remit.workspace.workspace import Workspace

CALLBACK: Final = "/login/oidc/callback"
HOME: Final = "/"
_STATE_COOKIE: Final = "remit_login"
_STATE_SECONDS: Final = 600
_PATH: Final = re.compile(r"/(?![/\\])[!-\[\]-~]{0,2000}")


def local_path(text: str | None) -> str:
    """Return the path to open after the login. It is always a path of this server, never another site."""
    return text if text and _PATH.fullmatch(text) and not text.startswith(("/login", "/logout")) else HOME


def login_router(workspace: Workspace, settings: WebSettings) -> APIRouter:
    """Return the routes /login, /logout and, if a provider is configured, /login/oidc. The API schema omits them."""
    return _LoginPages(workspace, settings).router()


class _LoginPages:
    def __init__(self, workspace: Workspace, settings: WebSettings) -> None:
        self._workspace = workspace
        self._addresses = Addresses.of(settings)
        config = settings.config
        self._session_seconds = {
            "life": timedelta(hours=config.session_hours),
            "idle": timedelta(minutes=config.idle_minutes),
        }
        self._provider: Provider | None = None
        if config.oidc is not None:
            self._provider = Provider(config.oidc, workspace.environ, settings.url + CALLBACK)
        # A session whose role came from another table of roles must end, so that this table decides again.
        workspace.people.end_other_basis("oidc", self._provider.basis if self._provider else "")
        prefix = "__Host-" if self._addresses.is_secure else ""
        self._state_cookie = prefix + _STATE_COOKIE

    def router(self) -> APIRouter:
        router = APIRouter(include_in_schema=False)
        router.add_api_route("/login", self.show, methods=["GET"])
        router.add_api_route("/login", self.redeem, methods=["POST"])
        router.add_api_route("/logout", self.leave, methods=["POST"])
        if self._provider is not None:
            router.add_api_route("/login/oidc", self.begin, methods=["GET"])
            router.add_api_route(CALLBACK, self.finish, methods=["GET"])
        return router

    def show(self, request: Request) -> HTMLResponse:
        return self._page(request, local_path(request.query_params.get("next")))

    async def redeem(self, request: Request) -> Response:
        body = await request.body()
        code = (form_field(request.headers, body, "code") or "").strip()
        goal = local_path(form_field(request.headers, body, "next"))
        try:
            session = await run_in_threadpool(self._workspace.people.redeem, code, **self._session_seconds)
        except RefusedError as problem:
            request.app.state.guard.note_failed_login(request.scope)
            return self._page(request, goal, problem, HTTPStatus.FORBIDDEN)
        await run_in_threadpool(self._end_present, request)
        return self._log_in(RedirectResponse(goal, HTTPStatus.SEE_OTHER), session)

    def leave(self, request: Request) -> Response:
        self._end_present(request)
        answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        self._put_cookie(answer, self._addresses.session_cookie, "", 0)
        return answer

    def begin(self, request: Request) -> Response:
        assert self._provider is not None  # noqa: S101 - without a provider there is no such route
        try:
            started = self._provider.begin(local_path(request.query_params.get("next")))
        except RemitError as problem:
            return self._page(request, HOME, problem, HTTPStatus.BAD_GATEWAY)
        answer = RedirectResponse(started.url, HTTPStatus.SEE_OTHER)
        # Lax: the provider sends the browser back from another site, and the browser must send this cookie then.
        self._put_cookie(answer, self._state_cookie, started.browser_secret, _STATE_SECONDS, same_site="Lax")
        return answer

    def finish(self, request: Request) -> Response:
        assert self._provider is not None  # noqa: S101 - as above
        secret = cookie_value(request.headers, self._state_cookie)
        answer: Response
        try:
            result = self._provider.finish(dict(request.query_params), secret)
            session = self._workspace.people.admit(
                result.person,
                result.role,
                user=result.user,
                tenant=result.tenant,
                basis=self._provider.basis,
                **self._session_seconds,
            )
        except RemitError as problem:
            # Not counted as a failed login: any site can send a browser here, and could lock its user out that way.
            # There is no secret to guess.
            answer = self._page(request, HOME, problem, HTTPStatus.FORBIDDEN)
        else:
            self._end_present(request)
            # Not a redirect: the browser would treat it as a part of the provider's navigation, and would not send the
            # new cookie.
            answer = self._log_in(page(request, "login_done.html", bare=True, goal=result.goal), session)
        self._put_cookie(answer, self._state_cookie, "", 0, same_site="Lax")
        return answer

    def _page(
        self, request: Request, goal: str, problem: RemitError | None = None, status: int = HTTPStatus.OK
    ) -> HTMLResponse:
        caller = get_caller(request)
        return page(
            request,
            "login.html",
            status,
            bare=True,
            goal=goal,
            goal_query="" if goal == HOME else "?next=" + quote(goal, safe=""),
            provider=self._provider.name if self._provider else None,
            logged_in=caller.person.signature if isinstance(caller, PersonCaller) else None,
            csrf=request.state.csrf,
            problem=problem,
        )

    def _log_in(self, answer: Response, session: NewSession) -> Response:
        self._put_cookie(
            answer, self._addresses.session_cookie, session.cookie, int(self._session_seconds["life"].total_seconds())
        )
        return answer

    def _end_present(self, request: Request) -> None:
        """End the session that the browser has, if any. A login never continues an old session."""
        present = cookie_value(request.headers, self._addresses.session_cookie)
        if present is not None:
            self._workspace.people.end(present)

    def _put_cookie(self, answer: Response, name: str, value: str, seconds: int, **more: Any) -> None:
        answer.headers.append("set-cookie", set_cookie(name, value, seconds, secure=self._addresses.is_secure, **more))
