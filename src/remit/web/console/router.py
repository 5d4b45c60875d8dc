"""The router with all routes of the console."""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.web.console import catalogue, goals, inbox, ledger, people, runs, tokens
from remit.web.console import slo as levels
from remit.web.console.assets import serve_asset
from remit.web.console.pages import ConsoleRoute, redirect_to, require_viewer
from remit.web.console.redirects import REDIRECTED_PATHS, find_page

ROUTERS: Final = tuple(module.router for module in (inbox, runs, goals, ledger, catalogue, tokens, people, levels))


def console_router() -> APIRouter:
    """Build the router of the pages and their static files. The files are public: the login page needs them too."""
    router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

    @router.get("/static/{name:path}")
    async def static(request: Request, name: str) -> Response:
        return serve_asset(request, name)

    def redirect_old_path(request: Request) -> Response:
        require_viewer(request)
        return redirect_to(find_page(request.url.path, request.query_params))

    for path in REDIRECTED_PATHS:  # before the sections, because `/runs/NAME` would match these paths
        router.add_api_route(path, redirect_old_path, methods=["GET"], name=f"back from {path}")
    for router_part in ROUTERS:
        router.include_router(router_part)
    return router
