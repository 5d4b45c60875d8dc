"""/v1/events: the stream of events."""

from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse

from remit.services.base.permissions import Right
from remit.web.http.openapi import operation
from remit.web.http.request import RequestDep
from remit.web.http.sse import MEDIA_TYPE, event_stream

router = APIRouter()
Place = Annotated[
    str | None, Query(min_length=1, max_length=65_536, description="The stream starts after the event with this id.")
]
LastEvent = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=65_536, description="The same as `after`. Browsers send this header."),
]


@router.get(
    "/v1/events",
    **operation("listenToEvents", "Stream events as they happen", right=Right.SEE_OWN, answers={200: MEDIA_TYPE}),
)
async def events(call: RequestDep, last_event_id: LastEvent = None, after: Place = None) -> StreamingResponse:
    return await event_stream(call.request, last_event_id or after)
