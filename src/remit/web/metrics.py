"""GET /metrics: the metrics of this server, of its workspace, and of the browser daemon.

People who may see everything and scrapers can read them. Agents cannot.
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
from remit.web.http.authentication import CHALLENGE, get_caller, require_caller
from remit.web.http.problems import ResponseError
from remit.web.security.scrapers import METRICS

if TYPE_CHECKING:
    from remit.services.services import Services
    from remit.workspace.workspace import Workspace

Found = dict[Gauge, dict[Labels, float]]


def scrape(services: "Services") -> tuple[bytes, str]:
    """Return the text and its content type. Values that cannot be read now are omitted."""
    workspace = services.workspace
    found: Found = {gauges.BUILD: {(__version__,): 1.0}}
    texts = [text for text in (_fetch_daemon_text(workspace, found), _render_own_text(workspace)) if text is not None]
    pending = None
    with contextlib.suppress(RemitError):
        pending = _read_inbox(services, found)
    with contextlib.suppress(RemitError):
        _read_ledger(workspace, found)
    return render(found, texts, pending)


def _read_inbox(services: "Services", found: Found) -> int:
    found[gauges.SANDBOX_READY] = {(): float(services.workspace.sandboxes.ready)}
    found[gauges.JOBS] = {("running",): float(services.jobs.running), ("waiting",): float(services.jobs.waiting)}
    found[gauges.LISTENERS] = {(): float(services.events.listeners)}
    now = services.workspace.clock()
    open_questions = services.inbox.count_open()
    found[gauges.QUESTIONS] = {(kind,): float(count) for kind, (count, _) in open_questions.items()}
    found[gauges.OLDEST] = {
        (kind,): (now - parse_time(oldest)).total_seconds() if oldest else 0.0
        for kind, (_, oldest) in open_questions.items()
    }
    return open_questions["request"][0]


def _read_ledger(workspace: "Workspace", found: Found) -> None:
    with workspace.store.reading() as connection:
        chains = gauges.read_chains(connection)
    found[gauges.CHAINS] = {(): float(chains.count)}
    found[gauges.LENGTH] = {(): float(chains.entries)}
    if chains.newest_head is not None:
        age = (workspace.clock() - parse_time(chains.newest_head)).total_seconds()
        found[gauges.HEAD_AGE] = {(): max(age, 0.0)}


def _fetch_daemon_text(workspace: "Workspace", found: Found) -> str | None:
    text = None
    with contextlib.suppress(RemitError, OSError):
        connection = DaemonFolder.of(workspace.state).connect(SCRAPE_SECONDS)
        if connection is not None:
            with connection:
                text = fetch_text(connection)
    found[gauges.HOST_UP] = {(): float(text is not None)}
    return text


def _render_own_text(workspace: "Workspace") -> str | None:
    """Return the metrics of the browser that this process uses for goals. None if no goal used it."""
    if "browser_service" not in vars(workspace):
        return None
    with contextlib.suppress(RemitError):
        return workspace.browser_service.metrics.render().decode()
    return None


if TYPE_CHECKING:
    from remit.services.services import Services

FRESH_SECONDS: Final = 1.0
"""Within this time every request gets the same text."""


class MetricsReader:
    """Reads the metrics for all requests. Only one request at a time collects them."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._lock = threading.Lock()
        self._cached_at = float("-inf")
        self._cached = b"", ""

    def read(self) -> tuple[bytes, str]:
        with self._lock:
            if time.monotonic() - self._cached_at > FRESH_SECONDS:
                self._cached = scrape(self._services)
                self._cached_at = time.monotonic()
            return self._cached


def _require_person(request: Request) -> None:
    if get_caller(request) is None:
        raise ResponseError(
            RefusedError(
                Reason.AUTHENTICATION_REQUIRED,
                "authentication is required: the request has no valid session and is not from an allowed scraper",
                where="header Authorization",
                next_step="A scraper sends the secret of `web.metrics.secret_file`. A person logs in at /login.",
            ),
            401,
            CHALLENGE,
        )
    require(require_caller(request), Right.SEE)


def metrics_router(services: "Services") -> APIRouter:
    router = APIRouter()
    metrics = MetricsReader(services)

    @router.get(METRICS, include_in_schema=False)
    def read_metrics(request: Request) -> Response:
        if not getattr(request.state, "scraper", False):
            _require_person(request)
        body, media_type = metrics.read()
        return Response(body, headers={"Content-Type": media_type, "Cache-Control": "no-store"})

    return router
