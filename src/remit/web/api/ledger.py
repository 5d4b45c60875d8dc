"""/v1/ledger: the ledger. It can be listed, traced, verified, and exported as evidence."""

from collections.abc import Iterator
from typing import IO, Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from remit.contracts.ledger import LedgerHead
from remit.contracts.services.common import Page
from remit.contracts.services.ledger import Chain, EntryFilter, EntryPage, EntryView, TraceAnswer, VerifyAnswer
from remit.services.base.permissions import Right
from remit.web.api.request_models import VerifyWish
from remit.web.http.openapi import operation
from remit.web.http.request import BodyRequestDep, Cursor, Limit, PathId, RequestDep, accepted_response, json_response

router = APIRouter(tags=["ledger"])
_TENANT: Final = "/v1/ledger/{tenant}"
_VERIFY: Final = "/v1/ledger/verify"
BUNDLE: Final = "application/x-ndjson"
_CHUNK: Final = 64 << 10
Chains = Page[Chain]
Heads = Page[LedgerHead]
Named = Annotated[str | None, Query(min_length=1, max_length=200)]
Time = Annotated[str | None, Query(max_length=27, description="RFC 3339 in UTC, such as 2026-11-01T00:00:00Z.")]
Seq = Annotated[int, Path(ge=1, le=2**53 - 1, description="The sequence number of the entry in its chain.")]


@router.get(
    "/v1/ledger",
    **operation("listChains", "List the chains with their tenants and heads", right=Right.SEE, answers={200: Chains}),
)
def list_chains(call: RequestDep) -> Response:
    return json_response(Chains(items=tuple(call.services.ledger.list_chains(call.caller)[:1_000])))


@router.get(
    "/v1/ledger/heads",
    **operation(
        "listHeads",
        "List the newest signed head of each chain, to store on another machine",
        right=Right.SEE,
        answers={200: Heads},
    ),
)
def list_heads(call: RequestDep) -> Response:
    return json_response(Heads(items=tuple(call.services.ledger.list_heads(call.caller)[:1_000])))


@router.post(
    _VERIFY,
    **operation(
        "verifyLedger",
        "Verify every hash, link and signature",
        right=Right.SEE,
        body=VerifyWish,
        answers={200: VerifyAnswer, 202: VerifyAnswer},
    ),
)
def verify_ledger(call: BodyRequestDep) -> Response:
    body = call.parse(VerifyWish)
    with call.waiting() as wait:
        return _to_response(call.services.ledger.verify(call.caller, body.tenant, wait), body.tenant)


@router.get(
    _VERIFY,
    **operation(
        "getVerdict",
        "Get the result or the progress of the last verification",
        right=Right.SEE,
        answers={200: VerifyAnswer, 202: VerifyAnswer},
    ),
)
def get_verdict(call: RequestDep, tenant: Named = None) -> Response:
    with call.waiting() as wait:
        return _to_response(call.services.ledger.verify(call.caller, tenant, wait, again=False), tenant)


@router.get(
    f"{_TENANT}/entries",
    **operation(
        "listEntries", "List the entries of one chain, the newest first", right=Right.SEE, answers={200: EntryPage}
    ),
)
def list_entries(  # noqa: PLR0913 - one for each filter
    call: RequestDep,
    *,
    tenant: PathId,
    kind: Annotated[str | None, Query(max_length=100, pattern=r"^[a-z0-9_.-]*$")] = None,
    correlation_id: Named = None,
    task_id: Named = None,
    actor: Named = None,
    text: Named = None,
    since: Time = None,
    until: Time = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """`kind` is a prefix, such as `task.`. `text` is searched for in the recorded data."""
    wanted = {
        "kind": kind,
        "correlation_id": correlation_id,
        "task_id": task_id,
        "actor": actor,
        "text": text,
        "since": since,
        "until": until,
    }
    filters = EntryFilter.from_tree(wanted, source="query")
    return json_response(call.services.ledger.list_entries(call.caller, tenant, filters, cursor, limit))


@router.get(
    f"{_TENANT}/entries/{{seq}}",
    **operation(
        "getEntry", "Get one entry, and whether a signed head covers it", right=Right.SEE, answers={200: EntryView}
    ),
)
def get_entry(call: RequestDep, tenant: PathId, seq: Seq) -> Response:
    return json_response(call.services.ledger.read_entry(call.caller, tenant, seq))


@router.get(
    f"{_TENANT}/trace/{{correlation_id}}",
    **operation(
        "traceCorrelation",
        "Get all entries of one correlation, as a tree",
        right=Right.SEE,
        answers={200: TraceAnswer},
    ),
)
def trace_correlation(call: RequestDep, tenant: PathId, correlation_id: PathId) -> Response:
    return json_response(call.services.ledger.trace(call.caller, tenant, correlation_id))


@router.get(
    f"{_TENANT}/bundle",
    **operation(
        "exportBundle",
        "Export evidence as JSON lines, which anyone with the public key can verify",
        right=Right.SEE,
        answers={200: BUNDLE},
    ),
)
def export_bundle(call: RequestDep, tenant: PathId, correlation_id: Named = None) -> Response:
    bundle = call.services.ledger.open_bundle(call.caller, tenant, correlation_id)
    headers = {"Content-Disposition": 'attachment; filename="evidence.jsonl"'}
    return StreamingResponse(_chunks(bundle), 200, headers, BUNDLE, BackgroundTask(bundle.close))


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    with stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _to_response(found: VerifyAnswer, tenant: str | None) -> Response:
    if found.state == "running":
        return accepted_response(found, _VERIFY + (f"?tenant={quote(tenant, safe='')}" if tenant else ""))
    return json_response(found)
