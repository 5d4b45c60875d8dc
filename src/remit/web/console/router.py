"""All of the console, for the app."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.web.console import catalogue, goals, inbox, ledger, levels, people, runs, tokens
from remit.web.console.assets import serve_asset
from remit.web.console.pages import ConsoleRoute


def console_router() -> APIRouter:
    """Pages for people, and the files that they are drawn with. The latter are public: a login page needs them too."""
    router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)

    @router.get("/static/{name:path}")
    async def static(request: Request, name: str) -> Response:
        return serve_asset(request, name)

    for room in (inbox, runs, goals, ledger, catalogue, tokens, people, levels):
        router.include_router(room.router)
    return router
