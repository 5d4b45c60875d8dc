"""Gauges: values that are not counted but looked up at each scrape."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from remit.core.metrics import Labels
from remit.store.connection import Connection

MOST_CHAINS: Final = 1_000
"""The most chains that one scrape reads, so that a scrape stays quick."""


class Gauge(NamedTuple):
    name: str
    meaning: str
    labels: Labels = ()


GaugeValues = Mapping[Gauge, Mapping[Labels, float]]
"""The values found, by gauge. A gauge that could not be looked up is missing, and the scrape leaves it out."""

BUILD: Final = Gauge("remit_build_info", "Always 1; the label says which version this is", ("version",))
CHAINS: Final = Gauge("remit_ledger_chains", "Chains of entries, one for each tenant")
LENGTH: Final = Gauge("remit_ledger_length", "Entries in all chains")
HEAD_AGE: Final = Gauge("remit_ledger_head_age_seconds", "Age of the newest signed head of any chain")
SANDBOX_READY: Final = Gauge("remit_sandbox_ready", "Sandboxed processes, started in advance, that wait for work")
JOBS: Final = Gauge("remit_jobs", "Work started over HTTP or MCP, by state: running, waiting", ("state",))
LISTENERS: Final = Gauge("remit_event_listeners", "Connections that receive the event stream")
QUESTIONS: Final = Gauge("remit_questions_open", "Approval requests that wait for a person", ("kind",))
OLDEST: Final = Gauge("remit_questions_oldest_seconds", "Age of the oldest pending approval request", ("kind",))
HOST_UP: Final = Gauge("remit_browser_host_up", "Whether the browser host of this workspace answered the scrape")

GAUGES: Final = (
    BUILD,
    CHAINS,
    LENGTH,
    HEAD_AGE,
    SANDBOX_READY,
    JOBS,
    LISTENERS,
    QUESTIONS,
    OLDEST,
    HOST_UP,
)

_NEXT_CHAIN: Final = "SELECT min(tenant_id) FROM ledger_heads WHERE tenant_id > ?"
_NEWEST_HEAD: Final = "SELECT seq, signed_at FROM ledger_heads WHERE tenant_id = ? ORDER BY seq DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class Chains:
    count: int
    entries: int
    newest_head: str | None


def read_chains(connection: Connection) -> Chains:
    """Return the number of chains and entries, from the heads alone. No chain is read, and nothing is verified."""
    count, entries, newest = 0, 0, ""
    tenant = ""
    while count < MOST_CHAINS and (row := connection.one(_NEXT_CHAIN, (tenant,))) and row[0] is not None:
        tenant = row[0]
        head = connection.one(_NEWEST_HEAD, (tenant,))
        if head is not None:
            count, entries, newest = count + 1, entries + int(head[0]), max(newest, str(head[1]))
    return Chains(count, entries, newest or None)
