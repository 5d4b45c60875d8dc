"""What a scrape of this server finds: its counters, how the workspace stands, and what the browser host counted."""

import contextlib
from typing import TYPE_CHECKING

from remit.browser_daemon.socket_path import HostPlace
from remit.core.errors import RemitError
from remit.core.ids import parse_time
from remit.core.metrics import Labels
from remit.observability import gauges
from remit.observability.gauges import Gauge
from remit.observability.prometheus_executor_text import SCRAPE_SECONDS, ask_for_text
from remit.observability.prometheus_exposition import render
from remit.version import __version__

if TYPE_CHECKING:
    from remit.services.services import Desk
    from remit.workspace.workspace import Workspace

Found = dict[Gauge, dict[Labels, float]]


def scrape(desk: "Desk") -> tuple[bytes, str]:
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


def _look_at_desk(desk: "Desk", found: Found) -> int:
    found[gauges.SANDBOX_READY] = {(): float(desk.workspace.fleet.ready)}
    found[gauges.JOBS] = {("running",): float(desk.work.running), ("waiting",): float(desk.work.waiting)}
    found[gauges.LISTENERS] = {(): float(desk.events.listeners)}
    now = desk.workspace.clock()
    open_questions = desk.inbox.counts()
    found[gauges.QUESTIONS] = {(kind,): float(count) for kind, (count, _) in open_questions.items()}
    found[gauges.OLDEST] = {
        (kind,): (now - parse_time(oldest)).total_seconds() if oldest else 0.0
        for kind, (_, oldest) in open_questions.items()
    }
    return open_questions["request"][0]


def _look_at_ledger(workspace: "Workspace", found: Found) -> None:
    with workspace.store.reading() as connection:
        chains = gauges.look_at_chains(connection)
    found[gauges.CHAINS] = {(): float(chains.count)}
    found[gauges.LENGTH] = {(): float(chains.entries)}
    if chains.newest_head is not None:
        age = (workspace.clock() - parse_time(chains.newest_head)).total_seconds()
        found[gauges.HEAD_AGE] = {(): max(age, 0.0)}


def _host_text(workspace: "Workspace", found: Found) -> str | None:
    text = None
    with contextlib.suppress(RemitError, OSError):
        connection = HostPlace.of(workspace.state).connect(SCRAPE_SECONDS)
        if connection is not None:
            with connection:
                text = ask_for_text(connection)
    found[gauges.HOST_UP] = {(): float(text is not None)}
    return text


def _own_text(workspace: "Workspace") -> str | None:
    """Goals use a browser of this very process. If none did, there is nothing to tell."""
    if "browsing" not in vars(workspace):
        return None
    with contextlib.suppress(RemitError):
        return workspace.browsing.metrics.render().decode()
    return None
