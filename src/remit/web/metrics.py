"""What a scrape of this server finds: its counters, how the workspace stands, and what the browser host counted.

GET /metrics: for whoever may see everything, and for whoever the guard found to be a scraper. For no agent.
"""

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.browser_daemon.socket_path import DaemonFolder
from remit.core.errors import Reason, RefusedError, RemitError
from remit.core.ids import parse_time
from remit.core.metrics import Labels
from remit.observability import gauges
from remit.observability.gauges import Gauge
from remit.observability.prometheus import SCRAPE_SECONDS, fetch_text, render
from remit.services.base.permissions import Right, require
from remit.version import __version__
from remit.web.http.authentication import CHALLENGE, identify, require_caller
from remit.web.http.problems import ResponseError
from remit.web.security.scrapers import METRICS

if TYPE_CHECKING:
    from remit.services.services import Services
    from remit.workspace.workspace import Workspace

Found = dict[Gauge, dict[Labels, float]]


def scrape(desk: "Services") -> tuple[bytes, str]:
    """The text and its content type. What cannot be looked up now is left out: the rest is told all the same."""
    workspace = desk.workspace
    found: Found = {gauges.BUILD: {(__version__,): 1.0}}
    texts = [text for text in (_host_text(workspace, found), _own_text(workspace)) if text is not None]
    pending = None
    with contextlib.suppress(RemitError):
        pending = _look_at_desk(desk, found)
    with contextlib.suppress(RemitError):
        _look_at_ledger(workspace, found)
    return render(found, texts, pending)


def _look_at_desk(desk: "Services", found: Found) -> int:
    found[gauges.SANDBOX_READY] = {(): float(desk.workspace.sandboxes.ready)}
    found[gauges.JOBS] = {("running",): float(desk.jobs.running), ("waiting",): float(desk.jobs.waiting)}
    found[gauges.LISTENERS] = {(): float(desk.events.listeners)}
    now = desk.workspace.clock()
    open_questions = desk.inbox.count_open()
    found[gauges.QUESTIONS] = {(kind,): float(count) for kind, (count, _) in open_questions.items()}
    found[gauges.OLDEST] = {
        (kind,): (now - parse_time(oldest)).total_seconds() if oldest else 0.0
        for kind, (_, oldest) in open_questions.items()
    }
    return open_questions["request"][0]


def _look_at_ledger(workspace: "Workspace", found: Found) -> None:
    with workspace.store.reading() as connection:
        chains = gauges.read_chains(connection)
    found[gauges.CHAINS] = {(): float(chains.count)}
    found[gauges.LENGTH] = {(): float(chains.entries)}
    if chains.newest_head is not None:
        age = (workspace.clock() - parse_time(chains.newest_head)).total_seconds()
        found[gauges.HEAD_AGE] = {(): max(age, 0.0)}


def _host_text(workspace: "Workspace", found: Found) -> str | None:
    text = None
    with contextlib.suppress(RemitError, OSError):
        connection = DaemonFolder.of(workspace.state).connect(SCRAPE_SECONDS)
        if connection is not None:
            with connection:
                text = fetch_text(connection)
    found[gauges.HOST_UP] = {(): float(text is not None)}
    return text


def _own_text(workspace: "Workspace") -> str | None:
    """Goals use a browser of this very process. If none did, there is nothing to tell."""
    if "browser_service" not in vars(workspace):
        return None
    with contextlib.suppress(RemitError):
        return workspace.browser_service.metrics.render().decode()
    return None


if TYPE_CHECKING:
    from remit.services.services import Services

FRESH_SECONDS: Final = 1.0
"""Whoever asks more often gets the same text again."""


class MetricsReader:
    """Made by one caller at a time, however many ask."""

    def __init__(self, desk: "Services") -> None:
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
        raise ResponseError(
            RefusedError(
                Reason.PERMISSION_DENIED,
                "it is not known who asks",
                where="header Authorization",
                next_step="A scraper sends the secret of `web.metrics.secret_file`; a person logs in (remit serve).",
            ),
            401,
            CHALLENGE,
        )
    require(require_caller(request), Right.SEE)


def metrics_router(desk: "Services") -> APIRouter:
    router = APIRouter()
    metrics = MetricsReader(desk)

    @router.get(METRICS, include_in_schema=False)
    def read_metrics(request: Request) -> Response:
        if not getattr(request.state, "scraper", False):
            _require_person(request)
        body, media_type = metrics.read()
        return Response(body, headers={"Content-Type": media_type, "Cache-Control": "no-store"})

    return router
