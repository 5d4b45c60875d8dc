"""All routers of the API, in the order of the OpenAPI document."""

from fastapi import APIRouter

from remit.web.api import browser, catalogue, events, goals, inbox, ledger, me, people, plans, runs, tasks, tokens
from remit.web.api.health import health_router


def api_routers() -> list[APIRouter]:
    parts = (me, tasks, plans, runs, browser, goals, inbox, tokens, ledger, catalogue, people, events)
    return [*(part.router for part in parts), health_router()]
