"""GET /metrics: for whoever may see everything, and for whoever the guard found to be a scraper. For no agent."""

import threading
import time
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.core.errors import Reason, Refused
from remit.services.base.permissions import Right, require
from remit.web.http.authentication import CHALLENGE, demand_caller, identify
from remit.web.http.problems import Answered
from remit.web.metrics_scrape import scrape
from remit.web.security.scrapers import METRICS

if TYPE_CHECKING:
    from remit.services.services import Desk

FRESH_SECONDS: Final = 1.0
"""Whoever asks more often gets the same text again."""


class Metrics:
    """Made by one caller at a time, however many ask."""

    def __init__(self, desk: "Desk") -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._made_at = float("-inf")
        self._made = b"", ""

    def read(self) -> tuple[bytes, str]:
        with self._lock:
            if time.monotonic() - self._made_at > FRESH_SECONDS:
                self._made = scrape(self._desk)
                self._made_at = time.monotonic()
            return self._made


def _require_person(request: Request) -> None:
    if identify(request) is None:
        raise Answered(
            Refused(
                Reason.PERMISSION_DENIED,
                "it is not known who asks",
                where="header Authorization",
                next_step="A scraper sends the secret of `web.metrics.secret_file`; a person logs in (remit serve).",
            ),
            401,
            CHALLENGE,
        )
    require(demand_caller(request), Right.SEE)


def metrics_router(desk: "Desk") -> APIRouter:
    router = APIRouter()
    metrics = Metrics(desk)

    @router.get(METRICS, include_in_schema=False)
    def read_metrics(request: Request) -> Response:
        if not getattr(request.state, "scraper", False):
            _require_person(request)
        body, media_type = metrics.read()
        return Response(body, headers={"Content-Type": media_type, "Cache-Control": "no-store"})

    return router
