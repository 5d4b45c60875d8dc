"""HTTP/1.1 of uvicorn with less patience: it would wait for a request's headers for ever, and for any number of them.

A connection whose request does not come in time is told so (408) and closed. When there are as many as may be, a
new one takes the place of an idle one, or of one whose caller is not known: who just holds some shuts nobody out.
A request under way of somebody who is known is never ended for another; each caller has only so many.
"""

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from remit.contracts.config.web import WebLimits
from remit.web.config.hosts import counted_as
from remit.web.http.uvicorn_protocol_framing import StrictConnection
from remit.web.http.uvicorn_protocol_gathering import Gathering


class PatientProtocol(H11Protocol):
    """Limit: a TLS handshake that is never finished is asyncio's to end, after a minute."""

    header_seconds: float = 10.0
    most_connections: int = 500
    _timer: asyncio.TimerHandle | None = None
    _is_one_too_many = False

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.conn = StrictConnection(h11.SERVER, self.config.h11_max_incomplete_event_size or 0)
        self.waits_since = self.loop.time()
        self.address: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.most_connections and not self._make_room():
            self._is_one_too_many = True
            transport.abort()  # an answer to each of them would cost more than the connection
            return
        super().connection_made(Gathering(transport, self.loop))  # type: ignore[arg-type]  # one by its ways
        self.address = counted_as(self.client[0]) if self.client else None
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if not self._is_one_too_many:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_one_too_many:
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.waits_since = self.loop.time()
        self._look()

    def _make_room(self) -> bool:
        """Of the address that has most of them, the one that has waited longest; somebody who was known before too, or
        an agent could fill up with idle ones, and each newcomer would push out the one before.
        """
        held = [each for each in self.connections if isinstance(each, PatientProtocol)]
        able = [each for each in held if not (each.is_known and each.is_answering())]
        of_address = Counter(each.address for each in able)
        if not able:
            return False
        shed = min(able, key=lambda each: (-of_address[each.address], each.waits_since))
        self.connections.discard(shed)  # now: the loop says only later that it is lost
        shed.transport.abort()
        return True

    @property
    def is_known(self) -> bool:
        """Whether the guard found out who the last request came from."""
        return bool(self.scope) and self.scope["state"].get("caller") is not None

    def _look(self) -> None:
        """A request is under way: its body has a time limit of its own. Else some of the next one may be here."""
        if self.is_answering():
            self._stop_waiting()
        elif self.conn.trailing_data[0] and self._timer is None:
            self._await_request()

    def is_answering(self) -> bool:
        cycle = getattr(self, "cycle", None)
        return cycle is not None and not cycle.response_complete

    def _await_request(self) -> None:
        self._timer = self.loop.call_later(self.header_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.is_answering() or self.transport.is_closing():
            return
        if self.conn.our_state is h11.IDLE:
            headers = [("connection", "close"), ("content-length", "0")]
            self.transport.write(self.conn.send(h11.Response(status_code=408, headers=headers)) or b"")
            self.transport.write(self.conn.send(h11.EndOfMessage()) or b"")
        self.transport.close()


def patient_protocol(limits: WebLimits) -> type[PatientProtocol]:
    """As patient as the settings say."""

    class AsPatientAsSaid(PatientProtocol):
        header_seconds = float(limits.header_seconds)
        most_connections = limits.connections

    return AsPatientAsSaid
