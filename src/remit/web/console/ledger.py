"""The ledger pages: search, the drawn chain, verification, one whole entry, and the trace of a correlation."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from remit.contracts.ledger import LedgerEntry
from remit.contracts.services.ledger import Chain, EntryFilter, EntryView
from remit.core.errors import RefusedError, RemitError
from remit.core.ids import DEFAULT_TENANT
from remit.ledger.entry import Entry
from remit.services.base.entry_text import render_meaning
from remit.web.console.forms import Filled
from remit.web.console.pages import ConsoleRoute, get_services, page, redirect_to, require_viewer
from remit.web.console.templating import address
from remit.web.http.problems import status_of

router: Final = APIRouter(route_class=ConsoleRoute, include_in_schema=False)
EACH_PAGE: Final = 50
BLOCKS: Final = 7
VERIFY_WAIT: Final = 1.0
MAX_FACT_LENGTH: Final = 140
MOST_FACTS: Final = 12
FILTERS: Final = ("kind", "correlation", "actor", "text", "since", "until")
_FURTHER: Final = ("_ref", "_hash", "_id", "_key", "digest")
_DATE_LENGTH: Final = 10


class LedgerLine(NamedTuple):
    """One entry in a list, with a summary of its payload."""

    view: EntryView
    summary: str

    @property
    def path(self) -> str:
        return address("/ledger/entry", tenant=self.view.entry.tenant_id, seq=self.view.entry.seq)

    @property
    def trace(self) -> str:
        entry = self.view.entry
        return address("/ledger/trace", tenant=entry.tenant_id, correlation=entry.correlation_id)


class Block(NamedTuple):
    """One entry in the drawing of the chain. The newest entry is on the right."""

    x: int
    seq: int
    kind: str
    hash: str
    is_head: bool
    path: str


@router.get("/ledger")
def ledger(request: Request, tenant: str = DEFAULT_TENANT, cursor: str = "") -> Response:
    viewer = require_viewer(request)
    record = get_services(request).ledger
    chains = record.list_chains(viewer.caller)
    filters = {name: request.query_params.get(name, "").strip() for name in FILTERS}
    problem: RemitError | None = None
    items: Sequence[EntryView] = ()
    older = None
    try:
        found = record.list_entries(viewer.caller, tenant, _filter(filters), cursor or None, EACH_PAGE)
    except RefusedError as refused:
        problem = refused
    else:
        items = found.items
        older = address("/ledger", tenant=tenant, cursor=found.next, **filters) if found.next else None
    chain = next((each for each in chains if each.tenant_id == tenant), None)
    newest = record.list_entries(viewer.caller, tenant, limit=BLOCKS).items if chain is not None else ()
    return page(
        request,
        "ledger.html",
        status_of(problem) if problem else 200,
        here="/ledger",
        tenant=tenant,
        chains=chains,
        chain=chain,
        blocks=_blocks(newest, chain),
        filters=filters,
        searching=any(filters.values()) or bool(cursor),
        lines=[LedgerLine(each, summarise_entry(each.entry)) for each in items],
        older=older,
        problem=problem,
    )


@router.get("/ledger/entry")
def entry(request: Request, tenant: str = "", seq: int = 0) -> Response:
    viewer = require_viewer(request)
    found = get_services(request).ledger.read_entry(viewer.caller, tenant, seq)
    pretty = json.dumps(found.entry.payload, ensure_ascii=False, indent=2)
    return page(request, "entry.html", here="/ledger", view=found, entry=found.entry, payload=pretty)


@router.get("/ledger/trace")
def trace(request: Request, tenant: str = DEFAULT_TENANT, correlation: str = "") -> Response:
    viewer = require_viewer(request)
    found = get_services(request).ledger.trace(viewer.caller, tenant, correlation)
    return page(request, "trace.html", here="/ledger", traced=found, list_facts=list_facts)


@router.get("/ledger/verify")
def verified(request: Request) -> Response:
    """Show the result of the last check, if this server ran one. To open the page starts no check."""
    viewer = require_viewer(request)
    services = get_services(request)
    known = services.jobs.find("verify:all tenants") is not None
    answer = services.ledger.verify(viewer.caller, None, 0.0, again=False) if known else None
    return page(
        request, "verify.html", here="/ledger", answer=answer, chains=services.ledger.list_chains(viewer.caller)
    )


@router.post("/ledger/verify")
def verify(request: Request, form: Filled) -> Response:  # noqa: ARG001 - it has only the csrf token
    viewer = require_viewer(request)
    get_services(request).ledger.verify(viewer.caller, None, VERIFY_WAIT)
    return redirect_to("/ledger/verify")


@router.get("/ledger/evidence")
def evidence(request: Request, tenant: str = DEFAULT_TENANT, correlation: str = "") -> Response:
    """Redirect to the bundle that programs get. A browser sends the session there too."""
    require_viewer(request)
    query = f"?{urlencode({'correlation_id': correlation})}" if correlation else ""
    return redirect_to(f"/v1/ledger/{quote(tenant, safe='')}/bundle{query}")


def summarise_entry(entry: LedgerEntry) -> str:
    """Summarise the entry in the same words as at a terminal."""
    tree = entry.tree()
    text = json.dumps(tree["payload"], ensure_ascii=False)
    return render_meaning(Entry(**{name: tree[name] for name in Entry._fields if name != "payload"}, payload=text))


class TraceFacts(NamedTuple):
    """The facts of one node of a trace: the main facts, and the ids and digests that prove them."""

    primary: list[tuple[str, str]]
    further: list[tuple[str, str]]


def list_facts(node: Mapping[str, Any]) -> TraceFacts:
    primary: list[tuple[str, str]] = []
    further: list[tuple[str, str]] = []
    for name, value in (node.get("facts") or {}).items():
        if value in (None, "", [], {}):
            continue
        (further if name.endswith(_FURTHER) or name == "source" else primary).append((str(name), _short(value)))
    return TraceFacts(primary[:MOST_FACTS], further)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_FACT_LENGTH else f"{text[:MAX_FACT_LENGTH]}…"


def _filter(filters: Mapping[str, str]) -> EntryFilter:
    tree = {
        "kind": filters["kind"] or None,
        "correlation_id": filters["correlation"] or None,
        "actor": filters["actor"] or None,
        "text": filters["text"] or None,
        "since": _time(filters["since"]),
        "until": _time(filters["until"]),
    }
    return EntryFilter.from_tree(tree, source="the search")


def _time(text: str) -> str | None:
    """Read a day, or a day with a time, as browsers send it. All times are UTC."""
    if not text:
        return None
    if len(text) == _DATE_LENGTH:
        text += "T00:00:00"
    elif text.count(":") == 1:
        text += ":00"
    return text if text.endswith("Z") else f"{text}.000000Z"


def _blocks(newest: Sequence[EntryView], chain: Chain | None) -> list[Block]:
    head = chain.head.seq if chain is not None and chain.head is not None else 0
    across = 142
    return [
        Block(
            10 + place * across,
            view.entry.seq,
            view.entry.kind,
            view.entry.hash[-12:],
            view.entry.seq == head,
            address("/ledger/entry", tenant=view.entry.tenant_id, seq=view.entry.seq),
        )
        for place, view in enumerate(reversed(newest))
    ]
