"""An event of the stream as it is sent. It is rendered once for all listeners that get the same text."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from remit.contracts.services.common import Event
from remit.core.ids import render_time
from remit.ledger.entry import Entry

LAGGED: Final = "desk.lagged"
PROGRESS: Final = "work.progress"
MAX_PAYLOAD: Final = 16 << 10
"""The largest payload in an event. A larger payload is left out, and a listener can read the entry instead."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event for listeners.

    `id` is the position after it in the stream, or None if it is not in the ledger. `text` is the event as JSON, on one
    line.
    """

    id: str | None
    kind: str
    _body: dict[str, Any] = field(repr=False)
    _text: list[str] = field(default_factory=list, repr=False, compare=False)
    _stream: list[bytes] = field(default_factory=list, repr=False, compare=False)

    @property
    def tenant(self) -> str | None:
        tenant: str | None = self._body["tenant"]
        return tenant

    @property
    def text(self) -> str:
        if not self._text:
            self._text.append(json.dumps({"id": self.id, **self._body}, separators=(",", ":")))
        return self._text[0]

    @property
    def stream(self) -> bytes:
        """The event in the format of `text/event-stream`. Its text is on one line, so it cannot begin another event."""
        if not self._stream:
            id_line = f"id: {self.id}\n" if self.id is not None else ""
            self._stream.append(f"{id_line}event: {self.kind}\ndata: {self.text}\n\n".encode())
        return self._stream[0]

    @property
    def event(self) -> Event:
        return Event.from_tree({"id": self.id, **self._body}, source="an event")

    def at_position(self, position: str, *, for_agent: bool = False) -> "StreamEvent":
        """Return the event with its position in the stream.

        An agent gets neither the payload nor the number of entries before it. Those are for people.
        """
        body = {**self._body, "payload": None, "actor": None, "seq": None} if for_agent else self._body
        return StreamEvent(position, self.kind, body)


def make_stream_event(entry: Entry) -> StreamEvent:
    body = {
        "kind": entry.kind,
        "at": entry.created_at,
        "tenant": entry.tenant_id,
        "seq": entry.seq,
        "correlation_id": entry.correlation_id,
        "task_id": entry.task_id,
        "actor": entry.actor,
        "payload": _payload(entry.payload),
    }
    return StreamEvent(None, entry.kind, body)


def make_transient_event(kind: str, at: datetime, payload: dict[str, Any], about: str | None = None) -> StreamEvent:
    body = {
        "kind": kind,
        "at": render_time(at),
        "tenant": None,
        "seq": None,
        "correlation_id": about,
        "task_id": None,
        "actor": None,
        "payload": payload,
    }
    return StreamEvent(None, kind, body)


def _payload(text: str) -> Any:
    """Return the payload, or None if it is too large or not a JSON object.

    Only another program can write a row that is not a JSON object. The stream continues after it.
    """
    if len(text) > MAX_PAYLOAD:
        return None
    try:
        tree = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None
